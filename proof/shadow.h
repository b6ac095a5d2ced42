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
 * An entry: bits 0 to 3 are the bytes that it is about, 4 to 31 who, 32 to 62 the block, 63 is set of
 * atomics. */
enum { GY_WHO_SET = 1 << 27 };
#define GY_ENTRY_ATOMIC (UINT64_C(1) << 63)
static inline uint32_t gy_entry_who(uint64_t entry)
{
    return (uint32_t)entry >> 4;
}

struct gy_cell {
    _Atomic(uint64_t) writer; /* atomic; written under the cell's lock */
    _Atomic(uint64_t) reader; /* atomic; written under the cell's lock */
};

/* Watched addresses, whose shadow is `gy_shadow`; from `gy_shadow_begin` so many bytes.  Immutable once bytes
 * != 0. */
extern uintptr_t gy_shadow_begin;
extern _Atomic(size_t) gy_shadow_bytes;
extern struct gy_cell *gy_shadow;

enum gy_touch { GY_TOUCH_READ = 0, GY_TOUCH_WRITE = 1, GY_TOUCH_ATOMIC = 2 };

/* False: no room. */
bool gy_shadow_watch(uintptr_t begin, size_t bytes);
/* The work touches bytes, of which some may not be watched. */
void gy_shadow_note(struct gy_access *access, uintptr_t at, size_t bytes, unsigned touch);
void gy_shadow_forget(uintptr_t at, size_t bytes);

/* One of the works in `who` that does not come before the access, or 0. */
uint32_t gy_shadow_find_bad(struct gy_access *access, uint32_t who);

/* gy_shadow_note() for bytes of one cell, as far as it can be told without a lock: true, and nothing is left.
 */
static inline bool gy_shadow_is_noted(const struct gy_access *access, uintptr_t at, unsigned mask,
                                      unsigned touch)
{
    const struct gy_cell *cell = &gy_shadow[(at - gy_shadow_begin) / 4];
    const uint64_t own = (uint64_t)access->work << 4 | mask, kept = UINT64_C(0xfffffff0) | mask;
    const uint64_t writer = atomic_load_explicit(&cell->writer, memory_order_relaxed);
    const bool is_atomic = (touch & GY_TOUCH_ATOMIC) != 0; /* what is plain already stays so */
    if ((writer & kept) == own && (is_atomic || (writer & GY_ENTRY_ATOMIC) == 0)) {
        return true;
    }
    const uint64_t reader = atomic_load_explicit(&cell->reader, memory_order_relaxed);
    return (touch & GY_TOUCH_WRITE) == 0 && (reader & kept) == own &&
           (is_atomic || (reader & GY_ENTRY_ATOMIC) == 0);
}

#endif
