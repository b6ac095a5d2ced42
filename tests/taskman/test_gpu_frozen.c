/* SPDX-License-Identifier: MIT */
/* Frozen graphs whose GPU tasks go through the real dispatcher: runs again and again, in parts, with
 * conditions and loops around GPU tasks, cancelled with work in flight, and on a device that is lost. */
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include <stdatomic.h>
#include <string.h>

enum { LANES = 3, RUNS = 12 };

/* One value on its way: in -> device -> device -> out; a CPU task reads it once the GPU is done. */
struct lane {
    uint32_t *in, *out; /* pinned */
    uint32_t *device;   /* two words */
    gantry_task *check; /* the copy back completes it */
    atomic_int checked, wrong;
    gantry_taskman *cancels; /* not NULL: the first copy cancels the run of this manager */
};

struct scene {
    struct gpu_fixture gpu;
    struct lane lanes[LANES];
    gantry_task *tasks[LANES][4];
    uint32_t *host;
    uint32_t *device;
};

static void open_scene(struct scene *s, gantry_submission submission)
{
    memset(s, 0, sizeof(*s));
    gpu_fixture_open(&s->gpu, 2, 0);
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(s->gpu.context);
    assert_ok(gantry_dispatcher_set_submission(dispatcher, submission));
    gantry_heap *heap = gantry_context_heap(s->gpu.context);
    void *host, *device;
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 2 * LANES * sizeof(uint32_t), 0,
                                GANTRY_ALLOC_SITE("host"), &host));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 2 * LANES * sizeof(uint32_t), 0,
                                GANTRY_ALLOC_SITE("device"), &device));
    s->host = host;
    s->device = device;
    memset(host, 0, 2 * LANES * sizeof(uint32_t));
    for (int i = 0; i < LANES; i++) {
        s->lanes[i].in = &s->host[2 * i];
        s->lanes[i].out = &s->host[2 * i + 1];
        s->lanes[i].device = &s->device[2 * i];
    }
}

static void close_scene(struct scene *s)
{
    gantry_heap *heap = gantry_context_heap(s->gpu.context);
    assert_ok(gantry_taskman_reset(s->gpu.manager));
    assert_ok(gantry_heap_free(heap, s->host));
    assert_ok(gantry_heap_free(heap, s->device));
    gpu_fixture_close(&s->gpu);
}

static gantry_launch_result done_if(gantry_status status)
{
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* A task that has begun is called to its end, also when it has cancelled its run. */
static gantry_launch_result copy_in(gantry_launch *launch, void *arg)
{
    struct lane *lane = arg;
    if (lane->cancels != NULL && gantry_launch_index(launch) < 3) {
        return gantry_taskman_cancel(lane->cancels) == GANTRY_OK ? GANTRY_LAUNCH_AGAIN : GANTRY_LAUNCH_FAILED;
    }
    gantry_status status = gantry_launch_copy_htod(launch, lane->device, lane->in, sizeof(uint32_t));
    if (status == GANTRY_OK && lane->cancels != NULL) {
        status = gantry_launch_add_completion(launch, lane->check);
    }
    return done_if(status);
}

static gantry_launch_result copy_on(gantry_launch *launch, void *arg)
{
    struct lane *lane = arg;
    return done_if(gantry_launch_copy_dtod(launch, lane->device + 1, lane->device, sizeof(uint32_t)));
}

static gantry_launch_result copy_out(gantry_launch *launch, void *arg)
{
    struct lane *lane = arg;
    gantry_status status = gantry_launch_copy_dtoh(launch, lane->out, lane->device + 1, sizeof(uint32_t));
    return done_if(status == GANTRY_OK ? gantry_launch_add_completion(launch, lane->check) : status);
}

static gantry_status check(gantry_task *task, void *arg)
{
    (void)task;
    struct lane *lane = arg;
    atomic_fetch_add(&lane->checked, 1);
    atomic_fetch_add(&lane->wrong, *lane->out != *lane->in);
    return GANTRY_OK;
}

/* `first` is NULL, or comes before every lane. */
static void add_lanes(struct scene *s, gantry_task *first, gantry_task_fn body, bool is_condition)
{
    static const gantry_task_kind kinds[] = {GANTRY_TASK_HTOD, GANTRY_TASK_KERNEL, GANTRY_TASK_DTOH};
    static const gantry_launch_fn launches[] = {copy_in, copy_on, copy_out};
    for (int i = 0; i < LANES; i++) {
        gantry_task **tasks = s->tasks[i];
        for (int t = 0; t < 3; t++) {
            tasks[t] = gpu_fixture_gpu(&s->gpu, kinds[t], "lane", launches[t], &s->lanes[i]);
        }
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.run = body;
        desc.arg = &s->lanes[i];
        desc.is_condition = is_condition;
        assert_ok(gantry_taskman_submit(s->gpu.manager, &desc, &tasks[3]));
        s->lanes[i].check = tasks[3];
        for (int t = 1; t < 4; t++) {
            gpu_fixture_after(tasks[t], tasks[t - 1]);
        }
        if (first != NULL) {
            gpu_fixture_after(tasks[0], first);
        }
    }
}

static void test_runs_see_what_is_there_now(void **state)
{
    (void)state;
    const gantry_submission submissions[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS};
    for (int m = 0; m < 2; m++) {
        struct scene s;
        open_scene(&s, submissions[m]);
        add_lanes(&s, NULL, check, false);
        assert_ok(gantry_taskman_freeze(s.gpu.manager));
        for (uint32_t run = 1; run <= RUNS; run++) {
            for (uint32_t i = 0; i < LANES; i++) {
                *s.lanes[i].in = 100 * run + i;
            }
            assert_ok(gantry_taskman_run(s.gpu.manager, 1));
            for (uint32_t i = 0; i < LANES; i++) {
                assert_int_equal(*s.lanes[i].out, 100 * run + i);
                assert_int_equal(s.lanes[i].checked, run);
                assert_int_equal(s.lanes[i].wrong, 0);
                assert_int_equal(gantry_task_get_state(s.tasks[i][1]), GANTRY_TASK_STATE_DONE);
            }
        }
        close_scene(&s);
    }
}

static void test_a_part_runs_from_a_gpu_task(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_STREAMS);
    add_lanes(&s, NULL, check, false);
    assert_ok(gantry_taskman_freeze(s.gpu.manager));
    *s.lanes[1].in = 7;
    assert_ok(gantry_taskman_run(s.gpu.manager, 1));
    *s.lanes[1].in = 8;
    assert_ok(gantry_taskman_start_from(s.gpu.manager, &s.tasks[1][1], 1));
    assert_ok(gantry_taskman_stop(s.gpu.manager));
    assert_int_equal(*s.lanes[1].out, 7); /* the copy to the device is not part of it */
    assert_int_equal(s.lanes[1].wrong, 1);
    assert_ok(gantry_taskman_start_from(s.gpu.manager, &s.tasks[1][0], 1));
    assert_ok(gantry_taskman_stop(s.gpu.manager));
    assert_int_equal(*s.lanes[1].out, 8);
    assert_int_equal(s.lanes[1].checked, 3);
    assert_int_equal(s.lanes[0].checked, 1);
    close_scene(&s);
}

/* ---- loops ----------------------------------------------------------------------------------- */

enum { ROUNDS = 9 };

static gantry_status begin_body(gantry_task *task, void *arg)
{
    (void)task;
    struct scene *s = arg;
    for (int i = 0; i < LANES; i++) {
        *s->lanes[i].in = 0;
    }
    return GANTRY_OK;
}

/* Go round once more with the value that came back, plus one; or leave the loop. */
static gantry_status again_or_on(gantry_task *task, void *arg)
{
    struct lane *lane = arg;
    atomic_fetch_add(&lane->checked, 1);
    atomic_fetch_add(&lane->wrong, *lane->out != *lane->in);
    *lane->in = *lane->out + 1;
    return gantry_task_choose(task, *lane->out + 1 < ROUNDS ? 0 : 1);
}

static gantry_status count_exit(gantry_task *task, void *arg)
{
    (void)task;
    atomic_fetch_add((atomic_int *)arg, 1);
    return GANTRY_OK;
}

static void test_loops_go_round_through_the_gpu(void **state)
{
    (void)state;
    const gantry_submission submissions[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS};
    for (int m = 0; m < 2; m++) {
        struct scene s;
        atomic_int exits = 0;
        open_scene(&s, submissions[m]);
        gantry_task *begin = gpu_fixture_cpu(&s.gpu, "begin", begin_body, &s);
        add_lanes(&s, begin, again_or_on, true);
        for (int i = 0; i < LANES; i++) {
            gpu_fixture_after(s.tasks[i][0], s.tasks[i][3]); /* choice 0: back */
            gpu_fixture_after(gpu_fixture_cpu(&s.gpu, "exit", count_exit, &exits), s.tasks[i][3]);
        }
        assert_ok(gantry_taskman_freeze(s.gpu.manager));
        for (int run = 1; run <= 3; run++) {
            assert_ok(gantry_taskman_run(s.gpu.manager, 1));
            assert_int_equal(exits, LANES * run);
            for (int i = 0; i < LANES; i++) {
                assert_int_equal(s.lanes[i].checked, ROUNDS * run);
                assert_int_equal(s.lanes[i].wrong, 0);
                assert_int_equal(*s.lanes[i].out, ROUNDS - 1);
            }
        }
        close_scene(&s);
    }
}

/* ---- ends before the end --------------------------------------------------------------------- */

/* The first copy of lane 0 cancels its run from within its callback and goes on.  It is DONE, the GPU has
 * done it when the run has ended, and its followers are not begun.  The next run is whole again. */
static void test_cancelled_with_gpu_work_in_flight(void **state)
{
    (void)state;
    const gantry_submission submissions[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS};
    for (int m = 0; m < 2; m++) {
        struct scene s;
        open_scene(&s, submissions[m]);
        add_lanes(&s, NULL, check, false);
        assert_ok(gantry_taskman_freeze(s.gpu.manager));
        for (uint32_t run = 1; run <= RUNS; run++) {
            bool is_cancelled = run % 2 == 0;
            struct lane *lane = &s.lanes[0];
            lane->cancels = is_cancelled ? s.gpu.manager : NULL;
            *lane->in = run;
            assert_int_equal(gantry_taskman_run(s.gpu.manager, 1),
                             is_cancelled ? GANTRY_ERR_CANCELLED : GANTRY_OK);
            assert_int_equal(gantry_task_get_state(s.tasks[0][0]), GANTRY_TASK_STATE_DONE);
            for (int t = 1; t < 4; t++) {
                assert_int_equal(gantry_task_result(s.tasks[0][t]),
                                 is_cancelled ? GANTRY_ERR_CANCELLED : GANTRY_OK);
            }
            assert_int_equal(*lane->out, is_cancelled ? run - 1 : run);
            assert_int_equal(lane->checked, (run + 1) / 2);
            assert_int_equal(lane->wrong, 0);
        }
        close_scene(&s);
    }
}

static void test_a_lost_device_ends_the_runs(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_STREAMS);
    add_lanes(&s, NULL, check, false);
    assert_ok(gantry_taskman_freeze(s.gpu.manager));
    assert_ok(gantry_taskman_run(s.gpu.manager, 2));
    gantry_dispatcher_force_failure(gantry_context_dispatcher(s.gpu.context));
    assert_int_equal(gantry_taskman_run(s.gpu.manager, 3), GANTRY_ERR_DEVICE_LOST);
    assert_int_equal(s.lanes[0].checked, 2);
    assert_int_equal(gantry_taskman_start_from(s.gpu.manager, &s.tasks[2][0], 1), GANTRY_ERR_DEVICE_LOST);
    assert_ok(gantry_taskman_reset(s.gpu.manager));
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_see_what_is_there_now),
        cmocka_unit_test(test_a_part_runs_from_a_gpu_task),
        cmocka_unit_test(test_loops_go_round_through_the_gpu),
        cmocka_unit_test(test_cancelled_with_gpu_work_in_flight),
        cmocka_unit_test(test_a_lost_device_ends_the_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
