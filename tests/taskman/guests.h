/* SPDX-License-Identifier: MIT */
/* What the tests of guests share: threads that wait and run tasks in the place of workers that sleep. */
#ifndef TESTS_TASKMAN_GUESTS_H
#define TESTS_TASKMAN_GUESTS_H

#include "tests/taskman/fixture.h"

#include "taskman/cpu/worker.h"

#include <pthread.h>
#include <sched.h>

/* Wait until all workers sleep and can be borrowed. */
static inline void await_sleep(gantry_cpu_dispatcher *pool)
{
    for (uint32_t i = 0; i < pool->worker_count; i++) {
        while (atomic_load(&pool->workers[i].holder) != GY_WORKER_ASLEEP) {
            sched_yield();
        }
    }
}

/* The threads that run bodies. */
struct where {
    pthread_t caller;
    atomic_int here, elsewhere;
};

static inline gantry_status where_body(gantry_task *task, void *arg)
{
    (void)task;
    struct where *where = arg;
    atomic_fetch_add(pthread_equal(pthread_self(), where->caller) ? &where->here : &where->elsewhere, 1);
    return GANTRY_OK;
}

#endif
