#!/usr/bin/env python3
"""After its start-up no sample makes a driver call that stops the whole device, by the emulated driver's counts.

Usage: test_driver_calls.py GANTRY HELLO_GRAPH EMULATOR PHOTO
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

GANTRY, HELLO, EMULATOR, PHOTO = sys.argv[1:5]

# They wait for everything on the device, or ask what only a device that stands still can answer.
GLOBAL = ["cuCtxSynchronize", "cuMemGetInfo", "cuMemAlloc", "cuMemFree", "cuMemFreeHost", "cuMemHostUnregister"]


class DriverCalls(unittest.TestCase):
    def check(self, *command):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "calls")
            arguments = [folder if argument == "FOLDER" else argument for argument in command]
            environment = dict(os.environ, GANTRY_DRIVER="emulated", GANTRY_EMULATOR=EMULATOR, GANTRY_EMU_CALLS=str(path))
            result = subprocess.run(arguments, capture_output=True, text=True, timeout=250, env=environment, check=False)
            self.assertEqual(result.returncode, 0, result.stderr)
            rows = [line.split() for line in path.read_text().splitlines()]
        totals = {name: int(total) for name, total, _ in rows}
        steady = {name: int(count) for name, _, count in rows}
        self.assertGreater(totals["cuLaunchKernel"] + totals["cuGraphLaunch"], 1)
        self.assertEqual({name: steady[name] for name in GLOBAL if steady[name] != 0}, {})

    def test_hello_graph(self):
        self.check(HELLO)

    def test_image_pipeline(self):
        with tempfile.TemporaryDirectory() as photos:
            shutil.copy(PHOTO, photos)
            self.check(GANTRY, "run", "image_pipeline", "--input", photos, "--output", "FOLDER", "--repeat", "2")

    def test_scale_vector(self):
        self.check(GANTRY, "run", "scale_vector")

    def test_critical_latency(self):
        self.check(GANTRY, "run", "critical_latency", "--samples", "1")

    def test_proof_pipeline(self):
        self.check(GANTRY, "run", "proof_pipeline", "--concurrency", "1,4", "--jobs", "8", "--rows-log2", "7", "--repeat", "2",
                   "--reclaim", "bounded", "--class-limit", "on", "--gate", "on")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
