#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The program tests/mpi/ranks.c on two and on four ranks, and with a thread level that is too low.

Usage: test_mpi.py MPIEXEC RANKS
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import launch  # noqa: E402


def main(mpiexec, program):
    for ranks in (2, 4):
        lines = launch.run(mpiexec, ranks, program).splitlines()
        if lines[-1] != "done" or len(lines) != 16:
            sys.exit(f"{ranks} ranks did other scenes than those that there are: {lines}")
    launch.run(mpiexec, 1, program, "level")
    print("2 and 4 ranks, and one of a level that is too low")


if __name__ == "__main__":
    main(*sys.argv[1:])
