/* SPDX-License-Identifier: MIT */
#include "fleet/route.h"

#include "base/span.h"
#include "dispatcher/internal.h"
#include "dispatcher/loop/current.h"
#include "dispatcher/loop/release.h"
#include "dispatcher/order/export.h"
#include "dispatcher/submit/plan.h"
#include "fleet/fleet_ops.h"

#include <assert.h>

static uint64_t wait_set_of(const gantry_task *task)
{
    return atomic_load_explicit(&task->wait_set, memory_order_acquire);
}

/* ---- where to ------------------------------------------------------------------------------- */

/* Has the host seen all of `clock` pass on the device? */
static bool has_passed(const gantry_dispatcher *d, const struct gy_clock *clock)
{
    for (uint64_t left = clock->streams; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        if (atomic_load_explicit(&d->streams.streams[i].completed, memory_order_acquire) < clock->seq[i]) {
            return false;
        }
    }
    return true;
}

/* The devices with work that the task comes after, and may have to wait for.  A task of a replay unit that
 * comes after another one of it is covered by that one's waits, and may be part of a recording, which nothing
 * leaves. */
static uint32_t find_visits(const struct gy_fleet *fleet, const gantry_task *task,
                            struct gy_crossing *crossing, uint32_t home)
{
    uint32_t visits = 0;
    const bool is_inside = gy_task_is_gpu(task) && gy_plan_is_inside(task);
    for (uint32_t e = 0; e < fleet->count; e++) {
        if (e == home) {
            continue;
        }
        if (!is_inside && crossing->of[e].streams != 0 && !has_passed(fleet->members[e], &crossing->of[e])) {
            visits |= 1u << e;
        }
        if (crossing->bound != GY_BOUND_NONE &&
            !gy_step_order_is_clear(gy_task_order(task)->members[e], gy_task_run(task))) {
            visits |= 1u << e;
            crossing->orders |= 1u << e;
        }
    }
    return visits;
}

static uint32_t home_of(const gantry_task *task, const struct gy_crossing *crossing)
{
    return gy_task_is_gpu(task) ? task->device : crossing->home;
}

/* All exports have been taken along: from now on the crossing is the wait set of the task on its device. */
static void arrive(gantry_task *task, struct gy_crossing *crossing, uint32_t home)
{
    struct gy_clock *clock = &crossing->of[home];
    bool has_exports = false;
    crossing->flow = gy_span_on() ? gy_task_flow(task) : 0;
    for (uint32_t e = 0; e < crossing->pool->devices; e++) {
        has_exports |= crossing->exports[e] != NULL;
    }
    uint64_t wait_set = (uint64_t)(uintptr_t)clock;
    assert(crossing->visits == 0 && gy_crossing_is_valid(crossing));
    if (!has_exports && clock->streams == 0 && crossing->bound != GY_BOUND_NONE) {
        wait_set = GY_WAIT_SET_NONE; /* the first on its device in this step */
    } else if (!has_exports && crossing->bound == GY_BOUND_NONE && clock->streams != 0 &&
               (clock->streams & (clock->streams - 1)) == 0) {
        uint32_t stream = (uint32_t)__builtin_ctzll(clock->streams);
        wait_set = gy_timeline_point_on(home, stream, clock->seq[stream]);
    }
    atomic_store_explicit(&task->wait_set, wait_set, memory_order_release);
    if (gy_crossing_behind(wait_set) == NULL) {
        gy_crossing_drop(crossing);
    }
}

/* The next device on the way: where the calling thread is, if it has to go there, else any. */
static uint32_t next_stop(const struct gy_fleet *fleet, gantry_task *task, struct gy_crossing *crossing)
{
    assert(gy_crossing_is_valid(crossing));
    if (crossing->visits == 0) {
        uint32_t home = home_of(task, crossing);
        arrive(task, crossing, home);
        return home;
    }
    for (uint32_t left = crossing->visits; left != 0; left &= left - 1) {
        uint32_t e = (uint32_t)__builtin_ctz(left);
        if (fleet->members[e] == gy_gd_current) {
            return e;
        }
    }
    return (uint32_t)__builtin_ctz(crossing->visits);
}

/* The task travels no further: it will fail, and so will what depends on it, in whatever order. */
static GY_COLD void forget_way(gantry_task *task)
{
    uint64_t wait_set = wait_set_of(task);
    atomic_store_explicit(&task->wait_set, GY_WAIT_SET_NONE, memory_order_release);
    struct gy_crossing *crossing = gy_crossing_behind(wait_set);
    if (crossing != NULL) {
        gy_crossing_drop(crossing);
    }
}

/* Where a ready task goes first. */
static uint32_t first_stop(struct gy_fleet *fleet, gantry_task *task)
{
    uint64_t wait_set = wait_set_of(task);
    bool is_gpu = gy_task_is_gpu(task);
    const enum gy_step_bound_of bound = is_gpu ? gy_task_bound(task, wait_set) : GY_BOUND_NONE;
    if (bound == GY_BOUND_NONE && wait_set == GY_WAIT_SET_NONE) {
        return is_gpu ? task->device : 0;
    }
    if (bound == GY_BOUND_NONE && gy_wait_set_is_point(wait_set) &&
        (!is_gpu || gy_timeline_device(wait_set) == task->device)) {
        return gy_timeline_device(wait_set);
    }
    struct gy_crossing *crossing = gy_crossing_own(&fleet->crossings, &task->wait_set);
    if (crossing == NULL) {
        forget_way(task);
        gy_task_fail_early(task, GANTRY_ERR_OUT_OF_HOST_MEMORY);
        return is_gpu ? task->device : 0;
    }
    crossing->bound = bound;
    crossing->visits = find_visits(fleet, task, crossing, home_of(task, crossing));
    return next_stop(fleet, task, crossing);
}

static void send(const struct gy_fleet *fleet, uint32_t device, gantry_task *first, gantry_task *last)
{
    gantry_dispatcher *d = fleet->members[device];
    d->base.ops->submit(d, first, last);
}

void gy_fleet_submit(struct gy_fleet *fleet, gantry_task *first, gantry_task *last)
{
    struct gy_gpu_list lists[GY_FLEET_MAX] = {{NULL, NULL}};
    for (gantry_task *task = first, *next; task != NULL; task = next) {
        next = task != last ? task->next : NULL;
        gy_gpu_list_append(&lists[first_stop(fleet, task)], task, task);
    }
    for (uint32_t e = 0; e < fleet->count; e++) {
        if (lists[e].first != NULL) {
            send(fleet, e, lists[e].first, lists[e].last);
        }
    }
}

/* ---- visits --------------------------------------------------------------------------------- */

/* The work on this device that the visitor comes after: of its own step, and of the steps before. */
static gantry_status take_export(gantry_dispatcher *d, const gantry_task *task, struct gy_crossing *crossing)
{
    uint32_t here = d->streams.device;
    if ((crossing->orders >> here & 1u) != 0) {
        const struct gy_clock *left =
            gy_step_order_left(gy_task_order(task)->members[here], gy_task_run(task), crossing->bound);
        if (left != NULL) {
            gy_clock_add_clock(&crossing->of[here], left);
        }
    }
    uint64_t wait_set = (uint64_t)(uintptr_t)&crossing->of[here];
    return gy_export_make(&d->member.exports, &d->streams, wait_set, d->config.partitions->default_index,
                          &crossing->exports[here]);
}

/* When the task has ended nothing keeps the other dispatcher, which this thread may still be waking. */
static void send_on(gantry_dispatcher *d, uint32_t device, gantry_task *task)
{
    atomic_fetch_add(&d->member.sends, 1);
    send(d->member.fleet, device, task, task);
    atomic_fetch_add(&d->member.sends, 1);
}

/* A visit has failed.  A replay unit counts its roots, so its device must see this one, too. */
static GY_COLD void end_the_way(gantry_dispatcher *d, gantry_task *task, gantry_status why)
{
    forget_way(task);
    if (gy_task_is_gpu(task) && gy_plan_has_unit(task)) {
        gy_task_fail_early(task, why);
        send_on(d, task->device, task);
    } else {
        gy_gd_release_failed(d, task, why);
    }
}

void gy_fleet_visit(gantry_dispatcher *d, gantry_task *task)
{
    struct gy_crossing *crossing = gy_crossing_of(wait_set_of(task));
    if (gy_context_is_lost(d->config.context)) {
        end_the_way(d, task, gy_context_adopt_loss(d->config.context));
        return;
    }
    if (gy_batch_is_open(&d->streams.batch)) {
        gy_gpu_list_append(&d->member.visitors, task, task);
        return;
    }
    gantry_status status = take_export(d, task, crossing);
    if (status != GANTRY_OK) {
        end_the_way(d, task, status);
        return;
    }
    crossing->visits &= ~(1u << d->streams.device);
    send_on(d, next_stop(d->member.fleet, task, crossing), task);
}

void gy_fleet_let_go(gantry_dispatcher *d)
{
    for (gantry_task *task; (task = gy_gpu_list_pop(&d->member.visitors)) != NULL;) {
        gy_fleet_visit(d, task);
    }
}

gantry_status gy_fleet_settle(gantry_dispatcher *d, gantry_task *task)
{
    uint64_t wait_set = wait_set_of(task);
    if (gy_crossing_behind(wait_set) == NULL) {
        return GANTRY_OK; /* a point, or of a manager of this device alone */
    }
    if (gy_context_is_lost(d->config.context)) {
        return gy_context_adopt_loss(d->config.context);
    }
    uint32_t stream;
    uint64_t point;
    const gantry_status status =
        gy_placed_join(&d->streams, wait_set, d->config.partitions->default_index, 2, 1, &stream, &point);
    if (point != GY_WAIT_SET_NONE) {
        gy_wait_set_drop(&d->wait_sets, wait_set);
        atomic_store_explicit(&task->wait_set, point, memory_order_release);
    }
    return status;
}
