#!/usr/bin/env python3
"""`gantry run critical_latency` prints its tables and checks that every block has run.

Usage: test_critical_latency.py GANTRY
"""
import os
import re
import subprocess
import sys
import unittest

GANTRY = sys.argv.pop(1)


class CriticalLatency(unittest.TestCase):
    def run_sample(self, *arguments):
        driver = os.environ.get("GANTRY_TEST_DRIVER", "emulated")
        return subprocess.run([GANTRY, "run", "critical_latency", *arguments], capture_output=True, text=True,
                              timeout=100, env={**os.environ, "GANTRY_DRIVER": driver}, check=False)

    def test_all_ways_splits_and_calls_have_times(self):
        result = self.run_sample("--samples", "1", "--sweep", "--cost")
        self.assertEqual(result.returncode, 0, result.stderr)
        for row in ("plain streams", "priority", "partition, by hand", "partition"):
            self.assertRegex(result.stdout, rf"(?m)^{row} +[\d.]+ +[\d.]+ +\d+$")
        splits = re.findall(r"(?m)^(\d+) +(\d+) +[\d.]+ +[\d.]+ +\d+ +[\d.]+$", result.stdout)
        self.assertGreater(len(splits), 10)
        self.assertEqual(len({int(a) + int(b) for a, b in splits}), 1)
        self.assertRegex(result.stdout, r"(?m)^green context create +[\d.]+$")

    def test_arguments_are_refused(self):
        for wrong in (["much"], ["--samples", "0"], ["--driver", "opencl"], ["--what"]):
            self.assertEqual(self.run_sample(*wrong).returncode, 2)


if __name__ == "__main__":
    unittest.main()
