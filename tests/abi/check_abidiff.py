#!/usr/bin/env python3
"""The shared library is one that programs built against an earlier one can use.

Usage: check_abidiff.py SOURCE_DIR LIBRARY [--update]

abidiff compares it with tests/abi/gantry.abi.  New functions, new fields at the end of a struct and new values of
an enum are fine; anything else is not.  --update writes the baseline anew: after a release, or, before there is
one, after a change that was meant.  Each exported symbol must have a version.

Exit status 77 without the abidiff that the baseline is for: descriptions of two versions differ by themselves
(Debian 12: package abigail-tools).
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

VERSION = "2.2.0"
GROWTH = """
[suppress_type]
  type_kind = struct
  has_data_member_inserted_at = end
"""


def unversioned(library):
    output = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return [line for line in output.splitlines() if " A " not in line and not re.search(r"@@?GANTRY_\d", line)]


def main(source, library, update):
    found = shutil.which("abidiff") and subprocess.run(["abidiff", "--version"], check=True, capture_output=True, text=True).stdout
    if VERSION not in (found or ""):
        print(f"skipped: abidiff {VERSION} is not installed", file=sys.stderr)
        return 77
    source = pathlib.Path(source)
    headers, baseline = str(source / "include"), source / "tests/abi/gantry.abi"
    if update:
        subprocess.run(["abidw", "--headers-dir", headers, "--drop-private-types", "--no-corpus-path", "--no-comp-dir-path",
                        "--no-show-locs", "--exported-interfaces-only", "--out-file", str(baseline), library], check=True)
    with tempfile.NamedTemporaryFile("w", suffix=".suppr") as suppressions:
        suppressions.write(GROWTH)
        suppressions.flush()
        result = subprocess.run(["abidiff", "--headers-dir2", headers, "--drop-private-types", "--no-added-syms",
                                 "--suppressions", suppressions.name, str(baseline), library], check=False)
    lacking = unversioned(library)
    for line in lacking:
        print(f"no version: {line}")
    if result.returncode != 0:
        print(f"abidiff: {result.returncode}; a change that was meant: run tests/abi/check_abidiff.py . LIBRARY --update")
    return 1 if result.returncode != 0 or lacking else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], "--update" in sys.argv[3:]))
