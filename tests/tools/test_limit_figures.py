#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/limit_figures.py judges a share by what kernels noted: its arithmetic."""
import array
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import limit_figures as figures  # noqa: E402

MS = 1_000_000


class Arithmetic(unittest.TestCase):
    def test_short_gaps_are_bridged(self):
        self.assertEqual(figures.union([(50_000, 60_000), (0, 10_000), (20_000, 30_000), (5_000, 12_000)]),
                         [[0, 30_000], [50_000, 60_000]])

    def test_a_share(self):
        """3 of 10 ms, for 2 s: from the begin of one kernel to the begin of a later one."""
        found = figures.share_of([(at * 10 * MS, (at * 10 + 3) * MS) for at in range(200)])
        for key in ("percent", "lowest_second", "highest_second"):
            self.assertAlmostEqual(found[key], 30, delta=0.5)
        self.assertAlmostEqual(found["percent"], 30, places=6)
        self.assertEqual(found["kernels"], 200)

    def test_who_never_pauses(self):
        self.assertAlmostEqual(figures.share_of([(at * MS, (at + 1) * MS) for at in range(1000)])["percent"], 100)

    def test_what_cannot_be_judged(self):
        with self.assertRaises(figures.Failed):
            figures.share_of([])
        with self.assertRaises(figures.Failed):
            figures.rate_in([(0, 5)], 10, 20)

    def test_half_a_pair_is_left_out(self):
        with tempfile.NamedTemporaryFile() as file:
            array.array("Q", [1, 2, 3]).tofile(file)
            file.flush()
            self.assertEqual(figures.read_pairs(file.name), [(1, 2)])


if __name__ == "__main__":
    unittest.main()
