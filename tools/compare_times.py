#!/usr/bin/env python3
"""Compare how long a step takes with two builds of the library, in turn.

Usage: compare_times.py [--cuda] [--cases A,B] [--tasks N] [--steps N] [--alternations N] [--most PERCENT] BUILD OTHER

The program gantry-count-steps of BUILD (preset release) is run with the library of BUILD, and that of OTHER, or BUILD's
where OTHER has none, with the library of OTHER, one after the other, so that whatever disturbs the machine disturbs both;
every second time OTHER goes first.  An older OTHER needs bench/count_steps.c of BUILD, for the option --times.  Each run gives the
median time of a step, per task, until the step has ended on the device.  The table has the median of each side, the
median of the ratios and its 95 % interval (order statistics of the binomial distribution, no assumption about the
noise).  Without --cuda the emulated driver accepts launches and does nothing: that is the library's own time.
--most fails (exit status 1) when the upper end of an interval is more than so many percent above 1.
"""
import argparse
import math
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from count_instructions import CASES, program_of  # noqa: E402


def time_of(program, build, case, options):
    """ns per task."""
    emulator = os.path.join(os.path.dirname(program), "libgantry-emu.so")
    paths = build + os.pathsep + os.environ.get("LD_LIBRARY_PATH", "")
    environment = dict(os.environ, LD_LIBRARY_PATH=paths, GANTRY_EMULATOR=emulator)
    command = [program, "--times", *(["--cuda"] if options.cuda else []), case, str(options.tasks), str(options.steps)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"compare_times: {' '.join(command)}: exit status {run.returncode}\n{run.stderr}")
    return float(run.stdout)


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


def main():
    parser = argparse.ArgumentParser(description="Time per task of two builds, in turn.")
    parser.add_argument("--cuda", action="store_true", help="on a GPU")
    parser.add_argument("--cases", default=",".join(CASES), help="of " + ",".join(CASES))
    parser.add_argument("--tasks", type=int, default=1000, help="per step")
    parser.add_argument("--steps", type=int, default=40, help="per run")
    parser.add_argument("--alternations", type=int, default=30)
    parser.add_argument("--most", type=float, help="percent that the upper end may be above 1")
    parser.add_argument("build")
    parser.add_argument("other")
    options = parser.parse_args()
    builds = [os.path.abspath(options.build), os.path.abspath(options.other)]
    programs = [program_of(build, builds[0]) for build in builds]
    if not os.access(programs[0], os.X_OK):
        sys.exit(f"compare_times: there is no {programs[0]}: build the preset release first")
    cases = options.cases.split(",")
    if not set(cases) <= set(CASES):
        parser.error("cases are " + ",".join(CASES))
    print(f"{'ns per task':<18}{'build':>10}{'other':>10}{'ratio':>9}{'from':>9}{'to':>9}")
    is_good = True
    for case in cases:
        sides, ratios = ([], []), []
        for turn in range(options.alternations):
            for side in (0, 1) if turn % 2 == 0 else (1, 0):
                sides[side].append(time_of(programs[side], builds[side], case, options))
            ratios.append(sides[0][-1] / sides[1][-1])
        middle, low, high = interval(ratios)
        is_good = is_good and (options.most is None or high <= 1 + options.most / 100)
        medians = [sorted(side)[len(side) // 2] for side in sides]
        print(f"{case:<18}{medians[0]:10.1f}{medians[1]:10.1f}{middle:9.4f}{low:9.4f}{high:9.4f}", flush=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
