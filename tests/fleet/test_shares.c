/* SPDX-License-Identifier: MIT */
/* A manager of several devices with a bound on GPU time: it is kept on each device, by that device's
 * dispatcher; on the device clock of the emulated driver. */
#include "tests/partition/share_scene.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"

#include "audit_kernels.kernels.h"

#include <stdlib.h>

enum { DEVICES = 2, TASKS = 40, PERCENT = 25 };
#define BURST (2 * (uint64_t)MS)

static struct scene {
    gantry_fleet *fleet;
    struct place {
        gantry_context *context;
        gantry_kernel *kernel;
        void *seen;
    } places[DEVICES];
} scene;

static void open_scene(gantry_submission submission)
{
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_fleet_options options = GANTRY_FLEET_OPTIONS_INIT;
    context.driver = GANTRY_DRIVER_EMULATED;
    context.submission = submission;
    options.devices = "0,1";
    options.context = &context;
    share_scene_start_clock(0);
    assert_ok(gantry_fleet_create(&options, &scene.fleet));
    for (uint32_t e = 0; e < DEVICES; e++) {
        struct place *place = &scene.places[e];
        gantry_module *module;
        place->context = gantry_fleet_context(scene.fleet, e);
        assert_ok(gantry_module_load(place->context, &gantry_image_audit_kernels, &module));
        assert_ok(gantry_module_get_kernel(module, "gantry_audit", &place->kernel));
        assert_ok(gantry_heap_alloc(gantry_context_heap(place->context), GANTRY_MEMORY_DEVICE, 128, 0,
                                    GANTRY_ALLOC_SITE("seen"), &place->seen));
    }
    share_emu.clock_kernel_cost(MS);
}

static void close_scene(void)
{
    for (uint32_t e = 0; e < DEVICES; e++) {
        assert_ok(gantry_heap_free(gantry_context_heap(scene.places[e].context), scene.places[e].seen));
    }
    gantry_fleet_destroy(scene.fleet);
    share_scene_stop_clock();
}

static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    const struct place *place = arg;
    void *seen = place->seen;
    uint32_t words = 32;
    uint64_t ns = 0;
    void *args[] = {&seen, &words, &ns};
    return gantry_launch_kernel(launch, place->kernel, (gantry_dim3){1, 1, 1}, (gantry_dim3){32, 1, 1}, 0,
                                args) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_taskman *make_manager(void)
{
    const gantry_share share = {sizeof(share), .percent = PERCENT, .burst_ns = BURST, .in_flight = 2,
                                .group_us = 1000};
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *manager = NULL;
    options.fleet = scene.fleet;
    options.share = &share;
    assert_ok(gantry_taskman_create(&options, &manager));
    return manager;
}

/* Run a chain whose tasks are on these devices, in turn; returns how long it took on the device clock. */
static uint64_t run_chain(gantry_taskman *manager, const uint32_t *devices, uint32_t count)
{
    uint64_t begin = share_emu.clock_ns();
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *before = NULL, *task = NULL;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch;
    for (uint32_t i = 0; i < TASKS; i++, before = task) {
        desc.arg = &scene.places[devices[i % count]];
        desc.context = scene.places[devices[i % count]].context;
        assert_ok(gantry_taskman_submit(manager, &desc, &task));
        if (before != NULL) {
            assert_ok(gantry_task_start_after(task, before));
        }
    }
    deadline_begin("the end of a chain that waits for GPU time");
    assert_ok(gantry_taskman_start(manager));
    assert_ok(gantry_taskman_stop(manager));
    deadline_end();
    share_scene_await(manager, TASKS * (uint64_t)MS);
    return share_emu.clock_ns() - begin;
}

static void test_each_device_keeps_the_bound(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 2 * DEVICES; n++) {
        open_scene(n / 2 == 0 ? GANTRY_SUBMISSION_STREAMS : GANTRY_SUBMISSION_GRAPHS);
        const uint32_t device = 1 - n % 2;
        gantry_taskman *manager = make_manager();
        double time = (double)run_chain(manager, &device, 1);
        gantry_share_usage usage = share_scene_usage(manager);
        assert_true(usage.used_ns <= TASKS * (uint64_t)MS + 1000);
        assert_true(share_scene_within(&usage, time, BURST, 2));
        assert_true(usage.throttled_ns > 0 && usage.groups > 0 && usage.longest_ns > 0);
        assert_true(usage.measured <= (double)usage.used_ns / (double)usage.since_ns / DEVICES + 1e-9);
        gantry_taskman_destroy(manager);
        close_scene();
    }
}

/* Each device has its own time: one device may have used up its time, and the other still has some. */
static void test_devices_do_not_pay_for_each_other(void **state)
{
    (void)state;
    static const uint32_t both[] = {0, 1};
    open_scene(GANTRY_SUBMISSION_STREAMS);
    gantry_taskman *manager = make_manager();
    double time = (double)run_chain(manager, both, 2);
    gantry_share_usage usage = share_scene_usage(manager);
    double slack = (double)BURST + 3 * (double)usage.longest_ns;
    assert_true((double)usage.used_ns / DEVICES <= usage.target * time + slack);
    assert_true(usage.throttled_ns > 0);
    gantry_taskman_destroy(manager);
    close_scene();
}

int main(void)
{
    setenv("GANTRY_EMU_DEVICES", "2", 1);
    if (!share_scene_begin()) {
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_device_keeps_the_bound),
        cmocka_unit_test(test_devices_do_not_pay_for_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
