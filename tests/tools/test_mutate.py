#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/mutate on a project of one function and one test.

Usage: test_mutate.py SOURCES
"""
import os
import subprocess
import sys
import tempfile
import unittest

SOURCES = sys.argv.pop(1)
MUTATE = os.path.join(SOURCES, "tools", "mutate")

FILES = {
    "CMakeLists.txt": """cmake_minimum_required(VERSION 3.25)
project(sum C)
enable_testing()
add_executable(test_sum sum.c test_sum.c)
add_test(NAME sum.all COMMAND test_sum)
""",
    "sum.c": """int sum(int count)
{
    int result = 0;
    for (int i = 1; i <= count; i++) {
        result += i;
    }
    return result;
}
""",
    "test_sum.c": """int sum(int count);

int main(void)
{
    return sum(4) != 10;
}
""",
    "tests/mutations/sum.toml": """
[[mutation]]
name = "one-less"
file = "sum.c"
old = '''i <= count'''
new = '''i < count'''
tests = "sum.all"
note = "the last is missing"

[[mutation]]
name = "from-zero"
file = "sum.c"
old = '''int i = 1'''
new = '''int i = 0'''
tests = "sum.all"
equivalent = true
""",
}
LIVES = """
[[mutation]]
name = "two"
file = "sum.c"
old = '''int result = 0;'''
new = '''int result = count > 9;'''
tests = "sum.all"
note = "no test sums so many"
"""
STALE = """
[[mutation]]
name = "stale"
file = "sum.c"
old = '''i <= most'''
new = '''i < most'''
tests = "sum.all"
"""


class Mutate(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = os.path.join(self.folder.name, "sum")
        for path, text in FILES.items():
            path = os.path.join(self.root, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)

    def tearDown(self):
        self.folder.cleanup()

    def run_it(self, *arguments, table=""):
        with open(os.path.join(self.root, "tests/mutations/more.toml"), "w", encoding="utf-8") as file:
            file.write(table)
        result = subprocess.run([sys.executable, MUTATE, "--root", self.root, *arguments], check=False, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        return result.returncode, result.stdout

    def test_what_is_noticed_and_what_is_not(self):
        status, output = self.run_it("--only", "one-less|from-zero")
        self.assertEqual(status, 0, output)
        self.assertIn("1 of 1 mistakes noticed: 100.0 %; 1 change nothing; 0 entries to mend", output)
        status, output = self.run_it("--only", "one-less|two", table=LIVES)
        self.assertEqual(status, 1, output)
        self.assertNotIn("one-less: noticed", output)  # known already
        self.assertIn("LIVED: two (sum.c): no test sums so many", output)
        self.assertIn("1 of 2 mistakes noticed: 50.0 %", output)
        status, output = self.run_it("--only", "one-less|stale", table=STALE)
        self.assertEqual(status, 1, output)
        self.assertIn("STALE", output)
        with open(os.path.join(self.root, "sum.c"), encoding="utf-8") as file:
            self.assertEqual(file.read(), FILES["sum.c"])

    def test_lists_and_checks(self):
        status, output = self.run_it("--list")
        self.assertEqual(status, 0, output)
        self.assertIn("sum: one-less (sum.c; sum.all): the last is missing", output)
        self.assertEqual(self.run_it("--check")[0], 0)
        status, output = self.run_it("--check", table=STALE)
        self.assertEqual(status, 1, output)
        self.assertIn("more: stale: its text is not in sum.c once", output)
        self.assertEqual(self.run_it("--only", "nothing")[0], 1)
        self.assertEqual(self.run_it("--check", table=STALE.replace("tests", "test"))[0], 1)

    def test_the_tables_of_the_sources(self):
        result = subprocess.run([sys.executable, MUTATE, "--list"], check=False, capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    unittest.main()
