#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does the generator of crossings find what was mended?  Takes out one mend after the other and runs it.

Usage: mends.py SOURCE FOLDER [--seconds S] [--only NAME,...] [--generator OPTIONS]
       mends.py SOURCE --check

Each file of tests/campaign/mends/ is a patch that takes out one mend.  It is applied to a copy of the tree in FOLDER, which
is built there; then test_campaign_crossings runs for at most S seconds (600).  It must fail for each that is critical or
high, and for nine of ten in all; before, it must be silent for a minute with nothing taken out.  A table is printed.
--generator adds options for the generator, which repeats nothing of what it would do without them.
--check only looks whether each patch still fits the tree.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import time

DEADLINE = 1800  # of a build


def copy_tree(source, to):
    """Files that git knows; those that did not change keep their time, so that little is built anew."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=source, check=True, text=True,
                            stdout=subprocess.PIPE).stdout.splitlines()
    for name in listed:
        old, new = os.path.join(source, name), os.path.join(to, name)
        if not os.path.isfile(old):
            continue
        os.makedirs(os.path.dirname(new), exist_ok=True)
        with open(old, "rb") as file:
            data = file.read()
        if not os.path.exists(new) or open(new, "rb").read() != data:
            shutil.copy(old, new)


def build(source, folder):
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        subprocess.run(["cmake", "-G", "Ninja", "-S", source, "-B", folder, "-DCMAKE_BUILD_TYPE=Debug",
                        "-DGANTRY_BUILD_SAMPLES=OFF", "-DGANTRY_KERNEL_COMPILER=none"], check=True,
                       stdout=subprocess.DEVNULL, timeout=DEADLINE)
    result = subprocess.run(["ninja", "-C", folder, "test_campaign_crossings"], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, timeout=DEADLINE)
    if result.returncode != 0:
        sys.exit(f"mends: the build failed:\n{result.stdout[-3000:]}")


def run(folder, seconds, options):
    """(found, what it said first, seconds, programs)"""
    begin = time.monotonic()
    env = dict(os.environ, GANTRY_EMULATOR=os.path.join(folder, "libgantry-emu.so"), GANTRY_TEST_NO_SHRINK="1")
    try:
        result = subprocess.run([os.path.join(folder, "tests", "test_campaign_crossings"), "--seconds", str(seconds)] + options,
                                env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds + 120)
        lines, code, out = result.stderr.splitlines(), result.returncode, result.stdout
    except subprocess.TimeoutExpired:
        lines, code, out = ["the generator itself did not end"], 1, ""
    counted = re.search(r"^(?:a failure after |programs: )(\d+)", out, re.M)
    return code != 0, lines[0] if lines else "", time.monotonic() - begin, counted.group(1) if counted else "?"


def patch(source, file, *options):
    return subprocess.run(["patch", "-s", "-p1", "-F0", "--no-backup-if-mismatch", *options, "-i", file],
                          cwd=source).returncode == 0


def check(source):
    """How many patches do not fit the tree."""
    if shutil.which("patch") is None:
        print("skipped: there is no program patch")
        return 77
    folder = os.path.join(os.path.abspath(source), "tests", "campaign", "mends")
    stale = [name for name in sorted(os.listdir(folder))
             if name.endswith(".patch") and not patch(source, os.path.join(folder, name), "--dry-run")]
    for name in stale:
        print(f"tests/campaign/mends/{name} does not fit the tree any more")
    return 1 if stale else 0


def row(name, severity, after, programs, said):
    print(f"| {name} | {severity} | {after} | {programs} | {said} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--only", default="")
    parser.add_argument("--generator", default="")
    args = parser.parse_args()
    if args.check or args.folder is None:
        return check(args.source)
    args.folder = os.path.abspath(args.folder)
    source, built = os.path.join(args.folder, "source"), os.path.join(args.folder, "build")
    copy_tree(args.source, source)
    patches = os.path.join(source, "tests", "campaign", "mends")
    names = args.only.split(",") if args.only else sorted(n[:-6] for n in os.listdir(patches) if n.endswith(".patch"))
    options = args.generator.split()
    build(source, built)
    wrong, found_count = [], 0
    found, said, seconds, programs = run(built, min(args.seconds, 60), options)
    print("| mend | severity | found after | programs | what the generator said |\n|---|---|---|---|---|")
    row("nothing", "", f"silent for {seconds:.0f} s" if not found else "WRONG", programs, said)
    if found:
        wrong.append("nothing")
    for name in names:
        file = os.path.join(patches, name + ".patch")
        severity = re.search(r"^# severity: (\w+)", open(file, encoding="utf-8").read(), re.M).group(1)
        if not patch(source, file):
            row(name, severity, "", "", "the patch does not fit any more")
            wrong.append(name)
            continue
        build(source, built)
        found, said, seconds, programs = run(built, args.seconds, options)
        row(name, severity, f"{seconds:.0f} s" if found else f"NOT FOUND in {seconds:.0f} s", programs, said)
        patch(source, file, "-R")
        found_count += found
        if not found and severity in ("critical", "high"):
            wrong.append(name)
    print(f"{found_count} of {len(names)} were found")
    return 1 if wrong or found_count * 10 < len(names) * 9 else 0


if __name__ == "__main__":
    sys.exit(main())
