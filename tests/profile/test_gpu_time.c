/* SPDX-License-Identifier: MIT */
/* GPU times on a fake driver whose clock the test sets: the times in the trace are compared exactly. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/span.h"
#include "base/thread.h"
#include "profile/gpu_batch.h"
#include "profile/gpu_time.h"
#include "profile/session.h"
#include "tests/profile/fake_gpu.h"
#include "tests/profile/trace_reader.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define US UINT64_C(1000)

static char path[64];
static struct gy_context context;
static struct gy_gpu_time *gpu_time;
static gantry_profile *profile;
static struct read_trace trace;
static gantry_profile_stats stats;
static uint64_t zero; /* GPU time when the test begins */

static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "/tmp/gantry-gpu-time-%d.pftrace", (int)getpid());
    fake_gpu_reset(&context);
    zero = fake_gpu_ns(gy_clock_ns());
    gpu_time = NULL;
    profile = NULL;
    if (gy_gpu_time_create(&context, &gpu_time) != GANTRY_OK) {
        return -1;
    }
    gy_profile_set_patience(0);                       /* what is in flight at the end is lost at once */
    gy_gpu_time_set_anchor_age(gpu_time, UINT64_MAX); /* one for the whole test, however long it takes */
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    gy_gpu_time_destroy(gpu_time);
    (void)gantry_profile_stop(profile, NULL); /* set only after a failed assertion */
    reader_free(&trace);
    unlink(path);
    return fake.live == 0 && gy_alloc_live() == 0 ? 0 : -1;
}

static void start(void)
{
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = path;
    assert_ok(gantry_profile_start(&options, &profile));
}

static void stop(void)
{
    gantry_profile *ending = profile;
    profile = NULL;
    stats = (gantry_profile_stats){.struct_size = sizeof(stats)};
    assert_ok(gantry_profile_stop(ending, &stats));
}

static void stop_and_load(uint64_t slices)
{
    stop();
    reader_free(&trace);
    const char *wrong = reader_load(path, &trace);
    if (wrong != NULL) {
        fail_msg("%s", wrong);
    }
    assert_int_equal(stats.spans, slices);
    assert_int_equal(trace.slice_count, slices);
}

/* A batch that has ended before its tasks begin: they are in none. */
static void prepare(uint32_t waiting)
{
    gy_gpu_time_begin_batch(gpu_time, waiting, 1);
    gy_gpu_time_end_batch(gpu_time);
}

static struct gy_gpu_mark *begin_here(uint32_t stream, uint64_t at_ns, const char *name, uint64_t id)
{
    fake.next_ns[stream] = zero + at_ns;
    return gy_gpu_time_begin(gpu_time, fake_stream(stream), NULL, stream, NULL, name, id);
}

static struct gy_gpu_mark *begin(uint32_t stream, uint64_t at_ns, const char *name, uint64_t id)
{
    fake.next_ns[stream] = zero + at_ns;
    prepare(0);
    return gy_gpu_time_begin(gpu_time, fake_stream(stream), NULL, stream, NULL, name, id);
}

static void end(uint32_t stream, uint64_t at_ns, struct gy_gpu_mark *mark)
{
    fake.next_ns[stream] = zero + at_ns;
    gy_gpu_time_end(gpu_time, mark, fake_stream(stream), NULL);
}

static void task(uint32_t stream, uint64_t begin_ns, uint64_t end_ns, uint64_t id)
{
    end(stream, end_ns, begin(stream, begin_ns, "task", id));
}

/* The GPU has got this far; collect the times. */
static void reach(uint64_t at_ns)
{
    fake.reached_ns = zero + at_ns;
    gy_gpu_time_collect(gpu_time);
}

static const struct read_slice *by_id(uint64_t id)
{
    for (size_t i = 0; i < trace.slice_count; i++) {
        if (trace.slices[i].id == id) {
            return &trace.slices[i];
        }
    }
    return NULL;
}

/* A slice has its GPU duration, and its host times are right within the stated bound. */
static void check_slice(uint64_t id, uint64_t begin_ns, uint64_t end_ns)
{
    const struct read_slice *slice = by_id(id);
    assert_non_null(slice);
    assert_true(stats.gpu_alignment_ns > 0);
    int64_t off_begin = (int64_t)(slice->begin - fake_host_ns(zero + begin_ns));
    int64_t off_end = (int64_t)(slice->end - fake_host_ns(zero + end_ns));
    int64_t bound = (int64_t)stats.gpu_alignment_ns;
    if (off_begin < -bound || off_begin > bound || off_end < -bound || off_end > bound) {
        fail_msg("slice %" PRIu64 " is off by %" PRId64 " and %" PRId64 " ns, bound %" PRId64, id, off_begin,
                 off_end, bound);
    }
}

static void test_nothing_happens_while_off(void **state)
{
    (void)state;
    assert_null(gy_gpu_time_begin(gpu_time, fake_stream(0), NULL, 0, NULL, "task", 1));
    gy_gpu_time_end(gpu_time, NULL, fake_stream(0), NULL);
    gy_gpu_time_collect(gpu_time);
    assert_int_equal(fake.calls, 0);
}

static void test_slices_have_gpu_durations_on_their_streams(void **state)
{
    (void)state;
    start();
    task(0, 10 * US, 25 * US, 1);
    /* The second slice does not touch the first: a rounded float might then shorten it by 1 ns. */
    task(0, 26 * US, 27 * US, 2);
    task(3, 12 * US, 40 * US, 3);
    reach(100 * US);
    stop_and_load(3);
    assert_int_equal(stats.lost, 0);
    check_slice(1, 10 * US, 25 * US);
    check_slice(2, 26 * US, 27 * US);
    check_slice(3, 12 * US, 40 * US);
    assert_int_equal(by_id(1)->end - by_id(1)->begin, 15 * US);
    assert_int_equal(by_id(2)->end - by_id(2)->begin, 1 * US);
    assert_int_equal(by_id(3)->end - by_id(3)->begin, 28 * US);
    assert_string_equal(by_id(3)->name, "task");
    assert_string_equal(by_id(3)->category, "gpu");
    assert_string_equal(by_id(1)->track->name, "stream 0");
    assert_string_equal(by_id(3)->track->name, "stream 3");
    assert_ptr_equal(by_id(2)->track, by_id(1)->track);
}

static void test_collect_stops_at_running_work_of_each_stream(void **state)
{
    (void)state;
    start();
    task(0, 10 * US, 20 * US, 1);
    task(0, 20 * US, 90 * US, 2);
    task(1, 10 * US, 30 * US, 3);
    reach(50 * US);
    struct gy_gpu_mark *open = begin(1, 60 * US, "open", 4);
    reach(90 * US);
    end(1, 95 * US, open);
    task(1, 95 * US, 200 * US, 5);
    reach(100 * US);
    stop_and_load(4);
    assert_null(by_id(5)); /* it is still in flight */
    assert_int_equal(stats.lost, 1);
    assert_int_equal(stats.gpu_unfinished, 1);
    check_slice(2, 20 * US, 90 * US);
    check_slice(4, 60 * US, 95 * US);
}

static void test_tasks_that_overlap_on_a_stream_keep_their_times(void **state)
{
    (void)state;
    start();
    struct gy_gpu_mark *a = begin(0, 10 * US, "a", 1);
    struct gy_gpu_mark *b = begin(0, 12 * US, "b", 2);
    end(0, 20 * US, a);
    end(0, 30 * US, b);
    reach(50 * US);
    stop_and_load(2);
    check_slice(1, 10 * US, 20 * US);
    check_slice(2, 12 * US, 30 * US);
    assert_int_equal(by_id(2)->end - by_id(2)->begin, 18 * US);
}

static void test_bound_holds_when_the_clocks_differ(void **state)
{
    (void)state;
    static const double rates[] = {1.0, 1.00009, 0.99991};
    for (size_t r = 0; r < 3; r++) {
        fake.rate = rates[r];
        zero = fake_gpu_ns(gy_clock_ns());
        start();
        for (uint64_t i = 0; i < 40; i++) { /* up to 200 ms away from any anchor */
            task(0, i * 5000 * US, i * 5000 * US + 100 * US, i);
        }
        reach(1000000 * US);
        stop_and_load(40);
        for (uint64_t i = 0; i < 40; i++) {
            check_slice(i, i * 5000 * US, i * 5000 * US + 100 * US);
        }
    }
}

static void test_new_anchor_does_not_make_tasks_overlap(void **state)
{
    (void)state;
    gy_gpu_time_set_anchor_age(gpu_time, 0); /* there is a new anchor for each task */
    start();
    for (uint64_t i = 0; i < 50; i++) {
        task(0, i * 10 * US, (i + 1) * 10 * US, i);
        fake.jump_ns += i % 2 == 0 ? 3000 : -2000; /* later anchors mostly place things earlier */
        reach((i + 1) * 10 * US);
    }
    fake.jump_ns = 0;
    stop_and_load(50);
    for (uint64_t i = 0; i < 50; i++) {
        assert_string_equal(by_id(i)->track->name, "stream 0");
        assert_ptr_equal(by_id(i)->track, by_id(0)->track);
        assert_true(i == 0 || by_id(i)->begin >= by_id(i - 1)->end);
    }
    assert_true(stats.gpu_alignment_ns > 1000); /* the jumps appear in the bound */
}

static void test_marks_without_end_to_wait_for_are_bounded_and_counted(void **state)
{
    (void)state;
    start();
    for (uint64_t i = 0; i < 17000; i++) { /* more marks are made all the time, and nothing is collected */
        task(0, i * US, (i + 1) * US, i);
    }
    reach(20000 * US);
    for (uint64_t i = 0; i < 1100; i++) {
        task(0, (21000 + i) * US, (21001 + i) * US, 20000 + i);
    }
    reach(25000 * US);
    stop();
    assert_int_equal(stats.lost, 17000 - 16384);
    assert_int_equal(stats.spans, 16384 + 1100);
}

static void test_a_batch_that_begins_with_many_tasks_has_marks_for_them(void **state)
{
    (void)state;
    start();
    prepare(500);
    /* the marks that were ready made more ready, and nothing was collected */
    for (uint64_t i = 0; i < 3000; i++) {
        task(0, i * US, (i + 1) * US, i);
    }
    reach(5000 * US);
    stop();
    assert_int_equal(stats.lost, 0);
    assert_int_equal(stats.spans, 3000);
}

static void test_recording_may_end_and_another_begin_over_open_marks(void **state)
{
    (void)state;
    start();
    task(0, 10 * US, 20 * US, 1);
    struct gy_gpu_mark *open = begin(0, 20 * US, "open", 2);
    struct gy_gpu_mark *open_longer = begin(1, 20 * US, "open", 3);
    task(2, 20 * US, 25 * US, 4);
    stop();
    assert_int_equal(stats.spans, 0); /* the GPU has passed none */
    assert_int_equal(stats.lost, 4);
    end(0, 30 * US, open);
    start();
    task(0, 40 * US, 50 * US, 5);
    end(1, 60 * US, open_longer);
    reach(100 * US);
    stop_and_load(1);
    assert_int_equal(stats.lost, 0);
    check_slice(5, 40 * US, 50 * US);
    task(0, 100 * US, 110 * US, 6); /* off again */
    reach(200 * US);
}

/* A task that was not called has no slice, and its mark is free again. */
static void test_dropped_marks_come_back_without_a_slice(void **state)
{
    (void)state;
    start();
    for (uint64_t i = 0; i < 20000; i++) {
        struct gy_gpu_mark *mark = begin(0, i * US, "task", i);
        assert_non_null(mark);
        gy_gpu_time_drop(gpu_time, mark, fake_stream(0), NULL);
        reach((i + 1) * US);
    }
    gy_gpu_time_drop(gpu_time, NULL, fake_stream(0), NULL);
    task(0, 21000 * US, 21010 * US, 1);
    reach(22000 * US);
    stop_and_load(1);
    assert_int_equal(stats.lost, 0);
    check_slice(1, 21000 * US, 21010 * US);
}

static unsigned lines;

static void count_lines(void *user, gantry_log_level level, const char *line)
{
    (void)user;
    (void)level;
    (void)line;
    lines++;
}

static void test_lost_context_drops_marks_with_one_log_line(void **state)
{
    (void)state;
    start();
    for (uint64_t i = 0; i < 100; i++) {
        task((uint32_t)(i % FAKE_STREAMS), i * US, (i + 1) * US, i);
    }
    struct gy_gpu_mark *open = begin(0, 200 * US, "open", 100);
    lines = 0;
    gantry_set_log(count_lines, NULL, GANTRY_LOG_ERROR);
    fake.fail_at = fake.calls;
    fake.fail_with = CUDA_ERROR_ILLEGAL_ADDRESS;
    reach(1000 * US);
    assert_true(gy_context_is_lost(&context));
    reach(1000 * US);
    end(0, 201 * US, open);
    for (uint64_t i = 0; i < 10; i++) {
        assert_null(begin(0, 300 * US, "late", i));
    }
    gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR);
    assert_int_equal(lines, 1);
    stop_and_load(0);
    assert_int_equal(stats.lost, 101);
}

/* Without anchors a task is placed by its own end: that is rough, and the bound says so. */
static void test_gpu_that_does_not_answer_is_not_waited_for(void **state)
{
    (void)state;
    uint64_t ns[4][2];
    fake.mute = true;
    fake.reached_ns = UINT64_MAX;
    start();
    for (uint64_t i = 0; i < 4; i++) {
        fake.next_ns[0] = FAKE_NOW;
        prepare(0);
        struct gy_gpu_mark *mark = gy_gpu_time_begin(gpu_time, fake_stream(0), NULL, 0, NULL, "task", i);
        ns[i][0] = fake.last_ns - zero;
        gy_gpu_time_end(gpu_time, mark, fake_stream(0), NULL);
        ns[i][1] = fake.last_ns - zero;
        fake.mute = i != 2;
        gy_gpu_time_collect(gpu_time);
    }
    stop_and_load(4);
    assert_int_equal(stats.lost, 0);
    for (uint64_t i = 0; i < 4; i++) {
        check_slice(i, ns[i][0], ns[i][1]);
        assert_true(i == 0 || by_id(i)->begin >= by_id(i - 1)->end);
    }
}

/* Make the 1st, 2nd, 3rd ... driver call of a recording fail with an error that is not sticky. */
static void test_recording_survives_every_driver_failure(void **state)
{
    (void)state;
    for (long nth = 0;; nth += nth < 40 || nth > 2040 ? 1 : 100) {
        gy_gpu_time_destroy(gpu_time);
        fake_gpu_reset(&context);
        zero = fake_gpu_ns(gy_clock_ns());
        assert_ok(gy_gpu_time_create(&context, &gpu_time));
        fake.fail_at = nth;
        fake.fail_with = CUDA_ERROR_OUT_OF_MEMORY;
        gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
        options.path = path;
        assert_ok(gantry_profile_start(&options, &profile));
        for (uint64_t i = 0; i < 8; i++) {
            task((uint32_t)(i % 2), i * US, (i + 1) * US, i);
        }
        reach(100 * US);
        bool failed = fake.calls > nth;
        stop();
        assert_int_equal(stats.spans + stats.lost, 8);
        gy_gpu_time_destroy(gpu_time);
        gpu_time = NULL;
        assert_int_equal(fake.live, 0);
        assert_int_equal(gy_alloc_live(), 0);
        if (!failed) {
            assert_int_equal(stats.spans, 8);
            return;
        }
    }
}

/* ---- batches ------------------------------------------------------------------------------------- */

static uint64_t argument(const struct read_slice *slice, const char *name)
{
    for (size_t i = 0; i < slice->argument_count; i++) {
        if (strcmp(slice->arguments[i].name, name) == 0) {
            return slice->arguments[i].value;
        }
    }
    return UINT64_MAX;
}

/* The bar of a batch; NULL: there is none. */
static const struct read_slice *bar_of(uint64_t number)
{
    for (size_t i = 0; i < trace.slice_count; i++) {
        const struct read_slice *slice = &trace.slices[i];
        if (strcmp(slice->category, "gpu_batch") == 0 && argument(slice, "batch") == number) {
            return slice;
        }
    }
    return NULL;
}

static void check_bar(uint64_t number, uint64_t tasks, uint64_t begin_ns, uint64_t end_ns)
{
    const struct read_slice *bar = bar_of(number);
    assert_non_null(bar);
    assert_string_equal(bar->name, "batch");
    assert_string_equal(bar->track->name, "batches");
    assert_int_equal(argument(bar, "tasks"), tasks);
    const int64_t bound = (int64_t)stats.gpu_alignment_ns;
    const int64_t off_begin = (int64_t)(bar->begin - fake_host_ns(zero + begin_ns));
    const int64_t off_end = (int64_t)(bar->end - fake_host_ns(zero + end_ns));
    assert_true(off_begin >= -bound && off_begin <= bound);
    assert_true(off_end >= -bound && off_end <= bound);
}

static void run_here(uint32_t stream, uint64_t begin_ns, uint64_t end_ns, uint64_t id)
{
    end(stream, end_ns, begin_here(stream, begin_ns, "task", id));
}

/* From the first begin to the last end, in whatever order the streams are collected; batches may overlap. */
static void test_batches_are_bars_over_their_tasks(void **state)
{
    (void)state;
    start();
    gy_gpu_time_begin_batch(gpu_time, 0, 7);
    run_here(0, 20 * US, 30 * US, 1);
    run_here(1, 10 * US, 15 * US, 2);
    run_here(2, 40 * US, 90 * US, 3);
    gy_gpu_time_end_batch(gpu_time);
    reach(35 * US); /* stream 2 is still busy */
    gy_gpu_time_begin_batch(gpu_time, 0, 8);
    run_here(0, 50 * US, 60 * US, 4);
    reach(100 * US); /* the dispatcher comes last */
    gy_gpu_time_end_batch(gpu_time);
    gy_gpu_time_begin_batch(gpu_time, 0, 9); /* nothing is launched in it */
    gy_gpu_time_end_batch(gpu_time);
    stop_and_load(6);
    assert_int_equal(stats.lost, 0);
    check_bar(7, 3, 10 * US, 90 * US);
    check_bar(8, 1, 50 * US, 60 * US);
    assert_null(bar_of(9));
}

/* A task whose callback was not called has no slice, and adds nothing to its batch. */
static void test_batches_leave_out_what_was_not_called(void **state)
{
    (void)state;
    start();
    gy_gpu_time_begin_batch(gpu_time, 0, 3);
    struct gy_gpu_mark *mark = begin_here(0, 10 * US, "void", 1);
    fake.next_ns[0] = zero + 80 * US;
    gy_gpu_time_drop(gpu_time, mark, fake_stream(0), NULL);
    run_here(1, 20 * US, 30 * US, 2);
    gy_gpu_time_end_batch(gpu_time);
    gy_gpu_time_begin_batch(gpu_time, 0, 4);
    mark = begin_here(0, 90 * US, "void", 3);
    fake.next_ns[0] = zero + 95 * US;
    gy_gpu_time_drop(gpu_time, mark, fake_stream(0), NULL);
    gy_gpu_time_end_batch(gpu_time);
    reach(100 * US);
    stop_and_load(2);
    check_bar(3, 1, 20 * US, 30 * US);
    assert_null(bar_of(4));
}

/* More batches than there is room for are counted as lost; their tasks are not. */
static void test_batches_beyond_the_room_are_lost(void **state)
{
    (void)state;
    start();
    for (uint64_t i = 0; i < GY_GPU_BATCHES + 10; i++) {
        gy_gpu_time_begin_batch(gpu_time, 1, i + 1);
        run_here(0, (10 + i) * US, (10 + i) * US + 500, i);
        gy_gpu_time_end_batch(gpu_time);
    }
    reach(10000 * US);
    gy_gpu_time_begin_batch(gpu_time, 0, 5000); /* there is room again */
    run_here(0, 10001 * US, 10002 * US, 5000);
    gy_gpu_time_end_batch(gpu_time);
    reach(20000 * US);
    stop_and_load(2 * GY_GPU_BATCHES + 10 + 2);
    assert_int_equal(stats.lost, 10);
    check_bar(1, 1, 10 * US, 10 * US + 500);
    check_bar(5000, 1, 10001 * US, 10002 * US);
    assert_null(bar_of(GY_GPU_BATCHES + 1));
}

/* A recording that ends within a batch takes none of it into the next. */
static void test_batches_end_with_their_recording(void **state)
{
    (void)state;
    start();
    gy_gpu_time_begin_batch(gpu_time, 0, 1);
    run_here(0, 10 * US, 20 * US, 1);
    stop();
    start();
    gy_gpu_time_end_batch(gpu_time);
    gy_gpu_time_begin_batch(gpu_time, 0, 2);
    run_here(0, 50 * US, 60 * US, 3);
    gy_gpu_time_end_batch(gpu_time);
    reach(100 * US);
    stop_and_load(2);
    assert_null(bar_of(1));
    check_bar(2, 1, 50 * US, 60 * US);
}

static void test_create_survives_every_allocation_failure(void **state)
{
    (void)state;
    for (long nth = 0;; nth++) {
        gy_gpu_time_destroy(gpu_time);
        gpu_time = (struct gy_gpu_time *)&context;
        gy_fault_arm(nth);
        gantry_status status = gy_gpu_time_create(&context, &gpu_time);
        if (status != GANTRY_OK) {
            gy_fault_arm(-1);
            assert_int_equal(status, GANTRY_ERR_OUT_OF_HOST_MEMORY);
            assert_ptr_equal(gpu_time, &context);
            gpu_time = NULL;
            continue;
        }
        gy_fault_arm(-1);
        start();
        gy_fault_arm(nth - 3); /* the marks themselves fail at nth 3 */
        task(0, 10 * US, 20 * US, 1);
        bool failed = gy_fault_fired();
        gy_fault_arm(-1);
        reach(100 * US);
        stop();
        /* Marks that could not be made at first are made before the batch; a batch for which there is no
         * memory is lost. */
        assert_true(stats.lost <= (uint64_t)failed);
        assert_int_equal(stats.spans, 1);
        if (!failed) {
            assert_int_equal(nth, 5);
            return;
        }
    }
}

/* ---- threads --------------------------------------------------------------------------------- */

static atomic_bool dispatching;
static atomic_uint_fast64_t begun, collected;

static void dispatch(void *arg)
{
    (void)arg;
    for (uint64_t i = 0; atomic_load(&dispatching); i++) {
        uint32_t stream = (uint32_t)(i % FAKE_STREAMS);
        prepare(0);
        struct gy_gpu_mark *mark =
            gy_gpu_time_begin(gpu_time, fake_stream(stream), NULL, stream, NULL, "task", i);
        gy_gpu_time_end(gpu_time, mark, fake_stream(stream), NULL);
        atomic_fetch_add(&begun, 1);
    }
}

static void complete(void *arg)
{
    (void)arg;
    while (atomic_load(&dispatching)) {
        gy_gpu_time_collect(gpu_time);
        atomic_fetch_add(&collected, 1);
        sched_yield();
    }
}

/* More than `more` of the events that the thread counts have begun and ended since the call. */
static void await(const atomic_uint_fast64_t *counter, uint64_t more)
{
    uint64_t seen = atomic_load(counter);
    while (atomic_load(counter) <= seen + more) {
        sched_yield();
    }
}

static void test_recordings_come_and_go_under_both_threads(void **state)
{
    (void)state;
    gy_thread threads[2];
    uint64_t slices = 0;
    gantry_status worst = GANTRY_OK;
    for (size_t i = 0; i < FAKE_STREAMS; i++) {
        fake.next_ns[i] = zero;
    }
    fake.reached_ns = zero;
    gy_gpu_time_set_anchor_age(gpu_time, 20 * US);
    atomic_store(&dispatching, true);
    assert_ok(gy_thread_start(&threads[0], "GD", dispatch, NULL));
    assert_ok(gy_thread_start(&threads[1], "completion", complete, NULL));
    /* The scheduler decides how many slices one recording catches: a thread that sleeps at the wrong place
     * loses them all.  Go on until one of the recordings has some; if none ever does, the test's time limit
     * finds it. */
    for (int i = 0; i < 8 || (slices == 0 && worst == GANTRY_OK); i++) {
        gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
        options.path = path;
        gantry_profile *recording = NULL;
        gantry_status status = gantry_profile_start(&options, &recording);
        await(&collected, 1); /* the marks of the recording before are free again */
        await(&begun, 200);
        await(&collected, 1);
        gantry_profile_stats s = {.struct_size = sizeof(s)};
        status = status == GANTRY_OK ? gantry_profile_stop(recording, &s) : status;
        worst = status != GANTRY_OK ? status : worst;
        slices += s.spans;
    }
    atomic_store(&dispatching, false);
    gy_thread_join(&threads[0]);
    gy_thread_join(&threads[1]);
    assert_int_equal(worst, GANTRY_OK);
    assert_true(slices > 0);
}

int main(void)
{
    if (!reader_available()) {
        return 77;
    }
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_nothing_happens_while_off),
        TEST(test_slices_have_gpu_durations_on_their_streams),
        TEST(test_collect_stops_at_running_work_of_each_stream),
        TEST(test_tasks_that_overlap_on_a_stream_keep_their_times),
        TEST(test_bound_holds_when_the_clocks_differ),
        TEST(test_new_anchor_does_not_make_tasks_overlap),
        TEST(test_marks_without_end_to_wait_for_are_bounded_and_counted),
        TEST(test_a_batch_that_begins_with_many_tasks_has_marks_for_them),
        TEST(test_dropped_marks_come_back_without_a_slice),
        TEST(test_recording_may_end_and_another_begin_over_open_marks),
        TEST(test_lost_context_drops_marks_with_one_log_line),
        TEST(test_gpu_that_does_not_answer_is_not_waited_for),
        TEST(test_recording_survives_every_driver_failure),
        TEST(test_batches_are_bars_over_their_tasks),
        TEST(test_batches_leave_out_what_was_not_called),
        TEST(test_batches_beyond_the_room_are_lost),
        TEST(test_batches_end_with_their_recording),
        TEST(test_create_survives_every_allocation_failure),
        TEST(test_recordings_come_and_go_under_both_threads),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
