/* SPDX-License-Identifier: MIT */
/* What a recording does at its end with GPU work that nobody has collected, on a fake driver. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "profile/gpu_time.h"
#include "profile/session.h"
#include "tests/profile/fake_gpu.h"
#include "tests/profile/trace_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define LONG_NS (60000 * MS) /* longer than the test may take */

static char path[64];
static struct gy_context context;
static struct gy_gpu_time *gpu_time;
static gantry_profile *profile;
static gantry_profile_stats stats;
static uint64_t zero; /* GPU time when the test begins */
static char logged[512];
static char cause[512]; /* the line that says why */

static void keep_line(void *user, gantry_log_level level, const char *line)
{
    (void)user;
    (void)level;
    snprintf(logged, sizeof(logged), "%s", line);
    if (strstr(line, "are lost: ") != NULL) {
        snprintf(cause, sizeof(cause), "%s", line);
    }
}

static void start(void)
{
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = path;
    assert_ok(gantry_profile_start(&options, &profile));
}

static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "/tmp/gantry-gpu-end-%d.pftrace", (int)getpid());
    fake_gpu_reset(&context);
    zero = fake_gpu_ns(gy_clock_ns());
    gpu_time = NULL;
    profile = NULL;
    gy_profile_set_patience(LONG_NS);
    if (gy_gpu_time_create(&context, &gpu_time) != GANTRY_OK) {
        return -1;
    }
    start();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    gy_profile_set_patience(0);
    gy_gpu_time_destroy(gpu_time);
    (void)gantry_profile_stop(profile, NULL); /* set only after a failed assertion */
    gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR);
    unlink(path);
    return fake.live == 0 && gy_alloc_live() == 0 ? 0 : -1;
}

static void stop(void)
{
    gantry_profile *ending = profile;
    profile = NULL;
    logged[0] = '\0';
    gantry_set_log(keep_line, NULL, GANTRY_LOG_WARNING);
    stats = (gantry_profile_stats){.struct_size = sizeof(stats)};
    gantry_status status = gantry_profile_stop(ending, &stats);
    gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR);
    assert_ok(status);
}

static struct gy_gpu_mark *begin(uint32_t stream, uint64_t at_ns, uint64_t id)
{
    fake.next_ns[stream] = zero + at_ns;
    return gy_gpu_time_begin(gpu_time, fake_stream(stream), NULL, stream, NULL, "task", id);
}

static void end(uint32_t stream, uint64_t at_ns, struct gy_gpu_mark *mark)
{
    fake.next_ns[stream] = zero + at_ns;
    gy_gpu_time_end(gpu_time, mark, fake_stream(stream), NULL);
}

static void set_reached(uint64_t at_ns)
{
    pthread_mutex_lock(&fake.lock);
    fake.reached_ns = zero + at_ns;
    pthread_mutex_unlock(&fake.lock);
}

/* One batch with a task on each of two streams, which end at 20 us and at 90 us. */
static void run_batch(void)
{
    gy_gpu_time_begin_batch(gpu_time, 0, 1);
    end(0, 20 * US, begin(0, 10 * US, 1));
    end(1, 90 * US, begin(1, 10 * US, 2));
    gy_gpu_time_end_batch(gpu_time);
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static void test_what_the_gpu_has_passed_is_collected(void **state)
{
    (void)state;
    run_batch();
    set_reached(100 * US);
    stop();
    assert_int_equal(stats.spans, 3);
    assert_int_equal(stats.lost, 0);
    assert_int_equal(stats.gpu_unfinished, 0);
    assert_string_equal(logged, "");
}

static atomic_bool is_stopped;

static void reach_later(void *arg)
{
    (void)arg;
    sleep_ms(10);
    set_reached(50 * US);
    sleep_ms(10);
    assert_false(atomic_load(&is_stopped));
    set_reached(100 * US);
}

static void with_thread(void (*body)(void *arg))
{
    gy_thread thread;
    atomic_store(&is_stopped, false);
    assert_ok(gy_thread_start(&thread, "other", body, NULL));
    gantry_profile *ending = profile;
    profile = NULL;
    stats = (gantry_profile_stats){.struct_size = sizeof(stats)};
    gantry_status status = gantry_profile_stop(ending, &stats);
    atomic_store(&is_stopped, true);
    gy_thread_join(&thread);
    assert_ok(status);
}

static void test_running_work_is_waited_for(void **state)
{
    (void)state;
    run_batch();
    with_thread(reach_later);
    assert_int_equal(stats.spans, 3);
    assert_int_equal(stats.lost, 0);
}

static void test_work_that_runs_for_too_long_is_counted(void **state)
{
    (void)state;
    run_batch();
    set_reached(50 * US);
    gy_profile_set_patience(30 * MS);
    uint64_t before = gy_clock_ns();
    stop();
    assert_true(gy_clock_ns() - before >= 30 * MS);
    assert_int_equal(stats.spans, 1); /* the task that has ended */
    assert_int_equal(stats.lost, 2);  /* the other one, and the batch's bar */
    assert_int_equal(stats.gpu_unfinished, 1);
    set_reached(100 * US);
    gy_gpu_time_collect(gpu_time); /* this is for nobody */
    start();
    run_batch();
    stop();
    assert_int_equal(stats.spans, 3);
    assert_int_equal(stats.lost, 0);
    assert_int_equal(stats.gpu_unfinished, 0);
}

static void test_the_cause_of_a_loss_is_logged(void **state)
{
    (void)state;
    static char first[512];
    run_batch();
    gy_profile_set_patience(0);
    gantry_profile *ending = profile;
    profile = NULL;
    first[0] = '\0';
    gantry_set_log(keep_line, NULL, GANTRY_LOG_WARNING);
    gy_profile_drain_recorders(gy_profile_session());
    snprintf(first, sizeof(first), "%s", logged);
    stats = (gantry_profile_stats){.struct_size = sizeof(stats)};
    gantry_status status = gantry_profile_stop(ending, &stats);
    gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR);
    assert_ok(status);
    assert_non_null(strstr(first,
                           "profile: GPU 0: 2 GPU tasks and the bars of 0 batches are lost: their work "
                           "went on for too long after the stop"));
    assert_int_equal(stats.lost, 2); /* once, however often it is asked for */
}

static struct gy_gpu_mark *open_mark;

static void end_later(void *arg)
{
    (void)arg;
    sleep_ms(20);
    end(0, 30 * US, open_mark);
    sleep_ms(10);
    gy_gpu_time_end_batch(gpu_time);
}

/* A launch callback, and its batch, may go on while another thread stops the recording. */
static void test_open_marks_and_batches_are_waited_for(void **state)
{
    (void)state;
    set_reached(100 * US);
    gy_gpu_time_begin_batch(gpu_time, 0, 1);
    open_mark = begin(0, 10 * US, 1);
    with_thread(end_later);
    assert_int_equal(stats.spans, 2);
    assert_int_equal(stats.lost, 0);
}

/* The next call of a task is held back: it is counted at once, and its batch has no bar without it.  Another
 * task of the batch is waited for all the same. */
static void test_tasks_that_are_held_back_are_not_waited_for(void **state)
{
    (void)state;
    for (int others = 0; others < 2; others++) {
        set_reached(15 * US);
        cause[0] = '\0';
        gy_gpu_time_begin_batch(gpu_time, 0, 1);
        open_mark = begin(0, 10 * US, 1);
        if (others != 0) {
            end(1, 90 * US, begin(1, 12 * US, 2));
        }
        gy_gpu_time_rest(gpu_time, open_mark, true);
        gy_gpu_time_end_batch(gpu_time);
        gantry_set_log(keep_line, NULL, GANTRY_LOG_WARNING);
        if (others != 0) {
            with_thread(reach_later);
        } else {
            stop();
        }
        gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR);
        assert_non_null(strstr(cause, "1 GPU tasks and "));
        assert_non_null(strstr(cause, "a bound on GPU time holds back the rest of their calls"));
        assert_int_equal(stats.gpu_unfinished, 1);
        assert_int_equal(stats.spans, others);
        end(0, 200 * US, open_mark); /* this is for nobody */
        start();
    }
}

/* It goes on in time. */
static void test_a_task_that_is_held_no_longer_is_waited_for(void **state)
{
    (void)state;
    set_reached(100 * US);
    gy_gpu_time_begin_batch(gpu_time, 0, 1);
    open_mark = begin(0, 10 * US, 1);
    gy_gpu_time_rest(gpu_time, open_mark, true);
    gy_gpu_time_rest(gpu_time, open_mark, false);
    with_thread(end_later);
    assert_int_equal(stats.spans, 2);
    assert_int_equal(stats.lost, 0);
}

/* A mark whose task was not called is not waited for, and nothing is lost. */
static void test_dropped_marks_are_not_waited_for(void **state)
{
    (void)state;
    gy_gpu_time_begin_batch(gpu_time, 0, 1);
    struct gy_gpu_mark *mark = begin(0, 10 * US, 1);
    fake.next_ns[0] = zero + 20 * US;
    gy_gpu_time_drop(gpu_time, mark, fake_stream(0), NULL);
    gy_gpu_time_end_batch(gpu_time);
    gy_profile_set_patience(0);
    stop();
    assert_int_equal(stats.spans, 0);
    assert_int_equal(stats.lost, 0);
}

/* In a callback: nothing is waited for, and no call of the driver is made. */
static void test_stop_on_a_thread_of_the_library_asks_nothing(void **state)
{
    (void)state;
    run_batch();
    set_reached(100 * US);
    long calls = fake.calls;
    gy_thread_serve(true);
    stop();
    gy_thread_serve(false);
    assert_int_equal(fake.calls, calls);
    assert_int_equal(stats.spans, 0);
    assert_int_equal(stats.lost, 2);
    assert_int_equal(stats.gpu_unfinished, 2);
}

static void lose_later(void *arg)
{
    (void)arg;
    sleep_ms(20);
    pthread_mutex_lock(&fake.lock);
    fake.fail_at = fake.calls;
    fake.fail_with = CUDA_ERROR_ILLEGAL_ADDRESS;
    pthread_mutex_unlock(&fake.lock);
}

static void test_lost_device_ends_the_wait(void **state)
{
    (void)state;
    run_batch();
    struct gy_gpu_mark *mark = begin(2, 20 * US, 3); /* a callback that does not return */
    with_thread(lose_later);
    assert_true(gy_context_is_lost(&context));
    assert_int_equal(stats.spans, 0);
    assert_int_equal(stats.lost, 3);
    end(2, 30 * US, mark);
}

/* The recorder goes with its struct, whose work that the GPU has passed is in the recording. */
static void test_struct_that_ends_first_leaves_its_work(void **state)
{
    (void)state;
    run_batch();
    set_reached(50 * US);
    gy_gpu_time_destroy(gpu_time);
    gpu_time = NULL;
    stop();
    assert_int_equal(stats.spans, 2); /* the bar is of the task that has ended */
    assert_int_equal(stats.lost, 1);
}

static atomic_bool dispatching;

static void dispatch(void *arg)
{
    (void)arg;
    for (uint64_t i = 0; atomic_load(&dispatching); i++) {
        gy_gpu_time_begin_batch(gpu_time, 1, i);
        for (uint32_t s = 0; s < 3; s++) {
            struct gy_gpu_mark *mark = gy_gpu_time_begin(gpu_time, fake_stream(s), NULL, s, NULL, "task", i);
            gy_gpu_time_end(gpu_time, mark, fake_stream(s), NULL);
        }
        gy_gpu_time_end_batch(gpu_time);
    }
}

static void complete(void *arg)
{
    (void)arg;
    while (atomic_load(&dispatching)) {
        gy_gpu_time_collect(gpu_time);
        sched_yield();
    }
}

/* Recordings are stopped while batches are launched and collected: nothing is lost but for want of marks, and
 * each batch that is in it is there with all its tasks. */
static void test_stops_under_both_threads(void **state)
{
    (void)state;
    gy_thread threads[2];
    gantry_status worst = GANTRY_OK;
    uint64_t unfinished = 0, spans = 0;
    for (size_t i = 0; i < FAKE_STREAMS; i++) {
        fake.next_ns[i] = zero;
    }
    set_reached(0);
    atomic_store(&dispatching, true);
    assert_ok(gy_thread_start(&threads[0], "GD", dispatch, NULL));
    assert_ok(gy_thread_start(&threads[1], "completion", complete, NULL));
    for (int i = 0; i < 20 && worst == GANTRY_OK; i++) {
        sleep_ms(2);
        stats = (gantry_profile_stats){.struct_size = sizeof(stats)};
        worst = gantry_profile_stop(profile, &stats);
        unfinished += stats.gpu_unfinished;
        spans += stats.spans;
        gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
        options.path = path;
        profile = NULL;
        worst = worst == GANTRY_OK ? gantry_profile_start(&options, &profile) : worst;
    }
    atomic_store(&dispatching, false);
    gy_thread_join(&threads[0]);
    gy_thread_join(&threads[1]);
    assert_ok(worst);
    stop();
    assert_true(spans + stats.spans > 0);
    assert_int_equal(unfinished + stats.gpu_unfinished, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_what_the_gpu_has_passed_is_collected),
        TEST(test_running_work_is_waited_for),
        TEST(test_work_that_runs_for_too_long_is_counted),
        TEST(test_the_cause_of_a_loss_is_logged),
        TEST(test_open_marks_and_batches_are_waited_for),
        TEST(test_tasks_that_are_held_back_are_not_waited_for),
        TEST(test_a_task_that_is_held_no_longer_is_waited_for),
        TEST(test_dropped_marks_are_not_waited_for),
        TEST(test_stop_on_a_thread_of_the_library_asks_nothing),
        TEST(test_lost_device_ends_the_wait),
        TEST(test_struct_that_ends_first_leaves_its_work),
        TEST(test_stops_under_both_threads),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
