#include "taskman/cpu/wake.h"

#include "base/point.h"

bool gy_pool_has_sleepers(gantry_cpu_dispatcher *pool)
{
    return gy_pool_exceeds_loans(pool, atomic_load(&pool->work.sleepers));
}

/* There is work that nobody is woken up for. */
void gy_pool_miss(gantry_cpu_dispatcher *pool, uint32_t what)
{
    uint32_t before = atomic_load(&pool->missed);
    while (before < what && !atomic_compare_exchange_weak(&pool->missed, &before, what)) {
    }
}

static void notify(gantry_cpu_dispatcher *pool, size_t count, uint32_t what)
{
    gy_point(GY_POINT_EVENT_NOTIFY, &pool->work);
    if (atomic_load(&pool->work.sleepers) == 0) {
        return;
    }
    if (!gy_pool_has_sleepers(pool)) {
        gy_pool_miss(pool, what);
        if (!gy_pool_has_sleepers(pool)) {
            return;
        }
    }
    gy_event_notify(&pool->work, count < GY_MOST_WORKERS ? (uint32_t)count : GY_MOST_WORKERS);
}

void gy_pool_notify_work(gantry_cpu_dispatcher *pool, size_t count)
{
    notify(pool, count, GY_MISSED_OF_OTHERS);
}

void gy_worker_notify_work(const struct gy_worker *self, size_t count)
{
    notify(self->pool, count, self->only_owner != NULL ? GY_MISSED : GY_MISSED_OF_OTHERS);
}

void gy_pool_notify_waiters(gantry_cpu_dispatcher *pool)
{
    gy_event_notify(pool->inline_only ? &pool->work : &pool->done, UINT32_MAX);
}
