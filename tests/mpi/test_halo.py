#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The sample halo_mpi computes every bit as the CPU does, also with rows that do not divide and a rank alone.

Usage: test_halo.py MPIEXEC HALO_MPI
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import launch  # noqa: E402

RUNS = (("4", (), "halo_mpi: 4 ranks, 256 x 256 cells, 100 steps"), ("2", ("6", "7", "33"), "halo_mpi: 2 ranks, 7 x 33 cells, 6 steps"),
        ("1", ("3", "3", "1"), "halo_mpi: 1 ranks, 3 x 1 cells, 4 steps"))


def main(mpiexec, program):
    os.environ["GANTRY_DRIVER"] = "emulated"
    for ranks, arguments, expected in RUNS:
        said = launch.run(mpiexec, ranks, program, *arguments)
        if said != f"{expected}: every bit as the CPU has it\n":
            sys.exit(f"{ranks} ranks, {arguments}: it printed\n{said}")


if __name__ == "__main__":
    main(*sys.argv[1:])
