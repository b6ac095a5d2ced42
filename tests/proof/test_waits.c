/* SPDX-License-Identifier: MIT */
/* GANTRY_CHECK=edges in a program that waits by the driver's own functions: that is an order of what was
 * launched before by what the waiter comes after, and of nothing else. */
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"
#include "tests/support/log_lines.h"

#include "driver/funcs.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define F(need, member, symbol, prototype) CUresult symbol prototype;
GY_DRIVER_FUNCS(F)
#undef F

enum { WORDS = 256, BYTES = WORDS * 4 };
static const char MISSING[] = "no edge leads from task ";

/* What is waited for. */
enum way {
    NOTHING,
    STREAM,
    STREAM_QUERY,
    EVENT,
    EVENT_QUERY,
    CONTEXT,
    OTHER_STREAM,
    OTHER_EVENT,
    STREAM_WAITS, /* the stream of the callback, for the event */
    WAYS
};
static const bool is_order[WAYS] = {false, true, true, true, true, true, false, false, true};

struct scene {
    struct gpu_fixture f;
    uint32_t *on_device, *on_host;
    CUstream stream, other; /* of the latest callback, and one of the program's */
    CUcontext context;
    CUevent event, other_event; /* behind the copy, and before it */
    enum way way;
    uint32_t sum;
};
static struct scene scene;

static const char *label(const char *name)
{
    static char labels[200][24];
    static int count;
    assert_true(count < 200);
    snprintf(labels[count], sizeof(labels[0]), "%s-%d", name, count);
    return labels[count++];
}

static CUresult until_done(CUresult (*ask)(void))
{
    CUresult result;
    do {
        result = ask();
    } while (result == CUDA_ERROR_NOT_READY);
    return result;
}

static CUresult ask_stream(void)
{
    return cuStreamQuery(scene.stream);
}

static CUresult ask_event(void)
{
    return cuEventQuery(scene.event);
}

static CUresult synchronize_context(void)
{
    const CUresult result = cuCtxPushCurrent_v2(scene.context);
    CUcontext popped;
    return result != CUDA_SUCCESS                                    ? result
           : (cuCtxSynchronize() | cuCtxPopCurrent_v2(&popped)) == 0 ? CUDA_SUCCESS
                                                                     : CUDA_ERROR_UNKNOWN;
}

/* `own`: the stream of the callback that waits; NULL: none does. */
static bool wait_for(enum way way, CUstream own)
{
    switch (way) {
    case STREAM:
        return cuStreamSynchronize(scene.stream) == CUDA_SUCCESS;
    case STREAM_QUERY:
        return until_done(ask_stream) == CUDA_SUCCESS;
    case EVENT:
        return cuEventSynchronize(scene.event) == CUDA_SUCCESS;
    case EVENT_QUERY:
        return until_done(ask_event) == CUDA_SUCCESS;
    case CONTEXT:
        return synchronize_context() == CUDA_SUCCESS;
    case OTHER_STREAM:
        return cuStreamSynchronize(scene.other) == CUDA_SUCCESS;
    case OTHER_EVENT:
        return cuEventSynchronize(scene.other_event) == CUDA_SUCCESS;
    case STREAM_WAITS:
        return cuStreamWaitEvent(own, scene.event, 0) == CUDA_SUCCESS;
    default:
        return true;
    }
}

/* Copies to the host, between two events. */
static gantry_launch_result download(gantry_launch *launch, void *arg)
{
    (void)arg;
    CUstream stream = gantry_launch_stream(launch);
    const bool is_done =
        stream != NULL && cuEventRecord(scene.other_event, stream) == CUDA_SUCCESS &&
        gantry_launch_copy_dtoh(launch, scene.on_host, scene.on_device, BYTES) == GANTRY_OK &&
        cuEventRecord(scene.event, stream) == CUDA_SUCCESS &&
        cuStreamGetCtx(stream, &scene.context) == CUDA_SUCCESS;
    scene.stream = stream;
    return is_done ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_status wait_and_read(gantry_task *task, void *arg)
{
    (void)task, (void)arg;
    const bool has_waited = wait_for(scene.way, NULL);
    for (uint32_t i = 0; i < WORDS; i++) {
        scene.sum += scene.on_host[i];
    }
    return has_waited ? GANTRY_OK : GANTRY_ERR_TASK_FAILED;
}

static gantry_task *submit_download(void)
{
    return gpu_fixture_gpu(&scene.f, GANTRY_TASK_DTOH, label("download"), download, NULL);
}

static gantry_task *submit_reader(void)
{
    return gpu_fixture_cpu(&scene.f, label("reader"), wait_and_read, NULL);
}

/* A body comes after the callback alone. */
static void test_a_body_waits(void **state)
{
    (void)state;
    for (int way = 0; way < STREAM_WAITS; way++) {
        struct log_lines lines;
        scene.way = (enum way)way;
        log_lines_begin(&lines, MISSING);
        gpu_fixture_after(submit_reader(), submit_download());
        assert_int_equal(gpu_fixture_step(&scene.f), GANTRY_OK);
        if (log_lines_end(&lines) != !is_order[way]) {
            fail_msg("way %d", way);
        }
    }
}

/* The body of a later step reads, and the main thread waits between the two. */
static void test_the_main_thread_waits(void **state)
{
    (void)state;
    for (int way = 0; way < STREAM_WAITS; way++) {
        struct log_lines lines;
        log_lines_begin(&lines, MISSING);
        (void)submit_download();
        assert_int_equal(gpu_fixture_step(&scene.f), GANTRY_OK);
        assert_true(wait_for((enum way)way, NULL));
        scene.way = NOTHING;
        (void)submit_reader();
        assert_int_equal(gpu_fixture_step(&scene.f), GANTRY_OK);
        if (log_lines_end(&lines) != !is_order[way]) {
            fail_msg("way %d", way);
        }
    }
}

static void *run_step(void *user)
{
    (void)user;
    (void)submit_download();
    return gpu_fixture_step(&scene.f) == GANTRY_OK ? &scene : NULL;
}

/* The thread that waits has not seen the step of the launch end: that it ran earlier is chance. */
static void test_who_waits_does_not_come_after(void **state)
{
    (void)state;
    for (int is_after = 0; is_after < 2; is_after++) {
        gantry_taskman_options options = {sizeof(options),
                                          .gpu_dispatcher = gantry_context_dispatcher(scene.f.context),
                                          .cpu_dispatcher = scene.f.cpus};
        gantry_taskman *manager;
        pthread_t thread;
        void *result;
        struct log_lines lines;
        log_lines_begin(&lines, MISSING);
        assert_int_equal(gantry_taskman_create(&options, &manager), GANTRY_OK);
        if (is_after != 0) {
            result = run_step(NULL);
        } else {
            assert_int_equal(pthread_create(&thread, NULL, run_step, NULL), 0);
            assert_int_equal(pthread_join(thread, &result), 0);
        }
        assert_non_null(result);
        assert_true(wait_for(STREAM, NULL));
        scene.way = NOTHING;
        struct gpu_fixture own = scene.f;
        own.manager = manager;
        (void)gpu_fixture_cpu(&own, label("reader"), wait_and_read, NULL);
        assert_int_equal(gpu_fixture_step(&own), GANTRY_OK);
        assert_int_equal(log_lines_end(&lines), is_after == 0);
        gantry_taskman_destroy(manager);
    }
}

/* A callback that fills what was copied from, after the wait or before it. */
static gantry_launch_result wait_and_fill(gantry_launch *launch, void *arg)
{
    const bool *is_late = arg;
    CUstream stream = gantry_launch_stream(launch);
    bool is_done = *is_late || wait_for(scene.way, stream);
    is_done &= gantry_launch_fill(launch, scene.on_device, 0, 4, WORDS) == GANTRY_OK;
    is_done &= !*is_late || wait_for(scene.way, stream);
    return is_done ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static void test_a_callback_waits(void **state)
{
    (void)state;
    gantry_taskman_options options = {sizeof(options),
                                      .gpu_dispatcher = gantry_context_dispatcher(scene.f.context),
                                      .independent_steps = 1};
    struct gpu_fixture own = scene.f;
    assert_int_equal(gantry_taskman_create(&options, &own.manager), GANTRY_OK);
    for (int way = 0; way < WAYS; way++) {
        for (int late = 0; late < 2; late++) {
            bool is_late = late != 0;
            struct log_lines lines;
            log_lines_begin(&lines, MISSING);
            (void)gpu_fixture_gpu(&own, GANTRY_TASK_DTOH, label("download"), download, NULL);
            assert_int_equal(gpu_fixture_step(&own), GANTRY_OK);
            scene.way = (enum way)way;
            (void)gpu_fixture_gpu(&own, GANTRY_TASK_KERNEL, label("fill"), wait_and_fill, &is_late);
            assert_int_equal(gpu_fixture_step(&own), GANTRY_OK);
            if (log_lines_end(&lines) != (is_late || !is_order[way])) {
                fail_msg("way %d, late %d", way, late);
            }
            assert_int_equal(gantry_context_synchronize(scene.f.context), GANTRY_OK);
        }
    }
    gantry_taskman_destroy(own.manager);
}

/* A callback that reads what it has copied itself.  Without a wait it may read before the copy, which then is
 * no race. */
static gantry_launch_result download_and_read(gantry_launch *launch, void *arg)
{
    const gantry_launch_result result = download(launch, arg);
    return wait_and_read(NULL, NULL) == GANTRY_OK ? result : GANTRY_LAUNCH_FAILED;
}

static void test_a_callback_waits_for_itself(void **state)
{
    (void)state;
    for (int way = STREAM; way <= CONTEXT; way++) {
        struct log_lines lines;
        scene.way = (enum way)way;
        log_lines_begin(&lines, MISSING);
        (void)gpu_fixture_gpu(&scene.f, GANTRY_TASK_DTOH, label("download"), download_and_read, NULL);
        assert_int_equal(gpu_fixture_step(&scene.f), GANTRY_OK);
        if (log_lines_end(&lines) != 0) {
            fail_msg("way %d", way);
        }
    }
}

/* What a partition's streams get comes after an event, if the program says so. */
static void test_a_partition_waits(void **state)
{
    (void)state;
    gantry_partition *partition = gantry_partition_default(scene.f.context);
    gantry_taskman_options options = {sizeof(options),
                                      .gpu_dispatcher = gantry_context_dispatcher(scene.f.context),
                                      .independent_steps = 1};
    struct gpu_fixture own = scene.f;
    bool is_late = false;
    assert_int_equal(gantry_taskman_create(&options, &own.manager), GANTRY_OK);
    scene.way = NOTHING;
    for (int waits = 0; waits < 2; waits++) {
        struct log_lines lines;
        log_lines_begin(&lines, MISSING);
        (void)gpu_fixture_gpu(&own, GANTRY_TASK_DTOH, label("download"), download, NULL);
        assert_int_equal(gpu_fixture_step(&own), GANTRY_OK);
        assert_int_equal(gantry_partition_record_event(partition, scene.event), GANTRY_OK);
        if (waits != 0) {
            assert_int_equal(gantry_partition_wait_event(partition, scene.event), GANTRY_OK);
        }
        (void)gpu_fixture_gpu(&own, GANTRY_TASK_KERNEL, label("fill"), wait_and_fill, &is_late);
        assert_int_equal(gpu_fixture_step(&own), GANTRY_OK);
        assert_int_equal(log_lines_end(&lines), waits == 0);
        assert_int_equal(gantry_context_synchronize(scene.f.context), GANTRY_OK);
    }
    gantry_taskman_destroy(own.manager);
}

static uint32_t *block(gantry_memory_kind kind)
{
    void *out;
    assert_int_equal(gantry_heap_alloc(gantry_context_heap(scene.f.context), kind, BYTES, 0,
                                       GANTRY_ALLOC_SITE("block"), &out),
                     GANTRY_OK);
    return out;
}

static int setup(void **state)
{
    (void)state;
    setenv("GANTRY_CHECK", "edges,needless", 1);
    gpu_fixture_open(&scene.f, 2, 0);
    scene.on_device = block(GANTRY_MEMORY_DEVICE);
    scene.on_host = block(GANTRY_MEMORY_PINNED);
    assert_int_equal(gantry_context_acquire(scene.f.context), GANTRY_OK);
    assert_int_equal(cuEventCreate(&scene.event, 0), CUDA_SUCCESS);
    assert_int_equal(cuEventCreate(&scene.other_event, 0), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&scene.other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(gantry_context_release(scene.f.context), GANTRY_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    gantry_heap *heap = gantry_context_heap(scene.f.context);
    assert_int_equal(cuStreamDestroy_v2(scene.other), CUDA_SUCCESS);
    assert_int_equal(cuEventDestroy_v2(scene.event), CUDA_SUCCESS);
    assert_int_equal(cuEventDestroy_v2(scene.other_event), CUDA_SUCCESS);
    assert_int_equal(gantry_heap_free(heap, scene.on_device), GANTRY_OK);
    assert_int_equal(gantry_heap_free(heap, scene.on_host), GANTRY_OK);
    gpu_fixture_close(&scene.f);
    return 0;
}

/* Without the edge from the launch the wait would be no order, so bytes need the edge. */
static void test_an_edge_that_a_wait_needs(void **state)
{
    struct log_lines lines;
    scene.way = STREAM;
    log_lines_begin(&lines, "no bytes need the edge from task 'launched");
    gpu_fixture_after(submit_reader(),
                      gpu_fixture_gpu(&scene.f, GANTRY_TASK_DTOH, label("launched"), download, NULL));
    assert_int_equal(gpu_fixture_step(&scene.f), GANTRY_OK);
    teardown(state); /* when the last manager goes, edges that nothing needs are told */
    assert_int_equal(log_lines_end(&lines), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_body_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_main_thread_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_who_waits_does_not_come_after, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_callback_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_callback_waits_for_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_partition_waits, setup, teardown),
        cmocka_unit_test_setup(test_an_edge_that_a_wait_needs, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
