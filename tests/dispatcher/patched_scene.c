/* SPDX-License-Identifier: MIT */
#include "tests/dispatcher/patched_scene.h"

#include "context/context.h"
#include "driver/places.h"
#include "order_kernels.kernels.h"
#include "tests/support/cmocka_c11.h"

#include <string.h>

struct patched_scene patched;

void patched_load(void)
{
    static const char *const names[FUNCTIONS] = {"count_up", "count_down", "stamp"};
    assert_ok(gantry_module_load(patched.gpu.context, &gantry_image_order_kernels, &patched.module));
    for (int i = 0; i < FUNCTIONS; i++) {
        assert_ok(gantry_module_get_kernel(patched.module, names[i], &patched.kernels[i]));
    }
}

void patched_open_with(uint32_t workers, const gantry_partition_options *plan)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    void *cells, *on_device;
    memset(&patched, 0, sizeof(patched));
    patched.nodes_each = 1;
    options.driver = gpu_fixture_driver();
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    options.partitions = plan;
    gpu_fixture_open_with(&patched.gpu, workers, &options);
    gy_places_reserve(patched.gpu.context->cuda, 2048); /* nothing is played for want of places */
    gantry_heap *heap = gantry_context_heap(patched.gpu.context);
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 3 * sizeof(patched.expected), 0,
                                GANTRY_ALLOC_SITE("cells"), &cells));
    assert_ok(gantry_heap_device_address(heap, cells, &on_device));
    memset(cells, 0, 3 * sizeof(patched.expected));
    patched.cells = cells;
    patched.on_device = on_device;
    for (uint32_t i = 0; i < PATCHED_MOST; i++) {
        patched.jobs[i] = (struct patched_job){.index = i, .by = 1 + i % 7, .blocks = 1};
    }
    patched_load();
}

void patched_open(void)
{
    patched_open_with(1, NULL);
}

void patched_close(void)
{
    assert_ok(gantry_context_synchronize(patched.gpu.context));
    assert_ok(gantry_heap_free(gantry_context_heap(patched.gpu.context), patched.cells));
    gpu_fixture_close(&patched.gpu);
}

bool patched_enqueue(gantry_launch *launch, const struct patched_job *job)
{
    void *cell = &patched.on_device[job->index];
    void *begin = &patched.on_device[PATCHED_MOST + 2 * job->index],
         *end = &patched.on_device[PATCHED_MOST + 2 * job->index + 1];
    uint32_t by = job->by, none = 0;
    void *count[] = {&cell, &by}, *stamp[] = {&cell, &begin, &end, &none};
    const gantry_dim3 grid = {job->blocks, 1, 1}, block = {2, 1, 1};
    return gantry_launch_kernel(launch, patched.kernels[job->function], grid, block, 0,
                                job->function == STAMP ? stamp : count) == GANTRY_OK;
}

gantry_launch_result patched_launch_job(gantry_launch *launch, void *arg)
{
    const struct patched_job *job = arg;
    if (atomic_load(&job->fails) || !patched_enqueue(launch, job)) {
        return GANTRY_LAUNCH_FAILED;
    }
    const uint32_t all = job->by * job->blocks * 2;
    patched.expected[job->index] += job->function == COUNT_UP     ? all
                                    : job->function == COUNT_DOWN ? 0 - all
                                                                  : 2 * job->blocks;
    if (job->cancels) {
        (void)gantry_taskman_cancel(patched.gpu.manager);
    }
    return GANTRY_LAUNCH_DONE;
}

void patched_check(void)
{
    assert_ok(gantry_context_synchronize(patched.gpu.context));
    for (uint32_t i = 0; i < PATCHED_MOST; i++) {
        if (patched.cells[i] != patched.expected[i]) {
            fail_msg("cell %u has %u, not %u", i, patched.cells[i], patched.expected[i]);
        }
    }
}

void patched_submit_rows(uint32_t count, bool crosses)
{
    gantry_task *tasks[PATCHED_MOST];
    for (uint32_t i = 0; i < count; i++) {
        tasks[i] =
            gpu_fixture_gpu(&patched.gpu, GANTRY_TASK_KERNEL, "job", patched_launch_job, &patched.jobs[i]);
        if (i > 0) {
            gpu_fixture_after(tasks[i], tasks[i > PATCHED_LANES ? i - PATCHED_LANES : 0]);
        }
        if (crosses && i > 2 * PATCHED_LANES && i % 20 == 0) {
            gpu_fixture_after(tasks[i], tasks[i - PATCHED_LANES - 1]);
        }
    }
}

struct patched_change patched_now(void)
{
    const gantry_dispatcher_stats stats = gpu_fixture_stats(&patched.gpu);
    return (struct patched_change){stats.graph_launches, stats.graph_nodes, stats.graph_nodes_kept,
                                   stats.graph_nodes_set, stats.graph_instantiations};
}

struct patched_change patched_since(struct patched_change before)
{
    const struct patched_change after = patched_now();
    return (struct patched_change){after.launches - before.launches, after.nodes - before.nodes,
                                   after.kept - before.kept, after.set - before.set,
                                   after.made - before.made};
}

struct patched_change patched_run_rows(uint32_t count, bool crosses)
{
    const struct patched_change before = patched_now();
    patched_submit_rows(count, crosses);
    assert_ok(gpu_fixture_step(&patched.gpu));
    patched_check();
    return patched_since(before);
}

void patched_open_with_rows(void)
{
    patched_open();
    const struct patched_change first = patched_run_rows(PATCHED_ROWS, true);
    assert_int_equal(first.nodes, PATCHED_ROWS);
    assert_int_equal(first.kept, 0);
}

void patched_expect(struct patched_change step, uint64_t set)
{
    assert_int_equal(step.nodes, PATCHED_ROWS);
    assert_int_equal(step.kept, PATCHED_ROWS);
    assert_int_equal(step.made, 0);
    assert_int_equal(step.set, set);
}
