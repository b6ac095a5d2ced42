/* SPDX-License-Identifier: MIT */
/* The small tier, built on jemalloc.
 *
 * Each heap kind has one manual arena, which extent hooks feed with pages of chunks.  jemalloc keeps its
 * records beside the memory that it manages, but only if it is used with care.  These are the rules; to break
 * one of them crashes the program or wastes memory:
 *
 *   - The arena is created plain and gets its hooks after that: its own metadata stays in host memory.
 *   - Nothing that fills, junks or copies: no zeroing flag, no calloc, no realloc; a resize only asks for
 *     the capacity.  An environment (MALLOC_CONF) that makes jemalloc write to blocks nevertheless is
 *     noticed by the probe of canary.c, and the small tier is not used.
 *   - The hooks take one leaf lock and do nothing else.  The alloc hook never adds memory: it notes that a
 *     chunk is wanted and refuses, so that the caller adds it outside jemalloc and repeats.  A refused
 *     request for growth in advance makes jemalloc ask for what it needs.
 *   - Every free names our thread cache or none.  A block freed into jemalloc's automatic cache would come
 *     back from some malloc() of the application.
 *   - Freed pages are always accepted: a refusal is final for jemalloc.  Two chunks never merge.
 *   - Pages do not decay by themselves (purge would be a hook call at any time); gy_small_purge() does it.
 *   - An arena is left when all thread caches of it are destroyed; the next tier takes it.
 *
 * Thread caches are explicit: there is one per thread and small tier.  A thread finds it in thread-local
 * slots by the tier's id; ids are never used twice, so a slot may outlive its tier.  A cache is destroyed by
 * its thread's end or by its tier's, whichever is first; `caches_lock` decides.  When jemalloc has no cache
 * left to give, the thread works without one.
 *
 * In front of jemalloc's thread cache lies a magazine per size class.  It costs popping a pointer instead of
 * a call, and has room for bursts of page-sized blocks, of which jemalloc's cache keeps few. */
#include "heap/small.h"

#include "base/alloc.h"
#include "base/status.h"
#include "heap/jemalloc.h"

#include <assert.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#define CACHE_SLOTS 16
#define CLASSES 19
#define MAGAZINE_ROOM 128
/* The bytes that a thread's tally holds back while it is alone. */
#define HOLD_BACK_BYTES 32768
/* Requests above this size are growth in advance, which nobody wants. */
#define LARGEST_EXTENT (GY_GRANULE_BYTES / 2)
/* MALLOCX_ARENA() shifts the number after it by 20 bits, in an int. */
#define MOST_IDLE 64
#define MOST_ARENA ((unsigned)(INT_MAX >> 20) - 1)

struct cache_link {
    struct small_cache *prev, *next;
};

/* Free blocks of one size, last in, first out.  Only the owning thread uses them. */
struct magazine {
    unsigned count;
    uintptr_t blocks[MAGAZINE_ROOM];
};

struct small_cache {
    struct gy_small *small;       /* immutable */
    struct thread_caches *thread; /* immutable */
    unsigned tcache;              /* immutable */
    unsigned purges;              /* own thread only; the number of small->purges that it has followed */
    struct gy_tally tally;        /* written by the own thread */
    struct cache_link in_small;   /* guarded by caches_lock */
    struct cache_link in_thread;  /* guarded by caches_lock */
    struct magazine magazines[CLASSES]; /* own thread only, or the thread that ends the cache */
};

struct gy_small {
    extent_hooks_t hooks; /* immutable */
    struct gy_chunk_pool pool;
    struct gy_usage *usage;
    uint64_t id;                /* immutable; unique in the process */
    unsigned arena;             /* immutable */
    _Atomic(unsigned) purges;   /* atomic; goes up when every thread shall empty its magazines */
    struct small_cache *caches; /* guarded by caches_lock */
};

struct thread_caches {
    struct small_cache *first; /* guarded by caches_lock, since the tier's end takes caches out */
    struct {
        uint64_t id;
        struct small_cache *cache; /* NULL: no cache can be had */
    } slots[CACHE_SLOTS];          /* own thread only; valid while a tier with that id lives */
};

static _Thread_local struct thread_caches mine;
static _Thread_local bool chunk_wanted; /* set by the alloc hook for its caller */

static gy_mutex caches_lock = {PTHREAD_MUTEX_INITIALIZER, GY_RANK_HEAP};
static uint64_t last_id;                /* guarded by caches_lock */
static unsigned tiers;                  /* guarded by caches_lock; > 0: thread_key exists */
static pthread_key_t thread_key;        /* guarded by caches_lock */
static unsigned idle_arenas[MOST_IDLE]; /* guarded by caches_lock; arenas that tiers have left */
static unsigned idle_count;             /* guarded by caches_lock */

/* ---- hooks ---- */

static struct gy_small *small_of(extent_hooks_t *hooks)
{
    return (struct gy_small *)(void *)((char *)hooks - offsetof(struct gy_small, hooks));
}

static void *hook_alloc(extent_hooks_t *hooks, void *at, size_t bytes, size_t alignment, bool *zero,
                        bool *commit, unsigned arena)
{
    (void)arena;
    /* Nothing of ours is known to be zero, and no extent grows in place. */
    if (at != NULL || *zero || bytes > LARGEST_EXTENT) {
        return NULL;
    }
    uintptr_t base = gy_chunk_pool_take(&small_of(hooks)->pool, bytes, alignment);
    if (base == 0) {
        chunk_wanted = true;
        return NULL;
    }
    *commit = true;
    return (void *)base;
}

static bool hook_dalloc(extent_hooks_t *hooks, void *at, size_t bytes, bool committed, unsigned arena)
{
    (void)committed;
    (void)arena;
    gy_chunk_pool_return(&small_of(hooks)->pool, (uintptr_t)at, bytes);
    return false;
}

static void hook_destroy(extent_hooks_t *hooks, void *at, size_t bytes, bool committed, unsigned arena)
{
    hook_dalloc(hooks, at, bytes, committed, arena);
}

static bool hook_split(extent_hooks_t *hooks, void *at, size_t bytes, size_t lower, size_t upper,
                       bool committed, unsigned arena)
{
    (void)hooks, (void)at, (void)bytes, (void)lower, (void)upper, (void)committed, (void)arena;
    return false;
}

static bool hook_merge(extent_hooks_t *hooks, void *lower, size_t lower_bytes, void *upper,
                       size_t upper_bytes, bool committed, unsigned arena)
{
    (void)hooks, (void)lower, (void)lower_bytes, (void)upper_bytes, (void)committed, (void)arena;
    return (uintptr_t)upper % GY_GRANULE_BYTES == 0;
}

/* ---- arena ---- */

/* mallctl("arena.<arena>.<what>", ...) */
static int arena_control(unsigned arena, const char *what, void *value, size_t bytes)
{
    char name[64];
    snprintf(name, sizeof(name), "arena.%u.%s", arena, what);
    return mallctl(name, NULL, NULL, value, bytes);
}

/* The hooks of an arena that no tier uses. */
static void *idle_alloc(extent_hooks_t *hooks, void *at, size_t bytes, size_t alignment, bool *zero,
                        bool *commit, unsigned arena)
{
    (void)hooks, (void)at, (void)bytes, (void)alignment, (void)zero, (void)commit, (void)arena;
    return NULL;
}
static extent_hooks_t idle_hooks = {.alloc = idle_alloc};

/* Take an arena that a tier has left, or make a new one.  False: none can be had. */
static bool arena_take(unsigned *out)
{
    gy_mutex_lock(&caches_lock);
    bool is_left = idle_count > 0;
    if (is_left) {
        *out = idle_arenas[--idle_count];
    }
    gy_mutex_unlock(&caches_lock);
    size_t bytes = sizeof(*out);
    return is_left || mallctl("arenas.create", out, &bytes, NULL, 0) == 0;
}

/* A destroyed arena leaves its own metadata mapped for good, so it is emptied instead, and kept for the next
 * tier.  No thread has a cache of it any more. */
static void arena_leave(unsigned arena)
{
    extent_hooks_t *hooks = &idle_hooks;
    bool is_empty = arena_control(arena, "reset", NULL, 0) == 0 &&
                    arena_control(arena, "purge", NULL, 0) == 0 &&
                    arena_control(arena, "extent_hooks", &hooks, sizeof(hooks)) == 0;
    gy_mutex_lock(&caches_lock);
    bool is_kept = is_empty && idle_count < MOST_IDLE;
    if (is_kept) {
        idle_arenas[idle_count++] = arena;
    }
    gy_mutex_unlock(&caches_lock);
    if (!is_kept) {
        arena_control(arena, "destroy", NULL, 0);
    }
}

static gantry_status arena_create(struct gy_small *small)
{
    if (!arena_take(&small->arena)) {
        return GANTRY_ERR_UNSUPPORTED;
    }
    extent_hooks_t *hooks = &small->hooks;
    ssize_t never = -1;
    if (small->arena > MOST_ARENA ||
        arena_control(small->arena, "extent_hooks", &hooks, sizeof(hooks)) != 0 ||
        arena_control(small->arena, "dirty_decay_ms", &never, sizeof(never)) != 0 ||
        arena_control(small->arena, "muzzy_decay_ms", &never, sizeof(never)) != 0) {
        arena_control(small->arena, "destroy", NULL, 0);
        return GANTRY_ERR_UNSUPPORTED;
    }
    return GANTRY_OK;
}

/* ---- thread caches ---- */

static void empty_magazines(struct small_cache *cache, int flags)
{
    for (unsigned i = 0; i < CLASSES; i++) {
        struct magazine *magazine = &cache->magazines[i];
        while (magazine->count > 0) {
            dallocx((void *)magazine->blocks[--magazine->count], flags);
        }
    }
}

static void end_cache(struct small_cache *cache) GY_REQUIRES(caches_lock)
{
    struct gy_small *small = cache->small;
    *(cache->in_small.prev != NULL ? &cache->in_small.prev->in_small.next : &small->caches) =
        cache->in_small.next;
    if (cache->in_small.next != NULL) {
        cache->in_small.next->in_small.prev = cache->in_small.prev;
    }
    *(cache->in_thread.prev != NULL ? &cache->in_thread.prev->in_thread.next : &cache->thread->first) =
        cache->in_thread.next;
    if (cache->in_thread.next != NULL) {
        cache->in_thread.next->in_thread.prev = cache->in_thread.prev;
    }
    empty_magazines(cache, MALLOCX_TCACHE_NONE);
    mallctl("tcache.destroy", NULL, NULL, &cache->tcache, sizeof(cache->tcache));
    gy_tally_end(&cache->tally, small->usage);
    gy_free(cache);
}

/* The lock stays held over tcache.destroy: once it is free, the tier's end may destroy the arena. */
static void end_thread(void *arg)
{
    struct thread_caches *thread = arg;
    gy_mutex_lock(&caches_lock);
    while (thread->first != NULL) {
        end_cache(thread->first);
    }
    gy_mutex_unlock(&caches_lock);
    for (unsigned i = 0; i < CACHE_SLOTS; i++) {
        thread->slots[i].id = 0;
    }
}

static void link_cache(struct small_cache *cache) GY_REQUIRES(caches_lock)
{
    cache->in_small.next = cache->small->caches;
    if (cache->in_small.next != NULL) {
        cache->in_small.next->in_small.prev = cache;
    }
    cache->small->caches = cache;
    cache->in_thread.next = cache->thread->first;
    if (cache->in_thread.next != NULL) {
        cache->in_thread.next->in_thread.prev = cache;
    }
    cache->thread->first = cache;
}

/* Make a cache of this thread for `small`; NULL: host memory, caches or thread-local values ran out. */
static struct small_cache *make_cache(struct gy_small *small)
{
    struct small_cache *cache = gy_alloc_aligned(sizeof(*cache), 64);
    if (cache == NULL) {
        return NULL;
    }
    memset(cache, 0, sizeof(*cache));
    gy_tally_init(&cache->tally, HOLD_BACK_BYTES, false);
    cache->small = small;
    cache->thread = &mine;
    cache->purges = atomic_load_explicit(&small->purges, memory_order_relaxed);
    size_t bytes = sizeof(cache->tcache);
    if (mallctl("tcache.create", &cache->tcache, &bytes, NULL, 0) != 0) {
        gy_free(cache);
        return NULL;
    }
    gy_mutex_lock(&caches_lock);
    bool ends_with_thread = pthread_setspecific(thread_key, &mine) == 0;
    if (ends_with_thread) {
        link_cache(cache);
    }
    gy_mutex_unlock(&caches_lock);
    if (!ends_with_thread) {
        mallctl("tcache.destroy", NULL, NULL, &cache->tcache, sizeof(cache->tcache));
        gy_free(cache);
        return NULL;
    }
    return cache;
}

__attribute__((noinline)) static struct small_cache *find_cache_slow(struct gy_small *small)
{
    struct small_cache *cache = NULL;
    gy_mutex_lock(&caches_lock);
    for (cache = mine.first; cache != NULL && cache->small != small; cache = cache->in_thread.next) {
    }
    gy_mutex_unlock(&caches_lock);
    if (cache == NULL) {
        cache = make_cache(small);
    }
    mine.slots[small->id % CACHE_SLOTS].id = small->id;
    mine.slots[small->id % CACHE_SLOTS].cache = cache;
    return cache;
}

static inline struct small_cache *find_cache(struct gy_small *small)
{
    unsigned slot = (unsigned)(small->id % CACHE_SLOTS);
    if (__builtin_expect(mine.slots[slot].id == small->id, 1)) {
        return mine.slots[slot].cache;
    }
    return find_cache_slow(small);
}

static inline int cache_flags(const struct small_cache *cache)
{
    return cache != NULL ? MALLOCX_TCACHE(cache->tcache) : MALLOCX_TCACHE_NONE;
}

static inline void note(struct gy_small *small, struct small_cache *cache, uint32_t site, int64_t bytes,
                        int count)
{
    if (__builtin_expect(cache == NULL, 0)) {
        gy_usage_note(small->usage, site, bytes, count);
    } else {
        gy_tally_note(&cache->tally, small->usage, site, bytes, count, false);
    }
}

/* ---- magazines ---- */

/* Size classes lie 256 bytes apart up to 2 KiB, and then there are four per doubling, as with jemalloc's own.
 * A block in a magazine can hold at least as many bytes as its class. */
static inline unsigned class_of(size_t bytes)
{
    size_t units = (bytes + GY_UNIT_BYTES - 1) >> GY_UNIT_SHIFT;
    if (units <= 8) {
        return (unsigned)units - 1;
    }
    unsigned log2 = 63u - (unsigned)__builtin_clzll(units - 1); /* 3 for 9 … 16 units; else 4 or 5 */
    return 8 + (log2 - 3) * 4 + (unsigned)((units - 1) >> (log2 - 2)) - 4;
}

static inline size_t class_bytes(unsigned class)
{
    if (class < 8) {
        return (size_t)(class + 1) << GY_UNIT_SHIFT;
    }
    unsigned log2 = 3 + (class - 8) / 4;
    return (((size_t)1 << log2) + ((size_t)((class - 8) % 4 + 1) << (log2 - 2))) << GY_UNIT_SHIFT;
}
_Static_assert(GY_SMALL_MAX == 14336, "the largest of 19 classes");

/* The number of blocks that a magazine of the class holds: MAGAZINE_ROOM, or fewer, which come to 512 KiB. */
static const uint8_t room_of[CLASSES] = {128, 128, 128, 128, 128, 128, 128, 128, 128, 128,
                                         128, 128, 102, 85,  73,  64,  51,  42,  36};

/* The magazine for `bytes`.  It is emptied first if a purge was asked for. */
static inline struct magazine *magazine_for(struct gy_small *small, struct small_cache *cache, unsigned class)
{
    unsigned purges = atomic_load_explicit(&small->purges, memory_order_relaxed);
    if (__builtin_expect(cache->purges != purges, 0)) {
        cache->purges = purges;
        empty_magazines(cache, MALLOCX_TCACHE_NONE);
        mallctl("tcache.flush", NULL, NULL, &cache->tcache, sizeof(cache->tcache));
    }
    return &cache->magazines[class];
}

/* ---- life ---- */

static bool register_tier(struct gy_small *small)
{
    gy_mutex_lock(&caches_lock);
    bool ok = tiers > 0 || pthread_key_create(&thread_key, end_thread) == 0;
    if (ok) {
        tiers++;
        small->id = ++last_id;
    }
    gy_mutex_unlock(&caches_lock);
    return ok;
}

gantry_status gy_small_create(struct gy_granules *map, struct gy_usage *usage, struct gy_small **out)
{
    struct gy_small *small = gy_zalloc(sizeof(*small));
    if (small == NULL) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    small->hooks = (extent_hooks_t){.alloc = hook_alloc,
                                    .dalloc = hook_dalloc,
                                    .destroy = hook_destroy,
                                    .split = hook_split,
                                    .merge = hook_merge};
    small->usage = usage;
    gy_chunk_pool_init(&small->pool, map);
    gantry_status status = arena_create(small);
    if (status != GANTRY_OK) {
        goto free_small;
    }
    if (!register_tier(small)) {
        status = GANTRY_ERR_UNSUPPORTED;
        goto destroy_arena;
    }
    *out = small;
    return GANTRY_OK;
destroy_arena:
    arena_control(small->arena, "destroy", NULL, 0);
free_small:
    gy_chunk_pool_fini(&small->pool);
    gy_free(small);
    return status;
}

struct gy_chunk *gy_small_destroy(struct gy_small *small)
{
    gy_mutex_lock(&caches_lock);
    while (small->caches != NULL) {
        end_cache(small->caches);
    }
    if (--tiers == 0) {
        pthread_key_delete(thread_key);
    }
    gy_mutex_unlock(&caches_lock);
    arena_leave(small->arena);
    struct gy_chunk *chunks = NULL;
    struct gy_chunk *chunk;
    while ((chunk = gy_chunk_pool_remove(&small->pool, true)) != NULL) {
        chunk->next = chunks;
        chunks = chunk;
    }
    gy_chunk_pool_fini(&small->pool);
    gy_free(small);
    return chunks;
}

void gy_small_add_chunk(struct gy_small *small, struct gy_chunk *chunk)
{
    gy_chunk_pool_add(&small->pool, chunk);
}

void gy_small_purge(struct gy_small *small)
{
    atomic_fetch_add_explicit(&small->purges, 1, memory_order_relaxed);
    struct small_cache *cache = find_cache(small);
    if (cache != NULL) {
        (void)magazine_for(small, cache, 0);
    }
    arena_control(small->arena, "purge", NULL, 0);
}

struct gy_chunk *gy_small_remove_chunk(struct gy_small *small)
{
    return gy_chunk_pool_remove(&small->pool, false);
}

/* ---- blocks ---- */

enum gy_small_result gy_small_alloc(struct gy_small *small, size_t bytes, size_t alignment, uint32_t site,
                                    uintptr_t *out)
{
    struct small_cache *cache = find_cache(small);
    unsigned class = class_of(bytes);
    if (__builtin_expect(cache != NULL && alignment == GY_UNIT_BYTES, 1)) {
        struct magazine *magazine = magazine_for(small, cache, class);
        if (__builtin_expect(magazine->count > 0, 1)) {
            *out = magazine->blocks[--magazine->count];
            note(small, cache, site, (int64_t)bytes, 1);
            return GY_SMALL_OK;
        }
    }
    int flags =
        MALLOCX_ARENA(small->arena) | cache_flags(cache) | MALLOCX_LG_ALIGN(__builtin_ctzll(alignment));
    void *block = mallocx(class_bytes(class), flags);
    if (__builtin_expect(block == NULL, 0)) {
        bool wanted = chunk_wanted;
        chunk_wanted = false;
        return wanted ? GY_SMALL_WANTS_CHUNK : GY_SMALL_NO_MEMORY;
    }
    note(small, cache, site, (int64_t)bytes, 1);
    *out = (uintptr_t)block;
    return GY_SMALL_OK;
}

void gy_small_free(struct gy_small *small, uintptr_t address, size_t bytes, uint32_t site)
{
    struct small_cache *cache = find_cache(small);
    note(small, cache, site, -(int64_t)bytes, -1);
    if (__builtin_expect(cache != NULL, 1)) {
        unsigned class = class_of(bytes);
        struct magazine *magazine = magazine_for(small, cache, class);
        if (__builtin_expect(magazine->count < room_of[class], 1)) {
            magazine->blocks[magazine->count++] = address;
            return;
        }
    }
    dallocx((void *)address, cache_flags(cache));
}

size_t gy_small_capacity(uintptr_t address)
{
    size_t bytes = sallocx((void *)address, 0);
    /* Blocks go into whole classes only: where jemalloc's classes are others, the block must still fit into a
     * magazine later. */
    unsigned class = bytes < GY_SMALL_MAX ? class_of(bytes) : CLASSES - 1;
    return class_bytes(class) <= bytes ? class_bytes(class) : class > 0 ? class_bytes(class - 1) : 0;
}

void gy_small_resized(struct gy_small *small, uint32_t site, size_t before, size_t after)
{
    note(small, find_cache(small), site, (int64_t)after - (int64_t)before, 0);
}

void gy_small_reused(struct gy_small *small, uint32_t site, size_t bytes, uint32_t new_site, size_t new_bytes)
{
    struct small_cache *cache = find_cache(small);
    note(small, cache, site, -(int64_t)bytes, -1);
    note(small, cache, new_site, (int64_t)new_bytes, 1);
}

void gy_small_collect(struct gy_small *small, struct gy_sums *sums)
{
    gy_mutex_lock(&caches_lock);
    for (struct small_cache *cache = small->caches; cache != NULL; cache = cache->in_small.next) {
        gy_tally_collect(&cache->tally, sums);
    }
    gy_mutex_unlock(&caches_lock);
}

void gy_small_add_site(struct gy_small *small, uint32_t site, int64_t *bytes, int64_t *count) GY_NO_ANALYSIS
{
    for (struct small_cache *cache = small->caches; cache != NULL; cache = cache->in_small.next) {
        gy_tally_collect_site(&cache->tally, site, bytes, count);
    }
}

void gy_small_collect_site(struct gy_small *small, uint32_t site, int64_t *bytes, int64_t *count)
{
    gy_mutex_lock(&caches_lock);
    gy_small_add_site(small, site, bytes, count);
    gy_mutex_unlock(&caches_lock);
}

bool gy_small_hold_tallies(struct gy_small *small, bool wait) GY_NO_ANALYSIS
{
    (void)small;
    if (wait) {
        gy_mutex_lock(&caches_lock);
    }
    return wait || gy_mutex_try_lock(&caches_lock);
}

void gy_small_let_go_tallies(struct gy_small *small) GY_NO_ANALYSIS
{
    (void)small;
    gy_mutex_unlock(&caches_lock);
}

bool gy_small_allocated(struct gy_small *small, uint64_t *sum) GY_NO_ANALYSIS
{
    bool known = true;
    for (const struct small_cache *cache = small->caches; cache != NULL && known;
         cache = cache->in_small.next) {
        uint64_t bytes = 0;
        known = gy_tally_allocated(&cache->tally, &bytes);
        *sum += bytes;
    }
    return known;
}

uint64_t gy_small_freed(struct gy_small *small) GY_NO_ANALYSIS
{
    uint64_t bytes = 0;
    for (const struct small_cache *cache = small->caches; cache != NULL; cache = cache->in_small.next) {
        bytes += gy_tally_freed(&cache->tally);
    }
    return bytes;
}

void gy_small_each_block(struct gy_small *small, gy_visit_fn visit, void *user)
{
    gy_chunk_pool_each_block(&small->pool, visit, user);
}
