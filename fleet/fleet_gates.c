#include "fleet/fleet_gates.h"

#include "base/alloc.h"
#include "dispatcher/internal.h"
#include "fleet/fleet_ops.h"

static const struct gy_fleet *fleet_of(const gantry_dispatcher *self)
{
    return (const struct gy_fleet *)(const void *)self;
}

/* ---- bounds on GPU time --------------------------------------------------------------------- */

/* A bound on each device. */
struct fleet_share {
    struct gy_gpu_share base;              /* first */
    struct gy_gpu_share *of[GY_FLEET_MAX]; /* immutable; by number of the device; none behind the last */
    const struct gy_gpu_share_ops *ops;    /* immutable; of all devices */
    uint32_t count;                        /* immutable */
};

static struct fleet_share *share_of(struct gy_gpu_share *share)
{
    return (struct fleet_share *)(void *)share;
}

void gy_fleet_share_close(struct gy_gpu_share *share)
{
    struct fleet_share *all = share_of(share);
    for (uint32_t e = 0; e < all->count; e++) {
        all->ops->close(all->of[e]);
    }
    gy_free(all);
}

gantry_status gy_fleet_share_open(gantry_dispatcher *self, const gantry_share *share,
                                  struct gy_gpu_share **out)
{
    const struct gy_fleet *fleet = fleet_of(self);
    struct fleet_share *all = gy_zalloc(sizeof(*all));
    if (all == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for a share of GPU time");
    }
    all->base.members = all->of;
    all->ops = &fleet->members[0]->base.ops->share;
    for (uint32_t e = 0; e < fleet->count; e++) {
        gantry_status status = all->ops->open(fleet->members[e], share, &all->of[e]);
        if (status != GANTRY_OK || all->of[e] == NULL) { /* refused, or no bound: all devices say the same */
            gy_fleet_share_close(&all->base);
            return status;
        }
        all->count++;
    }
    *out = &all->base;
    return GANTRY_OK;
}

static double greater(double a, double b)
{
    return a > b ? a : b;
}

/* Times are sums over the devices, what tells of one stretch of time is the greatest. */
void gy_fleet_share_usage(struct gy_gpu_share *share, gantry_share_usage *out)
{
    struct fleet_share *all = share_of(share);
    all->ops->usage(all->of[0], out);
    for (uint32_t e = 1; e < all->count; e++) {
        gantry_share_usage one;
        all->ops->usage(all->of[e], &one);
        out->used_ns += one.used_ns;
        out->since_ns = one.since_ns > out->since_ns ? one.since_ns : out->since_ns;
        out->throttled_ns += one.throttled_ns;
        out->longest_ns = one.longest_ns > out->longest_ns ? one.longest_ns : out->longest_ns;
        out->groups += one.groups;
        out->worst_100ms = greater(out->worst_100ms, one.worst_100ms);
        out->worst_1s = greater(out->worst_1s, one.worst_1s);
        out->worst_10s = greater(out->worst_10s, one.worst_10s);
    }
    double time = (double)out->since_ns * all->count;
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

void gy_fleet_memory_begin(gantry_dispatcher *self, struct gy_gpu_memory *memory, const gantry_task *task)
{
    const struct gy_fleet *fleet = fleet_of(self);
    for (uint32_t e = 0; e < fleet->count; e++) {
        if (concerns(task, e)) {
            fleet->members[e]->base.ops->memory.begin(fleet->members[e], memory->members[e], task);
        }
    }
}

void gy_fleet_memory_end(gantry_dispatcher *self, struct gy_gpu_memory *memory, const gantry_task *task)
{
    const struct gy_fleet *fleet = fleet_of(self);
    for (uint32_t e = 0; e < fleet->count; e++) {
        if (concerns(task, e)) {
            fleet->members[e]->base.ops->memory.end(fleet->members[e], memory->members[e], task);
        }
    }
}

void gy_fleet_memory_quiet(gantry_dispatcher *self)
{
    const struct gy_fleet *fleet = fleet_of(self);
    for (uint32_t e = 0; e < fleet->count; e++) {
        fleet->members[e]->base.ops->memory.quiet(fleet->members[e]);
    }
}
