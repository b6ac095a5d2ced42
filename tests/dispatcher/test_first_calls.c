/* SPDX-License-Identifier: MIT */
/* The auto mode makes the first call of a launch function on its plain stream: what is made in it, and in no
 * later one (handles of libraries, memory), is made once, and no call of the driver is refused. */
#include "base/times.h"
#include "context/context.h"
#include "dispatcher/call/met.h"
#include "dispatcher/internal.h"
#include "tests/dispatcher/modes_scene.h"
#include "tests/partition/plan_support.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/log_lines.h"

#include <string.h>
#include <time.h>

enum { JOBS = 12, STEPS = 5 };

/* What the callback does in its first call of all. */
enum making { ALLOCATES, FREES, SYNCHRONIZES, ASKS_THEN_ALLOCATES, MAKINGS };

static struct {
    enum making making;
    bool is_made;
    uint32_t calls, refused, missed;
    CUdeviceptr memory;
} own;

static bool takes(CUresult result)
{
    own.refused += result != CUDA_SUCCESS;
    return result == CUDA_SUCCESS;
}

static bool make(gantry_launch *launch)
{
    const struct gy_driver *driver = launch->dispatcher->config.context->driver;
    CUdeviceptr other;
    switch (own.making) {
    case ALLOCATES:
        return takes(driver->cuMemAlloc(&own.memory, 256));
    case FREES:
        return takes(driver->cuMemAlloc(&other, 256)) && takes(driver->cuMemAlloc(&own.memory, 256)) &&
               takes(driver->cuMemFree(other));
    case SYNCHRONIZES:
        return takes(driver->cuMemAlloc(&own.memory, 256)) && takes(driver->cuCtxSynchronize());
    case ASKS_THEN_ALLOCATES:
        return takes(driver->cuMemAlloc(&own.memory, 256)) &&
               takes(driver->cuMemsetD32Async(own.memory, 0, 64, gantry_launch_stream(launch)));
    case MAKINGS:
        break;
    }
    return false;
}

/* A function for each making, since a function is met once. */
static gantry_launch_result launch_own(gantry_launch *launch, void *arg)
{
    own.calls++;
    own.is_made = own.is_made || make(launch);
    return own.is_made ? modes_launch(launch, arg) : GANTRY_LAUNCH_FAILED;
}

#define OWN(name)                                                               \
    static gantry_launch_result launch_##name(gantry_launch *launch, void *arg) \
    {                                                                           \
        return launch_own(launch, arg);                                         \
    }
OWN(allocates)
OWN(frees)
OWN(synchronizes)
OWN(asks)
OWN(late)
OWN(known)

static void open_scene(struct modes_scene *s, enum making making)
{
    gantry_context_options options = modes_options();
    options.submission = GANTRY_SUBMISSION_AUTO;
    memset(&own, 0, sizeof(own));
    own.making = making;
    modes_open(s, &options);
    gantry_context_dispatcher(s->gpu.context)->graphs.choice.slow_ns = UINT64_MAX; /* no time decides */
}

static void close_scene(struct modes_scene *s)
{
    assert_ok(gantry_context_synchronize(s->gpu.context));
    assert_ok(gantry_context_acquire(s->gpu.context));
    assert_int_equal(s->gpu.context->cuda->driver->cuMemFree(own.memory), CUDA_SUCCESS);
    assert_ok(gantry_context_release(s->gpu.context));
    modes_close(s);
}

static uint64_t native_of(const struct modes_scene *s)
{
    return gy_met_context(s->gpu.context->cuda);
}

/* A step of a row of tasks, of which those from `from` on have this callback; returns the graphs that it was.
 */
static uint64_t run(struct modes_scene *s, gantry_launch_fn before, gantry_launch_fn behind, uint32_t from)
{
    struct modes_job jobs[JOBS] = {{0}};
    gantry_task *latest = NULL;
    const uint64_t graphs = gpu_fixture_stats(&s->gpu).graph_launches;
    memset(s->stamps.cells, 0, 512);
    for (uint32_t i = 0; i < JOBS; i++) {
        jobs[i].scene = s;
        jobs[i].index = i;
        gantry_task *task =
            gpu_fixture_gpu(&s->gpu, GANTRY_TASK_KERNEL, "own", i < from ? before : behind, &jobs[i]);
        if (latest != NULL) {
            gpu_fixture_after(task, latest);
        }
        latest = task;
    }
    assert_ok(gpu_fixture_step(&s->gpu));
    assert_ok(gantry_context_synchronize(s->gpu.context));
    for (uint32_t i = 0; i < JOBS; i++) {
        assert_true(modes_end_of(s, i) != 0 && (i == 0 || modes_end_of(s, i - 1) < modes_begin_of(s, i)));
    }
    return gpu_fixture_stats(&s->gpu).graph_launches - graphs;
}

static void test_what_the_first_call_makes_is_made_once(void **state)
{
    (void)state;
    static const gantry_launch_fn functions[MAKINGS] = {launch_allocates, launch_frees, launch_synchronizes,
                                                        launch_asks};
    for (uint32_t i = 0; i < MAKINGS; i++) {
        struct modes_scene s;
        open_scene(&s, (enum making)i);
        assert_false(gy_met_has(functions[i], native_of(&s)));
        assert_int_equal(run(&s, functions[i], functions[i], JOBS), 0);
        /* One that asks for its stream is met by each context, and says nothing of its later calls. */
        const bool asks = i == ASKS_THEN_ALLOCATES;
        assert_int_equal(gy_met_has(functions[i], native_of(&s)), !asks);
        for (uint32_t step = 1; step < STEPS; step++) {
            assert_int_equal(run(&s, functions[i], functions[i], JOBS), asks ? 0 : 1);
        }
        assert_int_equal(own.calls, STEPS * JOBS);
        assert_int_equal(own.refused, 0);
        close_scene(&s);
    }
}

/* A function that is first called in the middle of a batch: what was noted before is launched, so that who
 * waits for it waits for what is on its way. */
static void test_a_function_is_met_within_a_batch(void **state)
{
    (void)state;
    struct modes_scene s;
    /* What was cut, both parts; the whole, which is played the first time, since the credit is spent. */
    static const uint64_t graphs[STEPS] = {2, 0, 1, 1, 1};
    open_scene(&s, SYNCHRONIZES);
    gy_met_add(modes_launch, native_of(&s));
    for (uint32_t step = 0; step < STEPS; step++) {
        assert_int_equal(run(&s, modes_launch, launch_late, JOBS / 2), graphs[step]);
    }
    assert_int_equal(own.calls, STEPS * JOBS / 2);
    assert_int_equal(own.refused, 0);
    close_scene(&s);
}

/* The primary context of the device stays while `keeper` is open. */
static void test_what_one_context_has_met_all_of_its_device_know(void **state)
{
    (void)state;
    gantry_context_options options = modes_options();
    gantry_context *keeper;
    assert_ok(gantry_context_create(&options, &keeper));
    for (uint32_t i = 0; i < 3; i++) {
        struct modes_scene s;
        open_scene(&s, ALLOCATES);
        own.is_made = i != 0;
        assert_int_equal(run(&s, launch_known, launch_known, JOBS), i == 0 ? 0 : 1);
        assert_int_equal(own.refused, 0);
        close_scene(&s);
    }
    gantry_context_destroy(keeper);
}

static gantry_launch_result launch_leaving(gantry_launch *launch, void *arg)
{
    const bool has_left = gantry_launch_leave_graph(launch) == GANTRY_OK &&
                          gantry_launch_request_sync_point(launch) == GANTRY_OK;
    return has_left ? modes_launch(launch, arg) : GANTRY_LAUNCH_FAILED;
}

/* A function that leaves the graph in its first call stays on streams, and may do there what others do. */
static void test_who_leaves_in_the_first_call_has_left(void **state)
{
    (void)state;
    struct modes_scene s;
    open_scene(&s, ALLOCATES);
    for (uint32_t step = 0; step < STEPS; step++) {
        assert_int_equal(run(&s, launch_leaving, launch_leaving, JOBS), 0);
        assert_false(gy_met_has(launch_leaving, native_of(&s)));
    }
    assert_int_equal(gpu_fixture_stats(&s.gpu).graph_cuts, 0);
    close_scene(&s);
}

/* It waits for the device in each call, and the task before it has to be done then. */
static gantry_launch_result launch_waiting(gantry_launch *launch, void *arg)
{
    const struct modes_job *job = arg;
    const bool waited = takes(launch->dispatcher->config.context->driver->cuCtxSynchronize());
    own.calls++;
    own.missed += job->index != 0 && modes_end_of(job->scene, job->index - 1) == 0;
    return waited ? modes_launch(launch, arg) : GANTRY_LAUNCH_FAILED;
}

/* The same, and it asks for its stream, which it bears to be captured. */
static gantry_launch_result launch_waiting_aside(gantry_launch *launch, void *arg)
{
    return gantry_launch_capture_stream(launch) != NULL ? launch_waiting(launch, arg) : GANTRY_LAUNCH_FAILED;
}

static void open_planned(struct modes_scene *s, gantry_submission submission, bool is_planned)
{
    gantry_partition_request requests[] = {request("some", GANTRY_PARTITION_AT_LEAST, 8),
                                           request("rest", GANTRY_PARTITION_REST, 0)};
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_context_options options = modes_options();
    plan.requests = requests;
    plan.count = 2;
    options.submission = submission;
    options.partitions = is_planned ? &plan : NULL;
    memset(&own, 0, sizeof(own));
    own.is_made = true;
    modes_open(s, &options);
    gantry_context_dispatcher(s->gpu.context)->graphs.choice.slow_ns = UINT64_MAX;
}

/* A callback that waits for the device never is in a batch that is noted, also where the driver would let it
 * wait for what it knows of; with a plan of partitions or without. */
static void test_who_waits_for_the_device_stays_on_streams(void **state)
{
    (void)state;
    static const gantry_launch_fn functions[] = {launch_waiting, launch_waiting_aside};
    for (uint32_t i = 0; i < 4; i++) {
        struct modes_scene s;
        struct log_lines lines;
        open_planned(&s, GANTRY_SUBMISSION_AUTO, i >= 2);
        log_lines_begin(&lines, "waits for the device");
        for (uint32_t step = 0; step < STEPS; step++) {
            assert_int_equal(run(&s, functions[i % 2], functions[i % 2], JOBS), 0);
        }
        assert_int_equal(log_lines_end(&lines), 1);
        assert_false(gy_met_has(functions[i % 2], native_of(&s)));
        assert_int_equal(own.calls, STEPS * JOBS);
        assert_int_equal(own.refused, 0);
        assert_int_equal(own.missed, 0);
        modes_close(&s);
    }
}

/* In graphs mode the wait is refused, and the callback called again on its stream. */
static void test_graphs_mode_refuses_such_a_wait(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct modes_scene s;
        open_planned(&s, GANTRY_SUBMISSION_GRAPHS, i != 0);
        for (uint32_t step = 0; step < STEPS; step++) {
            (void)run(&s, launch_waiting, launch_waiting, JOBS);
        }
        assert_int_equal(own.refused, 1);
        assert_int_equal(own.calls, STEPS * JOBS + 1);
        assert_int_equal(own.missed, 0);
        modes_close(&s);
    }
}

static gantry_launch_result launch_slow_at_first(gantry_launch *launch, void *arg)
{
    const struct timespec t = {.tv_nsec = (long)(launch->dispatcher->graphs.hold.limit_ns + 10 * GY_HOLD_NS)};
    if (own.calls++ < GY_TRUSTS_WAITS + 2) {
        (void)nanosleep(&t, NULL);
    }
    return modes_launch(launch, arg);
}

/* Calls of one step alone do not make a function one that waits. */
static void test_a_slow_beginning_is_forgiven(void **state)
{
    (void)state;
    struct modes_scene s;
    open_planned(&s, GANTRY_SUBMISSION_AUTO, false);
    for (uint32_t step = 0; step < 2; step++) { /* a host function that comes late finds out more */
        (void)run(&s, launch_slow_at_first, launch_slow_at_first, JOBS);
    }
    assert_true(gy_met_has(launch_slow_at_first, native_of(&s)));
    assert_int_equal(run(&s, launch_slow_at_first, launch_slow_at_first, JOBS), 1);
    modes_close(&s);
}

static gantry_launch_result launch_failing(gantry_launch *launch, void *arg)
{
    return own.calls++ == 0 ? GANTRY_LAUNCH_FAILED : modes_launch(launch, arg);
}

/* Of a call that has failed nothing is learnt. */
static void test_a_call_that_has_failed_was_no_meeting(void **state)
{
    (void)state;
    struct modes_scene s;
    struct modes_job jobs[1] = {{0}};
    open_scene(&s, ALLOCATES);
    assert_int_equal(modes_run_chain(&s, launch_failing, jobs, 1), GANTRY_ERR_TASK_FAILED);
    assert_false(gy_met_has(launch_failing, native_of(&s)));
    assert_int_equal(run(&s, launch_failing, launch_failing, JOBS), 0);
    assert_int_equal(run(&s, launch_failing, launch_failing, JOBS), 1);
    close_scene(&s);
}

/* ---- what was met ------------------------------------------------------------------------------- */

static gantry_launch_fn numbered(uint32_t i)
{
    return (gantry_launch_fn)(uintptr_t)(4096 + 16 * (uintptr_t)i);
}

/* What was met on one CUDA context was not on another.  Where there is no room it is forgotten, and nothing
 * else is. */
static void test_there_is_room_for_many(void **state)
{
    (void)state;
    const uint64_t one = 64, other = 128;
    uint32_t kept = 0;
    gy_met_add(launch_known, one);
    assert_true(gy_met_has(launch_known, one) && !gy_met_has(launch_known, other));
    for (uint32_t i = 0; i < 2 * GY_MET_MOST; i++) {
        gy_met_add(numbered(i), one);
        gy_met_add(numbered(i), one);
    }
    for (uint32_t i = 0; i < 2 * GY_MET_MOST; i++) {
        kept += gy_met_has(numbered(i), one);
    }
    assert_true(gy_met_has(numbered(0), one) && gy_met_has(launch_known, one));
    assert_false(gy_met_has(numbered(3 * GY_MET_MOST), one) || gy_met_has(numbered(0), other));
    assert_true(kept < GY_MET_MOST && kept > GY_MET_MOST - 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_the_first_call_makes_is_made_once),
        cmocka_unit_test(test_a_function_is_met_within_a_batch),
        cmocka_unit_test(test_what_one_context_has_met_all_of_its_device_know),
        cmocka_unit_test(test_who_leaves_in_the_first_call_has_left),
        cmocka_unit_test(test_who_waits_for_the_device_stays_on_streams),
        cmocka_unit_test(test_graphs_mode_refuses_such_a_wait),
        cmocka_unit_test(test_a_slow_beginning_is_forgiven),
        cmocka_unit_test(test_a_call_that_has_failed_was_no_meeting),
        cmocka_unit_test(test_there_is_room_for_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
