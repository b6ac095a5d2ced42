/* SPDX-License-Identifier: MIT */
/* GPU times on a driver that has a clock of its own: the emulated one, or a device's. */
#include "tests/support/cmocka_c11.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "driver/context.h"
#include "emulator/gantry_emu.h"
#include "profile/gpu_time.h"
#include "profile/session.h"
#include "tests/profile/trace_reader.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES (64u << 20)

static char path[64];
static struct gy_context *context;
static struct gy_gpu_time *gpu_time;
static gantry_profile *profile;
static gantry_profile_stats stats;
static struct read_trace trace;
static CUstream streams[2];
static CUdeviceptr memory;
static struct gantry_emu_control emu; /* on the emulated driver */

#define CU(call) assert_int_equal(context->driver->call, CUDA_SUCCESS)

static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "/tmp/gantry-gpu-device-%d.pftrace", (int)getpid());
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    const char *driver = getenv("GANTRY_TEST_DRIVER");
    options.driver =
        driver != NULL && strcmp(driver, "cuda") == 0 ? GANTRY_DRIVER_CUDA : GANTRY_DRIVER_EMULATED;
    assert_ok(gy_context_open(&options, &context));
    assert_ok(gy_context_push(context));
    if (context->driver->emulated) {
#define X(result, name, parameters) \
    *(void **)&emu.name = dlsym(context->driver->library, "gantry_emu_" #name);
        GANTRY_EMU_CONTROLS(X)
#undef X
        emu.reset();
    }
    for (int i = 0; i < 2; i++) {
        CU(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    }
    CU(cuMemAlloc(&memory, BYTES));
    assert_ok(gy_gpu_time_create(context, &gpu_time));
    gantry_profile_options profile_options = GANTRY_PROFILE_OPTIONS_INIT;
    profile_options.path = path;
    assert_ok(gantry_profile_start(&profile_options, &profile));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (context->driver->emulated) {
        emu.reset();
    }
    gy_gpu_time_destroy(gpu_time);
    (void)gantry_profile_stop(profile, NULL); /* set only after a failed assertion */
    profile = NULL;
    CU(cuMemFree(memory));
    for (int i = 0; i < 2; i++) {
        CU(cuStreamDestroy(streams[i]));
    }
    if (context->driver->emulated) {
        assert_int_equal(emu.live(GANTRY_EMU_LIVE_EVENTS), 0);
        assert_int_equal(emu.live(GANTRY_EMU_LIVE_STREAMS), 0);
    }
    assert_ok(gy_context_pop(context));
    gy_context_close(context);
    reader_free(&trace);
    unlink(path);
    return 0;
}

static void stop_and_load(uint64_t slices)
{
    gantry_profile *ending = profile;
    profile = NULL;
    stats = (gantry_profile_stats){.struct_size = sizeof(stats)};
    assert_ok(gantry_profile_stop(ending, &stats));
    const char *wrong = reader_load(path, &trace);
    if (wrong != NULL) {
        fail_msg("%s", wrong);
    }
    assert_int_equal(stats.lost, 0);
    assert_int_equal(stats.spans, slices);
    assert_int_equal(trace.slice_count, slices);
}

static struct gy_gpu_mark *begin(uint32_t stream, uint64_t id)
{
    gy_gpu_time_begin_batch(gpu_time, 0, 1); /* tasks are in no batch: it ends before they begin */
    gy_gpu_time_end_batch(gpu_time);
    struct gy_gpu_mark *mark = gy_gpu_time_begin(gpu_time, streams[stream], NULL, stream, NULL, "fill", id);
    assert_non_null(mark);
    return mark;
}

static void check_work_lies_between_its_submission_and_its_end(void)
{
    enum { COUNT = 20 };
    uint64_t before[COUNT], after[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        CUstream stream = streams[i % 2];
        before[i] = gy_clock_ns();
        struct gy_gpu_mark *mark = begin(i % 2, i);
        CU(cuMemsetD8Async(memory, (unsigned char)i, BYTES, stream));
        gy_gpu_time_end(gpu_time, mark, stream, NULL);
        CU(cuStreamSynchronize(stream));
        after[i] = gy_clock_ns();
        gy_gpu_time_collect(gpu_time);
    }
    stop_and_load(COUNT);
    uint64_t bound = stats.gpu_alignment_ns;
    assert_true(bound > 0);
    for (size_t i = 0; i < COUNT; i++) {
        const struct read_slice *slice = &trace.slices[i];
        assert_true(slice->id < COUNT);
        assert_true(slice->begin <=
                    slice->end); /* events tell half a microsecond apart, and short work may be shorter */
        assert_true(slice->begin + bound >= before[slice->id]);
        assert_true(slice->end <= after[slice->id] + bound);
        assert_string_equal(slice->track->name, slice->id % 2 == 0 ? "stream 0" : "stream 1");
    }
}

static void test_work_lies_between_its_submission_and_its_end(void **state)
{
    (void)state;
    check_work_lies_between_its_submission_and_its_end();
}

static void test_work_before_its_anchor_is_placed_as_well(void **state)
{
    (void)state;
    gy_gpu_time_set_anchor_age(gpu_time, 0); /* each slice has an anchor of its own, taken after it */
    check_work_lies_between_its_submission_and_its_end();
}

static void test_many_tasks_in_flight_all_arrive(void **state)
{
    (void)state;
    enum { COUNT = 1000 }; /* the marks of a recording's begin */
    for (uint32_t i = 0; i < COUNT; i++) {
        struct gy_gpu_mark *mark = begin(i % 2, i);
        CU(cuMemsetD8Async(memory + i % 2 * 4096, 1, 4096, streams[i % 2]));
        gy_gpu_time_end(gpu_time, mark, streams[i % 2], NULL);
        if (i % 100 == 0) {
            gy_gpu_time_collect(gpu_time);
        }
    }
    CU(cuStreamSynchronize(streams[0]));
    CU(cuStreamSynchronize(streams[1]));
    gy_gpu_time_collect(gpu_time);
    stop_and_load(COUNT);
    uint64_t last[2] = {0, 0};
    for (size_t i = 0; i < COUNT; i++) { /* by end in time */
        const struct read_slice *slice = &trace.slices[i];
        assert_true(slice->begin >= last[slice->id % 2]);
        last[slice->id % 2] = slice->end;
        assert_string_equal(slice->track->name, slice->id % 2 == 0 ? "stream 0" : "stream 1");
    }
}

static void test_durations_are_those_of_the_gpu_clock(void **state)
{
    (void)state;
    if (!context->driver->emulated) {
        print_message("only where the test sets the GPU's clock\n");
        stop_and_load(0);
        return;
    }
    emu.clock_manual(1);
    static const uint64_t durations[] = {1000, 15000, 32, 7000000, 1};
    for (uint64_t i = 0; i < 5; i++) {
        struct gy_gpu_mark *mark = begin(0, i);
        CU(cuStreamSynchronize(streams[0]));
        emu.clock_advance(durations[i]);
        gy_gpu_time_end(gpu_time, mark, streams[0], NULL);
        CU(cuStreamSynchronize(streams[0]));
        emu.clock_advance(500);
        gy_gpu_time_collect(gpu_time);
    }
    stop_and_load(5);
    for (size_t i = 0; i < 5; i++) {
        const struct read_slice *slice = &trace.slices[i];
        assert_int_equal(slice->id, i);
        assert_int_equal(slice->end - slice->begin, durations[i]);
    }
}

int main(void)
{
    if (!reader_available()) {
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_work_lies_between_its_submission_and_its_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_work_before_its_anchor_is_placed_as_well, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_tasks_in_flight_all_arrive, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_durations_are_those_of_the_gpu_clock, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
