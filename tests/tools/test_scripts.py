#!/usr/bin/env python3
"""The scripts of the root say how they are called when a word is wrong, wherever they are called from, and how far a build is.

Usage: test_scripts.py SOURCE_DIR
"""
import pathlib
import subprocess
import sys
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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
