#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`gantry run tile_cholesky` gives a right factor on one device and on several, also where copies of tiles have little room.

Usage: test_tile_cholesky.py GANTRY
"""
import os
import re
import unittest

from sample import DRIVER, run_sample

LIGHT = bool(os.environ.get("GANTRY_TEST_LIGHT"))
EMULATED = unittest.skipUnless(DRIVER == "emulated", "a machine has the devices and links that it has")
ROW = re.compile(r"(?m)^ +(\d+) +(\d x \d) own +(\d+) +(\d+) .* ([\d.e-]+) +([\d.e-]+)  right$")


class TileCholesky(unittest.TestCase):
    def rows(self, *arguments, **environment):
        """Devices, grid, tasks and copies of each row."""
        result = run_sample("tile_cholesky", "--runs", "1", "--kernels", "own", *arguments, **environment)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        rows = ROW.findall(result.stdout)
        self.assertEqual(len(rows), len(result.stdout.splitlines()) - 2, result.stdout)
        for row in rows:
            self.assertLess(float(row[4]), 1e-6)
            self.assertLess(float(row[5]), 2e-6)
        return [(int(devices), grid, int(tasks), int(copies)) for devices, grid, tasks, copies, _, _ in rows]

    @EMULATED
    def test_one_two_and_four_devices(self):
        # 4 factor, 6 solve, 10 update; each tile below the diagonal goes to each device that reads it, once.
        self.assertEqual(self.rows("--size", "256", GANTRY_EMU_DEVICES="4"),
                         [(1, "1 x 1", 20, 0), (2, "1 x 2", 26, 6), (4, "2 x 2", 32, 12)])

    @EMULATED
    def test_order_from_data(self):
        shown = {}
        for order in ("edges", "data"):
            for mode in ("streams", "graphs"):
                arguments = ("--order", order, "--submission", mode, "--size", "320", "--cache", "3")
                self.rows(*arguments, GANTRY_EMU_DEVICES="4")
                text = run_sample("tile_cholesky", "--runs", "1", "--kernels", "own", *arguments, GANTRY_EMU_DEVICES="4").stdout
                shown[order] = [int(edges) for edges in re.findall(r"(?m) own +\d+ +\d+ +(\d+) ", text)]
        self.assertEqual(len(shown["data"]), 3)
        for by_data, by_hand in zip(shown["data"], shown["edges"]):
            self.assertLessEqual(by_data, 1.3 * by_hand)

    @EMULATED
    def test_as_graphs(self):
        for mode in ("graphs", "auto"):
            self.assertEqual(self.rows("--submission", mode, "--size", "192"), [(1, "1 x 1", 10, 0), (2, "1 x 2", 13, 3)])

    @EMULATED
    def test_room_for_two_tiles(self):
        rows = self.rows("--size", "320", "--cache", "2")
        self.assertEqual([row[2] - row[3] for row in rows], [35, 35])
        self.assertGreater(rows[1][3], 10)  # what went out of the cache was copied again: with room it is 10

    @EMULATED
    def test_three_devices_in_another_order(self):
        rows = self.rows("--devices", "2,0,1", "--size", "192", GANTRY_EMU_DEVICES="3")
        self.assertEqual([row[:2] for row in rows], [(1, "1 x 1"), (2, "1 x 2"), (3, "1 x 3")])

    @EMULATED
    @unittest.skipIf(LIGHT, "large tiles have more threads of a block, but no other ones of the program")
    def test_large_tiles_and_a_single_one(self):
        for tile, size in (("128", "256"), ("192", "192")):
            self.rows("--tile", tile, "--size", size)

    @EMULATED
    def test_devices_that_do_not_reach_each_other(self):
        self.rows("--size", "192", GANTRY_EMU_PROFILE="links=none")

    def test_all_devices_there_are(self):
        result = run_sample("tile_cholesky", "--runs", "1", "--tile", "64" if LIGHT and DRIVER == "emulated" else "128",
                            "--size", "256" if DRIVER == "emulated" else "4096")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("right\n", result.stdout)
        self.assertNotIn("WRONG", result.stdout)

    @EMULATED
    def test_libraries_need_a_device(self):
        result = run_sample("tile_cholesky", "--kernels", "cublas")
        self.assertEqual(result.returncode, 1)
        self.assertIn("cuBLAS and cuSOLVER cannot be used: the device is emulated", result.stderr)

    def test_arguments_are_refused(self):
        for wrong in (["much"], ["--tile", "100"], ["--size", "100", "--tile", "64"], ["--size", "10"], ["--cache", "1"],
                      ["--kernels", "mkl"], ["--submission", "default"], ["--runs", "0"], ["--driver", "opencl"], ["--what"]):
            result = run_sample("tile_cholesky", *wrong)
            self.assertEqual(result.returncode, 2, wrong)
            self.assertIn(wrong[0], result.stderr)

    def test_devices_that_are_not_there(self):
        result = run_sample("tile_cholesky", "--devices", "63")
        self.assertEqual(result.returncode, 2)
        self.assertIn("no device 63", result.stderr)


if __name__ == "__main__":
    unittest.main()
