/* SPDX-License-Identifier: MIT */
#include "taskman/cpu/account.h"

#include "base/hints.h"
#include "taskman/cpu/owners.h"
#include "taskman/cpu/wake.h"

#include <assert.h>

/* Out of line: most counting off is no news. */
static GY_RARE void tell_news(gantry_cpu_dispatcher *pool)
{
    gy_pool_notify_waiters(pool);
    gy_pool_tell_quiet(pool);
}

/* `work` last: as long as that is owed something the manager stays. */
void gy_owner_count_off(struct gy_task_owner *owner, uint64_t less, uint64_t odd)
{
    gantry_cpu_dispatcher *pool = owner->pool;
    bool is_news = odd != 0 && atomic_fetch_sub(&owner->odd_pending, odd) == odd;
    if (less != 0) {
        uint64_t before = atomic_fetch_sub(&owner->work, less), left = before - less;
        assert(gy_work_is_valid(before, less));
        bool is_quiet = (left & (GY_WORK_PENDING - 1)) == 0;
        is_news = is_news || is_quiet || (left < GY_WORK_PENDING && before >= GY_WORK_PENDING);
    }
    if (is_news) {
        tell_news(pool);
    }
}

void gy_worker_flush(struct gy_worker *self)
{
    assert(gy_worker_is_valid(self));
    if (__builtin_expect(self->debt.leave_join != NULL, 0)) {
        self->debt.leave_join(self);
    }
    struct gy_task_owner *owner = self->debt.owner;
    if (owner == NULL) {
        return;
    }
    uint64_t owed = self->debt.work, owed_odd = self->debt.odd;
    if (self->debt.spawned != 0) {
        atomic_fetch_add_explicit(&owner->spawned, self->debt.spawned, memory_order_relaxed);
        self->debt.spawned = 0;
    }
    self->debt.owner = NULL;
    self->debt.work = self->debt.odd = 0;
    if ((owed | owed_odd) != 0) {
        gy_owner_count_off(owner, owed, owed_odd);
    }
}

/* A worker that has nothing to run next counts all off in one go.  One that has, does so when it has come to
 * its end: its manager counts as neither idle nor quiet before. */
void gy_worker_flush_most(struct gy_worker *self)
{
    if (__builtin_expect(self->debt.leave_join != NULL, 0)) {
        self->debt.leave_join(self);
    }
    struct gy_task_owner *owner = self->debt.owner;
    bool goes_on = self->next != NULL || self->batch.left != 0 || !gy_deque_is_empty(&self->deque);
    uint64_t active = goes_on ? self->debt.work % GY_WORK_PENDING : 0;
    uint64_t kept = (active < GY_CREDIT ? active : GY_CREDIT) * GY_WORK_ACTIVE;
    self->debt.work -= kept;
    gy_worker_flush(self);
    if (kept != 0) {
        self->debt.owner = owner;
        self->debt.work = kept;
    }
    assert(gy_worker_is_valid(self));
}
