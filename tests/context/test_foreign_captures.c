/* SPDX-License-Identifier: MIT */
/* The application captures a stream of its own, in each mode, and meanwhile the library does each kind of
 * thing, on another thread or on the one that captures.  Whatever it does works, or is refused by name; the
 * capture ends well, its graph runs right, and the context goes on. */
#include "tests/context/foreign_scene.h"
#include "tests/support/deadline.h"

#include "order_kernels.kernels.h"

#include "context/context.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DESCS = 300, RUNS = 4 };

const struct gy_driver *cu;
CUcontext primary;
static CUdevice device;

void must(CUresult result)
{
    assert_int_equal(result, CUDA_SUCCESS);
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static gantry_launch_result result_of(gantry_status status)
{
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_kernel(gantry_launch *launch, void *arg)
{
    const struct scene *s = arg;
    uint32_t *clock = s->scratch, *begin = s->scratch + 1, *end = s->scratch + 2, spins = 0;
    void *args[] = {&clock, &begin, &end, &spins};
    const gantry_dim3 one = {1, 1, 1};
    return result_of(gantry_launch_kernel(launch, s->stamp, one, one, 0, args));
}

static gantry_launch_result launch_in(gantry_launch *launch, void *arg)
{
    const struct scene *s = arg;
    return result_of(gantry_launch_copy_htod(launch, s->device, s->host, BYTES));
}

static gantry_launch_result launch_out(gantry_launch *launch, void *arg)
{
    const struct scene *s = arg;
    return result_of(gantry_launch_copy_dtoh(launch, s->host, s->device, BYTES));
}

static gantry_launch_result launch_fill(gantry_launch *launch, void *arg)
{
    const struct scene *s = arg;
    return result_of(gantry_launch_fill(launch, s->device, 7, 4, WORDS));
}

static gantry_launch_result launch_batch(gantry_launch *launch, void *arg)
{
    const struct scene *s = arg;
    gantry_copy_desc descs[DESCS];
    for (uint32_t i = 0; i < DESCS; i++) { /* every second word: none continues another */
        descs[i] = (gantry_copy_desc){
            .dest = s->device + 2 * i, .source = s->host + 2 * i, .bytes = 4, .type = GANTRY_COPY_HTOD};
    }
    return result_of(gantry_copy_launch(launch, descs, DESCS));
}

static gantry_launch_result launch_and_free(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    gantry_status status = GANTRY_OK;
    if (s->block != NULL) {
        status = gantry_launch_fill(launch, s->block, 1, 4, WORDS);
        status = status == GANTRY_OK ? gantry_free_after(s->block, launch) : status;
        s->block = NULL;
    }
    return result_of(status);
}

static gantry_launch_result launch_stream(gantry_launch *launch, void *arg)
{
    const struct scene *s = arg;
    CUstream stream = gantry_launch_stream(launch);
    return stream != NULL &&
                   cu->cuMemsetD32Async((CUdeviceptr)(uintptr_t)s->device, 7, WORDS, stream) == CUDA_SUCCESS
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_status nothing(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* The first failure of a step, which is reset in any case. */
static gantry_status run_step(gantry_taskman *manager)
{
    gantry_status status = gantry_taskman_start(manager);
    if (status == GANTRY_OK) {
        status = gantry_taskman_stop(manager);
    }
    return status;
}

/* Some steps of a few tasks in a row with this callback, and a CPU task behind the GPU's end. */
static gantry_status steps_of(struct scene *s, gantry_task_kind kind, gantry_launch_fn launch)
{
    gantry_status status = GANTRY_OK;
    for (int step = 0; step < 3 && status == GANTRY_OK; step++) {
        gantry_task *cpu = gpu_fixture_cpu(&s->gpu, "behind", nothing, NULL), *before = NULL;
        for (int i = 0; i < RUNS; i++) {
            gantry_task *task = gpu_fixture_gpu(&s->gpu, kind, "work", launch, s);
            if (before != NULL) {
                gpu_fixture_after(task, before);
            }
            before = task;
            assert_int_equal(gantry_task_start_after_done(cpu, task), GANTRY_OK);
        }
        status = run_step(s->gpu.manager);
        const gantry_status reset = gantry_taskman_reset(s->gpu.manager);
        status = status == GANTRY_OK ? reset : status;
    }
    return status;
}

gantry_status act_kernels(struct scene *s)
{
    return steps_of(s, GANTRY_TASK_KERNEL, launch_kernel);
}

static gantry_status act_copies(struct scene *s)
{
    const gantry_status status = steps_of(s, GANTRY_TASK_HTOD, launch_in);
    return status == GANTRY_OK ? steps_of(s, GANTRY_TASK_DTOH, launch_out) : status;
}

static gantry_status act_fills(struct scene *s)
{
    return steps_of(s, GANTRY_TASK_KERNEL, launch_fill);
}

static gantry_status act_batches(struct scene *s)
{
    return steps_of(s, GANTRY_TASK_HTOD, launch_batch);
}

static gantry_status act_stream(struct scene *s)
{
    return steps_of(s, GANTRY_TASK_KERNEL, launch_stream);
}

static gantry_status act_free_after(struct scene *s)
{
    return steps_of(s, GANTRY_TASK_KERNEL, launch_and_free);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static gantry_status act_allocate(struct scene *s)
{
    static const gantry_memory_kind kinds[] = {GANTRY_MEMORY_DEVICE, GANTRY_MEMORY_PINNED,
                                               GANTRY_MEMORY_WRITE_COMBINED};
    gantry_status status = GANTRY_OK;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && status == GANTRY_OK; i++) {
        void *small = NULL, *large = NULL;
        status = gantry_heap_alloc(s->heap, kinds[i], 100, 0, GANTRY_ALLOC_SITE("small"), &small);
        if (status == GANTRY_OK) {
            status = gantry_heap_alloc(s->heap, kinds[i], 40 << 20, 0, GANTRY_ALLOC_SITE("large"), &large);
            assert_int_equal(gantry_heap_free(s->heap, small), GANTRY_OK);
        }
        if (status == GANTRY_OK) {
            status = gantry_heap_free(s->heap, large);
        }
    }
    return status;
}

static gantry_status act_free(struct scene *s)
{
    const gantry_status status = gantry_heap_free(s->heap, s->block);
    s->block = NULL;
    return status;
}

static gantry_status act_out_of_memory(struct scene *s)
{
    void *block = NULL;
    const gantry_status status = gantry_heap_alloc(s->heap, GANTRY_MEMORY_DEVICE, (size_t)1 << 46, 0,
                                                   GANTRY_ALLOC_SITE("huge"), &block);
    return status == GANTRY_ERR_OUT_OF_DEVICE_MEMORY ? GANTRY_OK : GANTRY_ERR_DRIVER;
}

static gantry_status act_ask_memory(struct scene *s)
{
    uint64_t free_bytes = 0;
    return gantry_context_memory(s->gpu.context, &free_bytes, NULL);
}

/* ---- contexts, modules, plans, recordings ---------------------------------------------------------- */

static gantry_status create(gantry_context_mode mode, gantry_submission submission, gantry_context **out)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    options.mode = mode;
    options.submission = submission;
    return gantry_context_create(&options, out);
}

static gantry_status act_create_context(struct scene *s)
{
    return create(GANTRY_CONTEXT_PRIMARY, s->submission, &s->second);
}

static gantry_status act_destroy_context(struct scene *s)
{
    gantry_context *own = NULL;
    const gantry_status status = create(GANTRY_CONTEXT_OWN, s->submission, &own);
    gantry_context_destroy(own);
    gantry_context_destroy(s->second);
    s->second = NULL;
    return status;
}

static gantry_status act_module(struct scene *s)
{
    gantry_module *module = NULL;
    gantry_kernel *kernel = NULL;
    gantry_status status = gantry_module_load(s->gpu.context, &gantry_image_order_kernels, &module);
    if (status == GANTRY_OK) {
        status = gantry_module_get_kernel(module, "stamp", &kernel);
        gantry_module_unload(module);
    }
    return status;
}

gantry_status act_plan(struct scene *s)
{
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_partition_request requests[] = {
        {.struct_size = sizeof(requests[0]), .name = "some", .sm_count = 16},
        {.struct_size = sizeof(requests[0]), .name = "more", .sm_count = 16}};
    plan.requests = requests;
    plan.count = 2;
    gantry_status status = gantry_context_set_partitions(s->gpu.context, &plan);
    return status == GANTRY_OK ? act_kernels(s) : status;
}

static gantry_status act_stream_of_partition(struct scene *s)
{
    void *stream = NULL;
    gantry_status status = gantry_partition_create_stream(gantry_partition_default(s->gpu.context), &stream);
    if (status == GANTRY_OK) {
        must(cu->cuStreamDestroy(stream));
    }
    return status;
}

static gantry_status act_record(struct scene *s)
{
    char path[64];
    gantry_profile *profile = NULL;
    snprintf(path, sizeof(path), "/tmp/gantry-foreign-%ld.pftrace", (long)getpid());
    gantry_profile_options options = {.struct_size = sizeof(options), .path = path};
    gantry_status status = gantry_profile_start(&options, &profile);
    if (status != GANTRY_OK) {
        return status;
    }
    status = act_kernels(s);
    const gantry_status stopped = gantry_profile_stop(profile, NULL);
    (void)unlink(path);
    return status == GANTRY_OK ? stopped : status;
}

static gantry_status act_fleet(struct scene *s)
{
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    context.driver = gpu_fixture_driver();
    context.submission = s->submission;
    gantry_fleet_options options = GANTRY_FLEET_OPTIONS_INIT;
    options.context = &context;
    gantry_fleet *fleet = NULL;
    const gantry_status status = gantry_fleet_create(&options, &fleet);
    if (status == GANTRY_OK) {
        gantry_fleet_destroy(fleet);
    }
    return status;
}

/* ---- frozen graphs ---------------------------------------------------------------------------- */

static gantry_status run_frozen(struct scene *s, bool is_stable)
{
    gantry_task_desc gpu = GANTRY_TASK_DESC_INIT;
    gpu.kind = GANTRY_TASK_KERNEL;
    gpu.launch = launch_kernel;
    gpu.arg = s;
    gpu.is_stable = is_stable;
    gpu.label = "frozen";
    gantry_task *first = NULL, *then = NULL;
    assert_int_equal(gantry_taskman_submit(s->gpu.manager, &gpu, &first), GANTRY_OK);
    gpu.launch = launch_fill;
    assert_int_equal(gantry_taskman_submit(s->gpu.manager, &gpu, &then), GANTRY_OK);
    gpu_fixture_after(then, first);
    gpu_fixture_after(gpu_fixture_cpu(&s->gpu, "behind", nothing, NULL), then);
    gantry_status status = gantry_taskman_freeze(s->gpu.manager);
    for (int run = 0; run < RUNS && status == GANTRY_OK; run++) {
        status = gantry_taskman_run(s->gpu.manager, 1);
    }
    const gantry_status reset = gantry_taskman_reset(s->gpu.manager);
    return status == GANTRY_OK ? reset : status;
}

static gantry_status act_frozen(struct scene *s)
{
    return run_frozen(s, false);
}

static gantry_status act_stable(struct scene *s)
{
    return run_frozen(s, true);
}

/* A loop whose word is 0 after the first turn. */
static gantry_launch_result launch_turn(gantry_launch *launch, void *arg)
{
    const struct scene *s = arg;
    return result_of(gantry_launch_fill(launch, s->scratch + 8, 0, 4, 1));
}

static gantry_status act_loop(struct scene *s)
{
    gantry_taskman *graph = s->gpu.manager;
    gantry_task *tasks[2];
    gantry_task_desc chain[] = {{sizeof(*chain), GANTRY_TASK_SYNC_POINT, .label = "begin"},
                                {sizeof(*chain), GANTRY_TASK_KERNEL, .label = "turn", .launch = launch_turn,
                                 .arg = s, .is_stable = true}};
    gantry_loop_options how = {sizeof(how), .word = s->scratch + 8, .most = 3, .label = "rounds"};
    gantry_loop loop = {.struct_size = sizeof(loop)};
    assert_int_equal(gantry_taskman_submit_chain(graph, chain, 2, tasks), GANTRY_OK);
    gantry_status status = gantry_taskman_submit_loop(graph, &how, &loop);
    if (status == GANTRY_OK) {
        gpu_fixture_after(loop.test, tasks[1]);
        gpu_fixture_after(tasks[1], loop.decide);
        status = gantry_taskman_freeze(graph);
    }
    for (int run = 0; run < RUNS && status == GANTRY_OK; run++) {
        status = gantry_taskman_run(graph, 1);
    }
    const gantry_status reset = gantry_taskman_reset(graph);
    return status == GANTRY_OK ? reset : status;
}

/* ---- the table --------------------------------------------------------------------------------- */

static const struct act acts[] = {
    {"create a context", act_create_context, false},
    {"destroy contexts", act_destroy_context, false},
    {"steps of kernels", act_kernels, false},
    {"steps of copies", act_copies, false},
    {"steps of fills", act_fills, false},
    {"steps of batched copies", act_batches, false},
    {"steps that enqueue themselves", act_stream, false},
    {"free after a task", act_free_after, false},
    {"allocate", act_allocate, false},
    {"free", act_free, false},
    {"run out of memory", act_out_of_memory, false},
    {"ask for free memory", act_ask_memory, false},
    {"load and unload a module", act_module, false},
    {"freeze and run", act_frozen, false},
    {"replay", act_stable, false},
    {"loop on the device", act_loop, false},
    {"record", act_record, false},
    {"another plan", act_plan, false},
    {"make a stream of a partition", act_stream_of_partition, false},
    {"make a fleet", act_fleet, false},
};

static void open_scene(struct scene *s, gantry_submission submission)
{
    memset(s, 0, sizeof(*s));
    s->submission = submission;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    options.submission = submission;
    options.mode = GANTRY_CONTEXT_PRIMARY;
    gpu_fixture_open_with(&s->gpu, 1, &options);
    s->heap = gantry_context_heap(s->gpu.context);
    gantry_module *module;
    const gantry_alloc_site site = GANTRY_ALLOC_SITE("scene");
    assert_ok(gantry_module_load(s->gpu.context, &gantry_image_order_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "stamp", &s->stamp));
    assert_ok(gantry_heap_alloc(s->heap, GANTRY_MEMORY_PINNED, BYTES, 0, site, (void **)&s->host));
    assert_ok(gantry_heap_alloc(s->heap, GANTRY_MEMORY_DEVICE, BYTES, 0, site, (void **)&s->device));
    assert_ok(gantry_heap_alloc(s->heap, GANTRY_MEMORY_DEVICE, BYTES, 0, site, (void **)&s->scratch));
    assert_ok(gantry_heap_alloc(s->heap, GANTRY_MEMORY_DEVICE, BYTES, 0, site, &s->block));
    assert_ok(create(GANTRY_CONTEXT_PRIMARY, submission, &s->second));
}

static void close_scene(struct scene *s)
{
    gantry_context_destroy(s->second);
    assert_ok(gantry_heap_free(s->heap, s->host));
    assert_ok(gantry_heap_free(s->heap, s->device));
    assert_ok(gantry_heap_free(s->heap, s->scratch));
    if (s->block != NULL) {
        assert_ok(gantry_heap_free(s->heap, s->block));
    }
    gpu_fixture_close(&s->gpu);
}

static void *act_main(void *user)
{
    struct scene *s = user;
    s->status = s->act->act(s);
    if (s->status != GANTRY_OK && s->status != GANTRY_ERR_STATE && s->status != GANTRY_ERR_UNSUPPORTED) {
        fail_msg("%s: %s", s->act->name, gantry_last_error());
    }
    return NULL;
}

/* The graph sets two halves of the words, one before the act and one after it. */
static void check_graph(CUgraph graph, CUdeviceptr words, CUstream stream)
{
    uint32_t seen[2] = {0, 0};
    CUgraphExec exec;
    must(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    must(cu->cuGraphLaunch(exec, stream));
    must(cu->cuStreamSynchronize(stream));
    must(cu->cuMemcpyDtoHAsync(seen, words, sizeof(seen), stream));
    must(cu->cuStreamSynchronize(stream));
    assert_int_equal(seen[0], 11);
    assert_int_equal(seen[1], 22);
    must(cu->cuGraphExecDestroy(exec));
    must(cu->cuGraphDestroy(graph));
}

struct cell {
    CUstreamCaptureMode mode;
    gantry_submission submission;
    unsigned stream_flags; /* of the stream that is captured */
    bool same_thread;
};

static void check_cell(const struct act *act, const struct cell *cell)
{
    struct scene s;
    CUstream stream;
    CUdeviceptr words;
    CUgraph graph = NULL;
    pthread_t thread;
    open_scene(&s, cell->submission);
    s.act = act;
    must(cu->cuStreamCreate(&stream, cell->stream_flags));
    must(cu->cuMemAlloc(&words, 8));
    must(cu->cuStreamBeginCapture(stream, cell->mode));
    must(cu->cuMemsetD32Async(words, 11, 1, stream));
    if (cell->same_thread) {
        (void)act_main(&s);
    } else {
        assert_int_equal(pthread_create(&thread, NULL, act_main, &s), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    /* A capture of a non-blocking stream cannot be seen. */
    const bool is_seen = !act->is_of_all || cell->stream_flags == CU_STREAM_DEFAULT;
    const CUresult added = cu->cuMemsetD32Async(words + 4, 22, 1, stream);
    assert_true(added == CUDA_SUCCESS || !is_seen);
    assert_int_equal(s.status, act->is_of_all ? GANTRY_ERR_STATE : s.status);
    const CUresult ended = cu->cuStreamEndCapture(stream, &graph);
    if (ended != CUDA_SUCCESS && is_seen) {
        fail_msg("%s: the capture ended with %d (mode %d, submission %d, same thread %d)", act->name,
                 (int)ended, (int)cell->mode, (int)cell->submission, cell->same_thread);
    }
    if (ended == CUDA_SUCCESS) {
        check_graph(graph, words, stream);
    }
    must(cu->cuMemFree(words));
    must(cu->cuStreamDestroy(stream));
    assert_true(gantry_context_is_valid(s.gpu.context));
    assert_int_equal(act_kernels(&s), GANTRY_OK);
    close_scene(&s);
}

static void check_table(const struct act *table, size_t count, bool same_thread, unsigned stream_flags)
{
    for (size_t i = 0; i < count; i++) {
        for (int mode = 0; mode <= (int)CU_STREAM_CAPTURE_MODE_RELAXED; mode++) {
            for (int submission = 1; submission <= (int)GANTRY_SUBMISSION_AUTO; submission++) {
                const struct cell cell = {(CUstreamCaptureMode)mode, (gantry_submission)submission,
                                          stream_flags, same_thread};
                check_cell(&table[i], &cell);
            }
        }
    }
}

static void check_all(bool same_thread, unsigned stream_flags)
{
    check_table(acts, sizeof(acts) / sizeof(acts[0]), same_thread, stream_flags);
    check_table(foreign_waits, foreign_wait_count, same_thread, stream_flags);
}

static void test_every_act_leaves_another_threads_capture_whole(void **state)
{
    (void)state;
    check_all(false, CU_STREAM_NON_BLOCKING);
}

static void test_every_act_leaves_its_own_threads_capture_whole(void **state)
{
    (void)state;
    check_all(true, CU_STREAM_NON_BLOCKING);
}

static void test_every_act_leaves_a_capture_that_the_legacy_stream_waits_for_whole(void **state)
{
    (void)state;
    check_all(false, CU_STREAM_DEFAULT);
}

static int open_device(void **state)
{
    (void)state;
    assert_ok(gy_driver_open(gpu_fixture_driver(), &cu));
    must(cu->cuDeviceGet(&device, 0));
    must(cu->cuDevicePrimaryCtxRetain(&primary, device));
    must(cu->cuCtxPushCurrent(primary));
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    CUcontext popped;
    must(cu->cuCtxPopCurrent(&popped));
    must(cu->cuDevicePrimaryCtxRelease(device));
    gy_driver_close(cu);
    return 0;
}

int main(void)
{
    (void)setenv("GANTRY_EMU_DEVICES", "2", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_act_leaves_another_threads_capture_whole),
        cmocka_unit_test(test_every_act_leaves_its_own_threads_capture_whole),
        cmocka_unit_test(test_every_act_leaves_a_capture_that_the_legacy_stream_waits_for_whole),
    };
    return cmocka_run_group_tests_name("foreign_captures", tests, open_device, close_device);
}
