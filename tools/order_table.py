#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Order from data over edges by hand: waits on the device, edges made and time of the samples that have both forms.

    tools/order_table.py BUILD [--driver cuda|emulated] [--devices LIST] [--runs N] [--markdown]

The two forms run in turn, --runs times each (5), and each is the first one in turn.  All figures are
medians of what the samples tell; on the emulated driver they tell no times.  The bounds: waits
1.0, edges 1.3, time 1.01.  A ratio beyond its bound is marked with !.
Exit status: 0 no ratio is beyond, 1 some are, 2 a sample did not run, was wrong, or has not told its figures.
"""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

FORMS = ("edges", "data")
BOUNDS = {"waits": 1.0, "edges": 1.3, "time": 1.01}
SAMPLES = {  # name: (arguments, what tells the waits, the edges, the time of a run)
    "tile_cholesky": (("--kernels", "own"), r"^ +LAST +\d+ x \d+ own +\d+ +\d+ +\d+ +(\d+)", r"^ +LAST +\d+ x \d+ own +\d+ +\d+ +(\d+)",
                      r"^ +LAST +\d+ x \d+ own +\d+ +\d+ +\d+ +\d+ +([\d.]+)"),
    "stencil": ((), r"^waits between streams: (\d+)", r"^order: .*, (\d+) edges", r"^time: ([\d.]+) us"),
    "image_pipeline": (("--repeat", "REPEAT", "--output", "OUT"), r"(\d+) waits for an event", r"(\d+) dependencies", r"processed in ([\d.]+) s"),
}


def read(pattern, text, devices):
    found = re.search(pattern.replace("LAST", str(devices)), text, re.M)
    return float(found[1]) if found else None


def run_one(command, name, form, options, folder):
    """(waits, edges, time or None) of one run of a sample."""
    arguments, *patterns = SAMPLES[name]
    repeat = "1" if options.driver == "emulated" else "20"
    arguments = [folder if word == "OUT" else repeat if word == "REPEAT" else word for word in arguments]
    device = ["--device", options.devices.split(",")[0]] if name == "image_pipeline" else ["--devices", options.devices]
    whole = [command, "run", name, *device, "--order", form, *arguments]
    done = subprocess.run(whole, capture_output=True, text=True, env=dict(os.environ, GANTRY_DRIVER=options.driver), check=False)
    figures = [read(pattern, done.stdout, len(options.devices.split(","))) for pattern in patterns]
    if done.returncode != 0 or None in figures[:2]:
        sys.exit(f"order_table: {' '.join(whole)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return figures


def measure(command, name, options, folder):
    """Of each form: [waits, edges, time or None]."""
    rounds = {form: [] for form in FORMS}
    for turn in range(options.runs):
        for form in FORMS if turn % 2 == 0 else FORMS[::-1]:
            rounds[form].append(run_one(command, name, form, options, folder))
    return {form: [None if None in each else statistics.median(each) for each in zip(*rounds[form])] for form in FORMS}


def line(name, figures, markdown):
    """(text, is it within its bounds?)"""
    cells, good = [name], True
    for place, (what, bound) in enumerate(BOUNDS.items()):
        hand, data = figures["edges"][place], figures["data"][place]
        if hand is None or data is None:
            cells += ["-", "-", "-"]
            continue
        ratio = data / hand if hand else (1.0 if data == 0 else float("inf"))
        good &= ratio <= bound
        cells += [f"{hand:g}", f"{data:g}", f"{ratio:.3f}{'' if ratio <= bound else ' !'}"]
    text = "| " + " | ".join(cells) + " |" if markdown else f"{cells[0]:<16}" + "".join(f"{cell:>10}" for cell in cells[1:])
    return text, good


def main():
    parser = argparse.ArgumentParser(description="Order from data over edges by hand.")
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--driver", default="cuda", choices=("cuda", "emulated"))
    parser.add_argument("--devices", default="0", help="of tile_cholesky and stencil; image_pipeline has the first one (0)")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    head = ["sample"] + [f"{what} {form}" for what in BOUNDS for form in ("by hand", "data", "ratio")]
    if options.markdown:
        print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    else:
        print(f"{'sample':<16}" + "".join(f"{word.replace('by hand', 'hand'):>12}"[-10:].rjust(10) for word in head[1:]))
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for name in SAMPLES:
            text, within = line(name, measure(str(options.build / "gantry"), name, options, folder), options.markdown)
            good &= within
            print(text, flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
