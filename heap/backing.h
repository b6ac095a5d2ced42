/* Where slabs come from: memory of one kind, a few MiB to GiB at a time. */
#ifndef HEAP_BACKING_H
#define HEAP_BACKING_H

#include "driver/context.h"
#include "heap/region.h"

/* One piece of memory and what is needed to give it back. */
struct gy_backing {
    uintptr_t base; /* multiple of GY_GRANULE_BYTES */
    size_t bytes;
    uintptr_t device_base; /* PINNED, WRITE_COMBINED: the device's address of `base`; else 0 */
    uintptr_t raw;         /* what the driver gave, when that had to be larger to be aligned */
    size_t raw_bytes;      /* of a source of the application: what it was asked for */
    uint64_t handle;       /* of virtual memory management; 0: plain memory */
};

struct gy_backing_ops {
    /* `bytes` is a multiple of GY_GRANULE_BYTES.  `out` is written only on success.  Running out is not yet
     * a failure (less may do): it is neither logged nor kept as the last error.
     * @retval GANTRY_ERR_OUT_OF_DEVICE_MEMORY, GANTRY_ERR_OUT_OF_HOST_MEMORY
     * @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST, …  logged */
    gantry_status (*take)(struct gy_context *context, size_t bytes, struct gy_backing *out);
    /* The memory is not in use any more.  Failures are logged. */
    void (*give_back)(struct gy_context *context, const struct gy_backing *backing);
};

/* The driver call that said last, on this thread and since this was asked last, that there is no memory;
 * static.  NULL: none did. */
const char *gy_backing_refused(void);

/* Find the operations for a kind on this context; static.  HOST needs no context. */
GANTRY_MUST_CHECK gantry_status gy_backing_ops_for(gantry_memory_kind kind, struct gy_context *context,
                                                   const struct gy_backing_ops **out);

#endif
