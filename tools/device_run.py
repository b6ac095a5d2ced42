#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a run of the tests on a device came to: say it, and keep it in docs/results/device.md.

Usage: device_run.py [--root FOLDER] say GANTRY RESULTS OUT
       device_run.py [--root FOLDER] record JSON

`say` reads ctest's JUnit file RESULTS, asks the command GANTRY for the driver and the device, writes the JSON file OUT and prints
"device run: COMMIT, driver, device, N passed, N failed, N skipped".  A commit with changes that are not in it has "+" behind it.
`record` writes a row of the page: the last run of each kind of device.  It refuses a run on no device, and one of changed files, since nobody
can have them again.
"""
import argparse
import datetime
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_summary import left_out, read  # noqa: E402

PAGE = "docs/results/device.md"
NONE = "No run is recorded yet.\n"
HEAD = "| device | driver | commit | date | passed | failed | skipped |\n|---|---|---|---|---|---|---|\n"
ROW = re.compile(r"^\| (?P<device>[^|]+) \| (?P<driver>[^|]+) \| `(?P<commit>[0-9a-f]{40})` \| (?P<date>[^|]+) \|.*\n", re.MULTILINE)


def git(root, *words):
    return subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=True).stdout.strip()


def commit_of(root):
    """The commit that is checked out, with "+" where tracked files differ from it; "unknown" outside of a repository."""
    try:
        return git(root, "rev-parse", "HEAD") + ("+" if git(root, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def device_of(gantry):
    """(driver, device) as `gantry info` has them; ("none", "no device") where it finds none."""
    try:
        told = subprocess.run([gantry, "info", "--json", "--driver", "cuda"], capture_output=True, text=True, check=True, timeout=120)
        info = json.loads(told.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return "none", "no device"
    version = info["driver_version"]
    return f"CUDA {version // 1000}.{version % 1000 // 10}", info["device"]["name"]


def say(root, gantry, results, out):
    passed, failed, skipped = read(results)
    driver, device = device_of(gantry)
    run = {"commit": commit_of(root), "driver": driver, "device": device, "date": datetime.date.today().isoformat(),
           "passed": passed, "failed": failed, "skipped": [{"test": name, "why": why} for name, why in skipped],
           "left_out": [{"test": name, "why": why} for name, why in left_out(results)]}
    with open(out, "w", encoding="utf-8") as file:
        json.dump(run, file, indent=1)
        file.write("\n")
    print(f"device run: {run['commit']}, {driver}, {device}, {passed} passed, {len(failed)} failed, {len(skipped)} skipped")


def rows_of(page):
    """The rows of the page's table, as {device: match}."""
    return {row["device"]: row for row in ROW.finditer(page)}


def record(root, path):
    with open(path, encoding="utf-8") as file:
        run = json.load(file)
    if run["driver"] == "none":
        sys.exit(f"device_run.py: {path}: the run found no device")
    if not re.fullmatch("[0-9a-f]{40}", run["commit"]):
        sys.exit(f"device_run.py: {path}: the run is of \"{run['commit']}\", which is no commit: what was run cannot be had again")
    page_path = os.path.join(root, PAGE)
    with open(page_path, encoding="utf-8") as file:
        page = file.read()
    rows = {device: row[0] for device, row in rows_of(page).items()}
    rows[run["device"]] = (f"| {run['device']} | {run['driver']} | `{run['commit']}` | {run['date']} | {run['passed']} | "
                           f"{len(run['failed'])} | {len(run['skipped'])} |\n")
    table = HEAD + "".join(rows[device] for device in sorted(rows))
    at = page.find(NONE) if NONE in page else page.index(HEAD)
    end = at + len(NONE) if NONE in page else at + len(HEAD) + sum(len(row[0]) for row in ROW.finditer(page))
    with open(page_path, "w", encoding="utf-8") as file:
        file.write(page[:at] + table + page[end:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    commands = parser.add_subparsers(dest="command", required=True)
    words = commands.add_parser("say")
    for name in ("gantry", "results", "out"):
        words.add_argument(name)
    commands.add_parser("record").add_argument("json")
    options = parser.parse_args()
    if options.command == "say":
        say(options.root, options.gantry, options.results, options.out)
    else:
        record(options.root, options.json)


if __name__ == "__main__":
    main()
