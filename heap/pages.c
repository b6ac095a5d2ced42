/* SPDX-License-Identifier: MIT */
/* The page layer.
 *
 * A slab is a chain of ranges in address order that covers it without gaps.  A range is FREE (then it is in
 * the two-level index), live (then the slab's table `live` leads to it from its first page) or OWNED by a
 * thread, which took it out of that table.  No two neighbours are both FREE.  A bit per page says where
 * ranges start, so that an address inside a block finds its block.
 *
 * Range nodes come from a stack of spare ones.  An operation that needs more of them than there are gives
 * the lock up, allocates a batch, and starts again: nothing is allocated under the lock. */
#include "heap/pages.h"

#include "base/alloc.h"
#include "heap/pages_inside.h"
#include "heap/starts.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>

#define BATCH_RANGES 64
#define OPERATION_RANGES 2 /* the most nodes that one operation takes: a gap below and a rest above */

struct range_batch {
    struct range_batch *next;
    struct gy_range ranges[BATCH_RANGES];
};

/* ---- live ranges ---- */

/* Find the live range of that state at `base`; NULL: there is none, or `slab` is in no page layer. */
static struct gy_range *find_live(const struct gy_slab *slab, enum gy_range_state state, uintptr_t base)
{
    if (slab->first == NULL || base % GY_PAGE_BYTES != 0 || base - slab->region.base >= slab->region.bytes) {
        return NULL;
    }
    struct gy_range *range = atomic_load_explicit(gy_live_at(slab, base), memory_order_acquire);
    assert(range == NULL || (range->slab == slab && range->base == base));
    return range != NULL && gy_range_state(range) == state ? range : NULL;
}

/* ---- range nodes ---- */

static struct gy_range *pop_spare(struct gy_pages *pages) GY_REQUIRES(pages->lock)
{
    struct gy_range *range = pages->spare;
    assert(range != NULL && "make_room() was called");
    assert(gy_range_state(range) == GY_RANGE_SPARE && pages->spare_count != 0);
    pages->spare = range->next;
    pages->spare_count--;
    return range;
}

static void push_spare(struct gy_pages *pages, struct gy_range *range) GY_REQUIRES(pages->lock)
{
    *range = (struct gy_range){.state = GY_RANGE_SPARE, .next = pages->spare};
    pages->spare = range;
    pages->spare_count++;
}

static bool has_room(const struct gy_pages *pages) GY_REQUIRES(pages->lock)
{
    return pages->spare_count >= OPERATION_RANGES;
}

static void add_batch(struct gy_pages *pages, struct range_batch *batch) GY_REQUIRES(pages->lock)
{
    batch->next = pages->batch;
    pages->batch = batch;
    for (size_t i = 0; i < BATCH_RANGES; i++) {
        push_spare(pages, &batch->ranges[i]);
    }
    assert(has_room(pages) && gy_pages_are_valid(pages));
}

static struct range_batch *make_batch(void)
{
    struct range_batch *batch = gy_alloc_aligned(sizeof(*batch), 64);
    if (batch != NULL) {
        memset(batch, 0, sizeof(*batch));
    }
    return batch;
}

/* Make as many nodes as has_room() found missing.  The lock is not held, so other threads may use them up
 * again. */
static bool make_room(struct gy_pages *pages)
{
    struct range_batch *batch = make_batch();
    if (batch == NULL) {
        return false;
    }
    gy_mutex_lock(&pages->lock);
    add_batch(pages, batch);
    gy_mutex_unlock(&pages->lock);
    return true;
}

/* Make sure that one operation has enough nodes; the lock may be given up meanwhile.  False: out of host
 * memory. */
bool gy_pages_ensure_room(struct gy_pages *pages) GY_NO_ANALYSIS
{
    while (!has_room(pages)) {
        gy_mutex_unlock(&pages->lock);
        bool made = make_room(pages);
        gy_mutex_lock(&pages->lock);
        if (!made) {
            return false;
        }
    }
    return true;
}

bool gy_pages_init(struct gy_pages *pages)
{
    memset(pages, 0, sizeof(*pages));
    struct range_batch *batch = make_batch();
    if (batch == NULL) {
        return false;
    }
    gy_mutex_init(&pages->lock, GY_RANK_PAGES);
    gy_mutex_lock(&pages->lock);
    add_batch(pages, batch);
    gy_mutex_unlock(&pages->lock);
    return true;
}

void gy_pages_fini(struct gy_pages *pages)
{
    assert(pages->slabs == NULL);
    assert(gy_pages_are_valid(pages));
    for (struct range_batch *batch = pages->batch; batch != NULL;) {
        struct range_batch *next = batch->next;
        gy_free(batch);
        batch = next;
    }
    gy_mutex_fini(&pages->lock);
}

/* ---- slabs ---- */

/* Map zero pages, which cost nothing until they are used: a slab may have many pages and few blocks. */
static void *map_zero(size_t bytes)
{
    if (gy_fault_should_fail()) {
        return NULL;
    }
    void *mapped =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return mapped != MAP_FAILED ? mapped : NULL;
}

static size_t live_table_bytes(const struct gy_slab *slab)
{
    return (slab->region.bytes >> GY_PAGE_SHIFT) * sizeof(slab->live[0]);
}

bool gy_slab_init(struct gy_slab *slab, gantry_memory_kind kind, const struct gy_backing *backing)
{
    size_t words = ((backing->bytes >> GY_PAGE_SHIFT) + 63) / 64;
    uint64_t *starts = gy_zalloc_array(words, sizeof(*starts));
    uint64_t *summary = gy_zalloc_array((words + 63) / 64, sizeof(*summary));
    void *live = map_zero((backing->bytes >> GY_PAGE_SHIFT) * sizeof(slab->live[0]));
    if (starts == NULL || summary == NULL || live == NULL) {
        gy_free(starts);
        gy_free(summary);
        if (live != NULL) {
            munmap(live, (backing->bytes >> GY_PAGE_SHIFT) * sizeof(slab->live[0]));
        }
        return false;
    }
    *slab = (struct gy_slab){.region = {false, kind, backing->base, backing->bytes, slab},
                             .backing = *backing,
                             .starts = starts,
                             .starts_summary = summary,
                             .live = live};
    return true;
}

void gy_slab_fini(struct gy_slab *slab)
{
    munmap((void *)slab->live, live_table_bytes(slab));
    gy_free(slab->starts);
    gy_free(slab->starts_summary);
    slab->live = NULL;
    slab->starts = NULL;
    slab->starts_summary = NULL;
}

bool gy_slab_is_empty(const struct gy_slab *slab)
{
    return slab->idle_pages == slab->region.bytes >> GY_PAGE_SHIFT;
}

/* If `slab` is empty, begin or cease to count it as empty. */
static void change_empty(struct gy_pages *pages, const struct gy_slab *slab, bool counts)
    GY_REQUIRES(pages->lock)
{
    if (gy_slab_is_empty(slab)) {
        size_t bytes = slab->region.bytes - slab->hole_bytes;
        assert(counts || atomic_load_explicit(&pages->empty_bytes, memory_order_relaxed) >= bytes);
        bytes = counts ? bytes : (size_t)0 - bytes;
        bytes += atomic_load_explicit(&pages->empty_bytes, memory_order_relaxed);
        atomic_store_explicit(&pages->empty_bytes, bytes, memory_order_relaxed);
        if (bytes < atomic_load_explicit(&pages->least_empty, memory_order_relaxed)) {
            atomic_store_explicit(&pages->least_empty, bytes, memory_order_relaxed);
        }
    }
}

static void take_free(struct gy_pages *pages, struct gy_range *range) GY_REQUIRES(pages->lock)
{
    assert(gy_range_state(range) == GY_RANGE_FREE);
    gy_tlsf_remove(&pages->free, range);
    change_empty(pages, range->slab, false);
    range->slab->idle_pages -= range->pages;
}

bool gy_pages_add_slab(struct gy_pages *pages, struct gy_slab *slab)
{
    gy_mutex_lock(&pages->lock);
    if (!gy_pages_ensure_room(pages)) {
        gy_mutex_unlock(&pages->lock);
        return false;
    }
    struct gy_range *range = pop_spare(pages);
    *range = (struct gy_range){.state = GY_RANGE_FREE,
                               .slab = slab,
                               .base = slab->region.base,
                               .pages = slab->region.bytes >> GY_PAGE_SHIFT};
    gy_mark_start(slab, range->base);
    slab->first = range;
    slab->idle_pages = range->pages;
    slab->prev = NULL;
    slab->next = pages->slabs;
    if (slab->next != NULL) {
        slab->next->prev = slab;
    }
    pages->slabs = slab;
    gy_tlsf_insert(&pages->free, range);
    change_empty(pages, slab, true);
    assert(gy_range_is_joined(range));
    assert(gy_slab_is_valid(slab));
    assert(gy_pages_are_valid(pages));
    gy_mutex_unlock(&pages->lock);
    return true;
}

static void remove_range(struct gy_pages *pages, struct gy_range *range) GY_REQUIRES(pages->lock)
{
    if (gy_range_state(range) == GY_RANGE_FREE) {
        gy_tlsf_remove(&pages->free, range);
    } else if (gy_range_state(range) == GY_RANGE_WAITING) {
        gy_waiting_remove(pages, range);
    } else {
        atomic_store_explicit(gy_live_at(range->slab, range->base), NULL, memory_order_relaxed);
    }
    push_spare(pages, range);
}

static void unlink_slab(struct gy_pages *pages, struct gy_slab *slab) GY_REQUIRES(pages->lock)
{
    assert(gy_slab_is_valid(slab));
    change_empty(pages, slab, false);
    for (struct gy_range *range = slab->first; range != NULL;) {
        struct gy_range *above = range->above;
        assert(range->slab == slab && (above == NULL || above->base > range->base));
        remove_range(pages, range);
        range = above;
    }
    slab->first = NULL;
    *(slab->prev != NULL ? &slab->prev->next : &pages->slabs) = slab->next;
    if (slab->next != NULL) {
        slab->next->prev = slab->prev;
    }
    assert(gy_pages_are_valid(pages));
}

struct gy_slab *gy_pages_remove_slab(struct gy_pages *pages, bool even_used)
{
    gy_mutex_lock(&pages->lock);
    struct gy_slab *slab = pages->slabs;
    while (slab != NULL && !even_used && !gy_slab_is_empty(slab)) {
        slab = slab->next;
    }
    if (slab != NULL) {
        unlink_slab(pages, slab);
    }
    gy_mutex_unlock(&pages->lock);
    return slab;
}

struct gy_slab *gy_pages_remove_empty(struct gy_pages *pages, size_t most)
{
    gy_mutex_lock(&pages->lock);
    struct gy_slab *best = NULL;
    size_t best_bytes = 0;
    for (struct gy_slab *slab = pages->slabs; slab != NULL; slab = slab->next) {
        size_t bytes = slab->region.bytes - slab->hole_bytes;
        if (gy_slab_is_empty(slab) && bytes <= most && (best == NULL || bytes > best_bytes)) {
            best = slab;
            best_bytes = bytes;
        }
    }
    if (best != NULL) {
        unlink_slab(pages, best);
    }
    gy_mutex_unlock(&pages->lock);
    return best;
}

/* ---- allocation ---- */

static bool pages_of(size_t bytes, size_t *out)
{
    if (bytes > SIZE_MAX - (GY_PAGE_BYTES - 1)) {
        return false;
    }
    *out = (bytes + GY_PAGE_BYTES - 1) >> GY_PAGE_SHIFT;
    return true;
}

/* Cut `range`, which is in no index, after `pages` pages; the upper part is in no index either. */
struct gy_range *gy_pages_cut(struct gy_pages *pages, struct gy_range *range, size_t at)
{
    assert(gy_range_is_valid(range) && at > 0 && at < range->pages);
    struct gy_range *upper = pop_spare(pages);
    *upper = (struct gy_range){.state = GY_RANGE_FREE,
                               .slab = range->slab,
                               .below = range,
                               .above = range->above,
                               .base = range->base + (at << GY_PAGE_SHIFT),
                               .pages = range->pages - at};
    if (upper->above != NULL) {
        upper->above->below = upper;
    }
    range->above = upper;
    range->pages = at;
    gy_mark_start(range->slab, upper->base);
    assert(gy_range_is_valid(range));
    assert(gy_range_is_valid(upper));
    return upper;
}

/* Append the upper neighbour, which is in no index, to `range`. */
static void absorb_above(struct gy_pages *pages, struct gy_range *range) GY_REQUIRES(pages->lock)
{
    struct gy_range *upper = range->above;
    assert(gy_range_is_valid(range) && gy_range_is_valid(upper));
    gy_unmark_start(range->slab, upper->base);
    range->pages += upper->pages;
    range->above = upper->above;
    if (range->above != NULL) {
        range->above->below = range;
    }
    assert(gy_range_is_valid(range));
    push_spare(pages, upper);
}

struct gy_range *gy_pages_carve(struct gy_pages *pages, size_t count, size_t alignment)
{
    struct gy_range *range = gy_tlsf_find(&pages->free, count, alignment);
    if (range == NULL) {
        return NULL;
    }
    assert(gy_range_is_joined(range));
    assert(gy_slab_is_valid(range->slab));
    gy_tlsf_remove(&pages->free, range);
    change_empty(pages, range->slab, false);
    range->slab->idle_pages -= count;
    size_t gap = (size_t)(-range->base & (alignment - 1)) >> GY_PAGE_SHIFT;
    if (gap > 0) {
        struct gy_range *upper = gy_pages_cut(pages, range, gap);
        gy_tlsf_insert(&pages->free, range);
        range = upper;
    }
    if (range->pages > count) {
        gy_tlsf_insert(&pages->free, gy_pages_cut(pages, range, count));
    }
    assert(gy_range_is_valid(range) && range->pages == count && range->base % alignment == 0);
    assert(gy_slab_is_valid(range->slab));
    assert(gy_pages_are_valid(pages));
    return range;
}

enum gy_pages_result gy_pages_alloc(struct gy_pages *pages, enum gy_range_state state, size_t bytes,
                                    size_t alignment, uint32_t site, uintptr_t *out)
{
    size_t count;
    if (!pages_of(bytes, &count)) {
        return GY_PAGES_FULL;
    }
    gy_mutex_lock(&pages->lock);
    if (!gy_pages_ensure_room(pages)) {
        gy_mutex_unlock(&pages->lock);
        return GY_PAGES_NO_MEMORY;
    }
    struct gy_range *range =
        gy_pages_carve(pages, count, alignment > GY_PAGE_BYTES ? alignment : GY_PAGE_BYTES);
    if (range != NULL) {
        gy_range_set_request(range, bytes, site);
        gy_pages_go_live(range, state);
        *out = range->base;
    }
    gy_mutex_unlock(&pages->lock);
    return range != NULL ? GY_PAGES_OK : GY_PAGES_FULL;
}

/* ---- what waits ---- */

void gy_waiting_insert(struct gy_pages *pages, struct gy_page_waiter *waiter, struct gy_range *range,
                       uint64_t order)
{
    gy_range_set_state(range, GY_RANGE_WAITING);
    range->waiter = waiter;
    range->order = order;
    pages->waiting_pages += range->pages;
    gy_tlsf_insert(&waiter->free, range);
}

void gy_waiting_remove(struct gy_pages *pages, struct gy_range *range)
{
    assert(gy_range_state(range) == GY_RANGE_WAITING && pages->waiting_pages >= range->pages);
    gy_tlsf_remove(&range->waiter->free, range);
    pages->waiting_pages -= range->pages;
}

/* Take `other`, a neighbour, out of its index if it may be joined to ranges that wait for `waiter`. */
static bool take_neighbour(struct gy_pages *pages, struct gy_range *other, struct gy_page_waiter *waiter,
                           bool even_free, uint64_t *order) GY_REQUIRES(pages->lock)
{
    if (other == NULL) {
        return false;
    }
    if (gy_range_state(other) == GY_RANGE_WAITING && other->waiter == waiter) {
        gy_waiting_remove(pages, other);
        *order = other->order > *order ? other->order : *order;
        return true;
    }
    if (even_free && gy_range_state(other) == GY_RANGE_FREE) {
        take_free(pages, other);
        return true;
    }
    return false;
}

/* Let `range`, which is in no index, wait, together with those neighbours that may be joined to it.  Returns
 * the joined range. */
struct gy_range *gy_waiting_join(struct gy_pages *pages, struct gy_range *range,
                                 struct gy_page_waiter *waiter, uint64_t order, bool even_free)
    GY_REQUIRES(pages->lock)
{
    while (take_neighbour(pages, range->above, waiter, even_free, &order)) {
        absorb_above(pages, range);
    }
    while (take_neighbour(pages, range->below, waiter, even_free, &order)) {
        range = range->below;
        absorb_above(pages, range);
    }
    gy_waiting_insert(pages, waiter, range, order);
    assert(gy_range_is_joined(range));
    assert(gy_slab_is_valid(range->slab));
    assert(gy_pages_are_valid(pages));
    return range;
}

void gy_waiting_keep(struct gy_pages *pages, struct gy_range *range, struct gy_page_waiter *waiter,
                     uint64_t order)
{
    assert(gy_range_state(range) == GY_RANGE_OWNED || gy_range_state(range) == GY_RANGE_FREE);
    if (range->waiter != NULL) {
        assert(range->waiter == waiter && waiter->blocks != 0);
        waiter->blocks--;
    }
    (void)gy_waiting_join(pages, range, waiter, order, pages->lone == waiter);
}

/* ---- giving back ---- */

/* Put a range that is in no index among the FREE ones, joined with FREE neighbours. */
void gy_pages_release_one(struct gy_pages *pages, struct gy_range *range)
{
    assert(gy_range_is_valid(range));
    assert(gy_range_state(range) == GY_RANGE_OWNED || gy_range_state(range) == GY_RANGE_FREE);
    if (range->waiter != NULL && range->waiter->is_graph) {
        gy_waiting_keep(pages, range, range->waiter, 0);
        return;
    }
    if (range->waiter != NULL) { /* the graph is gone */
        range->waiter->blocks--;
        range->waiter = NULL;
    }
    gy_range_set_state(range, GY_RANGE_FREE);
    range->slab->idle_pages += range->pages;
    if (range->above != NULL && gy_range_state(range->above) == GY_RANGE_FREE) {
        gy_tlsf_remove(&pages->free, range->above);
        absorb_above(pages, range);
    }
    if (range->below != NULL && gy_range_state(range->below) == GY_RANGE_FREE) {
        range = range->below;
        gy_tlsf_remove(&pages->free, range);
        absorb_above(pages, range);
    }
    gy_tlsf_insert(&pages->free, range);
    change_empty(pages, range->slab, true);
    assert(gy_range_is_joined(range));
    assert(gy_slab_is_valid(range->slab));
    assert(gy_pages_are_valid(pages));
}

enum gy_pages_result gy_pages_free(struct gy_pages *pages, struct gy_slab *slab, enum gy_range_state state,
                                   uintptr_t base, struct gy_block_request *request)
{
    gy_mutex_lock(&pages->lock);
    struct gy_range *range = find_live(slab, state, base) != NULL ? gy_pages_claim(slab, state, base) : NULL;
    if (range != NULL) {
        *request = (struct gy_block_request){gy_range_requested(range), gy_range_site(range)};
        gy_pages_release_one(pages, range);
    }
    gy_mutex_unlock(&pages->lock);
    return range != NULL ? GY_PAGES_OK : GY_PAGES_NOT_FOUND;
}

void gy_pages_release(struct gy_pages *pages, struct gy_range *first)
{
    if (first == NULL) {
        return;
    }
    gy_mutex_lock(&pages->lock);
    while (first != NULL) {
        struct gy_range *next = first->next;
        gy_pages_release_one(pages, first);
        first = next;
    }
    gy_mutex_unlock(&pages->lock);
}

/* Move the border above `range` so that it has `count` pages; false when the neighbour is in the way. */
static bool move_border(struct gy_pages *pages, struct gy_range *range, size_t count) GY_REQUIRES(pages->lock)
{
    if (count <= range->pages) {
        if (count < range->pages) {
            struct gy_range *upper = gy_pages_cut(pages, range, count);
            upper->waiter = range->waiter;
            if (upper->waiter != NULL) { /* it counts for its waiter until it is released */
                upper->waiter->blocks++;
            }
            gy_pages_release_one(pages, upper);
        }
        return true;
    }
    struct gy_range *above = range->above;
    if (above == NULL || gy_range_state(above) != GY_RANGE_FREE || above->pages < count - range->pages) {
        return false;
    }
    gy_tlsf_remove(&pages->free, above);
    range->slab->idle_pages -= count - range->pages;
    absorb_above(pages, range);
    if (range->pages > count) {
        gy_tlsf_insert(&pages->free, gy_pages_cut(pages, range, count));
    }
    assert(gy_range_is_valid(range) && range->pages == count);
    assert(gy_slab_is_valid(range->slab));
    return true;
}

enum gy_pages_result gy_pages_resize(struct gy_pages *pages, struct gy_slab *slab, uintptr_t base,
                                     size_t bytes, struct gy_block_request *before)
{
    size_t count;
    gy_mutex_lock(&pages->lock);
    if (!gy_pages_ensure_room(pages)) {
        gy_mutex_unlock(&pages->lock);
        return GY_PAGES_NO_MEMORY;
    }
    enum gy_pages_result result = GY_PAGES_OK;
    struct gy_range *range = find_live(slab, GY_RANGE_BLOCK, base);
    if (range == NULL) {
        result = GY_PAGES_NOT_FOUND;
    } else if (!pages_of(bytes, &count) || !move_border(pages, range, count)) {
        result = GY_PAGES_FULL;
    } else {
        *before = (struct gy_block_request){gy_range_requested(range), gy_range_site(range)};
        assert(bytes <= range->pages << GY_PAGE_SHIFT);
        gy_range_set_request(range, bytes, before->site);
    }
    gy_mutex_unlock(&pages->lock);
    return result;
}

/* ---- questions ---- */

/* Find the live BLOCK whose pages contain `address`. */
static const struct gy_range *block_at(struct gy_pages *pages, const struct gy_slab *slab, uintptr_t address)
    GY_REQUIRES(pages->lock)
{
    (void)pages;
    if (slab->first == NULL || address - slab->region.base >= slab->region.bytes) {
        return NULL;
    }
    size_t start = gy_start_at_or_below(slab, gy_page_in_slab(slab, address));
    return find_live(slab, GY_RANGE_BLOCK, slab->region.base + (start << GY_PAGE_SHIFT));
}

bool gy_pages_contain(struct gy_pages *pages, struct gy_slab *slab, uintptr_t address)
{
    gy_mutex_lock(&pages->lock);
    const struct gy_range *range = block_at(pages, slab, address);
    bool inside = range != NULL && address - range->base < gy_range_requested(range);
    gy_mutex_unlock(&pages->lock);
    return inside;
}

static struct gy_visited visited(const struct gy_range *range)
{
    return (struct gy_visited){range->base, gy_range_requested(range), gy_range_site(range)};
}

bool gy_pages_block_at(struct gy_pages *pages, struct gy_slab *slab, uintptr_t address,
                       struct gy_visited *out)
{
    gy_mutex_lock(&pages->lock);
    const struct gy_range *range = block_at(pages, slab, address);
    if (range != NULL) {
        *out = visited(range);
    }
    gy_mutex_unlock(&pages->lock);
    return range != NULL;
}

struct gy_pages_stats gy_pages_stats(struct gy_pages *pages)
{
    gy_mutex_lock(&pages->lock);
    struct gy_pages_stats stats = {gy_tlsf_largest(&pages->free) << GY_PAGE_SHIFT,
                                   pages->free.pages << GY_PAGE_SHIFT,
                                   atomic_load_explicit(&pages->empty_bytes, memory_order_relaxed)};
    gy_mutex_unlock(&pages->lock);
    return stats;
}

void gy_pages_each_range(struct gy_pages *pages,
                         void (*visit)(void *user, const struct gy_slab *slab, const struct gy_range *range),
                         void *user)
{
    gy_mutex_lock(&pages->lock);
    for (struct gy_slab *slab = pages->slabs; slab != NULL; slab = slab->next) {
        for (struct gy_range *range = slab->first; range != NULL; range = range->above) {
            visit(user, slab, range);
        }
    }
    gy_mutex_unlock(&pages->lock);
}

void gy_pages_each_block(struct gy_pages *pages, gy_visit_fn visit, void *user)
{
    gy_mutex_lock(&pages->lock);
    for (struct gy_slab *slab = pages->slabs; slab != NULL; slab = slab->next) {
        for (struct gy_range *range = slab->first; range != NULL; range = range->above) {
            if (gy_range_state(range) == GY_RANGE_BLOCK) {
                struct gy_visited block = visited(range);
                visit(user, &block);
            }
        }
    }
    gy_mutex_unlock(&pages->lock);
}
