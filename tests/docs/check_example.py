#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A page's example compiles without a warning, runs, prints what the page says, and can be recorded.

Usage: check_example.py SOURCE_DIR LIBRARY_DIR PAGE CC [FLAG...]

The example is the first ```c block, or ```cpp block, its output the first ```text block after it that follows the word "prints".  Where files are named before their
blocks (`CMakeLists.txt`:), they are a project, which is built against the library as it is installed.

A page that records "the program of [another page](NAME.md)" has none of its own.

What the page says of further runs is checked, too: what "`build/example ARGUMENTS` prints", the recordings that `GANTRY_PROFILE=NAME.pftrace build/example ARGUMENTS`
makes, the commands `gantry report trace ...` on them, and what "`gantry report trace NAME.pftrace` says", where three dots stand for anything in a line.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

WARNINGS = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]


def build_file(folder, text, source, libraries, compiler):
    program = folder / "example"
    cuda = ["-I", f"{source}/tests/docs/include", "-I", source, "-lgantry-emu"] if "<cuda.h>" in text else []
    subprocess.run([*compiler, "-std=c11", *WARNINGS, "-x", "c", "-", "-I", f"{source}/include", "-L", libraries, "-lgantry",
                    *cuda, f"-Wl,-rpath,{libraries}", "-o", str(program)], input=text, text=True, check=True)
    return program


def build_project(folder, files, libraries, compiler):
    for name, text in files.items():
        (folder / name).write_text(text)
    prefix, build = folder / "prefix", folder / "build"
    for command in (["cmake", "--install", libraries, "--prefix", prefix],
                    ["cmake", "-G", "Ninja", "-S", folder, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}",
                     f"-DCMAKE_C_COMPILER={compiler[0]}", "-DCMAKE_C_STANDARD=11",
                     f"-DCMAKE_C_FLAGS={' '.join([*compiler[1:], *WARNINGS])}",
                     f"-DCMAKE_CXX_FLAGS={' '.join(WARNINGS) if 'main.cpp' in files else ''}"],
                    ["cmake", "--build", build]):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{command}\n{done.stdout}")
    return build / "example"


def says_so(claimed, said):
    """Each claimed line is a line of what was said, in the same order; three dots stand for anything."""
    lines = iter(said.splitlines())
    for claim in claimed.splitlines():
        pattern = ".*".join(re.escape(piece) for piece in claim.split("..."))
        if not any(re.fullmatch(pattern, line) for line in lines):
            sys.exit(f"the report has no line like {claim!r} at its place:\n{said}")


def check_further_runs(folder, text, program, gantry, environment):
    """What a page says of the program beyond its first run: with arguments, recorded, and reported."""
    def run(command, **more):
        return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True, env={**environment, **more}).stdout

    for arguments, output in re.findall(r"`build/example ([\w ]+)` prints\n\n```text\n(.*?)```", text, re.S):
        if (printed := run([program, *arguments.split()])) != output:
            sys.exit(f"build/example {arguments} printed\n{printed}")
    for recording, arguments in re.findall(r"(?m)^GANTRY_PROFILE=(\w+\.pftrace) build/example ?([\w ]*)$", text):
        run([program, *arguments.split()], GANTRY_PROFILE=recording)
    for command in re.findall(r"(?m)^(?:~/gantry/bin/)?gantry (report trace .*)$", text):
        run([gantry, *shlex.split(command)])
    if environment["GANTRY_DRIVER"] == "emulated":
        for recording, claimed in re.findall(r"`gantry report trace (\w+\.pftrace)` says\b[^`]*```text\n(.*?)```", text, re.S):
            says_so(claimed, run([gantry, "report", "trace", recording]))


def find_program(text, folder):
    """(the match of a page's program and its output, the files of a project); those of another page, where this one says so."""
    if other := re.search(r"the program of\n?\s*\[[^\]]*\]\((\S+\.md)\)", text):
        text = (folder / other[1]).read_text()
    match = re.search(r"```(?:c|cpp)\n(.*?)```.*?prints.*?```text\n(.*?)```", text, re.S)
    return match and (match, dict(re.findall(r"`([\w.]+)`:\n\n```\w+\n(.*?)```", text[:match.end()], re.S)))


def main(source, libraries, page, *compiler):
    os.environ.pop("GANTRY_EMULATOR", None)  # the program is linked with the copy beside the library, and no other is to be loaded
    text = pathlib.Path(source, page).read_text()
    found = find_program(text, pathlib.Path(source, page).parent)
    if not found:
        print(f"{page} has no example with its output")
        return 1
    match, files = found
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        program = (build_project(folder, files, libraries, compiler) if "CMakeLists.txt" in files else
                   build_file(folder, match[1], source, libraries, compiler))
        driver = os.environ.get("GANTRY_TEST_DRIVER", "emulated") if "<cuda.h>" not in match[1] else "emulated"
        output = subprocess.run([str(program)], env={**os.environ, "GANTRY_DRIVER": driver}, check=True,
                                stdout=subprocess.PIPE, text=True).stdout
        if not re.search("gantry_context_create|gantry::context", match[1]):  # without a device there is no recording from outside
            print(output, end="")
            return 0 if output == match[2] else 1
        # Recorded from outside, whether or not it destroys its context.
        recording = folder / "run.pftrace"
        subprocess.run([str(program)], env={**os.environ, "GANTRY_DRIVER": driver, "GANTRY_PROFILE": str(recording)},
                       check=True, stdout=subprocess.DEVNULL)
        subprocess.run([f"{libraries}/gantry", "report", "trace", str(recording)], check=True, stdout=subprocess.DEVNULL)
        if "CMakeLists.txt" in files:
            check_further_runs(folder, text, program, pathlib.Path(libraries, "gantry").resolve(), {**os.environ, "GANTRY_DRIVER": driver})
    print(output, end="")
    return 0 if output == match[2] else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
