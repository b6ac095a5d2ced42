#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compare how long a step takes with two builds of the library, in turn.

Usage: compare_times.py [--cuda] [--cases A,B] [--tasks N] [--steps N] [--alternations N] [--cpus LIST] [--most PERCENT]
                        BUILD OTHER

The program gantry-count-steps of BUILD (preset release) is run with the library of BUILD, and that of OTHER, or BUILD's
where OTHER has none, with the library of OTHER, one after the other, so that whatever disturbs the machine disturbs both;
every second time OTHER goes first.  An older OTHER needs bench/count_steps.c of BUILD, for the option --times.  Each run gives two
times per task: the median time of a step until it has ended on the device ("wall"), and the CPU time of all threads of the
process, user and system, over the same steps ("cpu").  The first steps of a run warm up and are not counted; nothing
else is left out.  The table has the median of each side, the median of the ratios and its 95 % interval (order
statistics of the binomial distribution, no assumption about the noise).  Without --cuda the emulated driver accepts launches
and does nothing: that is the library's own time, and the time of that build's emulated driver.
--cpus LIST (as 0-3,8) runs both sides on these CPUs alone.  A few cores of one NUMA node make the runs like each other.
--most fails (exit status 1) when the upper end of an interval of wall time is more than so many percent above 1.
"""
import argparse
import math
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from count_instructions import CASES, program_of  # noqa: E402


def time_of(program, build, case, options):
    """ns per task: (wall time, CPU time), the second one None where the program is too old to tell it."""
    emulator = os.path.join(os.path.dirname(program), "libgantry-emu.so")
    paths = build + os.pathsep + os.environ.get("LD_LIBRARY_PATH", "")
    environment = dict(os.environ, LD_LIBRARY_PATH=paths, GANTRY_EMULATOR=emulator)
    command = [program, "--times", *(["--cuda"] if options.cuda else []), case, str(options.tasks), str(options.steps)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"compare_times: {' '.join(command)}: exit status {run.returncode}\n{run.stderr}")
    times = [float(word) for word in run.stdout.split()]
    return times[0], times[1] if len(times) > 1 else None


def interval(values):
    """Median and the 95 % interval of the median."""
    values = sorted(values)
    count, below, rank = len(values), 0.0, 0
    for rank in range(count // 2):
        below += math.comb(count, rank) / 2 ** count
        if below > 0.025:
            break
    rank = max(rank - 1, 0)
    return values[count // 2], values[rank], values[count - 1 - rank]


def cpus_of(text):
    """{0, 1, 2, 3, 8} of "0-3,8"."""
    cpus = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus


def row(name, sides):
    """Prints the row of one kind of time, of which each side has as many as there were turns; returns the upper end."""
    middle, low, high = interval([ours / others for ours, others in zip(*sides)])
    medians = [sorted(side)[len(side) // 2] for side in sides]
    print(f"{name:<23}{medians[0]:10.1f}{medians[1]:10.1f}{middle:9.4f}{low:9.4f}{high:9.4f}", flush=True)
    return high


def main():
    parser = argparse.ArgumentParser(description="Time per task of two builds, in turn.")
    parser.add_argument("--cuda", action="store_true", help="on a GPU")
    parser.add_argument("--cases", default=",".join(CASES), help="of " + ",".join(CASES))
    parser.add_argument("--tasks", type=int, default=1000, help="per step")
    parser.add_argument("--steps", type=int, default=200, help="per run")
    parser.add_argument("--alternations", type=int, default=30)
    parser.add_argument("--cpus", type=cpus_of, help="where both sides run, as 0-3,8; all, where it is left out")
    parser.add_argument("--most", type=float, help="percent that the upper end may be above 1")
    parser.add_argument("build")
    parser.add_argument("other")
    options = parser.parse_args()
    builds = [os.path.abspath(options.build), os.path.abspath(options.other)]
    own = os.path.join(builds[0], "gantry-count-steps")
    if not os.access(own, os.X_OK):
        sys.exit(f"compare_times: there is no {own}: build the preset release first")
    cases = options.cases.split(",")
    if not set(cases) <= set(CASES):
        parser.error("cases are " + ",".join(CASES))
    if options.cpus is not None:
        os.sched_setaffinity(0, options.cpus)  # and so for the programs, too
    print(f"{'ns per task':<23}{'build':>10}{'other':>10}{'ratio':>9}{'from':>9}{'to':>9}")
    is_good = True
    for case in cases:
        programs = [program_of(build, builds[0], case) for build in builds]
        sides = ([], [])
        for turn in range(options.alternations):
            for side in (0, 1) if turn % 2 == 0 else (1, 0):
                sides[side].append(time_of(programs[side], builds[side], case, options))
        walls, cpus = ([[times[which] for times in side] for side in sides] for which in (0, 1))
        high = row(f"{case} wall", walls)
        is_good = is_good and (options.most is None or high <= 1 + options.most / 100)
        if None not in cpus[0] + cpus[1]:
            row(f"{case} cpu", cpus)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
