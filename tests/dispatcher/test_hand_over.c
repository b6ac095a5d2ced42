/* SPDX-License-Identifier: MIT */
/* Who hands a GPU task over to the dispatcher uses it a little longer than the task is on its way: the step
 * does not end meanwhile, since the program may then destroy the dispatcher. */
#include "base/point.h"
#include "dispatcher/loop/inbox.h"
#include "taskman/manager.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include <sched.h>

static _Atomic(gantry_taskman *) handed; /* of the task that is handed over next; NULL: nobody looks */
static atomic_bool kept;

/* The task runs to its end while the thread is here; then nothing is left of the step but what the thread
 * keeps. */
static void let_the_task_end(enum gy_point point, const void *at)
{
    gantry_taskman *manager =
        point == GY_POINT_INBOX_ADDED ? atomic_exchange(&handed, (gantry_taskman *)NULL) : NULL;
    if (manager == NULL) {
        return;
    }
    gy_inbox_signal((struct gy_inbox *)(uintptr_t)at);
    while (atomic_load(&manager->as_owner.work) >= GY_WORK_PENDING ||
           atomic_load(&manager->as_owner.odd_pending) != 0) {
        sched_yield();
    }
    atomic_store(&kept, !gy_taskman_is_idle(manager));
}

static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    (void)launch;
    (void)arg;
    return GANTRY_LAUNCH_DONE;
}

static gantry_status choose(gantry_task *task, void *arg)
{
    gantry_taskman *manager = arg;
    atomic_store(&handed, manager);
    return gantry_task_choose(task, 0);
}

static void look(gantry_taskman *manager)
{
    atomic_store(&handed, manager);
    atomic_store(&kept, false);
    gy_point_hook(let_the_task_end);
}

static void test_a_round_that_ends_with_a_gpu_task(void **state)
{
    (void)state;
    struct gpu_fixture f;
    gpu_fixture_open(&f, 1, 0);
    gpu_fixture_use_threads_only(&f);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *condition;
    desc.run = choose;
    desc.arg = f.manager;
    desc.is_condition = true;
    assert_ok(gantry_taskman_submit(f.manager, &desc, &condition));
    gpu_fixture_after(gpu_fixture_gpu(&f, GANTRY_TASK_KERNEL, "last", launch, NULL), condition);
    assert_ok(gantry_taskman_freeze(f.manager));
    look(NULL);
    assert_ok(gantry_taskman_start(f.manager));
    assert_ok(gantry_taskman_stop(f.manager));
    gy_point_hook(NULL);
    assert_true(atomic_load(&kept));
    gpu_fixture_close(&f);
}

static void test_the_last_reference_of_a_gpu_task(void **state)
{
    (void)state;
    struct gpu_fixture f;
    gpu_fixture_open(&f, 1, 0);
    gpu_fixture_use_threads_only(&f);
    gantry_task *last = gpu_fixture_gpu(&f, GANTRY_TASK_KERNEL, "last", launch, NULL);
    assert_ok(gantry_task_add_reference(last));
    assert_ok(gantry_taskman_start(f.manager));
    look(f.manager);
    assert_ok(gantry_task_remove_reference(last));
    assert_true(atomic_load(&kept));
    assert_ok(gpu_fixture_stop(&f));
    gy_point_hook(NULL);
    gpu_fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_round_that_ends_with_a_gpu_task),
        cmocka_unit_test(test_the_last_reference_of_a_gpu_task),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
