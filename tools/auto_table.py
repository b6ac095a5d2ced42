#!/usr/bin/env python3
"""AUTO over the better one of streams and graphs: the rows of `gantry bench ways`, and whole samples.

    tools/auto_table.py BUILD [--driver cuda|emulated] [--runs N] [--seconds S] [--samples N] [--markdown]

The ways run in turn, in rounds of one run each; a ratio is the median of the rounds' ratios, with its 95 % interval (of
five rounds or less: all of them).  The bound of each line is 1.03, of the first 20 steps 1.10; a line is marked with ! if
all of its interval is beyond.  The last column says which way AUTO's steps took (`gantry help ways`).  Samples run as
processes, N times each way; their times are from the process' begin to its end.
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


def interval(ratios):
    """(median, low, high) of the ratios; the interval is by ranks."""
    ratios = sorted(ratios)
    below = max(int(len(ratios) / 2 - 0.98 * len(ratios) ** 0.5), 0)
    return statistics.median(ratios), ratios[below], ratios[-1 - below]


def bench_rows(program, options):
    """Yield (name, medians of the ways, best way, the ratio of auto to it, the ways taken)."""
    command = [program, "bench", "--json", "--driver", options.driver, "--runs", str(options.runs), "--seconds",
               str(options.seconds), "ways"]
    bench = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for line in bench.stdout:
        row = json.loads(line)
        if not row["verified"]:
            raise RuntimeError(f"{row['name']} is wrong")
        medians = {"streams": row["streams"], "graphs": row["graphs"], "auto": row["value"]}
        yield (row["name"].removeprefix("ways/"), medians, row["yardstick"],
               (row["ratio"], row["ratio_low"], row["ratio_high"]), f"{row['rounds']} x {row['taken']}")
    if bench.wait() != 0:
        raise RuntimeError(f"{' '.join(command)}: exit status {bench.returncode}")


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


def sample_rows(program, options):
    """Yield the same of samples, in seconds."""
    for name, arguments in SAMPLES:
        times = {way: [] for way in WAYS}
        for i in range(options.samples):
            for way in WAYS[i % 3:] + WAYS[:i % 3]:
                times[way].append(time_sample(program, options.driver, name, arguments, way))
        if None in times["streams"]:
            continue
        medians = {way: statistics.median(values) for way, values in times.items()}
        best = min(("streams", "graphs"), key=medians.get)
        ratios = [ours / theirs for ours, theirs in zip(times["auto"], times[best])]
        yield f"sample {name}", medians, best, interval(ratios), f"{options.samples} x"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--driver", default="cuda", choices=("cuda", "emulated"))
    parser.add_argument("--runs", type=int, default=100, help="the most rounds of a row of the bench")
    parser.add_argument("--seconds", type=int, default=2, help="of a row of the bench, beyond its third round")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    program = str(options.build / "gantry")
    shape = "| {} | {} | {} | {} | {} | {} | {} |" if options.markdown else "{:24} {:>10} {:>10} {:>10} {:8} {:22} {}"
    print(shape.format("row", *WAYS, "best", "ratio", "rounds x ways taken"))
    if options.markdown:
        print("|---|---|---|---|---|---|---|")
    count = beyond = 0
    try:
        for rows in (bench_rows, sample_rows) if options.samples else (bench_rows,):
            for name, medians, best, (ratio, low, high), taken in rows(program, options):
                is_beyond = low > (FIRST if name.endswith("-first") else STEADY)
                count += 1
                beyond += is_beyond
                text = f"{ratio:.3f} ({low:.3f}-{high:.3f}){'!' if is_beyond else ''}"
                print(shape.format(name, *(f"{medians[way]:.6g}" for way in WAYS), best, text, taken), flush=True)
    except (RuntimeError, OSError, subprocess.TimeoutExpired, ValueError, KeyError) as error:
        print(f"auto_table: {error}", file=sys.stderr)
        return 2
    print(f"{count} rows, {beyond} beyond their bound")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
