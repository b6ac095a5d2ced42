#!/usr/bin/env python3
"""AUTO over the better one of streams and graphs: the rows of `gantry bench ways`, and whole samples.

    tools/auto_table.py BUILD [--driver cuda|emulated] [--runs N] [--samples N] [--markdown]

The bound of each line is 1.03, of the first 20 steps 1.10.  Samples run as processes, N times each way in turn; the
medians of their times are compared, from the process' begin to its end.
Exit status: 0 all lines are within their bounds, 1 some are not, 2 something did not run or was wrong.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

WAYS = ("streams", "graphs", "auto")
SAMPLES = (  # name, arguments; WAY: streams, graphs or auto
    ("hello_graph", ()),
    ("scale_vector", ()),
    ("image_pipeline", ()),
    ("proof_pipeline", ("--concurrency", "5", "--rounds", "5")),
    ("stencil", ("--submission", "WAY", "--devices", "0")),
    ("tile_cholesky", ("--submission", "WAY", "--devices", "0", "--kernels", "own")),
    ("critical_latency", ()),
)
STEADY, FIRST = 1.03, 1.10


def bench_rows(program, driver, runs):
    """Yield (name, best way, its ns, auto's ns)."""
    command = [program, "bench", "--json", "--driver", driver, "--runs", str(runs), "ways"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()[-300:]}")
    for line in done.stdout.splitlines():
        row = json.loads(line)
        yield row["name"].removeprefix("ways/"), row["yardstick"], row["yardstick_value"], row["value"]


def time_sample(program, driver, name, arguments, way):
    """Seconds; None: the sample does not run here."""
    environment = dict(os.environ, GANTRY_SUBMISSION=way, GANTRY_DRIVER=driver)
    arguments = [way if argument == "WAY" else argument for argument in arguments]
    begin = time.monotonic()
    done = subprocess.run([program, "run", name, *arguments], capture_output=True, text=True, check=False, env=environment,
                          timeout=120)
    took = time.monotonic() - begin
    if done.returncode == 77 or "no such sample" in done.stderr:
        return None
    if done.returncode != 0:
        raise RuntimeError(f"{name}, {way}: exit status {done.returncode}: {done.stderr.strip()[-300:]}")
    return took


def sample_rows(program, driver, count):
    """Yield (name, best way, its time, auto's time)."""
    for name, arguments in SAMPLES:
        times = {way: [] for way in WAYS}
        for i in range(count):
            for way in WAYS[i % 3:] + WAYS[:i % 3]:
                times[way].append(time_sample(program, driver, name, arguments, way))
        if None in times["streams"]:
            continue
        medians = {way: statistics.median(values) for way, values in times.items()}
        best = min(("streams", "graphs"), key=medians.get)
        yield f"sample {name}", best, medians[best], medians["auto"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--driver", default="cuda", choices=("cuda", "emulated"))
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    program = str(options.build / "gantry")
    shape = "| {} | {} | {} | {} | {} |" if options.markdown else "{:28} {:8} {:>14} {:>14} {:>7}"
    print(shape.format("row", "best", "its time", "auto", "ratio"))
    if options.markdown:
        print("|---|---|---|---|---|")
    beyond = 0
    try:
        rows = list(bench_rows(program, options.driver, options.runs))
        rows += list(sample_rows(program, options.driver, options.samples)) if options.samples else []
    except (RuntimeError, OSError, subprocess.TimeoutExpired, ValueError, KeyError) as error:
        print(f"auto_table: {error}", file=sys.stderr)
        return 2
    for name, best, theirs, ours in rows:
        ratio = ours / theirs if theirs else float("inf")
        is_beyond = ratio > (FIRST if name.endswith("-first") else STEADY)
        beyond += is_beyond
        print(shape.format(name, best, f"{theirs:.6g}", f"{ours:.6g}", f"{ratio:.3f}{'!' if is_beyond else ''}"))
    print(f"{len(rows)} rows, {beyond} beyond their bound")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
