/* SPDX-License-Identifier: MIT */
/* A sync point comes after what other partitions have in an earlier graph, whose home is a member of the next
 * one: a task behind it does not begin before its predecessor there has ended. */
#include "tests/dispatcher/stamps.h"
#include "tests/partition/plan_support.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include <string.h>

enum { FIRST = 1, BEFORE = 5, SLOW = 7, READER = 9, CELLS = 16, SPINS = 200000, PARTITIONS = 3, RUNS = 3 };

struct scene {
    struct gpu_fixture gpu;
    struct stamps stamps;
    bool has_left; /* the task that leaves the graph was called */
};

static gantry_launch_result stamp(gantry_launch *launch, const struct scene *s, uint32_t at, uint32_t spins)
{
    return stamps_launch(&s->stamps, launch, at, at + 1, spins) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                             : GANTRY_LAUNCH_FAILED;
}

/* Is called again until another task has left the graph, and asks for the sync point then. */
static gantry_launch_result launch_first(gantry_launch *launch, void *arg)
{
    const struct scene *s = arg;
    if (gantry_launch_index(launch) == 0) {
        return stamp(launch, s, FIRST, 0) == GANTRY_LAUNCH_DONE ? GANTRY_LAUNCH_AGAIN : GANTRY_LAUNCH_FAILED;
    }
    if (!s->has_left) {
        return GANTRY_LAUNCH_AGAIN;
    }
    return gantry_launch_request_sync_point(launch) == GANTRY_OK ? stamp(launch, s, FIRST + 2, 0)
                                                                 : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_before(gantry_launch *launch, void *arg)
{
    return stamp(launch, arg, BEFORE, 0);
}

static gantry_launch_result launch_slow(gantry_launch *launch, void *arg)
{
    return stamp(launch, arg, SLOW, SPINS);
}

static gantry_launch_result launch_leaving(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    s->has_left = true;
    return gantry_launch_leave_graph(launch) == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_reader(gantry_launch *launch, void *arg)
{
    return stamp(launch, arg, READER, 0);
}

static gantry_status run_nothing(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

static gantry_task *submit(struct scene *s, gantry_launch_fn launch, uint32_t partition)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch;
    desc.arg = s;
    desc.partition = gantry_partition_at(s->gpu.context, partition);
    assert_ok(gantry_taskman_submit(s->gpu.manager, &desc, &task));
    return task;
}

static void run_step(struct scene *s)
{
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(s->gpu.context);
    memset(s->stamps.cells, 0, CELLS * sizeof(uint32_t));
    s->stamps.cells[0] = 1;
    s->has_left = false;
    gantry_task *first = submit(s, launch_first, 0), *before = submit(s, launch_before, 0);
    gantry_task *slow = submit(s, launch_slow, 1), *leaving = submit(s, launch_leaving, 0);
    gantry_task *reader = submit(s, launch_reader, 2);
    gantry_task *told = gpu_fixture_cpu(&s->gpu, "told", run_nothing, NULL);
    gpu_fixture_after(slow, before);
    gpu_fixture_after(leaving, before);
    gpu_fixture_after(reader, slow);
    gpu_fixture_after(reader, told); /* so it comes in a later batch */
    assert_ok(gantry_task_start_after_done(told, first));
    gantry_dispatcher_start_group(dispatcher);
    assert_ok(gantry_taskman_start(s->gpu.manager));
    gantry_dispatcher_finish_group(dispatcher);
    assert_ok(gpu_fixture_stop(&s->gpu));
    assert_ok(gantry_context_synchronize(s->gpu.context));
    assert_true(s->stamps.cells[SLOW + 1] != 0 && s->stamps.cells[READER] > s->stamps.cells[SLOW + 1]);
}

static void test_a_sync_point_comes_after_all_partitions(void **state)
{
    (void)state;
    for (int mode = GANTRY_SUBMISSION_STREAMS; mode <= GANTRY_SUBMISSION_AUTO; mode++) {
        gantry_partition_request requests[] = {request("a", GANTRY_PARTITION_AT_LEAST, 16),
                                               request("b", GANTRY_PARTITION_AT_LEAST, 16),
                                               request("c", GANTRY_PARTITION_REST, 0)};
        gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
        gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
        struct scene s = {.has_left = false};
        plan.requests = requests;
        plan.count = PARTITIONS;
        options.driver = gpu_fixture_driver();
        options.submission = (gantry_submission)mode;
        options.partitions = &plan;
        gpu_fixture_open_with(&s.gpu, 1, &options);
        stamps_open(&s.stamps, s.gpu.context, CELLS * sizeof(uint32_t));
        for (int run = 0; run < RUNS; run++) {
            run_step(&s);
        }
        stamps_close(&s.stamps);
        gpu_fixture_close(&s.gpu);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_sync_point_comes_after_all_partitions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
