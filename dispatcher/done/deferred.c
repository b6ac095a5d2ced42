/* SPDX-License-Identifier: MIT */
#include "dispatcher/done/deferred.h"

#include "base/alloc.h"
#include "base/point.h"

#include <assert.h>
#include <string.h>

#define FIRST_ROOM 64u
#define BATCH 32
/* Blocks looked at, newest first, for one that fits. */
#define SCAN_LIMIT 8

gantry_status gy_deferred_init(struct gy_deferred *d, gantry_heap *heap, struct gy_streams *streams)
{
    memset(d, 0, sizeof(*d));
    d->heap = heap;
    d->streams = streams;
    return gy_guard_init(&d->lock, GY_RANK_WAIT_SETS, &d->freed);
}

bool gy_deferred_queue_is_valid(const struct gy_deferred_queue *queue)
{
    uint64_t head = atomic_load_explicit(&queue->head, memory_order_relaxed);
    uint64_t count = queue->tail - head;
    return count <= queue->room && (queue->room & (queue->room - 1)) == 0 &&
           (queue->room == 0) == (queue->blocks == NULL) &&
           (count < 2 ||
            queue->blocks[head % queue->room].seq <= queue->blocks[(queue->tail - 1) % queue->room].seq);
}

void gy_deferred_fini(struct gy_deferred *d)
{
    for (uint32_t i = 0; i < GY_STREAMS_MAX; i++) {
        (void)gy_deferred_collect(d, i, true);
        gy_free(d->queues[i].blocks);
    }
    gy_guard_fini(&d->lock, &d->freed);
}

/* ---- the dispatcher's thread ---- */

/* Double the room of a queue, or give it its first.  The dispatcher's thread alone adds to queues, so no
 * other thread needs the room meanwhile. */
static gantry_status make_room(struct gy_deferred *d, struct gy_deferred_queue *queue)
{
    uint64_t room = queue->room == 0 ? FIRST_ROOM : 2 * queue->room;
    struct gy_deferred_block *blocks = gy_zalloc_array(room, sizeof(*blocks));
    if (blocks == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "gantry_free_after: no memory for %llu blocks",
                       (unsigned long long)room);
    }
    gy_mutex_lock(&d->lock);
    for (uint64_t p = queue->head; p != queue->tail; p++) {
        blocks[p % room] = queue->blocks[p % queue->room];
    }
    struct gy_deferred_block *before = queue->blocks;
    queue->blocks = blocks;
    queue->room = room;
    assert(gy_deferred_queue_is_valid(queue));
    gy_mutex_unlock(&d->lock);
    gy_free(before);
    return GANTRY_OK;
}

gantry_status gy_deferred_add(struct gy_deferred *d, uint32_t stream, uint64_t seq, void *pointer)
{
    struct gy_deferred_queue *queue = &d->queues[stream];
    bool full = queue->tail - atomic_load_explicit(&queue->head, memory_order_relaxed) == queue->room;
    gantry_status status = full ? make_room(d, queue) : GANTRY_OK;
    struct gy_heap_claim claim;
    if (status == GANTRY_OK) {
        status = gy_heap_claim(d->heap, pointer, "gantry_free_after", &claim);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    gy_mutex_lock(&d->lock);
    queue->blocks[queue->tail++ % queue->room] = (struct gy_deferred_block){claim, seq};
    atomic_fetch_add_explicit(&d->pending, 1, memory_order_relaxed);
    assert(gy_deferred_queue_is_valid(queue));
    gy_mutex_unlock(&d->lock);
    atomic_store_explicit(&d->deferred, atomic_load_explicit(&d->deferred, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    return GANTRY_OK;
}

uint64_t gy_deferred_next(const struct gy_deferred *d, uint32_t stream)
{
    return d->queues[stream].tail; /* only the dispatcher's thread writes it */
}

bool gy_deferred_again(struct gy_deferred *d, uint32_t stream, struct gy_deferred_span *span,
                       const void *pointer)
{
    struct gy_deferred_queue *queue = &d->queues[stream];
    bool found = false;
    gy_mutex_lock(&d->lock);
    span->begin = span->begin < queue->head ? queue->head : span->begin; /* on a lost context all are freed */
    for (uint64_t p = span->begin; p < span->end && !found; p++) {
        struct gy_deferred_block *block = &queue->blocks[p % queue->room];
        struct gy_deferred_block *first = &queue->blocks[span->begin % queue->room];
        found =
            (const void *)block->claim.address == pointer; /* NOLINT: addresses of blocks are numbers there */
        if (found) {
            struct gy_deferred_block swapped = *first; /* all of them wait for the same timeline point */
            *first = *block;
            *block = swapped;
        }
    }
    span->begin += found;
    gy_mutex_unlock(&d->lock);
    return found;
}

/* `count` blocks in transit are the heap's again. */
static void count_freed(struct gy_deferred *d, unsigned count)
{
    gy_mutex_lock(&d->lock);
    assert(d->in_transit >= count && atomic_load(&d->pending) >= count);
    d->in_transit -= count;
    d->frees += count;
    atomic_fetch_sub_explicit(&d->pending, count, memory_order_release);
    gy_cond_broadcast(&d->freed);
    gy_mutex_unlock(&d->lock);
}

bool gy_deferred_take(struct gy_deferred *d, uint32_t stream, const struct gy_deferred_span *spared,
                      gantry_memory_kind kind, size_t bytes, size_t alignment, const gantry_alloc_site *site,
                      void **out)
{
    struct gy_deferred_queue *queue = &d->queues[stream];
    for (uint64_t back = 1; back <= SCAN_LIMIT; back++) {
        /* It is out of the queue while it is tried: the completion thread frees the blocks that are in it. */
        struct gy_heap_claim claim = {.address = 0};
        uint64_t position = 0;
        gy_mutex_lock(&d->lock);
        if (queue->tail - queue->head >= back) {
            position = queue->tail - back;
            claim = queue->blocks[position % queue->room].claim;
            if (claim.kind == kind && (position < spared->begin || position >= spared->end)) {
                queue->blocks[position % queue->room].claim.address = 0;
            } else {
                claim.address = 0;
            }
        }
        gy_mutex_unlock(&d->lock);
        if (claim.address == 0) {
            continue;
        }
        gy_point(GY_POINT_DEFERRED_TRY, d);
        bool reused = gy_heap_reuse(d->heap, &claim, kind, bytes, alignment, site);
        bool gone = false;
        gy_mutex_lock(&d->lock);
        if (reused) {
            atomic_fetch_sub_explicit(&d->pending, 1, memory_order_relaxed);
            gy_cond_broadcast(&d->freed); /* a thread that waits for it has to look again */
        } else if (position >= queue->head) {
            queue->blocks[position % queue->room].claim = claim;
        } else {
            gone = true; /* its turn came meanwhile */
            d->in_transit++;
        }
        assert(gy_deferred_queue_is_valid(queue));
        gy_mutex_unlock(&d->lock);
        if (gone) {
            gy_heap_free_claimed(d->heap, &claim);
            count_freed(d, 1);
        }
        if (reused) {
            atomic_store_explicit(&d->reused, atomic_load_explicit(&d->reused, memory_order_relaxed) + 1,
                                  memory_order_relaxed);
            *out = (void *)claim.address;
            return true;
        }
    }
    return false;
}

bool gy_deferred_watch(struct gy_deferred *d, uint32_t stream, uint64_t tail, bool *all_seen)
{
    struct gy_deferred_queue *queue = &d->queues[stream];
    gy_mutex_lock(&d->lock);
    assert(gy_deferred_queue_is_valid(queue));
    bool wanted = queue->head != queue->tail && queue->watched < tail &&
                  queue->blocks[(queue->tail - 1) % queue->room].seq > queue->watched;
    if (wanted) {
        queue->watched = tail;
    }
    if (queue->head != queue->tail && queue->blocks[(queue->tail - 1) % queue->room].seq > tail) {
        *all_seen = false;
    }
    gy_mutex_unlock(&d->lock);
    return wanted;
}

/* ---- any thread ---- */

/* Take up to BATCH blocks out of the queue that the stream has passed. */
static unsigned take_passed(struct gy_deferred *d, struct gy_deferred_queue *queue, uint64_t passed,
                            struct gy_heap_claim *claims) GY_REQUIRES(d->lock)
{
    (void)d; /* named for the analysis: its lock guards the queue */
    unsigned count = 0;
    while (count < BATCH && queue->head != queue->tail &&
           queue->blocks[queue->head % queue->room].seq <= passed) {
        claims[count] = queue->blocks[queue->head % queue->room].claim;
        queue->head++;
        if (claims[count].address != 0) {
            count++;
        }
    }
    return count;
}

bool gy_deferred_collect(struct gy_deferred *d, uint32_t stream, bool lost)
{
    struct gy_heap_claim claims[BATCH];
    struct gy_deferred_queue *queue = &d->queues[stream];
    bool any = false;
    for (unsigned count = BATCH; count == BATCH;) {
        uint64_t passed = UINT64_MAX;
        if (!lost) {
            passed = atomic_load_explicit(&d->streams->streams[stream].completed, memory_order_acquire);
        }
        gy_mutex_lock(&d->lock);
        uint64_t before = queue->head;
        count = take_passed(d, queue, passed, claims);
        bool moved = queue->head != before;
        d->in_transit += count;
        assert(gy_deferred_queue_is_valid(queue));
        gy_mutex_unlock(&d->lock);
        for (unsigned i = 0; i < count; i++) {
            gy_heap_free_claimed(d->heap, &claims[i]);
        }
        if (moved) {
            count_freed(d, count);
        }
        any = any || count != 0;
    }
    return any;
}

/* Does any block wait for a timeline point that the completion thread looks out for? */
static bool is_watched(struct gy_deferred *d) GY_REQUIRES(d->lock)
{
    for (uint32_t i = 0; i < d->streams->room; i++) {
        const struct gy_deferred_queue *queue = &d->queues[i];
        if (queue->head != queue->tail && queue->blocks[queue->head % queue->room].seq <= queue->watched) {
            return true;
        }
    }
    return false;
}

/* May a block come back that `wait` allows to wait for? */
static bool is_coming(struct gy_deferred *d, enum gy_deferred_wait wait) GY_REQUIRES(d->lock)
{
    if (wait == GY_DEFERRED_ALL) {
        return atomic_load_explicit(&d->pending, memory_order_relaxed) != 0;
    }
    return wait == GY_DEFERRED_WATCHED && (d->in_transit != 0 || is_watched(d));
}

bool gy_deferred_collect_or_wait(struct gy_deferred *d, enum gy_deferred_wait wait)
{
    gy_mutex_lock(&d->lock);
    uint64_t before = d->frees;
    gy_mutex_unlock(&d->lock);
    for (uint32_t i = 0; i < d->streams->room; i++) {
        (void)gy_deferred_collect(d, i, false);
    }
    gy_mutex_lock(&d->lock);
    while (d->frees == before && is_coming(d, wait)) {
        gy_cond_wait(&d->freed, &d->lock);
    }
    bool any = d->frees != before;
    gy_mutex_unlock(&d->lock);
    return any;
}
