#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The bench of messages runs, and prints a line for each kind of them; its times are not looked at.

Usage: test_bench.py MPIEXEC BENCH_MPI
"""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import launch  # noqa: E402


def main(mpiexec, program):
    said = launch.run(mpiexec, 2, program, "1")
    if [re.split(" {2,}| best", line)[0] for line in said.splitlines()] != ["8 B", "1 MiB", "halo 4 x 1 KiB + 20 us"]:
        sys.exit(f"it printed\n{said}")


if __name__ == "__main__":
    main(*sys.argv[1:])
