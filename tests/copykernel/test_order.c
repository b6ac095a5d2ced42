/* SPDX-License-Identifier: MIT */
/* Queues, copy engines, captures and calibration. */
#include "tests/copykernel/fixture.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static gantry_copy_desc copy(void *dest, const void *source, uint64_t bytes, gantry_copy_type type)
{
    return (gantry_copy_desc){.dest = dest, .source = source, .bytes = bytes, .type = type};
}

static gantry_copy_desc fill(void *dest, uint64_t bytes, uint32_t pattern)
{
    return (gantry_copy_desc){
        .dest = dest, .bytes = bytes, .type = GANTRY_COPY_FILL, .pattern_bytes = 4, .pattern = pattern};
}

/* ---- queues ---- */

static void enqueue(gantry_copy_queue *queue, gantry_copy_desc desc)
{
    assert_ok(gantry_copy_queue_enqueue(queue, &desc));
}

/* One random copy within the front of the arenas, where most of them overlap; in the image too. */
static gantry_copy_desc random_desc(struct fixture *f)
{
    enum { FRONT = 6000 };
    uint64_t bytes = random_below(300), dest = random_below(FRONT);
    if (random_below(3) == 0) {
        gantry_copy_desc desc = fill(at(f->device, dest), bytes, (uint32_t)random_below(UINT32_MAX));
        for (uint64_t i = 0; i < bytes; i++) {
            f->image[dest + i] = (uint8_t)(desc.pattern >> i % 4 * 8);
        }
        return desc;
    }
    uint64_t source = random_below(FRONT);
    if (random_below(2) == 0) {
        memcpy(f->image + dest, at(f->pinned, source), bytes);
        return copy(at(f->device, dest), at(f->pinned, source), bytes, GANTRY_COPY_HTOD);
    }
    if (source < dest + bytes && dest < source + bytes) {
        source += FRONT; /* it does not copy onto itself */
    }
    memcpy(f->image + dest, f->image + source, bytes);
    return copy(at(f->device, dest), at(f->device, source), bytes, GANTRY_COPY_DTOD);
}

static void test_queued_copies_act_as_if_one_after_the_other(void **state)
{
    struct fixture *f = *state;
    gantry_copy_queue *queue;
    assert_ok(gantry_copy_queue_create(0, &queue));
    for (int round = 0; round < 20; round++) {
        size_t count = 1 + random_below(150);
        for (size_t i = 0; i < count; i++) {
            enqueue(queue, random_desc(f));
        }
        assert_int_equal(gantry_copy_queue_count(queue), count);
        assert_ok(flush(f, queue));
        assert_int_equal(gantry_copy_queue_count(queue), 0);
        assert_device_is_image(f);
    }
    gantry_copy_queue_destroy(queue);
}

static void test_queue_keeps_patterns_and_launches_once_without_conflicts(void **state)
{
    struct fixture *f = *state;
    gantry_copy_queue *queue;
    assert_ok(gantry_copy_queue_create(2, &queue));
    for (uint32_t i = 0; i < 100; i++) {
        uint8_t pattern[16];
        for (uint32_t k = 0; k < 16; k++) {
            pattern[k] = (uint8_t)(7 * i + k);
        }
        gantry_copy_desc desc = {.dest = at(f->device, 100 * i + 3),
                                 .source = pattern,
                                 .bytes = 50,
                                 .type = GANTRY_COPY_FILL,
                                 .pattern_bytes = i % 2 == 0 ? 8 : 16};
        enqueue(queue, desc);
        for (uint32_t k = 0; k < 50; k++) {
            f->image[100 * i + 3 + k] = pattern[k % desc.pattern_bytes];
        }
        memset(pattern, 0, sizeof(pattern));
    }
    assert_ok(flush(f, queue));
    if (f->context->driver->emulated) {
        assert_int_equal(f->emu.calls("cuLaunchKernel"), 1);
    }
    assert_device_is_image(f);
    gantry_copy_queue_destroy(queue);
    gantry_copy_queue_destroy(NULL);
}

static void test_queue_refuses_what_is_wrong_and_keeps_the_rest(void **state)
{
    struct fixture *f = *state;
    gantry_copy_queue *queue;
    assert_int_equal(gantry_copy_queue_create(1, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_ok(gantry_copy_queue_create(1, &queue));
    gantry_copy_desc bad = fill(NULL, 4, 0);
    assert_int_equal(gantry_copy_queue_enqueue(queue, &bad), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_copy_queue_enqueue(queue, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_copy_queue_enqueue(NULL, &bad), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_copy_queue_count(queue), 0);
    enqueue(queue, fill(f->device, 40, 0x01010101));
    enqueue(queue, copy(f->device, f->device, 0, GANTRY_COPY_DTOD));
    enqueue(queue, copy(f->device, at(f->device, 39), 40, GANTRY_COPY_DTOD)); /* it copies onto itself */
    assert_int_equal(flush(f, queue), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "copy descriptor 2: source overlaps dest of descriptor 2"));
    assert_int_equal(gantry_copy_queue_count(queue), 3);
    assert_device_is_image(f);
    gantry_copy_queue_clear(queue);
    assert_int_equal(gantry_copy_queue_count(queue), 0);
    assert_ok(flush(f, queue));
    gantry_copy_queue_destroy(queue);
}

static void test_failed_flush_keeps_what_was_not_launched(void **state)
{
    struct fixture *f = emulated_only(state);
    gantry_copy_queue *queue;
    assert_ok(gantry_copy_queue_create(1, &queue));
    for (uint32_t i = 0; i < 4; i++) {
        enqueue(queue, fill(f->device, 40, i + 1)); /* each comes after the one before */
    }
    assert_int_equal((f->emu.fail)("cuLaunchKernel", 3, CUDA_ERROR_UNKNOWN, GANTRY_EMU_ONCE), 0);
    assert_int_equal(flush(f, queue), GANTRY_ERR_DRIVER);
    assert_int_equal(gantry_copy_queue_count(queue), 2);
    assert_ok(flush(f, queue));
    for (uint32_t i = 0; i < 40; i += 4) {
        f->image[i] = 4;
    }
    assert_device_is_image(f);
    gantry_copy_queue_destroy(queue);
}

static void test_queue_survives_every_allocation_failure(void **state)
{
    struct fixture *f = *state;
    for (long nth = 0;; nth++) {
        assert_true(nth < 100);
        long live = gy_alloc_live();
        gantry_copy_queue *queue = NULL;
        gy_fault_arm(nth);
        gantry_status status = gantry_copy_queue_create(1, &queue);
        for (uint32_t i = 0; i < 3 && status == GANTRY_OK; i++) {
            gantry_copy_desc desc = fill(at(f->device, 100 * i), 4, 0);
            status = gantry_copy_queue_enqueue(queue, &desc);
            assert_int_equal(gantry_copy_queue_count(queue), i + (status == GANTRY_OK));
        }
        bool fired = gy_fault_fired();
        gy_fault_arm(-1);
        gantry_copy_queue_destroy(queue);
        assert_int_equal(gy_alloc_live(), live);
        assert_int_equal(status, fired ? GANTRY_ERR_OUT_OF_HOST_MEMORY : GANTRY_OK);
        if (!fired) {
            break;
        }
    }
}

/* ---- copy engines ---- */

static void test_large_copies_go_to_the_engines_and_neighbours_count_as_one(void **state)
{
    struct fixture *f = emulated_only(state);
    enum { COUNT = 64, BYTES = 4096 };
    gantry_copy_desc descs[COUNT];
    for (size_t i = 0; i < COUNT; i++) { /* 256 KiB in all, without a gap */
        descs[i] = copy(at(f->device, i * BYTES), at(f->pinned, i * BYTES), BYTES, GANTRY_COPY_HTOD);
    }
    memcpy(f->image, f->pinned, COUNT * BYTES);
    launch(f, descs, COUNT);
    assert_int_equal(f->emu.calls("cuMemcpyAsync"), 1);
    assert_int_equal(f->emu.calls("cuLaunchKernel"), 0);
    assert_device_is_image(f);
    descs[7].source = at(f->pinned, 17); /* three parts, two of them small */
    memcpy(f->image + 7 * BYTES, at(f->pinned, 17), BYTES);
    launch(f, descs, COUNT);
    assert_int_equal(f->emu.calls("cuMemcpyAsync"), 1);
    assert_int_equal(f->emu.calls("cuLaunchKernel"), 1);
    assert_device_is_image(f);

    gantry_copy_tuning tuning = gy_copier_tuning(f->copier);
    memset(tuning.engine_up_to, 0, sizeof(tuning.engine_up_to));
    assert_ok(gy_copier_set_tuning(f->copier, &tuning));
    descs[7].source = at(f->pinned, 7 * BYTES);
    memcpy(f->image, f->pinned, COUNT * BYTES);
    launch(f, descs, COUNT);
    assert_int_equal(f->emu.calls("cuMemcpyAsync"), 1);
    assert_int_equal(f->emu.calls("cuLaunchKernel"), 2);
    assert_device_is_image(f);
}

static void test_limited_blocks_do_everything_too(void **state)
{
    struct fixture *f = *state;
    enum { COUNT = 700 };
    static gantry_copy_desc descs[COUNT];
    gantry_copy_tuning tuning = gy_copier_tuning(f->copier);
    memset(tuning.engine_up_to, 0, sizeof(tuning.engine_up_to));
    tuning.host_blocks = 1;
    tuning.device_blocks = 2;
    assert_ok(gy_copier_set_tuning(f->copier, &tuning));
    for (int round = 0; round < 3; round++) { /* the counters are used again */
        for (size_t i = 0; i < COUNT; i++) {
            size_t from = random_below(ARENA - 700);
            descs[i] = i % 2 == 0 ? copy(at(f->device, 700 * i), at(f->pinned, from), 690, GANTRY_COPY_HTOD)
                                  : fill(at(f->device, 700 * i), 680, 0x11111111u * (uint32_t)(round + 1));
            if (i % 2 == 0) {
                memcpy(f->image + 700 * i, at(f->pinned, from), 690);
            } else {
                memset(f->image + 700 * i, 0x11 * (round + 1), 680);
            }
        }
        launch(f, descs, COUNT);
        assert_device_is_image(f);
    }
    tuning.host_blocks = 65;
    assert_int_equal(gy_copier_set_tuning(f->copier, &tuning), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "host_blocks is 65"));
    tuning.host_blocks = 1;
    tuning.host_threads = 48;
    assert_int_equal(gy_copier_set_tuning(f->copier, &tuning), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gy_copier_set_tuning(f->copier, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gy_copier_tuning(f->copier).host_blocks, 1);
}

static void test_options_of_a_call_limit_blocks_and_lower_the_priority(void **state)
{
    struct fixture *f = *state;
    enum { COUNT = 700 };
    static gantry_copy_desc descs[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        descs[i] = i % 2 == 0 ? copy(at(f->device, 700 * i), at(f->pinned, 600 * i), 600, GANTRY_COPY_HTOD)
                              : fill(at(f->device, 700 * i), 680, 0x33333333u);
        if (i % 2 == 0) {
            memcpy(f->image + 700 * i, at(f->pinned, 600 * i), 600);
        } else {
            memset(f->image + 700 * i, 0x33, 680);
        }
    }
    gantry_copy_options options = GANTRY_COPY_OPTIONS_INIT;
    options.priority = GANTRY_COPY_PRIORITY_LOW;
    options.htod_blocks = 64;
    options.dtoh_blocks = 1;
    options.device_blocks = 1000;
    const struct gy_copy_target small = {.stream = f->stream, .multiprocessors = 2};
    assert_ok(gy_copier_launch(f->copier, &small, descs, COUNT, &options));
    assert_device_is_image(f);
    if (f->context->driver->emulated) {
        assert_int_equal(f->emu.calls("cuLaunchKernelEx"), 1);
        assert_int_equal(f->emu.calls("cuLaunchKernel"), 0);
    }
    gantry_copy_queue *queue;
    assert_ok(gantry_copy_queue_create(1, &queue));
    enqueue(queue, descs[1]);
    assert_ok(gy_copier_flush(f->copier, &small, queue, &options));
    gantry_copy_queue_destroy(queue);
    options.htod_blocks = 65;
    assert_int_equal(gy_copier_launch(f->copier, &small, descs, COUNT, &options),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "host_blocks is 65"));
    options.htod_blocks = 0;
    options.priority = (gantry_copy_priority)2;
    assert_int_equal(gy_copier_launch(f->copier, &small, descs, COUNT, &options),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "priority 2"));
    options.struct_size = 4;
    assert_int_equal(gy_copier_launch(f->copier, &small, descs, COUNT, &options),
                     GANTRY_ERR_INVALID_ARGUMENT);
    assert_device_is_image(f);
}

static void test_calibration_measures_and_leaves_copies_right(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(gy_copier_calibrate(f->copier, 1000), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gy_copier_tuning(f->copier).measured, 0);
    assert_ok(gy_copier_calibrate(f->copier, 128 * 1024));
    gantry_copy_tuning tuning = gy_copier_tuning(f->copier);
    assert_int_equal(tuning.measured, 1);
    for (int d = 0; d < 3; d++) {
        for (int c = 3; c < GANTRY_COPY_SIZE_CLASSES; c++) { /* it did not fit */
            assert_int_equal(tuning.engine_up_to[d][c], tuning.engine_up_to[d][2]);
        }
    }
    const gantry_copy_desc desc = copy(at(f->device, 5), at(f->pinned, 77), 300000, GANTRY_COPY_HTOD);
    launch(f, &desc, 1);
    memcpy(f->image + 5, at(f->pinned, 77), 300000);
    assert_device_is_image(f);
}

static void test_failed_calibration_changes_nothing(void **state)
{
    struct fixture *f = emulated_only(state);
    static const char *const calls[] = {"cuMemAlloc", "cuMemHostAlloc", "cuStreamCreate", "cuLaunchKernel"};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        int64_t blocks = f->emu.live(GANTRY_EMU_LIVE_DEVICE_BLOCKS);
        assert_int_equal((f->emu.fail)(calls[i], 1, CUDA_ERROR_UNKNOWN, GANTRY_EMU_ONCE), 0);
        assert_int_equal(gy_copier_calibrate(f->copier, 128 * 1024), GANTRY_ERR_DRIVER);
        assert_int_equal(f->emu.live(GANTRY_EMU_LIVE_DEVICE_BLOCKS), blocks);
        assert_int_equal(gy_copier_tuning(f->copier).measured, 0);
    }
}

/* ---- without memory ---- */

static void test_a_copier_that_cannot_begin_leaves_nothing(void **state)
{
    struct fixture *f = emulated_only(state);
    static const char *const calls[] = {"cuMemcpyHtoDAsync", "cuStreamSynchronize"};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        struct gy_copier *copier = NULL;
        gantry_heap_stats before = {.struct_size = sizeof(before)}, after = before;
        assert_ok(gantry_heap_get_stats(f->heap, GANTRY_MEMORY_DEVICE, &before));
        long live = gy_alloc_live();
        assert_int_equal((f->emu.fail)(calls[i], 1, CUDA_ERROR_INVALID_VALUE, GANTRY_EMU_ONCE), 0);
        assert_int_equal(gy_copier_create(f->context, f->heap, &copier), GANTRY_ERR_DRIVER);
        assert_null(copier);
        assert_ok(gantry_heap_get_stats(f->heap, GANTRY_MEMORY_DEVICE, &after));
        assert_int_equal(after.block_count, before.block_count);
        assert_int_equal(gy_alloc_live(), live);
    }
}

/* A batch does not fit into a kernel's arguments, and there is no memory for it: the call says so, and the
 * next one works. */
static void test_a_batch_without_memory_for_its_descriptors(void **state)
{
    struct fixture *f = emulated_only(state);
    enum { COUNT = 600 };
    static gantry_copy_desc descs[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        descs[i] = fill(at(f->device, 100 * i), 40, 0x01010101u);
    }
    gantry_heap_settings settings = {.struct_size = sizeof(settings)}, full = settings;
    assert_ok(gantry_heap_get_settings(f->heap, GANTRY_MEMORY_PINNED, &settings));
    gantry_heap_stats stats = {.struct_size = sizeof(stats)};
    assert_ok(gantry_heap_get_stats(f->heap, GANTRY_MEMORY_PINNED, &stats));
    full = settings;
    full.limit_bytes = stats.slab_bytes;
    assert_ok(gantry_heap_configure(f->heap, GANTRY_MEMORY_PINNED, &full));
    void *blocks[4096];
    size_t count = 0;
    while (count < 4096 && gantry_heap_alloc(f->heap, GANTRY_MEMORY_PINNED, 8192, 0, GANTRY_ALLOC_SITE("all"),
                                             &blocks[count]) == GANTRY_OK) {
        count++;
    }
    assert_int_equal(try_launch(f, descs, COUNT), GANTRY_ERR_OUT_OF_DEVICE_MEMORY);
    assert_device_is_image(f);
    while (count > 0) {
        assert_ok(gantry_heap_free(f->heap, blocks[--count]));
    }
    assert_ok(gantry_heap_configure(f->heap, GANTRY_MEMORY_PINNED, &settings));
    launch(f, descs, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        memset(f->image + 100 * (size_t)i, 1, 40);
    }
    assert_device_is_image(f);
}

/* ---- capture ---- */

static void launch_graph(struct fixture *f, CUgraph graph)
{
    CUgraphExec exec;
    assert_ok(GY_CALL(f->context, cuGraphInstantiateWithFlags(&exec, graph, 0)));
    assert_ok(GY_CALL(f->context, cuGraphLaunch(exec, f->stream)));
    assert_ok(gy_copier_capture_launched(f->copier, f->stream));
    synchronize(f);
    assert_ok(GY_CALL(f->context, cuGraphExecDestroy(exec)));
    assert_ok(GY_CALL(f->context, cuGraphDestroy(graph)));
}

static void test_batches_of_every_form_are_captured(void **state)
{
    struct fixture *f = *state;
    enum { COUNT = 600 };
    static gantry_copy_desc descs[COUNT];
    for (int round = 0; round < 3; round++) {
        CUgraph graph;
        size_t next = 0;
        assert_ok(GY_CALL(f->context, cuStreamBeginCapture(f->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)));
        gy_copier_begin_capture(f->copier);
        static const size_t counts[] = {3, 100, COUNT, 1};
        static const uint64_t sizes[] = {50, 50, 50, 400000}; /* an engine does the last one */
        for (int form = 0; form < 4; form++) {
            for (size_t i = 0; i < counts[form]; i++, next += sizes[form] + 1) {
                size_t from = random_below(ARENA - sizes[form]);
                descs[i] = copy(at(f->device, next), at(f->pinned, from), sizes[form], GANTRY_COPY_HTOD);
                memcpy(f->image + next, at(f->pinned, from), sizes[form]);
            }
            launch(f, descs, counts[form]);
        }
        assert_ok(GY_CALL(f->context, cuStreamEndCapture(f->stream, &graph)));
        launch_graph(f, graph);
        assert_device_is_image(f);
    }
}

static void test_dropped_capture_gives_its_memory_back(void **state)
{
    struct fixture *f = *state;
    enum { COUNT = 600 };
    static gantry_copy_desc descs[COUNT];
    uint64_t blocks = 0;
    for (size_t i = 0; i < COUNT; i++) {
        descs[i] = fill(at(f->device, 100 * i), 40, (uint32_t)i);
    }
    for (int round = 0; round < 3; round++) {
        CUgraph graph;
        assert_ok(GY_CALL(f->context, cuStreamBeginCapture(f->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)));
        gy_copier_begin_capture(f->copier);
        launch(f, descs, COUNT);
        launch(f, descs, COUNT);
        assert_ok(GY_CALL(f->context, cuStreamEndCapture(f->stream, &graph)));
        gy_copier_capture_dropped(f->copier);
        assert_ok(GY_CALL(f->context, cuGraphDestroy(graph)));
        gantry_heap_stats stats = {.struct_size = sizeof(stats)};
        assert_ok(gantry_heap_get_stats(f->heap, GANTRY_MEMORY_PINNED, &stats));
        assert_true(round == 0 || stats.block_count == blocks);
        blocks = stats.block_count;
    }
    assert_device_is_image(f); /* nothing was done */
}

/* Descriptors that do not fit into a kernel's arguments lie in memory that the graph reads when it runs: the
 * next batch gets other memory until then. */
static void test_descriptors_stay_until_their_graph_has_run(void **state)
{
    struct fixture *f = emulated_only(state);
    enum { COUNT = 600, BATCHES = 3 };
    static gantry_copy_desc descs[COUNT];
    CUgraphExec execs[BATCHES];
    CUgraph graphs[BATCHES];
    for (int warm = 0; warm < 2; warm++) { /* the second time there is memory of earlier batches */
        f->emu.hold();
        for (uint32_t batch = 0; batch < BATCHES; batch++) {
            assert_ok(
                GY_CALL(f->context, cuStreamBeginCapture(f->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)));
            gy_copier_begin_capture(f->copier);
            for (uint32_t i = 0; i < COUNT; i++) {
                uint32_t place = (batch * COUNT + i) * 100,
                         pattern = 0x01010101u * (10u * (uint32_t)warm + batch + 1);
                descs[i] = fill(at(f->device, place), 40, pattern);
                memset(f->image + place, (int)(pattern & 0xff), 40);
            }
            launch(f, descs, COUNT);
            assert_ok(GY_CALL(f->context, cuStreamEndCapture(f->stream, &graphs[batch])));
            assert_ok(GY_CALL(f->context, cuGraphInstantiateWithFlags(&execs[batch], graphs[batch], 0)));
            assert_ok(GY_CALL(f->context, cuGraphLaunch(execs[batch], f->stream)));
            assert_ok(gy_copier_capture_launched(f->copier, f->stream));
        }
        f->emu.release();
        assert_device_is_image(f);
        for (uint32_t batch = 0; batch < BATCHES; batch++) {
            assert_ok(GY_CALL(f->context, cuGraphExecDestroy(execs[batch])));
            assert_ok(GY_CALL(f->context, cuGraphDestroy(graphs[batch])));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_queued_copies_act_as_if_one_after_the_other),
        WITH_FIXTURE(test_queue_keeps_patterns_and_launches_once_without_conflicts),
        WITH_FIXTURE(test_queue_refuses_what_is_wrong_and_keeps_the_rest),
        WITH_FIXTURE(test_failed_flush_keeps_what_was_not_launched),
        WITH_FIXTURE(test_queue_survives_every_allocation_failure),
        WITH_FIXTURE(test_large_copies_go_to_the_engines_and_neighbours_count_as_one),
        WITH_FIXTURE(test_limited_blocks_do_everything_too),
        WITH_FIXTURE(test_options_of_a_call_limit_blocks_and_lower_the_priority),
        WITH_FIXTURE(test_calibration_measures_and_leaves_copies_right),
        WITH_FIXTURE(test_failed_calibration_changes_nothing),
        WITH_FIXTURE(test_a_copier_that_cannot_begin_leaves_nothing),
        WITH_FIXTURE(test_a_batch_without_memory_for_its_descriptors),
        WITH_FIXTURE(test_batches_of_every_form_are_captured),
        WITH_FIXTURE(test_dropped_capture_gives_its_memory_back),
        WITH_FIXTURE(test_descriptors_stay_until_their_graph_has_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
