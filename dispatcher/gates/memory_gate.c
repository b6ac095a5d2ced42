/* SPDX-License-Identifier: MIT */
/* The gate of declared memory: a task passes when its declared memory is held for it (admission.h). */
#include "dispatcher/gates/gate.h"
#include "dispatcher/loop/release.h"

#include <assert.h>

static bool is_valid(const struct gantry_dispatcher *d)
{
    return gy_admission_is_valid(&d->admission);
}

/* A task that will be released without a call needs no memory. */
static bool admits(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task)
{
    (void)round;
    bool passes = gy_context_is_lost(d->config.context) || !gy_task_may_begin(task) ||
                  gy_admission_enter(&d->admission, task, gy_admission_memory(task));
    assert(is_valid(d));
    return passes;
}

/* A task fails if there will never be enough memory for it. */
static void poll(struct gantry_dispatcher *d, struct gy_round *round, bool all)
{
    (void)round;
    (void)all;
    gy_admission_poll(&d->admission);
    for (gantry_task *task; (task = gy_gpu_list_pop(&d->admission.refused)) != NULL;) {
        gy_gd_release_failed(d, task, gy_admission_fail(&d->admission, gy_admission_memory(task)));
    }
}

static gantry_task *next(struct gantry_dispatcher *d)
{
    return gy_gpu_list_pop(&d->admission.ready);
}

static void cancel(struct gantry_dispatcher *d, struct gy_round *round)
{
    (void)round;
    gy_admission_cancel(&d->admission);
}

static void last_look(struct gantry_dispatcher *d)
{
    gy_admission_idle(&d->admission);
}

const struct gy_gate gy_gate_memory = {.name = "memory",
                                       .admits = admits,
                                       .poll = poll,
                                       .next = next,
                                       .cancel = cancel,
                                       .last_look = last_look,
                                       .is_valid = is_valid};
