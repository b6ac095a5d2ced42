#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Count the instructions that the library takes per task, with callgrind.

Usage: count_instructions.py [--cases A,B] [--tasks N] [--functions N] [--most PERCENT] BUILD [OTHER]

BUILD is a folder with an optimised build (preset release): its program gantry-count-steps is run under
"valgrind --tool=callgrind", once with few steps and once with more, and the difference of the two counts is divided by
the tasks of the steps in between: setting up and taking down are not in it.  Instructions count where they are in
the library itself (not in the driver, in libc or in the callbacks): on all threads, and on the dispatcher's.  The
same build says the same within one percent, also on a busy machine.

With OTHER, another build's folder, the program and the emulated driver there are run with that one's library, too, or those of BUILD where
it has none or its program does not know the case; and the table has what BUILD takes over what OTHER takes.  --most fails (exit status 1) when that is more than so many percent above it in any case.
--functions prints the functions that take most; what the compiler has inlined counts for the one it is in.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

CASES = ["streams", "frozen-streams", "graphs", "frozen-graphs", "replay", "chain", "frozen-chain", "auto", "recorded"]
FEW, MORE = 10, 40
LIBRARY = re.compile(r"/libgantry\.so[.0-9]*$")


def self_costs(path):
    """{function: instructions of the library's} of one file that callgrind has written."""
    costs, obj, function, is_call = {}, "", "", False
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith("ob="):
                obj = line[3:].strip()
            elif line.startswith("fn="):
                function = line[3:].strip()
            elif line.startswith("calls="):
                is_call = True  # the next line is what the callee takes
            elif line[0] in "+-*0123456789":
                if not is_call and LIBRARY.search(obj):
                    costs[function] = costs.get(function, 0) + int(line.split()[1])
                is_call = False
    return costs


def count(program, build, case, tasks, steps):
    """(all threads, the dispatcher's thread): {function: instructions}."""
    emulator = os.path.join(os.path.dirname(program), "libgantry-emu.so")  # the program's: they share the form of kernels
    environment = dict(os.environ, LD_LIBRARY_PATH=build, GANTRY_EMULATOR=emulator)
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        command = ["valgrind", "--tool=callgrind", "--separate-threads=yes", "--compress-strings=no",
                   "--compress-pos=no", "--callgrind-out-file=" + out, program, case, str(tasks), str(steps)]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            sys.exit(f"count_instructions: {' '.join(command)}: exit status {run.returncode}\n{run.stderr}")
        everything, dispatcher = {}, {}
        for path in glob.glob(out + "-*"):
            costs = self_costs(path)
            for function, cost in costs.items():
                everything[function] = everything.get(function, 0) + cost
            if "gy_gd_main" in costs:
                dispatcher = costs
        return everything, dispatcher


def knows(program, case):
    """Does the program name the case among those that it can be called with?"""
    usage = subprocess.run([program], capture_output=True, text=True, check=False).stderr
    return case in usage.rpartition("CASE is one of")[2].split()


def program_of(build, fallback, case):
    """The program of the build, or that of the build `fallback` where it has none that knows the case."""
    own = os.path.join(build, "gantry-count-steps")
    return own if os.access(own, os.X_OK) and knows(own, case) else os.path.join(fallback, "gantry-count-steps")


def per_task(program, build, case, tasks):
    few, more = (count(program, build, case, tasks, steps) for steps in (FEW, MORE))
    between = (MORE - FEW) * tasks
    return tuple({function: (cost - before.get(function, 0)) / between for function, cost in after.items()}
                 for before, after in zip(few, more))


def print_functions(costs, most):
    for function, cost in sorted(costs.items(), key=lambda item: -item[1])[:most]:
        print(f"    {cost:8.1f}  {function}")


def main():
    parser = argparse.ArgumentParser(description="Instructions per task, with callgrind.")
    parser.add_argument("--cases", default=",".join(CASES), help="of " + ",".join(CASES))
    parser.add_argument("--tasks", type=int, default=1000, help="per step")
    parser.add_argument("--functions", type=int, default=0, help="how many functions to print")
    parser.add_argument("--most", type=float, help="percent that BUILD may be above OTHER")
    parser.add_argument("build")
    parser.add_argument("other", nargs="?")
    options = parser.parse_args()
    cases = options.cases.split(",")
    program = os.path.join(os.path.abspath(options.build), "gantry-count-steps")
    if shutil.which("valgrind") is None:
        sys.exit("count_instructions: there is no valgrind")
    if not os.access(program, os.X_OK):
        sys.exit(f"count_instructions: there is no {program}: build the preset release first")
    if not set(cases) <= set(CASES):
        parser.error("cases are " + ",".join(CASES))
    builds = [os.path.abspath(build) for build in (options.build, options.other) if build is not None]
    print(f"{'instructions per task':<22}{'all threads':>12}{'dispatcher':>12}"
          + (f"{'other: all':>12}{'dispatcher':>12}{'all, ratio':>12}" if len(builds) > 1 else ""))
    is_good = True
    for case in cases:
        sides = [per_task(program_of(build, builds[0], case), build, case, options.tasks) for build in builds]
        sums = [tuple(sum(costs.values()) for costs in side) for side in sides]
        line = f"{case:<22}" + "".join(f"{value:12.1f}" for both in sums for value in both)
        if len(sums) > 1:
            ratio = sums[0][0] / sums[1][0]
            line += f"{ratio:12.3f}"
            is_good = is_good and (options.most is None or ratio <= 1 + options.most / 100)
        print(line, flush=True)
        if options.functions > 0:
            print_functions(sides[0][0], options.functions)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
