/* SPDX-License-Identifier: MIT */
/* GANTRY_CHECK=edges with instrumented kernels and bodies: a double-buffered pipeline with each of its edges
 * left out in turn, atomics, shared memory, and a stamp that is one byte off. */
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"
#include "tests/support/log_lines.h"

#include "pipeline_kernels.kernels.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 512, BYTES = WORDS * 4, THREADS = 64, FRAMES = 6, BUFFERS = 2, STAGES = 5 };
enum { PRODUCE, UPLOAD, SCALE, DOWNLOAD, CONSUME };
static const char MISSING[] = "no edge leads from task ";
static const char *const stage_names[STAGES] = {"produce", "upload", "scale", "download", "consume"};

struct scene {
    struct gpu_fixture f;
    gantry_module *module;
    gantry_kernel *scale, *sum, *stamp;
    uint32_t *in[BUFFERS], *out[BUFFERS];               /* pinned */
    uint32_t *device_in[BUFFERS], *device_out[BUFFERS]; /* on the device */
};
static struct scene scene;

/* One stage of one frame. */
struct stage {
    int kind;
    uint32_t frame;
    uint64_t sum; /* what CONSUME has found */
};

static gantry_status run_stage(gantry_task *task, void *arg)
{
    (void)task;
    struct stage *stage = arg;
    uint32_t *words = (stage->kind == PRODUCE ? scene.in : scene.out)[stage->frame % BUFFERS];
    for (uint32_t i = 0; i < WORDS; i++) {
        if (stage->kind == PRODUCE) {
            words[i] = stage->frame + i;
        } else {
            stage->sum += words[i];
        }
    }
    return GANTRY_OK;
}

static gantry_launch_result launch_stage(gantry_launch *launch, void *arg)
{
    const struct stage *stage = arg;
    const uint32_t at = stage->frame % BUFFERS;
    void *args[] = {&scene.device_out[at], &scene.device_in[at], &(uint32_t){WORDS}, &(uint32_t){3}};
    gantry_status status = GANTRY_OK;
    if (stage->kind == UPLOAD) {
        status = gantry_launch_copy_htod(launch, scene.device_in[at], scene.in[at], BYTES);
    } else if (stage->kind == DOWNLOAD) {
        status = gantry_launch_copy_dtoh(launch, scene.out[at], scene.device_out[at], BYTES);
    } else {
        status = gantry_launch_kernel(launch, scene.scale, (gantry_dim3){WORDS / THREADS, 1, 1},
                                      (gantry_dim3){THREADS, 1, 1}, 0, args);
    }
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static const char *label(const char *name)
{
    static char labels[400][24];
    static int count;
    assert_true(count < 400);
    snprintf(labels[count], sizeof(labels[0]), "%s-%d", name, count);
    return labels[count++];
}

static void edge(gantry_task *from, gantry_task *to, bool waits)
{
    assert_int_equal(waits ? gantry_task_start_after_done(to, from) : gantry_task_start_after(to, from),
                     GANTRY_OK);
}

/* Edges 0 to 3 lead from a stage to the next one of its frame; the hazards, 4 to 7, to the stage before of
 * the frame that gets the buffer next. */
enum { HAZARDS = STAGES - 1, EDGES = HAZARDS + STAGES - 1 };

/* Run the pipeline without the edges of one kind (-1: with all).  Returns the lines. */
static uint32_t run_pipeline(int without)
{
    struct stage stages[FRAMES][STAGES];
    gantry_task *tasks[FRAMES][STAGES];
    const char *names[STAGES];
    for (int kind = 0; kind < STAGES; kind++) {
        names[kind] = label(stage_names[kind]);
    }
    struct log_lines lines;
    log_lines_begin(&lines, MISSING);
    for (uint32_t frame = 0; frame < FRAMES; frame++) {
        for (int kind = 0; kind < STAGES; kind++) {
            struct stage *stage = &stages[frame][kind];
            *stage = (struct stage){kind, frame, 0};
            tasks[frame][kind] =
                kind == PRODUCE || kind == CONSUME
                    ? gpu_fixture_cpu(&scene.f, names[kind], run_stage, stage)
                    : gpu_fixture_gpu(&scene.f, (gantry_task_kind)(GANTRY_TASK_HTOD + kind - 1), names[kind],
                                      launch_stage, stage);
            if (kind > 0 && kind - 1 != without) {
                edge(tasks[frame][kind - 1], tasks[frame][kind], kind == CONSUME);
            }
            if (frame >= BUFFERS && kind > 0 && HAZARDS + kind - 1 != without) {
                edge(tasks[frame - BUFFERS][kind], tasks[frame][kind - 1], kind == UPLOAD);
            }
        }
    }
    assert_int_equal(gpu_fixture_step(&scene.f), GANTRY_OK);
    const uint32_t found = log_lines_end(&lines);
    assert_int_equal(gantry_context_synchronize(scene.f.context), GANTRY_OK);
    if (without < 0) {
        for (uint32_t frame = 0; frame < FRAMES; frame++) {
            const uint64_t sum = 3 * (WORDS * (uint64_t)frame + (uint64_t)WORDS * (WORDS - 1) / 2);
            assert_int_equal(stages[frame][CONSUME].sum, sum);
        }
    }
    return found;
}

static uint32_t *block(gantry_memory_kind kind)
{
    void *out;
    assert_int_equal(gantry_heap_alloc(gantry_context_heap(scene.f.context), kind, BYTES, 0,
                                       GANTRY_ALLOC_SITE("buffer"), &out),
                     GANTRY_OK);
    return out;
}

static int setup(void **state)
{
    (void)state;
    setenv("GANTRY_CHECK", "edges", 1);
    gpu_fixture_open(&scene.f, 2, 0);
    assert_int_equal(gantry_module_load(scene.f.context, &gantry_image_pipeline_kernels, &scene.module),
                     GANTRY_OK);
    assert_int_equal(gantry_module_get_kernel(scene.module, "pipeline_scale", &scene.scale), GANTRY_OK);
    assert_int_equal(gantry_module_get_kernel(scene.module, "pipeline_sum", &scene.sum), GANTRY_OK);
    assert_int_equal(gantry_module_get_kernel(scene.module, "pipeline_stamp", &scene.stamp), GANTRY_OK);
    for (int i = 0; i < BUFFERS; i++) {
        scene.in[i] = block(GANTRY_MEMORY_PINNED);
        scene.out[i] = block(GANTRY_MEMORY_PINNED);
        scene.device_in[i] = block(GANTRY_MEMORY_DEVICE);
        scene.device_out[i] = block(GANTRY_MEMORY_DEVICE);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    gantry_heap *heap = gantry_context_heap(scene.f.context);
    for (int i = 0; i < BUFFERS; i++) {
        assert_int_equal(gantry_heap_free(heap, scene.in[i]), GANTRY_OK);
        assert_int_equal(gantry_heap_free(heap, scene.out[i]), GANTRY_OK);
        assert_int_equal(gantry_heap_free(heap, scene.device_in[i]), GANTRY_OK);
        assert_int_equal(gantry_heap_free(heap, scene.device_out[i]), GANTRY_OK);
    }
    gpu_fixture_close(&scene.f);
    return 0;
}

static void test_each_edge_is_missed(void **state)
{
    (void)state;
    assert_int_equal(run_pipeline(-1), 0);
    for (int without = 0; without < EDGES; without++) {
        if (run_pipeline(without) == 0) {
            fail_msg("edge %d of %d was left out, and nothing was found", without, EDGES);
        }
    }
    assert_int_equal(run_pipeline(-1), 0);
}

/* A launch of the kernel with these arguments. */
struct one {
    gantry_kernel *kernel;
    void *args[4];
};

static gantry_launch_result launch_one(gantry_launch *launch, void *arg)
{
    struct one *one = arg;
    return gantry_launch_kernel(launch, one->kernel, (gantry_dim3){WORDS / THREADS, 1, 1},
                                (gantry_dim3){THREADS, 1, 1}, 0, one->args) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_task *task_of(struct one *one, const char *name)
{
    return gpu_fixture_gpu(&scene.f, GANTRY_TASK_KERNEL, name, launch_one, one);
}

/* Three tasks add to one cell; a fourth reads it, behind all of them or all but one. */
static void test_atomics(void **state)
{
    (void)state;
    uint32_t count = WORDS, one_word = 1, factor = 1;
    for (int missing = 0; missing < 2; missing++) {
        struct one add = {scene.sum, {&scene.device_in[0], &count, &scene.device_out[0]}};
        struct one read = {scene.scale, {&scene.device_out[1], &scene.device_out[0], &one_word, &factor}};
        struct log_lines lines;
        log_lines_begin(&lines, MISSING);
        gantry_task *reader = task_of(&read, label("reader"));
        for (int i = 0; i < 3; i++) {
            gantry_task *adder = task_of(&add, label("adder"));
            if (i != 1 || missing == 0) {
                gpu_fixture_after(reader, adder);
            }
        }
        assert_int_equal(gpu_fixture_step(&scene.f), GANTRY_OK);
        assert_int_equal(log_lines_end(&lines), missing);
    }
}

/* Neighbours that share no byte, and such that share one. */
static void test_a_stamp_one_byte_off(void **state)
{
    (void)state;
    for (uint32_t off = 0; off < 2; off++) {
        uint32_t count = 101, starts[] = {0, 101 - off};
        struct one stamps[2];
        struct log_lines lines;
        log_lines_begin(&lines, off != 0 ? "byte 100 of the block 'buffer'" : MISSING);
        for (int i = 0; i < 2; i++) {
            stamps[i] = (struct one){scene.stamp, {&scene.device_in[0], &count, &starts[i]}};
            (void)task_of(&stamps[i], label("stamp"));
        }
        assert_int_equal(gpu_fixture_step(&scene.f), GANTRY_OK);
        assert_int_equal(log_lines_end(&lines), off);
    }
}

/* Two threads meet in a loop; the one that helps writes what another task does, too. */
struct shared_loop {
    pthread_t owner;
    atomic_int inside;
};

static gantry_status run_half(size_t begin, size_t end, void *arg)
{
    (void)begin, (void)end;
    struct shared_loop *loop = arg;
    atomic_fetch_add(&loop->inside, 1);
    while (atomic_load(&loop->inside) < 2) {
        sched_yield();
    }
    if (!pthread_equal(pthread_self(), loop->owner)) {
        scene.in[0][0] = 1;
    }
    return GANTRY_OK;
}

static gantry_status run_loop(gantry_task *task, void *arg)
{
    struct shared_loop *loop = arg;
    loop->owner = pthread_self();
    return gantry_parallel_for(gantry_taskman_cpu_dispatcher(gantry_task_manager(task)), 0, 2, 1, run_half,
                               loop);
}

static void test_a_loop_that_is_helped(void **state)
{
    (void)state;
    struct shared_loop loop = {.inside = 0};
    struct stage upload = {UPLOAD, 0, 0};
    struct log_lines lines;
    log_lines_begin(&lines, MISSING);
    (void)gpu_fixture_cpu(&scene.f, label("loop"), run_loop, &loop);
    (void)gpu_fixture_gpu(&scene.f, GANTRY_TASK_HTOD, label("beside"), launch_stage, &upload);
    assert_int_equal(gpu_fixture_step(&scene.f), GANTRY_OK);
    assert_int_equal(log_lines_end(&lines), 1);
}

/* A body that has the C library write what it is given, or read it. */
enum call { MEMSET, MEMCPY, MEMMOVE, FREAD, MEMCMP, FWRITE, CALLS };

static gantry_status run_call(gantry_task *task, void *arg)
{
    static unsigned char own[BYTES];
    static volatile size_t bytes = BYTES; /* so that no compiler writes the loop itself */
    FILE *file = fopen("/dev/zero", "r+");
    size_t done = bytes;
    (void)task;
    switch (*(const enum call *)arg) {
    case MEMSET:
        memset(scene.in[0], 1, bytes);
        break;
    case MEMCPY:
        memcpy(scene.in[0], own, bytes);
        break;
    case MEMMOVE:
        memmove(scene.in[0], own, bytes);
        break;
    case FREAD:
        done = fread(scene.in[0], 1, bytes, file);
        break;
    case MEMCMP:
        done += memcmp(scene.in[0], own, bytes) == INT_MIN; /* so that no compiler finds that nobody asks */
        break;
    default:
        done = fwrite(scene.in[0], 1, bytes, file);
        break;
    }
    return fclose(file) == 0 && done == bytes ? GANTRY_OK : GANTRY_ERR_TASK_FAILED;
}

/* Each beside a write of the same bytes; the last two beside each other, which is no race. */
static void test_calls_of_the_c_library(void **state)
{
    (void)state;
    enum call calls[] = {MEMSET, MEMCPY, MEMMOVE, FREAD, MEMCMP, FWRITE};
    for (int with = 0; with <= CALLS; with++) {
        struct log_lines lines;
        log_lines_begin(&lines, MISSING);
        (void)gpu_fixture_cpu(&scene.f, label("call"), run_call, &calls[with < CALLS ? with : MEMCMP]);
        (void)gpu_fixture_cpu(&scene.f, label("other"), run_call,
                              &calls[with < CALLS ? (int)MEMSET : FWRITE]);
        assert_int_equal(gpu_fixture_step(&scene.f), GANTRY_OK);
        if (log_lines_end(&lines) != (with < CALLS)) {
            fail_msg("call %d", with);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_edge_is_missed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_atomics, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_stamp_one_byte_off, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_loop_that_is_helped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_calls_of_the_c_library, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
