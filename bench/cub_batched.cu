/* SPDX-License-Identifier: MIT */
/* The yardstick cub::DeviceMemcpy::Batched behind a C function, in a shared library of its own: it brings
 * the CUDA runtime along, which nothing else here needs. */
#include <cub/device/device_memcpy.cuh>

/* `temporary` NULL: only *bytes is written.  Returns a cudaError_t. */
extern "C" __attribute__((visibility("default"))) int gantry_cub_batched(void *temporary, size_t *bytes,
                                                                         const void **sources, void **dests,
                                                                         const size_t *sizes, unsigned count,
                                                                         void *stream)
{
    return (int)cub::DeviceMemcpy::Batched(temporary, *bytes, sources, dests, sizes, count,
                                           (cudaStream_t)stream);
}
