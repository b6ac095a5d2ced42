/* SPDX-License-Identifier: MIT */
#include "taskman/cpu/worker.h"

#include "taskman/cpu/bundle.h"

/* The most tasks that may be released and not counted off: those of a flush, and the ones that may be added
 * before it.  Of those that are counted as active a whole start batch can be owed; below zero the number
 * would borrow from the upper half. */
enum { MOST_OWED = 4096, MOST_ACTIVE_OWED = INT32_MAX };

static bool account_is_valid(const struct gy_worker *self)
{
    bool is_empty = self->debt.work == 0 && self->debt.odd == 0 && self->debt.spawned == 0;
    bool keeps_owner = self->debt.work >= GY_WORK_PENDING || self->debt.odd != 0;
    return self->debt.owner != NULL
               ? (self->debt.spawned == 0 || keeps_owner) && self->debt.work / GY_WORK_PENDING <= MOST_OWED &&
                     self->debt.work % GY_WORK_PENDING <= MOST_ACTIVE_OWED && self->debt.odd <= MOST_OWED
               : is_empty;
}

bool gy_start_batch_is_valid(const struct gy_start_batch *batch)
{
    return batch->left == 0 || (batch->owner != NULL && (batch->roots != NULL || batch->first != NULL));
}

/* References that tasks have left are owed for, too: else a waiting thread would take the owner for quiet. */
static bool join_is_valid(const struct gy_worker *self)
{
    return self->debt.leave_join == NULL ? self->debt.references == 0
                                         : self->debt.references >= 0 && self->debt.join != NULL;
}

/* Only a body fills the bundle. */
static bool bundle_is_valid(const struct gy_worker *self)
{
    bool is_filled = atomic_load_explicit(&self->bundle, memory_order_relaxed) != NULL;
    return (!is_filled || (self->filling.count != 0 && self->activity == GY_WORKER_IN_BODY)) &&
           self->filling.count <= GY_BUNDLE_MOST && self->filling.most <= GY_BUNDLE_MOST &&
           self->filling.made <= GY_BUNDLE_BEHIND + 1;
}

/* Do the worker's activity, its search and its holder fit together? */
static bool activity_is_valid(const struct gy_worker *self, uint32_t holder)
{
    bool is_borrowed = holder == GY_WORKER_ON_LOAN || holder == GY_WORKER_RECLAIMED;
    if ((unsigned)self->activity > GY_WORKER_RELEASING || (unsigned)self->search > GY_SEARCH_ASLEEP ||
        (holder != GY_WORKER_AWAKE && self->search != GY_SEARCH_ASLEEP)) {
        return false;
    }
    return self->activity == GY_WORKER_BETWEEN
               ? self->running == NULL
               : self->search == (is_borrowed ? GY_SEARCH_ASLEEP : GY_SEARCH_OFF);
}

bool gy_worker_may_enter(const struct gy_worker *self, enum gy_worker_activity next)
{
    static const uint8_t from[] = {
        [GY_WORKER_BETWEEN] = 1u << GY_WORKER_IN_BODY | 1u << GY_WORKER_RELEASING,
        [GY_WORKER_IN_BODY] = 1u << GY_WORKER_BETWEEN,
        [GY_WORKER_RELEASING] = 1u << GY_WORKER_BETWEEN | 1u << GY_WORKER_IN_BODY,
    };
    return (from[next] >> self->activity & 1u) != 0;
}

bool gy_worker_may_search(const struct gy_worker *self, enum gy_worker_search next)
{
    static const uint8_t from[] = {
        [GY_SEARCH_OFF] = 1u << GY_SEARCH_ON,
        [GY_SEARCH_ON] = 1u << GY_SEARCH_OFF | 1u << GY_SEARCH_LAST_LOOK | 1u << GY_SEARCH_ASLEEP,
        [GY_SEARCH_LAST_LOOK] = 1u << GY_SEARCH_ON,
        [GY_SEARCH_ASLEEP] = 1u << GY_SEARCH_LAST_LOOK,
    };
    return (from[next] >> self->search & 1u) != 0;
}

bool gy_worker_is_valid(const struct gy_worker *self)
{
    uint32_t holder = atomic_load_explicit(&self->holder, memory_order_relaxed);
    bool is_borrowed = holder == GY_WORKER_ON_LOAN || holder == GY_WORKER_RECLAIMED;
    return self->pool != NULL && holder <= GY_WORKER_RECLAIMED && (self->only_owner == NULL || is_borrowed) &&
           activity_is_valid(self, holder) && (!self->cpus.is_away || self->cpus.cpu_class != 0) &&
           account_is_valid(self) && join_is_valid(self) && gy_start_batch_is_valid(&self->batch) &&
           bundle_is_valid(self);
}

bool gy_pool_loans_are_valid(const gantry_cpu_dispatcher *pool)
{
    int32_t on_loan = (int32_t)atomic_load(&pool->shown.on_loan), workers = (int32_t)pool->worker_count;
    return on_loan >= -workers && on_loan <= workers;
}

static bool list_is_valid(const struct gy_task_list *list, size_t count)
{
    return gy_task_list_is_valid(list) && list->count == count;
}

bool gy_pool_is_valid(const gantry_cpu_dispatcher *pool)
{
    for (uint32_t i = 0; i < pool->class_count; i++) {
        const struct gy_class *class = &pool->classes[i];
        if (class->limit == 0 || !gy_task_list_is_valid(&class->waiting) || class->running > INT32_MAX) {
            return false;
        }
    }
    return (pool->queues.first != NULL) == (atomic_load(&pool->shown.inject_count) != 0) &&
           list_is_valid(&pool->queues.urgent, atomic_load(&pool->shown.urgent_count)) &&
           list_is_valid(&pool->queues.low, atomic_load(&pool->shown.low_count)) &&
           (atomic_load(&pool->shown.jobs) == NULL || pool->queues.last_job != NULL);
}
