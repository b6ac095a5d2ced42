# SPDX-License-Identifier: MIT
"""RMM on Gantry's heap: `rmm.mr.set_current_device_resource(gantry_rmm.resource(device))` before anything is allocated on it.

$GANTRY_TORCH is the library's path."""
import ctypes
import os
import rmm

library = ctypes.CDLL(os.environ.get("GANTRY_TORCH", "libgantry-torch.so"))
library.gantry_torch_try_alloc.restype = ctypes.c_void_p
library.gantry_torch_try_alloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
library.gantry_torch_free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
library.gantry_torch_last_error.restype = ctypes.c_char_p
library.gantry_torch_stat.restype = ctypes.c_uint64


def resource(device=0):
    """A memory resource of a device."""
    def allocate(size, stream):
        block = library.gantry_torch_try_alloc(size, device, stream.__cuda_stream__()[1])
        if block is None and size != 0:
            raise MemoryError(library.gantry_torch_last_error().decode())
        return block or 0

    def release(block, size, stream):
        library.gantry_torch_free(block, size, device, stream.__cuda_stream__()[1])

    return rmm.mr.CallbackMemoryResource(allocate, release)
