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
    uint64_t *handles;     /* of virtual memory management, one for each unit (0: given back alone); NULL:
                            * plain memory */
    size_t unit_bytes;     /* multiple of GY_GRANULE_BYTES; the last may have less */
};

/* The unit where there is little memory, of which nothing shall lie between blocks. */
#define GY_SMALL_UNIT ((size_t)4 << 20)

struct gy_backing_ops {
    /* `bytes` is a multiple of GY_GRANULE_BYTES.  `unit_bytes`, a multiple of it, too: of units that can be
     * given back alone, where that can be done.  `out` is written only on success.  Running out is not yet a
     * failure (less may do): it is neither logged nor kept as the last error.
     * @retval GANTRY_ERR_OUT_OF_DEVICE_MEMORY, GANTRY_ERR_OUT_OF_HOST_MEMORY
     * @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST, …  logged */
    gantry_status (*take)(struct gy_context *context, size_t bytes, size_t unit_bytes,
                          struct gy_backing *out);
    /* The memory is not in use any more.  Failures are logged. */
    void (*give_back)(struct gy_context *context, const struct gy_backing *backing);
    /* NULL: cannot be done.  Give `bytes` from `offset` on back alone, both multiples of unit_bytes.  Nothing
     * of it is in use any more, and never will be.  Failures are logged. */
    void (*give_back_part)(struct gy_context *context, const struct gy_backing *backing, size_t offset,
                           size_t bytes);
};

/* The driver call that said last, on this thread and since this was asked last, that there is no memory;
 * static.  NULL: none did. */
const char *gy_backing_refused(void);

/* Find the operations for a kind on this context; static.  HOST needs no context. */
GANTRY_MUST_CHECK gantry_status gy_backing_ops_for(gantry_memory_kind kind, struct gy_context *context,
                                                   const struct gy_backing_ops **out);

#endif
