/* SPDX-License-Identifier: MIT */
/* The gate between a batch that is noted and the threads that wait for its launch, or forbid batches.
 *
 * GD is the dispatcher's thread, which opens and closes it around each batch. */
#ifndef DISPATCHER_SUBMIT_LAUNCH_GATE_H
#define DISPATCHER_SUBMIT_LAUNCH_GATE_H

#include "base/status.h"
#include "base/thread.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct gantry_taskman;

#define GY_GATE_SEVERAL ((const struct gantry_taskman *)(uintptr_t)1) /* work of more than one manager */

struct gy_launch_gate {
    gy_mutex lock;    /* rank LEAF */
    gy_cond launched; /* a thread waits for `open` to become false */
    _Atomic(uint32_t)
        waiting;              /* atomic: the number of threads in wait_launched; the capture shall end soon */
    uint32_t pauses;          /* guarded by lock: the number of threads that forbid captures for a moment */
    _Atomic(uint64_t) closes; /* atomic; written under lock: captures that were launched or given up */
    _Atomic(bool) open;       /* atomic; written under lock: something is captured that is not launched yet */
    _Atomic(const struct gantry_taskman *) holds; /* atomic; written by GD: the manager whose work that is;
                                                     NULL: none yet */
    uint64_t spin_budget_ns; /* immutable; how long a waiting thread spins before it sleeps */
};

GANTRY_MUST_CHECK gantry_status gy_launch_gate_init(struct gy_launch_gate *gate, uint64_t spin_budget_ns);
void gy_launch_gate_fini(struct gy_launch_gate *gate);

/* Any thread but GD: no capture is under way or begins between these two, since calls on a whole green
 * context would break it.  The caller must not block in between. */
void gy_launch_gate_pause(struct gy_launch_gate *gate);
void gy_launch_gate_resume(struct gy_launch_gate *gate);

/* GD: the first waits for threads that pause captures, and from then on a capture may be under way; the
 * second ends that. */
void gy_launch_gate_open(struct gy_launch_gate *gate);
void gy_launch_gate_close(struct gy_launch_gate *gate);

/* Any thread: wait until everything of `manager` that was noted so far was launched, however soon the next
 * batch begins.  Its tasks were released. */
void gy_launch_gate_wait(struct gy_launch_gate *gate, const struct gantry_taskman *manager);
/* GD: work of `manager` is being noted, before its task is released. */
static inline void gy_launch_gate_note(struct gy_launch_gate *gate, const struct gantry_taskman *manager)
{
    const struct gantry_taskman *holds = atomic_load_explicit(&gate->holds, memory_order_relaxed);
    if (__builtin_expect(holds != manager, 0)) {
        atomic_store_explicit(&gate->holds, holds == NULL ? manager : GY_GATE_SEVERAL, memory_order_relaxed);
    }
}

#endif
