#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The sample hello_graph: says that every number came back right, and says why when it cannot run.

Usage: test_hello_graph.py HELLO_GRAPH EMULATOR
"""
import os
import subprocess
import sys
import unittest

HELLO, EMULATOR = sys.argv[1:3]
DRIVER = os.environ.get("GANTRY_TEST_DRIVER", "emulated")


def hello(driver, emulator, **variables):
    """Exit status, stdout, stderr."""
    environment = dict(os.environ, GANTRY_DRIVER=driver, GANTRY_EMULATOR=emulator, **variables)
    result = subprocess.run([HELLO], capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment)
    return result.returncode, result.stdout, result.stderr


class HelloGraph(unittest.TestCase):
    def test_every_number_is_right(self):
        self.assertEqual(hello(DRIVER, EMULATOR), (0, "look: 1000 of 1000 numbers are 3 i + 1\n", ""))

    def test_nothing_is_left_behind(self):
        self.assertNotIn("leaked", hello(DRIVER, EMULATOR, GANTRY_LOG="warning")[2])

    def test_the_log_is_shown_on_request(self):
        status, out, err = hello("nonsense", EMULATOR, GANTRY_LOG="error")
        self.assertEqual((status, out), (1, ""))
        self.assertRegex(err, r"(?m)^gantry: error: .*nonsense.*GANTRY_ERR_INVALID_ARGUMENT")
        status, out, err = hello("nonsense", EMULATOR, GANTRY_LOG="loud")
        self.assertEqual(status, 1)
        self.assertIn('gantry: warning: $GANTRY_LOG is "loud", not error, warning, info or debug: info\n', err)
        self.assertEqual(hello("emulated", EMULATOR, GANTRY_LOG=""), hello("emulated", EMULATOR))

    def test_without_a_driver_it_says_so(self):
        status, out, err = hello("emulated", "/nowhere/libgantry-emu.so")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("/nowhere/libgantry-emu.so", err)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
