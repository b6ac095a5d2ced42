# SPDX-License-Identifier: MIT
"""PyTorch on Gantry's heap.  Import this before anything is allocated on a GPU; $GANTRY_TORCH is the library's path."""
import ctypes
import os
import torch

PATH = os.environ.get("GANTRY_TORCH", "libgantry-torch.so")
library = ctypes.CDLL(PATH)
allocator = torch.cuda.memory.CUDAPluggableAllocator(PATH, "gantry_torch_alloc", "gantry_torch_free")
for setter, function in {"set_record_stream_fn": "record_stream", "set_reset_fn": "empty_cache",
                         "set_memory_fraction_fn": "set_fraction", "set_begin_allocate_to_pool": "begin_pool",
                         "set_end_allocate_to_pool_fn": "end_pool", "set_release_pool": "release_pool"}.items():
    address = ctypes.cast(getattr(library, "gantry_torch_" + function), ctypes.c_void_p).value
    getattr(allocator.allocator(), setter)(address)
torch.cuda.memory.change_current_allocator(allocator)
