/* SPDX-License-Identifier: MIT */
/* The heap of one memory kind: the two tiers, and how they grow. */
#ifndef HEAP_KIND_H
#define HEAP_KIND_H

#include "heap/heap.h"
#include "heap/pages.h"
#include "heap/park.h"
#include "heap/sites.h"
#include "heap/small.h"
#include "heap/streams.h"

/* The settings of a kind.  Zero bytes mean: no limit, or the default slab policy. */
struct gy_kind_setup {
    gantry_memory_kind kind;
    struct gy_context *context;
    const struct gy_backing_ops *ops;
    const gantry_memory_source *source; /* the application's own; NULL: `ops` is the source */
    struct gy_granules *map;
    size_t slab_bytes;
    size_t limit_bytes;
    size_t base_bytes;
    size_t keep_bytes;
    size_t unit_bytes;
    size_t ahead_bytes;
    uint64_t decay_ms;
    uint64_t peers;                    /* DEVICE: bit d: the device with ordinal d uses the memory, too */
    CUmemAllocationHandleType handles; /* DEVICE: the memory may be exported as these */
    bool use_small;
    /* More memory lies unused than the settings let: the function asks another thread to call
     * gy_kind_trim_excess().  NULL: it is not told. */
    void (*excess)(void *user, gantry_memory_kind kind);
    /* The kind grows: the function asks another thread to call gy_kind_map_ahead().  NULL: it is not told. */
    void (*grows)(void *user, gantry_memory_kind kind);
    /* The kind takes its first slab: the allocating thread calls this with no lock held.  NULL: it is not
     * told. */
    void (*begins)(void *user, gantry_memory_kind kind);
    /* Frees a block that has waited for streams, as gy_heap_free_claimed() does; set where blocks are used on
     * streams. */
    void (*free_claimed)(void *user, gantry_memory_kind kind, const struct gy_claim *claim);
    void *user;
};

/* The settings that may change at any time. */
struct gy_kind_settings {
    _Atomic(size_t) slab_bytes;     /* atomic; 0: the default */
    _Atomic(size_t) limit_bytes;    /* atomic; 0: none */
    _Atomic(size_t) base_bytes;     /* atomic */
    _Atomic(size_t) keep_bytes;     /* atomic; 0: the default */
    _Atomic(size_t) reserved_bytes; /* atomic; the most that gy_kind_reserve() was asked for */
    _Atomic(size_t) unit_bytes;     /* atomic; 0: the default; SIZE_MAX: whole slabs */
    _Atomic(size_t) ahead_bytes;    /* atomic; 0: the default; SIZE_MAX: none */
    _Atomic(uint64_t) decay_ms;     /* atomic; 0: the default; UINT64_MAX: none */
};

/* The stalls of one cause. */
struct gy_stalls {
    _Atomic(uint64_t) count;   /* atomic */
    _Atomic(uint64_t) ns;      /* atomic; of all stalls */
    _Atomic(uint64_t) longest; /* atomic */
};

struct gy_kind {
    struct gy_kind_setup setup;       /* immutable; the settings in it are the first ones */
    struct gy_kind_settings settings; /* atomic */
    struct gy_pages pages;  /* own guards; blocks too large for the small tier, and the small tier's chunks */
    struct gy_small *small; /* immutable; NULL: the page layer serves everything */
    struct gy_park park;    /* own guards; blocks of the page layer that were just given back */
    struct gy_heap_streams streams; /* own guards; blocks that wait for streams */
    struct gy_usage usage;          /* atomic */
    gy_mutex growth_lock;           /* rank HEAP */
    gy_cond grown;                  /* `growing` went back to false */
    bool growing;                   /* guarded by growth_lock; one thread at a time calls the driver */
    _Atomic(uint64_t) generation;   /* atomic; written under growth_lock: successful growths so far */
    _Atomic(size_t) slab_total;     /* atomic; written by the growing thread only */
    _Atomic(size_t) slab_peak;      /* atomic; the most of slab_total since the peaks were reset */
    atomic_bool has_grown;          /* atomic; and nobody has told setup.grows() */
    atomic_bool is_short;           /* atomic; the last growth found no memory */
    atomic_bool excess_told;        /* atomic; setup.excess() was called, and no trim has begun since */
    struct gy_stalls stalls[GANTRY_HEAP_STALL_COUNT]; /* atomic */
    struct gy_slab *spare_slabs;   /* the growing thread only; structs that a late reader may still look at */
    struct gy_chunk *spare_chunks; /* the growing thread only; likewise */
};

/* @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_MUST_CHECK gantry_status gy_kind_init(struct gy_kind *kind, const struct gy_kind_setup *setup);
/* End a kind whose live blocks are gone; every slab is given back. */
void gy_kind_fini(struct gy_kind *kind);

/* Allocate as gantry_heap_alloc() does, with checked arguments.  Running out of memory is not logged. */
GANTRY_MUST_CHECK gantry_status gy_kind_alloc(struct gy_kind *kind, size_t bytes, size_t alignment,
                                              uint32_t site, uintptr_t *out);

/* Free the block at `address`, which lies in `region`.  False: no live block starts there. */
GANTRY_MUST_CHECK bool gy_kind_free(struct gy_kind *kind, struct gy_heap_region *region, uintptr_t address);

/* The two halves of gy_kind_free(); any time may pass between them. */
GANTRY_MUST_CHECK bool gy_kind_claim(struct gy_kind *kind, struct gy_heap_region *region, uintptr_t address,
                                     struct gy_claim *out);
void gy_kind_free_claimed(struct gy_kind *kind, const struct gy_claim *claim);
/* Call this instead of the second half to use the memory for a block of `bytes`.  False: the block does not
 * fit, or would waste half of it. */
GANTRY_MUST_CHECK bool gy_kind_reuse(struct gy_kind *kind, const struct gy_claim *claim, size_t bytes,
                                     size_t alignment, uint32_t site);

/* The live block at `address` counts as one of `to` bytes instead of `from`; its memory is large enough, and
 * all of it stays with the block. */
void gy_kind_set_size(struct gy_kind *kind, uintptr_t address, size_t from, size_t to);

/* @retval GANTRY_ERR_NOT_FOUND, GANTRY_ERR_UNSUPPORTED, GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_MUST_CHECK gantry_status gy_kind_resize(struct gy_kind *kind, struct gy_heap_region *region,
                                               uintptr_t address, size_t bytes);

/* True when `address` lies inside a live block. */
bool gy_kind_contain(struct gy_kind *kind, struct gy_heap_region *region, uintptr_t address);

void gy_kind_stats(struct gy_kind *kind, gantry_heap_stats *stats);
/* Start all peaks anew with what is in use now; the peaks of sites are those of numbers below `sites`. */
void gy_kind_reset_peaks(struct gy_kind *kind, uint32_t sites);

static inline size_t gy_setting(_Atomic(size_t) *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

/* The bytes of all slabs. */
static inline size_t gy_kind_total(struct gy_kind *kind)
{
    return atomic_load_explicit(&kind->slab_total, memory_order_relaxed);
}

/* The bytes that the kind can have at most: its limit, and of device memory what the device has. */
static inline size_t gy_kind_capacity(struct gy_kind *kind)
{
    const struct gy_kind_setup *setup = &kind->setup;
    const size_t limit = gy_setting(&kind->settings.limit_bytes);
    const bool is_device = setup->kind == GANTRY_MEMORY_DEVICE && setup->context != NULL;
    const size_t memory = is_device ? (size_t)setup->context->info.memory_bytes : SIZE_MAX;
    return limit != 0 && limit < memory ? limit : memory;
}

/* The last share of what a kind may have. */
#define GY_KIND_LAST_SHARE 64u
/* The kind has all that it can have, or could have no more when it last asked: who finds no room from now on
 * waits for what others have freed. */
static inline bool gy_kind_is_full(struct gy_kind *kind)
{
    const size_t capacity = gy_kind_capacity(kind);
    return atomic_load_explicit(&kind->is_short, memory_order_relaxed) ||
           gy_kind_total(kind) >= capacity - capacity / GY_KIND_LAST_SHARE;
}

/* ---- questions ---- */

/* The numbers of one site. */
void gy_kind_site_stats(struct gy_kind *kind, uint32_t site, gantry_heap_tag_stats *stats);

/* The live block whose memory `address` is in; false when there is none. */
bool gy_kind_block_at(struct gy_kind *kind, struct gy_heap_region *region, uintptr_t address,
                      struct gy_visited *out);

/* Call `visit` for every live block.  A leaf lock is held meanwhile. */
void gy_kind_each_block(struct gy_kind *kind, gy_visit_fn visit, void *user);

/* The bytes of slabs that cannot be given to anybody else as a whole: pages of live and of claimed blocks,
 * and pieces between them that are smaller than a unit. */
uint64_t gy_kind_occupied(struct gy_kind *kind);

#endif
