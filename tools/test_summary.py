#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Add up the JUnit files of several ctest runs.

Usage: test_summary.py FILE...

Prints each failed test, each skipped one with its reason (the line "skipped: why" that the test wrote), what
passing tests have left out (their lines "left out: why"), and a last line "N passed, N failed, N skipped".  A file that is missing, unreadable or without tests counts
as one failure.  The exit status is 1 when anything failed, else 0.
"""
import re
import sys
import xml.etree.ElementTree as ElementTree


def reason(case):
    """The "skipped: why" line of a test's output."""
    output = case.findtext("system-out") or ""
    match = re.search(r"skipped: *(.+)", output)
    return match.group(1).strip() if match else "no reason given"


def left_out(path):
    """[(name of a test that passed, why a part of it was left out)] of one file; each once."""
    try:
        cases = ElementTree.parse(path).getroot().findall("testcase")
    except (OSError, ElementTree.ParseError):
        return []
    lines = [(case.get("name"), why.strip()) for case in cases if case.get("status") == "run"
             for why in re.findall(r"^left out: *(.+)", case.findtext("system-out") or "", re.MULTILINE)]
    return list(dict.fromkeys(lines))


def read(path):
    """(passed, [failed names], [(skipped name, why)]) of one file."""
    try:
        cases = ElementTree.parse(path).getroot().findall("testcase")
    except (OSError, ElementTree.ParseError) as error:
        return 0, [f"no results: {error}"], []
    if not cases:
        return 0, ["no tests were run"], []
    passed, failed, skipped = 0, [], []
    for case in cases:
        status, name = case.get("status"), case.get("name")
        if status == "run":
            passed += 1
        elif status == "notrun" and case.find("skipped") is not None and "SKIP" in (
                case.find("skipped").get("message") or ""):
            skipped.append((name, reason(case)))
        else:
            failed.append(name if status == "fail" else f"{name} ({status})")
    return passed, failed, skipped


def main(arguments):
    total_passed, total_failed, total_skipped = 0, 0, 0
    for path in arguments:
        passed, failed, skipped = read(path)
        total_passed += passed
        total_failed += len(failed)
        total_skipped += len(skipped)
        for name in failed:
            print(f"FAILED  {path}: {name}")
        for name, why in skipped:
            print(f"skipped {path}: {name}: {why}")
        for name, why in left_out(path):
            print(f"left out of {path}: {name}: {why}")
    print(f"{total_passed} passed, {total_failed} failed, {total_skipped} skipped")
    return 1 if total_failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
