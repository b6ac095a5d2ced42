#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The scripts of the root say how they are called when a word is wrong, wherever they are called from, and how far a build is.

Usage: test_scripts.py SOURCE_DIR
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1]).resolve()


class Scripts(unittest.TestCase):
    def test_wrong_words_are_usage_errors(self):
        for script, *words in (("check.sh", "--crane"), ("check.sh", "--fast", "crane"), ("quickstart.sh", "crane")):
            result = subprocess.run([f"{SOURCE.name}/{script}", *words], cwd=SOURCE.parent, capture_output=True,
                                    text=True, stdin=subprocess.DEVNULL, timeout=60)
            self.assertEqual((result.returncode, result.stdout), (2, ""), script)
            self.assertIn(f"  ./{script}  ", result.stderr)

    def show_progress(self, lines):
        shell = subprocess.run(["bash", "-euo", "pipefail", "-c", f"source '{SOURCE}/tools/progress.sh'; show_progress"], input="\n".join(lines) + "\n",
                               capture_output=True, text=True, timeout=60, check=True)
        self.assertEqual(shell.stderr, "")
        return shell.stdout.splitlines()

    def test_each_tenth_of_a_build_is_told(self):
        lines = [f"[{step}/25] Building C object {step}" for step in range(1, 26)]
        self.assertEqual(self.show_progress(lines), [f"  {tenth}0 %" for tenth in range(1, 11)])
        self.assertEqual(self.show_progress(["a warning", "[0/2] Re-checking", "[1/2] Building", "[2/2] Linking"]), ["  50 %", "  100 %"])
        self.assertEqual(self.show_progress(["ninja: no work to do."]), [])

    def test_both_scripts_tell_it(self):
        for script in ("check.sh", "quickstart.sh"):
            self.assertRegex((SOURCE / script).read_text(), r"cmake --build .*\| tee -a .*\| show_progress", script)

    def pages(self, *arguments, **environment):
        return subprocess.run([sys.executable, SOURCE / "tools/site/site_pages.py", *arguments], capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, **environment})

    def test_a_site_without_its_tools_says_how_to_install_them(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.pages(SOURCE, folder, PATH=folder)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^error: missing are doxygen.*\n    sudo apt-get install doxygen")

    def test_a_site_is_made_with_the_python_of_a_virtual_environment(self):
        with tempfile.TemporaryDirectory() as folder:
            python = pathlib.Path(folder, "bin/python")
            python.parent.mkdir()
            python.write_text("#!/bin/sh\nexit 0\n")  # as one that lacks nothing does
            python.chmod(0o755)
            done = self.pages("--missing", VIRTUAL_ENV=folder)
            self.assertIn(done.stdout.split(), ([], ["doxygen"]))
            python.write_text("#!/bin/sh\nexit 1\n")
            done = self.pages("--missing", VIRTUAL_ENV=folder)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_installs_packages_knows_each_that_it_is_asked_for(self):
        asked = set(re.findall(r"[\w+.-]+", " ".join(re.findall(r"^(?:require|want|\[.*\] \|\| want) ((?:[^\n]*\\\n)*[^\n]*)$",
                                                               (SOURCE / "check.sh").read_text(), re.M))))
        self.assertIn("doxygen", asked)
        for package in asked:
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", f"source '{SOURCE}/tools/packages.sh'; have {package} || :"],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), package)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
