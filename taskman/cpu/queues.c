/* SPDX-License-Identifier: MIT */
/* The pool's shared lists: injection, priorities, limited classes, and the way to a pool of the application's
 * own.
 *
 * Tasks with a priority or a class are few and long compared to plain ones, so they pass through lists under
 * the injection lock.  A task of a limited class occupies its class from when it is let through to the other
 * lists until it has ended; the others wait here. */
#include "taskman/cpu/queues.h"

#include "taskman/cpu/bundle.h"
#include "taskman/cpu/wake.h"

#include <assert.h>

uint32_t gy_pool_class_count(const gantry_cpu_dispatcher *pool)
{
    return pool->class_count;
}

static void inject_locked(gantry_cpu_dispatcher *pool, gantry_task *first, gantry_task *last, size_t count)
    GY_REQUIRES(pool->inject_lock)
{
    last->next = NULL;
    *(pool->queues.first == NULL ? &pool->queues.first : &pool->queues.last->next) = first;
    pool->queues.last = last;
    atomic_fetch_add(&pool->shown.inject_count, count);
}

void gy_pool_inject(gantry_cpu_dispatcher *pool, gantry_task *first, gantry_task *last, size_t count)
{
    gy_mutex_lock(&pool->inject_lock);
    inject_locked(pool, first, last, count);
    assert(gy_pool_is_valid(pool));
    gy_mutex_unlock(&pool->inject_lock);
}

void gy_pool_submit_to_host(gantry_cpu_dispatcher *pool, gantry_task *first)
{
    for (gantry_task *task = first, *next; task != NULL; task = next) {
        next = task->next;
        pool->host.submit(pool->host.user, pool, task);
    }
}

/* From here on only the task's priority decides.  Tasks for a host's pool are collected in `host`. */
static void let_through_locked(gantry_cpu_dispatcher *pool, gantry_task *task, struct gy_task_list *host)
    GY_REQUIRES(pool->inject_lock)
{
    if (pool->host.submit != NULL) {
        gy_task_list_add(host, task);
    } else if ((task->traits & GY_TRAIT_HIGH) != 0) {
        gy_task_list_add(&pool->queues.urgent, task);
        atomic_fetch_add(&pool->shown.urgent_count, 1);
    } else if ((task->traits & GY_TRAIT_LOW) != 0) {
        gy_task_list_add(&pool->queues.low, task);
        atomic_fetch_add(&pool->shown.low_count, 1);
    } else {
        inject_locked(pool, task, task, 1);
    }
}

void gy_pool_queue(gantry_cpu_dispatcher *pool, gantry_task *first)
{
    struct gy_task_list host = {0};
    size_t count = 0;
    gy_mutex_lock(&pool->inject_lock);
    for (gantry_task *task = first, *next; task != NULL; task = next) {
        next = task->next;
        uint32_t number = gy_task_class(task);
        struct gy_class *class = number != 0 ? &pool->classes[number - 1] : NULL;
        if (class != NULL && class->running >= class->limit) {
            gy_task_list_add(&class->waiting, task);
            continue;
        }
        if (class != NULL) {
            class->running++;
        }
        let_through_locked(pool, task, &host);
        count++;
    }
    assert(gy_pool_is_valid(pool));
    gy_mutex_unlock(&pool->inject_lock);
    if (host.first != NULL) {
        gy_pool_submit_to_host(pool, host.first);
    } else if (count != 0) {
        gy_pool_notify_work(pool, count);
    }
}

size_t gy_pool_let_class_locked(gantry_cpu_dispatcher *pool, struct gy_class *class,
                                struct gy_task_list *host)
{
    size_t count = 0;
    while (class->running < class->limit && class->waiting.first != NULL) {
        class->running++;
        let_through_locked(pool, gy_task_list_pop(&class->waiting), host);
        count++;
    }
    return count;
}

bool gy_worker_may_run_locked(const gantry_cpu_dispatcher *pool, const struct gy_worker *self,
                              const gantry_task *task)
{
    if (self->only_owner == NULL) {
        return true;
    }
    uint32_t number = gy_task_class(task);
    return task->owner == self->only_owner && (number == 0 || !pool->classes[number - 1].has_cpus);
}

/* The first, if the worker may run it. */
static gantry_task *take_first_locked(gantry_cpu_dispatcher *pool, const struct gy_worker *self,
                                      struct gy_task_list *list) GY_REQUIRES(pool->inject_lock)
{
    return list->first != NULL && gy_worker_may_run_locked(pool, self, list->first) ? gy_task_list_pop(list)
                                                                                    : NULL;
}

gantry_task *gy_pool_take_urgent(struct gy_worker *self)
{
    gantry_cpu_dispatcher *pool = self->pool;
    gy_mutex_lock(&pool->inject_lock);
    gantry_task *task = take_first_locked(pool, self, &pool->queues.urgent);
    if (task != NULL) {
        atomic_fetch_sub(&pool->shown.urgent_count, 1);
    }
    assert(gy_pool_is_valid(pool));
    gy_mutex_unlock(&pool->inject_lock);
    return task;
}

gantry_task *gy_pool_take_low(struct gy_worker *self)
{
    gantry_cpu_dispatcher *pool = self->pool;
    gy_mutex_lock(&pool->inject_lock);
    gantry_task *task = take_first_locked(pool, self, &pool->queues.low);
    if (task != NULL) {
        atomic_fetch_sub(&pool->shown.low_count, 1);
    }
    assert(gy_pool_is_valid(pool));
    gy_mutex_unlock(&pool->inject_lock);
    return task;
}

size_t gy_pool_inject_item(gantry_cpu_dispatcher *pool, gantry_task *item)
{
    gantry_task *first = gy_item_first(item), *last = first;
    size_t count = 1;
    for (; gy_item_is_bundle(item) && last->next != NULL; last = last->next) {
        count++;
    }
    gy_pool_inject(pool, first, last, count);
    return count;
}

void gy_worker_give_away(struct gy_worker *self, gantry_task *item)
{
    size_t count = gy_pool_inject_item(self->pool, item);
    gy_pool_miss(self->pool, GY_MISSED_OF_OTHERS); /* even if others sleep: it is looked for once more */
    gy_pool_notify_work(self->pool, count);
}
