#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Takes edges out of the examples and samples, one at a time, and asks whether the proof finds each.

Usage: take_edges.py GANTRY FOLDER [--each N] [--only PROGRAM] [--table FILE]

FOLDER has the instrumented programs (tests/proof/CMakeLists.txt).  A program is run once with the oracle in the place of
the proof, which says which of its edges order bytes that nothing else orders; and under `gantry check`, unchanged and
with an edge left out.  Of edges between tasks of the same labels N are taken at most (default 3), evenly.  The exit status
is 0 when at least 97 % of the edges that order bytes are found and nothing is reported where nothing is lacking.
"""
import argparse
import concurrent.futures
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import zlib

from edge_oracle import Run

# Of programs that are told to do more or other work than they do by themselves.
ARGUMENTS = {
    "samples/critical_latency": ["--samples", "1"],
    "samples/image_pipeline": ["--input", "photos", "--no-timeline", "--repeat", "2", "--workers", "2", "--in-flight", "2"],
    "samples/proof_pipeline": ["--concurrency", "2", "--repeat", "1", "--rows-log2", "6", "--workers", "2", "--gate", "off"],
    "samples/stencil": ["--rows", "24", "--columns", "40", "--steps", "4", "--runs", "1", "--devices", "0,1"],
    "samples/tile_cholesky": ["--runs", "1", "--kernels", "own", "--tile", "64", "--size", "192", "--devices", "0,1"],
    "samples/two_tenants": ["--seconds", "0.05"],
}
# They make no context, so there is nothing to prove.
WITHOUT_GPU = {"cancel", "condition_loop", "failures", "order_with_edges", "parallel_loop"}
SECONDS = 120
ATTEMPTS = 3  # how often a program is run that fails without an edge


def write_photo(path, width, height):
    """A small PNG."""
    rows = b"".join(b"\0" + bytes((x * 7 + y * 13 + c * 50) % 256 for x in range(width) for c in range(3))
                    for y in range(height))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        for kind, data in ((b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(rows)),
                           (b"IEND", b"")):
            file.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))


class Program:
    def __init__(self, gantry, folder, name, arguments):
        self.gantry, self.folder, self.name = gantry, folder, name
        self.command = [os.path.join(folder, name), *arguments]

    def run(self, command, library, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GANTRY_")}
        environment.update(variables, GANTRY_EMU_DEVICES="2")
        if library:
            environment["LD_PRELOAD"] = os.path.join(self.folder, "edges", library)
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "photos"))
            for i in range(2):
                write_photo(os.path.join(folder, "photos", f"{i}.png"), 20 + i, 12)
            try:
                done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment,
                                      stdin=subprocess.DEVNULL, timeout=SECONDS, errors="replace")
            except subprocess.TimeoutExpired:
                return 124, "", ""
            return done.returncode, done.stdout, done.stderr

    def judge(self, left_out=None):
        """A run with the oracle."""
        variables = {"PROOF_LEAVE_OUT": left_out} if left_out else {}
        with tempfile.NamedTemporaryFile("r") as trace:
            status, out, err = self.run(self.command, "libedge-oracle.so", GANTRY_DRIVER="emulated", GANTRY_CHECK="edges",
                                        PROOF_TRACE=trace.name, **variables)
            judged = Run(trace)
        if left_out is None and (status != 0 or not judged.is_whole):
            raise RuntimeError(f"{self.name}: with the oracle it has ended with {status}\n{out}{err}")
        return judged

    def begin(self):
        self.judged = self.judge()
        self.conflicts, self.pasts = self.judged.conflicts(), self.judged.pasts()
        self.unordered = self.judged.pairs(self.conflicts, self.pasts)

    def check(self, left_out=None):
        """Exit status of the program, the pairs of labels that `gantry check` names, and all it says."""
        variables = {"PROOF_LEAVE_OUT": left_out} if left_out else {}
        status, out, err = self.run([self.gantry, "check", "--json", "--", *self.command], "libedge-knife.so", **variables)
        start = out.rfind('{"status"')
        if start < 0:
            return status, set(), out + err
        found = json.loads(out[start:])
        pairs = {re.match("no edge leads from task '(.*?)' to task '(.*?)', which", line).groups() for line in found["missing"]}
        return found["status"], pairs, out + err

    def edges(self, each):
        """Names of edges: of those between tasks of the same labels `each` at most."""
        groups = {}
        for edge, labels in self.judged.edges.items():
            groups.setdefault((labels, edge.startswith("c")), []).append(edge)
        chosen = []
        for group in groups.values():
            count = min(each, len(group))
            chosen += [group[i * len(group) // count] for i in range(count)]
        return chosen

    def may_fail_first(self, edge):
        """Has the program without the edge ended before two tasks have touched the same bytes, in one of the oracle's runs?"""
        for _ in range(ATTEMPTS):
            broken = self.judge(edge)
            if not broken.pairs(broken.conflicts(), broken.pasts()):
                return True
        return False

    def take(self, edge):
        """One row: what became of the program without the edge."""
        cut = self.judged.pasts(edge)
        lost = self.judged.pairs(self.conflicts, cut, self.pasts)
        status, found, said = self.check(edge)
        for _ in range(ATTEMPTS - 1):
            if not lost or found or status == 0:
                break
            status, found, said = self.check(edge)  # it has failed, maybe before the tasks that conflict
        row = {"program": self.name, "edge": edge, "labels": self.judged.edges[edge], "status": status, "said": said,
               "lost": sorted(lost), "found": sorted(found)}
        both = {frozenset(pair) for pair in lost} & {frozenset(pair) for pair in found}
        if lost and not found and status != 0 and self.may_fail_first(edge):
            row["result"] = "fails first"
        elif lost:
            row["result"] = "found" if both else "named otherwise" if found else "missed"
        elif found:
            row["result"] = "false"
        else:
            row["result"] = "another path" if cut == self.pasts else "no bytes"
        return row


def programs(gantry, folder, only):
    names = [name for name in os.listdir(folder) if name not in WITHOUT_GPU and name not in ("samples", "edges")]
    samples = os.path.join(folder, "samples")
    names += ["samples/" + name for name in (os.listdir(samples) if os.path.isdir(samples) else [])]
    return [Program(gantry, folder, name, ARGUMENTS.get(name, [])) for name in sorted(names) if only is None or name in only]


KINDS = ("found", "named otherwise", "missed", "fails first", "another path", "no bytes", "false")


def print_table(rows, file, what="taken out", kinds=KINDS):
    print(f"| program | {what} | " + " | ".join(kinds) + " |", file=file)
    print("|---" * (len(kinds) + 2) + "|", file=file)
    names = sorted({row["program"] for row in rows})
    for name in [*names, "all"]:
        own = [row for row in rows if name in (row["program"], "all")]
        counts = [sum(row["result"] == kind for row in own) for kind in kinds]
        print(f"| {name} | {len(own)} | " + " | ".join(map(str, counts)) + " |", file=file)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gantry")
    parser.add_argument("folder")
    parser.add_argument("--each", type=int, default=3)
    parser.add_argument("--only", action="append")
    parser.add_argument("--table")
    parser.add_argument("--rows", help="write all rows into this file, as JSON")
    options = parser.parse_args()
    options.gantry, options.folder = os.path.abspath(options.gantry), os.path.abspath(options.folder)
    rows, bad = [], []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for program in programs(options.gantry, options.folder, options.only):
            program.begin()
            status, found, said = program.check()
            if program.unordered:
                bad.append(f"{program.name}: the oracle finds no order in {sorted(program.unordered)}")
            if found or status != 0:
                bad.append(f"{program.name}: unchanged it ends with {status}, and is said to lack {sorted(found)}\n{said}")
            own = list(pool.map(program.take, program.edges(options.each)))
            for row in own:
                if row["result"] in ("missed", "false", "named otherwise"):
                    print(f"{row['program']}: edge {row['edge']} {row['labels']}: {row['result']}, status {row['status']}; "
                          f"lost {row['lost']}, found {row['found']}", flush=True)
            rows += own
    print_table(rows, sys.stdout)
    if options.table:
        with open(options.table, "w") as file:
            print_table(rows, file)
    if options.rows:
        with open(options.rows, "w") as file:
            json.dump(rows, file, indent=1)
    needed = [row for row in rows if row["lost"] and row["result"] != "fails first"]
    found = [row for row in needed if row["found"]]
    print(f"{len(rows)} edges were taken out; {len(needed)} order bytes that nothing else orders, of which {len(found)} were found")
    print("\n".join(bad))
    is_enough = needed and len(found) >= 0.97 * len(needed) and not any(row["result"] == "false" for row in rows)
    return 0 if is_enough and not bad else 1


if __name__ == "__main__":
    sys.exit(main())
