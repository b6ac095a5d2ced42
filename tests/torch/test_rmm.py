#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""RMM on libgantry-torch.so: the sample's program on a device (GANTRY_TEST_DRIVER=cuda); elsewhere RMM's resource, on the emulator.

Usage: test_rmm.py LIBRARY SAMPLE_FOLDER
"""
import os
import sys
import unittest

from peer import LIBRARY, ON_DEVICE, SAMPLE, import_or_skip, run_program

rmm = import_or_skip("rmm", "rmm-cu13")


class Rmm(unittest.TestCase):
    @unittest.skipUnless(ON_DEVICE, "needs a device")
    def test_buffers_in_several_streams_are_right(self):
        result = run_program("rmm_streams.py", "40")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, "no room for 1125899906842624 bytes")
        self.assertTrue(result.stdout.endswith("every result is right\n"), result.stdout)

    @unittest.skipIf(ON_DEVICE, "the program above does more")
    def test_the_resources_blocks_are_of_the_heap(self):
        sys.path.insert(0, SAMPLE)
        os.environ.update(GANTRY_TORCH=LIBRARY, GANTRY_DRIVER="emulated")
        import gantry_rmm
        from rmm.pylibrmm.stream import DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM
        resource = gantry_rmm.resource(0)
        used = lambda: gantry_rmm.library.gantry_torch_stat(0, 0)
        first = resource.allocate(10000, DEFAULT_STREAM)
        second = resource.allocate(1 << 20, PER_THREAD_DEFAULT_STREAM)
        self.assertEqual(used(), 10000 + (1 << 20))
        resource.deallocate(first, 10000, DEFAULT_STREAM)
        self.assertEqual(resource.allocate(10000, DEFAULT_STREAM), first)
        with self.assertRaisesRegex(MemoryError, "no room for 1125899906842624 bytes"):
            resource.allocate(1 << 50, DEFAULT_STREAM)
        with self.assertRaisesRegex(MemoryError, "no device 64"):
            gantry_rmm.resource(64).allocate(1, DEFAULT_STREAM)
        resource.deallocate(first, 10000, DEFAULT_STREAM)
        resource.deallocate(second, 1 << 20, PER_THREAD_DEFAULT_STREAM)
        self.assertEqual(used(), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
