/* SPDX-License-Identifier: MIT */
/* The shares of other partitions: made beside those in force, and put in their place. */
#include "dispatcher/gates/quota.h"

#include <assert.h>
#include <string.h>

/* Is it the quota of one of the partitions that are in force? */
static bool is_of_partition(const struct gy_shares *shares, const struct gy_quota *quota)
{
    for (uint32_t i = 0; i < GANTRY_PARTITIONS_MAX; i++) {
        if (shares->of[i] == quota) {
            return true;
        }
    }
    return false;
}

static gantry_status make_meters(struct gy_shares *shares, struct gy_shares_change *change,
                                 struct gy_quota *quota)
{
    const uint32_t number = change->count++;
    gantry_status status = GANTRY_OK;
    change->quotas[number] = quota;
    for (uint32_t i = 0; i < change->partitions->count && status == GANTRY_OK; i++) {
        status = gy_meter_make(shares->context, &change->partitions->partitions[i], quota, change->of[i],
                               &change->meters[number][i]);
    }
    return status;
}

gantry_status gy_shares_prepare(struct gy_shares *shares, const struct gy_partitions *partitions,
                                struct gy_shares_change *change)
{
    memset(change, 0, sizeof(*change));
    change->partitions = partitions;
    gantry_status status = GANTRY_OK;
    for (uint32_t i = 0; i < partitions->count && status == GANTRY_OK; i++) {
        status = gy_quota_of_partition(shares, &partitions->partitions[i], &change->of[i]);
    }
    const uint32_t count = atomic_load_explicit(&shares->count, memory_order_acquire);
    for (uint32_t i = 0; i < count && status == GANTRY_OK; i++) {
        struct gy_quota *quota = shares->quotas[i];
        if (!is_of_partition(shares, quota) && atomic_load(&quota->is_open)) {
            status = make_meters(shares, change, quota);
        }
    }
    if (status != GANTRY_OK) {
        gy_shares_discard(shares, change);
    }
    return status;
}

void gy_shares_discard(struct gy_shares *shares, struct gy_shares_change *change)
{
    const struct gy_driver *driver = shares->context->driver;
    for (uint32_t i = 0; i < GANTRY_PARTITIONS_MAX; i++) {
        if (change->of[i] != NULL) {
            gy_quota_free(driver, change->of[i]);
        }
    }
    for (uint32_t n = 0; n < change->count; n++) {
        for (uint32_t i = 0; i < GANTRY_PARTITIONS_MAX; i++) {
            gy_meter_free(driver, change->meters[n][i]);
        }
    }
    memset(change, 0, sizeof(*change));
}

/* Everything has ended: its quotas pay for it. */
static void pay_all(struct gy_shares *shares)
{
    gy_shares_collect(shares);
    for (uint32_t i = 0; i < atomic_load(&shares->count); i++) {
        for (uint32_t p = 0; p < GANTRY_PARTITIONS_MAX; p++) {
            struct gy_meter *meter = shares->quotas[i]->meters[p];
            if (meter != NULL) {
                gy_meter_settle(meter);
                assert(gy_context_is_lost(shares->context) ||
                       atomic_load(&meter->settled) == atomic_load(&meter->opened));
            }
        }
        assert(gy_context_is_lost(shares->context) || shares->quotas[i]->working == 0);
    }
}

/* The place of the quota among those that were given meters; change->count: it has none. */
static uint32_t find(const struct gy_shares_change *change, const struct gy_quota *quota)
{
    uint32_t n = 0;
    while (n < change->count && change->quotas[n] != quota) {
        n++;
    }
    return n;
}

void gy_shares_adopt(struct gy_shares *shares, struct gy_shares_change *change)
{
    const struct gy_driver *driver = shares->context->driver;
    pay_all(shares);
    gy_mutex_lock(&shares->lock);
    const uint32_t count = atomic_load(&shares->count);
    uint32_t kept = 0;
    struct gy_quota *gone[GANTRY_PARTITIONS_MAX + GY_SHARE_MANAGERS];
    uint32_t gone_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct gy_quota *quota = shares->quotas[i];
        const uint32_t n = find(change, quota);
        if (n == change->count) { /* of a partition that goes, or of a manager that has gone */
            gone[gone_count++] = quota;
            continue;
        }
        for (uint32_t p = 0; p < GANTRY_PARTITIONS_MAX; p++) {
            gy_meter_free(driver, quota->meters[p]);
            quota->meters[p] = change->meters[n][p];
        }
        shares->quotas[kept++] = quota;
    }
    for (uint32_t i = 0; i < GANTRY_PARTITIONS_MAX; i++) {
        shares->of[i] = change->of[i];
        if (change->of[i] != NULL) {
            shares->quotas[kept++] = change->of[i];
        }
    }
    shares->partitions = change->partitions;
    memset(shares->turns, 0, sizeof(shares->turns));
    atomic_store_explicit(&shares->count, kept, memory_order_release);
    if (kept != 0) {
        atomic_store(&shares->any, true);
    }
    gy_mutex_unlock(&shares->lock);
    for (uint32_t i = 0; i < gone_count; i++) {
        gy_quota_free(driver, gone[i]);
    }
    assert(gy_shares_are_valid(shares));
}
