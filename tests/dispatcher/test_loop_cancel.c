/* SPDX-License-Identifier: MIT */
/* Which entries of a loop a cancellation ends, and what is left of a loop that was cut short. */
#include "base/point.h"
#include "dispatcher/internal.h"
#include "dispatcher/submit/device_loop.h"
#include "taskman/gpu_task.h"
#include "tests/dispatcher/loop_scene.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"

#include <string.h>

enum { LONG = 200000 }; /* turns: they take longer than what the test does meanwhile */

static struct gy_device_loop *loop_in(const struct loop_scene *s)
{
    return gy_task_launch_arg(s->loop.test);
}

/* ---- entries ---------------------------------------------------------------------------------- */

static bool is_cancelled(const struct gy_while_host *host, uint32_t entry)
{
    return (atomic_load(&host->cancelled[entry / 32 % 2]) >> entry % 32 & 1u) != 0;
}

static void test_what_is_launched_later_is_not_ended(void **state)
{
    (void)state;
    struct gy_while_host host = {.finished = 4};
    struct gy_while_record record = {.host = &host, .launched = 6};
    struct gy_while_pool pool;
    gy_while_pool_init(&pool, NULL);
    assert_false(gy_while_cancel(&pool, &record, 6));
    assert_true(gy_while_cancel(&pool, &record, 5)); /* the run that has launched 6 */
    assert_false(is_cancelled(&host, 5));
    assert_true(is_cancelled(&host, 6));
    gy_while_enter(&pool, &record);
    assert_false(is_cancelled(&host, 7));
    assert_true(gy_while_cancel(&pool, &record, 4));
    assert_true(is_cancelled(&host, 5));
    assert_true(is_cancelled(&host, 7));
    gy_while_pool_fini(&pool);
}

static void test_a_place_is_used_again_when_its_entry_has_ended(void **state)
{
    (void)state;
    struct gy_while_host host = {.finished = UINT32_MAX - 3};
    struct gy_while_record record = {.host = &host, .launched = UINT32_MAX - 3};
    struct gy_while_pool pool;
    gy_while_pool_init(&pool, NULL);
    for (uint32_t i = 0; i < GY_WHILE_ENTRIES; i++) {
        assert_false(gy_while_is_full(&record));
        gy_while_enter(&pool, &record);
    }
    assert_true(gy_while_is_full(&record));
    assert_true(gy_while_cancel(&pool, &record, UINT32_MAX - 3));
    for (uint32_t entry = UINT32_MAX - 2; entry != GY_WHILE_ENTRIES - 3; entry++) {
        assert_true(is_cancelled(&host, entry));
    }
    host.finished++;
    gy_while_enter(&pool, &record);
    assert_false(is_cancelled(&host, GY_WHILE_ENTRIES - 3));
    assert_true(is_cancelled(&host, GY_WHILE_ENTRIES - 4));
    gy_while_pool_fini(&pool);
}

/* Runs that the host has not seen end fill the record: the next one is with the CPU. */
static struct gy_while_record *run_beside_a_full_record(struct loop_scene *s)
{
    struct gy_while_record *record = loop_in(s)->record;
    const uint32_t finished = atomic_load(&record->host->finished);
    atomic_store(&record->host->finished, atomic_load(&record->launched) - GY_WHILE_ENTRIES);
    loops_run(s, 7);
    atomic_store(&record->host->finished, finished);
    loops_expect(s, 1, 1, GANTRY_LOOP_WORD, 7);
    return record;
}

/* A loop that the device has been in for too many runs is decided by the CPU. */
static void test_a_full_loop_goes_round_by_calls(void **state)
{
    (void)state;
    struct loop_scene s;
    loops_open_usual(&s, 1000);
    loops_run(&s, 10);
    loops_expect(&s, 1, 0, GANTRY_LOOP_WORD, 10);
    assert_ok(gantry_context_synchronize(s.gpu.context));
    (void)run_beside_a_full_record(&s);
    loops_run(&s, 9);
    loops_expect(&s, 2, 1, GANTRY_LOOP_WORD, 9);
    loops_close_scene(&s);
}

/* A run on the device that is cancelled calls no `decide`, so only the device says that it has ended. */
static void test_the_latest_end_is_told_whoever_saw_it(void **state)
{
    (void)state;
    struct loop_scene s;
    loops_open_usual(&s, 1000);
    loops_run(&s, 10);
    assert_ok(gantry_context_synchronize(s.gpu.context));
    struct gy_while_record *record = run_beside_a_full_record(&s);
    atomic_fetch_add(&record->launched, 1); /* on its way: that with the CPU is the latest that has ended */
    assert_int_equal(loops_stats_of(&s).turns, 7);
    atomic_store(&record->host->turns, 3);
    atomic_store(&record->host->end, GANTRY_LOOP_CANCELLED);
    atomic_fetch_add(&record->host->finished, 1);
    loops_expect_stats(&s, 1, 1, GANTRY_LOOP_CANCELLED, 3);
    atomic_fetch_sub(&record->launched, 1); /* the device has not seen it */
    atomic_fetch_sub(&record->host->finished, 1);
    loops_run(&s, 9);
    loops_expect(&s, 2, 1, GANTRY_LOOP_WORD, 9);
    loops_close_scene(&s);
}

/* ---- runs ------------------------------------------------------------------------------------- */

/* What a run has left in the cells is copied out by the next one; nothing waits for the end of the loop. */
static void open_unawaited(struct loop_scene *s)
{
    loops_open_scene(s, NULL);
    loops_add_loop(s, ENDLESS);
    gantry_task *body = loops_add_step(s, ACT_COUNT, 0, 0, 0)->task;
    gpu_fixture_after(s->before, s->after);
    gpu_fixture_after(body, s->before);
    gpu_fixture_after(s->loop.test, body);
    gpu_fixture_after(body, s->loop.decide);
    assert_ok(gantry_taskman_freeze(s->gpu.manager));
}

/* The run before has said GANTRY_OK: its results are whole, though the device is in its loop still when the
 * next run is cancelled. */
static void test_a_cancelled_run_leaves_the_loop_of_the_run_before(void **state)
{
    (void)state;
    struct loop_scene s;
    open_unawaited(&s);
    loops_set_begin(&s, LONG);
    assert_ok(gantry_taskman_run(s.gpu.manager, 1));
    struct gy_while_host *host = loop_in(&s)->record->host;
    assert_ok(gantry_taskman_start(s.gpu.manager));
    deadline_await(loops_stats_of(&s).launches == 2, "the loop of the second run to be launched");
    assert_int_equal(atomic_load(&host->finished), 0);
    assert_ok(gantry_taskman_cancel(s.gpu.manager));
    assert_int_equal(atomic_load(&host->finished), 0);
    assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_ERR_CANCELLED);
    assert_ok(gantry_context_synchronize(s.gpu.context));
    loops_expect_cells(&s, LONG);
    const gantry_loop_stats stats = loops_stats_of(&s);
    assert_int_equal(stats.launches, 2);
    assert_int_equal(stats.end, GANTRY_LOOP_CANCELLED);
    assert_int_equal(stats.turns, 1);
    loops_close_scene(&s);
}

/* A run without a turn of its own was not cut short on the device. */
static void test_a_cancelled_run_leaves_the_next_one(void **state)
{
    (void)state;
    struct loop_scene s;
    open_unawaited(&s);
    loops_set_begin(&s, ENDLESS);
    assert_ok(gantry_taskman_start(s.gpu.manager));
    assert_ok(gantry_taskman_wait(s.gpu.manager));
    assert_ok(gantry_taskman_cancel(s.gpu.manager));
    assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_ERR_CANCELLED);
    assert_ok(gantry_context_synchronize(s.gpu.context));
    loops_set_begin(&s, 5);
    assert_ok(gantry_taskman_run(s.gpu.manager, 2));
    assert_ok(gantry_context_synchronize(s.gpu.context));
    loops_expect_cells(&s, 5);
    assert_int_equal(loops_stats_of(&s).end, GANTRY_LOOP_WORD);
    loops_close_scene(&s);
}

static void open_cpu_loop(struct loop_scene *s, gantry_launch_fn extra)
{
    loops_open_scene(s, NULL);
    loops_add_loop(s, ENDLESS);
    loops_add_step_with(s, ACT_COUNT, 0, 0, 0, false)->extra = extra;
    loops_close_line(s);
    loops_set_begin(s, ENDLESS);
}

/* The loop has ended with its run, and nobody can end it once more. */
static void expect_cut_short(struct loop_scene *s, uint64_t times)
{
    const gantry_loop_stats stats = loops_stats_of(s);
    assert_int_equal(stats.cpu_loops, times);
    assert_int_equal(stats.end, GANTRY_LOOP_CANCELLED);
    assert_in_range(stats.turns, 1, ENDLESS - 1);
    assert_int_equal(gantry_loop_cancel(s->loop.decide), GANTRY_ERR_STATE);
    assert_non_null(strstr(gantry_last_error(), "is not on its way"));
}

static void test_a_loop_of_a_cancelled_run_is_not_on_its_way(void **state)
{
    (void)state;
    struct loop_scene s;
    open_cpu_loop(&s, NULL);
    for (uint32_t i = 1; i <= 3; i++) {
        const uint32_t calls = atomic_load(&s.steps[0].calls);
        assert_ok(gantry_taskman_start(s.gpu.manager));
        deadline_await(atomic_load(&s.steps[0].calls) > calls + 2, "two turns of the loop");
        if (i == 3) {
            assert_ok(gantry_loop_cancel(s.loop.decide)); /* either of the two may be the one to end it */
        }
        assert_ok(gantry_taskman_cancel(s.gpu.manager));
        const gantry_status status = gantry_taskman_stop(s.gpu.manager);
        assert_true(status == GANTRY_ERR_CANCELLED || (i == 3 && status == GANTRY_OK));
        expect_cut_short(&s, i);
    }
    loops_run(&s, 4);
    loops_expect(&s, 0, 4, GANTRY_LOOP_WORD, 4);
    loops_close_scene(&s);
}

static gantry_launch_result fail_late(gantry_launch *launch, void *arg)
{
    const struct loop_step *step = arg;
    return atomic_load(&step->calls) % 4 == 0 ? gantry_launch_fail(launch, GANTRY_ERR_TASK_FAILED)
                                              : GANTRY_LAUNCH_DONE;
}

static void test_a_loop_of_a_failed_run_is_not_on_its_way(void **state)
{
    (void)state;
    struct loop_scene s;
    open_cpu_loop(&s, fail_late);
    assert_int_equal(gantry_taskman_run(s.gpu.manager, 1), GANTRY_ERR_TASK_FAILED);
    expect_cut_short(&s, 1);
    assert_in_range(loops_stats_of(&s).turns, 2, 4);
    loops_close_scene(&s);
}

/* ---- lost contexts ----------------------------------------------------------------------------- */

/* The run is over as soon as its loop is launched.  False, and all is closed: a real driver waits for the
 * loop where its graph is destroyed. */
static bool leave_in_the_loop(struct loop_scene *s)
{
    open_unawaited(s);
    if (!s->has_emu) {
        loops_close_scene(s);
        return false;
    }
    loops_set_begin(s, ENDLESS);
    assert_ok(gantry_taskman_run(s->gpu.manager, 1));
    deadline_await(loops_stats_of(s).is_on_device != 0, "the loop to begin");
    return true;
}

static void close_lost(struct loop_scene *s)
{
    deadline_begin("a loop without its tasks to end");
    loops_close_lost(s);
    deadline_end();
}

/* The manager may be reset or gone when the dispatcher's thread sees the failure. */
static void test_a_failure_ends_loops_of_managers_that_are_gone(void **state)
{
    (void)state;
    for (uint32_t is_gone = 0; is_gone < 2; is_gone++) {
        struct loop_scene s;
        if (!leave_in_the_loop(&s)) {
            return;
        }
        if (is_gone) {
            gantry_taskman_destroy(s.gpu.manager);
            s.gpu.manager = NULL;
        } else {
            assert_ok(gantry_taskman_reset(s.gpu.manager));
        }
        gantry_dispatcher_force_failure(gantry_context_dispatcher(s.gpu.context));
        close_lost(&s);
    }
}

static gantry_dispatcher *_Atomic fails_late;

static void fail_at_the_end(enum gy_point point, const void *at)
{
    gantry_dispatcher *d = atomic_load(&fails_late);
    if (point == GY_POINT_INBOX_READ && d != NULL && at == &d->inbox && atomic_load(&d->told.closing)) {
        atomic_store(&fails_late, NULL);
        gantry_dispatcher_force_failure(d);
    }
}

/* The dispatcher's thread has looked for that the last time. */
static void test_a_failure_that_comes_with_the_end_ends_the_loop(void **state)
{
    (void)state;
    struct loop_scene s;
    if (!leave_in_the_loop(&s)) {
        return;
    }
    gantry_taskman_destroy(s.gpu.manager);
    s.gpu.manager = NULL;
    atomic_store(&fails_late, gantry_context_dispatcher(s.gpu.context));
    gy_point_hook(fail_at_the_end);
    deadline_begin("a loop without its tasks to end");
    gpu_fixture_close(&s.gpu); /* with its module: a real driver may wait for the loop to unload that */
    deadline_end();
    gy_point_hook(NULL);
    assert_null(atomic_load(&fails_late));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_launched_later_is_not_ended),
        cmocka_unit_test(test_a_place_is_used_again_when_its_entry_has_ended),
        cmocka_unit_test(test_a_full_loop_goes_round_by_calls),
        cmocka_unit_test(test_the_latest_end_is_told_whoever_saw_it),
        cmocka_unit_test(test_a_cancelled_run_leaves_the_loop_of_the_run_before),
        cmocka_unit_test(test_a_cancelled_run_leaves_the_next_one),
        cmocka_unit_test(test_a_loop_of_a_cancelled_run_is_not_on_its_way),
        cmocka_unit_test(test_a_loop_of_a_failed_run_is_not_on_its_way),
        cmocka_unit_test(test_a_failure_ends_loops_of_managers_that_are_gone),
        cmocka_unit_test(test_a_failure_that_comes_with_the_end_ends_the_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
