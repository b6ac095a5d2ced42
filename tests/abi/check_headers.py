#!/usr/bin/env python3
"""Each public header compiles alone, twice over, as C11 and as C++17, without a warning.

Usage: check_headers.py INCLUDE_DIR CC CXX
"""
import pathlib
import subprocess
import sys

FLAGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wundef", "-Werror", "-fsyntax-only"]
# Kernels are C++.
ONLY_CXX = ["kernel.h"]


def compiles(compiler, language, standard, include, header):
    line = f"#include <gantry/{header}>\n"
    result = subprocess.run([compiler, "-x", language, f"-std={standard}", *FLAGS, f"-I{include}", "-"],
                            input=line + line, capture_output=True, text=True)
    if result.returncode != 0:
        print(f"{header} as {standard}:\n{result.stderr}")
    return result.returncode == 0


def main(include, cc, cxx):
    headers = sorted(path.name for path in pathlib.Path(include, "gantry").glob("*.h"))
    fine = bool(headers)
    for header in headers:
        if header not in ONLY_CXX:
            fine = compiles(cc, "c", "c11", include, header) and fine
        fine = compiles(cxx, "c++", "c++17", include, header) and fine
    print(f"{len(headers)} headers")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
