/* SPDX-License-Identifier: MIT */
/* The parts of the page layer that can go back to the driver: units that lie free as a whole, and holes,
 * whose memory has already gone back. */
#include "heap/pages_inside.h"

/* The whole units inside of a free range: as many as it takes to reach `most` bytes, but not more. */
static size_t units_in(const struct gy_range *range, size_t most, uintptr_t *out_begin)
{
    const struct gy_slab *slab = range->slab;
    size_t unit = slab->backing.handles != NULL ? slab->backing.unit_bytes : GY_GRANULE_BYTES;
    size_t offset = range->base - slab->region.base;
    size_t begin = (offset + unit - 1) / unit * unit;
    size_t end = (offset + (range->pages << GY_PAGE_SHIFT)) / unit * unit;
    *out_begin = slab->region.base + begin;
    if (end <= begin) {
        return 0;
    }
    return end - begin < most ? end - begin : (most + unit - 1) / unit * unit;
}

/* Can the slab have such units? */
static bool may_have_units(const struct gy_slab *slab)
{
    size_t free_bytes = (slab->idle_pages << GY_PAGE_SHIFT) - slab->hole_bytes;
    return slab->backing.handles != NULL && !gy_slab_is_empty(slab) && free_bytes >= slab->backing.unit_bytes;
}

/* The whole units in all free ranges of a slab. */
static size_t whole_units_of(const struct gy_slab *slab)
{
    size_t bytes = 0;
    uintptr_t begin;
    for (const struct gy_range *range = slab->first; range != NULL; range = range->above) {
        bytes += gy_range_state(range) == GY_RANGE_FREE ? units_in(range, SIZE_MAX / 2, &begin) : 0;
    }
    return bytes;
}

size_t gy_pages_whole_units(struct gy_pages *pages)
{
    size_t bytes = 0;
    gy_mutex_lock(&pages->lock);
    for (struct gy_slab *slab = pages->slabs; slab != NULL; slab = slab->next) {
        bytes += may_have_units(slab) ? whole_units_of(slab) : 0;
    }
    gy_mutex_unlock(&pages->lock);
    return bytes;
}

size_t gy_pages_movable(struct gy_pages *pages)
{
    size_t bytes = 0;
    gy_mutex_lock(&pages->lock);
    for (struct gy_slab *slab = pages->slabs; slab != NULL; slab = slab->next) {
        bytes += gy_slab_is_empty(slab) ? slab->region.bytes - slab->hole_bytes : whole_units_of(slab);
    }
    gy_mutex_unlock(&pages->lock);
    return bytes;
}

/* Find the free range with the fewest whole units. */
static struct gy_range *find_units(struct gy_pages *pages) GY_REQUIRES(pages->lock)
{
    uintptr_t begin;
    struct gy_range *best = NULL;
    size_t least = SIZE_MAX;
    for (struct gy_slab *slab = pages->slabs; slab != NULL; slab = slab->next) {
        for (struct gy_range *range = may_have_units(slab) ? slab->first : NULL; range != NULL;
             range = range->above) {
            size_t bytes = gy_range_state(range) == GY_RANGE_FREE ? units_in(range, SIZE_MAX / 2, &begin) : 0;
            if (bytes != 0 && bytes < least) {
                best = range;
                least = bytes;
            }
        }
    }
    return best;
}

struct gy_slab *gy_pages_punch(struct gy_pages *pages, size_t most, size_t *out_offset, size_t *out_bytes)
{
    struct gy_slab *slab = NULL;
    gy_mutex_lock(&pages->lock);
    struct gy_range *range = gy_pages_ensure_room(pages) ? find_units(pages) : NULL;
    if (range != NULL) {
        slab = range->slab;
        uintptr_t begin;
        size_t bytes = units_in(range, most, &begin);
        gy_tlsf_remove(&pages->free, range);
        if (begin > range->base) {
            struct gy_range *upper = gy_pages_cut(pages, range, (begin - range->base) >> GY_PAGE_SHIFT);
            gy_tlsf_insert(&pages->free, range);
            range = upper;
        }
        if (range->pages > bytes >> GY_PAGE_SHIFT) {
            gy_tlsf_insert(&pages->free, gy_pages_cut(pages, range, bytes >> GY_PAGE_SHIFT));
        }
        gy_range_set_state(range, GY_RANGE_HOLE);
        slab->hole_bytes += bytes;
        assert(gy_range_is_valid(range) && range->pages << GY_PAGE_SHIFT == bytes);
        assert(gy_slab_is_valid(slab));
        assert(gy_pages_are_valid(pages));
        *out_offset = begin - slab->region.base;
        *out_bytes = bytes;
    }
    gy_mutex_unlock(&pages->lock);
    return slab;
}
