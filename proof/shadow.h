/* SPDX-License-Identifier: MIT */
/* The shadow: for every four bytes of watched memory, who wrote them last and who has read them since.
 *
 * A cell is 16 bytes for four, in a mapping as large as the watched addresses, of which the system gives only
 * the pages that are used: 4 GiB for 1 GiB that is touched.  A cell whose bytes have different histories is
 * split into four. */
#ifndef PROOF_SHADOW_H
#define PROOF_SHADOW_H

#include "proof/access.h"

#include <stdatomic.h>
#include <stddef.h>

/* Who: the number of a work, or GY_WHO_SET and the number of a set of works; 0: nobody.
 * An entry: bits 0 to 3 are the bytes that it is about, 4 to 31 who, 32 to 51 the block, 52 to 62 the place
 * in the code (places.h), 63 is set of atomics. */
enum { GY_WHO_SET = 1 << 27, GY_NO_BLOCK = 0xfffff };
#define GY_ENTRY_ATOMIC (UINT64_C(1) << 63)
static inline uint32_t gy_entry_who(uint64_t entry)
{
    return (uint32_t)entry >> 4;
}

struct gy_cell {
    _Atomic(uint64_t) writer; /* atomic; written under the cell's lock */
    _Atomic(uint64_t) reader; /* atomic; written under the cell's lock */
};

/* Watched addresses, and their shadow.  Immutable once bytes != 0. */
struct gy_watched {
    uintptr_t begin;
    _Atomic(size_t) bytes; /* atomic */
    struct gy_cell *cells;
};
/* Of blocks that the emulated driver gives out, and of the C library (malloc.c). */
enum gy_watched_kind { GY_WATCHED_BLOCKS, GY_WATCHED_MALLOC, GY_WATCHED_KINDS };
extern struct gy_watched gy_watched[GY_WATCHED_KINDS];

/* From the first watched byte to the last one. */
struct gy_watched_span {
    _Atomic(uintptr_t) begin; /* atomic */
    _Atomic(size_t) bytes;    /* atomic */
};
extern struct gy_watched_span gy_watched_span;

/* False: the byte is not watched. */
static inline bool gy_may_be_watched(uintptr_t at)
{
    return at - atomic_load_explicit(&gy_watched_span.begin, memory_order_relaxed) <
           atomic_load_explicit(&gy_watched_span.bytes, memory_order_relaxed);
}

/* Kernels find their arguments in memory of the C library, which are nobody's. */
static inline int gy_watched_kinds(const struct gy_access *access)
{
    return access->is_kernel ? GY_WATCHED_MALLOC : GY_WATCHED_KINDS;
}

/* The cell of an address; NULL: it is not watched, in any of the first `kinds`. */
static inline struct gy_cell *gy_cell_at(uintptr_t at, int kinds)
{
    for (int i = 0; i < kinds; i++) {
        const uintptr_t offset = at - gy_watched[i].begin;
        if (offset < atomic_load_explicit(&gy_watched[i].bytes, memory_order_relaxed)) {
            return &gy_watched[i].cells[offset / 4];
        }
    }
    return NULL;
}

/* CHANGE: what is written goes by what was there.  ATOMIC is or-ed to the others. */
enum gy_touch { GY_TOUCH_READ = 0, GY_TOUCH_WRITE = 1, GY_TOUCH_ATOMIC = 2, GY_TOUCH_CHANGE = 5 };

/* False: no room. */
bool gy_shadow_watch(enum gy_watched_kind kind, uintptr_t begin, size_t bytes);
/* The work, or code of no task (NULL), touches bytes, of which some may not be watched. */
void gy_shadow_note(struct gy_access *access, uintptr_t at, size_t bytes, unsigned touch);
/* What the calling thread carries out touches bytes; `place`: of the code, or NULL. */
void gy_shadow_touch(const void *address, size_t bytes, unsigned touch, const void *place);
/* Clip to watched addresses; false: nothing is left. */
bool gy_shadow_clip(enum gy_watched_kind kind, uintptr_t *at, size_t *bytes);
/* The work that has written the byte last; 0: none, or not a single one. */
uint32_t gy_shadow_writer(uintptr_t at);
void gy_shadow_forget(uintptr_t at, size_t bytes);

/* One of the works in `who` that does not come before the access, or 0. */
uint32_t gy_shadow_find_bad(struct gy_access *access, uint32_t who);

/* Does an entry say that the access has touched the bytes so, alone or with others? */
static inline bool gy_shadow_says(uint64_t entry, const struct gy_access *access, unsigned mask,
                                  unsigned touch)
{
    const uint32_t who = gy_entry_who(entry);
    const bool is_there = who == access->work || access->joined[who % GY_PROOF_JOINED] == who;
    const bool is_as_plain = (touch & GY_TOUCH_ATOMIC) != 0 || (entry & GY_ENTRY_ATOMIC) == 0;
    return (~entry & mask) == 0 && is_there && is_as_plain; /* what is plain already stays so */
}

/* gy_shadow_note() for bytes of one cell, as far as it can be told without a lock: true, and nothing is left.
 */
static inline bool gy_shadow_is_noted(const struct gy_access *access, const struct gy_cell *cell,
                                      unsigned mask, unsigned touch)
{
    const uint64_t writer = atomic_load_explicit(&cell->writer, memory_order_relaxed);
    if (gy_shadow_says(writer, access, mask, touch)) {
        return true;
    }
    const uint64_t reader = atomic_load_explicit(&cell->reader, memory_order_relaxed);
    return (touch & GY_TOUCH_WRITE) == 0 && gy_shadow_says(reader, access, mask, touch);
}

#endif
