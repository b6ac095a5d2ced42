/* SPDX-License-Identifier: MIT */
/* Shares through the dispatcher, on the device clock of the emulated driver: no test here takes time of the
 * host. */
#include "context/context.h"
#include "dispatcher/gates/quota.h"
#include "dispatcher/internal.h"
#include "partition/limit.h"
#include "tests/partition/plan_support.h"
#include "tests/partition/share_scene.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* One limited partition and the rest; each kernel takes 1 ms of the device. */
static void open_scene(struct share_scene *s, double percent, gantry_submission submission)
{
    gantry_partition_request r[] = {request("limited", GANTRY_PARTITION_EXACT, 64),
                                    request("free", GANTRY_PARTITION_REST, 0)};
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    const gantry_share share = {sizeof(share), percent, .burst_ns = 2 * MS, .in_flight = 1, .group_us = 500};
    r[0].share = &share;
    plan.requests = r;
    plan.count = 2;
    options.partitions = &plan;
    options.submission = submission;
    share_scene_open(s, &options);
}

static void submit(struct share_scene *s, gantry_taskman *manager, const char *partition, uint32_t count)
{
    gantry_partition *found;
    assert_ok(gantry_partition_find(s->gpu.context, partition, &found));
    share_scene_submit(s, manager, found, count, false, false);
}

static void test_a_share_is_kept(void **state)
{
    static const double percents[] = {5, 10, 20, 40};
    (void)state;
    for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++) {
        struct share_scene s;
        const uint32_t count = 300;
        open_scene(&s, percents[i], i % 2 == 0 ? GANTRY_SUBMISSION_STREAMS : GANTRY_SUBMISSION_GRAPHS);
        submit(&s, s.gpu.manager, "limited", count);
        uint64_t begin = share_emu.clock_ns();
        assert_ok(gpu_fixture_step(&s.gpu));
        /* the last interval is charged when its end was seen */
        assert_ok(gantry_context_acquire(s.gpu.context));
        share_scene_await_partition(&s, 0, count * (uint64_t)MS * 64 / 132);
        assert_ok(gantry_context_release(s.gpu.context));
        gantry_share_usage usage = share_scene_partition_usage(&s, 0);
        double weight = 64.0 / 132, rate = percents[i] / 100;
        double elapsed = (double)(share_emu.clock_ns() - begin);
        assert_true(fabs((double)usage.used_ns - count * (double)MS * weight) <
                    count); /* every kernel ran once */
        /* Two kernels take 0.48 ms of the device at most: the second begins before 0.5 ms are reached. */
        assert_true((double)usage.longest_ns < 2 * MS * weight + 2);
        /* |used - rate * W| <= burst + (n + 1) * longest */
        assert_true(fabs((double)usage.used_ns - rate * elapsed) <= 2 * MS + 2 * (double)usage.longest_ns);
        assert_true(usage.throttled_ns > 0);
        assert_true((gpu_fixture_stats(&s.gpu).graph_launches > 0) == (i % 2 != 0));
        assert_int_equal(s.done, count);
        share_scene_close(&s);
    }
}

static void test_a_throttled_partition_holds_up_no_other(void **state)
{
    (void)state;
    struct share_scene s;
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *free_one;
    open_scene(&s, 1, GANTRY_SUBMISSION_STREAMS);
    options.gpu_dispatcher = gantry_context_dispatcher(s.gpu.context);
    options.cpu_dispatcher = s.gpu.cpus;
    assert_ok(gantry_taskman_create(&options, &free_one));
    share_scene_freeze(true);
    share_emu.clock_kernel_cost(100 * MS); /* one uses up the burst and much more */
    submit(&s, s.gpu.manager, "limited", 5);
    assert_ok(gantry_taskman_start(s.gpu.manager));
    while (!atomic_load(&gantry_context_dispatcher(s.gpu.context)->shares.of[0]->meters[0]->has_held) ||
           share_scene_partition_usage(&s, 0).used_ns ==
               0) { /* otherwise the first might run for nothing, and let the others in */
        sched_yield();
    }
    share_emu.clock_kernel_cost(0);
    submit(&s, free_one, "free", 50);
    assert_ok(gantry_taskman_start(free_one));
    assert_ok(gantry_taskman_stop(free_one));
    assert_in_range(s.done, 50, 54);
    share_scene_freeze(false);
    assert_ok(gantry_taskman_stop(s.gpu.manager));
    assert_int_equal(s.done, 55);
    gantry_taskman_destroy(free_one);
    share_scene_close(&s);
}

/* Held tasks come before tasks that have come since, as if they had never been held. */
static void test_what_was_held_comes_first(void **state)
{
    (void)state;
    static struct share_scene s;
    open_scene(&s, 50, GANTRY_SUBMISSION_STREAMS);
    gantry_dispatcher *d = gantry_context_dispatcher(s.gpu.context);
    submit(&s, s.gpu.manager, "limited", 1);
    assert_ok(gpu_fixture_step(&s.gpu));
    struct gy_meter *meter = d->shares.of[0]->meters[0];
    gantry_task *tasks[5];
    for (int i = 0; i < 5; i++) {
        tasks[i] = gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "held", share_scene_launch, &s);
    }
    /* The following uses the dispatcher's own state: its thread sleeps meanwhile, whatever is signalled. */
    deadline_await(gy_inbox_borrow(&d->inbox), "the dispatcher to sleep");
    for (int with_later = 0; with_later < 2; with_later++) {
        struct gy_bins bins = {{{NULL, NULL}}};
        const struct gy_gpu_list *bin = &bins.of[GD_KERNEL];
        for (int i = 0; i < 3; i++) {
            gy_meter_hold(meter, GD_KERNEL, tasks[i]);
        }
        for (int i = 3; i < 3 + 2 * with_later; i++) {
            gy_gpu_list_append(&bins.of[GD_KERNEL], tasks[i], tasks[i]);
        }
        assert_true(gy_shares_hold_any(&d->shares));
        (void)gy_shares_unhold(&d->shares, &bins, true);
        assert_false(gy_shares_hold_any(&d->shares));
        const gantry_task *task = bin->first;
        for (int i = 0; i < 3 + 2 * with_later; i++) {
            assert_ptr_equal(task, tasks[i]);
            assert_true(task != bin->last || i == 2 + 2 * with_later);
            task = tasks[i]->next;
        }
        assert_ptr_equal(bin->last, tasks[2 + 2 * with_later]);
    }
    gy_inbox_give_back(&d->inbox, 0, true, true);
    share_scene_close(&s);
}

static void test_a_failure_releases_what_is_held(void **state)
{
    (void)state;
    struct share_scene s;
    open_scene(&s, 1, GANTRY_SUBMISSION_STREAMS);
    share_scene_freeze(true);
    share_emu.clock_kernel_cost(100 * MS);
    submit(&s, s.gpu.manager, "limited", 5);
    assert_ok(gantry_taskman_start(s.gpu.manager));
    while (!atomic_load(&gantry_context_dispatcher(s.gpu.context)->shares.of[0]->meters[0]->has_held)) {
        sched_yield();
    }
    gantry_dispatcher_force_failure(gantry_context_dispatcher(s.gpu.context));
    assert_int_equal(gantry_taskman_stop(s.gpu.manager), GANTRY_ERR_DEVICE_LOST);
    share_scene_close(&s);
}

static void test_the_limit_of_the_process(void **state)
{
    static const struct {
        const char *text;
        double percent; /* -1: it is refused */
    } cases[] = {{"50", 50}, {"1", 1},     {"99", 99}, {"0", 0},   {"100", 0},  {"250", 0}, {"", 0},
                 {" 7 ", 7}, {"half", -1}, {"-5", -1}, {"5%", -1}, {"3.5", -1}, {" ", -1}};
    (void)state;
    double limit;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        setenv("CUDA_DEVICE_SM_LIMIT", cases[i].text, 1);
        gantry_status status = gy_limit_read(&limit);
        assert_int_equal(status, cases[i].percent < 0 ? GANTRY_ERR_INVALID_ARGUMENT : GANTRY_OK);
        assert_true(cases[i].percent < 0 || limit == cases[i].percent);
    }
    unsetenv("CUDA_DEVICE_SM_LIMIT");
    char path[64];
    snprintf(path, sizeof(path), "shares-%ld.conf", (long)getpid());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("# of this job\n\n\tCUDA_DEVICE_SM_LIMIT = 30 \r\n", file);
    fclose(file);
    setenv("GANTRY_CONFIG", path, 1);
    assert_ok(gy_limit_read(&limit));
    assert_true(limit == 30);
    setenv("CUDA_DEVICE_SM_LIMIT", "60", 1); /* this comes before the file */
    assert_ok(gy_limit_read(&limit));
    assert_true(limit == 60);
    unsetenv("CUDA_DEVICE_SM_LIMIT");
    /* Files that never end, or block the opening thread, are refused at once. */
    static const char *const endless[] = {"/dev/zero", "/dev/full", "/"};
    for (size_t i = 0; i < sizeof(endless) / sizeof(endless[0]); i++) {
        setenv("GANTRY_CONFIG", endless[i], 1);
        assert_int_equal(gy_limit_read(&limit), GANTRY_ERR_IO);
        assert_non_null(strstr(gantry_last_error(), "it is no regular file"));
    }
    remove(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    setenv("GANTRY_CONFIG", path, 1);
    assert_int_equal(gy_limit_read(&limit), GANTRY_ERR_IO);
    remove(path);
    file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 65536; i++) {
        fputc('#', file);
    }
    fputs("\nCUDA_DEVICE_SM_LIMIT=30\n", file);
    fclose(file);
    assert_int_equal(gy_limit_read(&limit), GANTRY_ERR_IO);
    assert_non_null(strstr(gantry_last_error(), "has more than 65536 bytes"));
    setenv("GANTRY_CONFIG", "there/is/no.conf", 1);
    assert_int_equal(gy_limit_read(&limit), GANTRY_ERR_IO);
    unsetenv("GANTRY_CONFIG");
    remove(path);
}

/* The limit, or the error, that a file gives. */
static void expect_of_file(const char *text, size_t bytes, double percent, const char *why)
{
    char path[64];
    double limit = -1;
    snprintf(path, sizeof(path), "lines-%ld.conf", (long)getpid());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    fclose(file);
    setenv("GANTRY_CONFIG", path, 1);
    gantry_status status = gy_limit_read(&limit);
    unsetenv("GANTRY_CONFIG");
    remove(path);
    if (why == NULL) {
        assert_ok(status);
        assert_true(limit == percent);
        return;
    }
    assert_true(status != GANTRY_OK);
    if (strstr(gantry_last_error(), path) == NULL || strstr(gantry_last_error(), why) == NULL) {
        fail_msg("\"%s\" is not in: %s", why, gantry_last_error());
    }
}

static void test_a_line_that_is_not_understood_is_refused_by_its_number(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why; /* NULL: it is a limit of 30 percent */
    } cases[] = {
        {"CUDA_DEVICE_SM_LIMIT=30", NULL},
        {"CUDA_DEVICE_SM_LIMIT=30\r\n", NULL},
        {"\xef\xbb\xbf"
         "CUDA_DEVICE_SM_LIMIT=30\n",
         NULL},
        {"CUDA_DEVICE_SM_LIMIT=60\n \t\r\nCUDA_DEVICE_SM_LIMIT=30\n", NULL},
        {"export CUDA_DEVICE_SM_LIMIT=30\n", "line 1 is \"export CUDA"},
        {"\n\n# of a job\nCUDA_DEVICE_SM_LIMIT: 30\n", "line 4 is \"CUDA_DEVICE_SM_LIMIT: 30\""},
        {"\r\ncuda_device_sm_limit=30\r\n", "line 2 is \"cuda_device_sm_limit=30"},
        {"CUDA_DEVICE_SM_LIMT=30\n", "line 1 is \"CUDA_DEVICE_SM_LIMT=30\""},
        {"CUDA_DEVICE_SM_LIMITS=30\n", "line 1 is"},
        {"{\"CUDA_DEVICE_SM_LIMIT\": 30}\n", "line 1 is"},
        {"CUDA_DEVICE_SM_LIMIT=30\n[default]\n", "line 2 is \"[default]\""},
        {"CUDA_DEVICE_SM_LIMIT=30\nOTHER=1\n", "line 2 is \"OTHER=1\""},
        {"CUDA_DEVICE_SM_LIMIT=30\nquota_controller=nvml\n", "without quota_controller"},
        {"\nCUDA_DEVICE_SM_LIMIT=30 # of a job\n", "line 2"},
        {"CUDA_DEVICE_SM_LIMIT=30%\n", "line 1"},
        {"CUDA_DEVICE_SM_LIMIT=\n", "line 1"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        expect_of_file(cases[i].text, strlen(cases[i].text), 30, cases[i].why);
    }
    static const char with_zero[] = "# \0\nCUDA_DEVICE_SM_LIMIT=30\n";
    expect_of_file(with_zero, sizeof(with_zero) - 1, 0, "zero byte");
    expect_of_file("# nothing", 9, 0, NULL);
}

static void test_the_limit_is_a_default_share(void **state)
{
    (void)state;
    gantry_context *context = NULL;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_share_usage usage = {.struct_size = sizeof(usage)};
    options.driver = GANTRY_DRIVER_EMULATED;
    assert_ok(gantry_context_create(&options, &context));
    assert_int_equal(gantry_partition_get_usage(gantry_partition_default(context), &usage),
                     GANTRY_ERR_NOT_FOUND);
    gantry_context_destroy(context);
    setenv("CUDA_DEVICE_SM_LIMIT", "25", 1);
    assert_ok(gantry_context_create(&options, &context));
    assert_ok(gantry_partition_get_usage(gantry_partition_default(context), &usage));
    assert_true(usage.target == 0.25 && usage.used_ns == 0);
    gantry_context_destroy(context);
    setenv("CUDA_DEVICE_SM_LIMIT", "lots", 1);
    context = NULL;
    assert_int_equal(gantry_context_create(&options, &context), GANTRY_ERR_INVALID_ARGUMENT);
    assert_null(context);
    unsetenv("CUDA_DEVICE_SM_LIMIT");
}

/* Two contexts are on one device: the limit is the process's, not that of each context. */
static void test_contexts_share_the_limit(void **state)
{
    (void)state;
    struct share_scene s[2];
    const uint32_t count = 100;
    setenv("CUDA_DEVICE_SM_LIMIT", "20", 1);
    share_scene_open(&s[0], NULL);
    share_scene_open(&s[1], NULL);
    unsetenv("CUDA_DEVICE_SM_LIMIT");
    assert_int_equal(gy_budget_count(), 1);
    uint64_t begin = share_emu.clock_ns();
    for (int i = 0; i < 2; i++) {
        share_scene_submit(&s[i], s[i].gpu.manager, gantry_partition_default(s[i].gpu.context), count, false,
                           false);
        assert_ok(gantry_taskman_start(s[i].gpu.manager));
    }
    double used = 0, longest = 0;
    for (int i = 0; i < 2; i++) {
        assert_ok(gantry_taskman_stop(s[i].gpu.manager));
    }
    double elapsed = (double)(share_emu.clock_ns() - begin);
    for (int i = 0; i < 2; i++) {
        gantry_share_usage usage = share_scene_partition_usage(&s[i], 0);
        assert_true(usage.target == 0.2);
        used += (double)usage.used_ns;
        longest = (double)usage.longest_ns > longest ? (double)usage.longest_ns : longest;
    }
    assert_true(used > 0 && used <= 0.2 * elapsed + 4 * MS + 2 * 5 * longest);
    share_scene_close(&s[1]);
    share_scene_start_clock(MS);
    assert_int_equal(gy_budget_count(), 1);
    share_scene_close(&s[0]);
    assert_int_equal(gy_budget_count(), 0);
}

/* Work that a lost context had in flight is not charged to the others. */
static void test_a_lost_context_leaves_the_budget(void **state)
{
    (void)state;
    struct share_scene lost, alive;
    setenv("CUDA_DEVICE_SM_LIMIT", "20", 1);
    share_scene_open(&lost, NULL);
    share_scene_open(&alive, NULL);
    unsetenv("CUDA_DEVICE_SM_LIMIT");
    share_emu.hold();
    share_scene_submit(&lost, lost.gpu.manager, gantry_partition_default(lost.gpu.context), 30, false, false);
    assert_ok(gantry_taskman_start(lost.gpu.manager));
    while (atomic_load(&lost.done) == 0) {
        sched_yield();
    }
    gantry_dispatcher_force_failure(gantry_context_dispatcher(lost.gpu.context));
    assert_int_equal(gantry_taskman_stop(lost.gpu.manager), GANTRY_ERR_DEVICE_LOST);
    share_emu.release();
    share_scene_close(&lost);
    share_scene_start_clock(MS);
    assert_int_equal(gy_budget_count(), 1);
    share_scene_submit(&alive, alive.gpu.manager, gantry_partition_default(alive.gpu.context), 30, false,
                       false);
    assert_ok(gpu_fixture_step(&alive.gpu));
    assert_int_equal(alive.done, 30);
    share_scene_close(&alive);
    assert_int_equal(gy_budget_count(), 0);
}

struct heard {
    uint32_t count;
    char line[512];
};

static void hear(void *user, gantry_log_level level, const char *line)
{
    struct heard *heard = user;
    if (level == GANTRY_LOG_WARNING && strstr(line, "never bounds it") != NULL) {
        heard->count++;
        snprintf(heard->line, sizeof(heard->line), "%s", line);
    }
}

/* ---- many intervals --------------------------------------------------------------------------- */

enum { CALLS = 40 };

static atomic_bool may_go;

static void wait_for_go(void *arg)
{
    (void)arg;
    while (!atomic_load(&may_go)) {
        sched_yield();
    }
}

static void *let_go(void *arg)
{
    const struct timespec t = {.tv_nsec = 50 * MS};
    (void)nanosleep(&t, NULL);
    atomic_store(&may_go, true);
    return arg;
}

/* It is called on its stream, the first time behind a gate. */
static gantry_launch_result launch_plainly(gantry_launch *launch, void *arg)
{
    const struct gy_driver *driver = launch->dispatcher->config.context->driver;
    if (gantry_launch_leave_graph(launch) != GANTRY_OK ||
        (gantry_launch_index(launch) == 0 &&
         driver->cuLaunchHostFunc(gantry_launch_stream(launch), wait_for_go, NULL) != CUDA_SUCCESS)) {
        return GANTRY_LAUNCH_FAILED;
    }
    return share_scene_launch(launch, arg);
}

/* Calls that are noted and calls on streams take turns, each of which closes the interval before it.  None of
 * these has ended while the gate is closed, so calls are held back until some have. */
static void test_no_interval_is_used_before_it_was_paid(void **state)
{
    (void)state;
    struct share_scene s;
    pthread_t thread;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    /* Intervals stay open behind a call, and there are tokens for all calls. */
    gantry_share share = {sizeof(share), .percent = 90, .group_us = 1000000,
                          .burst_ns = 4 * UINT64_C(1000000000)};
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    options.stream_limit = 1;
    share_scene_open(&s, &options);
    gantry_taskman *manager = share_scene_manager(&s, &share);
    s.calls = CALLS;
    for (uint32_t step = 1; step <= 2; step++) { /* in the first one it is learnt how long a call takes */
        atomic_store(&may_go, step == 1);
        for (int i = 0; i < 2; i++) {
            gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
            gantry_task *task;
            desc.kind = GANTRY_TASK_KERNEL;
            desc.launch = i == 0 ? launch_plainly : share_scene_launch;
            desc.arg = &s;
            assert_ok(gantry_taskman_submit(manager, &desc, &task));
        }
        assert_int_equal(pthread_create(&thread, NULL, let_go, NULL), 0);
        assert_ok(gantry_taskman_start(manager));
        assert_ok(gantry_taskman_stop(manager));
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_ok(gantry_taskman_reset(manager));
        assert_int_equal(s.done, step * 2 * CALLS);
        share_scene_await(manager, step * 2 * CALLS * (uint64_t)MS);
        assert_int_equal(share_scene_usage(manager).used_ns, step * 2 * CALLS * (uint64_t)MS);
    }
    gantry_taskman_destroy(manager);
    share_scene_close(&s);
}

/* The limited partition has 64 of 132 SMs, which are 48.5 percent. */
static void test_a_share_that_never_bounds_is_told(void **state)
{
    (void)state;
    static const struct {
        double percent;
        uint32_t warnings;
    } cases[] = {{48, 0}, {50, 1}, {99, 1}, {100, 0}, {0, 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct heard heard = {.count = 0};
        struct share_scene s;
        gantry_set_log(hear, &heard, GANTRY_LOG_WARNING);
        open_scene(&s, cases[i].percent, GANTRY_SUBMISSION_STREAMS);
        gantry_set_log(NULL, NULL, GANTRY_LOG_INFO);
        share_scene_close(&s);
        assert_int_equal(heard.count, cases[i].warnings);
        assert_true(cases[i].percent != 50 ||
                    strstr(heard.line, "partition 'limited': its share of 50 percent") != NULL);
        assert_true(cases[i].percent != 50 || strstr(heard.line, "64 of 132 SMs are 48.5 percent") != NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_limit_of_the_process),
        cmocka_unit_test(test_a_line_that_is_not_understood_is_refused_by_its_number),
        cmocka_unit_test(test_the_limit_is_a_default_share),
        cmocka_unit_test(test_a_share_is_kept),
        cmocka_unit_test(test_a_throttled_partition_holds_up_no_other),
        cmocka_unit_test(test_what_was_held_comes_first),
        cmocka_unit_test(test_a_failure_releases_what_is_held),
        cmocka_unit_test(test_contexts_share_the_limit),
        cmocka_unit_test(test_a_lost_context_leaves_the_budget),
        cmocka_unit_test(test_a_share_that_never_bounds_is_told),
        cmocka_unit_test(test_no_interval_is_used_before_it_was_paid),
    };
    return share_scene_begin() ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
