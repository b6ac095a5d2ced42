/* SPDX-License-Identifier: MIT */
/* Host memory for the library's own objects, and the one place where tests make host resources fail. */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include <gantry/base.h>

#include <stdbool.h>

/* Zeroed memory, aligned for any type; NULL when out of memory.  Freed with gy_free(). */
void *gy_zalloc(size_t bytes);

/* count * bytes with an overflow check; zeroed. */
void *gy_zalloc_array(size_t count, size_t bytes);

/* gy_zalloc_array() for the library's own bookkeeping.  gy_fault_arm() does not count it, so the n-th
 * failure hits the same allocation whether books are kept or not. */
void *gy_zalloc_aside(size_t count, size_t bytes);

/* `*array`, whose address is `at`, gets room for `needed` things of `size` bytes and more to come; what it
 * holds stays, the new room is zeroed.  False: no memory, and nothing has changed.  *room counts things. */
bool gy_grow_array(void *at, size_t *room, size_t needed, size_t size);

/* Uninitialised memory aligned to `alignment` (a power of two up to 4096). */
void *gy_alloc_aligned(size_t bytes, size_t alignment);

/* NULL is ignored. */
void gy_free(void *pointer);

/* A copy of `text` for gy_free(); NULL when out of memory. */
char *gy_strdup(const char *text);

/* Allocations made through this file and not freed yet. */
long gy_alloc_count(void);
/* gy_alloc_count() without the blocks that checked handles keep (allocator.c). */
long gy_alloc_live(void);

/* NULL: malloc and free.  For gantry_set_allocator(), while there are no blocks. */
void gy_alloc_use(const gantry_allocator *allocator);

#ifdef GANTRY_TESTING
/* Make the n-th (from 0) allocation, thread or condition creation from now on fail, and all later ones
 * work; -1 disarms.  Counted over all threads. */
void gy_fault_arm(long nth);
bool gy_fault_fired(void);
/* How many more of these succeed before the one that fails; negative when none will fail. */
long gy_fault_left(void);
bool gy_fault_should_fail(void);
#else
static inline bool gy_fault_should_fail(void)
{
    return false;
}
#endif

#endif
