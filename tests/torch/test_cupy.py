#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""CuPy on libgantry-torch.so: the sample's program on a device (GANTRY_TEST_DRIVER=cuda); elsewhere what CuPy calls, on the emulator.

Usage: test_cupy.py LIBRARY SAMPLE_FOLDER
"""
import os
import sys
import unittest
from unittest import mock

from peer import LIBRARY, ON_DEVICE, SAMPLE, import_or_skip, run_program

cupy = import_or_skip("cupy", "cupy-cuda13x")


class Cupy(unittest.TestCase):
    @unittest.skipUnless(ON_DEVICE, "needs a device")
    def test_results_in_several_streams_are_right(self):
        result = run_program("cupy_streams.py", "60")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, "Out of memory allocating 1,125,899,906,842,624 bytes")
        self.assertTrue(result.stdout.endswith("every result is right\n"), result.stdout)

    @unittest.skipIf(ON_DEVICE, "the program above does more")
    def test_cupys_memory_objects_are_blocks_of_the_heap(self):
        """CuPy without a device has no streams of its own."""
        sys.path.insert(0, SAMPLE)
        os.environ.update(GANTRY_TORCH=LIBRARY, GANTRY_DRIVER="emulated")
        with mock.patch("cupy.cuda.set_allocator") as installed:
            import gantry_cupy
        self.assertEqual(installed.call_count, 1)
        memory = cupy.cuda.memory.PythonFunctionAllocatorMemory
        used = lambda: gantry_cupy.library.gantry_torch_stat(0, 0)
        with mock.patch("cupy.cuda.get_current_stream", return_value=mock.Mock(ptr=0)) as asked:
            block = memory(10000, gantry_cupy.allocate, gantry_cupy.release, 0)
            self.assertEqual(used(), 10000)
            second = memory(1 << 20, gantry_cupy.allocate, gantry_cupy.release, 0)
            self.assertNotEqual(block.ptr, second.ptr)
            address = block.ptr
            del block
            self.assertEqual(memory(10000, gantry_cupy.allocate, gantry_cupy.release, 0).ptr, address)
            with self.assertRaisesRegex(cupy.cuda.memory.OutOfMemoryError, "Out of memory allocating 1,125,899,906,842,624 bytes"):
                memory(1 << 50, gantry_cupy.allocate, gantry_cupy.release, 0)
            del second
            self.assertEqual((used(), gantry_cupy.streams, asked.call_count), (0, {}, 4))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
