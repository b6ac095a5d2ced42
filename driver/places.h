/* SPDX-License-Identifier: MIT */
/* The places that streams have on the device.
 *
 * The driver gives each stream a place, and each branch of an executable graph.  43 of them are 2 MiB of the
 * device's memory (measured on an H200, driver 580).  When none is left it takes 2 MiB more: for that it
 * waits until all work of the device has ended, and other threads launch nothing meanwhile.  A kernel that
 * waits for the host would wait for ever.  What is destroyed leaves its place to others.
 *
 * So places are taken ahead, while the device has nothing of ours to do: many streams are made and destroyed
 * again.  That is done when a dispatcher is made, and before a batch when few are left.  A graph that has no
 * places is played (play.h) while there is work on the device.  A program's own streams and graphs take
 * places, too, of which nothing is known here.
 *
 * All contexts of the process that have the same CUDA context share its places.  Any thread. */
#ifndef DRIVER_PLACES_H
#define DRIVER_PLACES_H

#include "driver/context.h"

#define GY_PLACES_LEAST 96u /* of fewer that are left more are made */
#define GY_PLACES_MORE 192u

struct gy_places {
    struct gy_places *next; /* guarded by the list's lock */
    CUcontext native;       /* immutable */
    uint32_t users;         /* guarded by the list's lock; contexts of ours */
    _Atomic(uint32_t) used; /* atomic; streams of pools, and branches of executable graphs */
    _Atomic(uint32_t) room; /* atomic; the most that were used at once, or taken ahead */
};

/* Find or make those of the CUDA context; NULL: there is no memory. */
struct gy_places *gy_places_join(CUcontext native);
void gy_places_leave(struct gy_places *places);

static inline void gy_places_take(struct gy_places *places, uint32_t count)
{
    const uint32_t used = atomic_fetch_add(&places->used, count) + count;
    uint32_t room = atomic_load(&places->room);
    while (room < used && !atomic_compare_exchange_weak(&places->room, &room, used)) {
    }
}

static inline void gy_places_give(struct gy_places *places, uint32_t count)
{
    (void)atomic_fetch_sub(&places->used, count);
}

/* Take places ahead, so that `count` are left; a failure is logged, and they are taken when they are needed.
 * Nothing that waits for the host is on the device. */
void gy_places_reserve(struct gy_context *context, uint32_t count);

static inline uint32_t gy_places_left(const struct gy_places *places)
{
    const uint32_t used = atomic_load_explicit(&places->used, memory_order_relaxed);
    const uint32_t room = atomic_load_explicit(&places->room, memory_order_relaxed);
    return room > used ? room - used : 0;
}

#endif
