/* SPDX-License-Identifier: MIT */
/**
 * @file bandwidth.h
 * The bandwidth gate: loops that eat memory bandwidth give way while something runs that needs it more.
 *
 * A task with gantry_task_desc.bandwidth_critical raises the gate while its body runs; so may any thread.
 * Long loops call gantry_bandwidth_yield() every now and then, say once per 100 µs of work: next to nothing
 * while the gate is down; while it is raised, the caller gives way, so that what it would read and write is
 * left to others. Memory is the machine's, so there is one gate in a process.  docs/guides/bandwidth.md has
 * the whole picture.
 *
 * Nobody starves: a thread is held back for at most `most_held_ns` in one go, and within any L nanoseconds
 * for at most most_held_ns + (100 - run_percent) % of L, however long the gate is raised.
 *
 * Threading: any thread.
 */
#ifndef GANTRY_BANDWIDTH_H
#define GANTRY_BANDWIDTH_H

#include <gantry/base.h>

GANTRY_BEGIN_DECLS

/** How many have raised the gate and not lowered it yet.  For gantry_bandwidth_yield(); written by the
 * library alone. */
GANTRY_API extern uint32_t gantry_bandwidth_raised;

/** What gantry_bandwidth_yield() calls when the gate is raised, and does the same, for callers that cannot
 *  use inline functions of C. */
GANTRY_API void gantry_bandwidth_wait(void);

/** Let those who need memory bandwidth more go first.  Returns at once when the gate is down, and in a thread
 *  that has raised it itself, runs a bandwidth-critical task, or takes part in a gantry_parallel_for() of
 * one. Not from launch callbacks, nor with a lock held that others wait for. */
static inline void gantry_bandwidth_yield(void)
{
#if defined(__GNUC__)
    if (__builtin_expect(__atomic_load_n(&gantry_bandwidth_raised, __ATOMIC_RELAXED) != 0, 0)) {
        gantry_bandwidth_wait();
    }
#else
    gantry_bandwidth_wait();
#endif
}

/** Raise the gate until the same thread lowers it.  Nests, and counts: it is down when all have lowered it.
 */
GANTRY_API void gantry_bandwidth_gate_raise(void);
/** Lower the gate that this thread has raised.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_STATE  the calling thread has not raised it */
GANTRY_API gantry_status gantry_bandwidth_gate_lower(void);

/** How a loop gives way while the gate is up. */
typedef enum gantry_bandwidth_way {
    GANTRY_BANDWIDTH_SLEEP = 0, /* it sleeps until the gate is down, within the bounds below: its core is
                                 * free, and its memory traffic stops */
    GANTRY_BANDWIDTH_YIELD = 1, /* sched_yield(), once a call: it gives way to threads that wait for a CPU,
                                 * and to nobody where there are CPUs for all; the bounds do not count */
} gantry_bandwidth_way;

/** Of the process.  The defaults hold a loop for so little that it costs nothing where memory is not what is
 * short; where it is, longer holds and a lower share help more (docs/guides/bandwidth.md). */
typedef struct gantry_bandwidth_settings {
    size_t struct_size;
    uint64_t most_held_ns; /* at most a second; 0: 100 us */
    uint32_t run_percent;  /* what a thread keeps of its time while the gate stays up, 1 to 99; 0: 90 */
    uint32_t way;          /* of enum gantry_bandwidth_way; 0: sleep */
} gantry_bandwidth_settings;
#define GANTRY_BANDWIDTH_SETTINGS_INIT             \
    {                                              \
        sizeof(gantry_bandwidth_settings), 0, 0, 0 \
    }

/** Counts from the next wait on.  `settings` NULL: defaults.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  a value out of range
 *  @retval GANTRY_ERR_UNSUPPORTED       a field this version does not know is set */
GANTRY_API GANTRY_MUST_CHECK gantry_status
gantry_bandwidth_configure(const gantry_bandwidth_settings *settings);

/** Since the process began. */
typedef struct gantry_bandwidth_stats {
    size_t struct_size;    /* in: sizeof of the caller */
    uint64_t raises;       /* by tasks and by calls, nested ones too */
    uint64_t raised_ns;    /* time in which the gate was up; what lasts still is not in it */
    uint64_t holds;        /* yields that have given way */
    uint64_t held_ns;      /* how long, all threads together */
    uint64_t most_held_ns; /* the longest of these */
    uint64_t bounded;      /* of the holds, those that ended although the gate was up */
    uint64_t passes;       /* yields that did not wait, since their thread had been held back enough */
} gantry_bandwidth_stats;

/** What the gate has done in this process so far.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, struct_size too small */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_bandwidth_get_stats(gantry_bandwidth_stats *stats);

GANTRY_END_DECLS

#endif
