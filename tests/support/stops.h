/* SPDX-License-Identifier: MIT */
/* Stops threads of the library at points of base/point.h, so that a test can do something meanwhile. */
#ifndef TESTS_SUPPORT_STOPS_H
#define TESTS_SUPPORT_STOPS_H

#include "tests/support/deadline.h"

#include "base/point.h"

#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>

#define STOPS 2

/* The point, and the object; both are written before it is armed. */
static struct stop {
    enum gy_point point;
    const void *at;
    atomic_int armed, inside, go;
} stops[STOPS];

static inline void stops_hook(enum gy_point point, const void *at)
{
    for (int i = 0; i < STOPS; i++) {
        int armed = 1;
        struct stop *stop = &stops[i];
        if (atomic_load(&stop->armed) != 0 && point == stop->point && at == stop->at &&
            atomic_compare_exchange_strong(&stop->armed, &armed, 0)) {
            atomic_store(&stop->inside, 1);
            while (atomic_load(&stop->go) == 0) {
                sched_yield();
            }
        }
    }
}

/* Stop the next thread that comes there. */
static inline void stops_arm(int stop, enum gy_point point, const void *at)
{
    atomic_store(&stops[stop].armed, 0);
    stops[stop].point = point;
    stops[stop].at = at;
    atomic_store(&stops[stop].inside, 0);
    atomic_store(&stops[stop].go, 0);
    atomic_store(&stops[stop].armed, 1);
    gy_point_hook(stops_hook);
}

static inline void stops_await(int stop)
{
    deadline_await(atomic_load(&stops[stop].inside) != 0, "a thread to come to a point");
}

static inline void stops_go(int stop)
{
    atomic_store(&stops[stop].go, 1);
}

#endif
