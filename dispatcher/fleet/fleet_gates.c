#include "dispatcher/fleet/fleet_gates.h"

#include "base/alloc.h"
#include "dispatcher/fleet/fleet.h"
#include "dispatcher/internal.h"

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
    const struct gy_fleet *fleet = (const struct gy_fleet *)(const void *)self;
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
