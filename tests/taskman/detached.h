/* SPDX-License-Identifier: MIT */
/* A body that detaches its task, and who completes it, for the tests of detached tasks. */
#ifndef TESTS_TASKMAN_DETACHED_H
#define TESTS_TASKMAN_DETACHED_H

#include "tests/taskman/fixture.h"

#include "base/thread.h"
#include "tests/support/stops.h"

#include <gantry/detach.h>

/* What a body that detaches its task does, and who has the handle then. */
struct work {
    gantry_detach_options options;
    bool has_options;
    bool completes;                  /* in its body */
    bool exits;                      /* by pthread_exit(), behind the call */
    gantry_status returns;           /* by the body */
    gantry_status refusal;           /* a second call in the same body */
    _Atomic(gantry_detached) handle; /* 0: the body has not come so far */
    atomic_int begun, told, released;
    _Atomic(int) why, result;
};

static inline gantry_status detach_body(gantry_task *task, void *arg)
{
    struct work *work = arg;
    gantry_detached handle = 0, second = 7;
    gantry_status status = work->has_options ? gantry_task_detach_with(task, &work->options, &handle)
                                             : gantry_task_detach(task, &handle);
    if (status != GANTRY_OK) {
        return status;
    }
    work->refusal = work->returns == GANTRY_OK ? gantry_task_detach(task, &second) : GANTRY_OK;
    atomic_fetch_add(&work->begun, 1);
    if (work->completes) {
        status = gantry_task_complete(handle, GANTRY_OK, NULL);
    }
    atomic_store(&work->handle, handle);
    if (work->exits) {
        pthread_exit(NULL);
    }
    return status != GANTRY_OK ? status : work->returns;
}

static inline void hear_release(gantry_task *task, void *arg, gantry_status result)
{
    struct work *work = arg;
    (void)task;
    atomic_store(&work->result, result);
    atomic_fetch_add(&work->released, 1);
}

static inline gantry_task *add_detached(gantry_taskman *manager, const char *label, struct work *work)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.label = label;
    desc.run = detach_body;
    desc.release = hear_release;
    desc.arg = work;
    gantry_task *task = NULL;
    assert_ok(gantry_taskman_submit(manager, &desc, &task));
    return task;
}

static inline gantry_detached await_handle(struct work *work)
{
    deadline_await(atomic_load(&work->handle) != 0, "the body");
    return atomic_exchange(&work->handle, 0);
}

static inline void await_state(const gantry_task *task, gantry_task_state state)
{
    deadline_await(gantry_task_get_state(task) == state, "the task's state");
}

struct later {
    struct work *work;
    gantry_status status;
    const char *text;
    gantry_status got;
    gy_thread thread;
};

static inline void complete_later(void *arg)
{
    struct later *later = arg;
    later->got = gantry_task_complete(await_handle(later->work), later->status, later->text);
}

static inline void begin_later(struct later *later)
{
    assert_ok(gy_thread_start(&later->thread, "holder", complete_later, later));
}

#endif
