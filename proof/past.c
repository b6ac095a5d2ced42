/* SPDX-License-Identifier: MIT */
#include "proof/past.h"

#include "base/alloc.h"

#include <string.h>

enum { PAGE_BITS = 4096, PAGE_WORDS = PAGE_BITS / 64 };

struct page {
    uint32_t refs;  /* guarded by the callers' lock */
    uint32_t count; /* bits that are set; immutable while refs > 1 */
    uint64_t bits[PAGE_WORDS];
};

struct gy_past {
    uint32_t refs; /* guarded by the callers' lock */
    uint32_t page_count;
    struct page *pages[]; /* a reference each; NULL: empty; &full: all of it */
};

static struct page full; /* only its address counts */

bool gy_past_has(const struct gy_past *past, uint32_t number)
{
    const uint32_t at = number / PAGE_BITS, bit = number % PAGE_BITS;
    if (past == NULL || at >= past->page_count || past->pages[at] == NULL) {
        return false;
    }
    return past->pages[at] == &full || (past->pages[at]->bits[bit / 64] >> bit % 64 & 1) != 0;
}

/* 64 numbers. */
static uint64_t word_of(const struct page *page, uint32_t word)
{
    return page == NULL ? 0 : page == &full ? ~UINT64_C(0) : page->bits[word];
}

/* What of the page is not in `known`, from a number in the page on; PAGE_BITS: nothing. */
static uint32_t next_in_page(const struct page *page, const struct page *known, uint32_t from)
{
    if (page == NULL || page == known || known == &full) {
        return PAGE_BITS;
    }
    uint64_t mask = ~UINT64_C(0) << from % 64;
    for (uint32_t word = from / 64; word < PAGE_WORDS; word++, mask = ~UINT64_C(0)) {
        const uint64_t left = word_of(page, word) & ~word_of(known, word) & mask;
        if (left != 0) {
            return word * 64 + (uint32_t)__builtin_ctzll(left);
        }
    }
    return PAGE_BITS;
}

uint32_t gy_past_next(const struct gy_past *past, const struct gy_past *known, uint32_t from)
{
    const uint32_t pages = past != NULL && past != known ? past->page_count : 0;
    for (uint32_t at = from / PAGE_BITS, in = from % PAGE_BITS; at < pages; at++, in = 0) {
        const struct page *other = known != NULL && at < known->page_count ? known->pages[at] : NULL;
        const uint32_t next = next_in_page(past->pages[at], other, in);
        if (next != PAGE_BITS) {
            return at * PAGE_BITS + next;
        }
    }
    return 0;
}

struct gy_past *gy_past_ref(struct gy_past *past)
{
    if (past != NULL) {
        past->refs++;
    }
    return past;
}

static struct page *ref_page(struct page *page)
{
    if (page != NULL && page != &full) {
        page->refs++;
    }
    return page;
}

static void unref_page(struct page *page)
{
    if (page != NULL && page != &full && --page->refs == 0) {
        gy_free(page);
    }
}

void gy_past_unref(struct gy_past *past)
{
    if (past == NULL || --past->refs != 0) {
        return;
    }
    for (uint32_t i = 0; i < past->page_count; i++) {
        unref_page(past->pages[i]);
    }
    gy_free(past);
}

/* *past becomes the caller's alone, with room for so many pages. */
static bool own(struct gy_past **past, uint32_t page_count)
{
    struct gy_past *old = *past;
    const uint32_t before = old != NULL ? old->page_count : 0;
    if (old != NULL && old->refs == 1 && before >= page_count) {
        return true;
    }
    const uint32_t after = before > page_count ? before : page_count;
    struct gy_past *fresh = gy_zalloc(sizeof(*fresh) + after * sizeof(struct page *));
    if (fresh == NULL) {
        return false;
    }
    fresh->refs = 1;
    fresh->page_count = after;
    for (uint32_t i = 0; i < before; i++) {
        fresh->pages[i] = ref_page(old->pages[i]);
    }
    gy_past_unref(old);
    *past = fresh;
    return true;
}

/* *page, not full, becomes the caller's alone. */
static bool own_page(struct page **page)
{
    struct page *old = *page;
    if (old != NULL && old->refs == 1) {
        return true;
    }
    struct page *fresh = gy_zalloc(sizeof(*fresh));
    if (fresh == NULL) {
        return false;
    }
    if (old != NULL) {
        memcpy(fresh, old, sizeof(*fresh));
    }
    fresh->refs = 1;
    unref_page(old);
    *page = fresh;
    return true;
}

static void fold_if_full(struct page **page)
{
    if ((*page)->count == PAGE_BITS) {
        unref_page(*page);
        *page = &full;
    }
}

bool gy_past_add(struct gy_past **past, uint32_t number)
{
    const uint32_t at = number / PAGE_BITS, bit = number % PAGE_BITS;
    if (gy_past_has(*past, number)) {
        return true;
    }
    if (!own(past, at + 1) || !own_page(&(*past)->pages[at])) {
        return false;
    }
    struct page *page = (*past)->pages[at];
    page->bits[bit / 64] |= UINT64_C(1) << bit % 64;
    page->count++;
    fold_if_full(&(*past)->pages[at]);
    return true;
}

/* Is each number of `part` in `whole`? */
static bool has_all(const struct page *whole, const struct page *part)
{
    if (part == NULL || part == whole || whole == &full) {
        return true;
    }
    if (whole == NULL || part == &full || part->count > whole->count) {
        return false;
    }
    for (int i = 0; i < PAGE_WORDS; i++) {
        if ((part->bits[i] & ~whole->bits[i]) != 0) {
            return false;
        }
    }
    return true;
}

static bool join_page(struct page **page, struct page *other)
{
    if (has_all(*page, other)) {
        return true;
    }
    if (has_all(other, *page)) {
        unref_page(*page);
        *page = ref_page(other);
        return true;
    }
    if (!own_page(page)) {
        return false;
    }
    uint32_t count = 0;
    for (int i = 0; i < PAGE_WORDS; i++) {
        (*page)->bits[i] |= other->bits[i];
        count += (uint32_t)__builtin_popcountll((*page)->bits[i]);
    }
    (*page)->count = count;
    fold_if_full(page);
    return true;
}

bool gy_past_join(struct gy_past **past, struct gy_past *other)
{
    if (other == NULL || other == *past) {
        return true;
    }
    if (*past == NULL) {
        *past = gy_past_ref(other);
        return true;
    }
    uint32_t i = 0;
    while (i < other->page_count && i < (*past)->page_count && has_all((*past)->pages[i], other->pages[i])) {
        i++; /* most joins bring nothing new */
    }
    if (i == other->page_count) {
        return true;
    }
    if (!own(past, other->page_count)) {
        return false;
    }
    for (; i < other->page_count; i++) {
        if (!join_page(&(*past)->pages[i], other->pages[i])) {
            return false;
        }
    }
    return true;
}
