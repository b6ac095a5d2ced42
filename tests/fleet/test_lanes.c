/* SPDX-License-Identifier: MIT */
/* Lanes of graphs that wait for another device.
 *
 * In one graph the lane of a stream waits for work of another device.  The stream itself, on which the next
 * graph is launched, has not waited for it then.  Here the other device begins nothing until the host lets
 * it, so a wait that is missing shows each time. */
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"
#include "tests/support/gpu_fixture.h"

#include "fleet_kernels.kernels.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { X, A1, B1, AGAIN, B2, C1, TASKS, CELLS = 1 + 2 * TASKS };

struct scene;

struct node {
    struct scene *scene;
    uint32_t index;
    bool takes_time; /* its callback does, so that the task that is sent next comes into the same graph */
    gantry_task *task;
};

struct scene {
    gantry_fleet *fleet;
    gantry_cpu_dispatcher *cpus;
    gantry_taskman *manager;
    gantry_kernel *kernels[2];
    uint32_t *cells, *on_device; /* [0] is the clock */
    uint64_t launched;           /* graphs, before the step */
    struct node nodes[TASKS];
};

static struct scene scene;
static struct gantry_emu_control emu;

static void sleep_ms(uint32_t ms)
{
    struct timespec time = {.tv_nsec = (long)ms * 1000000};
    (void)nanosleep(&time, NULL);
}

static uint32_t device_of(uint32_t index)
{
    return index == X ? 1 : 0;
}

static uint32_t begin_of(uint32_t index)
{
    return __atomic_load_n(&scene.cells[1 + 2 * index], __ATOMIC_ACQUIRE);
}

static uint32_t end_of(uint32_t index)
{
    return __atomic_load_n(&scene.cells[2 + 2 * index], __ATOMIC_ACQUIRE);
}

static void open_scene(void)
{
    memset(&scene, 0, sizeof(scene));
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    context.driver = gpu_fixture_driver();
    context.mode = GANTRY_CONTEXT_OWN;
    context.submission = GANTRY_SUBMISSION_GRAPHS;
    gantry_fleet_options options = GANTRY_FLEET_OPTIONS_INIT;
    options.devices = "all";
    options.context = &context;
    assert_ok(gantry_fleet_create(&options, &scene.fleet));
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    cpus.worker_count = 1;
    assert_ok(gantry_cpu_dispatcher_create(&cpus, &scene.cpus));
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    manager.cpu_dispatcher = scene.cpus;
    manager.fleet = scene.fleet;
    assert_ok(gantry_taskman_create(&manager, &scene.manager));
    for (uint32_t e = 0; e < 2; e++) {
        gantry_module *module;
        assert_ok(
            gantry_module_load(gantry_fleet_context(scene.fleet, e), &gantry_image_fleet_kernels, &module));
        assert_ok(gantry_module_get_kernel(module, "stamp", &scene.kernels[e]));
    }
    gantry_heap *heap = gantry_context_heap(gantry_fleet_context(scene.fleet, 0));
    void *cells, *on_device;
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, CELLS * sizeof(uint32_t), 0,
                                GANTRY_ALLOC_SITE("stamps"), &cells));
    assert_ok(gantry_heap_device_address(heap, cells, &on_device));
    scene.cells = cells;
    scene.on_device = on_device;
}

static void close_scene(void)
{
    gantry_taskman_destroy(scene.manager);
    gantry_cpu_dispatcher_destroy(scene.cpus);
    assert_ok(gantry_heap_free(gantry_context_heap(gantry_fleet_context(scene.fleet, 0)), scene.cells));
    gantry_fleet_destroy(scene.fleet);
}

/* Nothing tells that a task has come to its device's dispatcher.  Too little time makes two graphs of one,
 * and the test sees less. */
static gantry_launch_result launch_node(gantry_launch *launch, void *arg)
{
    const struct node *node = arg;
    struct scene *s = node->scene;
    uint32_t *clock = s->on_device, *begin = clock + 1 + 2 * node->index, *end = begin + 1, spins = 0;
    void *args[] = {&clock, &begin, &end, &spins};
    const gantry_dim3 one = {1, 1, 1};
    if (node->takes_time) {
        sleep_ms(20);
    }
    const gantry_status status =
        gantry_launch_kernel(launch, s->kernels[device_of(node->index)], one, one, 0, args);
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* What comes after this is in another graph. */
static gantry_status await_graph(gantry_task *task, void *arg)
{
    (void)task;
    const struct node *node = arg;
    while (emu.calls("cuGraphLaunch") < node->scene->launched + 2) { /* that of X, and the first */
        sleep_ms(1);
    }
    return GANTRY_OK;
}

static void add_node(uint32_t index, bool takes_time, uint32_t before)
{
    struct node *node = &scene.nodes[index];
    *node = (struct node){&scene, index, takes_time, NULL};
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = index == AGAIN ? GANTRY_TASK_CPU : GANTRY_TASK_KERNEL;
    desc.arg = node;
    desc.run = index == AGAIN ? await_graph : NULL;
    desc.launch = index == AGAIN ? NULL : launch_node;
    desc.context = index == AGAIN ? NULL : gantry_fleet_context(scene.fleet, device_of(index));
    assert_ok(gantry_taskman_submit(scene.manager, &desc, &node->task));
    for (; before != 0; before &= before - 1) {
        assert_ok(gantry_task_start_after(node->task, scene.nodes[__builtin_ctz(before)].task));
    }
}

/* X is of device 1, all others are of device 0:
 *
 *           A1                first graph, on the stream of A1, which waits for X
 *     X ──► B1 ──► B2         second graph, on the stream of B1, whose lane has waited for X in the first one
 *     X ──────────► C1        second graph; nothing else of it waits for X
 */
static void run_step(void)
{
    memset(scene.cells, 0, CELLS * sizeof(*scene.cells));
    scene.cells[0] = 1;
    add_node(X, false, 0);
    add_node(A1, true, 0);
    add_node(B1, false, 1u << X);
    add_node(AGAIN, false, 0);
    add_node(B2, true, 1u << X | 1u << B1 | 1u << AGAIN);
    add_node(C1, false, 1u << X | 1u << AGAIN);
    scene.launched = emu.calls("cuGraphLaunch");
    assert_int_equal(emu.hold_device(1), 0);
    assert_ok(gantry_taskman_start(scene.manager));
    assert_ok(gantry_taskman_stop(scene.manager));
    sleep_ms(5);
    for (uint32_t i = 0; i < TASKS; i++) {
        if (begin_of(i) != 0) {
            fail_msg("task %u did not wait for the other device", i);
        }
    }
    assert_int_equal(emu.release_device(1), 0);
    for (uint32_t e = 0; e < 2; e++) {
        assert_ok(gantry_context_synchronize(gantry_fleet_context(scene.fleet, e)));
    }
    assert_true(end_of(A1) != 0 && end_of(X) != 0 && begin_of(B1) > end_of(X));
    assert_true(end_of(B1) != 0 && begin_of(B2) > end_of(B1) && begin_of(C1) > end_of(X));
    assert_ok(gantry_taskman_reset(scene.manager));
}

static void test_stream_whose_lane_has_waited(void **state)
{
    (void)state;
    open_scene();
    assert_true(gpu_fixture_controls(&emu));
    deadline_begin("the end of a step over two devices");
    run_step();
    deadline_end();
    close_scene();
}

int main(void)
{
    setenv("GANTRY_EMU_DEVICES", "2", 1);
    setenv("GANTRY_TEST_DRIVER", "emulated", 1); /* its devices can be held */
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stream_whose_lane_has_waited)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
