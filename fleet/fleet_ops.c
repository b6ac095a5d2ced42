/* SPDX-License-Identifier: MIT */
/* A fleet as taskman/ sees it: the table of a GPU dispatcher.  Features that it does not have stay NULL:
 * guests, which work for one device. */
#include "fleet/fleet_ops.h"

#include "base/alloc.h"
#include "dispatcher/internal.h"
#include "dispatcher/loop/current.h"
#include "dispatcher/order/export.h"
#include "fleet/fleet_gates.h"
#include "fleet/route.h"

#include <assert.h>
#include <sched.h>

static struct gy_fleet *fleet_of(gantry_dispatcher *self)
{
    return (struct gy_fleet *)(void *)self;
}

_Static_assert(GY_STALL_MEMBERS_MAX >= GY_FLEET_MAX, "a fleet's devices are one group");

/* ---- life ----------------------------------------------------------------------------------- */

void gy_fleet_leave(struct gy_fleet *fleet)
{
    gy_mutex_lock(&fleet->lock);
    bool is_last = --fleet->users == 0;
    gy_mutex_unlock(&fleet->lock);
    if (is_last) {
        gy_crossings_fini(&fleet->crossings);
        gy_mutex_fini(&fleet->lock);
        gy_free(fleet);
    }
}

/* All tasks of a manager have ended, but a thread that has handed one of them on may not be through with it.
 */
static void await_sends(struct gy_fleet *fleet)
{
    for (uint32_t e = 0; e < fleet->count; e++) {
        uint32_t sends = atomic_load(&fleet->members[e]->member.sends);
        while (sends % 2 != 0 && atomic_load(&fleet->members[e]->member.sends) == sends) {
            (void)sched_yield();
        }
    }
}

/* With the last manager of an abandoned member its context goes, which may need the fleet until then. */
static void detach(gantry_dispatcher *self, const struct gy_gpu_seat *seat)
{
    struct gy_fleet *fleet = fleet_of(self);
    await_sends(fleet);
    gy_users_remove(seat->user);
    gy_fleet_seat_leave(fleet, seat);
    gy_fleet_leave(fleet);
}

static gantry_status attach(gantry_dispatcher *self, struct gy_gpu_seat *seat)
{
    struct gy_fleet *fleet = fleet_of(self);
    gy_users_add(&fleet->managers, seat->user);
    gy_mutex_lock(&fleet->lock);
    fleet->users++;
    gy_mutex_unlock(&fleet->lock);
    gantry_status status = gy_fleet_seat_take(fleet, seat);
    if (status != GANTRY_OK) {
        gy_users_remove(seat->user);
        gy_fleet_leave(fleet);
    }
    return status;
}

static void signal_all(struct gy_fleet *fleet)
{
    for (uint32_t e = 0; e < fleet->count; e++) {
        gy_inbox_signal(&fleet->members[e]->inbox);
    }
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* Returns the earliest that a device forecasts. */
static uint64_t tell(gantry_dispatcher *self, enum gy_gpu_news news)
{
    struct gy_fleet *fleet = fleet_of(self);
    uint64_t soonest = 0;
    for (uint32_t e = 0; e < fleet->count; e++) {
        uint64_t ns = fleet->members[e]->base.ops->tell(fleet->members[e], news);
        soonest = ns != 0 && (soonest == 0 || ns < soonest) ? ns : soonest;
    }
    return soonest;
}

/* On all devices, or on none. */
static gantry_status step_begin(gantry_dispatcher *self, bool is_helped)
{
    struct gy_fleet *fleet = fleet_of(self);
    for (uint32_t e = 0; e < fleet->count; e++) {
        gantry_status status = fleet->members[e]->base.ops->step_begin(fleet->members[e], is_helped);
        while (status != GANTRY_OK && e-- > 0) {
            (void)fleet->members[e]->base.ops->tell(fleet->members[e], GY_GPU_STEP_ENDED);
        }
        if (status != GANTRY_OK) {
            return status;
        }
    }
    return GANTRY_OK;
}

static gantry_status adopt_failure(gantry_dispatcher *self, const gantry_taskman *manager)
{
    struct gy_fleet *fleet = fleet_of(self);
    gantry_status first = GANTRY_OK;
    for (uint32_t e = 0; e < fleet->count; e++) {
        gantry_status status = fleet->members[e]->base.ops->adopt_failure(fleet->members[e], manager);
        first = first == GANTRY_OK ? status : first;
    }
    return first;
}

/* The first on any device.  No thread is a guest of a fleet. */
static bool next_end(gantry_dispatcher *self, const gantry_taskman *manager, bool may_help,
                     struct gy_lookout *out)
{
    struct gy_fleet *fleet = fleet_of(self);
    bool any = false;
    (void)may_help;
    for (uint32_t e = 0; e < fleet->count; e++) {
        struct gy_lookout one;
        gantry_dispatcher *d = fleet->members[e];
        if (d->base.ops->next_end(d, manager, false, &one) && (!any || one.from_ns < out->from_ns)) {
            *out = one;
            any = true;
        }
    }
    return any;
}

/* ---- tasks ---------------------------------------------------------------------------------- */

static void submit(gantry_dispatcher *self, gantry_task *first, gantry_task *last)
{
    gy_fleet_submit(fleet_of(self), first, last);
}

static void merge_deps(gantry_dispatcher *self, gantry_task *predecessor, gantry_task *successor)
{
    uint64_t from = atomic_load_explicit(&predecessor->wait_set, memory_order_acquire);
    if (!gy_crossing_merge(&fleet_of(self)->crossings, &successor->wait_set, from)) {
        gy_task_preset_failure(successor, GANTRY_ERR_OUT_OF_HOST_MEMORY);
    }
}

static void drop_deps(gantry_dispatcher *self, gantry_task *task)
{
    (void)self;
    struct gy_crossing *crossing =
        gy_crossing_behind(atomic_load_explicit(&task->wait_set, memory_order_acquire));
    if (crossing != NULL) {
        gy_crossing_drop(crossing);
    }
}

/* A plan for each device, to which the stable tasks of the others are like any other task. */
static gantry_status make_plan(gantry_dispatcher *self, gantry_taskman *manager, struct gy_gpu_plan **out)
{
    struct gy_fleet *fleet = fleet_of(self);
    struct gy_gpu_plan *plans[GY_FLEET_MAX] = {NULL};
    for (uint32_t e = 0; e < fleet->count; e++) {
        gantry_status status = gy_plan_make(&fleet->members[e]->plans, manager, e, &plans[e]);
        while (status != GANTRY_OK && e-- > 0) {
            if (plans[e] != NULL) {
                plans[e]->drop(plans[e]);
            }
        }
        if (status != GANTRY_OK) {
            return status;
        }
    }
    return gy_plan_join(plans, fleet->count, out);
}

/* The predecessor is a GPU task, or a sync point that has settled on this thread's device. */
static bool when_done(gantry_dispatcher *self, const gantry_task *predecessor, uint64_t wait_set,
                      gantry_task *successor)
{
    (void)self;
    gantry_dispatcher *d = gy_gd_current;
    assert(d != NULL && gy_wait_set_is_point(wait_set) && gy_timeline_device(wait_set) == d->streams.device);
    return d->base.ops->when_done(d, predecessor, wait_set, successor);
}

static bool is_unawaited(gantry_dispatcher *self, uint64_t wait_set)
{
    struct gy_fleet *fleet = fleet_of(self);
    struct gy_crossing *crossing = gy_crossing_behind(wait_set);
    if (crossing == NULL) {
        gantry_dispatcher *d = fleet->members[gy_timeline_device(wait_set)];
        return d->base.ops->is_unawaited(d, wait_set);
    }
    for (uint32_t e = 0; e < fleet->count; e++) {
        gantry_dispatcher *d = fleet->members[e];
        if (crossing->of[e].streams != 0 &&
            !d->base.ops->is_unawaited(d, (uint64_t)(uintptr_t)&crossing->of[e])) {
            return false;
        }
    }
    return true;
}

/* ---- places ---------------------------------------------------------------------------------- */

static uint32_t partition_number(gantry_dispatcher *self, const gantry_partition *partition, uint32_t *device)
{
    struct gy_fleet *fleet = fleet_of(self);
    for (uint32_t e = 0; e < fleet->count; e++) {
        uint32_t theirs;
        gantry_dispatcher *d = fleet->members[e];
        uint32_t number = d->base.ops->partition_number(d, partition, &theirs);
        if (number != 0) {
            *device = e;
            return number;
        }
    }
    return 0;
}

static gantry_dispatcher *on_device(gantry_dispatcher *self, const gantry_context *context, uint32_t *device)
{
    struct gy_fleet *fleet = fleet_of(self);
    if (context == NULL) {
        return fleet->members[*device];
    }
    for (uint32_t e = 0; e < fleet->count; e++) {
        if (fleet->members[e]->config.owner == context) {
            *device = e;
            return fleet->members[e];
        }
    }
    return NULL;
}

static bool has_freed(gantry_dispatcher *self, const void *at)
{
    const struct gy_fleet *fleet = fleet_of(self);
    bool has = false;
    for (uint32_t e = 0; e < fleet->count && !has; e++) {
        has = fleet->members[e]->base.ops->has_freed(fleet->members[e], at);
    }
    return has;
}

static const struct gy_gpu_ops fleet_ops = {
    .attach = attach,
    .detach = detach,
    .step_begin = step_begin,
    .tell = tell,
    .adopt_failure = adopt_failure,
    .next_end = next_end,
    .submit = submit,
    .merge_deps = merge_deps,
    .drop_deps = drop_deps,
    .when_done = when_done,
    .is_unawaited = is_unawaited,
    .plan = make_plan,
    .share_usage = gy_fleet_share_usage,
    .partition_number = partition_number,
    .on_device = on_device,
    .has_freed = has_freed,
    .memory = {.open = gy_fleet_memory_open, .close = gy_fleet_memory_close, .count = gy_fleet_memory_count},
};

static const struct gy_fleet_calls calls = {
    .visit = gy_fleet_visit,
    .let_go = gy_fleet_let_go,
    .settle = gy_fleet_settle,
    .signal = signal_all,
};

gantry_status gy_fleet_create(gantry_dispatcher *const *members, uint32_t count, struct gy_fleet **out)
{
    assert(count >= 2 && count <= GY_FLEET_MAX);
    struct gy_fleet *fleet = gy_zalloc(sizeof(*fleet));
    if (fleet == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for a fleet");
    }
    struct gy_context *contexts[GY_FLEET_MAX];
    struct gy_stall_member *stalls[GY_FLEET_MAX];
    for (uint32_t e = 0; e < count; e++) {
        contexts[e] = members[e]->config.context;
        stalls[e] = &members[e]->admission.stall;
    }
    gantry_status status = gy_contexts_join(contexts, count);
    if (status == GANTRY_OK) {
        status = gy_stall_group_make(stalls, count);
    }
    if (status != GANTRY_OK) {
        gy_free(fleet);
        return status;
    }
    fleet->base.ops = &fleet_ops;
    fleet->base.forks = gy_thread_forks();
    fleet->count = count;
    fleet->users = 1;
    gy_mutex_init(&fleet->lock, GY_RANK_LEAF);
    gy_crossings_init(&fleet->crossings, count);
    for (uint32_t e = 0; e < count; e++) {
        fleet->members[e] = members[e];
        members[e]->member.fleet = fleet;
        members[e]->member.calls = &calls;
        members[e]->member.managers = &fleet->managers;
        members[e]->streams.device = e;
        members[e]->streams.is_of_fleet = true;
    }
    *out = fleet;
    return GANTRY_OK;
}
