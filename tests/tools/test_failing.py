#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests that fail end by themselves, and say why: tests/support/deadline.h.

Usage: test_failing.py PROGRAM
"""
import os
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)


def run(which):
    result = subprocess.run([PROGRAM, which], env=dict(os.environ, GANTRY_TEST_DEADLINE="1"), check=False, timeout=60,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return result.returncode, result.stdout


class Failing(unittest.TestCase):
    def test_in_a_log_callback(self):
        status, output = run("*log*")
        self.assertEqual(status, 1, output)  # one test; the next one can log
        self.assertIn("the log says 'crane 8'", output)
        self.assertIn("[       OK ] logs_again", output)

    def test_while_it_waits(self):
        status, output = run("waits*")
        self.assertEqual(status, 1, output)
        self.assertIn("deadline: waited too long for what is never there", output)

    def test_while_it_computes(self):
        status, output = run("hangs")
        self.assertEqual(status, 1, output)
        self.assertIn("deadline: waited too long for the test to get on", output)

    def test_with_a_teardown_that_hangs(self):
        status, output = run("fails")
        self.assertEqual(status, 1, output)
        self.assertIn("0x4 != 0x5", output)
        self.assertIn("the teardown of a failed test", output)

    def test_on_another_thread(self):
        status, output = run("*thread")
        self.assertEqual(status, 1, output)
        self.assertIn("on a thread of its own", output)
        self.assertIn("0x6 != 0x7", output)


if __name__ == "__main__":
    unittest.main()
