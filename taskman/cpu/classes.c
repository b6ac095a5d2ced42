/* SPDX-License-Identifier: MIT */
/* Limited classes at work: their places, and their CPUs.
 *
 * A place is taken by a task when it is let through to the workers (queues.c), and by a worker that helps
 * with the loop of such a task (parallel.c); it is given back here.  Giving one back lets the class's next
 * task go on; if none waits, a worker that found the class's loops full may help now. */
#include "taskman/cpu/classes.h"

#include "base/status.h"
#include "taskman/cpu/queues.h"
#include "taskman/cpu/wake.h"

#include <assert.h>

static void wake(gantry_cpu_dispatcher *pool, struct gy_task_list *host, size_t count)
{
    if (host->first != NULL) {
        gy_pool_submit_to_host(pool, host->first);
    } else if (count != 0) {
        gy_pool_notify_work(pool, count);
    }
}

static void move(struct gy_worker *self, const gy_cpus *cpus, bool is_away)
{
    if (pthread_setaffinity_np(pthread_self(), sizeof(*cpus), &cpus->system) != 0) {
        gy_log(GANTRY_LOG_WARNING, "cpu dispatcher: worker cannot be moved to the CPUs of class %u",
               self->cpus.cpu_class);
        return;
    }
    self->cpus.is_away = is_away;
}

void gy_worker_enter_class(struct gy_worker *self, uint32_t cpu_class)
{
    gantry_cpu_dispatcher *pool = self->pool;
    self->cpus.cpu_class = cpu_class;
    gy_mutex_lock(&pool->inject_lock);
    bool has_cpus = pool->classes[cpu_class - 1].has_cpus;
    gy_cpus cpus = pool->classes[cpu_class - 1].cpus;
    assert(gy_pool_is_valid(pool));
    gy_mutex_unlock(&pool->inject_lock);
    if (has_cpus && self->has_deque && self->only_owner == NULL &&
        pthread_getaffinity_np(pthread_self(), sizeof(*self->cpus.home), &self->cpus.home->system) == 0) {
        move(self, &cpus, true);
    }
    assert(gy_worker_is_valid(self));
}

void gy_worker_leave_class(struct gy_worker *self)
{
    assert(gy_worker_is_valid(self));
    gantry_cpu_dispatcher *pool = self->pool;
    struct gy_class *class = &pool->classes[self->cpus.cpu_class - 1];
    if (self->cpus.is_away) {
        move(self, self->cpus.home, false);
    }
    self->cpus.cpu_class = 0;
    struct gy_task_list host = {0};
    gy_mutex_lock(&pool->inject_lock);
    class->running--;
    size_t count = gy_pool_let_class_locked(pool, class, &host);
    bool may_help = class->running < class->limit && atomic_load(&pool->shown.loops) != NULL;
    assert(gy_pool_is_valid(pool));
    gy_mutex_unlock(&pool->inject_lock);
    wake(pool, &host, may_help ? count + 1 : count);
}

void gy_pool_change_class(gantry_cpu_dispatcher *pool, uint32_t cpu_class, uint32_t limit,
                          const gy_cpus *cpus)
{
    struct gy_class *class = &pool->classes[cpu_class - 1];
    struct gy_task_list host = {0};
    gy_mutex_lock(&pool->inject_lock);
    class->limit = limit != 0 ? limit : class->limit;
    class->has_cpus = cpus != NULL;
    if (cpus != NULL) {
        class->cpus = *cpus;
        atomic_store(&pool->shown.classes_have_cpus, true);
    }
    size_t count = gy_pool_let_class_locked(pool, class, &host);
    uint32_t room = class->running < class->limit ? class->limit - class->running : 0;
    bool may_help = room != 0 && atomic_load(&pool->shown.loops) != NULL;
    assert(gy_pool_is_valid(pool));
    gy_mutex_unlock(&pool->inject_lock);
    wake(pool, &host, may_help ? count + room : count);
}
