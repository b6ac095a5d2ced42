/* SPDX-License-Identifier: MIT */
/* The CPU dispatcher as the application sees it: options, creation, destruction.  Its work is in pool.c. */
#include "taskman/cpu/cpu_dispatcher.h"

#include "base/alloc.h"
#include "base/handle.h"
#include "base/options.h"
#include "taskman/cpu/classes.h"
#include "taskman/cpu/pool.h"
#include "taskman/cpu/wait.h"

#include <sched.h>
#include <stdio.h>

/* Host pools have no threads of ours, so nothing that is about threads. */
static gantry_status import_host(gantry_cpu_dispatcher *pool, const gantry_cpu_dispatcher_options *options)
{
    gantry_status status =
        gy_options_import(&pool->host, offsetof(gantry_cpu_pool_ops, reserved), options->host_pool,
                          offsetof(gantry_cpu_pool_ops, worker_count), "cpu dispatcher's host pool");
    if (status == GANTRY_OK && pool->host.submit == NULL) {
        status = GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "cpu dispatcher: the host pool has no submit function");
    }
    if (status == GANTRY_OK && (options->worker_count != 0 || options->inline_only || options->cpus != NULL ||
                                options->pin_workers)) {
        status = GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                         "cpu dispatcher: a host pool goes with no option of workers");
    }
    return status;
}

static gantry_status import_classes(gantry_cpu_dispatcher *pool, const gantry_cpu_dispatcher_options *options)
{
    if (options->class_count > GY_MOST_CLASSES ||
        (options->class_count != 0 && options->class_limits == NULL)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "cpu dispatcher: %u classes, at most %d, or no limits",
                       options->class_count, GY_MOST_CLASSES);
    }
    for (uint32_t i = 0; i < options->class_count; i++) {
        pool->classes[i].limit = options->class_limits[i];
        if (pool->classes[i].limit == 0) {
            return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "cpu dispatcher: class %u may run no task at all",
                           i + 1);
        }
    }
    pool->class_count = options->class_count;
    return GANTRY_OK;
}

static gantry_status import_options(gantry_cpu_dispatcher *pool, const gantry_cpu_dispatcher_options *options)
{
    if (options->worker_count > GY_MOST_WORKERS) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "cpu dispatcher: %u workers, at most %d are possible",
                       options->worker_count, GY_MOST_WORKERS);
    }
    if (options->inline_only &&
        (options->worker_count != 0 || options->cpus != NULL || options->pin_workers)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "cpu dispatcher: inline_only with %u workers",
                       options->worker_count);
    }
    if ((unsigned)options->wait_mode > GANTRY_WAIT_ADAPTIVE) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "cpu dispatcher: unknown wait mode %d",
                       (int)options->wait_mode);
    }
    gantry_status status = import_classes(pool, options);
    if (status == GANTRY_OK && options->host_pool != NULL) {
        status = import_host(pool, options);
    }
    pool->inline_only = options->inline_only;
    pool->mode = options->wait_mode == GANTRY_WAIT_DEFAULT ? GANTRY_WAIT_HYBRID : options->wait_mode;
    return status;
}

gantry_status gy_cpus_choose(const char *call, const uint32_t *cpus, uint32_t count, gy_cpus *allowed)
{
    gy_cpus mine;
    gy_cpus_usable(&mine);
    *allowed = mine;
    if (cpus == NULL && count == 0) {
        return GANTRY_OK;
    }
    if (cpus == NULL || count == 0) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: cpus and cpu_count do not fit", call);
    }
    memset(allowed, 0, sizeof(*allowed));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t cpu = cpus[i];
        if (!gy_cpus_has(&mine, cpu)) {
            return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: CPU %u may not be used", call, cpu);
        }
        gy_cpus_add(allowed, cpu);
    }
    return GANTRY_OK;
}

/* The `index`-th of the CPUs, going round. */
static uint32_t nth_cpu(const gantry_cpu_dispatcher_options *options, const gy_cpus *allowed, uint32_t index)
{
    if (options->cpus != NULL) {
        return options->cpus[index % options->cpu_count];
    }
    uint32_t cpu = 0;
    for (uint32_t left = index % gy_cpus_count(allowed); left > 0 || !gy_cpus_has(allowed, cpu); cpu++) {
        left -= gy_cpus_has(allowed, cpu);
    }
    return cpu;
}

gantry_status gantry_cpu_dispatcher_set_class(gantry_cpu_dispatcher *dispatcher, uint32_t cpu_class,
                                              const gantry_cpu_class_options *options)
{
    GY_ACCEPT(CPU_DISPATCHER, dispatcher);
    if (dispatcher == NULL || options == NULL || cpu_class == 0 || cpu_class > dispatcher->class_count) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "cpu dispatcher: no options, or it has no class %u",
                       cpu_class);
    }
    gantry_cpu_class_options ours = {0};
    gantry_status status = gy_options_import(&ours, sizeof(ours), options,
                                             offsetof(gantry_cpu_class_options, limit), "class options");
    gy_cpus cpus;
    if (status == GANTRY_OK) {
        status = gy_cpus_choose("cpu dispatcher", ours.cpus, ours.cpu_count, &cpus);
    }
    if (status == GANTRY_OK && ours.cpus != NULL && dispatcher->worker_count == 0) {
        status = GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "cpu dispatcher: it has no workers to be moved");
    }
    if (status == GANTRY_OK) {
        gy_pool_change_class(dispatcher, cpu_class, ours.limit, ours.cpus != NULL ? &cpus : NULL);
    }
    return status;
}

/* Best effort beyond what gy_cpus_choose() has checked: the system may have taken a CPU away since. */
static void place_workers(gantry_cpu_dispatcher *pool, const gantry_cpu_dispatcher_options *options,
                          const gy_cpus *allowed)
{
    for (uint32_t i = 0; i < pool->worker_count && (options->cpus != NULL || options->pin_workers); i++) {
        gy_cpus one = {.words = {0}};
        gy_cpus_add(&one, nth_cpu(options, allowed, i));
        const gy_cpus *set = options->pin_workers ? &one : allowed;
        if (pthread_setaffinity_np(pool->workers[i].thread.native, sizeof(*set), &set->system) != 0) {
            gy_log(GANTRY_LOG_WARNING, "cpu dispatcher: worker %u cannot be bound to its CPUs", i);
        }
    }
}

static void stop_workers(gantry_cpu_dispatcher *pool, uint32_t started)
{
    atomic_store(&pool->shown.stopping, true);
    gy_event_notify(&pool->events.work, UINT32_MAX);
    for (uint32_t i = 0; i < started; i++) {
        gy_thread_join(&pool->workers[i].thread);
    }
}

static void free_workers(gantry_cpu_dispatcher *pool, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        gy_deque_fini(&pool->workers[i].deque);
    }
    gy_free(pool->workers);
}

/* All workers' queues exist before the first thread can look into them. */
static gantry_status start_workers(gantry_cpu_dispatcher *pool)
{
    pool->forks = gy_thread_forks();
    uint32_t count = pool->worker_count;
    size_t bytes = count * (sizeof(*pool->workers) + sizeof(gy_cpus));
    pool->workers = gy_alloc_aligned(bytes == 0 ? 1 : bytes, 64);
    if (pool->workers == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "cpu dispatcher: no memory for %u workers", count);
    }
    memset(pool->workers, 0, bytes);
    gy_cpus *homes = (gy_cpus *)(void *)(pool->workers + count);
    gantry_status status = GANTRY_OK;
    uint32_t made = 0, started = 0;
    for (; made < count; made++) {
        struct gy_worker *worker = &pool->workers[made];
        status = gy_deque_init(&worker->deque);
        if (status != GANTRY_OK) {
            goto free_workers;
        }
        worker->pool = pool;
        worker->has_deque = true;
        worker->random = made;
        worker->index = made;
        worker->cpus.home = &homes[made];
        snprintf(worker->name, sizeof(worker->name), "gantry worker %u", made);
    }
    for (; started < count; started++) {
        struct gy_worker *worker = &pool->workers[started];
        status = gy_thread_start(&worker->thread, worker->name, gy_worker_main, worker);
        if (status != GANTRY_OK) {
            goto stop_workers;
        }
    }
    return GANTRY_OK;
stop_workers:
    stop_workers(pool, started);
free_workers:
    free_workers(pool, made);
    return status;
}

gantry_status gantry_cpu_dispatcher_create(const gantry_cpu_dispatcher_options *options,
                                           gantry_cpu_dispatcher **out)
{
    if (out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "cpu dispatcher: out is NULL");
    }
    gantry_cpu_dispatcher *pool = gy_alloc_aligned(sizeof(*pool), 64);
    if (pool == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "cpu dispatcher: no memory");
    }
    memset(pool, 0, sizeof(*pool));
    gy_oversleep_init(&pool->oversleep);
    gantry_cpu_dispatcher_options ours = {0};
    gy_cpus allowed;
    gantry_status status = gy_options_import(
        &ours, sizeof(ours), options, offsetof(gantry_cpu_dispatcher_options, wait_mode), "cpu dispatcher");
    if (status == GANTRY_OK) {
        status = import_options(pool, &ours);
    }
    if (status == GANTRY_OK) {
        status = gy_cpus_choose("cpu dispatcher", ours.cpus, ours.cpu_count, &allowed);
    }
    if (status != GANTRY_OK) {
        goto free_pool;
    }
    pool->lends = ours.cpus == NULL && !ours.pin_workers;
    bool has_workers = !pool->inline_only && pool->host.submit == NULL;
    pool->worker_count = !has_workers             ? 0
                         : ours.worker_count != 0 ? ours.worker_count
                         : ours.cpus != NULL      ? gy_cpus_count(&allowed)
                                                  : gy_cpus_at_once(&allowed);
    status = gy_event_init(&pool->events.work);
    if (status != GANTRY_OK) {
        goto free_pool;
    }
    status = gy_event_init(&pool->events.done);
    if (status != GANTRY_OK) {
        goto fini_work;
    }
    status = gy_event_init(&pool->events.returned);
    if (status != GANTRY_OK) {
        goto fini_done;
    }
    gy_mutex_init(&pool->inject_lock, GY_RANK_CPU_POOL);
    status = start_workers(pool);
    if (status != GANTRY_OK) {
        goto fini_returned;
    }
    place_workers(pool, &ours, &allowed);
    gy_handle_born(GY_HANDLE_CPU_DISPATCHER, pool, sizeof(*pool), sizeof(*pool));
    *out = pool;
    return GANTRY_OK;
fini_returned:
    gy_mutex_fini(&pool->inject_lock);
    gy_event_fini(&pool->events.returned);
fini_done:
    gy_event_fini(&pool->events.done);
fini_work:
    gy_event_fini(&pool->events.work);
free_pool:
    gy_free(pool);
    return status;
}

void gy_pool_destroy(gantry_cpu_dispatcher *pool)
{
    if (pool == NULL) {
        return;
    }
    /* A foreign thread that released the last task may still be on its way out; it waits for nothing. */
    while (atomic_load_explicit(&pool->outside, memory_order_acquire) != 0) {
        sched_yield();
    }
    if (pool->inline_only) {
        gy_pool_drain_inline(pool);
    }
    stop_workers(pool, pool->worker_count);
    free_workers(pool, pool->worker_count);
    gy_mutex_fini(&pool->inject_lock);
    gy_event_fini(&pool->events.returned);
    gy_event_fini(&pool->events.done);
    gy_event_fini(&pool->events.work);
    gy_handle_free(pool, pool);
}

void gantry_cpu_dispatcher_destroy(gantry_cpu_dispatcher *dispatcher)
{
    GY_ACCEPT_OR_LEAVE(CPU_DISPATCHER, dispatcher);
    if (dispatcher == NULL || gy_pool_check_outside("gantry_cpu_dispatcher_destroy") != GANTRY_OK ||
        gy_pool_forks(dispatcher) < gy_thread_forks()) {
        return;
    }
    gy_pool_destroy(dispatcher);
}

uint32_t gantry_cpu_dispatcher_worker_count(const gantry_cpu_dispatcher *dispatcher)
{
    GY_ACCEPT_OR(0, CPU_DISPATCHER, dispatcher);
    return dispatcher->host.submit != NULL ? dispatcher->host.worker_count : dispatcher->worker_count;
}

gantry_status gantry_cpu_dispatcher_execute(gantry_cpu_dispatcher *dispatcher, gantry_task *task)
{
    GY_ACCEPT(CPU_DISPATCHER, dispatcher);
    GY_ACCEPT(TASK, task);
    if (dispatcher == NULL || task == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "execute: dispatcher or task is NULL");
    }
    if (dispatcher->host.submit == NULL) {
        return GY_FAIL(GANTRY_ERR_STATE, "execute: the dispatcher has workers of its own");
    }
    gy_pool_enter(dispatcher);
    gy_worker_run_here(dispatcher, task);
    gy_pool_leave(dispatcher);
    return GANTRY_OK;
}
