/* SPDX-License-Identifier: MIT */
/* An exchange on the device way, on the emulated driver.  The renderer is this test, which signals and
 * reads the timelines of two memory files, or another process. */
#include "tests/interop/exchange_scene.h"
#include "tests/support/file_has.h"

#include "context/context.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

/* Every stream of the pool belongs to a green context then, on which a wait never ends. */
static void test_frames_of_a_partition(void **state)
{
    (void)state;
    struct scene s;
    scene_open_with_partition(&s);
    scene_run_frames(&s, true, true);
    scene_close(&s);
}

/* Nobody draws: the step ends and names both values, nothing has run for it, and no stream waits any more. */
static void test_a_renderer_that_does_not_come_fails_the_step(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, 100 * MS, GANTRY_SUBMISSION_STREAMS);
    scene_build(&s);
    s.out[0] = 77;
    assert_ok(gantry_exchange_next(s.exchange, 5, 6));
    uint64_t since = gy_clock_ns();
    assert_ok(gantry_taskman_start(s.gpu.manager));
    scene_expect_others_go_on(&s);
    assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_ERR_TIMED_OUT);
    assert_true(gy_clock_ns() - since >= 100 * MS);
    assert_non_null(strstr(gantry_last_error(), "frame"));
    assert_non_null(strstr(gantry_last_error(), "value 5"));
    assert_non_null(strstr(gantry_last_error(), "value 6"));
    assert_int_equal(gantry_task_result(s.acquire), GANTRY_ERR_TIMED_OUT);
    assert_int_equal(gantry_task_result(s.work), GANTRY_ERR_TASK_FAILED);
    assert_int_equal(gy_timeline_file_read(s.drawn), 5); /* the library has signalled it */
    assert_ok(gantry_context_synchronize(s.gpu.context));
    assert_int_equal(gy_timeline_file_read(s.filtered), 0);
    assert_int_equal(s.out[0], 77);
    assert_true(gantry_exchange_is_lost(s.exchange));
    assert_int_equal(gantry_exchange_next(s.exchange, 7, 8), GANTRY_ERR_STATE);
    scene_close(&s);
}

/* The renderer is another process, and is killed. */
static void test_a_renderer_that_is_killed_fails_the_step(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, 5000 * MS, GANTRY_SUBMISSION_STREAMS);
    scene_build(&s);
    assert_ok(gantry_taskman_freeze(s.gpu.manager));
    pid_t child = timeline_shell_start(s.drawn_fd, 2, "exec sleep 1000");
    assert_int_not_equal(child, 0);
    for (uint32_t frame = 1; frame <= 2; frame++) {
        assert_ok(gantry_exchange_next(s.exchange, frame, frame));
        assert_ok(gantry_taskman_start(s.gpu.manager));
        assert_ok(gantry_taskman_stop(s.gpu.manager));
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_ok(gantry_exchange_next(s.exchange, 3, 3));
    assert_ok(gantry_taskman_start(s.gpu.manager));
    assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_ERR_TIMED_OUT);
    assert_int_equal(gy_timeline_file_read(s.filtered), 2);
    scene_close(&s);
}

/* The exchange's thread asks every 5 ms whether the device is lost: that does not spoil a capture in global
 * mode on any thread, and the step goes on. */
static void test_a_capture_of_the_application_is_left_alone(void **state)
{
    (void)state;
    struct scene s;
    scene_start_waiting(&s, 20000 * MS);
    struct gy_context *cuda = s.gpu.context->cuda;
    CUstream stream;
    CUgraph graph = NULL;
    assert_ok(gy_context_enter(cuda));
    assert_int_equal(cuda->driver->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(cuda->driver->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    usleep(40000);
    assert_int_equal(cuda->driver->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    assert_int_equal(cuda->driver->cuGraphDestroy(graph), CUDA_SUCCESS);
    assert_int_equal(cuda->driver->cuStreamDestroy(stream), CUDA_SUCCESS);
    assert_ok(gy_context_pop(cuda));
    assert_false(gantry_exchange_is_lost(s.exchange));
    scene_finish(&s);
    assert_int_equal(gy_timeline_file_read(s.filtered), 1);
    scene_close(&s);
}

/* The context is destroyed first: it ends the wait, and the exchange keeps nothing of it. */
static void test_it_may_outlive_its_context(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, 1000 * MS, GANTRY_SUBMISSION_STREAMS);
    gantry_exchange *late = s.exchange;
    s.exchange = NULL;
    scene_close(&s);
    assert_true(gantry_exchange_is_lost(late));
    assert_int_equal(gantry_exchange_next(late, 1, 1), GANTRY_ERR_STATE);
    gantry_exchange_destroy(late);
}

/* The wait is not charged to the GPU time of the step's manager: it lasts a second, and there is a copy. */
static void test_a_wait_is_not_charged_to_a_share(void **state)
{
    (void)state;
    struct scene s;
    gantry_share share = {sizeof(share), .percent = 50};
    gantry_share_usage usage = {.struct_size = sizeof(usage)};
    scene_open(&s, 20000 * MS, GANTRY_SUBMISSION_STREAMS);
    scene_replace_manager(&s, &share, false);
    scene_build(&s);
    scene_start(&s);
    usleep(1000000);
    scene_draw(&s, 1);
    assert_ok(gantry_taskman_stop(s.gpu.manager));
    uint64_t until = gy_clock_ns() + 20000 * MS;
    do { /* the measured time is charged a little later */
        usleep(1000);
        assert_ok(gantry_taskman_get_usage(s.gpu.manager, &usage));
    } while (usage.groups == 0 && gy_clock_ns() < until);
    assert_true(usage.groups > 0);
    assert_in_range(usage.used_ns, 0, 500 * MS);
    gantry_exchange_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_exchange_get_stats(s.exchange, &stats));
    assert_true(stats.longest_ns > usage.used_ns);
    scene_close(&s);
}

/* The cost of a frame: a wait, its mark, a signal, and one call that makes the context current for the first
 * two. No question is asked while the renderer is in time. */
static void test_a_frame_costs_three_calls(void **state)
{
    (void)state;
    static const char *const calls[] = {"cuWaitExternalSemaphoresAsync", "cuStreamWriteValue32",
                                        "cuSignalExternalSemaphoresAsync"};
    struct scene s;
    struct gantry_emu_control emu;
    scene_open(&s, 20000 * MS, GANTRY_SUBMISSION_STREAMS);
    assert_true(gpu_fixture_controls(&emu));
    scene_build(&s);
    assert_ok(gantry_taskman_freeze(s.gpu.manager));
    for (uint32_t frame = 1; frame <= FRAMES; frame++) {
        if (frame == 3) { /* everything that is made once exists */
            emu.reset_counters();
        }
        scene_draw(&s, frame);
        assert_ok(gantry_exchange_next(s.exchange, frame, frame));
        assert_ok(gantry_taskman_start(s.gpu.manager));
        assert_ok(gantry_taskman_stop(s.gpu.manager));
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(emu.calls(calls[i]), FRAMES - 2);
    }
    assert_int_equal(emu.calls("cuStreamWaitEvent"), 0);
    assert_int_equal(emu.calls("cuCtxSetCurrent"), 0);
    scene_close(&s);
}

/* Whatever call of the driver fails while the exchange is made, nothing is left of it, and the descriptors
 * stay. */
static void test_a_creation_that_fails_leaves_nothing(void **state)
{
    (void)state;
    static const char *const calls[] = {"cuDeviceGetAttribute",
                                        "cuStreamCreate",
                                        "cuEventCreate",
                                        "cuMemHostAlloc",
                                        "cuMemHostGetDevicePointer",
                                        "cuStreamWriteValue32",
                                        "cuStreamSynchronize",
                                        "cuImportExternalSemaphore"};
    struct scene s;
    struct gantry_emu_control emu;
    scene_open_context(&s, GANTRY_SUBMISSION_STREAMS, NULL);
    assert_true(gpu_fixture_controls(&emu));
    int drawn = gy_timeline_file_create(&s.drawn), filtered = gy_timeline_file_create(&s.filtered);
    s.drawn_fd = dup(drawn);
    int64_t streams = emu.live(GANTRY_EMU_LIVE_STREAMS), events = emu.live(GANTRY_EMU_LIVE_EVENTS),
            pinned = emu.live(GANTRY_EMU_LIVE_PINNED_BLOCKS);
    uint32_t failures = 0;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        for (uint64_t nth = 1; nth <= 3; nth++) {
            gantry_exchange_options options = scene_options(drawn, filtered, MS);
            gantry_exchange *exchange = NULL;
            (emu.reset_counters)();
            assert_int_equal((emu.fail)(calls[i], nth, 2, GANTRY_EMU_ONCE), 0); /* out of memory */
            gantry_status status = gantry_exchange_create(s.gpu.context, &options, &exchange);
            bool reached = emu.calls(calls[i]) >= nth;
            emu.clear_faults();
            if (!reached) {
                assert_ok(status);
                gantry_exchange_destroy(exchange);
                drawn = gy_timeline_file_create(&s.drawn);
                filtered = gy_timeline_file_create(&s.filtered);
                break;
            }
            failures++;
            assert_int_not_equal(status, GANTRY_OK);
            assert_null(exchange);
            assert_int_not_equal(fcntl(drawn, F_GETFD), -1);
            assert_int_not_equal(fcntl(filtered, F_GETFD), -1);
            assert_int_equal(emu.live(GANTRY_EMU_LIVE_STREAMS), streams);
            assert_int_equal(emu.live(GANTRY_EMU_LIVE_EVENTS), events);
            assert_int_equal(emu.live(GANTRY_EMU_LIVE_PINNED_BLOCKS), pinned);
        }
    }
    assert_int_equal(failures, 11);
    assert_int_equal(close(drawn), 0);
    assert_int_equal(close(filtered), 0);
    scene_close(&s);
}

/* The library owns the descriptors after success only. */
static void test_descriptors_are_taken_on_success_only(void **state)
{
    (void)state;
    struct scene s;
    gantry_exchange *exchange;
    scene_open_context(&s, GANTRY_SUBMISSION_STREAMS, NULL);
    int drawn = gy_timeline_file_create(&s.drawn), filtered = gy_timeline_file_create(&s.filtered);
    s.drawn_fd = dup(drawn);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), other = memfd_create("other", MFD_CLOEXEC);
    gantry_exchange_options options = scene_options(drawn, null, MS);
    assert_int_equal(gantry_exchange_create(s.gpu.context, &options, &exchange), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "/dev/null"));
    options = scene_options(drawn, other, MS);
    assert_int_equal(gantry_exchange_create(s.gpu.context, &options, &exchange), GANTRY_ERR_DRIVER);
    options = scene_options(-1, filtered, MS);
    assert_int_equal(gantry_exchange_create(s.gpu.context, &options, &exchange), GANTRY_ERR_INVALID_ARGUMENT);
    const int given[] = {drawn, filtered, null, other};
    for (int i = 0; i < 4; i++) {
        assert_int_not_equal(fcntl(given[i], F_GETFD), -1);
    }
    options = scene_options(drawn, filtered, MS);
    assert_ok(gantry_exchange_create(s.gpu.context, &options, &s.exchange));
    assert_int_equal(close(null), 0);
    assert_int_equal(close(other), 0);
    scene_close(&s);
    assert_int_equal(fcntl(drawn, F_GETFD), -1);
    assert_int_equal(fcntl(filtered, F_GETFD), -1);
}

static void test_a_recording_says_what_was_waited_for(void **state)
{
    (void)state;
    struct scene s;
    char path[64];
    snprintf(path, sizeof(path), "exchange-device-%d.pftrace", (int)getpid());
    scene_open(&s, 5 * MS, GANTRY_SUBMISSION_STREAMS);
    scene_build(&s);
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    gantry_profile *profile;
    options.path = path;
    assert_ok(gantry_profile_start(&options, &profile));
    assert_ok(gantry_exchange_next(s.exchange, 1, 1));
    assert_ok(gantry_taskman_start(s.gpu.manager));
    assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_ERR_TIMED_OUT);
    assert_ok(gantry_profile_stop(profile, NULL));
    assert_true(file_has(path, "waits for frame"));
    assert_int_equal(unlink(path), 0);
    scene_close(&s);
}

int main(void)
{
    unsetenv("GANTRY_TEST_DRIVER"); /* only the emulated driver has these timelines */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scene_frames_go_back_and_forth),
        cmocka_unit_test(test_frames_of_a_partition),
        cmocka_unit_test(test_a_renderer_that_does_not_come_fails_the_step),
        cmocka_unit_test(test_a_renderer_that_is_killed_fails_the_step),
        cmocka_unit_test(scene_cancelling_ends_a_wait),
        cmocka_unit_test(test_a_capture_of_the_application_is_left_alone),
        cmocka_unit_test(scene_destroying_it_ends_a_wait),
        cmocka_unit_test(test_it_may_outlive_its_context),
        cmocka_unit_test(scene_destroying_the_context_ends_a_wait),
        cmocka_unit_test(scene_a_lost_device_ends_a_wait),
        cmocka_unit_test(test_a_wait_is_not_charged_to_a_share),
        cmocka_unit_test(test_a_frame_costs_three_calls),
        cmocka_unit_test(scene_calls_that_fail_end_the_step),
        cmocka_unit_test(test_a_creation_that_fails_leaves_nothing),
        cmocka_unit_test(test_descriptors_are_taken_on_success_only),
        cmocka_unit_test(test_a_recording_says_what_was_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
