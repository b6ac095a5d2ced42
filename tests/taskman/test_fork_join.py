#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run the sample fork_join: its sums, its task counts, its arguments and exit statuses.

Usage: test_fork_join.py FORK_JOIN
"""
import subprocess
import sys


def numbers(count):
    value, out = 1, []
    for _ in range(count):
        value = (value * 1664525 + 1013904223) % 2**32
        out.append(value)
    return out


def tasks_for(count, leaf):
    """Forks and joins, without the task that prints."""
    if count <= leaf:
        return 1
    return 2 + tasks_for(count // 2, leaf) + tasks_for(count - count // 2, leaf)


def run(*arguments):
    done = subprocess.run([sys.argv[1], *map(str, arguments)], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def main():
    for count, leaf, workers in [(1, 1, 1), (2, 1, 1), (1000, 1, 1), (5000, 7, 2), (5000, 7, 4), (5000, 9000, 2)]:
        status, out, err = run("--count", count, "--leaf", leaf, "--workers", workers)
        total = sum(numbers(count))
        expected = (f"sum of {count} numbers: {total}\n"
                    f"right: one loop says {total}; {tasks_for(count, leaf) + 1} tasks\n")
        check((status, out, err) == (0, expected, ""), f"{count} {leaf} {workers}: {status} {out!r} {err!r}")
    status, out, err = run("--help")
    check(status == 0 and out.startswith("usage: fork_join") and err == "", "--help")
    for bad in [["--count", "0"], ["--count", "x"], ["--count", "-1"], ["--count", "5x"], ["--leaf", ""],
                ["--workers", "257"], ["--count", "99999999999999999999999"], ["--what"], ["more"], ["--count"]]:
        status, out, err = run(*bad)
        check(status == 2 and out == "" and "usage: fork_join" in err, f"{bad}: {status} {out!r} {err!r}")
    if sys.platform == "linux":
        with open("/dev/full", "w") as full:
            done = subprocess.run([sys.argv[1], "--count", "10"], stdout=full, stderr=subprocess.PIPE, timeout=60)
        check(done.returncode == 1, f"a full disk: exit status {done.returncode}")


main()
