/* SPDX-License-Identifier: MIT */
/* Blocks of the page layer that were just given back, kept for the next request of the same size.
 *
 * Each shard has a lap, too: blocks that were freed on one stream, and may be used there again at once.  They
 * never leave it for anybody but that stream: what does leave goes to the stream's waiting memory
 * (streams.h), and whoever needs room empties all laps first.  Blocks that a lap does not keep wait in it for
 * the thread's next operation that takes the page layer's lock: each time that the lock changes hands, its
 * cache lines travel to another core.
 *
 * They lie in shards, and each thread uses one of them, so that threads do not contend for the page layer's
 * lock. Parked blocks are free memory: gy_park_flush() lets go of them before anybody asks the driver for
 * more.
 *
 * Threading: any thread.  A shard is held for a few instructions; a thread that finds it held goes to the
 * page layer instead of waiting. */
#ifndef HEAP_PARK_H
#define HEAP_PARK_H

#include "heap/granules.h"
#include "heap/pages.h"
#include "heap/usage.h"

#define GY_PARK_SHARDS 16
#define GY_PARK_BUCKETS 32
#define GY_LAP_BUCKETS 64
/* The bytes that a shard may keep; it may keep more where there is much memory. */
#define GY_PARK_BYTES ((size_t)128 << 20)
#define GY_PARK_MOST_BYTES ((size_t)512 << 20)
/* The bytes that a shard's tally holds back while it is alone. */
#define GY_PARK_HOLD_BYTES ((int64_t)1 << 20)

struct gy_heap_stream;

/* Blocks kept for one stream.  Guarded by its shard's `held`. */
struct gy_lap {
    struct gy_heap_stream *stream; /* NULL: none yet */
    uint64_t id;                   /* the stream's number */
    size_t pages;                  /* of all blocks */
    unsigned strangers;            /* frees on other streams since the last one on this stream */
    unsigned refused;              /* frees for which there was no room since the lap was emptied */
    unsigned leaving_count;        /* of the blocks in `leaving` */
    size_t leaving_pages;          /* likewise */
    struct gy_range *leaving;      /* blocks that are not kept, linked by `next` */
    struct gy_range *buckets[GY_LAP_BUCKETS]; /* by page count, last in first out */
};

/* The stream that has the number `id`, which belongs to a lap from now on in place of `old`; the blocks in
 * `first`, linked by `next`, go to the memory that waits for `old`.  Called by a shard's holder. */
typedef struct gy_heap_stream *(*gy_lap_home_fn)(void *user, struct gy_heap_stream *old,
                                                 struct gy_range *first, uint64_t id);

struct gy_park_shard {
    _Alignas(64) atomic_bool held;             /* atomic: the guard of the rest */
    size_t pages;                              /* guarded by held; pages that are parked */
    struct gy_range *buckets[GY_PARK_BUCKETS]; /* guarded by held; by page count, last in first out */
    struct gy_lap lap;                         /* guarded by held */
    struct gy_tally tally;                     /* written under held */
};

/* To be called by the shard's holder.  Each parked block lies in the bucket of its size and belongs to the
 * shard alone. */
bool gy_park_shard_is_valid(struct gy_park_shard *shard);

struct gy_park {
    struct gy_pages *pages;       /* immutable */
    struct gy_granules *map;      /* immutable */
    struct gy_usage *usage;       /* immutable */
    struct gy_park_shard *shards; /* immutable; GY_PARK_SHARDS of them */
    size_t most_pages;            /* immutable; pages that a shard keeps at most */
    gy_lap_home_fn home;          /* immutable */
    void *home_user;              /* immutable */
};

/* `memory_bytes` is what the kind has in all; 0: it is not known.  False: out of host memory. */
GANTRY_MUST_CHECK bool gy_park_init(struct gy_park *park, struct gy_pages *pages, struct gy_granules *map,
                                    struct gy_usage *usage, uint64_t memory_bytes);
/* Parked blocks end with their slabs. */
void gy_park_fini(struct gy_park *park);

/* Take a parked block of as many pages, and note it as allocated; false when there is none. */
bool gy_park_take(struct gy_park *park, size_t bytes, size_t alignment, uint32_t site, uintptr_t *out);

enum gy_park_result {
    GY_PARK_OK,        /* given back */
    GY_PARK_NOT_FOUND, /* no live block starts there */
};

/* Give back the block at `address`, for which the granule map says `region`, and note it. */
enum gy_park_result gy_park_give(struct gy_park *park, struct gy_heap_region *region, uintptr_t address);

/* The two halves of gy_park_give(); any time may pass between them.  The first takes the block from the
 * application (NULL: no live block starts there), the second keeps its memory for others.  Until the second
 * the block counts as used. */
struct gy_range *gy_park_claim(struct gy_park *park, struct gy_heap_region *region, uintptr_t address);
void gy_park_give_claimed(struct gy_park *park, struct gy_range *range);
/* Call this instead of the second half: the claimed block becomes a live one of as many pages. */
void gy_park_revive(struct gy_park *park, struct gy_range *range, size_t bytes, uint32_t site);

/* The pages of a block that is allocated on a stream: blocks of up to 2 MiB have few sizes, at most an eighth
 * more than was asked for, so that one can be used for another one, and fewer small gaps are left. */
static inline size_t gy_lap_pages(size_t pages)
{
    if (pages <= 8 || pages > 512) {
        return pages;
    }
    const size_t step = (size_t)1 << (60 - __builtin_clzll(pages));
    return (pages + step - 1) & ~(step - 1);
}

/* Take a block out of the lap of the stream with that number, and note it as allocated; false when there is
 * none. */
bool gy_park_lap_take(struct gy_park *park, uint64_t id, size_t bytes, size_t alignment, uint32_t site,
                      uintptr_t *out);

enum gy_lap_result {
    GY_LAP_GIVEN,   /* given back */
    GY_LAP_FULL,    /* the block is as it was, as it has to go another way */
    GY_LAP_STRANGE, /* likewise, and the lap should be given to this stream */
};

/* The pages that a lap may hold. */
struct gy_lap_room {
    size_t kept;    /* of blocks that are kept */
    size_t leaving; /* of blocks that leave */
};

/* Give back the block at `address`, for which the granule map says `region`, to the lap of the stream with
 * that number.  A block that it does not keep leaves with the thread's next operation that takes the lock of
 * the page layer. */
enum gy_lap_result gy_park_lap_give(struct gy_park *park, uint64_t id, struct gy_heap_region *region,
                                    uintptr_t address, struct gy_lap_room room);
/* Take the blocks that leave the lap of the stream with that number, linked by `next`.  This never waits, and
 * may be called under the lock of the page layer. */
struct gy_range *gy_park_lap_leave(struct gy_park *park, uint64_t id);
/* Let the thread's lap be that of the stream with that number. */
void gy_park_lap_attach(struct gy_park *park, uint64_t id);

/* Note a block that came from the page layer itself, or one that changed its size (count 0). */
void gy_park_note(struct gy_park *park, uint32_t site, int64_t bytes, int count);

/* Give everything parked to the page layer, and what is in laps to its streams; true when there was any. */
bool gy_park_flush(struct gy_park *park);
/* Wait until no thread is in a slab that was taken out of the granule map before the call. */
void gy_park_quiesce(struct gy_park *park);

void gy_park_collect(struct gy_park *park, struct gy_sums *sums);
/* Add up the bytes that the shards' tallies have ever counted as allocated, or as freed; false: they cannot
 * be told now. */
GANTRY_MUST_CHECK bool gy_park_allocated(const struct gy_park *park, uint64_t *sum);
uint64_t gy_park_freed(const struct gy_park *park);
/* Make the shards look for peaks again. */
void gy_park_forget_highs(struct gy_park *park);
void gy_park_collect_site(struct gy_park *park, uint32_t site, int64_t *bytes, int64_t *count);

#endif
