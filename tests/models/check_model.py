#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Model-check one Promela model with spin: no execution breaks it, and each of its broken variants is found broken:
-DBROKEN, and -DBROKEN_… for every other such name in the model.

Usage: check_model.py MODEL COMPILER [-DNAME=VALUE...]

Exit status 77 without spin (Debian and Ubuntu: package spin).
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile


def explore(model, compiler, folder, *definitions):
    """(errors, states) of all executions; a deadlock is an error."""
    spin = subprocess.run(["spin", *definitions, "-a", model], cwd=folder, capture_output=True, text=True, check=False)
    if spin.returncode != 0 or not os.path.exists(os.path.join(folder, "pan.c")):
        sys.exit(f"spin: {spin.stdout}{spin.stderr}")
    subprocess.run([compiler, "-O1", "-w", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=8000", "-o", "pan", "pan.c"], cwd=folder, check=True)
    pan = subprocess.run(["./pan", "-m1000000"], cwd=folder, capture_output=True, text=True, check=False).stdout
    errors = re.search(r"errors: (\d+)", pan)
    states = re.search(r"(\d+) states, stored", pan)
    if not errors or not states or "max search depth too small" in pan or "out of memory" in pan:
        sys.exit(f"pan: {pan}")
    return int(errors.group(1)), int(states.group(1)), pan


def main(model, compiler, *definitions):
    if shutil.which("spin") is None:
        print("skipped: spin is not installed", file=sys.stderr)
        return 77
    with tempfile.TemporaryDirectory() as folder:
        errors, states, pan = explore(model, compiler, folder, *definitions)
        if errors:
            trail = subprocess.run(["spin", *definitions, "-k", os.path.basename(model) + ".trail", "-p", "-g", model], cwd=folder, capture_output=True, text=True, check=False)
            print(pan, trail.stdout[-4000:])
            return 1
        with open(model, encoding="utf-8") as text:
            variants = sorted(set(re.findall(r"#ifn?def (BROKEN\w*)", text.read())))
        for variant in variants:
            broken, _, pan = explore(model, compiler, folder, *definitions, "-D" + variant)
            if not broken:
                print(f"the variant -D{variant} is not found broken:\n{pan}")
                return 1
    print(f"{os.path.basename(model)}: {states} states, all right; found broken: {', '.join(variants)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1]), sys.argv[2], *sys.argv[3:]))
