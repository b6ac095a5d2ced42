/* Ranges that are free for one stream, or one graph, only: what was freed on a stream can be used there at
 * once, in any size, and by everybody else when the stream has passed.
 *
 * Until then such a range is WAITING: not idle, so that its slab is neither given back nor punched, and in
 * the index of its waiter instead of the common one.  Neighbours that wait for the same are joined; `order`
 * of the joined range is the later one.
 *
 * Threading: all of it under the lock of the page layer. */
#ifndef HEAP_WAITING_H
#define HEAP_WAITING_H

#include "heap/pages.h"

/* A live BLOCK of `bytes` for the waiter, out of what waits for it, else out of what is free for all.
 * gy_pages_ensure_room() has been called.  NULL: there is no room. */
struct gy_range *gy_waiting_alloc(struct gy_pages *pages, struct gy_page_waiter *waiter, size_t bytes,
                                  size_t alignment, uint32_t site) GY_REQUIRES(pages->lock);
/* What waits behind no later mark than `order` is free for all; its bytes. */
size_t gy_waiting_settle(struct gy_pages *pages, struct gy_page_waiter *waiter, uint64_t order)
    GY_REQUIRES(pages->lock);
/* Neighbours of what waits that are free for all wait as well, so that there is more in one piece.  Bytes. */
size_t gy_waiting_adopt(struct gy_pages *pages, struct gy_page_waiter *waiter) GY_REQUIRES(pages->lock);

#endif
