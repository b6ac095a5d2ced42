/* Threads that call launch callbacks beside the dispatcher's thread (GD), in contexts with `launch_threads`
 * above 1.
 *
 * The driver takes launches on different streams from several threads at once, and that call is most of what
 * a task costs.  So only the calls are divided.  GD takes tasks that are ready and have streams of their own,
 * and puts all their waits on these streams.  GD and the launchers call the callbacks; when all have
 * returned, GD ends the tasks in order, as it does without launchers.  No launcher needs an event of another
 * launcher: a task that must come after one of the group is not ready before the group has ended.
 *
 * A turn is one callback of such a group:
 *
 *          filled by GD        taken by the first thread          the callback has returned
 *   EMPTY --------------> READY ----------------------> TAKEN ----------------------> RETURNED
 *     ^                                                                                   |
 *     +---------------------------------- ended by GD -------------------------------------+
 *
 * Everything but `state` belongs to GD while EMPTY and RETURNED, and to the thread that took it while TAKEN.
 * A late launcher finds nothing READY and goes on waiting.  GD calls the turns that nobody takes, and waits
 * only for those that are TAKEN.
 *
 * A function that touches the dispatcher from inside a callback of a group holds `lock`, or is alone: no
 * other callback of the group runs meanwhile. */
#ifndef DISPATCHER_WAYS_LAUNCHERS_H
#define DISPATCHER_WAYS_LAUNCHERS_H

#include "dispatcher/internal.h"
#include "taskman/cpu/event.h"

enum gy_turn_state { GY_TURN_EMPTY, GY_TURN_READY, GY_TURN_TAKEN, GY_TURN_RETURNED };

struct gy_turn {
    _Alignas(64) _Atomic(uint32_t) state; /* atomic; see above */
    gantry_status ready;         /* GD only; not GANTRY_OK: the callback is not called, for this reason */
    gantry_launch_result result; /* see above */
    struct gantry_launch launch; /* see above */
    struct gy_error cause;       /* see above; the cause of a failure; status GANTRY_OK: none is known */
};

/* A thread that calls callbacks; the first one is GD. */
struct gy_launcher {
    _Alignas(64) _Atomic(bool)
        busy;        /* atomic; written by itself: it is in a callback and does not wait to be alone */
    uint32_t number; /* immutable */
    struct gy_launchers *all; /* immutable */
    gy_thread thread;         /* immutable; not set for GD */
    char name[32];            /* immutable */
};

struct gy_launchers {
    struct gantry_dispatcher *dispatcher;  /* immutable */
    uint32_t count;                        /* immutable; GD is counted */
    _Atomic(uint32_t) turn_count;          /* atomic; written by GD between groups */
    _Alignas(64) _Atomic(uint32_t) groups; /* atomic; the number of groups that GD has begun */
    _Atomic(bool) closing;                 /* atomic; never goes back */
    _Atomic(bool) alone;                   /* atomic; some thread is alone, or waits to be */
    struct gy_event begun;    /* its own guards; launchers sleep here until `groups` or `closing` changes */
    struct gy_event returned; /* its own guards; GD sleeps here until a turn has RETURNED */
    gy_mutex lock;            /* rank LAUNCHERS; in a group it guards completions and deferred blocks */
    struct gy_launcher *launchers;        /* immutable; `count` of them */
    struct gy_turn turns[GY_STREAMS_MAX]; /* see above */
};

/* `count` includes GD and is at least 2.
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_MUST_CHECK gantry_status gy_launchers_create(struct gantry_dispatcher *dispatcher, uint32_t count,
                                                    struct gy_launchers **out);
/* To be called when GD has ended.  NULL is ignored. */
void gy_launchers_destroy(struct gy_launchers *launchers);

/* GD: does it pay to call this many callbacks at once? */
bool gy_launchers_want(struct gy_launchers *launchers, uint32_t count);

/* GD: call the first `count` turns, except those that are not `ready`.  All have returned then. */
void gy_launchers_run(struct gy_launchers *launchers, uint32_t count);

/* GD, after a group: the first `count` turns have RETURNED if they were called; the others are EMPTY. */
bool gy_turns_are_valid(const struct gy_launchers *launchers, uint32_t count);

/* In a callback: between the two, no other callback of the group runs.  They do nothing outside of a group.
 */
void gy_launch_begin_alone(struct gantry_launch *launch);
void gy_launch_end_alone(struct gantry_launch *launch);
/* The caller is alone and has made a barrier: work that the group launches from now on comes after it. */
GANTRY_MUST_CHECK gantry_status gy_launch_wait_barrier_all(struct gantry_launch *launch);

/* In a callback: between the two, no other thread adds completions or takes or leaves deferred blocks. */
static inline void gy_launch_lock(struct gantry_launch *launch) GY_NO_ANALYSIS
{
    if (launch->launcher != NULL) {
        gy_mutex_lock(&launch->launcher->all->lock);
    }
}

static inline void gy_launch_unlock(struct gantry_launch *launch) GY_NO_ANALYSIS
{
    if (launch->launcher != NULL) {
        gy_mutex_unlock(&launch->launcher->all->lock);
    }
}

/* In a callback: count the work that it has launched. */
static inline void gy_launch_count(const struct gantry_launch *launch, _Atomic(uint64_t) *counter, uint64_t n)
{
    if (__builtin_expect(launch->launcher != NULL, 0)) {
        atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
    } else {
        gy_gd_count(counter, n);
    }
}

#endif
