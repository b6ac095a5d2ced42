/* SPDX-License-Identifier: MIT */
/* Graphs that are launched again and wait for their share of the GPU get their turns, whichever graph had
 * the last one. */
#include "dispatcher/gates/quota.h"
#include "dispatcher/internal.h"
#include "order_kernels.kernels.h"
#include "tests/dispatcher/stamps.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"
#include "tests/support/gpu_fixture.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum { FLAG = 100, ROUNDS = 30, RECORDED = 4 };

#define PATIENCE_NS UINT64_C(60000000000) /* after so long, something is wrong */

static struct {
    struct gpu_fixture gpu;
    struct stamps stamps;
    gantry_kernel *await;
    struct gy_shares *shares;
    gantry_taskman *graphs[2], *third;
} s;

static void set_flag(uint32_t value)
{
    __atomic_store_n(&s.stamps.cells[FLAG], value, __ATOMIC_RELEASE);
}

static gantry_launch_result launch_await(gantry_launch *launch, void *arg)
{
    (void)arg;
    return stamps_await(&s.stamps, launch, s.await, FLAG, PATIENCE_NS);
}

static struct gy_meter *meter_of(uint32_t quota)
{
    return s.shares->quotas[quota]->meters[0];
}

/* This belongs to two graphs: they wait for their turns, and what they have launched so far was measured. */
static bool both_wait(void)
{
    return atomic_load(&meter_of(0)->has_held) && atomic_load(&meter_of(1)->has_held);
}

static bool both_are_measured(void)
{
    return atomic_load(&meter_of(0)->collected) == atomic_load(&meter_of(0)->published) &&
           atomic_load(&meter_of(1)->collected) == atomic_load(&meter_of(1)->published);
}

/* This manager has the turn, while the kernels that the two graphs wait for end. */
static gantry_launch_result take_the_turn(gantry_launch *launch, void *arg)
{
    set_flag(1);
    while (!both_are_measured()) {
        sched_yield();
    }
    return launch_await(launch, arg);
}

/* One kernel is in flight at a time: the next one waits for its end, which those of independent steps
 * otherwise do not.  Each is an interval of its own; otherwise two that come soon after each other would be
 * in flight together. */
static gantry_taskman *open_manager(void)
{
    const gantry_share share = {sizeof(share), .percent = 50, .burst_ns = PATIENCE_NS, .in_flight = 1,
                                .group_us = 1};
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *manager = NULL;
    options.cpu_dispatcher = s.gpu.cpus;
    options.gpu_dispatcher = gantry_context_dispatcher(s.gpu.context);
    options.independent_steps = true;
    options.share = &share;
    assert_ok(gantry_taskman_create(&options, &manager));
    return manager;
}

static void submit(gantry_taskman *manager, gantry_launch_fn launch, bool is_stable)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch;
    desc.is_stable = is_stable;
    assert_ok(gantry_taskman_submit(manager, &desc, NULL));
    assert_ok(gantry_taskman_freeze(manager));
}

static void open_scene(void)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_module *module = NULL;
    memset(&s, 0, sizeof(s));
    /* The times are those of the emulated device: a callback here keeps GD from going on, so nobody would
     * read times on a real one. */
    options.driver = GANTRY_DRIVER_EMULATED;
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    gpu_fixture_open_with(&s.gpu, 1, &options);
    stamps_open(&s.stamps, s.gpu.context, 1024);
    assert_ok(gantry_module_load(s.gpu.context, &gantry_image_order_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "await_flag", &s.await));
    s.shares = &gantry_context_dispatcher(s.gpu.context)->shares;
    set_flag(1);
    for (int i = 0; i < 2; i++) {
        s.graphs[i] = open_manager();
        submit(s.graphs[i], launch_await, true);
        assert_ok(gantry_taskman_run(s.graphs[i], RECORDED));
    }
    s.third = open_manager();
    submit(s.third, take_the_turn, false);
    assert_ok(gantry_context_synchronize(s.gpu.context));
}

static void close_scene(void)
{
    gantry_taskman_destroy(s.graphs[0]);
    gantry_taskman_destroy(s.graphs[1]);
    gantry_taskman_destroy(s.third);
    assert_ok(gantry_context_synchronize(s.gpu.context));
    stamps_close(&s.stamps);
    gpu_fixture_close(&s.gpu);
}

/* Both graphs are held at once, and let go at once, when a third manager has had the turn: the promise to
 * one of them must not hold the other. */
static void test_two_graphs_that_are_held_have_their_turns(void **state)
{
    (void)state;
    open_scene();
    uint64_t replays = gpu_fixture_stats(&s.gpu).graph_replays;
    for (int round = 0; round < ROUNDS; round++) {
        gantry_taskman *first = s.graphs[round % 2], *second = s.graphs[1 - round % 2];
        gantry_taskman *both[] = {first, second};
        set_flag(0);
        for (int i = 0; i < 2; i++) {
            assert_ok(gantry_taskman_start(both[i]));
            assert_ok(gantry_taskman_stop(both[i]));
        }
        assert_ok(gantry_taskman_start(first));
        assert_ok(gantry_taskman_start(second));
        deadline_await(both_wait(), "two graphs that are held");
        deadline_begin("the turns of two graphs");
        assert_ok(gantry_taskman_start(s.third));
        assert_ok(gantry_taskman_stop(s.third));
        assert_ok(gantry_taskman_stop(first));
        assert_ok(gantry_taskman_stop(second));
        deadline_end();
        assert_ok(gantry_context_synchronize(s.gpu.context));
    }
    assert_true(gpu_fixture_stats(&s.gpu).graph_replays >= replays + 4 * ROUNDS);
    close_scene();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_graphs_that_are_held_have_their_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
