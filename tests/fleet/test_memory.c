/* SPDX-License-Identifier: MIT */
/* Tasks on several devices that declare memory: each device lets its own tasks in, and when managers wait for
 * each other across devices one task is let in although it does not fit, but never while a device can go on.
 */
#include "base/alloc.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"
#include "tests/support/memory_scene.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEVICES = 2 };

static gantry_fleet *fleet;
static gantry_cpu_dispatcher *cpus;

static int open_scene(void **state)
{
    (void)state;
    if (gpu_fixture_lacks_devices(DEVICES)) {
        return 0;
    }
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_heap_options heap = GANTRY_HEAP_OPTIONS_INIT;
    gantry_fleet_options options = GANTRY_FLEET_OPTIONS_INIT;
    gantry_cpu_dispatcher_options pool = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    memory_scene_settings(&context, &heap);
    context.mode = GANTRY_CONTEXT_OWN;
    options.devices = "0,1";
    options.context = &context;
    assert_ok(gantry_fleet_create(&options, &fleet));
    pool.worker_count = 3;
    assert_ok(gantry_cpu_dispatcher_create(&pool, &cpus));
    return 0;
}

static int close_scene(void **state)
{
    (void)state;
    gantry_cpu_dispatcher_destroy(cpus);
    gantry_fleet_destroy(fleet);
    cpus = NULL;
    fleet = NULL;
    return 0;
}

static bool lacks_devices(void)
{
    if (fleet == NULL) {
        print_message("fewer than %d devices\n", DEVICES);
    }
    return fleet == NULL;
}

/* Declare memory of the fleet, or of one device if `device` is not negative. */
static gantry_taskman *make_manager(int device)
{
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *manager = NULL;
    options.cpu_dispatcher = cpus;
    options.fleet = device < 0 ? fleet : NULL;
    options.gpu_dispatcher =
        device < 0 ? NULL : gantry_context_dispatcher(gantry_fleet_context(fleet, (uint32_t)device));
    assert_ok(gantry_taskman_create(&options, &manager));
    return manager;
}

static gantry_task *submit_gpu(gantry_taskman *manager, gantry_task *after, uint32_t device, uint32_t memory)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch_nothing;
    desc.memory = memory;
    desc.context = gantry_fleet_context(fleet, device);
    return submit_behind(manager, after, &desc);
}

static gantry_dispatcher_stats stats_of(uint32_t device)
{
    gantry_dispatcher_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(
        gantry_dispatcher_get_stats(gantry_context_dispatcher(gantry_fleet_context(fleet, device)), &stats));
    return stats;
}

static uint64_t forced(void)
{
    return stats_of(0).memory_forced + stats_of(1).memory_forced;
}

static void await_admitted(uint32_t device, uint64_t count)
{
    deadline_await(stats_of(device).memory_admitted == count, "tasks to be let in");
}

static void await_waiting(uint32_t device, uint64_t count)
{
    deadline_await(stats_of(device).memory_tasks_waiting == count, "tasks to wait for memory");
}

/* The bytes of one declaration are held on each device by itself, and given back there. */
static void test_each_device_holds_its_own(void **state)
{
    (void)state;
    if (lacks_devices()) {
        return;
    }
    gantry_taskman *manager = make_manager(-1);
    uint32_t first = gpu_fixture_declare(manager, MOST), second = gpu_fixture_declare(manager, MOST);
    gantry_task *hold = submit_gpu(manager, NULL, 0, first);
    (void)submit_gate(manager, hold, first);
    (void)submit_gpu(manager, NULL, 1, second);
    gantry_task *blocked = submit_gpu(manager, hold, 0, second);
    (void)submit_gpu(manager, blocked, 1, 0);
    deadline_begin("tasks that hold memory on two devices");
    assert_ok(gantry_taskman_start(manager));
    await_admitted(0, 1);
    await_admitted(1, 1);
    await_waiting(0, 1);
    assert_int_equal(stats_of(1).memory_tasks_waiting, 0);
    atomic_store(&gate, true);
    assert_ok(gantry_taskman_stop(manager));
    assert_int_equal(stats_of(0).memory_admitted, 2);
    assert_int_equal(stats_of(1).memory_admitted, 1);
    assert_int_equal(forced(), 0);
    assert_ok(gantry_taskman_reset(manager));
    deadline_end();
    gantry_taskman_destroy(manager);
}

/* It holds memory of device `from`, and will hold it until its task on the other device has ended. */
static void submit_crossing(gantry_taskman *manager, uint32_t from)
{
    uint32_t mine = gpu_fixture_declare(manager, MOST), theirs = gpu_fixture_declare(manager, MOST);
    gantry_task *task = submit_gpu(manager, NULL, from, mine);
    task = submit_gate(manager, task, 0);
    task = submit_gpu(manager, task, 1 - from, theirs);
    (void)submit_gpu(manager, task, from, mine);
}

/* Each of two managers holds memory that the other one needs: one of them is let in, and only one. */
static void test_two_managers_cross(void **state)
{
    (void)state;
    if (lacks_devices()) {
        return;
    }
    for (uint32_t n = 0; n < 40; n++) {
        gantry_taskman *managers[] = {make_manager(-1), make_manager(-1)};
        const uint64_t admitted[] = {stats_of(0).memory_admitted, stats_of(1).memory_admitted};
        const uint64_t before = forced();
        atomic_store(&gate, false);
        deadline_begin("two managers that hold what the other one needs");
        for (uint32_t e = 0; e < DEVICES; e++) {
            submit_crossing(managers[e], e);
            assert_ok(gantry_taskman_start(managers[e]));
        }
        await_admitted(0, admitted[0] + 1);
        await_admitted(1, admitted[1] + 1);
        atomic_store(&gate, true);
        for (uint32_t e = 0; e < DEVICES; e++) {
            assert_ok(gantry_taskman_stop(managers[e]));
            gantry_taskman_destroy(managers[e]);
        }
        deadline_end();
        assert_int_equal(forced() - before, 1);
    }
}

/* A manager waits on device 1, whose memory comes back: the tasks behind it on device 0 wait, too. */
static void test_a_device_that_goes_on_is_awaited(void **state)
{
    (void)state;
    if (lacks_devices()) {
        return;
    }
    gantry_taskman *across = make_manager(-1), *there = make_manager(1), *here = make_manager(0);
    uint32_t memory = gpu_fixture_declare(there, MOST);
    (void)submit_gate(there, submit_gpu(there, NULL, 1, memory), memory);
    uint32_t mine = gpu_fixture_declare(across, MOST), theirs = gpu_fixture_declare(across, MOST);
    gantry_task *task = submit_gpu(across, submit_gpu(across, NULL, 0, mine), 1, theirs);
    (void)submit_gpu(across, task, 0, mine);
    (void)submit_gpu(here, NULL, 0, gpu_fixture_declare(here, MOST));
    deadline_begin("a device on which memory comes back");
    assert_ok(gantry_taskman_start(there));
    await_admitted(1, 1);
    assert_ok(gantry_taskman_start(across));
    await_admitted(0, 1);
    await_waiting(1, 1);
    assert_ok(gantry_taskman_start(here));
    await_waiting(0, 1);
    /* nothing happens that the test could wait for */
    const struct timespec while_asleep = {.tv_nsec = 20000000};
    (void)nanosleep(&while_asleep, NULL);
    assert_int_equal(forced(), 0);
    atomic_store(&gate, true);
    assert_ok(gantry_taskman_stop(there));
    assert_ok(gantry_taskman_stop(across));
    assert_ok(gantry_taskman_stop(here));
    deadline_end();
    assert_int_equal(forced(), 0);
    gantry_taskman_destroy(here);
    gantry_taskman_destroy(there);
    gantry_taskman_destroy(across);
}

/* Tasks that wait on any device end with their run, or with the fleet. */
static void test_waiting_tasks_end(void **state)
{
    (void)state;
    if (lacks_devices()) {
        return;
    }
    gantry_taskman *holder = make_manager(1), *manager = make_manager(-1);
    uint32_t memory = gpu_fixture_declare(holder, MOST);
    (void)submit_gate(holder, submit_gpu(holder, NULL, 1, memory), memory);
    deadline_begin("the end of tasks that wait for memory");
    assert_ok(gantry_taskman_start(holder));
    await_admitted(1, 1);
    (void)submit_gpu(manager, submit_gpu(manager, NULL, 0, 0), 1, gpu_fixture_declare(manager, MOST));
    assert_ok(gantry_taskman_start(manager));
    await_waiting(1, 1);
    assert_ok(gantry_taskman_cancel(manager));
    assert_int_equal(gantry_taskman_stop(manager), GANTRY_ERR_CANCELLED);
    assert_int_equal(stats_of(1).memory_tasks_waiting, 0);
    assert_ok(gantry_taskman_reset(manager));
    (void)submit_gpu(manager, submit_gpu(manager, NULL, 0, 0), 1, gpu_fixture_declare(manager, MOST));
    assert_ok(gantry_taskman_start(manager));
    await_waiting(1, 1);
    gantry_dispatcher_force_failure(gantry_context_dispatcher(gantry_fleet_context(fleet, 0)));
    assert_int_equal(gantry_taskman_stop(manager), GANTRY_ERR_DEVICE_LOST);
    atomic_store(&gate, true);
    (void)!gantry_taskman_stop(holder);
    deadline_end();
    gantry_taskman_destroy(manager);
    gantry_taskman_destroy(holder);
}

/* A task that needs more than a device has is refused there, and the tasks after it on the other device
 * fail. */
static void test_what_never_fits_fails(void **state)
{
    (void)state;
    if (lacks_devices()) {
        return;
    }
    gantry_taskman *manager = make_manager(-1);
    gantry_task *large = submit_gpu(manager, NULL, 1, gpu_fixture_declare(manager, 2 * ROOM));
    (void)submit_gpu(manager, large, 0, gpu_fixture_declare(manager, MOST));
    deadline_begin("a task that declares too much");
    assert_ok(gantry_taskman_start(manager));
    assert_int_equal(gantry_taskman_stop(manager), GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    deadline_end();
    gantry_taskman_destroy(manager);
}

/* Host memory is missing for one of the devices: nothing is declared, and nothing is left. */
static void test_a_declaration_that_is_refused_leaves_nothing(void **state)
{
    (void)state;
    if (lacks_devices()) {
        return;
    }
    const uint64_t bytes[GANTRY_MEMORY_KIND_COUNT] = {[GANTRY_MEMORY_DEVICE] = MOST};
    gantry_taskman *manager = make_manager(-1);
    uint32_t refused = 0, memory = 0;
    for (bool fired = true; fired;) {
        const long live = gy_alloc_live();
        gy_fault_arm(refused);
        const gantry_status status = gantry_taskman_declare_memory(manager, bytes, &memory);
        fired = gy_fault_fired();
        gy_fault_arm(-1);
        assert_int_equal(status, fired ? GANTRY_ERR_OUT_OF_HOST_MEMORY : GANTRY_OK);
        deadline_await(!fired || gy_alloc_live() == live, "the devices to let go of it");
        refused += fired;
    }
    assert_true(refused >= 1 + DEVICES);
    gantry_taskman_destroy(manager);
}

int main(void)
{
    setenv("GANTRY_EMU_DEVICES", "2", 1);
#define TEST(function) cmocka_unit_test_setup_teardown(function, open_scene, close_scene)
    const struct CMUnitTest tests[] = {
        TEST(test_each_device_holds_its_own),
        TEST(test_two_managers_cross),
        TEST(test_a_device_that_goes_on_is_awaited),
        TEST(test_waiting_tasks_end),
        TEST(test_what_never_fits_fails),
        TEST(test_a_declaration_that_is_refused_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
