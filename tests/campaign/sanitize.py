#!/usr/bin/env python3
"""Every test of a build that touches the device, under NVIDIA's compute-sanitizer.

usage: sanitize.py BUILD [--out FOLDER] [--jobs N] [--limit S] [--seconds S] [--stress S] [--match REGEX] [TOOL...]

BUILD is a build folder of the preset gpu, FOLDER gets a log per test and tool, summary.txt and errors.txt
(BUILD/sanitizer).  The tools are memcheck, racecheck, initcheck and synccheck.  --limit is for one test, --seconds
for everything, --stress how long the stress test runs under memcheck.  Which tests touch the device, the first tool
says: the others are left out of the rest.

Exit status: 0 nothing found, 1 something found, failed or not run, 77 no compute-sanitizer.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

TOOLS = ["memcheck", "racecheck", "initcheck", "synccheck"]
ERROR_STATUS = 9
SKIP_STATUS = 77

# What a tool reports or cannot do though nothing is wrong.
EXPECTED = {
    (None, "campaign.lost"): "a kernel writes where there is no memory: that is what it tests",
}
# What is left out, and why: of which tool (None: all), which test.
NOT_HERE = {
    (None, "driver.loader"): "libraries of its own stand in for the driver, the tool puts the real one there",
    (None, "driver.module"): "libraries of its own stand in for the driver, the tool puts the real one there",
    (None, "conformance.cuda_13_1"): "about the emulated driver",
}
# One test of the conformance suite destroys a stream whose work waits for the host: the tool's own
# cuStreamDestroy waits for that work, so neither goes on.
SKIP = {"conformance.conformance": "test_stream_may_be_destroyed_with_work_left"}
# No program of Gantry's that could call a driver.
LEFT_OUT = {"tree": "about the files, not about what runs", "models": "about models, not about what runs"}


class Case:
    def __init__(self, name, command, folder, environment):
        self.name, self.command, self.folder, self.environment = name, command, folder, environment


class Result:
    """status: passed, errors, expected, failed, cut, skipped, left out, untouched (no call of a driver), late (not run)"""

    def __init__(self, case, tool, status, errors=0, seconds=0.0, why=""):
        self.case, self.tool, self.status, self.errors = case, tool, status, errors
        self.seconds, self.why = seconds, why


def find_tool():
    places = [shutil.which("compute-sanitizer"), "/usr/local/cuda/bin/compute-sanitizer",
              "/usr/local/cuda/compute-sanitizer/compute-sanitizer"]
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


def read_cases(build, match):
    """(cases, {label: how many left out})"""
    listing = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True,
                             text=True)
    cases, left_out = [], {}
    for test in json.loads(listing.stdout)["tests"]:
        properties = {one["name"]: one["value"] for one in test.get("properties", [])}
        label = next((label for label in properties.get("LABELS", []) if label in LEFT_OUT), None)
        if label is not None:
            left_out[label] = left_out.get(label, 0) + 1
        elif re.search(match, test["name"]) and "command" in test:
            environment = dict(line.split("=", 1) for line in properties.get("ENVIRONMENT", []))
            cases.append(Case(test["name"], test["command"], properties.get("WORKING_DIRECTORY", build), environment))
    return cases, left_out


def about(table, tool, name):
    """What a table says of a test under a tool, None: nothing."""
    return table.get((None, name), table.get((tool, name)))


def count_errors(text):
    errors = sum(int(n) for n in re.findall(r"ERROR SUMMARY: (\d+) error", text))
    return errors + sum(int(n) for n in re.findall(r"RACECHECK SUMMARY: (\d+) hazard", text))


def judge(case, tool, status, text, seconds):
    errors = count_errors(text)
    touched = "SUMMARY" in text and "before first instrumented API call" not in text
    if status is None:
        return Result(case, tool, "cut", errors, seconds, f"not done after {seconds:.0f} s")
    expected = about(EXPECTED, tool, case.name)
    if expected is not None and (errors or status == 0):
        return Result(case, tool, "expected", errors, seconds, expected)
    if errors:
        return Result(case, tool, "errors", errors, seconds, f"{errors} errors, status {status}")
    if not touched and status != ERROR_STATUS:
        return Result(case, tool, "untouched", 0, seconds)
    if status == SKIP_STATUS:
        reason = re.search(r"skipped: *(.+)", text)
        return Result(case, tool, "skipped", 0, seconds, reason.group(1) if reason else "no reason given")
    return Result(case, tool, "passed" if status == 0 else "failed", 0, seconds,
                  "" if status == 0 else f"status {status}")


def run(sanitizer, case, tool, limit, folder):
    """The case under the tool; None as its status when it takes longer than `limit` seconds."""
    log = folder / f"{tool}-{case.name}.log"
    command = [sanitizer, "--tool", tool, "--target-processes", "all", "--error-exitcode", str(ERROR_STATUS)]
    if tool == "memcheck":
        command += ["--report-api-errors", "no"]  # tests make calls that are to be refused
    environment = {**os.environ, "GANTRY_TEST_DRIVER": "cuda", "GANTRY_TEST_LIGHT": "1", **case.environment}
    if case.name in SKIP:
        environment["GANTRY_TEST_SKIP"] = SKIP[case.name]
    began = time.monotonic()
    with open(log, "wb") as out:
        process = subprocess.Popen(command + case.command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                   cwd=case.folder, env=environment, start_new_session=True)
        try:
            status = process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            status = None
        try:
            os.killpg(process.pid, signal.SIGKILL)  # whatever it has left running
        except ProcessLookupError:
            pass
        process.wait()
    return judge(case, tool, status, log.read_text(errors="replace"), time.monotonic() - began)


def run_all(sanitizer, work, arguments, end):
    """work: [(case, tool, limit)]; results in the order they come."""
    def one(case, tool, limit):
        reason = about(NOT_HERE, tool, case.name)
        if reason is not None:
            return Result(case, tool, "left out", why=reason)
        left = end - time.monotonic()
        if left < 2:
            return Result(case, tool, "late", why="the time was over")
        return run(sanitizer, case, tool, min(limit, left), arguments.out)

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        futures = [pool.submit(one, *item) for item in work]
        for future in concurrent.futures.as_completed(futures):
            result = future.result()
            if result.status not in ("passed", "untouched"):
                print(f"{result.tool} {result.case.name}: {result.status}, {result.seconds:.0f} s {result.why}", flush=True)
            yield result


def excerpt(path):
    lines = path.read_text(errors="replace").splitlines()
    tool = [line for line in lines if line.startswith("=========")]
    return "\n".join(tool[:80] + ["..."] + lines[-25:])


def tell(results, left_out, arguments, seconds):
    order = ["passed", "expected", "skipped", "left out", "errors", "failed", "cut", "late", "untouched"]
    lines = [f"{'tool':<10} {'tests':>6} " + " ".join(f"{name:>9}" for name in order) + f" {'errors':>7}"]
    for tool in arguments.tools:
        mine = [result for result in results if result.tool == tool]
        counts = [sum(result.status == name for result in mine) for name in order]
        found = sum(result.errors for result in mine if result.status not in ("expected",))
        lines.append(f"{tool:<10} {len(mine):>6} " + " ".join(f"{count:>9}" for count in counts) + f" {found:>7}")
    lines.append("untouched: makes no call of a real driver (the emulated one, or none), so the other tools leave it out")
    lines += [f"left out: {count} tests labelled {label}: {LEFT_OUT[label]}" for label, count in sorted(left_out.items())]
    for result in sorted(results, key=lambda result: (result.status, result.tool, result.case.name)):
        if result.status not in ("passed", "untouched"):
            lines.append(f"{result.status:<9} {result.tool:<10} {result.case.name}: {result.why}, {result.seconds:.0f} s")
    lines += [f"skipped   in all tools {name}: {part}: the tool waits where the driver does not" for name, part in SKIP.items()]
    names = {status: sorted({r.case.name for r in results if r.status == status}) for status in ("untouched", "passed")}
    lines.append("untouched: " + " ".join(names["untouched"]))
    lines.append("with a device: " + " ".join(names["passed"]))
    lines.append(f"{seconds:.0f} s")
    (arguments.out / "summary.txt").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    with open(arguments.out / "errors.txt", "w", encoding="utf-8") as out:
        for result in results:
            if result.status in ("errors", "failed", "cut", "expected"):
                log = arguments.out / f"{result.tool}-{result.case.name}.log"
                print(f"== {result.tool} {result.case.name}: {result.status} {result.why}\n{excerpt(log)}\n", file=out)


def parse():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("tools", nargs="*", choices=[[], *TOOLS])
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--limit", type=float, default=600)
    parser.add_argument("--seconds", type=float, default=36000)
    parser.add_argument("--stress", type=int, default=60)
    parser.add_argument("--match", default="")
    arguments = parser.parse_intermixed_args()
    arguments.build = arguments.build.resolve()
    arguments.out = (arguments.out or arguments.build / "sanitizer").resolve()
    arguments.tools = arguments.tools or TOOLS
    return arguments


def main():
    arguments = parse()
    sanitizer = find_tool()
    if sanitizer is None:
        print("skipped: there is no compute-sanitizer")
        return SKIP_STATUS
    arguments.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    end = began + arguments.seconds
    cases, left_out = read_cases(arguments.build, arguments.match)
    for case in cases:
        if case.name == "campaign.stress":
            case.command = [case.command[0], str(arguments.stress)]
    cases.sort(key=lambda case: case.name != "campaign.stress")  # what takes longest first
    first, *rest = arguments.tools
    limits = {"campaign.stress": arguments.limit + arguments.stress}
    results = list(run_all(sanitizer, [(case, first, limits.get(case.name, arguments.limit)) for case in cases],
                           arguments, end))
    for case in cases:
        if case.name == "campaign.stress":
            case.command = [case.command[0], "10"]
    touched = sorted((result for result in results if result.status != "untouched"), key=lambda r: -r.seconds)
    work = [(result.case, tool, arguments.limit) for tool in rest for result in touched]
    results += list(run_all(sanitizer, work, arguments, end))
    tell(results, left_out, arguments, time.monotonic() - began)
    return 0 if all(result.status in ("passed", "untouched", "expected", "skipped", "left out") for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
