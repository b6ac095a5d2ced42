/* SPDX-License-Identifier: MIT */
/* The planner: pure functions on lists of descriptors and items.
 *
 *   check      finds what is wrong with a descriptor, whatever its addresses mean
 *   overlaps   sorts the dests, then looks each source up among them
 *   prefix     says, for queues, how far the list can be done at the same time
 *   merge      makes one of neighbours that continue each other
 *
 * divide.c makes units of the result. */
#include "copykernel/plan.h"

#include "base/status.h"

#include <string.h>

/* ---- checks -------------------------------------------------------------------------------------- */

static gantry_status check_range(size_t index, const char *field, const void *address, uint64_t bytes)
{
    uint64_t first = (uintptr_t)address;
    if (address == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "copy descriptor %zu: %s is NULL", index, field);
    }
    if (first >> GY_COPY_ADDRESS_BITS != 0 || bytes > ((uint64_t)1 << GY_COPY_ADDRESS_BITS) - first) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "copy descriptor %zu: %s %p with %llu bytes leaves the address space", index, field,
                       address, (unsigned long long)bytes);
    }
    return GANTRY_OK;
}

static gantry_status check_fill(size_t index, const gantry_copy_desc *desc)
{
    uint32_t size = desc->pattern_bytes;
    if (size != 1 && size != 2 && size != 4 && size != 8 && size != 16) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "copy descriptor %zu: pattern_bytes is %u, not 1, 2, 4, 8 or 16", index, size);
    }
    if (size > 4 && desc->source == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "copy descriptor %zu: source is NULL, where a pattern of %u bytes is read from", index,
                       size);
    }
    return GANTRY_OK;
}

gantry_status gy_copy_check_one(size_t index, const gantry_copy_desc *desc)
{
    if ((uint32_t)desc->type > (uint32_t)GANTRY_COPY_FILL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "copy descriptor %zu: type %u is unknown", index,
                       (unsigned)desc->type);
    }
    if (desc->type == GANTRY_COPY_FILL) {
        gantry_status status = check_fill(index, desc);
        if (status != GANTRY_OK) {
            return status;
        }
    }
    if (desc->bytes == 0) {
        return GANTRY_OK;
    }
    gantry_status status = check_range(index, "dest", desc->dest, desc->bytes);
    if (status == GANTRY_OK && desc->type != GANTRY_COPY_FILL) {
        status = check_range(index, "source", desc->source, desc->bytes);
    }
    return status;
}

gantry_status gy_copy_check(const gantry_copy_desc *descs, size_t count)
{
    if (count > UINT32_MAX) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%zu copy descriptors are too many", count);
    }
    for (size_t i = 0; i < count; i++) {
        gantry_status status = gy_copy_check_one(i, &descs[i]);
        if (status != GANTRY_OK) {
            return status;
        }
    }
    return GANTRY_OK;
}

void gy_copy_pattern(const gantry_copy_desc *desc, uint64_t dest, uint64_t *low, uint64_t *high)
{
    uint8_t given[16], aligned[16];
    uint32_t size = desc->pattern_bytes;
    memcpy(given, size > 4 ? desc->source : &desc->pattern, size);
    for (uint32_t i = 0; i < 16; i++) {
        aligned[(dest + i) % 16] = given[i % size];
    }
    memcpy(low, aligned, 8);
    memcpy(high, aligned + 8, 8);
}

/* ---- overlaps ------------------------------------------------------------------------------------ */

/* Sort by begin: this merges runs of doubling length, back and forth between the two arrays, and stops at
 * once when the ranges are in order already, which is the common case.  Returns the array that holds the
 * result. */
static struct gy_copy_range *sort_ranges(struct gy_copy_range *from, struct gy_copy_range *to, size_t count)
{
    size_t in_order = 1;
    while (in_order < count && from[in_order - 1].begin <= from[in_order].begin) {
        in_order++;
    }
    if (in_order >= count) {
        return from;
    }
    for (size_t run = 1; run < count; run *= 2) {
        for (size_t at = 0; at < count; at += 2 * run) {
            size_t middle = at + run < count ? at + run : count;
            size_t end = at + 2 * run < count ? at + 2 * run : count;
            size_t left = at, right = middle;
            for (size_t k = at; k < end; k++) {
                bool take_left = left < middle && (right == end || from[left].begin <= from[right].begin);
                to[k] = take_left ? from[left++] : from[right++];
            }
        }
        struct gy_copy_range *other = from;
        from = to;
        to = other;
    }
    return from;
}

/* Find any of the sorted, disjoint ranges that touches [begin, end); NULL: none does. */
static const struct gy_copy_range *find_touching(const struct gy_copy_range *ranges, size_t count,
                                                 uint64_t begin, uint64_t end)
{
    size_t low = 0, high = count; /* the first range that ends after `begin` */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle].end <= begin) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && ranges[low].begin < end ? &ranges[low] : NULL;
}

/* Two items that must not be done at the same time. */
struct overlap {
    uint32_t index; /* the descriptor whose dest, or source, ... */
    bool is_source;
    uint32_t dest_of; /* ... touches the dest of this one */
};

/* True, and one overlap, when there is one. */
static bool find_overlap(const struct gy_copy_item *items, size_t count, struct gy_copy_range *scratch,
                         struct overlap *out)
{
    if (count == 0) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        scratch[i] = (struct gy_copy_range){items[i].dest, items[i].dest + items[i].bytes, items[i].index};
    }
    const struct gy_copy_range *dests = sort_ranges(scratch, scratch + count, count);
    for (size_t i = 1; i < count; i++) {
        if (dests[i].begin < dests[i - 1].end) {
            uint32_t a = dests[i - 1].index, b = dests[i].index;
            *out = (struct overlap){a < b ? a : b, false, a < b ? b : a};
            return true;
        }
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t begin = items[i].source, end = items[i].source + items[i].bytes;
        if (items[i].is_fill || end <= dests[0].begin || begin >= dests[count - 1].end) {
            continue;
        }
        const struct gy_copy_range *dest = find_touching(dests, count, begin, end);
        if (dest != NULL) {
            *out = (struct overlap){items[i].index, true, dest->index};
            return true;
        }
    }
    return false;
}

gantry_status gy_copy_refuse_overlap(uint32_t index, bool is_source, uint32_t dest_of)
{
    if (is_source) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "copy descriptor %u: source overlaps dest of descriptor %u", index, dest_of);
    }
    return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "copy descriptors %u and %u: their dest ranges overlap",
                   index, dest_of);
}

gantry_status gy_copy_check_overlap(const struct gy_copy_item *items, size_t count,
                                    struct gy_copy_range *scratch)
{
    struct overlap found;
    return find_overlap(items, count, scratch, &found)
               ? gy_copy_refuse_overlap(found.index, found.is_source, found.dest_of)
               : GANTRY_OK;
}

/* The usual list has no overlap at all.  Otherwise the prefix is found by doubling and halving.  This costs
 * little more than looking at the prefix itself, so that a list of many conflicts does not take too long. */
size_t gy_copy_free_prefix(const struct gy_copy_item *items, size_t count, struct gy_copy_range *scratch)
{
    struct overlap found;
    if (!find_overlap(items, count, scratch, &found)) {
        return count;
    }
    size_t good = 1, bad = 2;
    while (bad < count && !find_overlap(items, bad, scratch, &found)) {
        good = bad;
        bad *= 2;
    }
    bad = bad < count ? bad : count;
    while (bad - good > 1) {
        size_t middle = good + (bad - good) / 2;
        if (find_overlap(items, middle, scratch, &found)) {
            bad = middle;
        } else {
            good = middle;
        }
    }
    return good;
}

/* ---- neighbours ---------------------------------------------------------------------------------- */

static bool continues(const struct gy_copy_item *first, const struct gy_copy_item *next)
{
    if (!next->joins || first->is_fill != next->is_fill || first->dest + first->bytes != next->dest) {
        return false;
    }
    if (first->is_fill) {
        return first->source == next->source && first->high == next->high;
    }
    return first->source + first->bytes == next->source;
}

size_t gy_copy_merge(struct gy_copy_item *items, size_t count)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (used > 0 && continues(&items[used - 1], &items[i])) {
            items[used - 1].bytes += items[i].bytes;
        } else {
            items[used++] = items[i];
        }
    }
    return used;
}
