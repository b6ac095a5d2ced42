"""CuPy on Gantry's heap: blocks belong to the stream that is current when they are allocated."""
import ctypes
import os
import cupy

library = ctypes.CDLL(os.environ.get("GANTRY_TORCH", "libgantry-torch.so"))
library.gantry_torch_alloc.restype = ctypes.c_void_p
library.gantry_torch_alloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
library.gantry_torch_free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
streams = {}


def allocate(size, device):
    stream = cupy.cuda.get_current_stream()
    block = library.gantry_torch_alloc(size, device, stream.ptr)
    if block is None and size != 0:
        raise cupy.cuda.memory.OutOfMemoryError(size, 0)
    streams[block] = stream
    return block or 0


def release(block, device):
    library.gantry_torch_free(block, 0, device, streams.pop(block).ptr if block in streams else None)


cupy.cuda.set_allocator(cupy.cuda.PythonFunctionAllocator(allocate, release).malloc)
