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

static void attach(gantry_dispatcher *self, struct gy_gpu_user *user)
{
    struct gy_fleet *fleet = fleet_of(self);
    gy_users_add(&fleet->managers, user);
    gy_mutex_lock(&fleet->lock);
    fleet->users++;
    gy_mutex_unlock(&fleet->lock);
    for (uint32_t e = 0; e < fleet->count; e++) {
        fleet->members[e]->base.ops->attach(fleet->members[e], NULL);
    }
}

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
static void detach(gantry_dispatcher *self, struct gy_gpu_user *user)
{
    struct gy_fleet *fleet = fleet_of(self);
    await_sends(fleet);
    gy_users_remove(user);
    for (uint32_t e = 0; e < fleet->count; e++) {
        fleet->members[e]->base.ops->detach(fleet->members[e], NULL);
    }
    gy_fleet_leave(fleet);
}

static void signal_all(struct gy_fleet *fleet)
{
    for (uint32_t e = 0; e < fleet->count; e++) {
        gy_inbox_signal(&fleet->members[e]->inbox);
    }
}

/* ---- steps ---------------------------------------------------------------------------------- */

static void step_end(gantry_dispatcher *self)
{
    struct gy_fleet *fleet = fleet_of(self);
    for (uint32_t e = 0; e < fleet->count; e++) {
        fleet->members[e]->base.ops->step_end(fleet->members[e]);
    }
}

/* On all devices, or on none. */
static gantry_status step_begin(gantry_dispatcher *self, bool is_helped)
{
    struct gy_fleet *fleet = fleet_of(self);
    for (uint32_t e = 0; e < fleet->count; e++) {
        gantry_status status = fleet->members[e]->base.ops->step_begin(fleet->members[e], is_helped);
        while (status != GANTRY_OK && e-- > 0) {
            fleet->members[e]->base.ops->step_end(fleet->members[e]);
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

static void cancelled(gantry_dispatcher *self)
{
    struct gy_fleet *fleet = fleet_of(self);
    for (uint32_t e = 0; e < fleet->count; e++) {
        fleet->members[e]->base.ops->cancelled(fleet->members[e]);
    }
}

static void guest_comes(gantry_dispatcher *self)
{
    struct gy_fleet *fleet = fleet_of(self);
    for (uint32_t e = 0; e < fleet->count; e++) {
        fleet->members[e]->base.ops->wake_hints.guest_comes(fleet->members[e]);
    }
}

static void step_announced(gantry_dispatcher *self)
{
    struct gy_fleet *fleet = fleet_of(self);
    for (uint32_t e = 0; e < fleet->count; e++) {
        fleet->members[e]->base.ops->wake_hints.step_announced(fleet->members[e]);
    }
}

/* The earliest that a device forecasts. */
static uint64_t step_begun(gantry_dispatcher *self)
{
    struct gy_fleet *fleet = fleet_of(self);
    uint64_t soonest = 0;
    for (uint32_t e = 0; e < fleet->count; e++) {
        uint64_t ns = fleet->members[e]->base.ops->wake_hints.step_begun(fleet->members[e]);
        soonest = ns != 0 && (soonest == 0 || ns < soonest) ? ns : soonest;
    }
    return soonest;
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
        if (d->base.ops->wake_hints.next_end(d, manager, false, &one) &&
            (!any || one.from_ns < out->from_ns)) {
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
    return d->base.ops->order.when_done(d, predecessor, wait_set, successor);
}

static bool is_unawaited(gantry_dispatcher *self, uint64_t wait_set)
{
    struct gy_fleet *fleet = fleet_of(self);
    struct gy_crossing *crossing = gy_crossing_behind(wait_set);
    if (crossing == NULL) {
        gantry_dispatcher *d = fleet->members[gy_timeline_device(wait_set)];
        return d->base.ops->order.is_unawaited(d, wait_set);
    }
    for (uint32_t e = 0; e < fleet->count; e++) {
        gantry_dispatcher *d = fleet->members[e];
        if (crossing->of[e].streams != 0 &&
            !d->base.ops->order.is_unawaited(d, (uint64_t)(uintptr_t)&crossing->of[e])) {
            return false;
        }
    }
    return true;
}

/* ---- places and orders ---------------------------------------------------------------------- */

static uint32_t partition_number(gantry_dispatcher *self, const gantry_partition *partition, uint32_t *device)
{
    struct gy_fleet *fleet = fleet_of(self);
    for (uint32_t e = 0; e < fleet->count; e++) {
        uint32_t theirs;
        gantry_dispatcher *d = fleet->members[e];
        uint32_t number = d->base.ops->share.partition_number(d, partition, &theirs);
        if (number != 0) {
            *device = e;
            return number;
        }
    }
    return 0;
}

static bool device_number(gantry_dispatcher *self, const gantry_context *context, uint32_t *device)
{
    struct gy_fleet *fleet = fleet_of(self);
    for (uint32_t e = 0; e < fleet->count; e++) {
        if (fleet->members[e]->config.owner == context) {
            *device = e;
            return true;
        }
    }
    return false;
}

static gantry_dispatcher *on_device(gantry_dispatcher *self, uint32_t device)
{
    return fleet_of(self)->members[device];
}

/* An order for each device, behind a head that has nothing but those. */
struct fleet_order {
    struct gy_gpu_order head; /* first */
    struct gy_gpu_order *of[GY_FLEET_MAX];
};

static void order_close(struct gy_gpu_order *order)
{
    struct fleet_order *all = (struct fleet_order *)(void *)order;
    for (uint32_t e = 0; e < GY_FLEET_MAX && all->of[e] != NULL; e++) {
        gy_step_order_close(all->of[e]);
    }
    gy_free(all);
}

static struct gy_gpu_order *order_open(gantry_dispatcher *self)
{
    struct gy_fleet *fleet = fleet_of(self);
    struct fleet_order *all = gy_zalloc(sizeof(*all));
    if (all == NULL) {
        return NULL;
    }
    all->head.members = all->of;
    for (uint32_t e = 0; e < fleet->count; e++) {
        all->of[e] = gy_step_order_open(&fleet->members[e]->streams);
        if (all->of[e] == NULL) {
            order_close(&all->head);
            return NULL;
        }
        all->of[e]->has_peers = true;
    }
    return &all->head;
}

static const struct gy_gpu_ops fleet_ops = {
    .attach = attach,
    .detach = detach,
    .step_begin = step_begin,
    .step_end = step_end,
    .submit = submit,
    .merge_deps = merge_deps,
    .drop_deps = drop_deps,
    .adopt_failure = adopt_failure,
    .plan = make_plan,
    .order = {.open = order_open, .close = order_close, .when_done = when_done, .is_unawaited = is_unawaited},
    .memory = {.open = gy_fleet_memory_open,
               .close = gy_fleet_memory_close,
               .begin = gy_fleet_memory_begin,
               .end = gy_fleet_memory_end,
               .quiet = gy_fleet_memory_quiet},
    .share = {.open = gy_fleet_share_open,
              .close = gy_fleet_share_close,
              .usage = gy_fleet_share_usage,
              .partition_number = partition_number},
    .wake_hints = {.step_announced = step_announced,
                   .guest_comes = guest_comes,
                   .step_begun = step_begun,
                   .next_end = next_end},
    .cancelled = cancelled,
    .on_device = on_device,
    .device_number = device_number,
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
