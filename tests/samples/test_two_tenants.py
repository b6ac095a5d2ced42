#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`gantry run two_tenants` prints what both tenants got in all ways, and checks that every kernel has run.

Usage: test_two_tenants.py GANTRY
"""
import os
import pty
import re
import unittest

from sample import run_sample


class TwoTenants(unittest.TestCase):
    def test_both_tenants_have_a_row_for_each_way(self):
        result = run_sample("two_tenants", "--seconds", "1", "--shares", "20,45.5", "--kernel-us", "200")
        self.assertEqual(result.returncode, 0, result.stderr)
        for way in ("streams", "graphs", "replay"):
            rows = re.findall(rf"(?m)^{way} +([\d.]+) +[\d.]+ +[\d.]+ +([\d.]+) .* (\d+)$", result.stdout)
            self.assertEqual([target for target, _, _ in rows], ["20.0", "45.5"])
            # How much they get in so short a time is up to the machine; where one got nothing there is nothing to divide.
            self.assertIn(round(sum(float(part) for _, part, _ in rows), 1), (0, 100))

    def test_a_terminal_shows_how_far_it_is(self):
        try:
            ours, theirs = pty.openpty()
        except OSError as error:
            self.skipTest(f"no terminal: {error}")
        run_sample("two_tenants", "--seconds", "0.1", stderr=theirs)
        os.close(theirs)
        shown = os.read(ours, 1 << 16).decode()
        os.close(ours)
        for part in ("streams, part 1 of 3: 0.1 s", "graphs, part 2 of 3: 0.1 s", "replay, part 3 of 3: 0.1 s"):
            self.assertIn(part, shown)
        self.assertNotIn("part", run_sample("two_tenants", "--seconds", "0.1").stderr)

    def test_arguments_are_refused(self):
        for wrong in (["much"], ["--shares", "30"], ["--shares", "0,50"], ["--shares", "10,20,30"], ["--seconds", "0"],
                      ["--kernel-us", "x"], ["--driver", "opencl"], ["--what"]):
            self.assertEqual(run_sample("two_tenants", *wrong).returncode, 2)


if __name__ == "__main__":
    unittest.main()
