#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`gantry run stencil` gives the CPU's result on one device and on several, whichever way halos go and work is submitted.

Usage: test_stencil.py GANTRY
"""
import re
import unittest

from sample import DRIVER, run_sample

EQUAL = "result: equal to that of the CPU, bit for bit"
EMULATED = unittest.skipUnless(DRIVER == "emulated", "a machine has the devices and links that it has")


class Stencil(unittest.TestCase):
    def run_stencil(self, *arguments, **environment):
        result = run_sample("stencil", *arguments, **environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(EQUAL, result.stdout)
        return result

    @EMULATED
    def test_one_to_four_devices(self):
        for devices in (1, 2, 3, 4):
            for way in ("copy", "fused"):
                for mode in ("streams", "graphs"):
                    text = self.run_stencil("--halo", way, "--submission", mode, "--rows", "21", "--columns", "70", "--steps",
                                            "6", "--runs", "2", GANTRY_EMU_DEVICES=str(devices)).stdout
                    self.assertTrue(text.startswith(f"{devices} device"), text)
                    # Each neighbour gets a row from the other in each of the 12 steps.
                    copies = 0 if way == "fused" else 2 * (devices - 1) * 12
                    self.assertIn(f"copies between devices: {copies}, of these through the host: 0\n", text)

    @EMULATED
    def test_order_from_data(self):
        # The result is checked by the program; edges that are made by hand are as few as they can be.
        for devices in (1, 2, 4):
            for way in ("copy", "fused"):
                edges = {}
                for order in ("edges", "data"):
                    for mode in ("streams", "graphs"):
                        text = self.run_stencil("--order", order, "--halo", way, "--submission", mode, "--rows", "21", "--columns",
                                                "70", "--steps", "20", "--runs", "2", GANTRY_EMU_DEVICES=str(devices)).stdout
                        edges[order] = int(re.search(r"order: .*, (\d+) edges", text)[1])
                if way == "fused":
                    self.assertEqual(edges["data"], edges["edges"], devices)
                self.assertLessEqual(edges["data"], 1.3 * edges["edges"], (devices, way))

    def test_all_devices_there_are(self):
        self.run_stencil()

    @EMULATED
    def test_the_same_by_hand(self):
        for devices in (1, 2, 3):
            for way in ("copy", "fused"):
                self.run_stencil("--by-hand", "--halo", way, "--rows", "12", "--columns", "40", "--steps", "10", "--runs", "2",
                                 GANTRY_EMU_DEVICES=str(devices))

    @EMULATED
    def test_devices_in_another_order_and_parts_of_three_rows(self):
        text = self.run_stencil("--devices", "3,0,2", "--rows", "9", "--columns", "1", "--steps", "2",
                                GANTRY_EMU_DEVICES="4").stdout
        self.assertIn("3 devices", text)

    @EMULATED
    def test_devices_that_do_not_reach_each_other(self):
        text = self.run_stencil("--runs", "1", "--steps", "4", GANTRY_EMU_PROFILE="links=none").stdout
        self.assertIn("copies between devices: 8, of these through the host: 8\n", text)
        result = run_sample("stencil", "--halo", "fused", GANTRY_EMU_PROFILE="links=none")
        self.assertEqual(result.returncode, 1)
        self.assertIn("kernels of device 0 do not reach memory of device 1", result.stderr)

    @unittest.skipIf(DRIVER == "emulated", "emulated devices have no times")
    def test_a_device_has_times(self):
        text = self.run_stencil("--rows", "512").stdout
        self.assertTrue(re.search(r"time: [\d.]+ us per step", text), text)

    @EMULATED
    def test_too_few_rows_are_told(self):
        result = run_sample("stencil", "--rows", "8", GANTRY_EMU_DEVICES="3")
        self.assertEqual(result.returncode, 2)
        self.assertIn("8 rows are too few for 3 devices: each needs 3 at least", result.stderr)

    def test_arguments_are_refused(self):
        for wrong in (["much"], ["--steps", "3"], ["--steps", "0"], ["--steps", "x"], ["--rows", "2"], ["--columns", "0"],
                      ["--halo", "by-hand"], ["--submission", "default"], ["--runs", "0"], ["--driver", "opencl"], ["--what"]):
            result = run_sample("stencil", *wrong)
            self.assertEqual(result.returncode, 2, wrong)
            self.assertIn(wrong[0], result.stderr)

    def test_devices_that_are_not_there(self):
        result = run_sample("stencil", "--devices", "0,63")
        self.assertEqual(result.returncode, 2)
        self.assertIn("no device 63", result.stderr)


if __name__ == "__main__":
    unittest.main()
