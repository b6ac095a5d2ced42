/* SPDX-License-Identifier: MIT */
/* One look at a batch that tells whether it is a usual one. */
#ifndef COPYKERNEL_SCAN_H
#define COPYKERNEL_SCAN_H

#include "copykernel/plan.h"
#include "heap/heap.h"

/* Dispatcher thread only.  True when the batch is valid and usual: it has no fills and one type; its dests
 * are in order or easily seen to be apart; its sources are apart from them; no neighbours continue each
 * other; and its addresses are the device's as well.  False when it is not usual, or something is wrong with
 * it: the long way finds out which. `scratch` is for the places of dests, see gy_copy_places. */
struct gy_copy_places {
    uint64_t *bits; /* the copier owns them; they grow here */
    size_t room;    /* words */
};
bool gy_copy_scan(struct gy_context *context, gantry_heap *heap, const gantry_copy_desc *descs, size_t count,
                  struct gy_copy_places *places, struct gy_copy_scan *out);

#endif
