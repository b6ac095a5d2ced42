/* SPDX-License-Identifier: MIT */
/* GPU work at the end of a recording that no CPU task waits for: on streams, in graphs, in frozen graphs that
 * are replayed, on two devices; while it runs, for too long, on a device that is lost. */
#include "tests/support/cmocka_c11.h"

#include "base/clock.h"
#include "base/thread.h"
#include "driver/driver.h"
#include "profile/session.h"
#include "tests/profile/trace_reader.h"
#include "tests/support/gpu_fixture.h"

#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS UINT64_C(1000000)
#define PATIENCE_NS (60000 * MS) /* longer than a test may take */
#define BYTES 4096u

enum { CHAINS = 3, TASKS = 2 * CHAINS };

static char path[64];
static struct gpu_fixture fixture;
static struct gantry_emu_control emu;
static struct read_trace trace;
static gantry_profile_stats stats;

static void start_into(gantry_profile **profile)
{
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = path;
    assert_ok(gantry_profile_start(&options, profile));
}

static void stop(gantry_profile *profile)
{
    stats = (gantry_profile_stats){.struct_size = sizeof(stats)};
    assert_ok(gantry_profile_stop(profile, &stats));
}

/* The slices of GPU tasks in the file, and how many tasks the bars of batches have. */
static uint64_t count_tasks(uint64_t *in_bars)
{
    uint64_t count = 0;
    *in_bars = 0;
    reader_free(&trace);
    const char *wrong = reader_load(path, &trace);
    if (wrong != NULL) {
        fail_msg("%s", wrong);
    }
    for (size_t i = 0; i < trace.slice_count; i++) {
        count += strcmp(trace.slices[i].category, "gpu") == 0;
        if (strcmp(trace.slices[i].category, "gpu_batch") == 0) {
            *in_bars += reader_argument(&trace.slices[i], "tasks");
        }
    }
    return count;
}

/* The slices of GPU tasks in the file, each of which is in the bar of its batch. */
static uint64_t tasks_recorded(void)
{
    uint64_t in_bars;
    const uint64_t count = count_tasks(&in_bars);
    assert_int_equal(in_bars, count);
    return count;
}

static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "/tmp/gantry-end-%d.pftrace", (int)getpid());
    gy_profile_set_patience(PATIENCE_NS);
    gpu_fixture_open(&fixture, 1, 8);
    (void)gpu_fixture_controls(&emu);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (emu.reset != NULL) {
        emu.reset();
    }
    gpu_fixture_close(&fixture);
    reader_free(&trace);
    unlink(path);
    return 0;
}

static gantry_launch_result fill(gantry_launch *launch, void *arg)
{
    return gantry_launch_fill(launch, arg, 0, 1, BYTES) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                     : GANTRY_LAUNCH_FAILED;
}

static void *memory_of(gantry_context *context)
{
    void *memory = NULL;
    assert_ok(gantry_heap_alloc(gantry_context_heap(context), GANTRY_MEMORY_DEVICE, CHAINS * BYTES, 0,
                                GANTRY_ALLOC_SITE("memory"), &memory));
    return memory;
}

/* Chains of two GPU tasks, after which nothing comes; each fills memory of its own. */
static void submit_chains(gantry_taskman *manager, gantry_context *context, void *memory, bool stable)
{
    for (int i = 0; i < CHAINS; i++) {
        gantry_task *tasks[2];
        for (int j = 0; j < 2; j++) {
            gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
            desc.kind = GANTRY_TASK_KERNEL;
            desc.label = "fill";
            desc.launch = fill;
            desc.arg = (char *)memory + (size_t)i * BYTES;
            desc.is_stable = stable;
            desc.context = context;
            assert_ok(gantry_taskman_submit(manager, &desc, &tasks[j]));
        }
        gpu_fixture_after(tasks[1], tasks[0]);
    }
}

static void use(gantry_submission way)
{
    assert_ok(gantry_dispatcher_set_submission(gantry_context_dispatcher(fixture.context), way));
}

static const gantry_submission ways[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS,
                                         GANTRY_SUBMISSION_AUTO};

/* All tasks of one step are in a recording of it. */
static void record_step(void)
{
    gantry_profile *profile;
    start_into(&profile);
    assert_ok(gpu_fixture_step(&fixture));
    stop(profile);
    assert_int_equal(stats.lost, 0);
    assert_int_equal(tasks_recorded(), TASKS);
}

static void test_last_tasks_are_recorded(void **state)
{
    (void)state;
    void *memory = memory_of(fixture.context);
    for (int i = 0; i < 3 * 10; i++) {
        use(ways[i % 3]);
        submit_chains(fixture.manager, NULL, memory, false);
        record_step();
    }
    assert_ok(gantry_heap_free(gantry_context_heap(fixture.context), memory));
}

/* A frozen graph, called in each run; and with stable tasks, which graphs replay without a call. */
static void test_last_tasks_of_frozen_graphs_are_recorded(void **state)
{
    (void)state;
    void *memory = memory_of(fixture.context);
    for (int i = 0; i < 6; i++) {
        gantry_profile *profile;
        use(ways[i % 3]);
        submit_chains(fixture.manager, NULL, memory, i >= 3);
        assert_ok(gantry_taskman_freeze(fixture.manager));
        assert_ok(gantry_taskman_run(fixture.manager, 3)); /* what is replayed is there */
        start_into(&profile);
        assert_ok(gantry_taskman_run(fixture.manager, 5));
        stop(profile);
        assert_int_equal(stats.lost, 0);
        assert_int_equal(tasks_recorded(), 5 * TASKS);
        start_into(&profile); /* and once more, over what the recording before has left */
        assert_ok(gantry_taskman_run(fixture.manager, 1));
        stop(profile);
        assert_int_equal(stats.lost, 0);
        assert_int_equal(tasks_recorded(), TASKS);
        assert_ok(gantry_taskman_reset(fixture.manager));
    }
    assert_ok(gantry_heap_free(gantry_context_heap(fixture.context), memory));
}

/* The windows of steps, and the end of the context before that of the recording. */
static void test_other_ends_of_a_recording(void **state)
{
    (void)state;
    void *memory = memory_of(fixture.context);
    gantry_profile *profile;
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = path;
    options.first_step = 1;
    options.step_count = 1;
    assert_ok(gantry_profile_start(&options, &profile));
    for (int i = 0; i < 2; i++) {
        submit_chains(fixture.manager, NULL, memory, false);
        assert_ok(gpu_fixture_step(&fixture));
    }
    stop(profile);
    assert_int_equal(stats.lost, 0);
    assert_int_equal(tasks_recorded(), TASKS);
    submit_chains(fixture.manager, NULL, memory, false);
    start_into(&profile);
    assert_ok(gpu_fixture_step(&fixture));
    assert_ok(gantry_heap_free(gantry_context_heap(fixture.context), memory));
    gpu_fixture_close(&fixture);
    stop(profile);
    assert_int_equal(stats.lost, 0);
    assert_int_equal(tasks_recorded(), TASKS);
    gpu_fixture_open(&fixture, 1, 8);
}

static void test_last_tasks_of_two_devices_are_recorded(void **state)
{
    (void)state;
    if (gpu_fixture_lacks_devices(2)) {
        skip();
    }
    for (int way = 0; way < 3; way++) {
        gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
        context.driver = gpu_fixture_driver();
        context.mode = GANTRY_CONTEXT_OWN;
        context.submission = ways[way];
        gantry_fleet_options options = GANTRY_FLEET_OPTIONS_INIT;
        options.devices = "0,1";
        options.context = &context;
        gantry_fleet *fleet;
        gantry_taskman *manager;
        assert_ok(gantry_fleet_create(&options, &fleet));
        gantry_taskman_options managed = GANTRY_TASKMAN_OPTIONS_INIT;
        managed.cpu_dispatcher = fixture.cpus;
        managed.fleet = fleet;
        assert_ok(gantry_taskman_create(&managed, &manager));
        void *memory[2];
        for (uint32_t d = 0; d < 2; d++) {
            memory[d] = memory_of(gantry_fleet_context(fleet, d));
            submit_chains(manager, gantry_fleet_context(fleet, d), memory[d], false);
        }
        gantry_profile *profile;
        start_into(&profile);
        assert_ok(gantry_taskman_start(manager));
        assert_ok(gantry_taskman_stop(manager));
        stop(profile);
        assert_int_equal(stats.lost, 0);
        assert_int_equal(tasks_recorded(), 2 * TASKS);
        gantry_taskman_destroy(manager);
        for (uint32_t d = 0; d < 2; d++) {
            assert_ok(gantry_heap_free(gantry_context_heap(gantry_fleet_context(fleet, d)), memory[d]));
        }
        gantry_fleet_destroy(fleet);
    }
}

/* On streams of several partitions. */
static void test_last_tasks_of_partitions_are_recorded(void **state)
{
    (void)state;
    gantry_partition_request requests[2];
    requests[0] = (gantry_partition_request){.struct_size = sizeof(requests[0]),
                                             .name = "left",
                                             .size = GANTRY_PARTITION_AT_LEAST,
                                             .sm_count = 16};
    requests[1] = (gantry_partition_request){
        .struct_size = sizeof(requests[1]), .name = "right", .size = GANTRY_PARTITION_REST};
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    plan.requests = requests;
    plan.count = 2;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    options.partitions = &plan;
    gpu_fixture_close(&fixture);
    gpu_fixture_open_with(&fixture, 1, &options);
    void *memory = memory_of(fixture.context);
    for (int way = 0; way < 2; way++) {
        use(ways[way]);
        for (int i = 0; i < 2; i++) {
            gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
            desc.kind = GANTRY_TASK_KERNEL;
            desc.label = "fill";
            desc.launch = fill;
            desc.arg = (char *)memory + (size_t)i * BYTES;
            desc.partition = gantry_partition_at(fixture.context, (uint32_t)i);
            gantry_task *task;
            assert_non_null(desc.partition);
            assert_ok(gantry_taskman_submit(fixture.manager, &desc, &task));
        }
        gantry_profile *profile;
        start_into(&profile);
        assert_ok(gpu_fixture_step(&fixture));
        stop(profile);
        assert_int_equal(stats.lost, 0);
        assert_int_equal(tasks_recorded(), 2);
    }
    assert_ok(gantry_heap_free(gantry_context_heap(fixture.context), memory));
}

/* A file that takes no more ends in an error, and its marks serve the next recording. */
static void test_full_file_ends_like_others(void **state)
{
    (void)state;
    void *memory = memory_of(fixture.context);
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    gantry_profile *profile;
    options.path = "/dev/full";
    submit_chains(fixture.manager, NULL, memory, false);
    assert_ok(gantry_profile_start(&options, &profile));
    assert_ok(gpu_fixture_step(&fixture));
    assert_int_equal(gantry_profile_stop(profile, NULL), GANTRY_ERR_IO);
    submit_chains(fixture.manager, NULL, memory, false);
    record_step();
    assert_ok(gantry_heap_free(gantry_context_heap(fixture.context), memory));
}

/* ---- work that still runs -------------------------------------------------------------------------- */

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static void release_later(void *arg)
{
    (void)arg;
    sleep_ms(30);
    emu.release();
}

static void test_running_work_is_recorded_fully(void **state)
{
    (void)state;
    if (emu.hold == NULL) {
        skip();
    }
    void *memory = memory_of(fixture.context);
    for (int way = 0; way < 2; way++) {
        gantry_profile *profile;
        gy_thread thread;
        use(ways[way]);
        submit_chains(fixture.manager, NULL, memory, false);
        start_into(&profile);
        emu.hold();
        assert_ok(gantry_taskman_start(fixture.manager));
        assert_ok(gantry_taskman_stop(fixture.manager)); /* all is launched, and nothing has begun */
        assert_ok(gy_thread_start(&thread, "other", release_later, NULL));
        stop(profile);
        gy_thread_join(&thread);
        assert_ok(gantry_taskman_reset(fixture.manager));
        assert_int_equal(stats.lost, 0);
        assert_int_equal(tasks_recorded(), TASKS);
    }
    assert_ok(gantry_heap_free(gantry_context_heap(fixture.context), memory));
}

static void test_work_that_outlasts_the_wait_is_counted(void **state)
{
    (void)state;
    if (emu.hold == NULL) {
        skip();
    }
    void *memory = memory_of(fixture.context);
    gantry_profile *profile;
    submit_chains(fixture.manager, NULL, memory, false);
    start_into(&profile);
    emu.hold();
    assert_ok(gantry_taskman_start(fixture.manager));
    assert_ok(gantry_taskman_stop(fixture.manager));
    gy_profile_set_patience(50 * MS);
    stop(profile);
    assert_int_equal(stats.lost, TASKS);
    assert_int_equal(stats.gpu_unfinished, TASKS);
    assert_int_equal(tasks_recorded(), 0);
    emu.release();
    gy_profile_set_patience(PATIENCE_NS);
    assert_ok(gantry_taskman_reset(fixture.manager));
    submit_chains(fixture.manager, NULL, memory, false);
    start_into(&profile); /* the marks serve the next recording */
    assert_ok(gpu_fixture_step(&fixture));
    stop(profile);
    assert_int_equal(stats.lost, 0);
    assert_int_equal(tasks_recorded(), TASKS);
    assert_ok(gantry_heap_free(gantry_context_heap(fixture.context), memory));
}

/* A call that comes again until it is told to end, of more work than its share lets go. */
static atomic_bool ends;

static gantry_launch_result fill_again(gantry_launch *launch, void *arg)
{
    const gantry_launch_result result = fill(launch, arg);
    return result == GANTRY_LAUNCH_DONE && !atomic_load(&ends) ? GANTRY_LAUNCH_AGAIN : result;
}

static void keep_cause(void *user, gantry_log_level level, const char *line)
{
    (void)level;
    if (strstr(line, "are lost: ") != NULL) {
        snprintf(user, 512, "%s", line);
    }
}

/* Tokens come only when the measured GPU time allows it: nobody knows when. */
static void test_a_task_that_its_share_holds_back_is_not_waited_for(void **state)
{
    (void)state;
    if (emu.hold == NULL) {
        skip();
    }
    void *memory = memory_of(fixture.context);
    for (int way = 0; way < 2; way++) {
        static char cause[512];
        gantry_profile *profile;
        gantry_taskman *manager;
        gantry_task *task;
        const gantry_share share = {sizeof(share), .percent = 1e-6, .burst_ns = 1};
        gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
        gantry_share_usage usage = {.struct_size = sizeof(usage)};
        use(ways[way]);
        options.gpu_dispatcher = gantry_context_dispatcher(fixture.context);
        options.share = &share;
        assert_ok(gantry_taskman_create(&options, &manager));
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.kind = GANTRY_TASK_KERNEL;
        desc.launch = fill_again;
        desc.arg = memory;
        assert_ok(gantry_taskman_submit(manager, &desc, &task));
        atomic_store(&ends, false);
        start_into(&profile);
        assert_ok(gantry_taskman_start(manager));
        do {
            assert_ok(gantry_taskman_get_usage(manager, &usage));
        } while (usage.used_ns == 0); /* that is charged: the call after this one is held */
        cause[0] = '\0';
        gantry_set_log(keep_cause, cause, GANTRY_LOG_WARNING);
        stop(profile);
        gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR);
        assert_int_equal(stats.gpu_unfinished, 1);
        assert_non_null(strstr(cause, "a bound on GPU time holds back the rest of their calls"));
        atomic_store(&ends, true);
        assert_ok(gantry_taskman_cancel(manager));
        const gantry_status status = gantry_taskman_stop(manager);
        assert_true(status == GANTRY_OK || status == GANTRY_ERR_CANCELLED);
        gantry_taskman_destroy(manager);
    }
    assert_ok(gantry_heap_free(gantry_context_heap(fixture.context), memory));
}

static void lose_later(void *arg)
{
    (void)arg;
    sleep_ms(30);
    assert_int_equal((emu.fail)("cuEventQuery", 1, CUDA_ERROR_ILLEGAL_ADDRESS, GANTRY_EMU_ALWAYS), 0);
    emu.release();
}

/* While the stop waits, the device is lost; and before. */
static void test_lost_device_is_not_waited_for(void **state)
{
    (void)state;
    if (emu.hold == NULL) {
        skip();
    }
    for (int early = 0; early < 2; early++) {
        gantry_profile *profile;
        gy_thread thread;
        submit_chains(fixture.manager, NULL, memory_of(fixture.context), false);
        start_into(&profile);
        emu.hold();
        assert_ok(gantry_taskman_start(fixture.manager));
        assert_ok(gantry_taskman_stop(fixture.manager));
        assert_ok(gy_thread_start(&thread, "other", lose_later, NULL));
        if (early) {
            gy_thread_join(&thread);
        }
        stop(profile);
        if (!early) {
            gy_thread_join(&thread);
        }
        assert_int_equal(stats.lost, TASKS);
        assert_int_equal(tasks_recorded(), 0);
        emu.reset();
        gpu_fixture_close(&fixture);
        gpu_fixture_open(&fixture, 1, 8);
    }
}

/* ---- other threads --------------------------------------------------------------------------------- */

static atomic_bool going;

static void run_steps(void *arg)
{
    while (atomic_load(&going)) {
        submit_chains(fixture.manager, NULL, arg, false);
        assert_ok(gpu_fixture_step(&fixture));
    }
}

/* What was launched before the stop is in the recording, whole. */
static void test_stop_while_steps_run(void **state)
{
    (void)state;
    void *memory = memory_of(fixture.context);
    for (int way = 0; way < 2; way++) {
        gy_thread thread;
        use(ways[way]);
        atomic_store(&going, true);
        assert_ok(gy_thread_start(&thread, "steps", run_steps, memory));
        for (int i = 0; i < 20; i++) {
            gantry_profile *profile;
            start_into(&profile);
            sleep_ms(1 + i % 5);
            stop(profile);
            assert_int_equal(stats.lost, 0);
            (void)tasks_recorded();
        }
        atomic_store(&going, false);
        gy_thread_join(&thread);
    }
    assert_ok(gantry_heap_free(gantry_context_heap(fixture.context), memory));
}

struct ending {
    gantry_profile *profile;
    gantry_status status;
    void *memory;
};

static gantry_launch_result stop_here(gantry_launch *launch, void *arg)
{
    struct ending *ending = arg;
    stats = (gantry_profile_stats){.struct_size = sizeof(stats)};
    ending->status = gantry_profile_stop(ending->profile, &stats);
    return fill(launch, ending->memory);
}

/* On the dispatcher's thread nothing can be waited for; what is missing is counted. */
static void test_stop_in_a_callback_counts_what_it_leaves(void **state)
{
    (void)state;
    struct ending ending = {.memory = memory_of(fixture.context)};
    for (int way = 0; way < 2; way++) {
        use(ways[way]);
        gantry_task *before = gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "before", fill, ending.memory);
        gantry_task *here = gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "here", stop_here, &ending);
        gpu_fixture_after(here, before);
        start_into(&ending.profile);
        assert_ok(gpu_fixture_step(&fixture));
        assert_ok(ending.status);
        uint64_t in_bars; /* the bar of this batch, whose end is still to come, is among the lost slices */
        assert_int_equal(count_tasks(&in_bars) + stats.gpu_unfinished, 2);
        assert_true(stats.gpu_unfinished >= 1 && stats.lost >= stats.gpu_unfinished);
    }
    assert_ok(gantry_heap_free(gantry_context_heap(fixture.context), ending.memory));
}

static gantry_status stop_in_task(gantry_task *task, void *arg)
{
    (void)task;
    struct ending *ending = arg;
    stats = (gantry_profile_stats){.struct_size = sizeof(stats)};
    return gantry_profile_stop(ending->profile, &stats);
}

/* A CPU task may stop the recording, on a worker or on the thread that does the dispatcher's work as well. */
static void test_stop_in_a_cpu_task(void **state)
{
    (void)state;
    for (uint32_t workers = 0; workers < 2; workers++) {
        gpu_fixture_close(&fixture);
        gpu_fixture_open(&fixture, workers, 8);
        struct ending ending = {.memory = memory_of(fixture.context)};
        for (int i = 0; i < 6; i++) {
            use(ways[i % 2]);
            gantry_task *before =
                gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "before", fill, ending.memory);
            gantry_task *here = gpu_fixture_cpu(&fixture, "here", stop_in_task, &ending);
            gantry_task *after = gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "after", fill, ending.memory);
            gpu_fixture_after(here, before);
            gpu_fixture_after(after, here);
            start_into(&ending.profile);
            assert_ok(gpu_fixture_step(&fixture));
            assert_int_equal(stats.lost, 0);
            assert_int_equal(tasks_recorded(), 1);
        }
        assert_ok(gantry_heap_free(gantry_context_heap(fixture.context), ending.memory));
    }
}

/* ---- the end of the process ------------------------------------------------------------------------ */

/* A program that ends without a word. */
static int run_program(void)
{
    gpu_fixture_open(&fixture, 1, 8);
    submit_chains(fixture.manager, NULL, memory_of(fixture.context), false);
    assert_ok(gantry_taskman_start(fixture.manager));
    assert_ok(gantry_taskman_stop(fixture.manager));
    return 0; /* and exit() */
}

static void test_last_tasks_are_recorded_at_exit(void **state)
{
    (void)state;
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    assert_true(length > 0);
    self[length] = '\0';
    for (int i = 0; i < 5; i++) {
        char argument[] = "program", *arguments[] = {self, argument, NULL};
        pid_t child;
        int status = -1;
        setenv("GANTRY_PROFILE", path, 1);
        int error = posix_spawn(&child, self, NULL, NULL, arguments, environ);
        unsetenv("GANTRY_PROFILE");
        assert_int_equal(error, 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_int_equal(tasks_recorded(), TASKS);
    }
}

int main(int argc, char **argv)
{
    (void)argv;
    setenv("GANTRY_EMU_DEVICES", "2", 1);
    if (argc > 1) {
        return run_program();
    }
    if (!reader_available()) {
        return 77;
    }
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_last_tasks_are_recorded),
        TEST(test_last_tasks_of_frozen_graphs_are_recorded),
        TEST(test_other_ends_of_a_recording),
        TEST(test_last_tasks_of_two_devices_are_recorded),
        TEST(test_last_tasks_of_partitions_are_recorded),
        TEST(test_full_file_ends_like_others),
        TEST(test_running_work_is_recorded_fully),
        TEST(test_work_that_outlasts_the_wait_is_counted),
        TEST(test_a_task_that_its_share_holds_back_is_not_waited_for),
        TEST(test_lost_device_is_not_waited_for),
        TEST(test_stop_while_steps_run),
        TEST(test_stop_in_a_callback_counts_what_it_leaves),
        TEST(test_stop_in_a_cpu_task),
        TEST(test_last_tasks_are_recorded_at_exit),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
