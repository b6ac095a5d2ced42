/* SPDX-License-Identifier: MIT */
/* Waiting: workers for tasks, everybody else for the end of a step or a loop. */
#ifndef TASKMAN_CPU_WAIT_H
#define TASKMAN_CPU_WAIT_H

#include "base/foresight.h"
#include "taskman/cpu/worker.h"

/* The condition that a thread waits for, and the work it does meanwhile. */
struct gy_wait {
    /* Is read with sequentially consistent loads.  It is asked to be `thorough` before the thread sleeps; one
     * that is expensive may answer false otherwise. */
    bool (*condition)(void *user, bool thorough);
    void *user;
    /* Does what else there is to do for the owner; true when anything was done.  A thread that helps may hold
     * places of others until stop_helping(), which comes before the thread runs a body, sleeps or returns.
     * NULL, both: there is nothing. */
    bool (*help)(void *user);
    void (*stop_helping)(void *user);
    /* When to look for the end of what the owner's tasks wait for; false: that is not known.  It reads with
     * sequentially consistent loads whether it is.  NULL: it never is. */
    bool (*next_end)(void *user, struct gy_lookout *out);
    /* Is called when the thread has slept for `remind_ns` and nobody had news; NULL: never. */
    void (*remind)(void *user);
    uint64_t remind_ns;
    _Atomic(uint64_t) *spin_budget_ns; /* how long to spin before that, unless the wait mode has none of it;
                                        * it learns; NULL: a little */
    struct gy_task_owner *owner;       /* whose tasks may be run meanwhile; NULL: nobody's */
    struct gy_worker *self; /* that the thread has borrowed with gy_guest_begin(); NULL: none yet */
};

/* Block until the condition holds.  The caller of an inline-only pool runs all that is queued meanwhile. */
void gy_pool_wait(gantry_cpu_dispatcher *pool, const struct gy_wait *wait);

/* CPU tasks are likely to come within `ns`: if workers sleep when idle, but not at once, then one of them
 * stays awake for them, or wakes up.  Any thread. */
void gy_pool_expect(gantry_cpu_dispatcher *pool, uint64_t ns);

/* The owner's next_end() says from now on that an end is to be looked for from then on: a thread that waits
 * for the owner and would sleep longer asks anew.  Any thread. */
void gy_pool_foretell_end(struct gy_task_owner *owner, uint64_t from_ns);

/* Then: a CPU task of the owner will come within `ns`, if all goes as it did lately.  If no thread waits for
 * the owner, gy_pool_expect() finds a worker for it; who waits is awake, or wakes up now.  Any thread. */
void gy_pool_expect_end(struct gy_task_owner *owner, uint64_t ns);

/* A worker's thread: runs tasks until the pool is stopping and nothing is left. */
void gy_worker_main(void *worker);

/* Run `task`, and then the tasks that it leaves to the same thread. */
void gy_worker_run_here(gantry_cpu_dispatcher *pool, gantry_task *task);

/* Run the queued tasks of an inline-only pool. */
void gy_pool_drain_inline(gantry_cpu_dispatcher *pool);

#endif
