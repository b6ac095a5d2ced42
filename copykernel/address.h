/* What memory a descriptor's addresses are, and how the device sees them.  Dispatcher thread only. */
#ifndef COPYKERNEL_ADDRESS_H
#define COPYKERNEL_ADDRESS_H

#include "copykernel/plan.h"
#include "heap/heap.h"

/* Turn `count` descriptors that passed gy_copy_check() into items, leaving out those of 0 bytes.  `items`
 * has `count` places.
 * @retval GANTRY_ERR_INVALID_ARGUMENT  pageable or unknown memory, the wrong kind for the type, a range
 *                                      that leaves its memory; the message names index and field
 * @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_MUST_CHECK gantry_status gy_copy_resolve(struct gy_context *context, gantry_heap *heap,
                                                const gantry_copy_desc *descs, size_t count,
                                                struct gy_copy_item *items, size_t *out_count);

#endif
