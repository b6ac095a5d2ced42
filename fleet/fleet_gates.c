/* SPDX-License-Identifier: MIT */
#include "fleet/fleet_gates.h"

#include "base/alloc.h"
#include "dispatcher/internal.h"
#include "fleet/fleet_ops.h"

#include <stddef.h>

static const struct gy_fleet *fleet_of(const gantry_dispatcher *self)
{
    return (const struct gy_fleet *)(const void *)self;
}

/* ---- what a manager has on each device ------------------------------------------------------ */

/* Behind heads that have nothing but those. */
struct fleet_seat {
    struct gy_gpu_share share; /* the heads */
    struct gy_gpu_order order;
    struct gy_gpu_share *shares[GY_FLEET_MAX]; /* immutable; by number of the device; none behind the last */
    struct gy_gpu_order *orders[GY_FLEET_MAX]; /* likewise */
    const struct gy_gpu_ops *ops;              /* immutable; of all devices */
};

/* Of a manager whose steps are independent, and that has no share, nothing is kept. */
static struct fleet_seat *seat_of(const struct gy_gpu_seat *seat)
{
    return seat->order != NULL
               ? (struct fleet_seat *)(void *)((char *)seat->order - offsetof(struct fleet_seat, order))
               : (struct fleet_seat *)(void *)seat->share; /* its first member */
}

static void leave_members(const struct gy_fleet *fleet, struct fleet_seat *all, uint32_t count)
{
    for (uint32_t e = 0; e < count; e++) {
        const struct gy_gpu_seat one = {.share = all != NULL ? all->shares[e] : NULL,
                                        .order = all != NULL ? all->orders[e] : NULL};
        fleet->members[e]->base.ops->detach(fleet->members[e], &one);
    }
    gy_free(all);
}

/* What is refused, or no bound, is so on all devices. */
gantry_status gy_fleet_seat_take(struct gy_fleet *fleet, struct gy_gpu_seat *seat)
{
    struct fleet_seat *all = gy_zalloc(sizeof(*all));
    if (all == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for a task manager of a fleet");
    }
    for (uint32_t e = 0; e < fleet->count; e++) {
        struct gy_gpu_seat one = {.wanted = seat->wanted, .is_ordered = seat->is_ordered};
        gantry_status status = fleet->members[e]->base.ops->attach(fleet->members[e], &one);
        if (status != GANTRY_OK) {
            leave_members(fleet, all, e);
            return status;
        }
        all->shares[e] = one.share;
        all->orders[e] = one.order;
        if (one.order != NULL) {
            one.order->has_peers = true;
        }
    }
    all->ops = fleet->members[0]->base.ops;
    all->share.members = all->shares;
    all->order.members = all->orders;
    seat->share = all->shares[0] != NULL ? &all->share : NULL;
    seat->order = seat->is_ordered ? &all->order : NULL;
    if (seat->share == NULL && seat->order == NULL) {
        gy_free(all);
    }
    return GANTRY_OK;
}

void gy_fleet_seat_leave(struct gy_fleet *fleet, const struct gy_gpu_seat *seat)
{
    leave_members(fleet, seat_of(seat), fleet->count);
}

/* ---- bounds on GPU time --------------------------------------------------------------------- */

static double greater(double a, double b)
{
    return a > b ? a : b;
}

/* Times are sums over the devices, what tells of one stretch of time is the greatest. */
void gy_fleet_share_usage(struct gy_gpu_share *share, gantry_share_usage *out)
{
    const struct fleet_seat *all = (const struct fleet_seat *)(const void *)share;
    uint32_t count = 1;
    all->ops->share_usage(all->shares[0], out);
    for (; count < GY_FLEET_MAX && all->shares[count] != NULL; count++) {
        gantry_share_usage one;
        all->ops->share_usage(all->shares[count], &one);
        out->used_ns += one.used_ns;
        out->since_ns = one.since_ns > out->since_ns ? one.since_ns : out->since_ns;
        out->throttled_ns += one.throttled_ns;
        out->longest_ns = one.longest_ns > out->longest_ns ? one.longest_ns : out->longest_ns;
        out->groups += one.groups;
        out->worst_100ms = greater(out->worst_100ms, one.worst_100ms);
        out->worst_1s = greater(out->worst_1s, one.worst_1s);
        out->worst_10s = greater(out->worst_10s, one.worst_10s);
    }
    double time = (double)out->since_ns * count;
    out->measured = time > 0 ? (double)out->used_ns / time : 0;
}

/* ---- declared memory ------------------------------------------------------------------------ */

/* A device holds the memory that is declared for its own tasks, and for CPU tasks, which belong to no
 * device. */
struct fleet_memory {
    struct gy_gpu_memory head;              /* first */
    struct gy_gpu_memory *of[GY_FLEET_MAX]; /* immutable; by number of the device */
};

static bool concerns(const gantry_task *task, uint32_t device)
{
    return !gy_task_is_gpu(task) || task->device == device;
}

struct gy_gpu_memory *gy_fleet_memory_open(gantry_dispatcher *self, gantry_taskman *manager,
                                           const uint64_t *bytes)
{
    const struct gy_fleet *fleet = fleet_of(self);
    struct fleet_memory *all = gy_zalloc(sizeof(*all));
    if (all == NULL) {
        return NULL;
    }
    all->head.members = all->of;
    for (uint32_t e = 0; e < fleet->count; e++) {
        all->of[e] = fleet->members[e]->base.ops->memory.open(fleet->members[e], manager, bytes);
        if (all->of[e] == NULL) {
            gy_fleet_memory_close(self, &all->head);
            return NULL;
        }
    }
    return &all->head;
}

void gy_fleet_memory_close(gantry_dispatcher *self, struct gy_gpu_memory *memory)
{
    const struct gy_fleet *fleet = fleet_of(self);
    for (uint32_t e = 0; e < fleet->count && memory->members[e] != NULL; e++) {
        fleet->members[e]->base.ops->memory.close(fleet->members[e], memory->members[e]);
    }
    gy_free(memory);
}

void gy_fleet_memory_count(gantry_dispatcher *self, struct gy_gpu_memory *memory, const gantry_task *task,
                           bool is_released)
{
    const struct gy_fleet *fleet = fleet_of(self);
    for (uint32_t e = 0; e < fleet->count; e++) {
        gantry_dispatcher *d = fleet->members[e];
        if (concerns(task, e)) {
            d->base.ops->memory.count(d, memory->members[e], task, is_released);
        }
    }
}
