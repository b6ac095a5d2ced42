/* SPDX-License-Identifier: MIT */
#include "heap/waiting.h"

#include "heap/pages_inside.h"
#include "heap/park.h"

#include <assert.h>

/* Cut the needed part out of a range that waits for `waiter`; the rest keeps waiting. */
static struct gy_range *carve_waiting(struct gy_pages *pages, struct gy_page_waiter *waiter, size_t count,
                                      size_t alignment) GY_REQUIRES(pages->lock)
{
    struct gy_range *range = gy_tlsf_find_close(&waiter->free, count, alignment);
    if (range == NULL) {
        return NULL;
    }
    uint64_t order = range->order;
    gy_waiting_remove(pages, range);
    size_t gap = (size_t)(-range->base & (alignment - 1)) >> GY_PAGE_SHIFT;
    if (gap > 0) {
        struct gy_range *upper = gy_pages_cut(pages, range, gap);
        gy_waiting_insert(pages, waiter, range, order);
        range = upper;
    }
    if (range->pages > count) {
        gy_waiting_insert(pages, waiter, gy_pages_cut(pages, range, count), order);
    }
    assert(gy_range_is_valid(range) && range->pages == count && range->base % alignment == 0);
    return range;
}

struct gy_range *gy_waiting_alloc(struct gy_pages *pages, struct gy_page_waiter *waiter, size_t bytes,
                                  size_t alignment, uint32_t site)
{
    if (bytes > SIZE_MAX - (GY_PAGE_BYTES - 1)) {
        return NULL;
    }
    size_t count = (bytes + GY_PAGE_BYTES - 1) >> GY_PAGE_SHIFT;
    alignment = alignment > GY_PAGE_BYTES ? alignment : GY_PAGE_BYTES;
    const size_t rounded = waiter->is_graph ? count : gy_lap_pages(count);
    struct gy_range *range = carve_waiting(pages, waiter, rounded, alignment);
    if (range == NULL) {
        range = gy_pages_carve(pages, rounded, alignment);
    }
    if (range == NULL && rounded != count) { /* memory is short */
        range = carve_waiting(pages, waiter, count, alignment);
        range = range != NULL ? range : gy_pages_carve(pages, count, alignment);
    }
    if (range != NULL) {
        range->waiter = waiter->is_graph ? waiter : NULL;
        waiter->blocks += waiter->is_graph;
        gy_range_set_request(range, bytes, site);
        gy_pages_go_live(range, GY_RANGE_BLOCK);
    }
    return range;
}

static size_t settle_column(struct gy_pages *pages, struct gy_range *range, uint64_t order)
    GY_REQUIRES(pages->lock)
{
    size_t bytes = 0;
    while (range != NULL) {
        struct gy_range *next = range->next;
        if (range->order <= order) {
            bytes += range->pages << GY_PAGE_SHIFT;
            gy_waiting_remove(pages, range);
            range->waiter = NULL;
            gy_range_set_state(range, GY_RANGE_FREE);
            gy_pages_release_one(pages, range);
        }
        range = next;
    }
    return bytes;
}

size_t gy_waiting_settle(struct gy_pages *pages, struct gy_page_waiter *waiter, uint64_t order)
{
    size_t bytes = 0;
    for (uint64_t rows = waiter->free.rows; rows != 0; rows &= rows - 1) {
        unsigned row = (unsigned)__builtin_ctzll(rows);
        for (uint32_t columns = waiter->free.columns[row]; columns != 0; columns &= columns - 1) {
            bytes += settle_column(pages, waiter->free.heads[row][__builtin_ctz(columns)], order);
        }
    }
    return bytes;
}

uint64_t gy_waiting_oldest(const struct gy_pages *pages, const struct gy_page_waiter *waiter)
{
    uint64_t oldest = UINT64_MAX;
    (void)pages;
    for (uint64_t rows = waiter->free.rows; rows != 0; rows &= rows - 1) {
        unsigned row = (unsigned)__builtin_ctzll(rows);
        for (uint32_t columns = waiter->free.columns[row]; columns != 0; columns &= columns - 1) {
            const struct gy_range *range = waiter->free.heads[row][__builtin_ctz(columns)];
            for (; range != NULL; range = range->next) {
                oldest = range->order < oldest ? range->order : oldest;
            }
        }
    }
    return oldest;
}

static bool is_free(const struct gy_range *range)
{
    return range != NULL && gy_range_state(range) == GY_RANGE_FREE;
}

size_t gy_waiting_adopt(struct gy_pages *pages, struct gy_page_waiter *waiter)
{
    size_t before = pages->waiting_pages;
    for (struct gy_slab *slab = pages->slabs; slab != NULL && waiter->free.pages != 0; slab = slab->next) {
        for (struct gy_range *range = slab->first; range != NULL; range = range->above) {
            if (gy_range_state(range) == GY_RANGE_WAITING && range->waiter == waiter &&
                (is_free(range->above) || is_free(range->below))) {
                gy_waiting_remove(pages, range);
                range = gy_waiting_join(pages, range, waiter, range->order, true);
            }
        }
    }
    return (pages->waiting_pages - before) << GY_PAGE_SHIFT;
}
