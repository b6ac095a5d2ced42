/* SPDX-License-Identifier: MIT */
#include "dispatcher/call/callback.h"

#include "base/checking.h"
#include "base/handle.h"
#include "base/proof.h"
#include "base/span.h"
#include "dispatcher/call/calls.h"
#include "dispatcher/call/stand_in.h"
#include "dispatcher/call/unjoined.h"
#include "dispatcher/submit/plan.h"
#include "taskman/checks.h"

#include <assert.h>
#include <stdio.h>

void gy_callback_tell(const gantry_task *task)
{
    char what[96];
    snprintf(what, sizeof(what), "the launch callback of '%.60s'", gy_task_label(task));
    gy_inside_tell(what);
}

static gantry_launch_result enter(struct gantry_launch *launch)
{
    gantry_task *task = launch->task;
    const struct gy_proof_ops *proof = gy_proof();
    if (proof != NULL) {
        const struct gy_proof_task about = gy_task_for_proof(task);
        proof->launch_begin(&about);
    }
    gantry_launch_result result = gy_callback_enter(launch, task, launch->dispatcher->config.context);
    if (proof != NULL) {
        proof->launch_end(task);
    }
    return result;
}

/* On a stale thread, what goes to streams is another thread's to call. */
static gantry_launch_result call(struct gantry_launch *launch)
{
    const bool is_stale = (atomic_load_explicit(&launch->dispatcher->watching.why, memory_order_relaxed) &
                           GY_WATCHED_STALE) != 0;
    return is_stale && !gy_mode_is_noted(launch) ? gy_stand_in_call(launch, enter) : enter(launch);
}

/* Call the callback; its calls are noted, and work that it leaves on other streams is looked for. */
static gantry_launch_result call_checked(struct gantry_launch *launch)
{
    gantry_task *task = launch->task;
    struct gy_calls *calls = gy_plan_calls(task);
    const bool looks_for_forks = (launch->dispatcher->watching.checks & GY_CHECK_FORKS) != 0;
    launch->calls = calls;
    if (calls != NULL) {
        gy_calls_begin(calls, launch->index);
    }
    if (looks_for_forks) {
        gy_unjoined_begin(launch);
    }
    gantry_launch_result result = call(launch);
    if (looks_for_forks) {
        gy_unjoined_end(launch, result);
    }
    if (calls != NULL) {
        gy_calls_end(calls, task, result);
    }
    return result;
}

gantry_launch_result gy_callback_call_watched(struct gantry_launch *launch, uint64_t span)
{
    assert(gy_launch_is_valid(launch));
    gantry_task *task = launch->task;
    const struct gy_span_ranges *ranges =
        gy_span_push(span, GY_RANGE_TASK + gy_task_kind(task), gy_task_label(task));
    bool is_checked = (launch->dispatcher->watching.checks & GY_CHECK_HANDLES) != 0;
    if (span != 0) {
        launch->flow = gy_task_flow(task);
    }
    if (is_checked) {
        gy_handle_born(GY_HANDLE_LAUNCH, launch, sizeof(*launch), sizeof(*launch));
    }
    gantry_launch_result result = call_checked(launch);
    if (is_checked) {
        gy_handle_died(launch);
    }
    gy_span_pop(ranges);
    if (span != 0) {
        gy_span_add_flow(launch->flow);
        gy_span_end(GY_SPAN_LAUNCH, gy_task_label(task), span, gy_task_context_id(task));
    }
    return result;
}
