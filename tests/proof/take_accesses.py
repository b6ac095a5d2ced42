#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Narrows what tasks of the examples and samples declare, or takes it out, one access at a time: does the proof find each?

Usage: take_accesses.py GANTRY FOLDER [--each N] [--only PROGRAM] [--table FILE]

FOLDER has the instrumented programs (tests/proof/CMakeLists.txt).  As take_edges.py, which says more.  Programs are those
whose order comes from data.  Once half of the bytes of an access are declared, and once none.  The oracle says of each
whether its task then touches bytes that it does not declare, or tasks that touch the same bytes have no path.  Of accesses
of tasks of the same label, at the same place in their lists, N are spoiled at most (default 3), evenly.  The exit status is
0 when at least 97 % of those that lose something are found, and nothing is reported of the others.
"""
import argparse
import concurrent.futures
import json
import os
import re
import sys
import tempfile

from edge_oracle import Run
from take_edges import Program, print_table

STENCIL = ["--order", "data", "--rows", "24", "--columns", "40", "--steps", "4", "--runs", "1", "--devices", "0,1"]
PROGRAMS = {
    "stream_file": ("stream_file", []),
    "stencil": ("samples/stencil", STENCIL),
    "stencil, fused": ("samples/stencil", [*STENCIL, "--halo", "fused"]),
    "tile_cholesky": ("samples/tile_cholesky",
                      ["--order", "data", "--runs", "1", "--kernels", "own", "--tile", "64", "--size", "192", "--devices", "0,1"]),
}
KINDS = ("found", "named otherwise", "missed", "nothing lost", "false report")


class Declaring(Program):
    def begin(self):
        with tempfile.NamedTemporaryFile("r") as trace:
            status, out, err = self.run(self.command, "libedge-oracle.so", GANTRY_DRIVER="emulated", GANTRY_CHECK="edges",
                                        PROOF_TRACE=trace.name)
            self.trace = trace.readlines()
        self.accesses = Run(self.trace).accesses
        if status != 0 or not self.accesses:
            raise RuntimeError(f"{self.name}: with the oracle it has ended with {status}\n{out}{err}")

    def judge(self, spoiled=None):
        """Pairs of labels without a path, and labels of tasks that touch what they do not declare."""
        run = Run(self.trace, spoiled)
        return {frozenset(pair) for pair in run.pairs(run.conflicts(), run.pasts())}, run.undeclared()

    def check(self, spoiled=None):
        """The same as `gantry check` says, and all that it says."""
        variables = {"PROOF_SPOIL": spoiled} if spoiled else {}
        status, out, err = self.run([self.gantry, "check", "--json", "--", *self.command], "libedge-knife.so", **variables)
        start = out.rfind('{"status"')
        if start < 0:
            return set(), set(), f"status {status}\n{out}{err}"
        found = json.loads(out[start:])
        pairs = {frozenset(re.match("no edge leads from task '(.*?)' to task '(.*?)', which", line).groups())
                 for line in found["missing"]}
        return pairs, {re.match("task '(.*?)'", line)[1] for line in found["undeclared"]}, out + err

    def chosen(self, each):
        """What to spoil: of accesses at the same place of tasks of the same label `each` at most."""
        groups = {}
        for number, place in self.accesses.items():
            groups.setdefault(place, []).append(number)
        for group in groups.values():
            count = min(each, len(group))
            for i in range(count):
                yield "half" + group[i * len(group) // count]
                yield "out" + group[i * len(group) // count]

    def take(self, spoiled):
        """One row: what became of the program with that access spoiled."""
        lost, touched = self.judge(spoiled)
        pairs, undeclared, said = self.check(spoiled)
        row = {"program": self.name, "spoiled": spoiled, "place": self.accesses[re.sub("[a-z]", "", spoiled)],
               "lost": [*map(sorted, lost), *sorted(touched)], "found": [*map(sorted, pairs), *sorted(undeclared)], "said": said}
        if row["lost"]:
            row["result"] = "found" if lost & pairs or touched & undeclared else "named otherwise" if row["found"] else "missed"
        else:
            row["result"] = "false report" if row["found"] else "nothing lost"
        return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gantry")
    parser.add_argument("folder")
    parser.add_argument("--each", type=int, default=3)
    parser.add_argument("--only", action="append", choices=PROGRAMS)
    parser.add_argument("--table")
    options = parser.parse_args()
    options.gantry, options.folder = os.path.abspath(options.gantry), os.path.abspath(options.folder)
    rows, bad = [], []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name in options.only or PROGRAMS:
            program = Declaring(options.gantry, options.folder, *PROGRAMS[name])
            program.name = name
            program.begin()
            for who, (pairs, undeclared, *said) in (("the oracle", program.judge()), ("the proof", program.check())):
                if pairs or undeclared:
                    bad.append(f"{name}: unchanged it lacks {[*map(sorted, pairs), *sorted(undeclared)]}, says {who} {said}")
            own = list(pool.map(program.take, program.chosen(options.each)))
            for row in own:
                if row["result"] not in ("found", "nothing lost"):
                    print(f"{name}: {row['spoiled']} {row['place']}: {row['result']}; lost {row['lost']}, found {row['found']}")
            rows += own
    print_table(rows, sys.stdout, "spoiled", KINDS)
    if options.table:
        with open(options.table, "w") as file:
            print_table(rows, file, "spoiled", KINDS)
    needed = [row for row in rows if row["lost"]]
    found = [row for row in needed if row["found"]]
    print(f"{len(rows)} accesses were spoiled; {len(needed)} lose something, of which {len(found)} were found")
    print("\n".join(bad))
    is_enough = needed and len(found) >= 0.97 * len(needed) and not any(row["result"] == "false report" for row in rows)
    return 0 if is_enough and not bad else 1


if __name__ == "__main__":
    sys.exit(main())
