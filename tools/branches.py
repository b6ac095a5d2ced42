#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which branches of the library do the tests take?  A table per room, and the files of which they take few.

Usage: branches.py [--least PERCENT] [--lines FILE] BUILD [ROOT]

BUILD is a build folder of the preset `coverage`, after its tests (./check.sh --coverage).  The library is in it twice, as
shipped and as tests link it: a branch that one of them took was taken.  Lines with an assertion do not count, as nobody takes
the branch that fails.  With --lines the lines of a file are printed of which a branch was not taken.
"""
import argparse
import collections
import glob
import json
import os
import re
import subprocess
import sys

ASSERTIONS = re.compile(r"^\s*(static_)?assert\(")
AT_ONCE = 40  # data files for one call of gcov


def read_counters(build):
    """What gcov says of each object of the library, one after the other."""
    paths = [path for path in glob.glob(os.path.join(build, "**", "*.gcda"), recursive=True)
             if re.search(r"/gantry(_testing)?\.dir/", path)]
    for first in range(0, len(paths), AT_ONCE):
        done = subprocess.run(["gcov", "--branch-probabilities", "--json-format", "--stdout", *paths[first:first + AT_ONCE]],
                              cwd=build, check=True, stdout=subprocess.PIPE)
        for line in done.stdout.splitlines():
            yield from json.loads(line)["files"]


def add_up(files, root):
    """path -> line -> how often each of its branches was taken"""
    taken = collections.defaultdict(dict)
    for file in files:
        path = os.path.relpath(os.path.join(root, file["file"].lstrip("/") if not os.path.exists(file["file"]) else file["file"]), root)
        for line in file["lines"]:
            counts = [branch["count"] for branch in line["branches"]]
            known = taken[path].get(line["line_number"], [])
            if len(known) == len(counts):
                counts = [sum(pair) for pair in zip(known, counts)]
            elif sum(map(bool, known)) > sum(map(bool, counts)):
                counts = known
            if counts:
                taken[path][line["line_number"]] = counts
    return taken


def without_assertions(taken, root):
    """The files of the library, without the lines that do not count."""
    kept = {}
    for path, lines in taken.items():
        if path.startswith(("..", "include/", "tests/")) or not os.path.exists(os.path.join(root, path)):
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read().splitlines()
        kept[path] = {number: counts for number, counts in lines.items()
                      if number <= len(text) and not ASSERTIONS.match(text[number - 1])}
    return kept


def share(lines):
    """(branches taken, branches)"""
    counts = [count for counts in lines.values() for count in counts]
    return sum(count != 0 for count in counts), len(counts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--least", type=float, default=85, help="percent of its branches below which a file is named (85)")
    parser.add_argument("--lines", metavar="FILE", help="print this file's lines of which a branch was not taken")
    parser.add_argument("build", metavar="BUILD")
    parser.add_argument("root", metavar="ROOT", nargs="?", default=os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    options = parser.parse_args()
    root = os.path.realpath(options.root)
    files = without_assertions(add_up(read_counters(os.path.realpath(options.build)), root), root)
    if not files:
        sys.exit(f"no counters in {options.build}: build the preset coverage and run its tests first (./check.sh --coverage)")
    if options.lines:
        with open(os.path.join(root, options.lines), encoding="utf-8") as file:
            text = file.read().splitlines()
        for number, counts in sorted(files.get(options.lines, {}).items()):
            if 0 in counts:
                print(f"{options.lines}:{number}: {counts.count(0)} of {len(counts)} not taken: {text[number - 1].strip()}")
        return 0
    rooms = collections.defaultdict(list)
    for path, lines in sorted(files.items()):
        rooms[path.split("/")[0]].append((path, *share(lines)))
    print("| room | files | branches | taken | % |\n|---|---|---|---|---|")
    for room, rows in [*sorted(rooms.items()), ("all", [row for rows in rooms.values() for row in rows])]:
        took, there = sum(row[1] for row in rows), sum(row[2] for row in rows)
        print(f"| {room} | {len(rows)} | {there} | {took} | {100 * took / max(1, there):.1f} |")
    few = sorted((100 * took / there, path, took, there) for rows in rooms.values() for path, took, there in rows
                 if there and 100 * took / there < options.least)
    print(f"\n{len(few)} files below {options.least:g} % of their branches:")
    for percent, path, took, there in few:
        print(f"{percent:5.1f} %  {path}: {took} of {there}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
