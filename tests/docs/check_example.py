#!/usr/bin/env python3
"""A page's example compiles without a warning, runs, prints what the page says, and can be recorded.

Usage: check_example.py SOURCE_DIR LIBRARY_DIR PAGE CC [FLAG...]

The example is the first ```c block, its output the first ```text block after it.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def main(source, libraries, page, *compiler):
    text = pathlib.Path(source, page).read_text()
    match = re.search(r"```c\n(.*?)```.*?```text\n(.*?)```", text, re.S)
    if not match:
        print(f"{page} has no example with its output")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "example")
        subprocess.run([*compiler, "-std=c11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-x", "c", "-",
                        "-I", f"{source}/include", "-L", libraries, "-lgantry", f"-Wl,-rpath,{libraries}",
                        "-o", str(program)], input=match[1], text=True, check=True)
        driver = os.environ.get("GANTRY_TEST_DRIVER", "emulated")
        output = subprocess.run([str(program)], env={**os.environ, "GANTRY_DRIVER": driver}, check=True,
                                stdout=subprocess.PIPE, text=True).stdout
        # Recorded from outside, whether or not it destroys its context.
        recording = pathlib.Path(folder, "run.pftrace")
        subprocess.run([str(program)], env={**os.environ, "GANTRY_DRIVER": driver, "GANTRY_PROFILE": str(recording)},
                       check=True, stdout=subprocess.DEVNULL)
        subprocess.run([f"{libraries}/gantry", "report", "trace", str(recording)], check=True, stdout=subprocess.DEVNULL)
    print(output, end="")
    return 0 if output == match[2] else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
