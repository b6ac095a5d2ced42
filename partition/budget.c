/* SPDX-License-Identifier: MIT */
#include "partition/budget.h"

#include "base/alloc.h"

#include <assert.h>

/* Work of others in flight may end sooner than was predicted, so look this often. */
#define LOOK_NS 2000000u

struct gy_budget {
    struct gy_budget *next;         /* guarded by list_lock */
    uint32_t users;                 /* guarded by list_lock; contexts that have joined and not left */
    const struct gy_driver *driver; /* immutable */
    int ordinal;                    /* immutable; the device's number */
    gy_mutex lock;                  /* rank LEAF */
    struct gy_bucket bucket;        /* guarded by lock */
    uint32_t busy;                  /* guarded by lock; accounts that are busy */
};

static gy_mutex list_lock = {.native = PTHREAD_MUTEX_INITIALIZER, .rank = GY_RANK_LEAF};
static struct gy_budget *list; /* guarded by list_lock; the budgets of this process */

/* Find the budget of the context's device.  list_lock is held. */
static struct gy_budget *find_locked(const struct gy_context *context)
{
    struct gy_budget *budget = list;
    while (budget != NULL &&
           (budget->driver != context->driver || budget->ordinal != context->info.ordinal)) {
        budget = budget->next;
    }
    return budget;
}

static struct gy_budget *create(const struct gy_context *context, double rate, uint64_t burst_ns,
                                uint64_t now_ns)
{
    struct gy_budget *budget = gy_zalloc(sizeof(*budget));
    if (budget != NULL) {
        budget->driver = context->driver;
        budget->ordinal = context->info.ordinal;
        gy_mutex_init(&budget->lock, GY_RANK_LEAF);
        gy_bucket_init(&budget->bucket, rate, burst_ns, now_ns);
    }
    return budget;
}

static void destroy(struct gy_budget *budget)
{
    if (budget != NULL) {
        gy_mutex_fini(&budget->lock);
        gy_free(budget);
    }
}

gantry_status gy_budget_join(const struct gy_context *context, double rate, uint64_t burst_ns,
                             uint64_t now_ns, struct gy_budget **out)
{
    struct gy_budget *spare = create(context, rate, burst_ns, now_ns);
    if (spare == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for the process's share of GPU time");
    }
    gy_mutex_lock(&list_lock);
    struct gy_budget *budget = find_locked(context);
    if (budget == NULL) {
        budget = spare;
        spare = NULL;
        budget->next = list;
        list = budget;
    }
    budget->users++;
    gy_mutex_unlock(&list_lock);
    double kept = budget->bucket.rate; /* the rate was written before the budget was in the list */
    if (kept < rate || kept > rate) {
        gy_log(
            GANTRY_LOG_WARNING,
            "CUDA_DEVICE_SM_LIMIT is %.0f now; the process keeps the %.0f of its first context on device %d",
            rate * 100, kept * 100, context->info.ordinal);
    }
    destroy(spare);
    *out = budget;
    return GANTRY_OK;
}

void gy_budget_leave(struct gy_budget *budget)
{
    if (budget == NULL) {
        return;
    }
    gy_mutex_lock(&list_lock);
    bool last = --budget->users == 0;
    struct gy_budget **link = &list;
    while (last && *link != budget) {
        link = &(*link)->next;
    }
    if (last) {
        *link = budget->next;
    }
    gy_mutex_unlock(&list_lock);
    if (last) {
        assert(budget->busy == 0);
        destroy(budget);
    }
}

uint32_t gy_budget_count(void)
{
    uint32_t count = 0;
    gy_mutex_lock(&list_lock);
    for (const struct gy_budget *budget = list; budget != NULL; budget = budget->next) {
        count++;
    }
    gy_mutex_unlock(&list_lock);
    return count;
}

void gy_budget_set_busy(struct gy_budget *budget, bool busy, uint64_t now_ns)
{
    gy_mutex_lock(&budget->lock);
    assert(busy || budget->busy != 0);
    gy_bucket_refill(&budget->bucket, now_ns, budget->busy == 0);
    budget->busy += busy ? 1u : UINT32_MAX;
    gy_mutex_unlock(&budget->lock);
}

bool gy_budget_admits(struct gy_budget *budget, double group, uint64_t now_ns)
{
    gy_mutex_lock(&budget->lock);
    struct gy_bucket *bucket = &budget->bucket;
    bool admits = gy_bucket_admits(bucket);
    if (!admits) {
        gy_bucket_refill(bucket, now_ns, false);
        admits = gy_bucket_admits(bucket);
        bucket->resume = admits ? 0 : group;
    }
    gy_mutex_unlock(&budget->lock);
    return admits;
}

void gy_budget_begin(struct gy_budget *budget, double predicted_ns)
{
    gy_mutex_lock(&budget->lock);
    gy_bucket_begin(&budget->bucket, predicted_ns);
    gy_mutex_unlock(&budget->lock);
}

void gy_budget_end(struct gy_budget *budget, double predicted_ns, double used_ns, uint64_t now_ns)
{
    gy_mutex_lock(&budget->lock);
    gy_bucket_refill(&budget->bucket, now_ns, false);
    gy_bucket_end(&budget->bucket, predicted_ns, used_ns);
    gy_mutex_unlock(&budget->lock);
}

uint64_t gy_budget_ready_ns(struct gy_budget *budget)
{
    gy_mutex_lock(&budget->lock);
    const struct gy_bucket *bucket = &budget->bucket;
    uint64_t ready = gy_bucket_ready_ns(bucket), soon = bucket->at_ns + LOOK_NS;
    bool waits_for_others = bucket->in_flight > 0;
    gy_mutex_unlock(&budget->lock);
    return waits_for_others && soon < ready ? soon : ready;
}
