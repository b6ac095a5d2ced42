/* SPDX-License-Identifier: MIT */
/* gantry_taskman_wait() waits for everything that was submitted before, whatever is submitted meanwhile. */
#include "tests/support/deadline.h"
#include "tests/taskman/fixture.h"

#include "base/clock.h"
#include "base/thread.h"
#include "taskman/manager.h"

#define LONG_NS (20 * UINT64_C(1000000000))

/* Tasks that make tasks until they shall end. */
struct endless {
    gantry_taskman *manager;
    atomic_bool end;
    atomic_int ran;
    int kind; /* 0: submitted, 1: light, 2: spawned, 3: two spawned for each that runs */
};

static gantry_status endless_body(gantry_task *task, void *arg);

static gantry_status make_next(struct endless *endless)
{
    gantry_task *task = NULL;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = endless_body;
    desc.arg = endless;
    gantry_status status = GANTRY_OK;
    switch (endless->kind) {
    case 0:
        status = gantry_taskman_submit(endless->manager, &desc, &task);
        break;
    case 1:
        status = gantry_taskman_create_light(endless->manager, endless_body, endless, NULL, NULL, &task);
        break;
    default:
        return gantry_taskman_spawn(endless->manager, endless_body, endless, NULL, NULL);
    }
    return status != GANTRY_OK ? status : gantry_task_remove_reference(task);
}

static gantry_status endless_body(gantry_task *task, void *arg)
{
    (void)task;
    struct endless *endless = arg;
    atomic_fetch_add(&endless->ran, 1);
    return atomic_load(&endless->end) ? GANTRY_OK : make_next(endless);
}

static void test_wait_returns_while_tasks_make_tasks(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 4; workers++) {
        for (int kind = 0; kind < 3; kind++) {
            for (int frozen = 0; frozen < 2; frozen++) {
                struct fixture f = set_up(workers);
                struct endless endless = {.manager = f.manager, .kind = kind};
                add_cpu(f.manager, NULL, endless_body, &endless);
                add_cpu(f.manager, NULL, endless_body, &endless);
                if (frozen != 0) {
                    assert_ok(gantry_taskman_freeze(f.manager));
                }
                for (int run = 0; run <= frozen; run++) {
                    atomic_store(&endless.end, false);
                    assert_ok(gantry_taskman_start(f.manager));
                    for (int i = 0; i < 5; i++) {
                        assert_ok(gantry_taskman_wait(f.manager));
                    }
                    atomic_store(&endless.end, true);
                    assert_ok(gantry_taskman_stop(f.manager));
                    gantry_taskman_stats stats = stats_of(f.manager);
                    assert_int_equal(stats.released, stats.tasks);
                }
                tear_down(&f);
            }
        }
    }
}

/* ---- what it waits for ------------------------------------------------------------------------- */

enum { THREADS = 3, BATCHES = 15, MOST_BATCH = 40 };

struct client {
    struct endless *endless;
    int number, missing; /* only this thread uses it; it is read after the join */
    gy_thread thread;
    atomic_int ran;
};

static gantry_status client_body(gantry_task *task, void *arg)
{
    (void)task;
    sched_yield();
    atomic_fetch_add((atomic_int *)arg, 1);
    return GANTRY_OK;
}

/* Batches of tasks of all sorts, some of which depend on each other; all have ended when wait() returns. */
static void submit_and_wait(void *arg)
{
    struct client *client = arg;
    gantry_taskman *manager = client->endless->manager;
    unsigned random = (unsigned)client->number;
    for (int batch = 0; batch < BATCHES; batch++) {
        gantry_task *before = NULL, *task = NULL;
        int count = (int)((random = random * 1664525u + 1013904223u) >> 16) % MOST_BATCH;
        atomic_store(&client->ran, 0);
        for (int i = 0; i < count; i++) {
            gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
            desc.run = client_body;
            desc.arg = &client->ran;
            bool is_light = i % 3 == 2;
            gantry_status status =
                is_light ? gantry_taskman_create_light(manager, client_body, &client->ran, NULL, NULL, &task)
                         : gantry_taskman_submit(manager, &desc, &task);
            if (before != NULL && !is_light && gantry_task_start_after(task, before) == GANTRY_OK) {
                client->missing += status != GANTRY_OK;
            }
            client->missing += gantry_task_remove_reference(task) != GANTRY_OK;
            before = is_light ? before : task;
        }
        client->missing += gantry_taskman_wait(manager) != GANTRY_OK;
        client->missing += atomic_load(&client->ran) != count;
    }
}

/* Several threads turn the epochs of one manager, beside tasks that go on for ever. */
static void test_wait_covers_what_was_submitted_before(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers < 4; workers++) {
        for (int kind = 0; kind < 4; kind++) {
            struct fixture f = set_up(workers);
            struct endless endless = {.manager = f.manager, .kind = kind};
            struct client clients[THREADS];
            for (int i = 0; i < 3 && kind < 3; i++) {
                add_cpu(f.manager, NULL, endless_body, &endless);
            }
            assert_ok(gantry_taskman_start(f.manager));
            for (int i = 0; i < THREADS; i++) {
                clients[i] = (struct client){.endless = &endless, .number = i};
                assert_ok(gy_thread_start(&clients[i].thread, "client", submit_and_wait, &clients[i]));
            }
            for (int i = 0; i < THREADS; i++) {
                gy_thread_join(&clients[i].thread);
                assert_int_equal(clients[i].missing, 0);
            }
            atomic_store(&endless.end, true);
            assert_ok(gantry_taskman_stop(f.manager));
            gantry_taskman_stats stats = stats_of(f.manager);
            assert_int_equal(stats.released, stats.tasks);
            tear_down(&f);
        }
    }
}

/* A task that is held when wait() is called belongs to those it waits for, though tasks submitted later end
 * before. */
struct holding {
    struct endless *endless;
    gantry_task *held;
};

static void let_go_later(void *arg)
{
    struct holding *holding = arg;
    int begin = atomic_load(&holding->endless->ran);
    while (atomic_load(&holding->endless->ran) < begin + 1000) {
        sched_yield();
    }
    gantry_task_remove_reference(holding->held);
}

static void test_wait_covers_what_is_held(void **state)
{
    (void)state;
    struct fixture f = set_up(2);
    struct endless endless = {.manager = f.manager};
    atomic_int count = 0;
    add_cpu(f.manager, NULL, endless_body, &endless);
    assert_ok(gantry_taskman_start(f.manager));
    for (int round = 1; round <= 10; round++) {
        struct holding holding = {&endless, add_cpu(f.manager, NULL, count_body, &count)};
        gy_thread thread;
        assert_ok(gy_thread_start(&thread, "holding", let_go_later, &holding));
        assert_ok(gantry_taskman_wait(f.manager));
        assert_int_equal(count, round);
        gy_thread_join(&thread);
    }
    atomic_store(&endless.end, true);
    assert_ok(gantry_taskman_stop(f.manager));
    tear_down(&f);
}

/* A task is submitted while a thread waits.  It follows one that the thread waits for, and takes long. */
struct later {
    gantry_taskman *manager;
    atomic_bool go, is_over;
    bool was_late;
    gantry_status status;
};

static gantry_status awaited_body(gantry_task *task, void *arg)
{
    (void)task;
    struct later *later = arg;
    while (!atomic_load(&later->go)) {
        sched_yield();
    }
    return GANTRY_OK;
}

static gantry_status long_body(gantry_task *task, void *arg)
{
    (void)task;
    struct later *later = arg;
    uint64_t end = gy_clock_ns() + LONG_NS;
    while (!atomic_load(&later->is_over) && gy_clock_ns() < end) {
        sched_yield();
    }
    later->was_late = !atomic_load(&later->is_over);
    return GANTRY_OK;
}

static void wait_for_awaited(void *arg)
{
    struct later *later = arg;
    later->status = gantry_taskman_wait(later->manager);
    atomic_store(&later->is_over, true);
}

static void test_wait_does_not_last_as_long_as_later_tasks(void **state)
{
    (void)state;
    struct fixture f = set_up_workers_only(1);
    assert_ok(gantry_taskman_start(f.manager));
    for (uint32_t epoch = 0; epoch < 4; epoch++) {
        struct later later = {.manager = f.manager};
        gantry_task *awaited = add_cpu(f.manager, NULL, awaited_body, &later);
        assert_ok(gantry_task_remove_reference(awaited));
        gy_thread thread;
        assert_ok(gy_thread_start(&thread, "waiting", wait_for_awaited, &later));
        deadline_await(atomic_load(&f.manager->as_owner.epoch) > epoch, "the thread to wait");
        gantry_task *after = add_cpu(f.manager, NULL, long_body, &later);
        assert_ok(gantry_task_start_after(after, awaited));
        assert_ok(gantry_task_remove_reference(after));
        atomic_store(&later.go, true);
        gy_thread_join(&thread);
        assert_ok(later.status);
        deadline_await(stats_of(f.manager).released == 2 * (uint64_t)(epoch + 1), "both tasks to end");
        assert_false(later.was_late);
    }
    assert_ok(gantry_taskman_stop(f.manager));
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wait_returns_while_tasks_make_tasks),
        cmocka_unit_test(test_wait_covers_what_was_submitted_before),
        cmocka_unit_test(test_wait_covers_what_is_held),
        cmocka_unit_test(test_wait_does_not_last_as_long_as_later_tasks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
