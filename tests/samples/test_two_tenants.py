#!/usr/bin/env python3
"""`gantry run two_tenants` prints what both tenants got in all ways, and checks that every kernel has run.

Usage: test_two_tenants.py GANTRY
"""
import os
import re
import subprocess
import sys
import unittest

GANTRY = sys.argv.pop(1)


class TwoTenants(unittest.TestCase):
    def run_sample(self, *arguments):
        driver = os.environ.get("GANTRY_TEST_DRIVER", "emulated")
        return subprocess.run([GANTRY, "run", "two_tenants", *arguments], capture_output=True, text=True,
                              timeout=100, env={**os.environ, "GANTRY_DRIVER": driver}, check=False)

    def test_both_tenants_have_a_row_for_each_way(self):
        result = self.run_sample("--seconds", "1", "--shares", "20,45.5", "--kernel-us", "200")
        self.assertEqual(result.returncode, 0, result.stderr)
        for way in ("streams", "graphs", "replay"):
            rows = re.findall(rf"(?m)^{way} +([\d.]+) +[\d.]+ +[\d.]+ +([\d.]+) .* (\d+)$", result.stdout)
            self.assertEqual([target for target, _, _ in rows], ["20.0", "45.5"])
            # How much they get in so short a time is up to the machine; where one got nothing there is nothing to divide.
            self.assertIn(round(sum(float(part) for _, part, _ in rows), 1), (0, 100))

    def test_arguments_are_refused(self):
        for wrong in (["much"], ["--shares", "30"], ["--shares", "0,50"], ["--shares", "10,20,30"], ["--seconds", "0"],
                      ["--kernel-us", "x"], ["--driver", "opencl"], ["--what"]):
            self.assertEqual(self.run_sample(*wrong).returncode, 2)


if __name__ == "__main__":
    unittest.main()
