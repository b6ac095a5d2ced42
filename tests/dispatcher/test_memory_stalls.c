/* SPDX-License-Identifier: MIT */
/* Task managers that wait for memory which nobody will give back: the first of their tasks is let in, whoever
 * waits for which manager, and on whose threads each of them runs. */
#include "dispatcher/internal.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"
#include "tests/support/memory_scene.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#define LITTLE (16 * MIB)           /* fits beside one MOST */
#define GUARDS ((uint64_t)64 << 10) /* room for the bytes that GANTRY_CHECK=guards adds to a block */

static struct gpu_fixture scene;

static int open_scene(void **state)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_heap_options heap = GANTRY_HEAP_OPTIONS_INIT;
    (void)state;
    memory_scene_settings(&options, &heap);
    gpu_fixture_open_with(&scene, 1, &options);
    return 0;
}

static int close_scene(void **state)
{
    (void)state;
    gpu_fixture_close(&scene);
    return 0;
}

/* `cpus` NULL: the thread that waits for the manager runs its CPU tasks. */
static gantry_taskman *manager_on(gantry_cpu_dispatcher *cpus)
{
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *manager = NULL;
    options.cpu_dispatcher = cpus;
    options.gpu_dispatcher = gantry_context_dispatcher(scene.context);
    assert_ok(gantry_taskman_create(&options, &manager));
    return manager;
}

static void post_end(gantry_task *task, void *arg, gantry_status result)
{
    (void)task;
    (void)result;
    (void)sem_post(arg);
}

/* `ended`, if not NULL, is posted when it is released. */
static gantry_task *submit_gpu(gantry_taskman *manager, gantry_task *after, uint32_t memory, sem_t *ended)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch_nothing;
    desc.memory = memory;
    desc.release = ended != NULL ? post_end : NULL;
    desc.arg = ended;
    return submit_behind(manager, after, &desc);
}

/* The manager's last task needs the memory of its first, and the one between needs other memory. */
static gantry_task *submit_knot(gantry_taskman *manager, sem_t *ended)
{
    uint32_t first = gpu_fixture_declare(manager, MOST), second = gpu_fixture_declare(manager, MOST);
    gantry_task *task = submit_gpu(manager, NULL, first, NULL);
    task = submit_gpu(manager, task, second, NULL);
    return submit_gpu(manager, task, first, ended);
}

static void await_waiting(uint64_t tasks)
{
    deadline_await(gpu_fixture_stats(&scene).memory_tasks_waiting == tasks, "tasks to wait for memory");
}

static uint64_t forced(void)
{
    return gpu_fixture_stats(&scene).memory_forced;
}

static void *stop(void *manager)
{
    return gantry_taskman_stop(manager) == GANTRY_OK ? manager : NULL;
}

/* The application waits for its own semaphore; no thread waits for the manager. */
static void test_nobody_waits_for_the_manager(void **state)
{
    (void)state;
    gantry_cpu_dispatcher *pools[] = {scene.cpus, NULL};
    for (int i = 0; i < 2; i++) {
        gantry_taskman *manager = manager_on(pools[i]);
        sem_t ended;
        assert_int_equal(sem_init(&ended, 0, 0), 0);
        (void)submit_knot(manager, &ended);
        assert_ok(gantry_taskman_start(manager));
        deadline_begin("the last task of a manager that nobody waits for");
        while (sem_wait(&ended) != 0) {
        }
        deadline_end();
        assert_ok(gantry_taskman_stop(manager));
        assert_int_equal(forced(), (uint64_t)i + 1);
        gantry_taskman_destroy(manager);
        assert_int_equal(sem_destroy(&ended), 0);
    }
}

/* While any other manager still runs, a waiting one cannot be let in, since the other may end at any time. */
static void test_another_manager_ends_later(void **state)
{
    (void)state;
    uint64_t rounds = getenv("GANTRY_TEST_LIGHT") != NULL ? 5 : 40;
    for (uint64_t i = 0; i < rounds; i++) {
        gantry_taskman *manager = manager_on(NULL), *other = manager_on(NULL);
        pthread_t ours, theirs;
        void *result;
        uint32_t memory = gpu_fixture_declare(other, LITTLE);
        atomic_store(&gate, false);
        (void)submit_gate(other, submit_gpu(other, NULL, memory, NULL), memory);
        assert_ok(gantry_taskman_start(other));
        assert_int_equal(pthread_create(&theirs, NULL, stop, other), 0);
        deadline_await(gpu_fixture_stats(&scene).memory_held_bytes[GANTRY_MEMORY_DEVICE] == LITTLE,
                       "the other manager's memory");
        (void)submit_knot(manager, NULL);
        assert_ok(gantry_taskman_start(manager));
        assert_int_equal(pthread_create(&ours, NULL, stop, manager), 0);
        await_waiting(1);
        for (uint64_t turn = 0; turn < i; turn++) {
            sched_yield(); /* it has asked, or it has not yet */
        }
        atomic_store(&gate, true);
        deadline_begin("a manager that waits for memory of its own");
        assert_int_equal(pthread_join(ours, &result), 0);
        assert_ptr_equal(result, manager);
        assert_int_equal(pthread_join(theirs, &result), 0);
        deadline_end();
        assert_ptr_equal(result, other);
        assert_int_equal(forced(), i + 1);
        gantry_taskman_destroy(other);
        gantry_taskman_destroy(manager);
    }
}

/* The other manager, for which no thread waits, comes to a standstill on a worker of its own, and ends
 * nothing. */
static void test_another_manager_falls_quiet_later(void **state)
{
    (void)state;
    gantry_taskman *manager = manager_on(NULL), *other = manager_on(scene.cpus);
    pthread_t ours;
    void *result;
    uint32_t memory = gpu_fixture_declare(other, LITTLE);
    gantry_task *first = submit_gpu(other, NULL, memory, NULL);
    gantry_task *between = submit_gpu(other, first, gpu_fixture_declare(other, ROOM - 2 * MIB), NULL);
    (void)submit_gpu(other, between, memory, NULL);
    (void)submit_gate(other, first, 0);
    assert_ok(gantry_taskman_start(other));
    await_waiting(1);
    (void)submit_knot(manager, NULL);
    assert_ok(gantry_taskman_start(manager));
    assert_int_equal(pthread_create(&ours, NULL, stop, manager), 0);
    await_waiting(2);
    assert_int_equal(forced(), 0);
    atomic_store(&gate, true);
    deadline_begin("a manager beside another one that has come to a standstill");
    assert_int_equal(pthread_join(ours, &result), 0);
    deadline_end();
    assert_ptr_equal(result, manager);
    assert_ok(gantry_taskman_stop(other));
    assert_true(forced() >= 1);
    gantry_taskman_destroy(other);
    gantry_taskman_destroy(manager);
}

/* A name that may still be submitted makes no stall, unless a thread waits. */
static void test_a_name_may_still_come(void **state)
{
    (void)state;
    gantry_taskman *manager = manager_on(scene.cpus);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *named = NULL, *first, *last;
    uint32_t memory = gpu_fixture_declare(manager, MOST);
    first = submit_gpu(manager, NULL, memory, NULL);
    last = submit_gpu(manager, first, memory, NULL);
    assert_ok(gantry_task_add_reference(last));
    assert_ok(gantry_taskman_start(manager));
    assert_ok(gantry_taskman_get_named(manager, "late", &named));
    assert_ok(gantry_task_start_after(last, named));
    gantry_task *waits = submit_gpu(manager, NULL, gpu_fixture_declare(manager, MOST), NULL);
    assert_ok(gantry_task_remove_reference(waits));
    await_waiting(1);
    assert_ok(gantry_task_remove_reference(last)); /* and now only the name holds it back */
    gantry_taskman *bystander = manager_on(scene.cpus);
    (void)submit_gpu(bystander, NULL, 0, NULL);
    assert_ok(gantry_taskman_start(bystander));
    assert_ok(gantry_taskman_stop(bystander));
    gantry_taskman_destroy(bystander);
    deadline_await(atomic_load(&gantry_context_dispatcher(scene.context)->inbox.asleep),
                   "GD to sleep, having looked at everything once more");
    assert_int_equal(forced(), 0);
    desc.kind = GANTRY_TASK_SYNC_POINT;
    desc.name = "late";
    assert_ok(gantry_taskman_submit(manager, &desc, NULL));
    assert_ok(gantry_task_remove_reference(named));
    assert_ok(gantry_taskman_stop(manager));
    assert_int_equal(forced(), 0);
    gantry_taskman_destroy(manager);
}

/* ---- what the library itself needs of the limit ---- */

static gantry_launch_result take_all(gantry_launch *launch, void *arg)
{
    void *block;
    const uint64_t bytes = *(const uint64_t *)arg - GUARDS;
    gantry_status status =
        gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, bytes, 0, GANTRY_ALLOC_SITE("all"), &block);
    return status == GANTRY_OK && gantry_free_after(block, launch) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                : GANTRY_LAUNCH_FAILED;
}

/* Run some tasks that each have a declaration of their own, of `bytes`; returns the status of the step. */
static gantry_status declare_and_take(uint64_t bytes)
{
    enum { TASKS = 12 };
    gantry_taskman *manager = manager_on(scene.cpus);
    for (int i = 0; i < TASKS; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.kind = GANTRY_TASK_KERNEL;
        desc.launch = take_all;
        desc.arg = &bytes;
        desc.memory = gpu_fixture_declare(manager, bytes);
        assert_ok(gantry_taskman_submit(manager, &desc, NULL));
    }
    assert_ok(gantry_taskman_start(manager));
    deadline_begin("tasks that declare as much as the limit");
    gantry_status status = gantry_taskman_stop(manager);
    deadline_end();
    gantry_taskman_destroy(manager);
    return status;
}

static void test_what_the_library_needs_can_not_be_declared(void **state)
{
    (void)state;
    assert_int_equal(declare_and_take(ROOM), GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    assert_non_null(
        strstr(gantry_last_error(), "task memory: 67108864 bytes of device memory were declared"));
    assert_non_null(strstr(gantry_last_error(), "of the 67108864 there can be the library itself needs "));
    assert_non_null(strstr(gantry_last_error(), "which leaves 65011712 to large blocks"));
    assert_int_equal(gpu_fixture_stats(&scene).memory_admitted, 0);
    assert_int_equal(forced(), 0);
    assert_ok(declare_and_take(ROOM - 2 * MIB)); /* what the message says */
    assert_int_equal(gpu_fixture_stats(&scene).memory_admitted, 12);
    assert_int_equal(forced(), 0);
}

/* Small blocks find room beside the library's, in the same 2 MiB: such tasks may try, and the log says it. */
static void test_what_fits_in_small_blocks_alone_is_forced(void **state)
{
    (void)state;
    gantry_taskman *manager = manager_on(scene.cpus);
    (void)submit_gpu(manager, NULL, gpu_fixture_declare(manager, ROOM - MIB), NULL);
    assert_ok(gantry_taskman_start(manager));
    assert_ok(gantry_taskman_stop(manager));
    assert_int_equal(gpu_fixture_stats(&scene).memory_admitted, 1);
    assert_int_equal(forced(), 1);
    gantry_taskman_destroy(manager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nobody_waits_for_the_manager, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_another_manager_ends_later, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_another_manager_falls_quiet_later, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_a_name_may_still_come, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_what_the_library_needs_can_not_be_declared, open_scene,
                                        close_scene),
        cmocka_unit_test_setup_teardown(test_what_fits_in_small_blocks_alone_is_forced, open_scene,
                                        close_scene),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
