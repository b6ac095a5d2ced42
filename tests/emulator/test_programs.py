#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs for CUDA's driver, which know nothing of Gantry, run on the emulated driver when it lies in LD_LIBRARY_PATH as libcuda.so.1.

Usage: test_programs.py FOLDER PROGRAMS (FOLDER has libcuda.so.1, which is the emulated driver; PROGRAMS the programs)
"""
import os
import subprocess
import sys
import unittest

FOLDER, PROGRAMS = sys.argv[1:3]
KEPT = {name: value for name, value in os.environ.items() if not name.startswith(("GANTRY_EMU", "CUDA_"))}


def run(program, folder=FOLDER, **environment):
    """Exit status, stdout, stderr."""
    done = subprocess.run([os.path.join(PROGRAMS, f"emu_program_{program}")], env={**KEPT, "LD_LIBRARY_PATH": folder, **environment},
                          capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


class Programs(unittest.TestCase):
    def test_devices_are_listed(self):
        status, out, err = run("query", GANTRY_EMU_DEVICES="3", GANTRY_EMU_PROFILE="small", CUDA_VISIBLE_DEVICES="2,0")
        self.assertEqual((status, err), (0, ""))
        self.assertIn("CUDA 13.0, 2 devices\n", out)
        self.assertIn("device 0: Gantry emulated small device, compute 8.0, 16 multiprocessors, 2048 MiB, UUID ends with 02\n", out)
        self.assertIn("UUID ends with 00\n", out)
        self.assertTrue(out.endswith("cuStreamCreate: there\ncuGreenCtxCreate: there\ncuStreamGetDevResource: not in this driver\n"
                                     "cuNoSuchFunction: unknown\n"), out)

    def test_copies_arrive_and_running_out_is_survived(self):
        self.assertEqual(run("copies"), (0, "copies: 0 wrong\n", ""))

    def test_kernels_run_on_every_device(self):
        self.assertEqual(run("saxpy", GANTRY_EMU_DEVICES="4"), (0, "saxpy on 4 devices: 0 wrong\n", ""))

    def test_faults_are_played_to_the_program(self):
        status, out, err = run("saxpy", GANTRY_EMU_FAIL="cuMemAlloc:2:2")
        self.assertEqual((status, out, err), (1, "", "cuMemAlloc(&to, sizeof(y)): CUDA_ERROR_OUT_OF_MEMORY (2)\n"))
        status, out, err = run("saxpy", GANTRY_EMU_FAIL="kernel:1:700", CUDA_LOG_FILE="stdout")
        self.assertEqual((status, err), (1, "cuCtxSynchronize(): CUDA_ERROR_ILLEGAL_ADDRESS (700)\n"))
        self.assertIn("[CUDA][E] Returning 700 (CUDA_ERROR_ILLEGAL_ADDRESS) from cuCtxSynchronize\n", out)

    def test_without_it_the_stub_answers(self):
        self.assertEqual(run("copies", folder=PROGRAMS)[2], "cuInit(0): ? (34)\n")


unittest.main(argv=sys.argv[:1])
