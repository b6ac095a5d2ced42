#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Two builds of the same sources are equal byte for byte, wherever the sources and the build lie.

Usage: test_reproducible.py SOURCE_DIR [--all]

Builds twice, as shipped and without ccache: once from SOURCE_DIR, once from a copy of it in a folder of another name and length.
It covers what is small and has one of everything: libgantry-proof.so (C, linked), the kernels of profile_kernels.cu for the emulated
driver (C++ that is generated), generated headers, and the files of CMake, of pkg-config and of the list of what is in the build.
Takes some 15 seconds of two cores.

With --all (label exhaustive): libgantry.so with link-time optimisation, libgantry-emu.so and the command, with code for devices where
there is nvcc.  Both builds are then of SOURCE_DIR: nvcc names what is static in a file by a hash of the file's absolute path.
"""
import filecmp
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(sys.argv[1]).resolve()
ALL = "--all" in sys.argv
MADE = ("**/*.o", "*.so*", "gantry", "gantry-kernels/**/*.h", "gantry-kernels/**/*.hpp", "gantry-kernels/**/*.fatbin", "install/*.spdx.json", "install/*.pc")


def run(*command, **environment):
    result = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    if result.returncode != 0:
        sys.exit(f"{command}\n{result.stdout[-4000:]}")
    return result.stdout


def copy_of_the_sources(folder):
    names = subprocess.run(["git", "-C", SOURCE, "ls-files", "-z"], capture_output=True, text=True, check=False)
    if names.returncode != 0:
        shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("build", ".git"))
        return
    for name in filter(None, names.stdout.split("\0")):
        if (SOURCE / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(SOURCE / name, folder / name)


def build(source, folder):
    """{name of a file that was made: its path}"""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_COMPILER_LAUNCHER")}
    dated = subprocess.run(["git", "-C", SOURCE, "rev-parse", "--absolute-git-dir"], capture_output=True, text=True, check=False)
    environment.update({"GIT_DIR": dated.stdout.strip()} if dated.returncode == 0 else {"SOURCE_DATE_EPOCH": "1"})
    options = [] if ALL else ["-DGANTRY_BUILD_COMMAND=OFF", "-DGANTRY_BUILD_SAMPLES=OFF", "-DGANTRY_KERNEL_COMPILER=none"]
    run("cmake", "-S", source, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DGANTRY_BUILD_TESTS=OFF",
        f"-DGANTRY_JEMALLOC_DIR={SOURCE / 'build/jemalloc'}", *options, **environment)
    targets = ["gantry-proof", *{path.name for path in folder.glob("gantry-kernels/profile_kernels-*")}]
    targets = [target if target == "gantry-proof" else "gantry_kernels_" + target.replace("-", "_") for target in targets]
    run("cmake", "--build", folder, *(["--target", *targets] if not ALL else []), **environment)
    return {path.relative_to(folder).as_posix(): path for pattern in MADE for path in folder.glob(pattern)
            if path.is_file() and "_CMake" not in path.as_posix()}  # CMake's own trials


def main():
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        other = SOURCE if ALL else scratch / "the same sources elsewhere"
        if not ALL:
            copy_of_the_sources(other)
        first, second = build(SOURCE, scratch / "one"), build(other, scratch / "another folder" / "two")
        differ = [path for path in sorted(set(first) | set(second))
                  if path not in first or path not in second or not filecmp.cmp(first[path], second[path], shallow=False)]
        if differ:
            sys.exit(f"{len(differ)} of {len(first)} files differ: {', '.join(differ[:10])}")
        if len(first) < 20 or not any(path.startswith("libgantry") for path in first):
            sys.exit(f"only {sorted(first)} were compared")
        print(f"{len(first)} files are equal")


if __name__ == "__main__":
    main()
