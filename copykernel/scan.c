/* SPDX-License-Identifier: MIT */
/* The short way of large batches.
 *
 * One pass looks at each descriptor once.  It checks its type, that both ranges lie in the memory of the
 * descriptor before (else that memory is looked up), and that its dest begins where the one before has ended,
 * or later.  Blocks of descriptors are summed up first, without a branch: extents and bits say whether all of
 * a block is as it should be.  Only blocks of which that is not known are looked at one by one.  So dests in
 * order are seen to be apart.  Dests in any other order are entered into a map of bits, one for each place of
 * the smallest copy's size: a bit that is already set may mean an overlap.  All sources must lie before or
 * behind all dests, or are looked up in that map, too. */
#include "copykernel/scan.h"

#include "base/alloc.h"
#include "base/hints.h"
#include "copykernel/address.h"

#include <string.h>

enum { PLACES_PER_COPY = 8, MOST_PLACES_BYTES = 1 << 24, BLOCK = 256 };

/* The state while a batch is looked at. */
struct scan {
    struct gy_context *context;
    gantry_heap *heap;
    struct gy_copy_memory dest, source; /* the memory of the last ranges */
    uint64_t dest_end, source_end;      /* the ends of the last descriptor's ranges */
    uint64_t first_dest, last_dest;     /* of all descriptors */
    uint64_t first_source, last_source; /* of all descriptors */
    bool in_order;
};

/* Find out whether the range lies in memory that the device sees at the same address. */
static GY_COLD bool look_up(struct scan *s, const void *address, uint64_t bytes, bool must_be_host,
                            struct gy_copy_memory *memory)
{
    return gy_copy_find_memory(s->context, s->heap, address, bytes, memory) && memory->shift == 0 &&
           memory->is_host == must_be_host &&
           (uintptr_t)address - memory->begin < memory->end - memory->begin &&
           bytes <= memory->end - (uintptr_t)address;
}

static inline bool is_inside(const struct gy_copy_memory *memory, uint64_t at, uint64_t bytes)
{
    const uint64_t offset = at - memory->begin, size = memory->end - memory->begin;
    return offset < size && bytes <= size - offset;
}

static inline uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t greater(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Addresses between two places. */
struct extent {
    uint64_t first, last;
};

/* What a quick look adds up over a block of descriptors. */
struct sums {
    uint64_t bytes, smallest, largest; /* largest: less 1, so that 0 bytes are too many */
    uint64_t addresses, types;         /* bits of any address; bits in which a type is another one */
    struct extent sources;
    bool in_order, continues;
};

/* Add up `count` descriptors, behind ranges that end at the two ends. */
static inline struct sums add_up(const gantry_copy_desc *descs, size_t count, gantry_copy_type type,
                                 uint64_t dest_end, uint64_t source_end)
{
    struct sums sums = {.smallest = UINT64_MAX, .sources = {UINT64_MAX, 0}, .in_order = true};
    for (size_t i = 0; i < count; i++) {
        const uint64_t dest = (uintptr_t)descs[i].dest, source = (uintptr_t)descs[i].source;
        const uint64_t bytes = descs[i].bytes;
        sums.types |= (uint32_t)descs[i].type ^ (uint32_t)type;
        sums.addresses |= dest | source;
        sums.in_order &= dest >= dest_end;
        sums.continues |= ((dest ^ dest_end) | (source ^ source_end)) == 0;
        dest_end = dest + bytes;
        source_end = source + bytes;
        sums.bytes += bytes;
        sums.smallest = lesser(sums.smallest, bytes);
        sums.largest = greater(sums.largest, bytes - 1);
        sums.sources.first = lesser(sums.sources.first, source);
        sums.sources.last = greater(sums.sources.last, source_end);
    }
    return sums;
}

static struct extent extent_of_dests(const gantry_copy_desc *descs, size_t count)
{
    struct extent dests = {UINT64_MAX, 0};
    for (size_t i = 0; i < count; i++) {
        dests.first = lesser(dests.first, (uintptr_t)descs[i].dest);
        dests.last = greater(dests.last, (uintptr_t)descs[i].dest + descs[i].bytes);
    }
    return dests;
}

/* A block of a usual batch in memory that is known: few operations for each descriptor.  Addresses are small
 * enough not to wrap, so that extents say where all ranges are.  False, and nothing is changed: it is not
 * such a block, or something is wrong with it. */
static bool look_quickly(struct scan *s, const gantry_copy_desc *descs, size_t count,
                         struct gy_copy_scan *out)
{
    const gantry_copy_desc *last = &descs[count - 1];
    const struct sums sums = add_up(descs, count, out->type, s->dest_end, s->source_end);
    if (sums.types != 0 || sums.largest >= GY_COPY_PIECE_MAX || sums.addresses >> GY_COPY_ADDRESS_BITS != 0 ||
        sums.continues) {
        return false;
    }
    const struct extent sources = sums.sources;
    const struct extent dests =
        sums.in_order ? (struct extent){(uintptr_t)descs[0].dest, (uintptr_t)last->dest + last->bytes}
                      : extent_of_dests(descs, count);
    if (!is_inside(&s->dest, dests.first, dests.last - dests.first) ||
        !is_inside(&s->source, sources.first, sources.last - sources.first)) {
        return false;
    }
    s->in_order &= sums.in_order;
    s->dest_end = (uintptr_t)last->dest + last->bytes;
    s->source_end = (uintptr_t)last->source + last->bytes;
    s->first_dest = lesser(s->first_dest, dests.first);
    s->last_dest = greater(s->last_dest, dests.last);
    s->first_source = lesser(s->first_source, sources.first);
    s->last_source = greater(s->last_source, sources.last);
    out->smallest = lesser(out->smallest, sums.smallest);
    out->bytes += sums.bytes;
    out->pieces += count;
    return true;
}

/* Look at each descriptor; false: the batch is not a usual one. */
static bool look_closely(struct scan *s, const gantry_copy_desc *descs, size_t count,
                         struct gy_copy_scan *out)
{
    const gantry_copy_type type = out->type;
    const bool to_host = type == GANTRY_COPY_DTOH, from_host = type == GANTRY_COPY_HTOD;
    for (size_t i = 0; i < count; i++) {
        const gantry_copy_desc *d = &descs[i];
        const uint64_t dest = (uintptr_t)d->dest, source = (uintptr_t)d->source, bytes = d->bytes;
        if (d->type != type || bytes - 1 >= GY_COPY_PIECE_MAX) {
            if (d->type == type && bytes == 0) {
                continue;
            }
            return false;
        }
        if ((!is_inside(&s->dest, dest, bytes) && !look_up(s, d->dest, bytes, to_host, &s->dest)) ||
            (!is_inside(&s->source, source, bytes) && !look_up(s, d->source, bytes, from_host, &s->source)) ||
            (dest == s->dest_end && source == s->source_end)) {
            return false;
        }
        s->in_order &= dest >= s->dest_end;
        s->dest_end = dest + bytes;
        s->source_end = source + bytes;
        s->first_dest = lesser(s->first_dest, dest);
        s->last_dest = greater(s->last_dest, dest + bytes);
        s->first_source = lesser(s->first_source, source);
        s->last_source = greater(s->last_source, source + bytes);
        out->smallest = lesser(out->smallest, bytes);
        out->bytes += bytes;
        out->pieces++;
    }
    return true;
}

/* Look at all descriptors in one pass; false: the batch is not a usual one. */
static bool look_at_all(struct scan *s, const gantry_copy_desc *descs, size_t count, struct gy_copy_scan *out)
{
    for (size_t at = 0; at < count; at += BLOCK) {
        const size_t in_block = count - at < BLOCK ? count - at : BLOCK;
        if (!look_quickly(s, descs + at, in_block, out) && !look_closely(s, descs + at, in_block, out)) {
            return false;
        }
    }
    return out->pieces > 0;
}

/* ---- dests in any order --------------------------------------------------------------------------- */

static bool make_room(struct gy_copy_places *places, size_t words)
{
    if (places->room < words) {
        uint64_t *bits = gy_zalloc_array(words, sizeof(*bits));
        if (bits == NULL) {
            return false;
        }
        gy_free(places->bits);
        places->bits = bits;
        places->room = words;
        return true;
    }
    memset(places->bits, 0, words * sizeof(*places->bits));
    return true;
}

/* Enter each dest; false: two may touch. */
static bool enter_dests(const struct scan *s, const gantry_copy_desc *descs, size_t count, uint64_t *bits,
                        uint32_t shift)
{
    for (size_t i = 0; i < count; i++) {
        if (descs[i].bytes == 0) {
            continue;
        }
        const uint64_t at = (uintptr_t)descs[i].dest - s->first_dest;
        const uint64_t last = (at + descs[i].bytes - 1) >> shift;
        for (uint64_t place = at >> shift; place <= last; place++) {
            if (bits[place / 64] >> place % 64 & 1) {
                return false;
            }
            bits[place / 64] |= UINT64_C(1) << place % 64;
        }
    }
    return true;
}

/* False: a source may touch a dest. */
static bool miss_sources(const struct scan *s, const gantry_copy_desc *descs, size_t count,
                         const uint64_t *bits, uint32_t shift)
{
    for (size_t i = 0; i < count; i++) {
        const uint64_t from = (uintptr_t)descs[i].source, to = from + descs[i].bytes;
        if (descs[i].bytes == 0 || to <= s->first_dest || from >= s->last_dest) {
            continue;
        }
        const uint64_t last = (lesser(to, s->last_dest) - 1 - s->first_dest) >> shift;
        for (uint64_t place = (greater(from, s->first_dest) - s->first_dest) >> shift; place <= last;
             place++) {
            if (bits[place / 64] >> place % 64 & 1) {
                return false;
            }
        }
    }
    return true;
}

static bool are_apart(const struct scan *s, const gantry_copy_desc *descs, size_t count,
                      struct gy_copy_places *places, const struct gy_copy_scan *found)
{
    const bool sources_apart = s->last_source <= s->first_dest || s->first_source >= s->last_dest;
    if (s->in_order && sources_apart) {
        return true;
    }
    const uint32_t shift = 63 - (uint32_t)__builtin_clzll(found->smallest);
    const uint64_t words = ((s->last_dest - s->first_dest) >> shift) / 64 + 1;
    if (found->bytes >> shift > PLACES_PER_COPY * found->pieces ||
        words > MOST_PLACES_BYTES / sizeof(uint64_t) || words > found->pieces ||
        !make_room(places, (size_t)words)) {
        return false;
    }
    return enter_dests(s, descs, count, places->bits, shift) &&
           (sources_apart || miss_sources(s, descs, count, places->bits, shift));
}

bool gy_copy_scan(struct gy_context *context, gantry_heap *heap, const gantry_copy_desc *descs, size_t count,
                  struct gy_copy_places *places, struct gy_copy_scan *out)
{
    struct scan s = {.context = context,
                     .heap = heap,
                     .first_dest = UINT64_MAX,
                     .first_source = UINT64_MAX,
                     .in_order = true};
    *out = (struct gy_copy_scan){.type = descs[0].type, .smallest = UINT64_MAX};
    if (count > UINT32_MAX || (uint32_t)descs[0].type > (uint32_t)GANTRY_COPY_DTOD ||
        !look_at_all(&s, descs, count, out)) {
        return false;
    }
    out->group = out->type == GANTRY_COPY_HTOD   ? GY_COPY_FROM_HOST
                 : out->type == GANTRY_COPY_DTOH ? GY_COPY_TO_HOST
                                                 : GY_COPY_WITHIN;
    return are_apart(&s, descs, count, places, out);
}
