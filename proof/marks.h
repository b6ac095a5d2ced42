/* SPDX-License-Identifier: MIT */
/* Which bytes were written and which were read, by anybody: for memory that is read before it is written, and
 * for blocks that nobody reads, on request (GANTRY_CHECK=unwritten,unread).
 *
 * Two bits for each watched byte.  Blocks of the device alone are judged: others the host may touch where
 * nobody sees it. */
#ifndef PROOF_MARKS_H
#define PROOF_MARKS_H

#include "proof/access.h"

#include <stddef.h>

extern _Atomic(bool) gy_marks_are_kept; /* atomic */

static inline bool gy_marks_kept(void)
{
    return __builtin_expect(atomic_load_explicit(&gy_marks_are_kept, memory_order_relaxed), 0);
}

/* From now on; after memory is watched, and before there is work. */
void gy_marks_open(void);

/* Somebody touches bytes: a work, or code of no task (NULL). */
void gy_marks_note(struct gy_access *access, uintptr_t at, size_t bytes, unsigned touch);
/* The bytes count as written. */
void gy_marks_write(uintptr_t at, size_t bytes);
/* The memory is another's. */
void gy_marks_forget(uintptr_t at, size_t bytes);

/* Is any of the bytes read, or written? */
bool gy_marks_is_read(uintptr_t at, size_t bytes);
bool gy_marks_is_written(uintptr_t at, size_t bytes);
/* The bytes around `*at` from `from` to `end` that nobody has written, and which count as written from now
 * on; `*at` and `*last` are the first and the last. */
void gy_marks_take_run(uintptr_t from, uintptr_t end, uintptr_t *at, uintptr_t *last);

#endif
