/* SPDX-License-Identifier: MIT */
/* Two managers of one context in graphs mode, whose tasks stamp cells; maybe a partition "critical". */
#ifndef TESTS_DISPATCHER_TWO_MANAGERS_H
#define TESTS_DISPATCHER_TWO_MANAGERS_H

#include "tests/dispatcher/stamps.h"
#include "tests/partition/plan_support.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

struct two_managers {
    struct gpu_fixture gpu; /* with the first manager */
    struct stamps stamps;
    gantry_partition *critical; /* NULL: there is no plan */
    gantry_taskman *other;
};

/* `is_planned`: the partition "critical" has 8 SMs and that priority, and the rest is another one. */
static inline void two_managers_open(struct two_managers *m, bool is_planned, int priority, size_t cell_bytes)
{
    gantry_partition_request requests[] = {request("critical", GANTRY_PARTITION_AT_LEAST, 8),
                                           request("rest", GANTRY_PARTITION_REST, 0)};
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    requests[0].priority = priority;
    plan.requests = requests;
    plan.count = 2;
    options.driver = gpu_fixture_driver();
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    options.partitions = is_planned ? &plan : NULL;
    gpu_fixture_open_with(&m->gpu, 1, &options);
    stamps_open(&m->stamps, m->gpu.context, cell_bytes);
    m->critical = NULL;
    if (is_planned) {
        assert_ok(gantry_partition_find(m->gpu.context, "critical", &m->critical));
    }
    manager.cpu_dispatcher = m->gpu.cpus;
    manager.gpu_dispatcher = gantry_context_dispatcher(m->gpu.context);
    assert_ok(gantry_taskman_create(&manager, &m->other));
}

static inline void two_managers_close(struct two_managers *m)
{
    gantry_taskman_destroy(m->other);
    assert_ok(gantry_context_synchronize(m->gpu.context));
    stamps_close(&m->stamps);
    gpu_fixture_close(&m->gpu);
}

/* In a launch callback: a kernel that stamps cells `begin` and `end`. */
static inline gantry_launch_result two_managers_stamp(struct two_managers *m, gantry_launch *launch,
                                                      uint32_t begin, uint32_t end)
{
    return stamps_launch(&m->stamps, launch, begin, end, 0) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                         : GANTRY_LAUNCH_FAILED;
}

/* Submit a kernel task; `partition` NULL: it names none. */
static inline gantry_task *submit_kernel(gantry_taskman *manager, gantry_partition *partition,
                                         gantry_launch_fn launch, void *arg)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch;
    desc.arg = arg;
    desc.partition = partition;
    assert_ok(gantry_taskman_submit(manager, &desc, &task));
    return task;
}

/* Start, stop and reset a step. */
static inline void run_step(gantry_taskman *manager)
{
    assert_ok(gantry_taskman_start(manager));
    assert_ok(gantry_taskman_stop(manager));
    assert_ok(gantry_taskman_reset(manager));
}

#endif
