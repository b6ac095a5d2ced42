/* SPDX-License-Identifier: MIT */
/* A manager that runs beside another one's step stays on few streams: each of its runs comes after the run
 * before, so it takes the streams of that. */
#include "dispatcher/internal.h"
#include "tests/dispatcher/two_managers.h"

#include <stdatomic.h>

enum { LINKS = 3, RUNS = 100, SPINS = 500, HELD = 100 };

static struct two_managers m;
static _Atomic(uint64_t) streams_used; /* bit s: by callbacks of the chains, on stream s */

/* The kernel goes on for longer than the host needs for a run. */
static gantry_launch_result launch_link(gantry_launch *launch, void *arg)
{
    const uint32_t index = (uint32_t)(uintptr_t)arg;
    atomic_fetch_or(&streams_used, UINT64_C(1) << launch->stream_index);
    return stamps_launch(&m.stamps, launch, 1 + 2 * index, 2 + 2 * index, SPINS) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_other(gantry_launch *launch, void *arg)
{
    const uint32_t index = (uint32_t)(uintptr_t)arg;
    return two_managers_stamp(&m, launch, 1 + 2 * index, 2 + 2 * index);
}

static gantry_task *submit_link(uint32_t index, bool is_stable)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch_link;
    desc.arg = (void *)(uintptr_t)index;
    desc.is_stable = is_stable;
    assert_ok(gantry_taskman_submit(m.gpu.manager, &desc, &task));
    return task;
}

static void submit_chains(uint32_t width, bool is_stable)
{
    for (uint32_t chain = 0; chain < width; chain++) {
        gantry_task *before = NULL;
        for (uint32_t link = 0; link < LINKS; link++) {
            gantry_task *task = submit_link(chain * LINKS + link, is_stable);
            if (before != NULL) {
                gpu_fixture_after(task, before);
            }
            before = task;
        }
    }
}

static void run_chains(uint32_t width, bool is_frozen)
{
    for (uint32_t run = 0; run < RUNS; run++) {
        if (run == 0 || !is_frozen) {
            submit_chains(width, is_frozen);
        }
        if (run == 0 && is_frozen) {
            assert_ok(gantry_taskman_freeze(m.gpu.manager));
        }
        if (is_frozen) {
            assert_ok(gantry_taskman_run(m.gpu.manager, 1));
        } else {
            run_step(m.gpu.manager);
        }
    }
}

struct scene {
    gantry_submission way;
    uint32_t width;  /* chains */
    uint32_t others; /* tasks of the other manager's step, which do not depend on each other */
    bool is_frozen;
};

/* Run the chains while the other manager's step goes on; returns how many streams were in use at most. */
static uint32_t run_beside(const struct scene *scene)
{
    two_managers_open(&m, false, 0, 4096);
    assert_ok(gantry_dispatcher_set_submission(gantry_context_dispatcher(m.gpu.context), scene->way));
    atomic_store(&streams_used, 0);
    gantry_task *held = submit_kernel(m.other, NULL, launch_other, (void *)(uintptr_t)HELD);
    assert_ok(gantry_task_add_reference(held));
    for (uint32_t i = 1; i <= scene->others; i++) {
        (void)submit_kernel(m.other, NULL, launch_other, (void *)(uintptr_t)(HELD + i));
    }
    assert_ok(gantry_taskman_start(m.other));
    run_chains(scene->width, scene->is_frozen);
    assert_ok(gantry_task_remove_reference(held));
    assert_ok(gantry_taskman_stop(m.other));
    assert_ok(gantry_taskman_reset(m.other));
    const uint32_t streams = gpu_fixture_stats(&m.gpu).streams_peak;
    two_managers_close(&m);
    return streams;
}

static void test_each_run_takes_the_streams_of_the_run_before(void **state)
{
    (void)state;
    for (int way = GANTRY_SUBMISSION_STREAMS; way <= GANTRY_SUBMISSION_AUTO; way++) {
        for (int is_frozen = 0; is_frozen < 2; is_frozen++) {
            for (uint32_t width = 1; width <= 4; width += 3) {
                const struct scene scene = {(gantry_submission)way, width, 0, is_frozen != 0};
                assert_in_range(run_beside(&scene), width, width + 1);
            }
        }
    }
}

/* The streams are there already, and most of them lie idle. */
static void test_streams_of_a_wide_step_are_left_alone(void **state)
{
    (void)state;
    for (int is_frozen = 0; is_frozen < 2; is_frozen++) {
        const struct scene scene = {GANTRY_SUBMISSION_STREAMS, 2, 40, is_frozen != 0};
        assert_in_range(run_beside(&scene), 30, 32);
        assert_in_range(__builtin_popcountll(atomic_load(&streams_used)), 1, 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_run_takes_the_streams_of_the_run_before),
        cmocka_unit_test(test_streams_of_a_wide_step_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
