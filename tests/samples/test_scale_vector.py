#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`gantry run scale_vector` prints its table with a time in every field, and checks its results.

Usage: test_scale_vector.py GANTRY
"""
import re
import unittest

from sample import run_sample


class ScaleVector(unittest.TestCase):
    def test_table_has_a_time_in_every_field(self):
        result = run_sample("scale_vector")
        self.assertEqual(result.returncode, 0, result.stderr)
        if "device is emulated" in result.stdout:  # whose times say nothing
            for way in ("fixed work", "fixed blocks", "stealing"):
                self.assertRegex(result.stdout, rf"(?m)^{way} +right$")
            self.assertNotRegex(result.stdout, r"\d\.\d$|us\b")
            return
        for way in ("fixed work", "fixed blocks", "stealing"):
            row = re.search(rf"^{way} +([\d.]+) +([\d.]+) +([\d.]+)$", result.stdout, re.M)
            self.assertIsNotNone(row, result.stdout)
            self.assertTrue(all(float(field) > 0 for field in row.groups()), row[0])

        for line in ("reduced overheads", "preemption", "load balancing"):
            ratios = re.search(rf"^{line} " + r" +(?:yes|no) \( *([\d.]+)\)" * 3 + "$", result.stdout, re.M)
            self.assertIsNotNone(ratios, result.stdout)
            self.assertEqual(min(float(ratio) for ratio in ratios.groups()), 1.0)

    def test_stealing_runs_where_blocks_steal(self):
        with_stealing = run_sample("scale_vector", GANTRY_EMU_PROFILE="b200", GANTRY_DRIVER="emulated")
        self.assertEqual(with_stealing.returncode, 0, with_stealing.stderr)
        self.assertIn("by Cluster Launch Control", with_stealing.stdout)

    def test_arguments_are_refused(self):
        self.assertEqual(run_sample("scale_vector", "much").returncode, 2)


if __name__ == "__main__":
    unittest.main()
