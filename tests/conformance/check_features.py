#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The table of docs/design/driver.md about features and drivers is what an emulated driver of each version shows.

Usage: check_features.py SOURCE_DIR PROGRAM
"""
import os
import pathlib
import re
import subprocess
import sys

HEAD = "| what happens with a driver for CUDA"


def read_table(document):
    lines = document.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(HEAD))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip().strip("|").split("|")])
    versions = [re.search(r"(\d+)\.(\d+)", cell).groups() for cell in rows[0][1:]]
    return versions, {row[0]: row[1:] for row in rows[2:]}


def main(source, program):
    versions, table = read_table(source / "docs/design/driver.md")
    failures = 0
    for column, (major, minor) in enumerate(versions):
        environment = {**os.environ, "GANTRY_EMU_PROFILE": "cuda=" + str(int(major) * 1000 + int(minor) * 10), "GANTRY_LOG": ""}
        printed = subprocess.run([program], env=environment, capture_output=True, text=True, check=False)
        if printed.returncode != 0:
            print(f"CUDA {major}.{minor}: {printed.stderr}")
            return 1
        seen = dict(line.rsplit(": ", 1) for line in printed.stdout.splitlines())
        for feature in sorted(seen.keys() | table.keys()):
            said = table.get(feature, [None] * len(versions))[column]
            if said != seen.get(feature):
                print(f"CUDA {major}.{minor}: {feature}: {seen.get(feature)}, the document says {said}")
                failures += 1
    print(f"{len(versions)} drivers, {len(table)} features, {failures} differences")
    return 1 if failures or len(versions) < 5 or len(table) < 5 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2]))
