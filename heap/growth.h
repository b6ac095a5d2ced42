/* How a memory kind grows and shrinks: when slabs are taken, and given back. */
#ifndef HEAP_GROWTH_H
#define HEAP_GROWTH_H

#include "heap/kind.h"

/* The growing thread: what the kind has taken and what lies idle of it fit, and what it keeps for the next
 * slab and chunk belongs to nobody. */
bool gy_kind_growth_is_valid(struct gy_kind *kind);

enum gy_growth {
    GY_GROW_SLAB,  /* the page layer is full */
    GY_GROW_CHUNK, /* the small tier is full */
};

/* Get more for an attempt that failed after it had read `seen` from `generation`.  OK: try again.  Running
 * out of memory is not logged. */
GANTRY_MUST_CHECK gantry_status gy_kind_grow(struct gy_kind *kind, uint64_t seen, enum gy_growth growth,
                                             size_t bytes);
/* An allocation stalled from `begin_ns` until now. */
void gy_kind_note_stall(struct gy_kind *kind, gantry_heap_stall cause, uint64_t begin_ns);
/* Have what the settings want mapped beforehand, if there is room and the driver has as much. */
void gy_kind_map_ahead(struct gy_kind *kind);
/* Nanoseconds for which what the settings do not let lie must have lain before it goes back; 0: at once. */
uint64_t gy_kind_decay_ns(struct gy_kind *kind);
/* The memory of a slab goes back to where it came from. */
void gy_kind_give_back(struct gy_kind *kind, const struct gy_backing *backing);

/* Take slabs until `bytes` of them are free. */
GANTRY_MUST_CHECK gantry_status gy_kind_reserve(struct gy_kind *kind, size_t bytes);

/* Give wholly free slabs back to the driver until no more than `keep` bytes of them are left, the base size
 * and the limit permitting; the bytes given back. */
size_t gy_kind_trim(struct gy_kind *kind, size_t keep);
/* The same when more lies unused than the settings let it, on the side: what threads keep of the small tier
 * stays with them. */
size_t gy_kind_trim_excess(struct gy_kind *kind);
/* More lies unused than the settings let. */
bool gy_kind_has_excess(struct gy_kind *kind);

#endif
