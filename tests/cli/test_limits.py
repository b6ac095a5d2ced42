#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The command where the system gives it little.  (Not under sanitizers, which need terabytes of addresses.)

Usage: test_limits.py GANTRY
"""
import os
import resource
import subprocess
import sys
import unittest

GANTRY = sys.argv[1]
MIB = 1 << 20


def gantry(address_bytes, *arguments):
    """Exit status, stdout, stderr of a process that may have so many bytes of addresses."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GANTRY_")}
    result = subprocess.run([GANTRY, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                            env={**environment, "GANTRY_DRIVER": "emulated", "GANTRY_EMU_THREADS": "2",
                                 "MALLOC_ARENA_MAX": "1"},  # else it depends on which threads met how much is left
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (address_bytes, address_bytes)))
    return result.returncode, result.stdout, result.stderr


class Limits(unittest.TestCase):
    def test_two_gibibytes_of_addresses_are_enough(self):
        for arguments in (["info"], ["run", "scale_vector"]):
            status, out, err = gantry(2048 * MIB, *arguments)
            self.assertEqual(status, 0, err)

    def test_too_few_are_named(self):
        status, out, err = gantry(160 * MIB, "info")
        self.assertEqual((status, out), (1, ""))
        self.assertIn(f"the process may have {160 * MIB} bytes of addresses (ulimit -v)", err)


    def test_too_few_threads_are_no_lack_of_memory(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
            if os.geteuid() == 0:  # which nothing limits
                os.setuid(54321)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GANTRY_")}
        try:
            result = subprocess.run([GANTRY, "info", "--driver", "emulated"], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                                    env=environment, preexec_fn=limit)
        except PermissionError:
            self.skipTest("another user cannot read this folder")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertNotIn("MEMORY", result.stderr)
        self.assertIn("CUDA_ERROR_OPERATING_SYSTEM (304)", result.stderr)
        self.assertIn("the driver says: cannot start thread gantry-emu-gpu: Resource temporarily unavailable; this user may have "
                      "1 processes and threads (ulimit -u), and a container fewer (pids.max)", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
