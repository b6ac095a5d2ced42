/* SPDX-License-Identifier: MIT */
/* Blocks of kernels, from a launch callback to the trace that protoc reads. */
#include "tests/support/cmocka_c11.h"

#include "base/clock.h"
#include "tests/profile/cta_fixture.h"

#include "cta_quiet.kernels.h"

#include <gantry/host_module.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void test_every_block_is_a_slice_on_its_sm(void **state)
{
    (void)state;
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_BLOCKS, 0, 0);
    struct work work = {.grid = {10, 4, 2}, .threads = 64, .spins = 3, .launches = 1};
    (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_work, &work);
    uint64_t before = gy_clock_ns();
    assert_ok(gpu_fixture_step(&fixture));
    stop_and_load(profile);
    uint64_t after = gy_clock_ns();
    assert_true(work.had_records);
    assert_int_equal(stats.ctas, 80);
    assert_int_equal(stats.ctas_lost, 0);
    assert_int_equal(stats.kernels, 1);
    assert_true(stats.cta_alignment_ns > 0);
    assert_int_equal(blocks_called("count_up"), 80);
    const struct read_slice *kernel = slice_of("kernel", "count_up");
    assert_non_null(kernel);
    assert_int_equal(reader_argument(kernel, "ctas"), 80);
    assert_int_equal(reader_argument(kernel, "lost"), 0);
    bool seen[80] = {false};
    uint64_t first = UINT64_MAX, last = 0;
    for (size_t i = 0; i < trace.slice_count; i++) {
        const struct read_slice *s = &trace.slices[i];
        if (is_block(s)) {
            uint64_t block = reader_argument(s, "block");
            assert_true(block < 80 && !seen[block]);
            seen[block] = true;
            assert_true(s->begin >= kernel->begin && s->end <= kernel->end);
            first = s->begin < first ? s->begin : first;
            last = s->end > last ? s->end : last;
        }
    }
    assert_int_equal(first, kernel->begin);
    assert_int_equal(last, kernel->end);
    assert_true(before <= kernel->begin && kernel->end <= after);
}

static gantry_kernel *quiet;
static uint32_t quiet_number;
static bool had_records;

static gantry_launch_result launch_quiet(gantry_launch *launch, void *arg)
{
    (void)arg;
    gantry_dim3 grid = {100, 1, 1}, block = {32, 1, 1};
    void *profile = gantry_launch_profile(launch, quiet_number, grid);
    void *args[] = {&cells, &profile, &quiet_number};
    had_records = profile != NULL;
    return gantry_launch_kernel(launch, quiet, grid, block, 0, args) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                  : GANTRY_LAUNCH_FAILED;
}

static void record_quiet(void)
{
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_BLOCKS, 0, 0);
    (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_quiet, NULL);
    assert_ok(gpu_fixture_step(&fixture));
    stop_and_load(profile);
}

static void test_kernels_without_macros_lose_nothing(void **state)
{
    (void)state;
    static const char *const names[] = {"quiet", NULL};
    gantry_module *module;
    assert_ok(gantry_profile_register_kernels(names, 1, &quiet_number)); /* it is known before it is loaded */
    assert_ok(gantry_module_load(fixture.context, &gantry_image_cta_quiet, &module));
    assert_ok(gantry_module_get_kernel(module, "quiet", &quiet));
    record_quiet();
    assert_false(had_records);
    assert_int_equal(stats.ctas_lost, 0);
    reader_free(&trace);
    assert_ok(gantry_profile_register_kernels(names, 1, &quiet_number)); /* and after */
    record_quiet();
    assert_false(had_records);
    reader_free(&trace);

    /* Another module has a kernel of that name, with macros: it may be the one that is meant. */
    const struct gantry_host_module *host = gantry_image_cta_quiet.host;
    struct gantry_host_module loud = *host;
    loud.has_cta_macros = 1;
    gantry_module_image image = gantry_image_cta_quiet;
    image.host = &loud;
    image.kernel_names = names;
    gantry_module *other;
    assert_ok(gantry_module_load(fixture.context, &image, &other));
    record_quiet();
    assert_true(had_records);
    assert_int_equal(stats.ctas_lost, 100);
    reader_free(&trace);
    gantry_module_unload(other);
    record_quiet();
    assert_false(had_records);
    assert_int_equal(stats.ctas_lost, 0);
    gantry_module_unload(module);
}

enum { FILLS = 100, FILL_BYTES = 32 * FILLS };
static gantry_copy_desc fills[FILLS];
static void *filled; /* page-locked */

static gantry_launch_result launch_fills(gantry_launch *launch, void *arg)
{
    bool failed = gantry_copy_launch(launch, fills, *(size_t *)arg) != GANTRY_OK ||
                  gantry_launch_copy_dtoh(launch, filled, cells, FILL_BYTES) != GANTRY_OK;
    return failed ? GANTRY_LAUNCH_FAILED : GANTRY_LAUNCH_DONE;
}

/* A few travel in the kernel's parameters, and more do not fit there. */
static void test_batched_copies_are_seen(void **state)
{
    (void)state;
    size_t counts[] = {3, FILLS};
    gantry_heap *heap = gantry_context_heap(fixture.context);
    assert_ok(
        gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, FILL_BYTES, 0, GANTRY_ALLOC_SITE("filled"), &filled));
    for (uint32_t i = 0; i < FILLS; i++) {
        fills[i] = (gantry_copy_desc){.dest = (char *)cells + 32 * i,
                                      .bytes = 4 + i % 8,
                                      .type = GANTRY_COPY_FILL,
                                      .pattern_bytes = 1,
                                      .pattern = i};
    }
    for (size_t i = 0; i < 2; i++) {
        gantry_profile *profile = start(GANTRY_PROFILE_CTAS_BLOCKS, 0, 0);
        (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "copies", launch_fills, &counts[i]);
        assert_ok(gpu_fixture_step(&fixture));
        assert_ok(gantry_context_synchronize(fixture.context));
        stop_and_load(profile);
        assert_int_equal(stats.kernels, 1);
        assert_int_equal(stats.ctas_lost, 0);
        assert_true(stats.ctas > 0);
        assert_int_equal(blocks_called("batched copies"), stats.ctas);
        const struct read_slice *kernel = slice_of("kernel", "batched copies");
        assert_non_null(kernel);
        assert_int_equal(reader_argument(kernel, "ctas"), stats.ctas);
        uint64_t bytes = 0;
        for (size_t d = 0; d < counts[i]; d++) {
            bytes += fills[d].bytes;
        }
        assert_int_equal(reader_argument(kernel, "copies"), counts[i]);
        assert_int_equal(reader_argument(kernel, "bytes_on_device"), bytes);
        assert_int_equal(reader_argument(kernel, "bytes_to_host"), UINT64_MAX); /* there are none */
        reader_free(&trace);
        for (size_t d = 0; d < counts[i]; d++) {
            for (size_t b = 0; b < 4 + d % 8; b++) {
                assert_int_equal(((unsigned char *)filled)[32 * d + b], d);
            }
        }
    }
    assert_ok(gantry_heap_free(heap, filled));
}

static void test_tracks_are_gpu_then_sms_then_lanes(void **state)
{
    (void)state;
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
    struct work work = {.grid = {500, 1, 1}, .threads = 32, .spins = 5, .launches = 1};
    (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_work, &work);
    assert_ok(gpu_fixture_step(&fixture));
    stop_and_load(profile);
    const struct read_track *sms = reader_track(&trace, NULL, "SMs");
    const struct read_track *records = reader_track(&trace, NULL, "CTA records");
    assert_non_null(sms);
    assert_non_null(records);
    assert_true(sms->parent == records->parent);
    assert_true(trace.sequences > 0);
    for (size_t i = 0; i < trace.slice_count; i++) {
        const struct read_slice *s = &trace.slices[i];
        if (is_block(s)) {
            assert_true(s->track->parent == sms->uuid);
            assert_int_equal(s->track->rank, (int)strtol(s->track->name + 3, NULL, 10));
            for (size_t j = 0; j < i; j++) { /* no two slices of one lane overlap */
                const struct read_slice *o = &trace.slices[j];
                assert_true(o->track != s->track || o->end <= s->begin || s->end <= o->begin);
            }
        }
    }
    assert_int_equal(blocks_called("count_up"), 500);
    const struct read_slice *batch = slice_of("ctas", "batch");
    assert_non_null(batch);
    assert_int_equal(reader_argument(batch, "ctas"), 500);
    assert_true(reader_argument(batch, "alignment_ns") > 0);
    assert_true(reader_argument(batch, "tick_ns") != UINT64_MAX);
}

static void test_kernels_mode_reconstructs_bars_without_blocks(void **state)
{
    (void)state;
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_KERNELS, 0, 0);
    struct work work = {.grid = {50, 1, 1}, .threads = 32, .spins = 5, .launches = 3};
    (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_work, &work);
    assert_ok(gpu_fixture_step(&fixture));
    stop_and_load(profile);
    assert_int_equal(stats.kernels, 3);
    assert_int_equal(stats.ctas, 150);
    assert_int_equal(blocks_called("count_up"), 0);
    assert_non_null(slice_of("kernel", "count_up"));
}

static void test_nothing_comes_before_its_cause(void **state)
{
    (void)state;
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
    struct work work = {.grid = {20, 1, 1}, .threads = 32, .spins = 5, .launches = 1};
    for (int step = 0; step < 5; step++) {
        gantry_task *before = NULL;
        for (int i = 0; i < 4; i++) {
            gantry_task *task = gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_work, &work);
            if (before != NULL) {
                gpu_fixture_after(task, before);
            }
            before = task;
        }
        assert_ok(gpu_fixture_step(&fixture));
    }
    stop_and_load(profile);
    assert_int_equal(stats.kernels, 20);
    size_t joined = 0;
    for (size_t i = 0; i < trace.slice_count; i++) {
        const struct read_slice *launch = &trace.slices[i];
        if (strcmp(launch->category, "launch") != 0) {
            continue;
        }
        assert_int_equal(launch->flow_count, 1);
        for (size_t j = 0; j < trace.slice_count; j++) {
            const struct read_slice *kernel = &trace.slices[j];
            if (strcmp(kernel->category, "kernel") == 0 && reader_joined(kernel, launch)) {
                assert_true(kernel->begin >= launch->begin);
                joined++;
            }
        }
    }
    assert_int_equal(joined, 20);
}

static gantry_launch_result launch_with_completion(gantry_launch *launch, void *arg)
{
    static struct work work;
    work = (struct work){.grid = {8, 1, 1}, .threads = 32, .spins = 1, .launches = 1};
    gantry_launch_result result = launch_work(launch, &work);
    return gantry_launch_add_completion(launch, arg) == GANTRY_OK ? result : GANTRY_LAUNCH_FAILED;
}

static void test_arrows_lead_from_task_to_dependent_task(void **state)
{
    (void)state;
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_KERNELS, 0, 0);
    gantry_task *before = gpu_fixture_cpu(&fixture, "before", do_nothing, NULL);
    gantry_task *done = gpu_fixture_cpu(&fixture, "done", do_nothing, NULL);
    gantry_task *alone = gpu_fixture_cpu(&fixture, "alone", do_nothing, NULL);
    gantry_task *work = gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_with_completion, done);
    gpu_fixture_after(work, before);
    gpu_fixture_after(done, work);
    gpu_fixture_after(alone, done);
    assert_ok(gpu_fixture_step(&fixture));
    stop_and_load(profile);
    const struct read_slice *chain[] = {slice_of("task", "before"),        slice_of("submit", "submit work"),
                                        slice_of("launch", "work"),        slice_of("kernel", "count_up"),
                                        slice_of("wait", "complete done"), slice_of("task", "done")};
    for (size_t i = 0; i < 6; i++) {
        assert_non_null(chain[i]);
        assert_true(i == 0 || reader_joined(chain[i - 1], chain[i]));
        /* there is no effect before its cause */
        assert_true(i == 0 || chain[i]->begin >= chain[i - 1]->begin);
    }
    assert_true(chain[4]->begin >= chain[3]->end);
    assert_non_null(slice_of("gpu", "work"));
    assert_int_equal(slice_of("task", "alone")->flow_count, 0);
    const struct read_track *queue = reader_track(&trace, "gantry", "Kernel tasks waiting");
    assert_non_null(queue);
    assert_true(queue->counter);
    uint64_t most = 0, latest = 0;
    for (size_t i = 0; i < trace.count_count; i++) {
        if (trace.counts[i].track == queue) {
            latest = trace.counts[i].value;
            most = latest > most ? latest : most;
        }
    }
    assert_int_equal(most, 1);
    assert_int_equal(latest, 0); /* it was called, so none waits */
}

static void test_every_arrow_joins_two(void **state)
{
    (void)state;
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
    static struct work work;
    work = (struct work){.grid = {20, 1, 1}, .threads = 32, .spins = 5, .launches = 1};
    for (int step = 0; step < 3; step++) {
        gantry_task *last = gpu_fixture_cpu(&fixture, "last", do_nothing, NULL);
        for (int i = 0; i < 10; i++) {
            gantry_task *first = gpu_fixture_cpu(&fixture, "first", do_nothing, NULL);
            gantry_task *in = gpu_fixture_gpu(&fixture, GANTRY_TASK_HTOD, "in", launch_nothing, NULL);
            gantry_task *kernel = gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_work, &work);
            gantry_task *out = gpu_fixture_gpu(&fixture, GANTRY_TASK_DTOH, "out", launch_done, last);
            gpu_fixture_after(in, first);
            gpu_fixture_after(kernel, in);
            gpu_fixture_after(out, kernel);
            gpu_fixture_after(last, out);
        }
        assert_ok(gpu_fixture_step(&fixture));
    }
    stop_and_load(profile);
    size_t flows = 0;
    for (size_t i = 0; i < trace.slice_count; i++) {
        const struct read_slice *s = &trace.slices[i];
        for (size_t f = 0; f < s->flow_count; f++, flows++) {
            struct read_slice one = {.flow_count = 1, .flows = {s->flows[f]}};
            size_t others = 0;
            for (size_t j = 0; j < trace.slice_count; j++) {
                others += j != i && reader_joined(&one, &trace.slices[j]);
            }
            if (others == 0) {
                fail_msg("nothing but '%s' (%s) has this flow", s->name, s->category);
            }
        }
    }
    assert_true(flows >= 3 * 10 * 6);
}

static void test_launch_larger_than_a_buffer_is_counted_before_it_runs(void **state)
{
    (void)state;
    /* In a graph the callback may be given a place for records that its blocks do not leave. */
    assert_ok(gantry_dispatcher_set_submission(gantry_context_dispatcher(fixture.context),
                                               GANTRY_SUBMISSION_STREAMS));
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 64, 2);
    struct work fits = {.grid = {64, 1, 1}, .threads = 32, .spins = 1, .launches = 2};
    struct work large = {.grid = {65, 1, 1}, .threads = 32, .spins = 1, .launches = 1};
    gantry_task *one = gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "fits", launch_work, &fits);
    gantry_task *two = gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "large", launch_work, &large);
    gpu_fixture_after(two, one);
    assert_ok(gpu_fixture_step(&fixture));
    stop_and_load(profile);
    assert_false(large.had_records);
    assert_int_equal(stats.ctas, 128);
    assert_int_equal(stats.ctas_lost, 65);
    assert_int_equal(blocks_called("count_up"), 128);
}

static void test_records_and_losses_add_up_when_buffers_run_out(void **state)
{
    (void)state;
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 100, 1);
    struct work work = {.grid = {30, 1, 1}, .threads = 32, .spins = 1, .launches = 5};
    uint64_t launched = 0;
    for (int step = 0; step < 6; step++) {
        (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_work, &work);
        assert_ok(gpu_fixture_step(&fixture));
        launched += 150;
    }
    stop_and_load(profile);
    assert_int_equal(stats.ctas + stats.ctas_lost, launched);
    assert_true(stats.ctas >= 90 && stats.ctas_lost >= 6 * 60);
    assert_int_equal(blocks_called("count_up"), stats.ctas);
}

/* With the sizes that a recording has by default; the first step keeps the GPU from the others. */
static void test_a_hundred_small_batches_in_flight_lose_nothing(void **state)
{
    (void)state;
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = path;
    gantry_profile *profile = NULL;
    assert_ok(gantry_profile_start(&options, &profile));
    struct work first = {.grid = {1, 1, 1}, .threads = 32, .spins = 2000000, .launches = 1};
    struct work work = {.grid = {256, 1, 1}, .threads = 32, .spins = 1, .launches = 1};
    (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "first", launch_work, &first);
    assert_ok(gpu_fixture_step(&fixture));
    for (int step = 1; step < 100; step++) {
        (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_work, &work);
        assert_ok(gpu_fixture_step(&fixture));
    }
    stop_and_load(profile);
    assert_int_equal(stats.ctas_lost, 0);
    assert_int_equal(stats.ctas, 1 + 99 * 256);
    assert_int_equal(blocks_called("count_up"), stats.ctas);
}

/* A batch begins in a small buffer; the rest goes into a large one, up to its whole size. */
static void test_launches_of_all_sizes_share_a_batch(void **state)
{
    (void)state;
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 16384, 2); /* 30 small ones of 512 */
    struct work works[] = {
        {.grid = {500, 1, 1}, .threads = 1, .spins = 1, .launches = 1},
        {.grid = {13, 1, 1}, .threads = 1, .spins = 1, .launches = 1},    /* not beside the 500 */
        {.grid = {16384, 1, 1}, .threads = 1, .spins = 1, .launches = 1}, /* it has a large one of its own */
        /* it has a small one, because there are no large ones */
        {.grid = {400, 1, 1}, .threads = 1, .spins = 1, .launches = 3},
    };
    gantry_task *before = NULL;
    for (size_t i = 0; i < 4; i++) {
        gantry_task *task = gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_work, &works[i]);
        if (before != NULL) {
            gpu_fixture_after(task, before);
        }
        before = task;
    }
    assert_ok(gpu_fixture_step(&fixture));
    stop_and_load(profile);
    assert_int_equal(stats.ctas_lost, 0);
    assert_int_equal(stats.ctas, 500 + 13 + 16384 + 1200);
    assert_int_equal(blocks_called("count_up"), stats.ctas);
}

static void test_block_without_a_record_is_lost(void **state)
{
    (void)state;
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 0, 0);
    struct work work = {.grid = {100, 1, 1}, .threads = 32, .half = true, .launches = 1};
    (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_work, &work);
    assert_ok(gpu_fixture_step(&fixture));
    stop_and_load(profile);
    assert_int_equal(stats.ctas, 50);
    assert_int_equal(stats.ctas_lost, 50);
    const struct read_track *lost = reader_track(&trace, NULL, "lost CTAs");
    assert_non_null(lost);
    assert_true(lost->counter);
}

static void test_without_recording_there_is_no_buffer(void **state)
{
    (void)state;
    struct work work = {.grid = {10, 1, 1}, .threads = 32, .spins = 1, .launches = 1, .had_records = true};
    (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_work, &work);
    assert_ok(gpu_fixture_step(&fixture));
    assert_false(work.had_records);
    gantry_profile *profile = start(GANTRY_PROFILE_CTAS_OFF, 0, 0);
    (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_work, &work);
    assert_ok(gpu_fixture_step(&fixture));
    stop_and_load(profile);
    assert_false(work.had_records);
    assert_int_equal(stats.ctas_lost, 0);
    assert_int_equal(stats.ctas, 0);
}

static void test_recordings_of_other_sizes_follow_each_other(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        gantry_profile *profile = start(GANTRY_PROFILE_CTAS_EACH, 100 + 50 * i, 1 + i % 2);
        struct work work = {.grid = {100, 1, 1}, .threads = 32, .spins = 1, .launches = 1};
        (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_work, &work);
        assert_ok(gpu_fixture_step(&fixture));
        stop_and_load(profile);
        assert_int_equal(stats.ctas, 100);
        assert_int_equal(stats.ctas, 100);
        assert_int_equal(stats.ctas_lost, 0);
        reader_free(&trace);
    }
}

static void test_window_holds_the_steps_asked_for(void **state)
{
    (void)state;
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = path;
    options.first_step = 2;
    options.step_count = 3;
    gantry_profile *profile = NULL;
    assert_ok(gantry_profile_start(&options, &profile));
    for (uint32_t step = 0; step < 8; step++) {
        struct work work = {.grid = {step + 1, 1, 1}, .threads = 32, .spins = 1, .launches = 1};
        (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_work, &work);
        assert_ok(gpu_fixture_step(&fixture));
        assert_true(work.had_records == (step >= 2 && step < 5));
    }
    stop_and_load(profile);
    assert_int_equal(stats.kernels, 3);
    assert_int_equal(stats.ctas, 3 + 4 + 5);
    assert_int_equal(stats.ctas_lost, 0);
}

static void test_environment_records_any_program(void **state)
{
    (void)state;
    gpu_fixture_close(&fixture); /* the last context */
    assert_int_equal(setenv("GANTRY_PROFILE", path, 1), 0);
    assert_int_equal(set_up(NULL), 0);
    struct work work = {.grid = {33, 1, 1}, .threads = 32, .spins = 1, .launches = 1};
    (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_work, &work);
    assert_ok(gpu_fixture_step(&fixture));
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    gantry_profile *second = NULL;
    options.path = "/tmp/gantry-profile-must-not-appear.pftrace";
    assert_int_equal(gantry_profile_start(&options, &second), GANTRY_ERR_STATE);
    assert_non_null(strstr(gantry_last_error(), path));
    assert_non_null(strstr(gantry_last_error(), "$GANTRY_PROFILE began it"));
    assert_int_equal(unsetenv("GANTRY_PROFILE"), 0);
    gpu_fixture_close(&fixture);
    const char *wrong = reader_load(path, &trace);
    if (wrong != NULL) {
        fail_msg("%s", wrong);
    }
    assert_int_equal(blocks_called("count_up"), 33);
    assert_int_equal(set_up(NULL), 0); /* for the tear-down; it is not recorded */
    assert_int_equal(access(path, R_OK), 0);
}

static void record_by_environment(const char *options)
{
    gpu_fixture_close(&fixture); /* the last context */
    assert_int_equal(setenv("GANTRY_PROFILE", path, 1), 0);
    assert_int_equal(setenv("GANTRY_PROFILE_OPTIONS", options, 1), 0);
    assert_int_equal(set_up(NULL), 0);
    for (uint32_t step = 0; step < 4; step++) {
        struct work work = {.grid = {33, 1, 1}, .threads = 32, .spins = 1, .launches = 1};
        (void)gpu_fixture_gpu(&fixture, GANTRY_TASK_KERNEL, "work", launch_work, &work);
        assert_ok(gpu_fixture_step(&fixture));
    }
    assert_int_equal(unsetenv("GANTRY_PROFILE"), 0);
    assert_int_equal(unsetenv("GANTRY_PROFILE_OPTIONS"), 0);
    gpu_fixture_close(&fixture);
}

/* The file of the latest recording; recordings of one process after the first have a number.  False: there
 * is none. */
static bool find_recording(char found[96])
{
    snprintf(found, 96, "%s", path);
    for (int n = 2; access(found, F_OK) != 0 && n < 40; n++) {
        snprintf(found, 96, "%s.%d", path, n);
    }
    return access(found, F_OK) == 0;
}

static void test_environment_chooses_what_is_recorded(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        uint64_t blocks, kernels;
    } rows[] = {{"blocks=kernels", 0, 4},
                {"blocks=numbers,steps=1+2,buffers=20,blocks-per-buffer=2000,compress=0,clock=sm", 66, 2},
                {"blocks=off,spans=2000,encoders=1", 0, 0}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        record_by_environment(rows[i].options);
        char found[96];
        assert_true(find_recording(found));
        const char *wrong = reader_load(found, &trace);
        if (wrong != NULL) {
            fail_msg("%s", wrong);
        }
        assert_int_equal(blocks_called("count_up"), rows[i].blocks);
        uint64_t kernels = 0;
        for (size_t s = 0; s < trace.slice_count; s++) {
            kernels += strcmp(trace.slices[s].category, "kernel") == 0;
        }
        assert_int_equal(kernels, rows[i].kernels);
        reader_free(&trace);
        unlink(found);
        assert_int_equal(set_up(NULL), 0);
    }
}

static char last_error_line[512];

static void keep_error(void *user, gantry_log_level level, const char *line)
{
    (void)user;
    if (level == GANTRY_LOG_ERROR) {
        snprintf(last_error_line, sizeof(last_error_line), "%s", line);
    }
}

static void test_environment_names_unknown_words(void **state)
{
    (void)state;
    static const char *const rows[][2] = {{"block=off", "block=off"},      {"blocks=none", "blocks=none"},
                                          {"steps=3", "steps=3"},          {"buffers=-1", "buffers=-1"},
                                          {"spans=12x", "spans=12x"},      {"compress=0,,", "\"\""},
                                          {"encoders=300", "encoders=300"}};
    gantry_set_log(keep_error, NULL, GANTRY_LOG_ERROR);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char found[96];
        last_error_line[0] = '\0';
        record_by_environment(rows[i][0]);
        assert_false(find_recording(found)); /* nothing is recorded, and the program runs */
        if (strstr(last_error_line, "GANTRY_PROFILE_OPTIONS") == NULL ||
            strstr(last_error_line, rows[i][1]) == NULL) {
            fail_msg("%s: %s", rows[i][0], last_error_line);
        }
        assert_int_equal(set_up(NULL), 0);
    }
    gantry_set_log(NULL, NULL, GANTRY_LOG_INFO);
}

static void test_registering_refuses_nonsense(void **state)
{
    (void)state;
    const char *names[] = {"a", NULL};
    uint32_t first = 7;
    assert_int_equal(gantry_profile_register_kernels(NULL, 1, &first), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_profile_register_kernels(names, 0, &first), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_profile_register_kernels(names, 2, &first), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_profile_register_kernels(names, 1, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(first, 7);
    uint32_t again = 0;
    assert_ok(gantry_profile_register_kernels(names, 1, &first));
    assert_ok(gantry_profile_register_kernels(names, 1, &again));
    assert_int_equal(again, first + 1);
}

int main(void)
{
    int status = cta_begin();
    if (status != 0) {
        return status;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_block_is_a_slice_on_its_sm, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_kernels_without_macros_lose_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_batched_copies_are_seen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tracks_are_gpu_then_sms_then_lanes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_kernels_mode_reconstructs_bars_without_blocks, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_comes_before_its_cause, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_arrows_lead_from_task_to_dependent_task, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_every_arrow_joins_two, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_launch_larger_than_a_buffer_is_counted_before_it_runs, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_hundred_small_batches_in_flight_lose_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_launches_of_all_sizes_share_a_batch, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_records_and_losses_add_up_when_buffers_run_out, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_block_without_a_record_is_lost, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_recording_there_is_no_buffer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_recordings_of_other_sizes_follow_each_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_window_holds_the_steps_asked_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_environment_records_any_program, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_environment_chooses_what_is_recorded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_environment_names_unknown_words, set_up, tear_down),
        cmocka_unit_test(test_registering_refuses_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
