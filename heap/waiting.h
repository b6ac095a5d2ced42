/* SPDX-License-Identifier: MIT */
/* Ranges that are free for one stream, or one graph, only: memory freed on a stream can be used there at
 * once, in any size, and by everybody else once the stream has passed the free.
 *
 * Until then such a range is WAITING: it is not idle, so that its slab is neither given back nor punched, and
 * it is in the index of its waiter instead of the common one.  Neighbours that wait for the same waiter are
 * joined; the `order` of the joined range is the later one.
 *
 * Threading: all functions are called under the lock of the page layer. */
#ifndef HEAP_WAITING_H
#define HEAP_WAITING_H

#include "heap/pages.h"

/* Make a live BLOCK of `bytes` for the waiter, out of ranges that wait for it, else out of ranges that are
 * free for all.  gy_pages_ensure_room() has been called.  NULL: there is no room. */
struct gy_range *gy_waiting_alloc(struct gy_pages *pages, struct gy_page_waiter *waiter, size_t bytes,
                                  size_t alignment, uint32_t site) GY_REQUIRES(pages->lock);
/* Make the ranges that wait behind no later mark than `order` free for all; returns their bytes. */
size_t gy_waiting_settle(struct gy_pages *pages, struct gy_page_waiter *waiter, uint64_t order)
    GY_REQUIRES(pages->lock);
/* The order of what was freed first among the ranges that wait; UINT64_MAX: there is none. */
uint64_t gy_waiting_oldest(const struct gy_pages *pages, const struct gy_page_waiter *waiter)
    GY_REQUIRES(pages->lock);
/* Let neighbours of waiting ranges that are free for all wait as well, so that there is more in one piece.
 * Returns their bytes. */
size_t gy_waiting_adopt(struct gy_pages *pages, struct gy_page_waiter *waiter) GY_REQUIRES(pages->lock);

#endif
