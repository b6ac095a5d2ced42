/* SPDX-License-Identifier: MIT */
/* Copies between the heaps of contexts on two devices: with access, and through the host without. */
#include "tests/support/gpu_fixture.h"

#include "tests/support/cmocka_c11.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES ((size_t)256 << 10)
#define SMALL 4096u
#define PARTS 16u

/* A context on each of two devices, and a block in the heap of each. */
static struct sides {
    struct gpu_fixture at[2];
    void *block[2];
    uint8_t *host; /* of the first one, page-locked */
} sides;

static bool has_two(void)
{
    gantry_link link = {.struct_size = sizeof(link)};
    return gantry_link_get(gpu_fixture_driver(), 0, 1, &link) == GANTRY_OK && link.access != 0;
}

#define NEED_TWO()                                             \
    do {                                                       \
        if (!has_two()) {                                      \
            print_message("skipped: no two linked devices\n"); \
            skip();                                            \
        }                                                      \
    } while (0)

static void open_sides(uint64_t peers, gantry_submission submission)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_heap_options heap = GANTRY_HEAP_OPTIONS_INIT;
    heap.peers = peers;
    options.driver = gpu_fixture_driver();
    options.heap = &heap;
    options.submission = submission;
    for (int i = 0; i < 2; i++) {
        void *block;
        options.device = i == 0 ? "0" : "1";
        gpu_fixture_open_with(&sides.at[i], 1, &options);
        assert_ok(gantry_heap_alloc(gantry_context_heap(sides.at[i].context), GANTRY_MEMORY_DEVICE, BYTES, 0,
                                    GANTRY_ALLOC_SITE("side"), &block));
        sides.block[i] = block;
    }
    void *host;
    assert_ok(gantry_heap_alloc(gantry_context_heap(sides.at[0].context), GANTRY_MEMORY_PINNED, BYTES, 0,
                                GANTRY_ALLOC_SITE("host"), &host));
    sides.host = host;
}

static void close_sides(void)
{
    assert_ok(gantry_heap_free(gantry_context_heap(sides.at[0].context), sides.host));
    for (int i = 0; i < 2; i++) {
        assert_ok(gantry_heap_free(gantry_context_heap(sides.at[i].context), sides.block[i]));
        gpu_fixture_close(&sides.at[i]);
    }
}

/* The work of a task, and its result. */
struct job {
    gantry_status (*work)(gantry_launch *launch);
    gantry_status status;
    char text[256];
    gantry_task *done;
};

static gantry_launch_result launch_job(gantry_launch *launch, void *arg)
{
    struct job *job = arg;
    job->status = job->work(launch);
    snprintf(job->text, sizeof(job->text), "%s", job->status == GANTRY_OK ? "" : gantry_last_error());
    return job->status == GANTRY_OK && gantry_launch_add_completion(launch, job->done) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

/* Do the work in a task of one side, and wait for it. */
static struct job run(int side, gantry_status (*work)(gantry_launch *launch))
{
    struct job job = {.work = work};
    struct gpu_fixture *f = &sides.at[side];
    job.done = gpu_fixture_cpu(f, "done", NULL, NULL);
    gantry_task *task = gpu_fixture_gpu(f, GANTRY_TASK_KERNEL, "work", launch_job, &job);
    gpu_fixture_after(job.done, task);
    (void)gpu_fixture_step(f);
    return job;
}

static gantry_status fill_own(gantry_launch *launch)
{
    return gantry_launch_fill(launch, sides.block[0], 5, 1, BYTES);
}

static gantry_status read_own(gantry_launch *launch)
{
    return gantry_launch_copy_dtoh(launch, sides.host, sides.block[0], BYTES);
}

static void expect_host(uint8_t value)
{
    for (size_t i = 0; i < BYTES; i++) {
        if (sides.host[i] != value) {
            fail_msg("byte %zu is %u instead of %u", i, sides.host[i], value);
        }
    }
}

static gantry_status clear_own(gantry_launch *launch)
{
    return gantry_launch_fill(launch, sides.block[0], 0, 1, BYTES);
}

static gantry_status push_to_other(gantry_launch *launch)
{
    return gantry_launch_copy_dtod(launch, sides.block[1], sides.block[0], BYTES);
}

static gantry_status pull_from_other(gantry_launch *launch)
{
    return gantry_launch_copy_dtod(launch, sides.block[0], sides.block[1], BYTES);
}

static gantry_status push_parts(gantry_launch *launch)
{
    gantry_copy_desc descs[PARTS];
    for (uint32_t i = 0; i < PARTS; i++) {
        const size_t at = BYTES / PARTS * i;
        descs[i] = (gantry_copy_desc){.type = GANTRY_COPY_DTOD,
                                      .dest = (char *)sides.block[1] + at,
                                      .source = (char *)sides.block[0] + BYTES - BYTES / PARTS - at,
                                      .bytes = BYTES / PARTS};
    }
    return gantry_copy_launch(launch, descs, PARTS);
}

static gantry_status push_one(gantry_launch *launch)
{
    const gantry_copy_desc desc = {
        .type = GANTRY_COPY_DTOD, .dest = sides.block[1], .source = sides.block[0], .bytes = BYTES};
    return gantry_copy_launch(launch, &desc, 1);
}

static gantry_status push_too_much(gantry_launch *launch)
{
    return gantry_launch_copy_dtod(launch, (char *)sides.block[1] + BYTES - SMALL, sides.block[0], 2 * SMALL);
}

static gantry_status read_other(gantry_launch *launch)
{
    return gantry_launch_copy_dtoh(launch, sides.host, sides.block[1], BYTES);
}

/* Fill, send it to the other device in the given way, clear, and fetch it back. */
static void go_there_and_back(gantry_status (*send)(gantry_launch *launch))
{
    assert_ok(run(0, fill_own).status);
    assert_ok(run(0, send).status);
    assert_ok(run(0, clear_own).status);
    assert_ok(run(0, pull_from_other).status);
    assert_ok(run(0, read_own).status);
    expect_host(5);
}

static void check_access(gantry_submission submission)
{
    open_sides(3, submission);
    go_there_and_back(push_to_other);
    go_there_and_back(push_parts);
    go_there_and_back(push_one);
    assert_ok(run(0, read_other).status);
    expect_host(5);
    gantry_dispatcher_stats stats = gpu_fixture_stats(&sides.at[0]);
    assert_int_equal(stats.peer_copies, 4);
    assert_int_equal(stats.staged_copies, 0);
    /* The batch of parts is too small for engines; the other five are of 256 KiB. */
    assert_int_equal(stats.peer_by_kernel, PARTS);
    assert_int_equal(stats.peer_bytes_by_kernel, BYTES);
    assert_int_equal(stats.peer_by_engine, 5);
    assert_int_equal(stats.peer_bytes_by_engine, 5 * BYTES);
    assert_int_equal(stats.peer_bytes_by_host, 0);
    close_sides();
}

static void test_copies_reach_the_other_device(void **state)
{
    (void)state;
    NEED_TWO();
    check_access(GANTRY_SUBMISSION_STREAMS);
    check_access(GANTRY_SUBMISSION_GRAPHS);
}

static atomic_int warnings;

static void count_warnings(void *user, gantry_log_level level, const char *line)
{
    (void)user;
    atomic_fetch_add(&warnings, level == GANTRY_LOG_WARNING && strstr(line, "go through the host") != NULL);
}

static void check_staged(gantry_submission submission)
{
    open_sides(0, submission);
    go_there_and_back(push_to_other);
    gantry_dispatcher_stats stats = gpu_fixture_stats(&sides.at[0]);
    assert_int_equal(stats.peer_copies, 2);
    assert_int_equal(stats.staged_copies, 2);
    assert_int_equal(stats.peer_bytes_by_host, 2 * BYTES);
    assert_int_equal(stats.peer_by_engine + stats.peer_by_kernel, 0);
    struct job job = run(0, push_parts);
    assert_int_equal(job.status, GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(job.text, "memory of device 1, which device 0 does not reach"));
    job = run(0, read_other);
    assert_int_equal(job.status, GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(job.text, "does not reach"));
    close_sides();
}

static void test_without_access_copies_go_through_the_host(void **state)
{
    (void)state;
    NEED_TWO();
    gantry_set_log(count_warnings, NULL, GANTRY_LOG_WARNING);
    check_staged(GANTRY_SUBMISSION_STREAMS);
    check_staged(GANTRY_SUBMISSION_GRAPHS);
    gantry_set_log(NULL, NULL, GANTRY_LOG_WARNING);
    assert_int_equal(atomic_load(&warnings), 1);
}

static void test_bounds_of_the_other_heap_are_kept(void **state)
{
    (void)state;
    NEED_TWO();
    open_sides(3, GANTRY_SUBMISSION_STREAMS);
    struct job job = run(0, push_too_much);
    assert_int_equal(job.status, GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(job.text, "has 4096 left"));
    assert_non_null(strstr(job.text, "side"));
    close_sides();
}

/* What the row of the other device says holds for batches and for single copies, in its direction. */
static void check_row(gantry_submission submission)
{
    gantry_copy_peer_tuning row = {.struct_size = sizeof(row)};
    open_sides(3, submission);
    gantry_context *context = sides.at[0].context;
    assert_ok(gantry_copy_get_peer_tuning(context, 1, &row));
    assert_int_equal(row.measured, 0);
    assert_int_equal(row.blocks, 8);
    memset(row.engine_up_to[0], 0, sizeof(row.engine_up_to[0])); /* to it: the kernel, always */
    row.blocks = 0;
    assert_ok(gantry_copy_set_peer_tuning(context, 1, &row));
    assert_ok(gantry_copy_get_peer_tuning(context, 1, &row));
    assert_int_equal(row.blocks, 8);
    go_there_and_back(push_to_other);
    go_there_and_back(push_one);
    gantry_dispatcher_stats stats = gpu_fixture_stats(&sides.at[0]);
    assert_int_equal(stats.peer_by_kernel, 2);
    assert_int_equal(stats.peer_by_engine, 2); /* from it */
    assert_int_equal(stats.peer_copies, 2);
    memset(row.engine_up_to, 0xff, sizeof(row.engine_up_to));
    assert_ok(gantry_copy_set_peer_tuning(context, 1, &row));
    go_there_and_back(push_parts);
    stats = gpu_fixture_stats(&sides.at[0]);
    assert_int_equal(stats.peer_by_kernel, 2);
    assert_int_equal(stats.peer_by_engine, 2 + PARTS + 1);
    close_sides();
}

static void test_the_row_of_the_other_device_decides(void **state)
{
    (void)state;
    NEED_TWO();
    check_row(GANTRY_SUBMISSION_STREAMS);
    check_row(GANTRY_SUBMISSION_GRAPHS);
}

/* Rows of a block go to the other device and come back, whose rows lie twice as far apart; then a box whose
 * rows are one copy. */
static gantry_copy_box rows_of(void *dest, const void *source, uint64_t dest_pitch, uint64_t source_pitch)
{
    gantry_copy_box box = GANTRY_COPY_BOX_INIT;
    box.dest = dest;
    box.source = source;
    box.width = SMALL / 2;
    box.rows = BYTES / SMALL;
    box.dest_pitch = dest_pitch;
    box.source_pitch = source_pitch;
    return box;
}

static gantry_status push_rows(gantry_launch *launch)
{
    const gantry_copy_box box = rows_of(sides.block[1], sides.block[0], SMALL, SMALL / 2);
    return gantry_copy_launch_box(launch, &box, NULL);
}

static gantry_status pull_rows(gantry_launch *launch)
{
    const gantry_copy_box box = rows_of(sides.block[0], sides.block[1], SMALL / 2, SMALL);
    return gantry_copy_launch_box(launch, &box, NULL);
}

static gantry_status push_one_row(gantry_launch *launch)
{
    const gantry_copy_box box = rows_of(sides.block[1], sides.block[0], SMALL / 2, SMALL / 2);
    return gantry_copy_launch_box(launch, &box, NULL);
}

static void check_boxes(gantry_submission submission)
{
    open_sides(3, submission);
    assert_ok(run(0, fill_own).status);
    assert_ok(run(0, push_rows).status);
    assert_ok(run(0, clear_own).status);
    assert_ok(run(0, pull_rows).status);
    assert_ok(run(0, read_own).status);
    for (size_t i = 0; i < BYTES; i++) {
        assert_int_equal(sides.host[i], i < BYTES / 2 ? 5 : 0);
    }
    gantry_dispatcher_stats stats = gpu_fixture_stats(&sides.at[0]);
    assert_int_equal(stats.peer_by_kernel, 2);
    assert_int_equal(stats.peer_bytes_by_kernel, BYTES);
    assert_ok(run(0, push_one_row).status);
    stats = gpu_fixture_stats(&sides.at[0]);
    assert_int_equal(stats.peer_by_kernel + stats.peer_by_engine, 3);
    assert_int_equal(stats.peer_bytes_by_kernel + stats.peer_bytes_by_engine, BYTES + BYTES / 2);
    close_sides();
}

static void test_boxes_reach_the_other_device(void **state)
{
    (void)state;
    NEED_TWO();
    check_boxes(GANTRY_SUBMISSION_STREAMS);
    check_boxes(GANTRY_SUBMISSION_GRAPHS);
    open_sides(0, GANTRY_SUBMISSION_STREAMS);
    struct job job = run(0, push_rows);
    assert_int_equal(job.status, GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(job.text, "copy box: dest "));
    assert_non_null(strstr(job.text, "memory of device 1, which device 0 does not reach"));
    close_sides();
}

/* More copies than are looked at one by one go to another device as the others do, and are counted. */
static gantry_status push_many(gantry_launch *launch)
{
    static gantry_copy_desc descs[512];
    for (uint32_t i = 0; i < 512; i++) {
        const size_t at = BYTES / 512 * i;
        descs[i] = (gantry_copy_desc){.type = GANTRY_COPY_DTOD,
                                      .dest = (char *)sides.block[1] + at,
                                      .source = (char *)sides.block[0] + BYTES - BYTES / 512 - at,
                                      .bytes = BYTES / 512};
    }
    return gantry_copy_launch(launch, descs, 512);
}

static void test_a_large_batch_is_counted_too(void **state)
{
    (void)state;
    NEED_TWO();
    open_sides(3, GANTRY_SUBMISSION_STREAMS);
    go_there_and_back(push_many);
    gantry_dispatcher_stats stats = gpu_fixture_stats(&sides.at[0]);
    assert_int_equal(stats.peer_by_kernel, 512);
    assert_int_equal(stats.peer_bytes_by_kernel, BYTES);
    close_sides();
}

static gantry_status calibrate(gantry_launch *launch)
{
    return gantry_copy_calibrate(launch, BYTES);
}

/* A device is measured against those that its heap is let to; its own row stays nobody's. */
static void test_calibration_measures_the_way_to_the_other_device(void **state)
{
    (void)state;
    NEED_TWO();
    gantry_copy_peer_tuning row = {.struct_size = sizeof(row)};
    open_sides(3, GANTRY_SUBMISSION_STREAMS);
    assert_ok(run(0, calibrate).status);
    assert_ok(gantry_copy_get_peer_tuning(sides.at[0].context, 1, &row));
    assert_int_equal(row.measured, 1);
    for (int way = 0; way < 2; way++) {
        for (int c = 0; c < GANTRY_COPY_SIZE_CLASSES; c++) {
            const uint32_t up_to = row.engine_up_to[way][c];
            assert_true(up_to == 0 || up_to == 1 || up_to == 4 || up_to == 16 || up_to == UINT32_MAX);
        }
        /* 256 KiB are the largest class that fits: those above are judged like it. */
        assert_int_equal(row.engine_up_to[way][7], row.engine_up_to[way][2]);
    }
    assert_ok(gantry_copy_get_peer_tuning(sides.at[0].context, 2, &row));
    assert_int_equal(row.measured, 0);
    assert_ok(gantry_copy_get_peer_tuning(sides.at[1].context, 0, &row));
    assert_int_equal(row.measured, 0);
    go_there_and_back(push_to_other);
    go_there_and_back(push_parts);
    close_sides();
}

/* Each slab is one piece, and one call opens it to all. */
static void test_a_slab_is_let_to_all_at_once(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    NEED_TWO();
    if (!gpu_fixture_controls(&emu)) {
        print_message("skipped: no device counts its calls\n");
        skip();
    }
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_heap_options heap = GANTRY_HEAP_OPTIONS_INIT;
    heap.peers = UINT64_C(2);
    heap.unit_bytes[GANTRY_MEMORY_DEVICE] = (size_t)4 << 20;
    heap.slab_bytes[GANTRY_MEMORY_DEVICE] = (size_t)64 << 20;
    heap.ahead_bytes[GANTRY_MEMORY_DEVICE] = SIZE_MAX;
    options.driver = gpu_fixture_driver();
    options.heap = &heap;
    gantry_context *context;
    emu.reset_counters();
    assert_ok(gantry_context_create(&options, &context));
    void *block;
    assert_ok(gantry_heap_alloc(gantry_context_heap(context), GANTRY_MEMORY_DEVICE, (size_t)48 << 20, 0,
                                GANTRY_ALLOC_SITE("slab"), &block));
    assert_int_equal(emu.calls("cuMemCreate"), 1);
    assert_int_equal(emu.calls("cuMemSetAccess"), 1);
    assert_ok(gantry_heap_free(gantry_context_heap(context), block));
    gantry_context_destroy(context);
}

static void test_devices_that_do_not_reach_are_named(void **state)
{
    (void)state;
    if (gpu_fixture_driver() != GANTRY_DRIVER_EMULATED) {
        print_message("skipped: all devices may be linked\n");
        skip();
    }
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_heap_options heap = GANTRY_HEAP_OPTIONS_INIT;
    gantry_context *context = NULL;
    heap.peers = UINT64_C(1) << 2 | UINT64_C(1) << 1 | UINT64_C(1) << 40; /* there is no device 40 */
    options.driver = GANTRY_DRIVER_EMULATED;
    options.heap = &heap;
    assert_int_equal(gantry_context_create(&options, &context), GANTRY_ERR_UNSUPPORTED);
    assert_non_null(strstr(gantry_last_error(), "device 2 does not reach memory of device 0"));
    assert_null(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies_reach_the_other_device),
        cmocka_unit_test(test_without_access_copies_go_through_the_host),
        cmocka_unit_test(test_bounds_of_the_other_heap_are_kept),
        cmocka_unit_test(test_the_row_of_the_other_device_decides),
        cmocka_unit_test(test_boxes_reach_the_other_device),
        cmocka_unit_test(test_a_large_batch_is_counted_too),
        cmocka_unit_test(test_calibration_measures_the_way_to_the_other_device),
        cmocka_unit_test(test_a_slab_is_let_to_all_at_once),
        cmocka_unit_test(test_devices_that_do_not_reach_are_named),
    };
    setenv("GANTRY_EMU_DEVICES", "3", 1);
    setenv("GANTRY_EMU_PROFILE", "links=pairs", 1);
    return cmocka_run_group_tests_name("peers", tests, NULL, NULL);
}
