/* SPDX-License-Identifier: MIT */
/* Sizes, settings and tasks for tests of managers that wait for declared memory. */
#ifndef TESTS_SUPPORT_MEMORY_SCENE_H
#define TESTS_SUPPORT_MEMORY_SCENE_H

#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include <sched.h>
#include <stdatomic.h>

#define MIB ((uint64_t)1 << 20)
#define ROOM (64 * MIB)           /* of a device */
#define MOST (ROOM / 2 + 8 * MIB) /* two of these do not fit beside each other */

static _Atomic(bool) gate; /* atomic; tasks of submit_gate() end when it is opened */

/* Settings of a context with ROOM; `heap` must live as long as `options` are used. */
static inline void memory_scene_settings(gantry_context_options *options, gantry_heap_options *heap)
{
    options->driver = gpu_fixture_driver();
    options->heap = heap;
    options->completion_wait = GANTRY_WAIT_BLOCK; /* this shows when a dispatcher has nothing to do */
    heap->limit_bytes[GANTRY_MEMORY_DEVICE] = ROOM;
    atomic_store(&gate, false);
}

static inline gantry_launch_result launch_nothing(gantry_launch *launch, void *arg)
{
    (void)launch;
    (void)arg;
    return GANTRY_LAUNCH_DONE;
}

static inline gantry_status await_gate(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    while (!atomic_load(&gate)) {
        sched_yield();
    }
    return GANTRY_OK;
}

/* Submit a task that starts after `after`; NULL: after nothing. */
static inline gantry_task *submit_behind(gantry_taskman *manager, gantry_task *after,
                                         const gantry_task_desc *desc)
{
    gantry_task *task = NULL;
    assert_ok(gantry_taskman_submit(manager, desc, &task));
    if (after != NULL) {
        assert_ok(gantry_task_start_after(task, after));
    }
    return task;
}

/* Submit a CPU task that ends when the gate is opened; it holds the memory if it names some. */
static inline gantry_task *submit_gate(gantry_taskman *manager, gantry_task *after, uint32_t memory)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = await_gate;
    desc.memory = memory;
    return submit_behind(manager, after, &desc);
}

#endif
