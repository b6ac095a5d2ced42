/* SPDX-License-Identifier: MIT */
#include "heap/chunk.h"

#include <assert.h>
#include <string.h>

/* The number of chunks to look at per class when their longest run may be too short; it bounds take(). */
#define SCAN_LIMIT 8

uint32_t gy_chunk_peek(struct gy_chunk *chunk, uintptr_t address)
{
    if (address % GY_UNIT_BYTES != 0) {
        return 0;
    }
    return atomic_load_explicit(&chunk->records[(address - chunk->region.base) >> GY_UNIT_SHIFT],
                                memory_order_acquire);
}

bool gy_chunk_block_at(struct gy_chunk *chunk, uintptr_t address, struct gy_visited *out)
{
    size_t unit = (address - chunk->region.base) >> GY_UNIT_SHIFT;
    size_t last = unit >= GY_SMALL_MAX / GY_UNIT_BYTES ? unit - GY_SMALL_MAX / GY_UNIT_BYTES : 0;
    for (size_t start = unit + 1; start-- > last;) {
        uint32_t record = atomic_load_explicit(&chunk->records[start], memory_order_acquire);
        if (record != 0) {
            assert(gy_record_size(record) != 0 && gy_record_size(record) <= GY_SMALL_MAX);
            *out = (struct gy_visited){chunk->region.base + (start << GY_UNIT_SHIFT), gy_record_size(record),
                                       gy_record_site(record)};
            return true;
        }
    }
    return false;
}

bool gy_chunk_contain(struct gy_chunk *chunk, uintptr_t address)
{
    struct gy_visited block;
    return gy_chunk_block_at(chunk, address, &block) && address - block.base < block.bytes;
}

/* ---- runs of pages in a chunk ---- */

/* The first page at or above `from` whose bit is `value`; GY_CHUNK_PAGES when there is none. */
static unsigned next_page(const struct gy_chunk *chunk, unsigned from, bool value)
{
    while (from < GY_CHUNK_PAGES) {
        uint64_t word = value ? chunk->used[from / 64] : ~chunk->used[from / 64];
        word &= ~(uint64_t)0 << (from % 64);
        if (word != 0) {
            return from / 64 * 64 + (unsigned)__builtin_ctzll(word);
        }
        from = (from / 64 + 1) * 64;
    }
    return GY_CHUNK_PAGES;
}

static unsigned longest_run(const struct gy_chunk *chunk)
{
    unsigned longest = 0;
    unsigned begin = next_page(chunk, 0, false);
    while (begin < GY_CHUNK_PAGES) {
        unsigned end = next_page(chunk, begin, true);
        longest = end - begin > longest ? end - begin : longest;
        begin = next_page(chunk, end, false);
    }
    return longest;
}

bool gy_chunk_is_valid(const struct gy_chunk *chunk)
{
    const struct gy_heap_region *region = &chunk->region;
    const bool is_linked = (chunk->prev == NULL || chunk->prev->next == chunk) &&
                           (chunk->next == NULL || chunk->next->prev == chunk);
    return is_linked && gy_heap_region_is_valid(region) && region->is_chunk &&
           chunk->longest == longest_run(chunk);
}

/* The first free run of `pages` at a multiple of `step` pages; GY_CHUNK_PAGES when there is none. */
static unsigned find_run(const struct gy_chunk *chunk, unsigned pages, unsigned step)
{
    unsigned begin = next_page(chunk, 0, false);
    while (begin < GY_CHUNK_PAGES) {
        unsigned end = next_page(chunk, begin, true);
        unsigned aligned = (begin + step - 1) / step * step;
        if (aligned + pages <= end) {
            return aligned;
        }
        begin = next_page(chunk, end, false);
    }
    return GY_CHUNK_PAGES;
}

/* Give out pages that are free, or take back pages that are used. */
static void flip_pages(struct gy_chunk *chunk, unsigned first, unsigned pages)
{
    for (unsigned page = first; page < first + pages; page++) {
        chunk->used[page / 64] ^= (uint64_t)1 << (page % 64);
    }
}

/* ---- pool ---- */

void gy_chunk_pool_init(struct gy_chunk_pool *pool, struct gy_granules *map)
{
    memset(pool, 0, sizeof(*pool));
    pool->map = map;
    gy_mutex_init(&pool->lock, GY_RANK_PAGES);
}

void gy_chunk_pool_fini(struct gy_chunk_pool *pool)
{
    gy_mutex_fini(&pool->lock);
}

/* The class of a chunk by its longest run: 0 when it is full, else floor(log2(run)) + 1. */
static unsigned class_of(unsigned run)
{
    return run == 0 ? 0 : 32u - (unsigned)__builtin_clz(run);
}

static void link_chunk(struct gy_chunk_pool *pool, struct gy_chunk *chunk) GY_REQUIRES(pool->lock)
{
    struct gy_chunk **head = &pool->by_run[class_of(chunk->longest)];
    assert(*head == NULL || (*head)->prev == NULL);
    chunk->prev = NULL;
    chunk->next = *head;
    if (chunk->next != NULL) {
        chunk->next->prev = chunk;
    }
    *head = chunk;
    assert(gy_chunk_is_valid(chunk));
}

static void unlink_chunk(struct gy_chunk_pool *pool, struct gy_chunk *chunk) GY_REQUIRES(pool->lock)
{
    assert(chunk->prev != NULL || pool->by_run[class_of(chunk->longest)] == chunk);
    *(chunk->prev != NULL ? &chunk->prev->next : &pool->by_run[class_of(chunk->longest)]) = chunk->next;
    if (chunk->next != NULL) {
        chunk->next->prev = chunk->prev;
    }
}

/* Give out `pages` of `chunk` or take them back, and move the chunk to the list where it now belongs. */
static void change_pages(struct gy_chunk_pool *pool, struct gy_chunk *chunk, unsigned first, unsigned pages,
                         bool used) GY_REQUIRES(pool->lock)
{
    assert(next_page(chunk, first, used) >= first + pages && "a page changes hands once");
    assert(gy_chunk_is_valid(chunk));
    flip_pages(chunk, first, pages);
    assert(next_page(chunk, first, !used) >= first + pages && "and has changed hands then");
    (void)used;
    unsigned longest = longest_run(chunk);
    if (class_of(longest) == class_of(chunk->longest)) {
        chunk->longest = longest;
        assert(gy_chunk_is_valid(chunk));
        return;
    }
    unlink_chunk(pool, chunk);
    chunk->longest = longest;
    link_chunk(pool, chunk);
}

void gy_chunk_pool_add(struct gy_chunk_pool *pool, struct gy_chunk *chunk)
{
    gy_mutex_lock(&pool->lock);
    chunk->longest = GY_CHUNK_PAGES;
    link_chunk(pool, chunk);
    gy_mutex_unlock(&pool->lock);
}

struct gy_chunk *gy_chunk_pool_remove(struct gy_chunk_pool *pool, bool even_used)
{
    gy_mutex_lock(&pool->lock);
    struct gy_chunk *chunk = pool->by_run[GY_CHUNK_RUN_CLASSES];
    for (unsigned i = GY_CHUNK_RUN_CLASSES; even_used && chunk == NULL && i-- > 0;) {
        chunk = pool->by_run[i];
    }
    if (chunk != NULL) {
        assert(gy_chunk_is_valid(chunk) && (even_used || chunk->longest == GY_CHUNK_PAGES));
        unlink_chunk(pool, chunk);
    }
    gy_mutex_unlock(&pool->lock);
    return chunk;
}

uintptr_t gy_chunk_pool_take(struct gy_chunk_pool *pool, size_t bytes, size_t alignment)
{
    if (bytes > GY_GRANULE_BYTES || alignment > GY_GRANULE_BYTES) {
        return 0;
    }
    unsigned pages = (unsigned)((bytes + GY_PAGE_BYTES - 1) >> GY_PAGE_SHIFT);
    unsigned step = alignment > GY_PAGE_BYTES ? (unsigned)(alignment >> GY_PAGE_SHIFT) : 1;
    uintptr_t found = 0;
    gy_mutex_lock(&pool->lock);
    for (unsigned i = class_of(pages); i <= GY_CHUNK_RUN_CLASSES && found == 0; i++) {
        struct gy_chunk *chunk = pool->by_run[i];
        for (unsigned looked = 0; chunk != NULL && looked < SCAN_LIMIT; chunk = chunk->next, looked++) {
            unsigned first = chunk->longest >= pages ? find_run(chunk, pages, step) : GY_CHUNK_PAGES;
            if (first < GY_CHUNK_PAGES) {
                found = chunk->region.base + ((uintptr_t)first << GY_PAGE_SHIFT);
                assert(first % step == 0 && first + pages <= GY_CHUNK_PAGES);
                change_pages(pool, chunk, first, pages, true);
                break;
            }
        }
    }
    gy_mutex_unlock(&pool->lock);
    return found;
}

void gy_chunk_pool_return(struct gy_chunk_pool *pool, uintptr_t base, size_t bytes)
{
    struct gy_heap_region *region = gy_granules_find(pool->map, base);
    assert(region != NULL && region->is_chunk && base - region->base + bytes <= region->bytes);
    struct gy_chunk *chunk = (struct gy_chunk *)(void *)region;
    gy_mutex_lock(&pool->lock);
    change_pages(pool, chunk, (unsigned)((base - region->base) >> GY_PAGE_SHIFT),
                 (unsigned)(bytes >> GY_PAGE_SHIFT), false);
    gy_mutex_unlock(&pool->lock);
}

static void visit_chunk(struct gy_chunk *chunk, gy_visit_fn visit, void *user)
{
    for (size_t unit = 0; unit < GY_CHUNK_UNITS; unit++) {
        uint32_t record = atomic_load_explicit(&chunk->records[unit], memory_order_acquire);
        if (record != 0) {
            struct gy_visited block = {chunk->region.base + (unit << GY_UNIT_SHIFT), gy_record_size(record),
                                       gy_record_site(record)};
            visit(user, &block);
        }
    }
}

void gy_chunk_pool_each_block(struct gy_chunk_pool *pool, gy_visit_fn visit, void *user)
{
    gy_mutex_lock(&pool->lock);
    for (unsigned i = 0; i <= GY_CHUNK_RUN_CLASSES; i++) {
        for (struct gy_chunk *chunk = pool->by_run[i]; chunk != NULL; chunk = chunk->next) {
            assert(class_of(chunk->longest) == i);
            visit_chunk(chunk, visit, user);
        }
    }
    gy_mutex_unlock(&pool->lock);
}
