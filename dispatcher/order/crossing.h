/* SPDX-License-Identifier: MIT */
/* Crossings: the wait set of a task that comes after work of several devices of a fleet.
 *
 * A crossing has a clock for each device.  Tasks that are not on a GPU carry it along, as they carry any wait
 * set.  A GPU task that becomes ready travels with it: it visits the dispatcher of each device that has work
 * which the host has not seen pass, takes an export along there, and goes home to its own device (route.h).
 *
 *        the crossing       visit device 1        visit device 2        home: device 0
 *      [0: p] [1: q] [2: r] ──── export of q ────── export of r ───────► stream waits for p, both exports
 *
 * In the task's wait set a crossing is a pointer with bit 2 set while it is carried or travels.  At home it
 * is the clock of that device: for the dispatcher a wait set as any other, with exports to wait for besides.
 */
#ifndef DISPATCHER_ORDER_CROSSING_H
#define DISPATCHER_ORDER_CROSSING_H

#include "dispatcher/order/wait_set.h"
#include "taskman/gpu_task.h"

#define GY_FLEET_MAX 16

#define GY_WAIT_SET_CROSSING UINT64_C(4)

struct gy_export;

struct gy_crossing {
    struct gy_crossing_pool *pool; /* immutable */
    struct gy_crossing *next_free; /* guarded by the pool's lock */
    struct gy_crossing *next;      /* guarded by the pool's lock; all of the pool */
    uint32_t refs;                 /* guarded by the pool's lock; tasks whose wait set it is */
    uint32_t home;                 /* device of the first timeline point carried */
    uint32_t visits; /* from here on: of the task that travels; bit e: it has yet to visit device e */
    uint32_t orders; /* bit e: there it asks for work that the steps before have left */
    enum gy_step_bound_of bound;             /* the steps before that it has to be ordered behind */
    uint64_t flow;                           /* the arrow of that task; 0: nothing is recorded */
    struct gy_export *exports[GY_FLEET_MAX]; /* to wait for, of each device; held; NULL: nothing */
    struct gy_clock of[];                    /* by device; of the home the wait set once it has arrived */
};

struct gy_crossing_pool {
    gy_mutex lock;            /* rank WAIT_SETS */
    uint32_t devices;         /* immutable */
    struct gy_crossing *free; /* guarded by lock */
    struct gy_crossing *all;  /* guarded by lock */
};

void gy_crossings_init(struct gy_crossing_pool *pool, uint32_t devices);
void gy_crossings_fini(struct gy_crossing_pool *pool);

/* It is carried, or travels. */
static inline bool gy_wait_set_is_crossing(uint64_t wait_set)
{
    return (wait_set & 7u) == GY_WAIT_SET_CROSSING;
}
static inline struct gy_crossing *gy_crossing_of(uint64_t wait_set)
{
    return (struct gy_crossing *)(uintptr_t)(wait_set & ~GY_WAIT_SET_CROSSING); /* NOLINT: see above */
}
/* The dispatcher thread: a task that only visits the device. */
static inline bool gy_task_is_visitor(const gantry_task *task)
{
    const uint64_t wait_set = atomic_load_explicit(&task->wait_set, memory_order_acquire);
    return __builtin_expect(!gy_wait_set_is_point(wait_set) && gy_wait_set_is_crossing(wait_set), 0);
}
/* The crossing that a wait set of a fleet's task is, or has arrived with; NULL: it is a point, or nothing. */
static inline struct gy_crossing *gy_crossing_behind(uint64_t wait_set)
{
    return gy_wait_set_is_crossing(wait_set) ? gy_crossing_of(wait_set)
           : gy_wait_set_is_clock(wait_set)  ? gy_clock_of(wait_set)->crossing
                                             : NULL;
}

/* gy_task_bound() of a task that may have come with a crossing. */
static inline enum gy_step_bound_of gy_crossing_bound(const gantry_task *task, uint64_t wait_set)
{
    const struct gy_crossing *crossing =
        wait_set == GY_WAIT_SET_NONE || gy_wait_set_is_point(wait_set) ? NULL : gy_crossing_behind(wait_set);
    return crossing != NULL ? crossing->bound : gy_task_bound(task, wait_set);
}

/* Merge `from` into the wait set at `to`.  Any thread; several may merge into the same `to` at once.
 * False: out of host memory; `to` is as it was. */
GANTRY_MUST_CHECK bool gy_crossing_merge(struct gy_crossing_pool *pool, _Atomic(uint64_t) *to, uint64_t from);

/* The wait set at `at`, which is final, becomes a crossing that no other task has.  NULL: out of host memory.
 */
struct gy_crossing *gy_crossing_own(struct gy_crossing_pool *pool, _Atomic(uint64_t) *at);

/* A task needs it no longer. */
void gy_crossing_drop(struct gy_crossing *crossing);

/* Its clocks are valid, and it has exports of devices only that it has visited. */
bool gy_crossing_is_valid(const struct gy_crossing *crossing);

#endif
