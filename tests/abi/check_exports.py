#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The libraries export exactly what they should.

Usage: check_exports.py SOURCE_DIR LIBRARY_DIR TESTING_ARCHIVE

libgantry.so: tests/abi/exports.txt, which is also what the public headers declare with GANTRY_API, each name with a
version of cmake/gantry.map.
libgantry-emu.so: the driver's names only.  The testing archive: no name that could collide with a program's.
"""
import pathlib
import re
import subprocess
import sys


def defined(*arguments):
    """Names of defined global symbols, without versions."""
    output = subprocess.run(["nm", "--defined-only", *arguments], check=True, capture_output=True, text=True)
    rows = [line.split() for line in output.stdout.splitlines()]
    return {row[2].split("@")[0] for row in rows if len(row) == 3 and row[1] not in "Aa"}


def unversioned(source, library):
    """Names of the library without a version that the map has."""
    nodes = set(re.findall(r"^(GANTRY_[\w.]+)\s*\{", (source / "cmake/gantry.map").read_text(), flags=re.M))
    output = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library], check=True,
                            capture_output=True, text=True)
    rows = [line.split() for line in output.stdout.splitlines()]
    return {row[2] for row in rows if len(row) == 3 and row[1] not in "Aa" and row[2].split("@")[-1] not in nodes}


def has_the_versions(source, library):
    """Is the SONAME that of the project's version, and the map's newest node, too?"""
    version = re.search(r"(?m)^project\(gantry VERSION (\d+)\.(\d+)\.", (source / "CMakeLists.txt").read_text())
    wanted = version[1] if version[1] != "0" else f"0.{version[2]}"
    dynamic = subprocess.run(["readelf", "-dW", library], check=True, capture_output=True, text=True).stdout
    soname = re.search(r"\(SONAME\).*\[(.*)\]", dynamic)[1]
    node = re.findall(r"(?m)^GANTRY_([\w.]+)\s*\{", (source / "cmake/gantry.map").read_text())[-1]
    if soname != f"libgantry.so.{wanted}" or node != f"{version[1]}.{version[2]}":
        print(f"SONAME {soname}, newest node GANTRY_{node}: the project's version is {version[1]}.{version[2]}")
    return soname == f"libgantry.so.{wanted}" and node == f"{version[1]}.{version[2]}"


def declared(source):
    """Functions and variables the public headers export."""
    names = set()
    for header in (source / "include/gantry").glob("*.h"):
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        names |= set(re.findall(r"^GANTRY_API\b[^;(]*?\b(gantry_\w+)\s*[(;]", text, flags=re.M))
    return names


def report(what, found, wanted):
    for name in sorted(found - wanted):
        print(f"{what}: {name} is too much")
    for name in sorted(wanted - found):
        print(f"{what}: {name} is missing")
    return found == wanted


def main(source, folder, archive):
    source, folder = pathlib.Path(source), pathlib.Path(folder)
    listed = set((source / "tests/abi/exports.txt").read_text().split())
    fine = report("libgantry.so", defined("-D", str(folder / "libgantry.so")), listed)
    fine = report("public headers", declared(source), listed) and fine
    fine = has_the_versions(source, str(folder / "libgantry.so")) and fine
    fine = report("versions", unversioned(source, str(folder / "libgantry.so")), set()) and fine
    emulator = folder / "libgantry-emu.so"
    strangers = {n for n in defined("-D", str(emulator)) if not re.match(r"cu[A-Z]|gantry_emu_", n)}
    fine = report("libgantry-emu.so", strangers, set()) and fine
    # C++ names (host forms of kernels) are mangled and hidden in the shared library; they are told by _Z.
    strangers = {n for n in defined("-g", archive) if not re.match(r"gy_|gantry_|_Z|__|DW\.ref", n)}
    fine = report("testing archive", strangers, set()) and fine
    print(f"{len(listed)} names")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
