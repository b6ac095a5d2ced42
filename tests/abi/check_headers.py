#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each public header compiles alone, twice over, as C11, C++11 and C++17, those of kernels as C++17, without a warning;
gantry.hpp and its parts as C++17 and C++20, with every C++ compiler there is: also without run-time types, and where there
are no exceptions it says why it does not.

Usage: check_headers.py INCLUDE_DIR CC CXX
"""
import pathlib
import shlex
import shutil
import subprocess
import sys

FLAGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wundef", "-Wconversion", "-Werror", "-fsyntax-only"]
# Kernels are C++17; a program may include the one of their profiles.
ONLY_CXX = ["kernel.h", "kernel/groups.h", "kernel/steal.h"]
FOR_KERNELS = [*ONLY_CXX, "kernel/surface.h", "profile_kernel.h"]


# What a header's macros expand to is compiled where they are used.
USES = {"heap.h": 'gantry_alloc_site use(void);\ngantry_alloc_site use(void) { return GANTRY_ALLOC_SITE("use"); }\n'}


def compiles(compiler, language, standard, include, header, *more):
    line = f"#include <gantry/{header}>\n"
    result = subprocess.run([compiler, "-x", language, f"-std={standard}", *FLAGS, *more, f"-I{include}", "-"],
                            input=line + line + USES.get(header, ""), capture_output=True, text=True)
    if result.returncode != 0:
        print(f"{header} as {standard}:\n{result.stderr}")
    return result.returncode == 0


def mpi_flags():
    """How each MPI that is there finds its header; mpi.h needs one."""
    for command in filter(None, map(shutil.which, ("mpicc.mpich", "mpicc.openmpi"))):
        shown = subprocess.run([command, "-show"], capture_output=True, text=True, check=True).stdout
        yield [flag for word in shlex.split(shown) if word.startswith("-I") for flag in ("-isystem", word[2:])]


def says_what_it_needs(compiler, include):
    result = subprocess.run([compiler, "-x", "c++", "-std=c++17", "-fno-exceptions", "-fsyntax-only", f"-I{include}", "-"],
                            input="#include <gantry/gantry.hpp>\n", capture_output=True, text=True)
    fine = result.returncode != 0 and "gantry.hpp reports errors as exceptions" in result.stderr
    if not fine:
        print(f"gantry.hpp without exceptions:\n{result.stderr}")
    return fine


def main(include, cc, cxx):
    headers = sorted(path.name for path in pathlib.Path(include, "gantry").glob("*.h"))
    fine = bool(headers)
    headers += ["kernel/groups.h", "kernel/steal.h", "kernel/surface.h"]  # the others of kernel/ are parts of kernel.h
    headers.remove("mpi.h")
    for flags in mpi_flags():
        fine = compiles(cc, "c", "c11", include, "mpi.h", *flags) and fine
        for standard in ("c++11", "c++17"):
            fine = compiles(cxx, "c++", standard, include, "mpi.h", *flags, "-D_GNU_SOURCE") and fine
    for header in headers:
        if header not in ONLY_CXX:
            fine = compiles(cc, "c", "c11", include, header) and fine
        if header not in FOR_KERNELS:
            fine = compiles(cxx, "c++", "c++11", include, header) and fine
        fine = compiles(cxx, "c++", "c++17", include, header) and fine
    of_cxx = ["gantry.hpp", *(f"cpp/{path.name}" for path in sorted(pathlib.Path(include, "gantry/cpp").glob("*.hpp")))]
    for compiler in {cxx, *filter(None, map(shutil.which, ["g++", "clang++"]))}:
        for header in of_cxx:
            for standard in ("c++17", "c++20"):
                fine = compiles(compiler, "c++", standard, include, header) and fine
        fine = compiles(compiler, "c++", "c++17", include, "gantry.hpp", "-fno-rtti") and fine
        fine = says_what_it_needs(compiler, include) and fine
    headers += of_cxx
    print(f"{len(headers)} headers")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
