/* SPDX-License-Identifier: MIT */
/* The memory that the addresses of a copy lie in, and how the device sees it. */
#ifndef COPYKERNEL_ADDRESS_H
#define COPYKERNEL_ADDRESS_H

#include "copykernel/plan.h"
#include "heap/others.h"

/* Memory that an address was found to lie in. */
struct gy_copy_memory {
    uint64_t begin, end; /* empty: nothing is known yet */
    uint64_t shift;      /* device address minus address */
    bool is_host;        /* page-locked; otherwise device memory */
    bool is_peer;        /* on another device, in the heap of another context */
    uint8_t peer;        /* of these, that device's ordinal */
};
/* Find the live block of the heap, or the driver's allocation, that holds the address.  False: there is none,
 * the driver has failed, or it is memory of another device.  This does not check whether the bytes fit. */
bool gy_copy_find_memory(struct gy_context *context, gantry_heap *heap, const void *address, uint64_t bytes,
                         struct gy_copy_memory *out);

/* The same for one side of a box, of any device; `name` is for messages.
 * @retval GANTRY_ERR_INVALID_ARGUMENT  pageable or unknown memory, or that of a device that this one does not
 *                                      reach
 * @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_MUST_CHECK gantry_status gy_copy_find_side(struct gy_context *context, gantry_heap *heap,
                                                  const char *name, const void *address, uint64_t bytes,
                                                  struct gy_copy_memory *out);

/* One side of a copy that copy engines perform. */
struct gy_copy_side {
    const char *call; /* for messages: the public function */
    const char *name; /* the name of its parameter */
    const void *address;
    size_t bytes;
};

/* Whose memory it turned out to be. */
struct gy_copy_end {
    bool is_peer;        /* on another device, in the heap of another context */
    uint8_t peer;        /* of these, that device's ordinal */
    CUcontext unreached; /* that context, if our device has no access to the memory; else NULL */
};
/* Check that the bytes stay inside of the block that the address lies in, in the heap or in one of another
 * context of the process.  An address that is in no heap is taken as it is, unless bounds are checked
 * (base/checking.h): then the driver is asked.  Any thread; this is on the submit path.
 * @retval GANTRY_OK
 * @retval GANTRY_ERR_INVALID_ARGUMENT  they leave it, or no live block is there; the message names both
 *                                      sizes and the block */
GANTRY_MUST_CHECK gantry_status gy_copy_check_side(struct gy_context *context, gantry_heap *heap,
                                                   const struct gy_copy_side *side, struct gy_copy_end *end);

/* Dispatcher thread only.  Turn `count` descriptors that passed gy_copy_check() into items, leaving out those
 * of 0 bytes.  `items` has `count` places.  `any_kind`: the types do not say where the memory is.
 * @retval GANTRY_ERR_INVALID_ARGUMENT  pageable or unknown memory, the wrong kind for the type, a range
 *                                      that leaves its memory; the message names index and field
 * @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_MUST_CHECK gantry_status gy_copy_resolve(struct gy_context *context, gantry_heap *heap,
                                                const gantry_copy_desc *descs, size_t count, bool any_kind,
                                                struct gy_copy_item *items, size_t *out_count);

/* The same for one descriptor, which messages call `index`; known[0] and known[1] are the memory of its dest
 * and of its source, or empty. */
GANTRY_MUST_CHECK gantry_status gy_copy_resolve_one(struct gy_context *context, gantry_heap *heap,
                                                    const gantry_copy_desc *desc, size_t index, bool any_kind,
                                                    struct gy_copy_memory known[2]);

/* Find the device's address of memory of which it can read `bytes`; the memory is device memory or
 * page-locked. `name` is for messages.  *memory, unless that is NULL: all of it.
 * @retval GANTRY_ERR_INVALID_ARGUMENT  pageable or unknown memory, or a range that leaves its memory
 * @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_MUST_CHECK gantry_status gy_copy_find_list(struct gy_context *context, gantry_heap *heap,
                                                  const char *name, const void *address, uint64_t bytes,
                                                  struct gy_copy_memory *memory, uint64_t *out);

#endif
