#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""AUTO over the better one of streams and graphs: the rows of `gantry bench ways`, samples, and random programs.

    tools/auto_table.py BUILD [--driver cuda|emulated] [--runs N] [--seconds S] [--only KIND] [--markdown]

Nothing runs beside anything else: the ways run in turn, in rounds of one run each, and each way is the first one in turn.
A ratio is that of the ways' medians of rounds, with its 95 % interval: 1000 draws of as many rounds, the same for both
ways.  (The bench draws turns of its rounds, see bench/ways_figures.h.)  Of samples that tell the time of their work that
is compared, of others the time from the process' begin to its end; the emulated driver's samples tell none.  Samples that
choose their way themselves are not here: two_tenants measures streams and graphs, shared_frame has an option.  `random` is the
time that steps of random programs run (tests/campaign), the sum over programs; a draw draws programs.

The bound of each line is 1.03, of the first 20 steps 1.10; a line is marked with ! if all of its interval is beyond.  The
last column says which way AUTO's steps took (`gantry help ways`).  --seconds is for a row of the bench; a sample has three
times as much and at least 3 rounds, the random programs have ten times as much.
Exit status: 0 no line is beyond its bound with all of its interval, 1 some are, 2 something did not run or was wrong.
"""
import argparse
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

WAYS = ("streams", "graphs", "auto")
STEADY, FIRST = 1.03, 1.10
DRAWS, MOST_ROUNDS, LEAST_ROUNDS = 1000, 30, 3
SAMPLES = (  # name, arguments (WAY: the way, OUT: a folder), what its output says of the time of the work
    ("hello_graph", (), None),
    ("image_pipeline", ("--repeat", "20", "--output", "OUT"), r"^\d+ of \d+ photos processed in ([\d.]+) s"),
    ("proof_pipeline", ("--concurrency", "5", "--rounds", "5"), r"^ +5 +([\d.]+) "),
    ("stencil", ("--submission", "WAY", "--devices", "0"), r"^time: ([\d.]+) us"),
    ("tile_cholesky", ("--submission", "WAY", "--devices", "0", "--kernels", "own", "--size", "4096", "--tile", "512"),
     r"^ +1 +\S+ +\S+ +\d+ +\d+ +([\d.]+)"),
    ("scale_vector", (), None),
    ("critical_latency", (), None),
)
EMULATED_SAMPLES = {  # where the time of the usual sizes is long
    "image_pipeline": ("--repeat", "1", "--output", "OUT"),
    "proof_pipeline": ("--concurrency", "1", "--rounds", "1"),
    "tile_cholesky": ("--submission", "WAY", "--devices", "0", "--kernels", "own"),
}
SEEDS, STEPS = 12, 12  # of one process of random programs


def interval(ours, theirs, middle=statistics.median):
    """(ratio, low, high): of `middle` of our rounds to that of theirs, and of DRAWS draws of rounds."""
    dice = random.Random(1)
    places = range(len(ours))
    drawn = []
    for _ in range(DRAWS):
        rounds = dice.choices(places, k=len(places))
        drawn.append(middle([ours[i] for i in rounds]) / middle([theirs[i] for i in rounds]))
    drawn.sort()
    return middle(ours) / middle(theirs), drawn[DRAWS // 40], drawn[-1 - DRAWS // 40]


def compare(name, times, taken, middle=statistics.median):
    """The line of a table: (name, the ways' values, the best way, the ratio of auto to it, what else)."""
    values = {way: middle(times[way]) for way in WAYS}
    best = min(("streams", "graphs"), key=values.get)
    return name, values, best, interval(times["auto"], times[best], middle), taken


def bench_rows(options):
    """Yield the lines of the bench."""
    command = [str(options.build / "gantry"), "bench", "--json", "--driver", options.driver, "--runs", str(options.runs),
               "--seconds", str(options.seconds), "ways"]
    bench = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for line in bench.stdout:
        row = json.loads(line)
        if not row["verified"]:
            raise RuntimeError(f"{row['name']} is wrong")
        values = {"streams": row["streams"], "graphs": row["graphs"], "auto": row["value"]}
        yield (row["name"].removeprefix("ways/"), values, row["yardstick"],
               (row["ratio"], row["ratio_low"], row["ratio_high"]), f"{row['rounds']} x {row['taken']}")
    if bench.wait() != 0:
        raise RuntimeError(f"{' '.join(command)}: exit status {bench.returncode}")


def run(command, way, driver):
    """(seconds, output) of a process; None: it does not run here."""
    environment = dict(os.environ, GANTRY_SUBMISSION=way, GANTRY_DRIVER=driver, GANTRY_TEST_DRIVER=driver)
    begin = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
    took = time.monotonic() - begin
    if done.returncode == 77 or "no such sample" in done.stderr:
        return None
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}, {way}: exit status {done.returncode}: {done.stderr.strip()[-300:]}")
    return took, done.stdout


def in_turn(seconds, most, once):
    """Call once(way) for each way in rounds; the results of each way.  None: one was None."""
    results = {way: [] for way in WAYS}
    begin = time.monotonic()
    for i in range(most):
        if i >= LEAST_ROUNDS and time.monotonic() - begin > seconds:
            break
        for way in WAYS[i % 3:] + WAYS[:i % 3]:
            result = once(way, i)
            if result is None:
                return None
            results[way].append(result)
    return results


def sample_rows(options):
    """Yield the lines of the samples, in seconds or in what they tell."""
    program = str(options.build / "gantry")
    for name, arguments, told in SAMPLES:
        if options.driver == "emulated":
            arguments = EMULATED_SAMPLES.get(name, arguments)
        with tempfile.TemporaryDirectory() as folder:
            def once(way, _round, name=name, arguments=arguments, told=told, folder=folder):
                given = [{"WAY": way, "OUT": folder}.get(argument, argument) for argument in arguments]
                done = run([program, "run", name, *given], way, options.driver)
                found = done and told and re.search(told, done[1], re.MULTILINE)
                return float(found[1]) if found else done and done[0]
            times = in_turn(3 * options.seconds, min(options.runs, MOST_ROUNDS), once)
        if times is not None:
            yield compare(f"sample {name}", times, f"{len(times['auto'])} x")


def random_rows(options):
    """Yield the line of random programs: milliseconds of all of them."""
    program = str(options.build / "tests" / "test_campaign_workloads")
    if not os.path.exists(program):
        return

    def once(way, number):
        done = run([program, "--submission", way, "--first", str(1 + number * SEEDS), "--seeds", str(SEEDS), "--steps",
                    str(STEPS)], way, options.driver)
        return done and [float(ms) for ms in re.findall(r"^seed \d+: ([\d.]+) ms", done[1], re.MULTILINE)]
    lists = in_turn(10 * options.seconds, min(options.runs, MOST_ROUNDS), once)
    if lists is not None:
        times = {way: [ms for some in lists[way] for ms in some] for way in WAYS}
        yield compare("random", times, f"{len(times['auto'])} programs", sum)


def main():
    kinds = {"bench": bench_rows, "samples": sample_rows, "random": random_rows}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--driver", default="cuda", choices=("cuda", "emulated"))
    parser.add_argument("--runs", type=int, default=400, help="the most rounds of a row")
    parser.add_argument("--seconds", type=int, default=2, help="of a row of the bench")
    parser.add_argument("--only", choices=sorted(kinds))
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    shape = "| {} | {} | {} | {} | {} | {} | {} |" if options.markdown else "{:24} {:>10} {:>10} {:>10} {:8} {:22} {}"
    print(shape.format("row", *WAYS, "best", "ratio", "rounds x ways taken"))
    if options.markdown:
        print("|---|---|---|---|---|---|---|")
    count = beyond = 0
    try:
        for kind, rows in kinds.items():
            for name, values, best, (ratio, low, high), taken in rows(options) if options.only in (None, kind) else ():
                is_beyond = low > (FIRST if name.endswith("-first") else STEADY)
                count += 1
                beyond += is_beyond
                text = f"{ratio:.3f} ({low:.3f}-{high:.3f}){'!' if is_beyond else ''}"
                print(shape.format(name, *(f"{values[way]:.6g}" for way in WAYS), best, text, taken), flush=True)
    except (RuntimeError, OSError, subprocess.TimeoutExpired, ValueError, KeyError) as error:
        print(f"auto_table: {error}", file=sys.stderr)
        return 2
    print(f"{count} lines, {beyond} beyond their bound")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
