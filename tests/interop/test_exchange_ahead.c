/* SPDX-License-Identifier: MIT */
/* An exchange whose step's GPU work is enqueued behind the wait for the renderer, on the emulated driver. */
#include "tests/interop/exchange_scene.h"

#include <stdlib.h>

static uint64_t copies(const struct gantry_emu_control *emu)
{
    return emu->calls("cuMemcpyDtoDAsync_v2") + emu->calls("cuMemcpyAsync") + emu->calls("cuGraphLaunch");
}

static void until_copied(const struct gantry_emu_control *emu)
{
    deadline_begin("the step's work to be enqueued");
    while (copies(emu) == 0) {
        usleep(1000);
    }
    deadline_end();
}

/* The work is there before the renderer, and the signal is not. */
static void run_behind(gantry_submission submission)
{
    struct scene s;
    struct gantry_emu_control emu;
    scene_open(&s, 20000 * MS, submission);
    assert_true(gpu_fixture_controls(&emu));
    scene_build(&s);
    emu.reset_counters();
    s.out[3] = 77;
    assert_ok(gantry_exchange_next(s.exchange, 1, 1));
    assert_ok(gantry_taskman_start(s.gpu.manager));
    until_copied(&emu);
    usleep(20000);
    assert_int_equal(s.out[3], 77);
    assert_int_equal(emu.calls("cuSignalExternalSemaphoresAsync"), 0);
    scene_finish(&s);
    assert_int_equal(s.out[3], 7919 + 3);
    assert_int_equal(gy_timeline_file_read(s.filtered), 1);
    scene_close(&s);
}

static void test_work_is_enqueued_behind_the_wait(void **state)
{
    (void)state;
    run_behind(GANTRY_SUBMISSION_STREAMS);
    run_behind(GANTRY_SUBMISSION_GRAPHS);
}

static gantry_status count_frame(gantry_task *task, void *arg)
{
    (void)task;
    ++*(uint32_t *)arg;
    return GANTRY_OK;
}

enum { MANY = 24 };

static gantry_launch_result fill_word(gantry_launch *launch, void *arg)
{
    return gantry_launch_fill(launch, arg, 3, 4, 1) == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* More work of another manager than there are streams, all at once. */
static void expect_many_go_on(struct scene *s)
{
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_task_desc fill = {.struct_size = sizeof(fill), .kind = GANTRY_TASK_KERNEL, .launch = fill_word};
    gantry_task_desc seen = {.struct_size = sizeof(seen), .kind = GANTRY_TASK_SYNC_POINT};
    gantry_taskman *other;
    options.gpu_dispatcher = gantry_context_dispatcher(s->gpu.context);
    assert_ok(gantry_taskman_create(&options, &other));
    for (int i = 0; i < MANY; i++) {
        gantry_task *filled, *done;
        fill.arg = s->other + i;
        assert_ok(gantry_taskman_submit(other, &fill, &filled));
        assert_ok(gantry_taskman_submit(other, &seen, &done));
        assert_ok(gantry_task_start_after_done(done, filled));
    }
    assert_ok(gantry_taskman_start(other));
    assert_ok(gantry_taskman_stop(other));
    gantry_taskman_destroy(other);
}

/* A step that waits holds up nobody else, also where there are few streams, and is right when it is drawn. */
static void run_beside_others(gantry_submission submission)
{
    struct scene s;
    scene_open_with_streams(&s, 3, submission);
    scene_open_exchange(&s, 3000000 * MS);
    scene_build(&s);
    scene_start(&s);
    deadline_begin("others' work beside a step that waits");
    scene_expect_others_go_on(&s);
    expect_many_go_on(&s);
    deadline_end();
    assert_int_equal(gy_timeline_file_read(s.drawn), 0);
    scene_finish(&s);
    assert_int_equal(s.out[3], 7919 + 3);
    scene_close(&s);
}

static void test_a_wait_holds_up_nobody_else(void **state)
{
    (void)state;
    run_beside_others(GANTRY_SUBMISSION_STREAMS);
    run_beside_others(GANTRY_SUBMISSION_GRAPHS);
}

/* Nobody draws: the step fails and names both values, nothing starts that comes after its work, and nothing
 * is signalled. */
static void run_into_nothing(gantry_submission submission)
{
    struct scene s;
    uint32_t seen = 0;
    scene_open(&s, 200 * MS, submission);
    scene_build(&s);
    gantry_task *reads = gpu_fixture_cpu(&s.gpu, "reads the frame", count_frame, &seen);
    assert_ok(gantry_task_start_after_done(reads, s.work));
    assert_ok(gantry_exchange_next(s.exchange, 5, 6));
    assert_ok(gantry_taskman_start(s.gpu.manager));
    assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_ERR_TIMED_OUT);
    assert_non_null(strstr(gantry_last_error(), "frame"));
    assert_non_null(strstr(gantry_last_error(), "value 5"));
    assert_non_null(strstr(gantry_last_error(), "value 6"));
    assert_int_not_equal(gantry_task_result(s.release), GANTRY_OK);
    assert_int_not_equal(gantry_task_result(reads), GANTRY_OK);
    assert_int_equal(seen, 0);
    assert_int_equal(gy_timeline_file_read(s.drawn), 5); /* by the library */
    assert_ok(gantry_context_synchronize(s.gpu.context));
    assert_int_equal(gy_timeline_file_read(s.filtered), 0);
    assert_true(gantry_exchange_is_lost(s.exchange));
    scene_expect_others_go_on(&s);
    scene_close(&s);
}

static void test_a_renderer_that_does_not_come_fails_the_step(void **state)
{
    (void)state;
    run_into_nothing(GANTRY_SUBMISSION_STREAMS);
    run_into_nothing(GANTRY_SUBMISSION_GRAPHS);
}

/* Two frames in flight are two managers: the second one's renderer comes first, and its frame is done first.
 */
static void test_a_frame_does_not_wait_for_another(void **state)
{
    (void)state;
    struct scene s;
    struct gy_timeline_file *drawn, *filtered;
    gantry_exchange *exchange;
    gantry_taskman *manager;
    gantry_task *acquire, *release;
    scene_open(&s, 20000 * MS, GANTRY_SUBMISSION_STREAMS);
    scene_build(&s);
    gantry_exchange_options options =
        scene_options(gy_timeline_file_create(&drawn), gy_timeline_file_create(&filtered), 20000 * MS);
    gantry_taskman_options on = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_task_desc work = {
        .struct_size = sizeof(work), .kind = GANTRY_TASK_KERNEL, .launch = scene_fill_other, .arg = &s};
    gantry_task *filled;
    on.gpu_dispatcher = gantry_context_dispatcher(s.gpu.context);
    assert_ok(gantry_exchange_create(s.gpu.context, &options, &exchange));
    assert_ok(gantry_taskman_create(&on, &manager));
    assert_ok(gantry_exchange_tasks(exchange, manager, &acquire, &release));
    assert_ok(gantry_taskman_submit(manager, &work, &filled));
    assert_ok(gantry_task_start_after(filled, acquire));
    assert_ok(gantry_task_start_after(release, filled));
    scene_start(&s);
    assert_ok(gantry_exchange_next(exchange, 1, 1));
    assert_ok(gantry_taskman_start(manager));
    gy_timeline_file_signal(drawn, 1);
    assert_ok(gantry_taskman_stop(manager));
    deadline_begin("the second frame");
    while (gy_timeline_file_read(filtered) != 1) {
        usleep(1000);
    }
    deadline_end();
    assert_int_equal(gy_timeline_file_read(s.filtered), 0);
    scene_draw(&s, 1);
    assert_ok(gantry_taskman_stop(s.gpu.manager));
    gantry_taskman_destroy(manager);
    gantry_exchange_destroy(exchange);
    munmap(drawn, GY_TIMELINE_FILE_BYTES);
    munmap(filtered, GY_TIMELINE_FILE_BYTES);
    scene_close(&s);
}

/* Where work behind the wait would be charged to somebody, hold others up or hang, it starts when the
 * renderer has come. */
static void expect_a_gate(struct scene *s)
{
    struct gantry_emu_control emu;
    assert_true(gpu_fixture_controls(&emu));
    scene_build(s);
    emu.reset_counters();
    scene_start(s);
    usleep(20000);
    assert_int_equal(copies(&emu), 0);
    scene_finish(s);
    assert_int_equal(s->out[3], 7919 + 3);
    scene_close(s);
}

static void test_elsewhere_work_waits_on_the_host(void **state)
{
    (void)state;
    struct scene s;
    gantry_share share = {sizeof(share), .percent = 50};
    scene_open(&s, 20000 * MS, GANTRY_SUBMISSION_STREAMS);
    scene_replace_manager(&s, &share, false);
    expect_a_gate(&s);
    scene_open(&s, 20000 * MS, GANTRY_SUBMISSION_STREAMS);
    scene_replace_manager(&s, NULL, true);
    expect_a_gate(&s);
    scene_open_with_partition(&s);
    scene_open_exchange(&s, 20000 * MS);
    expect_a_gate(&s);
}

/* There is one stream, which everybody needs. */
static void test_without_a_stream_of_its_own_work_waits_on_the_host(void **state)
{
    (void)state;
    struct scene s;
    scene_open_with_streams(&s, 1, GANTRY_SUBMISSION_STREAMS);
    scene_open_exchange(&s, 20000 * MS);
    expect_a_gate(&s);
}

int main(void)
{
    unsetenv("GANTRY_TEST_DRIVER"); /* the timelines are the emulated driver's */
    scene_way = GANTRY_EXCHANGE_AHEAD;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scene_frames_go_back_and_forth),
        cmocka_unit_test(test_work_is_enqueued_behind_the_wait),
        cmocka_unit_test(test_a_wait_holds_up_nobody_else),
        cmocka_unit_test(test_a_renderer_that_does_not_come_fails_the_step),
        cmocka_unit_test(test_a_frame_does_not_wait_for_another),
        cmocka_unit_test(scene_cancelling_ends_a_wait),
        cmocka_unit_test(scene_destroying_it_ends_a_wait),
        cmocka_unit_test(scene_destroying_the_context_ends_a_wait),
        cmocka_unit_test(scene_a_lost_device_ends_a_wait),
        cmocka_unit_test(scene_calls_that_fail_end_the_step),
        cmocka_unit_test(test_elsewhere_work_waits_on_the_host),
        cmocka_unit_test(test_without_a_stream_of_its_own_work_waits_on_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
