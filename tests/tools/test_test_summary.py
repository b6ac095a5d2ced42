#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/test_summary.py counts every kind of result of ctest's JUnit files."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/test_summary.py"

CASES = {
    "passed": '<testcase name="a" status="run"><system-out>fine</system-out></testcase>',
    "failed": '<testcase name="b" status="fail"><failure message=""/><system-out>bad</system-out></testcase>',
    "skipped": '<testcase name="c" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>'
               '<system-out>skipped: no device\n</system-out></testcase>',
    "partly": '<testcase name="f" status="run"><system-out>left out: one device\n'
              'left out: one device\nfine\n</system-out></testcase>',
    "not found": '<testcase name="d" status="notrun"><skipped message="Unable to find executable"/></testcase>',
    "disabled": '<testcase name="e" status="disabled"><skipped message="Disabled"/></testcase>',
}


def summarise(*files):
    """Exit status and output lines for files with the given texts (None: a file that is not there)."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for index, text in enumerate(files):
            paths.append(str(pathlib.Path(folder, f"{index}.xml")))
            if text is not None:
                pathlib.Path(paths[-1]).write_text(text)
        result = subprocess.run([sys.executable, str(TOOL), *paths], capture_output=True, text=True)
        return result.returncode, result.stdout.splitlines()


def suite(*kinds):
    return "<testsuite>" + "".join(CASES[kind] for kind in kinds) + "</testsuite>"


class TestSummary(unittest.TestCase):
    def test_all_passed(self):
        status, lines = summarise(suite("passed", "passed"))
        self.assertEqual((status, lines), (0, ["2 passed, 0 failed, 0 skipped"]))

    def test_files_are_added_up(self):
        status, lines = summarise(suite("passed", "failed"), suite("passed", "skipped"))
        self.assertEqual((status, lines[-1]), (1, "2 passed, 1 failed, 1 skipped"))
        self.assertTrue(lines[0].startswith("FAILED") and lines[0].endswith(": b"))

    def test_a_skip_has_its_reason_and_does_not_fail(self):
        status, lines = summarise(suite("passed", "skipped"))
        self.assertEqual((status, lines[-1]), (0, "1 passed, 0 failed, 1 skipped"))
        self.assertTrue(lines[0].endswith(": c: no device"))

    def test_what_was_left_out_is_listed_once(self):
        status, lines = summarise(suite("partly"))
        self.assertEqual((status, lines[1:]), (0, ["1 passed, 0 failed, 0 skipped"]))
        self.assertTrue(lines[0].startswith("left out of ") and lines[0].endswith(": f: one device"))

    def test_what_could_not_run_is_a_failure(self):
        for kind in ("not found", "disabled"):
            self.assertEqual(summarise(suite(kind))[0], 1)

    def test_no_results_are_a_failure(self):
        for text in (None, "", "<testsuite/>", "no xml"):
            status, lines = summarise(suite("passed"), text)
            self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))


if __name__ == "__main__":
    unittest.main()
