/* SPDX-License-Identifier: MIT */
/* A pool and a manager, and bodies, which the tests of the task manager share. */
#ifndef TESTS_TASKMAN_FIXTURE_H
#define TESTS_TASKMAN_FIXTURE_H

#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"

#include <gantry/taskman.h>

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

/* A pool and one manager on it. */
struct fixture {
    gantry_cpu_dispatcher *pool;
    gantry_taskman *manager;
};

static inline gantry_cpu_dispatcher *new_pool(uint32_t workers, gantry_wait_mode mode)
{
    gantry_cpu_dispatcher_options options = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    options.worker_count = workers;
    options.wait_mode = mode;
    options.inline_only = workers == 0;
    gantry_cpu_dispatcher *pool = NULL;
    assert_ok(gantry_cpu_dispatcher_create(&options, &pool));
    return pool;
}

static inline gantry_taskman *new_manager_with(gantry_cpu_dispatcher *pool, bool workers_only)
{
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    options.cpu_dispatcher = pool;
    options.workers_only = workers_only;
    gantry_taskman *manager = NULL;
    assert_ok(gantry_taskman_create(&options, &manager));
    return manager;
}

static inline gantry_taskman *new_manager(gantry_cpu_dispatcher *pool)
{
    return new_manager_with(pool, false);
}

/* `workers` 0: inline */
static inline struct fixture set_up(uint32_t workers)
{
    gantry_cpu_dispatcher *pool = new_pool(workers, GANTRY_WAIT_DEFAULT);
    return (struct fixture){pool, new_manager(pool)};
}

/* Make a pool for tests of what workers do: its workers have no guests. */
static inline struct fixture set_up_workers_only(uint32_t workers)
{
    gantry_cpu_dispatcher *pool = new_pool(workers, GANTRY_WAIT_DEFAULT);
    return (struct fixture){pool, new_manager_with(pool, true)};
}

static inline void tear_down(struct fixture *f)
{
    gantry_taskman_destroy(f->manager);
    gantry_cpu_dispatcher_destroy(f->pool);
    assert_int_equal(gy_alloc_live(), 0);
}

static inline gantry_task *add_cpu(gantry_taskman *manager, const char *name, gantry_task_fn run, void *arg)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.name = name;
    desc.run = run;
    desc.arg = arg;
    gantry_task *task = NULL;
    assert_ok(gantry_taskman_submit(manager, &desc, &task));
    return task;
}

static inline gantry_task *add_sync(gantry_taskman *manager, const char *name)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_SYNC_POINT;
    desc.name = name;
    gantry_task *task = NULL;
    assert_ok(gantry_taskman_submit(manager, &desc, &task));
    return task;
}

static inline gantry_task *get_named(gantry_taskman *manager, const char *name)
{
    gantry_task *task = NULL;
    assert_ok(gantry_taskman_get_named(manager, name, &task));
    return task;
}

/* A body that counts its calls in an atomic_int. */
static inline gantry_status count_body(gantry_task *task, void *arg)
{
    (void)task;
    atomic_fetch_add((atomic_int *)arg, 1);
    return GANTRY_OK;
}

/* Tasks that note the order in which they ran. */
struct trace {
    atomic_int length;
    _Atomic(gantry_task *) tasks[64];
};

static inline gantry_status trace_body(gantry_task *task, void *arg)
{
    struct trace *trace = arg;
    atomic_store(&trace->tasks[atomic_fetch_add(&trace->length, 1)], task);
    return GANTRY_OK;
}

/* How many threads are in a body at once. */
struct crowd {
    gantry_cpu_dispatcher *pool; /* for tests that need it */
    atomic_int inside, most, ran;
};

static inline void pass_through(struct crowd *crowd)
{
    int inside = atomic_fetch_add(&crowd->inside, 1) + 1;
    int most = atomic_load(&crowd->most);
    while (inside > most && !atomic_compare_exchange_weak(&crowd->most, &most, inside)) {
    }
    for (int i = 0; i < 20; i++) {
        sched_yield();
    }
    atomic_fetch_sub(&crowd->inside, 1);
    atomic_fetch_add(&crowd->ran, 1);
}

static inline gantry_status crowd_body(gantry_task *task, void *arg)
{
    (void)task;
    pass_through(arg);
    return GANTRY_OK;
}

/* Bodies that end when as many have begun as the meeting needs. */
struct meeting {
    int size;
    atomic_int arrived;
};

static inline gantry_status meet_body(gantry_task *task, void *arg)
{
    (void)task;
    struct meeting *meeting = arg;
    int all = (atomic_fetch_add(&meeting->arrived, 1) / meeting->size + 1) * meeting->size;
    while (atomic_load(&meeting->arrived) < all) {
        sched_yield();
    }
    return GANTRY_OK;
}

/* Write the CPUs that may be used; returns the first. */
static inline uint32_t usable_cpus(cpu_set_t *mine)
{
    assert_int_equal(sched_getaffinity(0, sizeof(*mine), mine), 0);
    uint32_t cpu = 0;
    while (!CPU_ISSET(cpu, mine)) {
        cpu++;
    }
    return cpu;
}

static inline gantry_taskman_stats stats_of(gantry_taskman *manager)
{
    gantry_taskman_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_taskman_get_stats(manager, &stats));
    return stats;
}

#define assert_error(call, expected)                                                                     \
    do {                                                                                                 \
        gantry_status assert_error_status = (call);                                                      \
        if (assert_error_status != (expected)) {                                                         \
            fail_msg("%s: %s instead of %s", #call, gantry_status_name(assert_error_status), #expected); \
        }                                                                                                \
    } while (0)

#define assert_last_error_has(text) assert_non_null(strstr(gantry_last_error(), (text)))

#endif
