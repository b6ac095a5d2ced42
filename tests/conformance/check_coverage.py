#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every function of the driver table (driver/funcs.h) is called by the conformance suite.

Usage: check_coverage.py SOURCE_DIR
"""
import pathlib
import re
import sys


def main(source):
    table = re.findall(r"F\((?:true|false), (\w+),", (source / "driver/funcs.h").read_text())
    text = "\n".join(path.read_text() for path in sorted((source / "tests/conformance").glob("*.c")))
    called = set(re.findall(r"(?:cu->|cu_ok\(|cu_is\(\s*\w+,\s*)(\w+)\(", text))
    missing = [name for name in table if name not in called]
    print(f"{len(table)} functions, {len(table) - len(missing)} of them are called")
    for name in missing:
        print(f"{name}: not called with cu_ok(), cu_is() or cu-> in tests/conformance")
    return 1 if missing or len(table) < 100 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
