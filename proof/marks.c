/* SPDX-License-Identifier: MIT */
#include "proof/marks.h"

#include "proof/order.h"
#include "proof/report.h"
#include "proof/shadow.h"

#include <sys/mman.h>

enum { WORD_BYTES = 64 }; /* bytes that a word has a bit for */

typedef _Atomic(uint64_t) mark_word; /* atomic */

_Atomic(bool) gy_marks_are_kept;
static mark_word *written, *read; /* immutable once kept */

static mark_word *reserve(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void gy_marks_open(void)
{
    const size_t bytes = atomic_load(&gy_watched[GY_WATCHED_BLOCKS].bytes) / 8;
    written = reserve(bytes);
    read = reserve(bytes);
    if (written == NULL || read == NULL) {
        gy_order_lack("addresses for marks");
        return;
    }
    atomic_store(&gy_marks_are_kept, true);
}

/* The bits of a range that lie in the word with its first one; `at` moves behind them. */
static uint64_t next_bits(size_t *at, size_t end)
{
    const size_t bit = *at % WORD_BYTES, left = WORD_BYTES - bit;
    const size_t count = end - *at < left ? end - *at : left;
    *at += count;
    return (count == WORD_BYTES ? ~UINT64_C(0) : (UINT64_C(1) << count) - 1) << bit;
}

static uint64_t load(const mark_word *marks, size_t word)
{
    return atomic_load_explicit(&marks[word], memory_order_relaxed);
}

static void set(mark_word *marks, size_t at, size_t end)
{
    while (at < end) {
        const size_t word = at / WORD_BYTES;
        const uint64_t bits = next_bits(&at, end);
        if ((load(marks, word) & bits) != bits) {
            atomic_fetch_or_explicit(&marks[word], bits, memory_order_relaxed);
        }
    }
}

/* The first byte that is written, or is not; `end`: there is none. */
static size_t first_of(bool is_written, size_t at, size_t end)
{
    const uint64_t flip = is_written ? 0 : ~UINT64_C(0);
    while (at < end) {
        const size_t before = at, word = at / WORD_BYTES;
        const uint64_t found = next_bits(&at, end) & (load(written, word) ^ flip);
        if (found != 0) {
            return (before - before % WORD_BYTES) + (size_t)__builtin_ctzll(found);
        }
    }
    return end;
}

void gy_marks_write(uintptr_t at, size_t bytes)
{
    if (gy_shadow_clip(GY_WATCHED_BLOCKS, &at, &bytes)) {
        const size_t from = at - gy_watched[GY_WATCHED_BLOCKS].begin;
        set(written, from, from + bytes);
    }
}

void gy_marks_note(struct gy_access *access, uintptr_t at, size_t bytes, unsigned touch)
{
    if (!gy_shadow_clip(GY_WATCHED_BLOCKS, &at, &bytes)) {
        return;
    }
    const size_t from = at - gy_watched[GY_WATCHED_BLOCKS].begin, end = from + bytes;
    const bool is_write = (touch & GY_TOUCH_WRITE) != 0;
    const bool needs_old = access != NULL && (!is_write || (touch & GY_TOUCH_CHANGE) == GY_TOUCH_CHANGE);
    const size_t first = needs_old ? first_of(false, from, end) : end;
    if (first < end && !gy_report_unwritten(access, gy_watched[GY_WATCHED_BLOCKS].begin + first)) {
        set(written, first, end); /* so that it is not asked again */
    }
    set(is_write ? written : read, from, end);
}

static void clear(mark_word *marks, size_t at, size_t end)
{
    while (at < end) {
        const size_t word = at / WORD_BYTES;
        const uint64_t bits = next_bits(&at, end);
        if ((load(marks, word) & bits) != 0) {
            atomic_fetch_and_explicit(&marks[word], ~bits, memory_order_relaxed);
        }
    }
}

void gy_marks_forget(uintptr_t at, size_t bytes)
{
    if (gy_marks_kept() && gy_shadow_clip(GY_WATCHED_BLOCKS, &at, &bytes)) {
        clear(written, at - gy_watched[GY_WATCHED_BLOCKS].begin,
              at - gy_watched[GY_WATCHED_BLOCKS].begin + bytes);
        clear(read, at - gy_watched[GY_WATCHED_BLOCKS].begin,
              at - gy_watched[GY_WATCHED_BLOCKS].begin + bytes);
    }
}

static bool has_any(const mark_word *marks, uintptr_t at, size_t bytes)
{
    size_t from = at - gy_watched[GY_WATCHED_BLOCKS].begin;
    const size_t end = from + bytes;
    while (from < end) {
        const size_t word = from / WORD_BYTES;
        if ((next_bits(&from, end) & load(marks, word)) != 0) {
            return true;
        }
    }
    return false;
}

bool gy_marks_is_read(uintptr_t at, size_t bytes)
{
    return has_any(read, at, bytes);
}

bool gy_marks_is_written(uintptr_t at, size_t bytes)
{
    return has_any(written, at, bytes);
}

void gy_marks_take_run(uintptr_t from, uintptr_t end, uintptr_t *at, uintptr_t *last)
{
    const uintptr_t behind =
        gy_watched[GY_WATCHED_BLOCKS].begin +
        first_of(true, *at - gy_watched[GY_WATCHED_BLOCKS].begin, end - gy_watched[GY_WATCHED_BLOCKS].begin);
    uintptr_t first = *at;
    while (first > from && !has_any(written, first - 1, 1)) {
        first--;
    }
    set(written, first - gy_watched[GY_WATCHED_BLOCKS].begin, behind - gy_watched[GY_WATCHED_BLOCKS].begin);
    *at = first;
    *last = behind - 1;
}
