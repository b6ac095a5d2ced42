#!/usr/bin/env python3
"""The scripts of the root say how they are called when a word is wrong, wherever they are called from.

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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
