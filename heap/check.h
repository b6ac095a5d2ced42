/* SPDX-License-Identifier: MIT */
/* Checks for people who look for a bug (base/checking.h): who freed this block before?  Did anybody write to
 * it after that, or behind it while it was live?
 *
 * The latest few thousand freed blocks are remembered, and filled with a pattern where that is possible:
 * memory that the CPU may touch, and device memory of the emulated driver.  When memory is given out again at
 * the address of a remembered block, the pattern must still be there.
 *
 * Behind each live block of such memory lie guard bytes, another pattern, which are looked at when the block
 * is freed or changes its size.  The heap allocates them with the block, whose own size does not count them.
 *
 * Threading: any thread.  The checks are slow, and no part of the heap proper. */
#ifndef HEAP_CHECK_H
#define HEAP_CHECK_H

#include "base/thread.h"
#include "driver/context.h"
#include "heap/region.h"
#include "heap/sites.h"

struct gy_check;

#define GY_GUARD_BYTES ((size_t)64)

/* `parts`: GY_CHECK_FREES, GY_CHECK_GUARDS, GY_CHECK_EDGES.  NULL: out of host memory. */
struct gy_check *gy_check_create(struct gy_context *context, struct gy_sites *sites, unsigned parts);
void gy_check_destroy(struct gy_check *check);

/* `block` is still live and will be freed.  Logs an error when bytes behind it were written to. */
void gy_check_freeing(struct gy_check *check, gantry_memory_kind kind, const struct gy_visited *block);
/* `block` was given out.  Logs an error when it was written to while it was free. */
void gy_check_allocated(struct gy_check *check, gantry_memory_kind kind, const struct gy_visited *block);
/* The first is called before `block` changes its size, the second when it has its size. */
void gy_check_resizing(struct gy_check *check, gantry_memory_kind kind, const struct gy_visited *block);
void gy_check_resized(struct gy_check *check, gantry_memory_kind kind, const struct gy_visited *block);

/* Find out who had the block at `address` when it was freed last; false: the block is not remembered. */
bool gy_check_remember(struct gy_check *check, uintptr_t address, struct gy_visited *out);

#endif
