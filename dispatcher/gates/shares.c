/* SPDX-License-Identifier: MIT */
/* Quotas: opened, closed, asked.  See shares.h. */
#include "dispatcher/gates/shares.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/times.h"
#include "dispatcher/gates/quota.h"
#include "partition/limit.h"
#include "partition/plan.h"

#include <stdio.h>

#define IN_FLIGHT 4u

#ifdef GANTRY_TESTING
const struct gy_share_clock *_Atomic gy_share_test_clock;
#endif

uint64_t gy_share_now(void)
{
#ifdef GANTRY_TESTING
    const struct gy_share_clock *clock = gy_share_test_clock; /* a test may take it away meanwhile */
    if (clock != NULL) {
        return clock->now();
    }
#endif
    return gy_clock_ns();
}

/* ---- meters ---------------------------------------------------------------------------------- */

static void destroy_event(const struct gy_driver *driver, CUevent event)
{
    if (event != NULL) {
        (void)driver->cuEventDestroy(event); /* on a lost context destruction fails as everything does */
    }
}

void gy_meter_free(const struct gy_driver *driver, struct gy_meter *meter)
{
    if (meter == NULL) {
        return;
    }
    for (uint32_t k = 0; k < GY_SHARE_INTERVALS; k++) {
        for (uint32_t i = 0; i < GY_STREAMS_MAX; i++) {
            destroy_event(driver, meter->intervals[k].begin[i]);
            destroy_event(driver, meter->intervals[k].end[i]);
        }
        destroy_event(driver, meter->intervals[k].gate);
    }
    destroy_event(driver, meter->base);
    gy_free(meter);
}

gantry_status gy_meter_make(struct gy_context *context, const struct gantry_partition *partition,
                            struct gy_quota *quota, struct gy_quota *above, struct gy_meter **out)
{
    const gantry_partition_info *info = &partition->info;
    struct gy_meter *meter = gy_zalloc(sizeof(*meter));
    if (meter == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for the share of %s", quota->name);
    }
    gantry_status status = GY_CALL(context, cuEventCreate(&meter->base, CU_EVENT_DEFAULT));
    if (status != GANTRY_OK) {
        gy_free(meter);
        return status;
    }
    meter->partition = info->index;
    meter->weight = (double)info->granted_sms / (double)info->total_sms;
    meter->quotas[0] = quota;
    meter->quotas[1] = above != quota ? above : NULL;
    *out = meter;
    return GANTRY_OK;
}

/* ---- quotas ------------------------------------------------------------------------------- */

void gy_quota_set_idle(struct gy_quota *quota, bool idle)
{
    if (quota->budget != NULL && quota->is_idle != idle) {
        gy_budget_set_busy(quota->budget, !idle, gy_share_now());
    }
    quota->is_idle = idle;
}

void gy_quota_free(const struct gy_driver *driver, struct gy_quota *quota)
{
    for (uint32_t i = 0; i < GANTRY_PARTITIONS_MAX; i++) {
        gy_meter_free(driver, quota->meters[i]);
    }
    if (quota->budget != NULL) { /* work that was in flight when the context was lost is never measured */
        gy_budget_end(quota->budget, quota->promised, 0, gy_share_now());
        gy_quota_set_idle(quota, true);
        gy_budget_leave(quota->budget);
    }
    gy_mutex_fini(&quota->lock);
    gy_free(quota);
}

static void begin_quota(struct gy_quota *quota, double rate, const gantry_share *share)
{
    uint64_t now = gy_share_now(), burst = share->burst_ns != 0 ? share->burst_ns : GY_SHARE_BURST_NS;
    quota->rate = rate;
    quota->told = 0;
    quota->in_flight = share->in_flight != 0 ? share->in_flight : IN_FLIGHT;
    quota->quantum = (double)burst / 4 < GY_SHARE_QUANTUM_NS ? (double)burst / 4 : GY_SHARE_QUANTUM_NS;
    if (share->group_us != 0) {
        quota->quantum = share->group_us * 1e3;
    }
    quota->is_idle = true;
    atomic_store(&quota->throttled_ns, 0);
    gy_bucket_init(&quota->bucket, rate, burst, now);
    gy_mutex_lock(&quota->lock);
    gy_gpu_usage_init(&quota->usage, now);
    quota->longest = 0;
    quota->groups = 0;
    gy_mutex_unlock(&quota->lock);
    snprintf(quota->counter, sizeof(quota->counter), "GPU %d: us of %s", quota->ordinal, quota->name);
    atomic_store(&quota->is_open, true);
}

static struct gy_quota *new_quota(void)
{
    struct gy_quota *quota = gy_zalloc(sizeof(*quota));
    if (quota != NULL) {
        gy_mutex_init(&quota->lock, GY_RANK_LEAF);
        quota->is_idle = true;
    } else {
        (void)GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for a share of GPU time");
    }
    return quota;
}

static void add_quota(struct gy_shares *shares, struct gy_quota *quota)
{
    uint32_t count = atomic_load_explicit(&shares->count, memory_order_relaxed);
    shares->quotas[count] = quota;
    atomic_store_explicit(&shares->count, count + 1, memory_order_release);
    atomic_store(&shares->any, true);
}

/* `limit`: the process's, percent, under which the partition is too; 0: it has a share of its own. */
static gantry_status make_partition(const struct gy_shares *shares, const struct gantry_partition *p,
                                    double rate, double limit, struct gy_quota **out)
{
    struct gy_quota *quota = new_quota();
    if (quota == NULL) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    quota->ordinal = shares->context->info.ordinal;
    snprintf(quota->name, sizeof(quota->name), "%s", p->info.name);
    gantry_status status = gy_meter_make(shares->context, p, quota, NULL, &quota->meters[p->info.index]);
    if (status == GANTRY_OK && limit > 0) {
        status =
            gy_budget_join(shares->context, limit / 100, GY_SHARE_BURST_NS, gy_share_now(), &quota->budget);
    }
    if (status != GANTRY_OK) {
        gy_quota_free(shares->context->driver, quota);
        return status;
    }
    begin_quota(quota, rate, &p->share);
    *out = quota;
    return GANTRY_OK;
}

/* Each partition has the limit as a part of its own SMs, so that none takes time of another; all partitions
 * of all contexts together keep it by the process's budget. */
static double percent_of(const struct gantry_partition *p, double limit)
{
    double part = (double)p->info.granted_sms / (double)p->info.total_sms;
    return p->share.percent > 0 ? p->share.percent : limit * part;
}

/* A partition that is busy all the time uses as much of the device's time as it has of its SMs. */
static void warn_loose(const struct gantry_partition *p)
{
    const double part = 100.0 * (double)p->info.granted_sms / (double)p->info.total_sms;
    if (p->share.percent > 0 && p->share.percent < 100 && p->share.percent >= part) {
        gy_log(GANTRY_LOG_WARNING,
               "partition '%s': its share of %g percent of the device's time never bounds it, since its %u "
               "of %u "
               "SMs are %.1f percent of the device: ask for less than that",
               p->info.name, p->share.percent, p->info.granted_sms, p->info.total_sms, part);
    }
}

gantry_status gy_quota_of_partition(struct gy_shares *shares, const struct gantry_partition *p,
                                    struct gy_quota **out)
{
    const double percent = percent_of(p, shares->limit);
    *out = NULL;
    if (percent <= 0 || percent >= 100) {
        return GANTRY_OK;
    }
    warn_loose(p);
    return make_partition(shares, p, percent / 100, p->share.percent > 0 ? 0 : shares->limit, out);
}

gantry_status gy_shares_init(struct gy_shares *shares, struct gy_context *context,
                             const struct gy_partitions *partitions, struct gy_streams *streams,
                             struct gy_inbox *inbox)
{
    shares->context = context;
    shares->inbox = inbox;
    shares->partitions = partitions;
    shares->streams = streams;
    gy_mutex_init(&shares->lock, GY_RANK_LEAF);
    gantry_status status = gy_limit_read(&shares->limit);
    for (uint32_t i = 0; i < partitions->count && status == GANTRY_OK; i++) {
        status = gy_quota_of_partition(shares, &partitions->partitions[i], &shares->of[i]);
        if (shares->of[i] != NULL) {
            add_quota(shares, shares->of[i]);
        }
    }
    if (status != GANTRY_OK) {
        gy_shares_fini(shares);
    }
    return status;
}

void gy_shares_fini(struct gy_shares *shares)
{
    for (uint32_t i = 0; i < atomic_load(&shares->count); i++) {
        gy_quota_free(shares->context->driver, shares->quotas[i]);
    }
    atomic_store(&shares->count, 0);
    gy_mutex_fini(&shares->lock);
}

/* ---- of task managers ----------------------------------------------------------------------- */

/* No manager has the quota, and no work of its former manager is still in flight. */
static bool is_free(const struct gy_quota *quota)
{
    bool free = !atomic_load(&quota->is_open);
    for (uint32_t i = 0; i < GANTRY_PARTITIONS_MAX && free; i++) {
        const struct gy_meter *meter = quota->meters[i];
        free = meter == NULL || atomic_load_explicit(&meter->settled, memory_order_acquire) ==
                                    atomic_load_explicit(&meter->opened, memory_order_relaxed);
    }
    return free;
}

static gantry_status make_quota(struct gy_shares *shares, uint32_t number, struct gy_quota **out)
{
    struct gy_quota *quota = new_quota();
    gantry_status status = quota != NULL ? gy_context_push(shares->context) : GANTRY_ERR_OUT_OF_HOST_MEMORY;
    if (status != GANTRY_OK) {
        if (quota != NULL) {
            gy_quota_free(shares->context->driver, quota);
        }
        return status;
    }
    quota->number = number;
    quota->ordinal = shares->context->info.ordinal;
    snprintf(quota->name, sizeof(quota->name), "task manager %u", number);
    for (uint32_t i = 0; i < shares->partitions->count && status == GANTRY_OK; i++) {
        status = gy_meter_make(shares->context, &shares->partitions->partitions[i], quota, shares->of[i],
                               &quota->meters[i]);
    }
    if (status != GANTRY_OK) {
        gy_quota_free(shares->context->driver, quota);
    } else {
        *out = quota;
    }
    (void)gy_context_pop(shares->context);
    return status;
}

static struct gy_quota *take_free(struct gy_shares *shares, const gantry_share *share)
{
    struct gy_quota *found = NULL;
    gy_mutex_lock(&shares->lock);
    for (uint32_t i = 0; i < atomic_load(&shares->count) && found == NULL; i++) {
        found = is_free(shares->quotas[i]) ? shares->quotas[i] : NULL;
    }
    if (found != NULL) {
        atomic_store(&found->is_open, true); /* it is ours; nothing can look at it before we return it */
    }
    gy_mutex_unlock(&shares->lock);
    if (found != NULL) {
        begin_quota(found, share->percent / 100, share);
    }
    return found;
}

gantry_status gy_shares_open(struct gy_shares *shares, const gantry_share *share, struct gy_quota **out)
{
    gantry_share ours = {.struct_size = 0};
    gantry_status status = gy_share_import(share, "task manager", &ours);
    if (status != GANTRY_OK) {
        return status;
    }
    if (ours.percent <= 0 || ours.percent >= 100) {
        *out = NULL;
        return GANTRY_OK;
    }
    struct gy_quota *quota = take_free(shares, &ours);
    if (quota != NULL) {
        *out = quota;
        return GANTRY_OK;
    }
    static _Atomic(uint32_t) numbers; /* atomic: given out in the process */
    status = make_quota(shares, atomic_fetch_add(&numbers, 1) + 1, &quota);
    if (status != GANTRY_OK) {
        return status;
    }
    begin_quota(quota, ours.percent / 100, &ours);
    gy_mutex_lock(&shares->lock);
    bool room = atomic_load(&shares->count) < GANTRY_PARTITIONS_MAX + GY_SHARE_MANAGERS;
    if (room) {
        add_quota(shares, quota);
    }
    gy_mutex_unlock(&shares->lock);
    if (!room) {
        gy_quota_free(shares->context->driver, quota);
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED, "more than %u task managers with shares at a time",
                       GY_SHARE_MANAGERS);
    }
    *out = quota;
    return GANTRY_OK;
}

void gy_shares_close_quota(struct gy_quota *quota)
{
    atomic_store(&quota->is_open, false);
}

struct gy_meter *gy_quota_meter(const struct gy_quota *quota, uint32_t partition)
{
    return quota->meters[partition];
}

uint32_t gy_quota_number(const struct gy_quota *quota)
{
    return quota != NULL ? quota->number : 0;
}

void gy_quota_usage(struct gy_quota *quota, gantry_share_usage *out)
{
    uint64_t now = gy_share_now();
    gy_mutex_lock(&quota->lock);
    gy_gpu_usage_add(&quota->usage, now, 0);
    *out = (gantry_share_usage){.struct_size = sizeof(*out),
                                .target = quota->rate,
                                .used_ns = (uint64_t)quota->usage.used_ns,
                                .since_ns = now - quota->usage.first_ns,
                                .throttled_ns = atomic_load(&quota->throttled_ns),
                                .longest_ns = (uint64_t)quota->longest,
                                .groups = quota->groups,
                                .worst_100ms = quota->usage.worst[0],
                                .worst_1s = quota->usage.worst[1],
                                .worst_10s = quota->usage.worst[2]};
    gy_mutex_unlock(&quota->lock);
    out->measured = out->since_ns != 0 ? (double)out->used_ns / (double)out->since_ns : 0;
}
