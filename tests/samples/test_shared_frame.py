#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The sample shared_frame: frames that Vulkan draws and Gantry filters are right, and wrong without the waits.

Usage: test_shared_frame.py SHARED_FRAME EMULATOR

Exit status 77 where there is no Vulkan driver that shares memory with the device (Debian: mesa-vulkan-drivers).
"""
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM, EMULATOR = sys.argv[1:3]
DRIVER = os.environ.get("GANTRY_TEST_DRIVER", "emulated")
FRAMES = "6" if os.environ.get("GANTRY_TEST_LIGHT") else "20"


def environment_of(variables):
    environment = dict(os.environ, GANTRY_DRIVER=DRIVER, GANTRY_EMULATOR=EMULATOR, **variables)
    return {name: value for name, value in environment.items() if value is not None}


def colours(path):
    """How many different pixels a screen of Xvfb has now: it is an XWD file."""
    with open(path, "rb") as file:
        screen = file.read()
    head = struct.unpack(">25I", screen[:100])
    pixels = screen[head[0] + 12 * head[19]:]
    return len({pixels[i:i + 4] for i in range(0, len(pixels) - 3, 4)})


def run(*arguments, **variables):
    environment = environment_of(variables)
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=200,
                          env=environment)


class SharedFrame(unittest.TestCase):
    def test_all_frames_are_right(self):
        for way in ([], ["--graphs"], ["--gantry-first", "--in-flight", "1"], ["--way", "host"],
                    ["--image"], ["--image", "--graphs"]):
            result = run("--frames", FRAMES, *way)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("all frames are right", result.stdout)
            self.assertNotIn("leaked", result.stderr)

    def test_frames_may_be_left_out_of_the_comparison(self):
        result = run("--frames", "6", "--check-every", "3")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("the 2 frames that were compared are right", result.stdout)

    def test_the_device_ways_are_taken_or_refused(self):
        for way in ("device", "ahead"):
            result = run("--frames", "3", "--way", way)
            if result.returncode == 0:
                self.assertIn("handed over by the GPU", result.stdout)
            else:
                self.assertIn("exports no timelines", result.stderr)

    def test_a_renderer_that_is_gone_fails_its_step(self):
        for way in ([], ["--graphs", "--in-flight", "1"]):
            result = run("--frames", "30", "--stop-drawing", "8", *way)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertRegex(result.stdout, r"frame 8, which was not drawn: .*'frame': the renderer did not reach value [59]")
            self.assertIn("the 8 frames that were drawn and compared are right", result.stdout)
            self.assertNotIn("leaked", result.stderr)

    def test_without_waits_they_are_not(self):
        result = run("--frames", FRAMES, "--without-waits")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("as they should be without waits", result.stdout)

    def test_the_picture_is_a_png_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "frame.png")
            result = run("--frames", "3", "--output", path)
            self.assertEqual(result.returncode, 0, result.stderr)
            with open(path, "rb") as file:
                self.assertEqual(file.read(8), b"\x89PNG\r\n\x1a\n")

    def test_a_recording_says_what_was_waited_for(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "frames.pftrace")
            result = run("--frames", "4", GANTRY_PROFILE=path)
            self.assertEqual(result.returncode, 0, result.stderr)
            with open(path, "rb") as file:
                self.assertIn(b"filter", file.read())

    def test_a_window_needs_a_display(self):
        result = run("--frames", "3", "--window", DISPLAY=None, WAYLAND_DISPLAY=None)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stderr, "--window: (there is no display|.*built without GLFW)")

    def test_a_window_shows_the_frames(self):
        if shutil.which("Xvfb") is None or "without GLFW" in run("--window", DISPLAY=None, WAYLAND_DISPLAY=None).stderr:
            self.skipTest("no Xvfb, or built without GLFW")
        with tempfile.TemporaryDirectory() as folder:
            server = subprocess.Popen(["Xvfb", "-displayfd", "1", "-screen", "0", "800x600x24", "-fbdir", folder, "-nolisten", "tcp",
                                       "-noreset"],  # else it begins anew when the first program has gone
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            try:
                display = ":" + server.stdout.readline().strip()
                variables = environment_of({"DISPLAY": display, "WAYLAND_DISPLAY": None})
                program = subprocess.Popen([PROGRAM, "--frames", "100000", "--check-every", "10", "--window"], env=variables,
                                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                seen, until = 0, time.monotonic() + 60
                while seen < 10 and time.monotonic() < until and program.poll() is None:
                    time.sleep(0.05)
                    seen = colours(os.path.join(folder, "Xvfb_screen0"))
                program.kill()
                _, errors = program.communicate()
                self.assertGreaterEqual(seen, 10, errors)
                result = run("--frames", "6", "--window", DISPLAY=display, WAYLAND_DISPLAY=None)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("all frames are right", result.stdout)
                self.assertRegex(result.stdout, r"\d+ frames per second")
                self.assertIn("host time per frame: acquire", result.stdout)
            finally:
                server.terminate()
                server.wait()
                server.stdout.close()

    def test_arguments_are_refused(self):
        for wrong in (["--frames", "0"], ["--driver", "opencl"], ["--way", "no"], ["--check-every", "x"], ["--in-flight", "3"], ["--what"], ["surplus"]):
            result = run(*wrong)
            self.assertEqual(result.returncode, 2)
            self.assertNotEqual(result.stderr, "")


if __name__ == "__main__":
    first = run("--frames", "1")
    if first.returncode == 77:
        print("skipped:", first.stderr.strip())
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
