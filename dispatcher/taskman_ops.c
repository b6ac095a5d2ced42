/* SPDX-License-Identifier: MIT */
#include "dispatcher/taskman_ops.h"

#include "base/clock.h"
#include "base/point.h"
#include "base/span.h"
#include "base/times.h"
#include "base/waiter.h"
#include "dispatcher/call/asked.h"
#include "dispatcher/done/when_done.h"
#include "dispatcher/internal.h"
#include "dispatcher/loop/current.h"
#include "dispatcher/loop/guest.h"
#include "profile/session.h"

#include <assert.h>
#include <stdio.h>

static gantry_status adopt_failure(gantry_dispatcher *d, const gantry_taskman *manager)
{
    gy_launch_gate_wait(&d->graphs.gate, manager); /* a step is over when its work was launched, not noted */
    if (!gy_context_is_lost(d->config.context)) {
        return GANTRY_OK;
    }
    return gy_context_adopt_loss(d->config.context);
}

static gantry_status step_begin(gantry_dispatcher *d, bool is_helped)
{
    gy_profile_step_begin();
    gantry_status status = GANTRY_OK;
    if (gy_context_is_stopped(d->config.context)) {
        status = gy_context_adopt_stop(d->config.context);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    atomic_fetch_add(&d->told.open_steps, 1);
    if (__builtin_expect(!gy_replan_is_still(d),
                         0)) { /* who changes it sees the step, or we see the change */
        atomic_fetch_sub(&d->told.open_steps, 1);
        return GY_FAIL(GANTRY_ERR_STATE,
                       "start: another thread gives the context another plan of partitions");
    }
    if (d->config.wait != GANTRY_WAIT_BLOCK && !is_helped) {
        /* The dispatcher's thread wakes up while the caller still looks for the first tasks, or spins for
         * longer from now on. */
        gy_inbox_signal(&d->inbox);
    }
    return GANTRY_OK;
}

static void step_announced(gantry_dispatcher *d)
{
    if (gy_waiter_spins_first(d->config.wait)) {
        gy_wake_hint_give(&d->told.announced, gy_clock_ns() + GY_ANNOUNCED_NS);
        gy_inbox_signal(&d->inbox);
    }
}

static void guest_comes(gantry_dispatcher *d)
{
    if (gy_guest_may_help(d)) {
        gy_inbox_expect_guest(&d->inbox);
    }
}

static uint64_t step_begun(gantry_dispatcher *d)
{
    uint64_t soon_ns = 0;
    if (gy_replan_try_begin(d)) { /* the step may be over already */
        soon_ns = gy_rings_expect(&d->completion);
        gy_replan_call_end(d);
    }
    return soon_ns;
}

static bool next_end(gantry_dispatcher *d, const gantry_taskman *manager, bool may_help,
                     struct gy_lookout *out)
{
    bool is_known = false;
    if (gy_replan_try_begin(d)) { /* another thread may have ended the step */
        is_known = gy_rings_next_end(&d->completion, manager, may_help && gy_guest_may_help(d), out);
        gy_replan_call_end(d);
    }
    return is_known;
}

/* This is before any thread can run the tasks, and so end the recording. */
static void record_submission(gantry_task *first, gantry_task *last)
{
    uint64_t begin = gy_span_begin(), count = 1;
    gy_span_add_flow(gy_task_releasing_flow());
    gy_span_add_flow(gy_task_flow(first));
    for (gantry_task *task = first; task != last; count++) {
        task = task->next;
        gy_span_add_flow(gy_task_flow(task));
    }
    char name[64];
    if (count == 1) {
        snprintf(name, sizeof(name), "submit %s", gantry_task_label(first));
    } else {
        snprintf(name, sizeof(name), "submit %llu tasks", (unsigned long long)count);
    }
    gy_span_end(GY_SPAN_SUBMIT, name, begin, count);
}

static inline void deliver(gantry_dispatcher *d, gantry_task *first, gantry_task *last)
{
    if (gy_gd_current == d) {
        gy_gpu_list_append(&d->loop.local, first,
                           last); /* the dispatcher's thread polls it when the release returns */
    } else {
        gy_inbox_push(&d->inbox, first, last);
    }
}

static GY_COLD void deliver_recorded(gantry_dispatcher *d, gantry_task *first, gantry_task *last)
{
    record_submission(first, last);
    deliver(d, first, last);
}

/* Path of a task, step 3 of 9: a ready GPU task reaches the dispatcher. */
static void submit(gantry_dispatcher *d, gantry_task *first, gantry_task *last)
{
    gy_point(GY_POINT_PATH_3, first);
    if (gy_span_on()) {
        deliver_recorded(d, first, last);
    } else {
        deliver(d, first, last);
    }
}

/* The same from a thread that is likely to be a guest at once. */
static void submit_for_guest(gantry_dispatcher *d, gantry_task *first, gantry_task *last)
{
    if (!gy_guest_may_help(d) || gy_span_on() || gy_gd_current == d) {
        guest_comes(d);
        submit(d, first, last);
        return;
    }
    gy_point(GY_POINT_PATH_3, first);
    gy_inbox_push_for_guest(&d->inbox, first, last);
}

static gantry_dispatcher *on_device(gantry_dispatcher *d, const gantry_context *context, uint32_t *device)
{
    *device = 0;
    return context == NULL || context == d->config.owner ? d : NULL;
}

static uint32_t partition_number(gantry_dispatcher *d, const gantry_partition *partition, uint32_t *device)
{
    *device = 0;
    return partition->owner == d->config.partitions ? partition->info.index + 1 : 0;
}

static bool has_freed(gantry_dispatcher *d, const void *at)
{
    struct gy_heap_look look;
    return gy_heap_look(d->config.heap, at, &look) == GY_HEAP_NOT_LIVE;
}

static void merge_deps(gantry_dispatcher *d, gantry_task *predecessor, gantry_task *successor)
{
    gy_wait_set_merge(&d->wait_sets, &successor->wait_set,
                      atomic_load_explicit(&predecessor->wait_set, memory_order_acquire));
}

static void drop_deps(gantry_dispatcher *d, gantry_task *task)
{
    /* Only the thread that releases the task still looks at its wait set. */
    gy_wait_set_drop(&d->wait_sets, atomic_load_explicit(&task->wait_set, memory_order_acquire));
}

bool gy_dispatcher_isolate(gantry_taskman *manager)
{
    gantry_dispatcher *d = gantry_taskman_gpu_dispatcher(manager);
    const struct gy_gpu_facts *facts = gy_manager_facts(manager);
    if (d == NULL || facts->order == NULL || facts->share != NULL || !gy_replan_try_begin(d)) {
        return false;
    }
    /* What waits in front of a manager's work would be charged as its GPU time, so with shares there are
     * none. */
    const bool has_own =
        d->member.fleet == NULL && !gy_shares_any(&d->shares) && gy_step_order_isolate(facts->order);
    gy_replan_call_end(d);
    return has_own;
}

static struct gy_gpu_memory *memory_open(gantry_dispatcher *d, gantry_taskman *manager, const uint64_t *bytes)
{
    return gy_admission_open(&d->admission, manager, bytes);
}

static void memory_close(gantry_dispatcher *d, struct gy_gpu_memory *memory)
{
    gy_admission_close(&d->admission, memory);
}

static void memory_count(gantry_dispatcher *d, struct gy_gpu_memory *memory, const gantry_task *task,
                         bool is_released)
{
    (void)task;
    if (is_released) {
        gy_admission_end(&d->admission, memory);
    } else {
        gy_admission_begin(memory);
    }
}

static void cancelled(gantry_dispatcher *d)
{
    atomic_fetch_add(&d->told.cancels, 1);
    gy_inbox_signal(&d->inbox);
}

static uint64_t tell(gantry_dispatcher *d, enum gy_gpu_news news)
{
    switch (news) {
    case GY_GPU_STEP_ANNOUNCED:
        step_announced(d);
        break;
    case GY_GPU_GUEST_COMES:
        guest_comes(d);
        break;
    case GY_GPU_STEP_BEGUN:
        return step_begun(d);
    case GY_GPU_STEP_ENDED:
        assert(atomic_load(&d->told.open_steps) > 0);
        if (atomic_fetch_sub(&d->told.open_steps, 1) == 1) {
            atomic_store(&d->told.streams_due, true);
            gy_inbox_note(&d->inbox); /* soon enough before the next task */
        }
        break;
    case GY_GPU_CANCELLED:
        cancelled(d);
        break;
    case GY_GPU_QUIET:
        gy_admission_quiet(&d->admission);
        break;
    }
    return 0;
}

static gantry_status share_open(gantry_dispatcher *d, const gantry_share *share, struct gy_gpu_share **out)
{
    struct gy_quota *quota = NULL;
    gantry_status status = gy_replan_call_begin(d, "gantry_taskman_create");
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_shares_open(&d->shares, share, &quota);
    gy_replan_call_end(d);
    *out = (struct gy_gpu_share *)quota;
    return status;
}

static void share_usage(struct gy_gpu_share *share, gantry_share_usage *out)
{
    gy_quota_usage((struct gy_quota *)share, out);
}

static gantry_status make_plan(gantry_dispatcher *d, gantry_taskman *manager, struct gy_gpu_plan **out)
{
    return gy_plan_make(&d->plans, manager, GY_PLAN_ALL_DEVICES, out);
}

static void detach(gantry_dispatcher *d, const struct gy_gpu_seat *seat)
{
    if (seat->share != NULL) {
        gy_shares_close_quota((struct gy_quota *)seat->share);
    }
    if (seat->order != NULL) {
        gy_step_order_close(seat->order);
    }
    if (seat->user != NULL) {
        gy_users_remove(seat->user);
    }
    gy_mutex_lock(&d->users.lock);
    assert(d->users.count > 0);
    bool is_last = --d->users.count == 0;
    void (*last)(void *user) = is_last ? d->users.last : NULL;
    void *last_user = d->users.last_user;
    gy_mutex_unlock(&d->users.lock);
    if (last != NULL) {
        last(last_user);
    }
}

static gantry_status attach(gantry_dispatcher *d, struct gy_gpu_seat *seat)
{
    if (seat->user != NULL) {
        gy_users_add(&d->users.managers, seat->user);
    }
    gy_mutex_lock(&d->users.lock);
    d->users.count++;
    gy_mutex_unlock(&d->users.lock);
    gantry_status status = seat->wanted != NULL ? share_open(d, seat->wanted, &seat->share) : GANTRY_OK;
    if (status == GANTRY_OK && seat->is_ordered) {
        seat->order = gy_step_order_open(&d->streams);
        status = seat->order != NULL ? GANTRY_OK
                                     : GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY,
                                               "task manager: no memory for the order of its steps");
    }
    if (status != GANTRY_OK) {
        detach(d, seat);
    }
    return status;
}

const struct gy_gpu_ops gy_dispatcher_ops = {
    .attach = attach,
    .detach = detach,
    .step_begin = step_begin,
    .tell = tell,
    .adopt_failure = adopt_failure,
    .next_end = next_end,
    .submit = submit,
    .merge_deps = merge_deps,
    .drop_deps = drop_deps,
    .when_done = gy_when_done,
    .is_unawaited = gy_is_unawaited,
    .plan = make_plan,
    .share_usage = share_usage,
    .partition_number = partition_number,
    .on_device = on_device,
    .ask = gy_asked_call,
    .has_freed = has_freed,
    .memory = {.open = memory_open, .close = memory_close, .count = memory_count},
    .guests = {.enter = gy_guest_enter,
               .look = gy_guest_look_at_gpu,
               .leave = gy_guest_leave,
               .submit = submit_for_guest},
};
