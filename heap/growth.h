/* SPDX-License-Identifier: MIT */
/* How a memory kind grows and shrinks: when slabs are taken, and given back. */
#ifndef HEAP_GROWTH_H
#define HEAP_GROWTH_H

#include "heap/kind.h"

/* To be called by the growing thread: the bytes that the kind has taken and those of them that lie idle fit,
 * and no slab or chunk uses the structs that the kind keeps for the next ones. */
bool gy_kind_growth_is_valid(struct gy_kind *kind);

enum gy_growth {
    GY_GROW_SLAB,  /* the page layer is full */
    GY_GROW_CHUNK, /* the small tier is full */
};

/* Threads that go on free something all the time: one that has no room looks for that so often, then the heap
 * grows. */
#define GY_KIND_MOST_LOOKS 3u

/* Get more memory for an attempt that failed after it had read `seen` from `generation`.  OK: try again.
 * Running out of memory is not logged. */
GANTRY_MUST_CHECK gantry_status gy_kind_grow(struct gy_kind *kind, uint64_t seen, enum gy_growth growth,
                                             size_t bytes);
/* An allocation that had to try again has its memory: if the kind has grown, more is mapped beforehand.  Any
 * earlier, what the kind has just got for this allocation would be taken for what lies ready for later ones.
 */
void gy_kind_tell_growth(struct gy_kind *kind);
/* An allocation stalled from `begin_ns` until now. */
void gy_kind_note_stall(struct gy_kind *kind, gantry_heap_stall cause, uint64_t begin_ns);
/* Map as many bytes beforehand as the settings want, if there is room and the driver has as much. */
void gy_kind_map_ahead(struct gy_kind *kind);
/* How many nanoseconds excess memory must have lain unused before it goes back; 0: it goes back at once. */
uint64_t gy_kind_decay_ns(struct gy_kind *kind);
/* Copy the source of a caller of any version, and check it. */
GANTRY_MUST_CHECK gantry_status gy_growth_import_source(const gantry_memory_source *theirs,
                                                        gantry_memory_source *ours);
/* Give the memory of a slab back to where it came from. */
void gy_kind_give_back(struct gy_kind *kind, const struct gy_backing *backing);

/* Take slabs until `bytes` of them are free. */
GANTRY_MUST_CHECK gantry_status gy_kind_reserve(struct gy_kind *kind, size_t bytes);

/* Give wholly free slabs back to the driver until no more than `keep` bytes of them are left, as far as the
 * base size and the limit permit.  Returns the bytes given back. */
size_t gy_kind_trim(struct gy_kind *kind, size_t keep);
/* Give back what lies unused beyond the settings, in the background: what threads keep of the small tier
 * stays with them. */
size_t gy_kind_trim_excess(struct gy_kind *kind);
/* Does more memory lie unused than the settings let? */
bool gy_kind_has_excess(struct gy_kind *kind);

#endif
