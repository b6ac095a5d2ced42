#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/branches.py on a library of two files, one of which is compiled twice.

Usage: test_branches.py SOURCES COMPILER
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

COMPILER, SOURCES = sys.argv.pop(), sys.argv.pop()

FILES = {
    "heap/bounds.c": """#include <assert.h>
int bounded(int value);
int bounded(int value)
{
    assert(value != 99);
    if (value < 0) {
        return 0;
    }
    if (value > 9) {
        return 9;
    }
    return value;
}
""",
    "work/sign.c": """int bounded(int value);
int sign_of(int value);
int sign_of(int value)
{
    return bounded(value) == 0 ? -1 : 1;
}
""",
    "tests/one.c": "int sign_of(int value);\nint main(void) { return sign_of(-4) == 1; }\n",
    "tests/two.c": "int sign_of(int value);\nint main(void) { return sign_of(4) == -1; }\n",
}


class Branches(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = os.path.join(self.folder.name, "it")
        self.build = os.path.join(self.root, "build")
        for path, text in FILES.items():
            path = os.path.join(self.root, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        for program, library in (("one", "gantry"), ("two", "gantry_testing")):
            objects = []
            for source in ("heap/bounds.c", "work/sign.c", f"tests/{program}.c"):
                target = os.path.join(self.build, f"{library}.dir", source + ".o")
                os.makedirs(os.path.dirname(target), exist_ok=True)
                subprocess.run([COMPILER, "--coverage", "-O0", "-c", "-o", target, os.path.join(self.root, source)], check=True)
                objects.append(target)
            subprocess.run([COMPILER, "--coverage", "-o", os.path.join(self.build, program), *objects], check=True)

    def tearDown(self):
        self.folder.cleanup()

    def ask(self, *arguments):
        done = subprocess.run([sys.executable, os.path.join(SOURCES, "tools/branches.py"), *arguments, "build", self.root],
                              cwd=self.root, capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout + done.stderr

    def test_a_build_without_counters(self):
        status, output = self.ask()
        self.assertEqual(status, 1)
        self.assertIn("no counters in", output)

    def test_what_either_took_counts(self):
        subprocess.run([os.path.join(self.build, "one")], check=True)
        status, output = self.ask()
        self.assertEqual(status, 0, output)
        self.assertIn("| heap | 1 | 4 | 1 | 25.0 |", output)
        self.assertIn("| work | 1 | 2 | 1 | 50.0 |", output)
        subprocess.run([os.path.join(self.build, "two")], check=True)
        status, output = self.ask()
        self.assertEqual(status, 0, output)
        self.assertIn("| heap | 1 | 4 | 3 | 75.0 |", output)
        self.assertIn("| work | 1 | 2 | 2 | 100.0 |", output)
        self.assertIn("| all | 2 | 6 | 5 | 83.3 |", output)
        self.assertIn("1 files below 85 % of their branches:\n 75.0 %  heap/bounds.c: 3 of 4\n", output)
        self.assertEqual(self.ask("--lines", "heap/bounds.c")[1],
                         "heap/bounds.c:9: 1 of 2 not taken: if (value > 9) {\n")


if __name__ == "__main__":
    version = subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=False).stdout
    if shutil.which("gcov") is None or "Free Software Foundation" not in version:
        print("skipped: gcc with its gcov is missing", file=sys.stderr)
        sys.exit(77)
    unittest.main()
