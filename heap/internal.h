/* The heap's own struct, shared by the files of this room. */
#ifndef HEAP_INTERNAL_H
#define HEAP_INTERNAL_H

#include "heap/check.h"
#include "heap/heap.h"
#include "heap/kind.h"
#include "heap/reclaimer.h"

struct gantry_heap {
    struct gy_context *context;                             /* immutable */
    struct gy_granules map;                                 /* own guards */
    struct gy_sites sites;                                  /* own guards */
    struct gy_kind kinds[GANTRY_MEMORY_KIND_COUNT];         /* own guards */
    gantry_memory_source sources[GANTRY_MEMORY_KIND_COUNT]; /* immutable; copies of the application's */
    gantry_out_of_memory_fn out_of_memory;                  /* immutable; may be NULL */
    void *out_of_memory_user;                               /* immutable */
    struct gy_check *check;                                 /* immutable; NULL: off */
    size_t guard_bytes;                                     /* immutable; behind each block; 0: none */
    struct gy_reclaimer reclaimer;                          /* own guards */
    gy_mutex pending_lock;                                  /* rank HEAP */
    bool (*pending)(void *user,
                    gantry_memory_kind kind); /* guarded by pending_lock, see gy_heap_set_pending() */
    void *pending_user;                       /* guarded by pending_lock */
    unsigned pending_calls;                   /* guarded by pending_lock; running now */
};

/* The entries of gantry_heap_get_tag_stats(), places that read the same as one; for gy_free().
 * NULL with `out_count` 0: out of host memory. */
gantry_heap_tag_stats *gy_heap_tags(gantry_heap *heap, gantry_memory_kind kind, size_t *out_count);

#endif
