#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""After its start-up no sample makes a driver call that stops the whole device, by the emulated driver's counts.

Usage: test_driver_calls.py SAMPLES GANTRY EMULATOR PROGRAMS

SAMPLES is the folder of their sources, PROGRAMS that of those which are programs of their own.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SAMPLES, GANTRY, EMULATOR, PROGRAMS = (pathlib.Path(argument).resolve() for argument in sys.argv[1:5])
PHOTO = SAMPLES / "image_pipeline" / "data" / "chelsea.png"

# They wait for everything on the device, or ask what only a device that stands still can answer; copies of which the
# call waits are on the stream that waits for all others.
GLOBAL = ["cuCtxSynchronize", "cuMemGetInfo", "cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuMemFreeHost",
          "cuMemHostRegister", "cuMemHostUnregister", "cuMemcpyHtoD", "cuMemcpyDtoH", "cuModuleLoadDataEx",
          "cuModuleUnload"]


class DriverCalls(unittest.TestCase):
    def run_sample(self, *command, **variables):
        """The calls by function: in all, and between the first launch and the last; None without the driver."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "calls")
            arguments = [folder if argument == "FOLDER" else argument for argument in command]
            environment = dict(os.environ, GANTRY_DRIVER="emulated", GANTRY_EMULATOR=str(EMULATOR),
                               GANTRY_EMU_CALLS=str(path), **variables)
            result = subprocess.run(arguments, capture_output=True, text=True, timeout=250, env=environment, check=False)
            self.assertEqual(result.returncode, 0, result.stderr)
            if not path.exists():
                return None
            rows = [line.split() for line in path.read_text().splitlines()]
        return {name: (int(total), int(steady)) for name, total, steady in rows}

    def check(self, *command, **variables):
        calls = self.run_sample(*command, **variables)
        self.assertGreater(calls["cuLaunchKernel"][0] + calls["cuGraphLaunch"][0], 1)
        self.assertEqual({name: calls[name] for name in GLOBAL if calls[name][1] != 0}, {})

    def test_a_file_that_cannot_be_written_is_told(self):
        for path, why in (("/nowhere/calls", "No such file or directory"), ("/dev/full", "No space left on device")):
            environment = dict(os.environ, GANTRY_DRIVER="emulated", GANTRY_EMULATOR=str(EMULATOR), GANTRY_EMU_CALLS=path)
            result = subprocess.run([PROGRAMS / "hello_graph"], capture_output=True, text=True, env=environment, check=False)
            self.assertEqual(result.returncode, 0)
            self.assertIn(f"gantry: error: GANTRY_EMU_CALLS: {path}: {why}\n", result.stderr)

    def test_hello_graph(self):
        self.check(PROGRAMS / "hello_graph")

    def check_image_pipeline(self, names, *arguments):
        with tempfile.TemporaryDirectory() as photos:
            for name in names:
                shutil.copy(PHOTO.parent / name, photos)
            self.check(GANTRY, "run", "image_pipeline", "--input", photos, "--output", "FOLDER", *arguments)

    def test_image_pipeline(self):
        self.check_image_pipeline([PHOTO.name], "--repeat", "2")

    @unittest.skipIf(os.environ.get("GANTRY_TEST_LIGHT"), "many photos take too long where tests are light")
    def test_image_pipeline_with_photos_of_several_sizes(self):
        self.check_image_pipeline([PHOTO.name], "--repeat", "8", "--in-flight", "3")
        self.check_image_pipeline([PHOTO.name, "rocket.png"], "--repeat", "3", "--in-flight", "3")

    def test_timeline(self):
        with tempfile.TemporaryDirectory() as photos:
            shutil.copy(PHOTO, photos)
            self.check(SAMPLES / "timeline" / "timeline.sh", GANTRY, "FOLDER", "--input", photos)

    def test_scale_vector(self):
        self.check(GANTRY, "run", "scale_vector")

    def test_critical_latency(self):
        self.check(GANTRY, "run", "critical_latency", "--samples", "1")

    def test_two_tenants(self):
        self.check(GANTRY, "run", "two_tenants", "--seconds", "0.2")

    def test_stencil(self):
        for mode in ("streams", "graphs"):
            self.check(GANTRY, "run", "stencil", "--submission", mode, GANTRY_EMU_DEVICES="2")

    def test_tile_cholesky(self):
        self.check(GANTRY, "run", "tile_cholesky", "--size", "192", GANTRY_EMU_DEVICES="1")

    def test_proof_pipeline(self):
        for interventions in ("off", "on"):
            self.check(GANTRY, "run", "proof_pipeline", "--concurrency", "1,4", "--jobs", "8", "--rows-log2", "7",
                       "--repeat", "2", "--reclaim", "bounded" if interventions == "on" else "unbounded",
                       "--class-limit", interventions, "--cpu-set", interventions, "--gate", interventions)

    def test_fork_join(self):
        self.assertIsNone(self.run_sample(PROGRAMS / "fork_join"))

    def test_host_pool(self):
        self.assertIsNone(self.run_sample(PROGRAMS / "host_pool"))

    @unittest.skipUnless((PROGRAMS / "shared_frame").exists(), "built without Vulkan")
    def test_shared_frame(self):
        first = subprocess.run([PROGRAMS / "shared_frame", "--frames", "1"], capture_output=True, text=True, timeout=250,
                               env=dict(os.environ, GANTRY_DRIVER="emulated", GANTRY_EMULATOR=str(EMULATOR)), check=False)
        if first.returncode == 77:
            self.skipTest(first.stderr.strip())
        # What the Vulkan driver and its compiler keep is not ours to free.
        self.check(PROGRAMS / "shared_frame", "--frames", "4",
                   ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")

    @unittest.skipUnless((PROGRAMS / "shared_gl").exists(), "built without Vulkan or OpenGL")
    @unittest.skipIf("ASAN_OPTIONS" in os.environ or "TSAN_OPTIONS" in os.environ,
                     "what sanitizers say of drivers that are not instrumented is of no use")
    def test_shared_gl(self):
        first = subprocess.run([PROGRAMS / "shared_gl"], capture_output=True, text=True, timeout=250,
                               env=dict(os.environ, GANTRY_DRIVER="emulated", GANTRY_EMULATOR=str(EMULATOR)), check=False)
        if first.returncode == 77:
            self.skipTest(first.stderr.strip())
        self.check(PROGRAMS / "shared_gl")

    @unittest.skipUnless((PROGRAMS.parent / "halo_mpi.mpich").exists(), "built without MPICH")
    def test_halo_mpi(self):
        """A rank alone needs no mpiexec.  MPICH keeps memory of its own until the process ends."""
        self.check(PROGRAMS.parent / "halo_mpi.mpich", ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")

    def test_ring_mpi(self):
        """It has no device."""
        self.assertNotIn("gantry_context", (SAMPLES / "ring_mpi/ring_mpi.c").read_text())

    def test_torch_allocator(self):
        """Python for PyTorch on a device: no program of ours makes its calls."""
        self.assertEqual({path.suffix for path in (SAMPLES / "torch_allocator").iterdir()} - {".py", ".md"}, set())

    def test_these_are_all_samples(self):
        samples = {path.name for path in SAMPLES.iterdir() if path.is_dir()}
        self.assertEqual({name for name in samples if not hasattr(self, f"test_{name}")}, set())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
