/* SPDX-License-Identifier: MIT */
/* The sources of slabs: each gives memory of one kind, a few MiB to GiB at a time. */
#ifndef HEAP_BACKING_H
#define HEAP_BACKING_H

#include "driver/context.h"
#include "heap/region.h"

/* One piece of memory, and the handles by which it is given back. */
struct gy_backing {
    uintptr_t base; /* multiple of GY_GRANULE_BYTES */
    size_t bytes;
    uintptr_t device_base; /* PINNED, WRITE_COMBINED: the device's address of `base`; else 0 */
    uintptr_t raw;         /* the address that the driver gave, when it had to give more for the alignment */
    size_t raw_bytes;      /* of a source of the application: the bytes it was asked for */
    uint64_t *handles; /* of virtual memory management, one for each unit (0: the unit was given back alone);
                          NULL: plain memory */
    size_t unit_bytes; /* multiple of GY_GRANULE_BYTES; the last unit may have less */
};

/* The unit's size on a device with little memory, where no memory shall lie idle between blocks. */
#define GY_SMALL_UNIT ((size_t)4 << 20)

/* How memory is taken. */
struct gy_backing_need {
    size_t unit_bytes; /* a multiple of GY_GRANULE_BYTES: the size of the units that can be given back alone,
                          where the source can do that */
    uint64_t peers;    /* bit d: the device with ordinal d uses device memory, too */
    CUmemAllocationHandleType handles; /* device memory may be exported as these; then it is one unit */
};

struct gy_backing_ops {
    /* `bytes` is a multiple of GY_GRANULE_BYTES.  `out` is written only on success.
     * Running out of memory is not yet a failure, since the caller may ask for less: it is neither logged nor
     * kept as the last error.
     * @retval GANTRY_ERR_OUT_OF_DEVICE_MEMORY, GANTRY_ERR_OUT_OF_HOST_MEMORY
     * @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST, …  logged */
    gantry_status (*take)(struct gy_context *context, size_t bytes, const struct gy_backing_need *need,
                          struct gy_backing *out);
    /* Give the memory back, which nobody uses any more.  Failures are logged. */
    void (*give_back)(struct gy_context *context, const struct gy_backing *backing);
    /* Give `bytes` from `offset` on back alone, both multiples of unit_bytes.  Nobody uses this memory any
     * more, nor will again.  Failures are logged.  NULL: the source cannot do this. */
    void (*give_back_part)(struct gy_context *context, const struct gy_backing *backing, size_t offset,
                           size_t bytes);
};

/* The last driver call of this thread that reported that there is no memory, since the last call of this
 * function; static.  NULL: there was none. */
const char *gy_backing_refused(void);

/* Find the operations for a kind on this context; static.  HOST needs no context. */
GANTRY_MUST_CHECK gantry_status gy_backing_ops_for(gantry_memory_kind kind, struct gy_context *context,
                                                   const struct gy_backing_ops **out);

/* As which handles of the driver device memory of this context is made to be exported as `wanted` asks.
 * @retval GANTRY_ERR_INVALID_ARGUMENT  `wanted` is unknown
 * @retval GANTRY_ERR_UNSUPPORTED       there are none; the message says what the driver answered */
GANTRY_MUST_CHECK gantry_status gy_backing_find_handles(struct gy_context *context,
                                                        gantry_heap_handles wanted,
                                                        CUmemAllocationHandleType *out);

/* Can the devices of `peers` (as in struct gy_backing_need) use device memory of this context?  The context's
 * own device and ordinals that do not exist are left out of *out.
 * @retval GANTRY_ERR_UNSUPPORTED  one of them does not reach the device, or the driver cannot map memory; the
 *                                 message names both devices */
GANTRY_MUST_CHECK gantry_status gy_backing_check_peers(struct gy_context *context, uint64_t peers,
                                                       uint64_t *out);

#endif
