#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The program that docs/guides/ranks.md begins with compiles without a warning, and prints what the page says.

Usage: test_page.py PAGE MPICC MPIEXEC LIBRARY_DIR FLAG...
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import launch  # noqa: E402


def main(page, mpicc, mpiexec, libraries, *flags):
    page = pathlib.Path(page)
    program, ranks, printed = re.search(r"\]\((\S+\.c)\).*?mpiexec -n (\d+).*?prints\n\n```text\n(.*?)```", page.read_text(), re.S).groups()
    with tempfile.TemporaryDirectory() as folder:
        ring = os.path.join(folder, "ring")
        subprocess.run([mpicc, "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", page.parent / program, *flags, "-L", libraries, "-lgantry", f"-Wl,-rpath,{libraries}",
                        "-o", ring], check=True)
        said = launch.run(mpiexec, ranks, ring)
    if said != printed:
        sys.exit(f"it printed\n{said}")


if __name__ == "__main__":
    main(*sys.argv[1:])
