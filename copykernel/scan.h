/* One look at a batch that tells whether it is a usual one. */
#ifndef COPYKERNEL_SCAN_H
#define COPYKERNEL_SCAN_H

#include "copykernel/plan.h"
#include "heap/heap.h"

/* Dispatcher thread only.  True when the batch is fine and usual: no fills, one type, its dests in order or
 * easily seen to be apart, its sources apart from them, no neighbours that continue each other, and addresses
 * that are the device's as well.  False when it is not, or anything is wrong with it: then the long way finds
 * out. `scratch` is for the places of dests, see gy_copy_places. */
struct gy_copy_places {
    uint64_t *bits; /* owner: the copier; grown here */
    size_t room;    /* words */
};
bool gy_copy_scan(struct gy_context *context, gantry_heap *heap, const gantry_copy_desc *descs, size_t count,
                  struct gy_copy_places *places, struct gy_copy_scan *out);

#endif
