# SPDX-License-Identifier: MIT
"""CuPy on Gantry's heap: blocks belong to the stream that is current when they are allocated.

Import this before anything is allocated on a GPU; $GANTRY_TORCH is the library's path.  A stream lives as long as its blocks."""
import ctypes
import os
import cupy

library = ctypes.CDLL(os.environ.get("GANTRY_TORCH", "libgantry-torch.so"))
library.gantry_torch_try_alloc.restype = ctypes.c_void_p
library.gantry_torch_try_alloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
library.gantry_torch_free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
library.gantry_torch_stat.restype = ctypes.c_uint64
streams = {}


def allocate(size, device):
    """A block of the device; CuPy asks for none of 0 bytes."""
    stream = cupy.cuda.get_current_stream()
    block = library.gantry_torch_try_alloc(size, device, stream.ptr)
    if block is None:
        raise cupy.cuda.memory.OutOfMemoryError(size, library.gantry_torch_stat(device, 2))
    streams[block] = stream
    return block


def release(block, device):
    """The block's stream may use it at once, others when that stream has passed this."""
    library.gantry_torch_free(block, 0, device, streams.pop(block).ptr)


cupy.cuda.set_allocator(cupy.cuda.PythonFunctionAllocator(allocate, release).malloc)
