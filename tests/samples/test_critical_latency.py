#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`gantry run critical_latency` and `gantry bench partition` print their tables and check that every block has run.

Usage: test_critical_latency.py GANTRY
"""
import json
import os
import re
import subprocess
import unittest

from sample import DRIVER, GANTRY, run_sample

LIGHT = bool(os.environ.get("GANTRY_TEST_LIGHT"))


class CriticalLatency(unittest.TestCase):
    def test_all_ways_have_times(self):
        for wait in ("hybrid",) if LIGHT else ("spin", "hybrid", "block"):
            result = run_sample("critical_latency", "--samples", "1", "--wait", wait)
            self.assertEqual(result.returncode, 0, result.stderr)
            for row in ("plain streams", "priority", "partition, by hand", "partition", "leak"):
                self.assertRegex(result.stdout, rf"(?m)^{row} +" + ("right$" if DRIVER == "emulated" else
                                                                      r"[\d.]+ +[\d.]+ +\d+$"))

    @unittest.skipIf(LIGHT, "some twenty splits of the device take too long where tests are light")
    def test_bench_has_all_figures(self):
        result = subprocess.run([GANTRY, "bench", "partition", "--json", "--runs", "1", "--driver", DRIVER],
                                capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = {line["name"]: line for line in map(json.loads, result.stdout.splitlines())}
        self.assertTrue(all(line["verified"] and line["value"] >= 0 for line in lines.values()))
        for name in ("plain", "priority", "leak", "critical", "critical-p99", "long", "path-called", "path-known",
                     "hybrid-p99", "one-graph-p99", "cost-create", "cost-stream", "cost-plan-of-3", "cost-change-to-3"):
            self.assertIn("partition/" + name, lines)
        splits = [name for name in lines if re.fullmatch(r"partition/split-\d+-long", name)]
        self.assertGreater(len(splits), 10)

    def test_arguments_are_refused(self):
        for wrong in (["much"], ["--samples", "0"], ["--driver", "opencl"], ["--wait", "long"], ["--what"]):
            self.assertEqual(run_sample("critical_latency", *wrong).returncode, 2)


if __name__ == "__main__":
    unittest.main()
