/* SPDX-License-Identifier: MIT */
/* What a launch may ask for besides its size: clusters, a cooperative grid, an early start, a priority, a
 * memory sync domain. */
#ifndef DRIVER_EXTRA_H
#define DRIVER_EXTRA_H

#include "driver/module.h"

/* Every field is 4 bytes, so that it is compared and hashed as bytes. */
struct gy_launch_extra {
    gantry_dim3 cluster;           /* in blocks; x 0: none */
    gantry_dim3 preferred_cluster; /* x 0: none */
    uint32_t is_cooperative;
    uint32_t starts_early;
    uint32_t is_remote; /* the memory sync domain */
    uint32_t has_priority;
    int32_t priority;
};

static inline uint64_t gy_dim3_count(gantry_dim3 size)
{
    return (uint64_t)size.x * size.y * size.z;
}

/* cuLaunchKernelEx(). */
CUresult gy_launch_with(const struct gy_driver *driver, CUfunction function,
                        const struct gy_launch_size *size, const struct gy_launch_extra *extra,
                        CUstream stream, void **args);

/* What fits at once on the multiprocessors of a stream. */
struct gy_occupancy {
    uint32_t blocks_per_sm;
    uint32_t blocks;          /* in all: the largest cooperative grid */
    uint32_t clusters;        /* of extra->cluster; 0: none fits, or there are no clusters */
    uint32_t largest_cluster; /* in blocks; 0: it is not known */
};

/* Ask the driver, for a stream that has `sms` multiprocessors; the context is current.
 * @retval GANTRY_ERR_UNSUPPORTED  clusters, and the driver or the kernel's code has none
 * @retval GANTRY_ERR_DRIVER */
GANTRY_MUST_CHECK gantry_status gy_kernel_occupancy(struct gantry_kernel *kernel,
                                                    const struct gy_launch_size *size,
                                                    const struct gy_launch_extra *extra, uint32_t sms,
                                                    CUstream stream, struct gy_occupancy *out);

/* Where a launch goes. */
struct gy_launch_place {
    const void *key;  /* the same for streams with the same multiprocessors */
    const char *name; /* for messages */
    uint32_t sms;
    CUstream stream;
};

/* Check that such a launch fits; what was found is remembered.  The context is current.  Any thread.
 * @retval GANTRY_ERR_INVALID_ARGUMENT  a bad cluster size, or the grid is no multiple of it
 * @retval GANTRY_ERR_UNSUPPORTED       it can never run there: the message has the numbers
 * @retval GANTRY_ERR_DRIVER */
GANTRY_MUST_CHECK gantry_status gy_kernel_check_fit(struct gantry_kernel *kernel,
                                                    const struct gy_launch_size *size,
                                                    const struct gy_launch_extra *extra,
                                                    const struct gy_launch_place *place);

/* Is the kernel's code for compute capability 9.0 or later, which has clusters and early starts? */
bool gy_kernel_is_modern(struct gantry_kernel *kernel);

#endif
