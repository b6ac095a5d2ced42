#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every test of a build that touches the device, under NVIDIA's compute-sanitizer.

usage: sanitize.py BUILD [--out FOLDER] [--jobs N] [--limit S] [--seconds S] [--stress S] [--match REGEX] [TOOL...]

BUILD is a build folder of the preset gpu, FOLDER gets a log per test and tool, and after each of them summary.txt and
errors.txt (BUILD/sanitizer).  The tools are memcheck, racecheck, initcheck and synccheck.  --limit is for one test,
--seconds for everything, --stress how long the stress test runs under each tool.  Which tests touch the device, the
first tool says: the others are left out of the rest.  What takes longest is begun first.

Exit status: 0 nothing found, 1 something found, failed or not run, 77 no compute-sanitizer.
"""
import argparse
import heapq
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

TOOLS = ["memcheck", "racecheck", "initcheck", "synccheck"]
STRESS = "campaign.stress"  # touches the device, as is known
ERROR_STATUS = 9
SKIP_STATUS = 77

# What a tool reports though nothing is wrong: why, and what is in each report of that kind; another one is an error.
WILD = "a kernel writes where there is no memory: that is what it tests"
UPLOADED = "what was uploaded just before (photos, weights, roots, words) passes for unwritten; the results are right"
FILLED = "what a fill has written just before passes for unwritten, now in one line, now in another; the results are right"
INTERNAL = "the tool says that it has failed to track a launch, and reports nothing else"
EXPECTED = {
    ("memcheck", "campaign.lost"): (WILD, r"Invalid __global__ .*\n=+ +at count_up\b|Program hit CUDA_ERROR"),
    ("initcheck", "campaign.lost"): (FILLED, r"of size 4 bytes\n=+ +at count_up\b"),
    ("initcheck", "campaign.stress"): (UPLOADED, r"at add_one\b|Frame: (launch_out|cuGraphLaunch) "),
    ("initcheck", "samples.image_pipeline"): (UPLOADED, r"at (luminance|blur_rows|blur_columns)\b"),
    ("initcheck", "samples.proof_pipeline"): (UPLOADED, r"at proof_(forward|backward|bucket_sums)\b"),
    ("initcheck", "taskman.gpu_frozen"): (UPLOADED, r"Frame: (copy_out|copy_on|cuGraphLaunch) "),
}
# What is left out, and why: of which tool (None: all), which test.
NOT_HERE = {
    (None, "driver.loader"): "libraries of its own stand in for the driver, the tool puts the real one there",
    (None, "driver.module"): "libraries of its own stand in for the driver, the tool puts the real one there",
    (None, "conformance.cuda_13_1"): "about the emulated driver",
    ("initcheck", "conformance.conformance"): "copies behind a gate that the host opens later: the tool's look at what they copy waits",
}
# One test of the conformance suite destroys a stream whose work waits for the host: the tool's own
# cuStreamDestroy waits for that work, so neither goes on.
SKIP = {"conformance.conformance": "test_stream_may_be_destroyed_with_work_left"}
# Seconds on an H200 beside the rest, of what takes longest: begun first.
LONG = {"campaign.stress": 900, "dispatcher.random_graphs": 300, "dispatcher.stable": 300, "samples.critical_latency": 250,
        "samples.image_pipeline": 250, "profile.cta": 200, "dispatcher.dispatcher": 150, "dispatcher.modes": 150,
        "dispatcher.streams": 150, "dispatcher.admission": 150, "context.context": 120, "partition.placement": 120,
        "samples.proof_pipeline": 120, "conformance.conformance": 120,
        "partition.partitions": 100, "copykernel.order": 90, "cli.command": 60}
# Fewer rounds than otherwise, beside GANTRY_TEST_LIGHT: an instrumented kernel takes up to a hundred times as long.
FEWER = {"dispatcher.random_graphs": ["--graphs", "300"], "dispatcher.stable": ["--graphs", "15"]}
# No program of Gantry's that could call a driver.
LEFT_OUT = {"tree": "about the files, not about what runs", "models": "about models, not about what runs"}


class Case:
    def __init__(self, name, command, environment):
        self.name, self.command, self.environment = name, command, environment


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
            cases.append(Case(test["name"], test["command"], environment))
    return cases, left_out


def about(table, tool, name):
    """What a table says of a test under a tool, None: nothing."""
    return table.get((None, name), table.get((tool, name)))


def count_errors(text):
    errors = sum(int(n) for n in re.findall(r"ERROR SUMMARY: (\d+) error", text))
    return errors + sum(int(n) for n in re.findall(r"RACECHECK SUMMARY: (\d+) hazard", text))


def reports(text):
    """The tool's reports, one string each."""
    lines = [line[line.find("=" * 9):] for line in text.splitlines() if "=" * 9 in line]  # also behind a test's output
    blocks = "\n".join("" if line.strip("= ") == "" else line for line in lines).split("\n\n")
    return [block for block in blocks if re.search(r"Saved host backtrace|by thread|hazard", block)]


def judge(case, tool, status, text, seconds):
    errors = count_errors(text)
    touched = "SUMMARY" in text and "before first instrumented API call" not in text
    if status is None:
        return Result(case, tool, "cut", errors, seconds, f"not done after {seconds:.0f} s")
    reason, kind = about(EXPECTED, tool, case.name) or (None, None)
    found = reports(text)
    if errors and errors == text.count("Internal Sanitizer Error") and status in (0, ERROR_STATUS):
        return Result(case, tool, "expected", errors, seconds, INTERNAL)
    if reason is not None and errors and found and all(re.search(kind, report) for report in found):
        return Result(case, tool, "expected", errors, seconds, reason)
    if errors:
        return Result(case, tool, "errors", errors, seconds, f"{errors} errors, status {status}")
    if not touched and status != ERROR_STATUS:
        return Result(case, tool, "untouched", 0, seconds)
    if status == SKIP_STATUS:
        why = re.search(r"skipped: *(.+)", text)
        return Result(case, tool, "skipped", 0, seconds, why.group(1) if why else "no reason given")
    return Result(case, tool, "passed" if status == 0 else "failed", 0, seconds,
                  "" if status == 0 else f"status {status}")


def run(sanitizer, case, tool, limit, folder):
    """The case under the tool; None as its status when it takes longer than `limit` seconds."""
    log = folder / f"{tool}-{case.name}.log"
    place = folder / "files" / f"{tool}-{case.name}"  # under several tools at a time, with the same files
    place.mkdir(parents=True, exist_ok=True)
    command = [sanitizer, "--tool", tool, "--target-processes", "all", "--error-exitcode", str(ERROR_STATUS)]
    if tool == "memcheck":
        command += ["--report-api-errors", "no"]  # tests make calls that are to be refused
    if tool == "initcheck":
        command += ["--print-limit", "20000"]  # all are looked at
    environment = {**os.environ, "GANTRY_TEST_DRIVER": "cuda", "GANTRY_TEST_LIGHT": "1", **case.environment}
    if case.name in SKIP:
        environment["GANTRY_TEST_SKIP"] = SKIP[case.name]
    began = time.monotonic()
    with open(log, "wb") as out:
        process = subprocess.Popen(command + case.command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                   cwd=place, env=environment, start_new_session=True)
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


class Queue:
    """What is to be run, the longest first; threads take from it until it is empty and nothing that runs can add to it."""

    def __init__(self, sanitizer, arguments, end):
        self.sanitizer, self.arguments, self.end = sanitizer, arguments, end
        self.changed = threading.Condition()
        self.waiting, self.running, self.results, self.order = [], 0, [], 0

    def add(self, case, tool, seconds):
        with self.changed:
            self.order += 1
            heapq.heappush(self.waiting, (-seconds, self.order, case, tool))
            self.changed.notify()

    def one(self, case, tool):
        reason = about(NOT_HERE, tool, case.name)
        if reason is not None:
            return Result(case, tool, "left out", why=reason)
        left = self.end - time.monotonic()
        if left < 2:
            return Result(case, tool, "late", why="the time was over")
        return run(self.sanitizer, case, tool, min(self.arguments.limit, left), self.arguments.out)

    def work(self, done):
        """A thread's; done(result) may add."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.waiting or self.running == 0)
                if not self.waiting:
                    return
                _, _, case, tool = heapq.heappop(self.waiting)
                self.running += 1
            try:
                result = self.one(case, tool)
                self.results.append(result)
                done(result)
            finally:
                with self.changed:
                    self.running -= 1
                    self.changed.notify_all()


def run_all(sanitizer, cases, arguments, end, progress):
    """All results; progress(results so far) after each."""
    first, *rest = arguments.tools
    queue = Queue(sanitizer, arguments, end)
    telling = threading.Lock()

    def done(result):
        if result.status not in ("passed", "untouched"):
            print(f"{result.tool} {result.case.name}: {result.status}, {result.seconds:.0f} s {result.why}", flush=True)
        if result.tool == first and result.case.name != STRESS and result.status != "untouched":
            for tool in rest:
                queue.add(result.case, tool, max(result.seconds, LONG.get(result.case.name, 0)))
        with telling:
            progress(list(queue.results))

    for case in cases:
        for tool in arguments.tools if case.name == STRESS else [first]:
            queue.add(case, tool, LONG.get(case.name, 0))
    threads = [threading.Thread(target=queue.work, args=(done,)) for _ in range(arguments.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return queue.results


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
    lines += [f"lighter: {name} {' '.join(words)}" for name, words in FEWER.items()]
    lines.append(f"lighter: GANTRY_TEST_LIGHT is set, so some tests make fewer rounds; {STRESS} runs {arguments.stress} s")
    (arguments.out / "summary.txt").write_text("\n".join(lines) + "\n")
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
    cases, left_out = read_cases(arguments.build, arguments.match)
    for case in cases:
        if case.name == STRESS:
            case.command = [case.command[0], str(arguments.stress)]
        case.command = case.command + FEWER.get(case.name, [])
    results = run_all(sanitizer, cases, arguments, began + arguments.seconds,
                      lambda results: tell(results, left_out, arguments, time.monotonic() - began))
    print((arguments.out / "summary.txt").read_text())
    return 0 if all(result.status in ("passed", "untouched", "expected", "skipped", "left out") for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
