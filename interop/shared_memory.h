/* SPDX-License-Identifier: MIT */
/* Memory that another API has allocated and exported, as the context sees it. */
#ifndef INTEROP_SHARED_MEMORY_H
#define INTEROP_SHARED_MEMORY_H

#include "driver/context.h"

#include <gantry/interop.h>
#include <inttypes.h>

#define GY_LABEL_BYTES 64 /* bytes of the label of a shared memory or an exchange, with the 0 at its end */

#define GY_SHARED_OFFSET_STEP 256 /* offsets in shared memory are multiples of it */

struct mapping;

struct gantry_shared_memory {
    gantry_context *context;           /* immutable */
    struct gantry_shared_memory *next; /* guarded by context->lock */
    CUexternalMemory native;           /* immutable */
    uint64_t bytes;                    /* immutable */
    struct mapping *mappings;          /* guarded by context->lock */
    gantry_shared_image *images;       /* guarded by context->lock */
    char label[GY_LABEL_BYTES];        /* immutable */
};

/* Is the range a good one to map?
 * @retval GANTRY_ERR_INVALID_ARGUMENT  an odd offset, no bytes, or not within the memory */
GANTRY_MUST_CHECK static inline gantry_status gy_shared_memory_check_range(const gantry_shared_memory *memory,
                                                                           uint64_t offset, uint64_t bytes)
{
    if (offset % GY_SHARED_OFFSET_STEP != 0) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: offset %" PRIu64 " is no multiple of %d",
                       memory->label, offset, GY_SHARED_OFFSET_STEP);
    }
    if (bytes == 0 || offset > memory->bytes || bytes > memory->bytes - offset) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "%s: %" PRIu64 " bytes from %" PRIu64 " on are not within its %" PRIu64 " bytes",
                       memory->label, bytes, offset, memory->bytes);
    }
    return GANTRY_OK;
}

/* shared_image.c: give back the images of `memory`.  The GPU is done, and the context is current if the
 * driver permits that. */
void gy_shared_images_give_back(gantry_shared_memory *memory);

#endif
