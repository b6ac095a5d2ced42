/* SPDX-License-Identifier: MIT */
/* Starting and stopping a recording, and the errors that may occur between. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/span.h"
#include "base/thread.h"
#include "profile/session.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[64];

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "/tmp/gantry-profile-%d.pftrace", (int)getpid());
    return 0;
}

static int remove_path(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static gantry_profile *started(uint32_t spans)
{
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = path;
    options.spans_per_thread = spans;
    gantry_profile *profile = NULL;
    assert_ok(gantry_profile_start(&options, &profile));
    assert_non_null(profile);
    return profile;
}

static gantry_profile_stats stopped(gantry_profile *profile)
{
    gantry_profile_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_profile_stop(profile, &stats));
    assert_int_equal(gy_alloc_live(), 0);
    return stats;
}

static void test_empty_recording_writes_a_file(void **state)
{
    (void)state;
    assert_false(gy_span_on());
    gantry_profile *profile = started(0);
    assert_true(gy_span_on());
    gantry_profile_stats stats = stopped(profile);
    assert_false(gy_span_on());
    assert_int_equal(stats.spans, 0);
    assert_int_equal(stats.lost, 0);
    assert_int_equal(stats.gpu_alignment_ns, 0);
    struct stat file;
    assert_int_equal(stat(path, &file), 0);
    assert_true(file.st_size > 0);
    assert_int_equal(stats.bytes, file.st_size);
}

static void test_spans_count_and_file_size_is_told(void **state)
{
    (void)state;
    gantry_profile *profile = started(0);
    for (uint64_t i = 0; i < 1000; i++) {
        gy_span_end(GY_SPAN_TASK, "work", gy_span_begin(), i);
    }
    gantry_profile_stats stats = stopped(profile);
    assert_int_equal(stats.spans, 1000);
    assert_int_equal(stats.lost, 0);
    struct stat file;
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(stats.bytes, file.st_size);
}

static void test_stop_ignores_null_and_foreign(void **state)
{
    (void)state;
    assert_int_equal(gantry_profile_stop(NULL, NULL), GANTRY_OK);
    gantry_profile *profile = started(0);
    assert_int_equal(gantry_profile_stop((gantry_profile *)path, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_profile_stop(profile, NULL), GANTRY_OK);
    assert_int_equal(gantry_profile_stop(profile, NULL), GANTRY_ERR_INVALID_ARGUMENT);
}

/* The threads of the recording are not in the child, which would wait for them for ever. */
static void test_a_forked_child_cannot_stop(void **state)
{
    (void)state;
    gantry_profile *profile = started(0);
    const pid_t child = fork();
    if (child == 0) {
        (void)alarm(20);
        _exit(gantry_profile_stop(profile, NULL) == GANTRY_ERR_STATE &&
                      strstr(gantry_last_error(), "its parent ends the recording") != NULL
                  ? 0
                  : 1);
    }
    int status = -1;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(stopped(profile).lost, 0);
}

static void test_second_start_is_refused(void **state)
{
    (void)state;
    gantry_profile *profile = started(0);
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = "/tmp/gantry-profile-must-not-appear.pftrace";
    gantry_profile *second = (gantry_profile *)&options;
    assert_int_equal(gantry_profile_start(&options, &second), GANTRY_ERR_STATE);
    assert_non_null(strstr(gantry_last_error(), path)); /* the one that is running */
    assert_null(strstr(gantry_last_error(), "GANTRY_PROFILE"));
    assert_ptr_equal(second, &options);
    assert_int_not_equal(access(options.path, F_OK), 0);
    gy_span_end(GY_SPAN_TASK, "work", gy_span_begin(), 0);
    assert_int_equal(stopped(profile).spans, 1);
    profile = started(0); /* and now it works again */
    assert_int_equal(stopped(profile).spans, 0);
}

static void test_bad_arguments_are_refused(void **state)
{
    (void)state;
    gantry_profile *out = (gantry_profile *)path;
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    assert_int_equal(gantry_profile_start(NULL, &out), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_profile_start(&options, &out), GANTRY_ERR_INVALID_ARGUMENT);
    options.path = path;
    assert_int_equal(gantry_profile_start(&options, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    options.spans_per_thread = UINT32_MAX;
    assert_int_equal(gantry_profile_start(&options, &out), GANTRY_ERR_INVALID_ARGUMENT);
    options.spans_per_thread = 0;
    options.struct_size = sizeof(size_t);
    assert_int_equal(gantry_profile_start(&options, &out), GANTRY_ERR_INVALID_ARGUMENT);
    assert_ptr_equal(out, path);
    assert_int_equal(gy_alloc_live(), 0);
}

static void test_bad_statistics_do_not_keep_the_recording(void **state)
{
    (void)state;
    gantry_profile *profile = started(0);
    gantry_profile_stats stats = {.struct_size = 1};
    assert_int_equal(gantry_profile_stop(profile, &stats), GANTRY_ERR_INVALID_ARGUMENT);
    assert_false(gy_span_on());
    assert_int_equal(gy_alloc_live(), 0);
}

static void test_unwritable_path_is_named(void **state)
{
    (void)state;
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = "/nonexistent/folder/x.pftrace";
    gantry_profile *out = NULL;
    assert_int_equal(gantry_profile_start(&options, &out), GANTRY_ERR_IO);
    assert_null(out);
    assert_non_null(strstr(gantry_last_error(), options.path));
    assert_non_null(strstr(gantry_last_error(), "No such file or directory"));
    assert_int_equal(gy_alloc_live(), 0);
    assert_false(gy_span_on());
}

/* To open it for writing would wait for a reader. */
/* A second description of the file stands for another process's. */
static void test_a_file_that_others_record_into_stays(void **state)
{
    (void)state;
    char text[8] = "";
    int other = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(other, "theirs", 6), 6);
    assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = path;
    gantry_profile *profile = NULL;
    assert_int_equal(gantry_profile_start(&options, &profile), GANTRY_ERR_IO);
    assert_non_null(strstr(gantry_last_error(), "another process records into it"));
    assert_int_equal(pread(other, text, sizeof(text) - 1, 0), 6);
    assert_string_equal(text, "theirs");
    assert_int_equal(flock(other, LOCK_UN), 0);
    profile = started(0);
    assert_int_equal(flock(other, LOCK_EX | LOCK_NB), -1);
    (void)stopped(profile);
    assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
    close(other);
}

/* The child has the file's descriptor for as long as it lives. */
static void test_a_forked_child_does_not_keep_the_file(void **state)
{
    (void)state;
    gantry_profile *profile = started(0);
    int hold[2];
    assert_int_equal(pipe(hold), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(hold[1]);
        _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1); /* until the parent has done */
    }
    close(hold[0]);
    (void)stopped(profile);
    (void)stopped(started(0));
    close(hold[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void test_pipe_without_reader_is_refused(void **state)
{
    (void)state;
    char folder[] = "/tmp/gantry-pipe-XXXXXX", pipe_path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(pipe_path, sizeof(pipe_path), "%s/pipe", folder);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = pipe_path;
    gantry_profile *profile = NULL;
    assert_int_equal(gantry_profile_start(&options, &profile), GANTRY_ERR_IO);
    assert_non_null(strstr(gantry_last_error(), "a pipe that nobody reads"));
    int reader = open(pipe_path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    assert_ok(gantry_profile_start(&options, &profile));
    assert_ok(gantry_profile_stop(profile, NULL));
    char head[1];
    assert_int_equal(read(reader, head, sizeof(head)), 1);
    close(reader);
    unlink(pipe_path);
    rmdir(folder);
    assert_int_equal(gy_alloc_live(), 0);
}

static unsigned io_lines;

static void count_io_lines(void *user, gantry_log_level level, const char *line)
{
    (void)user;
    (void)level;
    io_lines += strstr(line, "No space left on device") != NULL;
}

static void test_full_disk_is_reported_once(void **state)
{
    (void)state;
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = "/dev/full";
    gantry_profile *profile = NULL;
    io_lines = 0;
    gantry_set_log(count_io_lines, NULL, GANTRY_LOG_ERROR);
    assert_ok(gantry_profile_start(&options, &profile));
    for (uint64_t i = 0; i < 60000; i++) { /* several write buffers are full */
        gy_span_end(GY_SPAN_TASK, "work", gy_span_begin(), i);
    }
    gantry_profile_stats stats = {.struct_size = sizeof(stats), .spans = 42};
    gantry_status status = gantry_profile_stop(profile, &stats);
    gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR);
    assert_int_equal(status, GANTRY_ERR_IO);
    assert_non_null(strstr(gantry_last_error(), "/dev/full: No space left on device"));
    assert_int_equal(stats.spans, 42);
    assert_int_equal(io_lines, 1);
    assert_int_equal(gy_alloc_live(), 0);
}

#define THREADS 4
#define SPANS_EACH 20000

static void emitter(void *arg)
{
    (void)arg;
    for (uint64_t i = 0; i < SPANS_EACH; i++) {
        gy_span_end(GY_SPAN_TASK, "work", gy_span_begin(), i);
    }
}

static void test_every_span_is_written_or_counted_as_lost(void **state)
{
    (void)state;
    static const uint32_t rings[] = {1, 16, 65536};
    for (size_t r = 0; r < sizeof(rings) / sizeof(*rings); r++) {
        gantry_profile *profile = started(rings[r]);
        gy_thread threads[THREADS];
        for (size_t i = 0; i < THREADS; i++) {
            assert_ok(gy_thread_start(&threads[i], "emitter", emitter, NULL));
        }
        for (size_t i = 0; i < THREADS; i++) {
            gy_thread_join(&threads[i]);
        }
        gantry_profile_stats stats = stopped(profile);
        assert_int_equal(stats.spans + stats.lost, THREADS * SPANS_EACH);
        assert_true(stats.spans >= THREADS);
        if (rings[r] > SPANS_EACH) {
            assert_int_equal(stats.lost, 0);
        }
    }
}

static atomic_bool go_on;
static atomic_uint_fast64_t attempts;

static void restless(void *arg)
{
    (void)arg;
    while (atomic_load(&go_on)) {
        gy_span_end(GY_SPAN_PHASE, "phase", gy_span_begin(), 1);
        struct gy_gpu_slice slice = {.gpu = 1, .name = "slice", .begin_ns = 1, .end_ns = 2};
        uint64_t generation = gy_profile_generation();
        slice.gpu = gy_profile_add_gpu(generation, "GPU");
        if (slice.gpu != 0) {
            gy_profile_gpu_slice(generation, &slice);
        }
        gy_profile_count_lost(generation, 1);
        gy_profile_note_alignment(generation, 1, 5);
        atomic_fetch_add(&attempts, 1);
    }
}

/* Each takes some turns of the scheduler: where other programs keep the processors busy, that may be a
 * second. */
enum { RECORDINGS = 100, FEWEST = 20 };
static const uint64_t BUSY_NS = UINT64_C(10000000000);

static void test_recordings_come_and_go_under_emitting_threads(void **state)
{
    (void)state;
    gy_thread threads[3];
    atomic_store(&go_on, true);
    for (size_t i = 0; i < 3; i++) {
        assert_ok(gy_thread_start(&threads[i], "restless", restless, NULL));
    }
    unsigned empty = 0;
    gantry_status worst = GANTRY_OK;
    const uint64_t until = gy_clock_ns() + BUSY_NS;
    for (int i = 0; i < RECORDINGS && (i < FEWEST || gy_clock_ns() < until); i++) {
        gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
        options.path = path;
        options.spans_per_thread = 64;
        gantry_profile *profile = NULL;
        gantry_status status = gantry_profile_start(&options, &profile);
        uint64_t seen = atomic_load(&attempts);
        /* there are three threads, so one of them has begun since then */
        while (atomic_load(&attempts) < seen + 4) {
            sched_yield();
        }
        gantry_profile_stats stats = {.struct_size = sizeof(stats)};
        status = status == GANTRY_OK ? gantry_profile_stop(profile, &stats) : status;
        worst = status != GANTRY_OK ? status : worst;
        empty += stats.spans == 0;
    }
    atomic_store(&go_on, false);
    for (size_t i = 0; i < 3; i++) {
        gy_thread_join(&threads[i]);
    }
    assert_int_equal(worst, GANTRY_OK);
    assert_int_equal(empty, 0);
    assert_int_equal(gy_alloc_live(), 0);
}

static void test_calls_for_an_ended_recording_do_nothing(void **state)
{
    (void)state;
    assert_int_equal(gy_profile_generation(), 0);
    gantry_profile *profile = started(0);
    uint64_t old = gy_profile_generation();
    assert_int_not_equal(old, 0);
    stopped(profile);
    profile = started(0);
    assert_int_not_equal(gy_profile_generation(), old);
    assert_int_equal(gy_profile_add_gpu(old, "GPU"), 0);
    gy_profile_gpu_slice(old, &(struct gy_gpu_slice){.gpu = 1, .name = "x"});
    gy_profile_count_lost(old, 7);
    gy_profile_note_alignment(old, 1, 7);
    gantry_profile_stats stats = stopped(profile);
    assert_int_equal(stats.spans + stats.lost + stats.gpu_alignment_ns, 0);
}

static void test_span_begun_before_the_recording_is_not_in_it(void **state)
{
    (void)state;
    uint64_t begin = gy_span_begin();
    assert_int_equal(begin, 0);
    gantry_profile *profile = started(0);
    gy_span_end(GY_SPAN_TASK, "early", begin, 0);
    assert_int_equal(stopped(profile).spans, 0);
}

/* Make the 1st, 2nd, 3rd ... allocation fail until starting, emitting and stopping need no more of them. */
static void test_recording_survives_every_allocation_failure(void **state)
{
    (void)state;
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = path;
    unsigned refused = 0, lossy = 0;
    for (long nth = 0;; nth++) {
        gantry_profile *profile = (gantry_profile *)&options;
        gy_fault_arm(nth);
        gantry_status status = gantry_profile_start(&options, &profile);
        if (status != GANTRY_OK) {
            gy_fault_arm(-1);
            assert_int_equal(status, GANTRY_ERR_OUT_OF_HOST_MEMORY);
            assert_ptr_equal(profile, &options);
            assert_int_equal(gy_alloc_live(), 0);
            assert_int_equal(gy_profile_generation(), 0);
            refused++;
            continue;
        }
        for (uint64_t i = 1; i <= 100; i++) {
            gy_span_end(GY_SPAN_TASK, "work", i, i);
        }
        uint32_t gpu = gy_profile_add_gpu(gy_profile_generation(), "GPU");
        struct gy_gpu_slice slice = {.gpu = gpu, .stream = 3, .name = "s", .begin_ns = 1, .end_ns = 2};
        gy_profile_gpu_slice(gy_profile_generation(), &slice);
        gantry_profile_stats stats = {.struct_size = sizeof(stats)};
        status = gantry_profile_stop(profile, &stats);
        bool failed = gy_fault_fired();
        gy_fault_arm(-1);
        assert_int_equal(status, GANTRY_OK);
        assert_int_equal(stats.spans + stats.lost, 101);
        assert_int_equal(gy_alloc_live(), 0);
        if (!failed) {
            assert_int_equal(stats.lost, 0);
            assert_true(refused >= 6);
            assert_true(lossy >= 3);
            return;
        }
        lossy += stats.lost > 0;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_recording_writes_a_file),
        cmocka_unit_test(test_spans_count_and_file_size_is_told),
        cmocka_unit_test(test_stop_ignores_null_and_foreign),
        cmocka_unit_test(test_a_forked_child_cannot_stop),
        cmocka_unit_test(test_second_start_is_refused),
        cmocka_unit_test(test_bad_arguments_are_refused),
        cmocka_unit_test(test_bad_statistics_do_not_keep_the_recording),
        cmocka_unit_test(test_unwritable_path_is_named),
        cmocka_unit_test(test_a_file_that_others_record_into_stays),
        cmocka_unit_test(test_a_forked_child_does_not_keep_the_file),
        cmocka_unit_test(test_pipe_without_reader_is_refused),
        cmocka_unit_test(test_full_disk_is_reported_once),
        cmocka_unit_test(test_every_span_is_written_or_counted_as_lost),
        cmocka_unit_test(test_recordings_come_and_go_under_emitting_threads),
        cmocka_unit_test(test_calls_for_an_ended_recording_do_nothing),
        cmocka_unit_test(test_span_begun_before_the_recording_is_not_in_it),
        cmocka_unit_test(test_recording_survives_every_allocation_failure),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
