/* SPDX-License-Identifier: MIT */
/* What libgantry-torch.so exports; docs/guides/heap.md and samples/torch_allocator show it in use.  Pointers
 * to functions of these types are what PyTorch's pluggable allocator, CuPy and RMM take, or wrap. */
#ifndef TORCH_TORCH_ALLOCATOR_H
#define TORCH_TORCH_ALLOCATOR_H

#include <stddef.h>
#include <stdint.h>

#define GANTRY_TORCH_API __attribute__((visibility("default")))

/* `stream`: a CUstream of the device's primary context.  0 bytes: NULL.  Without room: std::runtime_error
 * whose text begins with "CUDA out of memory."; NULL in programs without libstdc++. */
GANTRY_TORCH_API void *gantry_torch_alloc(size_t bytes, int device, void *stream);
/* The same for callers through which no exception may pass, as Python's ctypes: NULL without room, and
 * gantry_torch_last_error() says why. */
GANTRY_TORCH_API void *gantry_torch_try_alloc(size_t bytes, int device, void *stream);
/* What the last call on this thread that failed had to say; valid until the next one. */
GANTRY_TORCH_API const char *gantry_torch_last_error(void);
/* Nothing is done in a forked child. */
GANTRY_TORCH_API void gantry_torch_free(void *pointer, size_t bytes, int device, void *stream);
/* set_record_stream_fn() */
GANTRY_TORCH_API void gantry_torch_record_stream(void *pointer, void *stream);
/* set_reset_fn(): give back what is not in use.  Waits for the device, unless something is captured. */
GANTRY_TORCH_API void gantry_torch_empty_cache(void);
/* set_memory_fraction_fn(): of the device's memory. */
GANTRY_TORCH_API void gantry_torch_set_fraction(double fraction, int device);

/* set_begin_allocate_to_pool(), set_end_allocate_to_pool_fn(), set_release_pool(): a pool's two numbers are a
 * std::pair, a filter is a std::function, which these registers hold. */
GANTRY_TORCH_API void gantry_torch_begin_pool(int device, uint64_t first, uint64_t second, void *filter);
GANTRY_TORCH_API void gantry_torch_end_pool(int device, uint64_t first, uint64_t second);
GANTRY_TORCH_API void gantry_torch_release_pool(int device, uint64_t first, uint64_t second);

/* 0: bytes in use, 1: most of these, 2: taken from the driver, 3: most of these, 4: allocations so far,
 * 5: freed and waiting for a stream or with a graph. */
GANTRY_TORCH_API uint64_t gantry_torch_stat(int device, int what);
GANTRY_TORCH_API void gantry_torch_reset_peaks(int device);
/* Write what a device's heap holds into a file, as gantry_heap_write_json() does with blocks: `gantry report
 * heap` draws it.  0; -1 when the device has no heap yet or the file cannot be written. */
GANTRY_TORCH_API int gantry_torch_snapshot(int device, const char *path);

#endif
