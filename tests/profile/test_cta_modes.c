/* SPDX-License-Identifier: MIT */
/* Blocks of kernels in graphs, on streams of the application, and with the SMs' own clocks. */
#include "tests/support/cmocka_c11.h"

#include "base/clock.h"
#include "context/context.h"
#include "driver/module.h"
#include "profile/session.h"
#include "tests/profile/cta_fixture.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct own_stream {
    CUstream stream;
    CUevent event;
};

enum { PIPES = 6, GRAPH_STEPS = 5 };

/* Run one step of PIPES chains of three GPU tasks with a CPU task at the end. */
static void run_pipes(struct work *work)
{
    gantry_task *last = gpu_fixture_cpu(&fixture, "last", do_nothing, NULL);
    for (int i = 0; i < PIPES; i++) {
        gantry_task *in = gpu_fixture_gpu(&fixture, GANTRY_TASK_HTOD, "in", launch_nothing, NULL);
        gantry_task *kernel = gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_work, work);
        gantry_task *out = gpu_fixture_gpu(&fixture, GANTRY_TASK_DTOH, "out", launch_done, last);
        gpu_fixture_after(kernel, in);
        gpu_fixture_after(out, kernel);
        gpu_fixture_after(last, out);
    }
    assert_ok(gpu_fixture_step(&fixture));
}

static uint64_t slices_of(const char *category, const char *name)
{
    uint64_t count = 0;
    for (size_t i = 0; i < trace.slice_count; i++) {
        count += strcmp(trace.slices[i].category, category) == 0 && strcmp(trace.slices[i].name, name) == 0;
    }
    return count;
}

/* No kernel begins before its task's first launch call, and none ends after its completion was told. */
static void check_causes_come_first(void)
{
    for (size_t i = 0; i < trace.slice_count; i++) {
        const struct read_slice *kernel = &trace.slices[i];
        uint64_t launched = UINT64_MAX;
        for (size_t j = 0; strcmp(kernel->category, "kernel") == 0 && j < trace.slice_count; j++) {
            const struct read_slice *other = &trace.slices[j];
            if (reader_joined(kernel, other) && strcmp(other->category, "launch") == 0) {
                launched = other->begin < launched ? other->begin : launched;
            }
            if (reader_joined(kernel, other) && strncmp(other->name, "complete ", 9) == 0) {
                assert_true(kernel->end <= other->begin);
            }
        }
        assert_true(strcmp(kernel->category, "kernel") != 0 || kernel->begin >= launched);
    }
}

static uint64_t argument(const struct read_slice *slice, const char *name)
{
    for (size_t i = 0; i < slice->argument_count; i++) {
        if (strcmp(slice->arguments[i].name, name) == 0) {
            return slice->arguments[i].value;
        }
    }
    return UINT64_MAX;
}

/* Each GPU task lies in one bar of a batch, and the bars count all of them. */
static void check_bars(uint64_t tasks)
{
    uint64_t counted = 0;
    for (size_t i = 0; i < trace.slice_count; i++) {
        const struct read_slice *slice = &trace.slices[i];
        if (strcmp(slice->category, "gpu_batch") == 0) {
            assert_string_equal(slice->name, "batch");
            counted += argument(slice, "tasks");
        }
        bool is_covered = strcmp(slice->category, "gpu") != 0;
        for (size_t j = 0; j < trace.slice_count && !is_covered; j++) {
            const struct read_slice *bar = &trace.slices[j];
            is_covered = strcmp(bar->category, "gpu_batch") == 0 && bar->begin <= slice->begin &&
                         bar->end >= slice->end;
        }
        assert_true(is_covered);
    }
    assert_int_equal(counted, tasks);
}

/* Kernels without macros: batches have bars on the GPU's own track, on streams and as graphs. */
static void test_batches_have_bars_on_the_gpu(void **state)
{
    (void)state;
    static const gantry_submission ways[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS};
    for (int way = 0; way < 2; way++) {
        static struct work work;
        work = (struct work){.grid = {20, 1, 1}, .threads = 32, .spins = 3, .launches = 2};
        assert_ok(gantry_dispatcher_set_submission(gantry_context_dispatcher(fixture.context), ways[way]));
        reader_free(&trace);
        gantry_profile *profile = start(GANTRY_PROFILE_CTAS_OFF, 0, 0);
        for (int step = 0; step < GRAPH_STEPS; step++) {
            run_pipes(&work);
        }
        stop_and_load(profile);
        assert_int_equal(stats.lost, 0);
        check_bars(GRAPH_STEPS * PIPES * 3);
    }
}

static void test_batches_that_are_graphs_are_recorded_alike(void **state)
{
    (void)state;
    static struct work work;
    work = (struct work){.grid = {20, 1, 1}, .threads = 32, .spins = 3, .launches = 2};
    assert_ok(gantry_dispatcher_set_submission(gantry_context_dispatcher(fixture.context),
                                               GANTRY_SUBMISSION_GRAPHS));
    run_pipes(&work); /* not recorded: the callbacks become known */
    uint64_t graphs = gpu_fixture_stats(&fixture).graph_launches;
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
    for (int step = 0; step < GRAPH_STEPS; step++) {
        run_pipes(&work);
    }
    stop_and_load(profile);
    assert_true(gpu_fixture_stats(&fixture).graph_launches >= graphs + GRAPH_STEPS);
    assert_int_equal(stats.lost, 0);
    assert_int_equal(stats.ctas_lost, 0);
    assert_int_equal(stats.ctas, GRAPH_STEPS * PIPES * 2 * 20);
    assert_int_equal(blocks_called("count_up"), stats.ctas);
    assert_int_equal(slices_of("kernel", "count_up"), GRAPH_STEPS * PIPES * 2);
    assert_int_equal(slices_of("gpu", "in"), GRAPH_STEPS * PIPES);
    assert_int_equal(slices_of("gpu", "work"), GRAPH_STEPS * PIPES);
    assert_int_equal(slices_of("gpu", "out"), GRAPH_STEPS * PIPES);
    check_causes_come_first();
}

static void test_callbacks_that_leave_the_graph_are_recorded(void **state)
{
    (void)state;
    static struct work work;
    work = (struct work){.grid = {20, 1, 1}, .threads = 32, .spins = 3, .launches = 1, .leaves = true};
    assert_ok(gantry_dispatcher_set_submission(gantry_context_dispatcher(fixture.context),
                                               GANTRY_SUBMISSION_GRAPHS));
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
    run_pipes(&work);
    run_pipes(&work);
    stop_and_load(profile);
    assert_int_equal(stats.lost, 0);
    assert_int_equal(stats.ctas, 2 * PIPES * 20);
    assert_int_equal(stats.ctas_lost, 0);
    assert_int_equal(slices_of("gpu", "work"), 2 * PIPES);
    check_causes_come_first();
}

/* The callback uses a stream of its own: forked from the task's, and joined. */
static gantry_launch_result launch_on_own_stream(gantry_launch *launch, void *arg)
{
    struct own_stream *own = arg;
    const struct gy_driver *driver = fixture.context->cuda->driver;
    gantry_dim3 grid = {48, 1, 1};
    uint32_t id = first_kernel, spins = 3;
    void *profile = gantry_launch_profile(launch, id, grid);
    void *args[] = {&cells, &spins, &profile, &id};
    CUstream stream = gantry_launch_stream(launch);
    bool good = driver->cuEventRecord(own->event, stream) == CUDA_SUCCESS &&
                driver->cuStreamWaitEvent(own->stream, own->event, 0) == CUDA_SUCCESS &&
                driver->cuLaunchKernel(count_up->function, 48, 1, 1, 32, 1, 1, 0, own->stream, args, NULL) ==
                    CUDA_SUCCESS &&
                driver->cuEventRecord(own->event, own->stream) == CUDA_SUCCESS &&
                driver->cuStreamWaitEvent(stream, own->event, 0) == CUDA_SUCCESS;
    return good && profile != NULL ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static void test_streams_of_the_application_are_recorded(void **state)
{
    (void)state;
    struct gy_context *context = fixture.context->cuda;
    struct own_stream own;
    assert_ok(gy_context_push(context));
    assert_ok(GY_CALL(context, cuStreamCreate(&own.stream, CU_STREAM_NON_BLOCKING)));
    assert_ok(GY_CALL(context, cuEventCreate(&own.event, CU_EVENT_DISABLE_TIMING)));
    for (int mode = 0; mode < 2; mode++) { /* on streams, then captured */
        gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
        for (int step = 0; step < 3; step++) {
            gantry_task *done = gpu_fixture_cpu(&fixture, "done", do_nothing, NULL);
            gantry_task *work =
                gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "own", launch_on_own_stream, &own);
            gantry_task *end = gpu_fixture_gpu(&fixture, GANTRY_TASK_DTOH, "end", launch_done, done);
            gpu_fixture_after(end, work);
            gpu_fixture_after(done, end);
            assert_ok(gpu_fixture_step(&fixture));
        }
        stop_and_load(profile);
        assert_int_equal(stats.ctas, 3 * 48);
        assert_int_equal(stats.ctas_lost, 0);
        assert_int_equal(blocks_called("count_up"), 3 * 48);
        check_causes_come_first();
        reader_free(&trace);
        assert_ok(gantry_dispatcher_set_submission(gantry_context_dispatcher(fixture.context),
                                                   GANTRY_SUBMISSION_GRAPHS));
    }
    assert_ok(GY_CALL(context, cuEventDestroy(own.event)));
    assert_ok(GY_CALL(context, cuStreamDestroy(own.stream)));
    assert_ok(gy_context_pop(context));
}

static void test_clocks_of_sms_are_brought_together(void **state)
{
    (void)state;
    static const gantry_submission modes[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS};
    static struct work work;
    work = (struct work){.grid = {200, 1, 1}, .threads = 32, .spins = 3, .launches = 2};
    for (size_t mode = 0; mode < 2; mode++) {
        assert_ok(gantry_dispatcher_set_submission(gantry_context_dispatcher(fixture.context), modes[mode]));
        gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
        options.path = path;
        options.clock = GANTRY_PROFILE_CLOCK_SM;
        options.ctas_per_buffer = CTAS_PER_BUFFER;
        options.buffers = BUFFERS;
        gantry_profile *profile = NULL;
        assert_ok(gantry_profile_start(&options, &profile));
        uint64_t before = gy_clock_ns();
        run_pipes(&work);
        run_pipes(&work);
        stop_and_load(profile);
        uint64_t after = gy_clock_ns();
        assert_int_equal(stats.ctas + stats.ctas_lost, 2 * PIPES * 2 * 200);
        assert_int_equal(stats.ctas_lost, 0);
        assert_int_equal(blocks_called("count_up"), stats.ctas);
        for (size_t i = 0; i < trace.slice_count; i++) {
            if (is_block(&trace.slices[i])) { /* the origins of SMs' clocks differ by seconds */
                assert_true(trace.slices[i].begin >= before && trace.slices[i].end <= after);
            }
        }
        check_causes_come_first();
        reader_free(&trace);
    }
}

/* Kernels for devices whose common clock is fine enough do not ask which one they are to read. */
static void test_kernels_that_know_one_clock_are_placed_beside_others(void **state)
{
    (void)state;
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = path;
    options.clock = GANTRY_PROFILE_CLOCK_SM;
    gantry_profile *profile = NULL;
    assert_ok(gantry_profile_start(&options, &profile));
    struct work both = {.grid = {40, 1, 1}, .threads = 32, .spins = 1, .launches = 1}, one = both;
    one.half = true; /* every second block leaves no record */
    uint64_t before = gy_clock_ns();
    (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "both", launch_work, &both);
    (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "one", launch_work, &one);
    assert_ok(gpu_fixture_step(&fixture));
    stop_and_load(profile);
    uint64_t after = gy_clock_ns();
    assert_int_equal(blocks_called("count_up"), 40);
    assert_int_equal(blocks_called("half_silent"), 20);
    assert_int_equal(stats.ctas_lost, 20);
    for (size_t i = 0; i < trace.slice_count; i++) {
        if (is_block(&trace.slices[i])) {
            assert_true(trace.slices[i].begin >= before && trace.slices[i].end <= after);
        }
    }
    check_causes_come_first();
}

static void test_the_error_of_each_sm_is_stated(void **state)
{
    (void)state;
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = path;
    /* the emulator's SMs may or may not take turns when they are compared */
    options.clock = GANTRY_PROFILE_CLOCK_SM;
    gantry_profile *profile = NULL;
    assert_ok(gantry_profile_start(&options, &profile));
    struct work work = {.grid = {200, 1, 1}, .threads = 32, .spins = 1, .launches = 1};
    (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_work, &work);
    assert_ok(gpu_fixture_step(&fixture));
    stop_and_load(profile);
    uint64_t most = 0;
    bool stated[4096] = {false};
    for (size_t i = 0; i < trace.mark_count; i++) {
        const struct read_slice *mark = &trace.marks[i];
        if (strcmp(mark->track->name, "SM clocks") == 0) {
            uint64_t ns = reader_argument(mark, "sm_alignment_ns");
            assert_true(ns != UINT64_MAX);
            most = ns > most ? ns : most;
            stated[strtol(mark->name + 3, NULL, 10) % 4096] = true;
        }
    }
    for (size_t i = 0; i < trace.slice_count; i++) {
        if (is_block(&trace.slices[i])) {
            assert_true(stated[strtol(trace.slices[i].track->name + 3, NULL, 10) % 4096]);
        }
    }
    assert_int_equal(reader_argument(slice_of("ctas", "batch"), "sm_alignment_ns"), most);
    const struct read_slice *end = reader_mark(&trace, "end");
    assert_non_null(end);
    assert_int_equal(reader_argument(end, "lost"), 0);
    assert_non_null(reader_track(&trace, "gantry", "Heap device bytes"));
}

/* Submit a kernel in a partition, and a task behind it that completes `last`: two GPU tasks. */
static void submit_in(gantry_partition *partition, const char *label, struct work *work, gantry_task *last)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *kernel = NULL, *end = NULL;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.label = label;
    desc.launch = launch_work;
    desc.arg = work;
    desc.partition = partition;
    assert_ok(gantry_taskman_submit(fixture.manager, &desc, &kernel));
    desc.kind = GANTRY_TASK_DTOH;
    desc.launch = launch_done;
    desc.arg = last;
    assert_ok(gantry_taskman_submit(fixture.manager, &desc, &end));
    gpu_fixture_after(end, kernel);
    gpu_fixture_after(last, end);
}

/* Work that has not begun when the stop no longer waits: its blocks are counted, and its buffer comes back.
 */
static void test_blocks_that_outlast_the_wait_are_counted(void **state)
{
    (void)state;
    static struct work work;
    struct gantry_emu_control emu;
    if (!gpu_fixture_controls(&emu)) {
        skip();
    }
    work = (struct work){.grid = {20, 1, 1}, .threads = 32, .spins = 3, .launches = 1};
    for (int late = 1; late >= 0; late--) {
        gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
        (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_work, &work);
        assert_ok(gpu_fixture_step(&fixture)); /* the recording has its buffers now */
        assert_ok(gantry_context_synchronize(fixture.context));
        (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "late", launch_work, &work);
        if (late) {
            emu.hold();
            gy_profile_set_patience(50000000);
        }
        assert_ok(gantry_taskman_start(fixture.manager));
        assert_ok(gantry_taskman_stop(fixture.manager));
        stop_and_load(profile);
        emu.release();
        gy_profile_set_patience(PATIENCE_NS);
        assert_ok(gantry_taskman_reset(fixture.manager));
        assert_int_equal(stats.ctas, late ? 20 : 40);
        assert_int_equal(stats.ctas_lost, late ? 20 : 0);
        assert_int_equal(stats.lost, late ? 1 : 0);
        assert_int_equal(stats.gpu_unfinished, late ? 1 : 0);
        reader_free(&trace);
    }
}

static void *stop_now(void *arg)
{
    stats = (gantry_profile_stats){.struct_size = sizeof(stats)};
    assert_ok(gantry_profile_stop(arg, &stats));
    return NULL;
}

/* One thread stops the recording while another one ends the context: each block is in the recording once. */
static void test_context_may_end_while_the_recording_stops(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    static struct work work;
    enum { ROUNDS = 20, BATCHES = 20, BLOCKS = 20 };
    work = (struct work){.grid = {BLOCKS, 1, 1}, .threads = 32, .spins = 3, .launches = 1};
    if (!gpu_fixture_controls(&emu)) {
        skip();
    }
    for (int round = 0; round < ROUNDS; round++) {
        gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
        (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "first", launch_work, &work);
        assert_ok(gpu_fixture_step(&fixture)); /* the recording has its buffers now */
        assert_ok(gantry_context_synchronize(fixture.context));
        emu.hold();
        for (int i = 1; i < BATCHES; i++) {
            (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_work, &work);
            assert_ok(gpu_fixture_step(&fixture));
        }
        gantry_taskman_destroy(fixture.manager);
        gantry_cpu_dispatcher_destroy(fixture.cpus);
        (void)gantry_heap_free(gantry_context_heap(fixture.context), cells);
        pthread_t stopper;
        assert_int_equal(pthread_create(&stopper, NULL, stop_now, profile), 0);
        usleep(2000);
        emu.release();
        gantry_context_destroy(fixture.context);
        pthread_join(stopper, NULL);
        assert_int_equal(stats.ctas, BATCHES * BLOCKS);
        assert_int_equal(stats.ctas_lost, 0);
        assert_int_equal(stats.lost, 0);
        (void)set_up(NULL);
    }
}

static gantry_launch_result stop_in_callback(gantry_launch *launch, void *arg)
{
    (void)launch;
    (void)stop_now(arg);
    return GANTRY_LAUNCH_DONE;
}

/* A callback stops the recording in the middle of its batch, whose records are still to come. */
static void test_blocks_of_a_batch_that_goes_on_are_counted(void **state)
{
    (void)state;
    static const gantry_submission ways[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS};
    static struct work work;
    work = (struct work){.grid = {20, 1, 1}, .threads = 32, .spins = 3, .launches = 1};
    for (int way = 0; way < 2; way++) {
        assert_ok(gantry_dispatcher_set_submission(gantry_context_dispatcher(fixture.context), ways[way]));
        gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
        (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_work, &work);
        assert_ok(gpu_fixture_step(&fixture)); /* the recording has its buffers now */
        assert_ok(gantry_context_synchronize(fixture.context));
        gantry_task *before = gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_work, &work);
        gantry_task *here = gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "here", stop_in_callback, profile);
        gpu_fixture_after(here, before);
        assert_ok(gpu_fixture_step(&fixture));
        assert_int_equal(stats.ctas, 20);
        assert_int_equal(stats.ctas_lost, 20);
    }
}

static int set_up_partitions(void **state)
{
    static gantry_partition_request requests[2];
    static gantry_partition_options plan;
    (void)state;
    requests[0] = (gantry_partition_request){.struct_size = sizeof(requests[0]),
                                             .name = "left",
                                             .size = GANTRY_PARTITION_AT_LEAST,
                                             .sm_count = 16};
    requests[1] = (gantry_partition_request){
        .struct_size = sizeof(requests[1]), .name = "right", .size = GANTRY_PARTITION_REST};
    plan = (gantry_partition_options)GANTRY_PARTITION_OPTIONS_INIT;
    plan.requests = requests;
    plan.count = 2;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    options.partitions = &plan;
    return set_up_with(&options);
}

static void test_partitions_are_told_apart(void **state)
{
    (void)state;
    static const gantry_submission modes[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS};
    static struct work work;
    work = (struct work){.grid = {30, 1, 1}, .threads = 32, .spins = 3, .launches = 1};
    for (size_t mode = 0; mode < 2; mode++) {
        assert_ok(gantry_dispatcher_set_submission(gantry_context_dispatcher(fixture.context), modes[mode]));
        gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
        for (int step = 0; step < 3; step++) {
            gantry_task *last = gpu_fixture_cpu(&fixture, "last", do_nothing, NULL);
            for (int i = 0; i < 4; i++) {
                submit_in(gantry_partition_at(fixture.context, 0), "for left", &work, last);
                submit_in(gantry_partition_at(fixture.context, 1), "for right", &work, last);
            }
            assert_ok(gpu_fixture_step(&fixture));
        }
        stop_and_load(profile);
        assert_int_equal(stats.ctas, 3 * 8 * 30);
        assert_int_equal(stats.ctas_lost + stats.lost, 0);
        assert_int_equal(slices_of("gpu", "for left") + slices_of("gpu", "for right"), 3 * 16);
        for (size_t i = 0; i < trace.slice_count; i++) {
            const struct read_slice *s = &trace.slices[i];
            if (strcmp(s->category, "gpu") == 0) {
                const char *place = strcmp(s->name, "for left") == 0 ? "left / stream " : "right / stream ";
                assert_int_equal(strncmp(s->track->name, place, strlen(place)), 0);
            }
        }
        check_causes_come_first();
        reader_free(&trace);
    }
}

int main(void)
{
    int status = cta_begin();
    if (status != 0) {
        return status;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_batches_have_bars_on_the_gpu, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_batches_that_are_graphs_are_recorded_alike, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_callbacks_that_leave_the_graph_are_recorded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_streams_of_the_application_are_recorded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_clocks_of_sms_are_brought_together, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_kernels_that_know_one_clock_are_placed_beside_others, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_the_error_of_each_sm_is_stated, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_blocks_that_outlast_the_wait_are_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_context_may_end_while_the_recording_stops, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_blocks_of_a_batch_that_goes_on_are_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_partitions_are_told_apart, set_up_partitions, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
