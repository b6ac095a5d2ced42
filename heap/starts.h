/* SPDX-License-Identifier: MIT */
/* Bitmaps of where the ranges of a slab start: a bit per page, and a bit per word of these.  Threading: to be
 * called under the page layer's lock. */
#ifndef HEAP_STARTS_H
#define HEAP_STARTS_H

#include "heap/pages.h"

static inline size_t gy_page_in_slab(const struct gy_slab *slab, uintptr_t address)
{
    return (address - slab->region.base) >> GY_PAGE_SHIFT;
}

static inline void gy_mark_start(struct gy_slab *slab, uintptr_t base)
{
    size_t word = gy_page_in_slab(slab, base) / 64;
    slab->starts[word] |= (uint64_t)1 << (gy_page_in_slab(slab, base) % 64);
    slab->starts_summary[word / 64] |= (uint64_t)1 << (word % 64);
}

static inline void gy_unmark_start(struct gy_slab *slab, uintptr_t base)
{
    size_t word = gy_page_in_slab(slab, base) / 64;
    slab->starts[word] &= ~((uint64_t)1 << (gy_page_in_slab(slab, base) % 64));
    if (slab->starts[word] == 0) {
        slab->starts_summary[word / 64] &= ~((uint64_t)1 << (word % 64));
    }
}

/* The highest set bit of `word` at or below `bit`. */
static inline unsigned gy_bit_at_or_below(uint64_t word, size_t bit)
{
    return 63u - (unsigned)__builtin_clzll(word & (~(uint64_t)0 >> (63 - bit)));
}

/* The page on which the range that covers `page` starts; page 0 always starts one. */
static inline size_t gy_start_at_or_below(const struct gy_slab *slab, size_t page)
{
    size_t word = page / 64;
    if ((slab->starts[word] & (~(uint64_t)0 >> (63 - page % 64))) != 0) {
        return word * 64 + gy_bit_at_or_below(slab->starts[word], page % 64);
    }
    word--; /* page 0 is marked, so there is a marked word below */
    size_t group = word / 64;
    uint64_t words = slab->starts_summary[group] & (~(uint64_t)0 >> (63 - word % 64));
    while (words == 0) {
        group--;
        words = slab->starts_summary[group];
    }
    word = group * 64 + gy_bit_at_or_below(words, 63);
    return word * 64 + gy_bit_at_or_below(slab->starts[word], 63);
}

#endif
