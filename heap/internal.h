/* SPDX-License-Identifier: MIT */
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
    gantry_out_of_memory_fn out_of_memory;                  /* immutable; NULL: none */
    void *out_of_memory_user;                               /* immutable */
    uint64_t peers;                                         /* immutable; as in gantry_heap_options */
    CUmemAllocationHandleType handles; /* immutable; device memory is exported as these */
    struct gy_import *imports;         /* guarded by the lock of imports.c */
    struct gantry_heap *next_heap;     /* guarded by the lock of others.c */
    unsigned forks;                    /* immutable; gy_thread_forks() at creation */
    struct gy_check *check;            /* immutable; NULL: off */
    size_t guard_bytes;                /* immutable; behind each block; 0: there are none */
    struct gy_reclaimer reclaimer;     /* own guards */
    gy_mutex pending_lock;             /* rank HEAP */
    bool (*pending)(void *user,
                    gantry_memory_kind kind); /* guarded by pending_lock, see gy_heap_set_pending() */
    void *pending_user;                       /* guarded by pending_lock */
    unsigned pending_calls;                   /* guarded by pending_lock; calls that are running now */
    _Atomic(uint64_t) own_bytes[GANTRY_MEMORY_KIND_COUNT]; /* atomic; see gy_heap_alloc_own() */
    atomic_bool has_snapshot; /* atomic; gy_heap_note_exhausted() has written one */
};

/* Checked arguments of an allocation. */
struct gy_heap_request {
    gantry_memory_kind kind;
    size_t bytes;
    size_t alignment;
    uint32_t site;
    const struct gy_heap_stream_name *stream; /* NULL: the block is for no stream */
};
/* The end of every allocation, with everything that can be done when there is no room. */
GANTRY_MUST_CHECK gantry_status gy_heap_alloc_block(gantry_heap *heap, const struct gy_heap_request *request,
                                                    uintptr_t *out);
/* Check the arguments; `call` is what a message names. */
GANTRY_MUST_CHECK gantry_status gy_heap_check_request(const gantry_heap *heap, const char *call,
                                                      gantry_memory_kind kind, size_t bytes, size_t alignment,
                                                      const void *out);
/* Report what `pointer` is instead of a live block; returns GANTRY_ERR_NOT_FOUND. */
gantry_status gy_heap_fail_not_found(gantry_heap *heap, const char *call, const void *pointer);

/* Report that the kind's memory ran out for a request of `bytes`, with all numbers; returns `status`. */
gantry_status gy_heap_fail_exhausted(gantry_heap *heap, gantry_memory_kind kind, size_t bytes,
                                     gantry_status status);

/* Unmap what is left of imports. */
void gy_imports_fini(gantry_heap *heap);

/* Memory ran out: write the heap into the file that $GANTRY_HEAP_SNAPSHOT names, the first time.  The caller
 * holds no lock. */
void gy_heap_note_exhausted(gantry_heap *heap);

/* Round a setting to whole granules, or to the whole slab. */
static inline void gy_heap_round_unit(size_t *unit)
{
    if (!gy_granules_round(*unit, unit)) {
        *unit = SIZE_MAX;
    }
}

static inline bool gy_is_exhausted(gantry_status status)
{
    return status == GANTRY_ERR_OUT_OF_DEVICE_MEMORY || status == GANTRY_ERR_OUT_OF_HOST_MEMORY;
}

/* The entries of gantry_heap_get_tag_stats(), in which places that read the same are one entry; the caller
 * frees them with gy_free().  NULL with `out_count` 0: out of host memory. */
gantry_heap_tag_stats *gy_heap_tags(gantry_heap *heap, gantry_memory_kind kind, size_t *out_count);
/* Compares two of them by tag, file and line, for qsort() and bsearch(). */
int gy_heap_by_place(const void *a, const void *b);

#endif
