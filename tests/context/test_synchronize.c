/* SPDX-License-Identifier: MIT */
/* Waiting for a whole context: everything that was enqueued is done, captured work included. */
#include "tests/partition/plan_support.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"
#include "tests/support/gpu_fixture.h"

#include "gate_kernels.kernels.h"

#include "context/context.h"
#include "dispatcher/internal.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 4096 };

struct scene {
    struct gpu_fixture gpu;
    gantry_kernel *hold;
    struct foreign_graph *foreign; /* the graph that launch_foreign() launches */
    uint32_t *gate, *device_gate;  /* page-locked: the kernel has begun; it may end */
    _Atomic(int) entered;          /* the waiting thread is about to call */
    gantry_partition *partition;   /* NULL: the context is synchronised */
    gantry_partition *where;       /* the partition in which the tasks run; NULL: the default one */
    unsigned char *host;           /* page-locked */
    void *device;
    _Atomic(int) begun, open, synchronised;
    gantry_status status; /* the status of the waiting thread's call; read after it was joined */
    bool saw_all;         /* the data that it saw then */
};

/* 0: the first kernel of the work does not end. */
static void set_gate(struct scene *s, uint32_t open)
{
    __atomic_store_n(&s->gate[1], open, __ATOMIC_RELEASE);
}

static void open_scene(struct scene *s, gantry_submission submission, const gantry_partition_options *plan)
{
    memset(s, 0, sizeof(*s));
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    options.submission = submission;
    options.partitions = plan;
    gpu_fixture_open_with(&s->gpu, 2, &options);
    gantry_module *module;
    void *device_gate;
    assert_ok(gantry_module_load(s->gpu.context, &gantry_image_gate_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "hold", &s->hold));
    gantry_heap *heap = gantry_context_heap(s->gpu.context);
    gantry_alloc_site site = GANTRY_ALLOC_SITE("scene");
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, BYTES, 0, site, (void **)&s->host));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, BYTES, 0, site, &s->device));
    memset(s->host, 0, BYTES);
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 64, 0, site, (void **)&s->gate));
    assert_ok(gantry_heap_device_address(heap, s->gate, &device_gate));
    s->device_gate = device_gate;
    set_gate(s, 1);
}

static void close_scene(struct scene *s)
{
    assert_ok(gantry_heap_free(gantry_context_heap(s->gpu.context), s->gate));
    assert_ok(gantry_heap_free(gantry_context_heap(s->gpu.context), s->host));
    assert_ok(gantry_heap_free(gantry_context_heap(s->gpu.context), s->device));
    gpu_fixture_close(&s->gpu);
}

static gantry_launch_result launch_hold(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    const uint32_t *open = s->device_gate + 1;
    void *args[] = {&s->device_gate, &open};
    const gantry_dim3 one = {1, 1, 1};
    assert_ok(gantry_launch_kernel(launch, s->hold, one, one, 0, args));
    return GANTRY_LAUNCH_DONE;
}

static gantry_launch_result launch_fill(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    assert_ok(gantry_launch_fill(launch, s->device, 0x5a, 1, BYTES));
    return GANTRY_LAUNCH_DONE;
}

static gantry_launch_result launch_back(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    assert_ok(gantry_launch_copy_dtoh(launch, s->host, s->device, BYTES));
    return GANTRY_LAUNCH_DONE;
}

static gantry_task *submit(struct scene *s, gantry_task_kind kind, gantry_launch_fn launch)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    desc.kind = kind;
    desc.launch = launch;
    desc.arg = s;
    desc.partition = s->where;
    assert_ok(gantry_taskman_submit(s->gpu.manager, &desc, &task));
    return task;
}

static void submit_work(struct scene *s)
{
    gantry_task *fill = submit(s, GANTRY_TASK_KERNEL, launch_fill);
    gpu_fixture_after(fill, submit(s, GANTRY_TASK_KERNEL, launch_hold));
    gpu_fixture_after(submit(s, GANTRY_TASK_DTOH, launch_back), fill);
}

static bool has_all(const struct scene *s)
{
    for (int i = 0; i < BYTES; i++) {
        if (s->host[i] != 0x5a) {
            return false;
        }
    }
    return true;
}

static void *synchronise(void *arg)
{
    struct scene *s = arg;
    atomic_store(&s->entered, 1);
    s->status = s->partition != NULL ? gantry_partition_synchronize(s->partition)
                                     : gantry_context_synchronize(s->gpu.context);
    s->saw_all = has_all(s);
    atomic_store(&s->synchronised, 1);
    return NULL;
}

/* The step has stopped, and its work is on hold: another thread waits until it is done. */
static void wait_while_held(struct scene *s)
{
    pthread_t thread;
    struct gantry_emu_control emu;
    bool counted = gpu_fixture_controls(&emu); /* a device does not report who waits for it */
    set_gate(s, 0);
    submit_work(s);
    assert_ok(gpu_fixture_step(&s->gpu));
    uint64_t before = counted ? emu.calls("cuEventSynchronize") + emu.calls("cuCtxSynchronize") : 0;
    assert_int_equal(pthread_create(&thread, NULL, synchronise, s), 0);
    while (atomic_load(&s->synchronised) == 0 &&
           (atomic_load(&s->entered) == 0 ||
            (counted && emu.calls("cuEventSynchronize") + emu.calls("cuCtxSynchronize") == before))) {
        sched_yield();
    }
    for (int i = 0; i < 50; i++) {
        sched_yield();
    }
    assert_int_equal(atomic_load(&s->synchronised), 0);
    assert_false(has_all(s));
    set_gate(s, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(s->status);
    assert_true(s->saw_all);
    memset(s->host, 0, BYTES);
    atomic_store(&s->synchronised, 0);
    atomic_store(&s->entered, 0);
}

static const gantry_submission modes[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS,
                                          GANTRY_SUBMISSION_AUTO};

static void test_all_work_of_a_step_is_done(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        struct scene s;
        open_scene(&s, modes[m], NULL);
        for (int round = 0; round < 3; round++) { /* callbacks are captured alone at first */
            s.partition = round == 2 ? gantry_partition_default(s.gpu.context) : NULL;
            wait_while_held(&s);
        }
        close_scene(&s);
    }
}

static void open_two_partitions(struct scene *s, gantry_submission submission)
{
    gantry_partition_request requests[2] = {request("part", GANTRY_PARTITION_AT_LEAST, 16),
                                            request("rest", GANTRY_PARTITION_REST, 0)};
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    plan.requests = requests;
    plan.count = 2;
    open_scene(s, submission, &plan);
}

static void test_all_partitions_of_a_plan_are_covered(void **state)
{
    (void)state;
    struct scene s;
    open_two_partitions(&s, GANTRY_SUBMISSION_DEFAULT);
    for (uint32_t i = 0; i < 2; i++) {
        s.where = gantry_partition_at(s.gpu.context, i);
        wait_while_held(&s);
    }
    close_scene(&s);
}

/* This is called while the launched kernel runs. */
static void expect_no_early_return(struct scene *s, void *(*call)(void *scene))
{
    pthread_t thread;
    deadline_await(__atomic_load_n(&s->gate[0], __ATOMIC_ACQUIRE) != 0, "a kernel to begin");
    atomic_store(&s->synchronised, 0);
    assert_int_equal(pthread_create(&thread, NULL, call, s), 0);
    usleep(20000); /* time enough to return too early */
    bool early = atomic_load(&s->synchronised) != 0;
    set_gate(s, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(s->status);
    assert_false(early);
}

/* The kernel in the second partition comes after work in the first one: there is one graph, launched
 * there. */
static void hold_across(struct scene *s)
{
    set_gate(s, 0);
    __atomic_store_n(&s->gate[0], 0, __ATOMIC_RELEASE);
    s->where = gantry_partition_at(s->gpu.context, 0);
    gantry_task *first = submit(s, GANTRY_TASK_KERNEL, launch_fill);
    s->where = gantry_partition_at(s->gpu.context, 1);
    gpu_fixture_after(submit(s, GANTRY_TASK_KERNEL, launch_hold), first);
    assert_ok(gpu_fixture_step(&s->gpu));
    expect_no_early_return(s, synchronise);
}

static void wait_for_graphs_across(void)
{
    struct scene s;
    struct gantry_emu_control emu;
    open_two_partitions(&s, GANTRY_SUBMISSION_GRAPHS);
    bool counted = gpu_fixture_controls(&emu);
    for (int round = 0; round < 4; round++) { /* callbacks are captured alone at first */
        uint64_t before = counted ? emu.calls("cuGraphLaunch") : 0;
        hold_across(&s);
        assert_true(round < 2 || !counted || emu.calls("cuGraphLaunch") == before + 1);
    }
    close_scene(&s);
}

/* The work that drivers call the activities of a context does not contain the kernel. */
static void test_graphs_that_reach_into_other_partitions_are_covered(void **state)
{
    (void)state;
    wait_for_graphs_across();
    if (gpu_fixture_driver() == GANTRY_DRIVER_EMULATED) {
        setenv("GANTRY_EMU_PROFILE", "cuda=12040", 1); /* the driver has no events of contexts */
        wait_for_graphs_across();
        unsetenv("GANTRY_EMU_PROFILE");
    }
}

/* A graph of the application's with a kernel in a green context of its own. */
struct foreign_graph {
    CUgreenCtx green;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
};

static void capture_foreign(struct scene *s, struct foreign_graph *f)
{
    struct gy_context *cuda = s->gpu.context->cuda;
    const uint32_t *open = s->device_gate + 1;
    void *args[] = {&s->device_gate, &open};
    CUdevResource all = {0}, part;
    CUdevResourceDesc desc;
    unsigned groups = 1;
    assert_ok(GY_CALL(cuda, cuDeviceGetDevResource(cuda->device, &all, CU_DEV_RESOURCE_TYPE_SM)));
    assert_ok(GY_CALL(cuda, cuDevSmResourceSplitByCount(&part, &groups, &all, NULL, 0, 8)));
    assert_ok(GY_CALL(cuda, cuDevResourceGenerateDesc(&desc, &part, 1)));
    assert_ok(GY_CALL(cuda, cuGreenCtxCreate(&f->green, desc, cuda->device, CU_GREEN_CTX_DEFAULT_STREAM)));
    assert_ok(gy_context_create_stream(cuda, f->green, 0, &f->stream));
    assert_ok(GY_CALL(cuda, cuStreamBeginCapture(f->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)));
    assert_ok(GY_CALL(cuda, cuLaunchKernel(s->hold->function, 1, 1, 1, 1, 1, 1, 0, f->stream, args, NULL)));
    assert_ok(GY_CALL(cuda, cuStreamEndCapture(f->stream, &f->graph)));
    assert_ok(GY_CALL(cuda, cuGraphInstantiateWithFlags(&f->exec, f->graph, 0)));
}

static void destroy_foreign(struct scene *s, struct foreign_graph *f)
{
    struct gy_context *cuda = s->gpu.context->cuda;
    assert_ok(GY_CALL(cuda, cuGraphExecDestroy(f->exec)));
    assert_ok(GY_CALL(cuda, cuGraphDestroy(f->graph)));
    assert_ok(GY_CALL(cuda, cuStreamDestroy(f->stream)));
    assert_ok(GY_CALL(cuda, cuGreenCtxDestroy(f->green)));
}

static gantry_launch_result launch_foreign(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    CUstream stream = gantry_launch_stream(launch);
    assert_ok(GY_CALL(s->gpu.context->cuda, cuGraphLaunch(s->foreign->exec, stream)));
    return GANTRY_LAUNCH_DONE;
}

/* Of a plan, or of the whole device. */
static void wait_for_a_foreign_graph(const char *profile, bool with_plan)
{
    struct scene s;
    struct foreign_graph foreign;
    if (profile != NULL) {
        setenv("GANTRY_EMU_PROFILE", profile, 1);
    }
    if (with_plan) {
        open_two_partitions(&s, GANTRY_SUBMISSION_STREAMS);
    } else {
        open_scene(&s, GANTRY_SUBMISSION_STREAMS, NULL);
    }
    assert_ok(gantry_context_acquire(s.gpu.context));
    capture_foreign(&s, &foreign);
    s.foreign = &foreign;
    for (int of = 0; of < 2; of++) { /* the context, or its default partition */
        set_gate(&s, 0);
        __atomic_store_n(&s.gate[0], 0, __ATOMIC_RELEASE);
        s.partition = of == 0 ? NULL : gantry_partition_default(s.gpu.context);
        (void)submit(&s, GANTRY_TASK_KERNEL, launch_foreign);
        assert_ok(gpu_fixture_step(&s.gpu));
        expect_no_early_return(&s, synchronise);
    }
    destroy_foreign(&s, &foreign);
    assert_ok(gantry_context_release(s.gpu.context));
    close_scene(&s);
    unsetenv("GANTRY_EMU_PROFILE");
}

/* A callback launches a graph of the application's, whose kernel has SMs of its own. */
static void test_graphs_of_other_green_contexts_are_covered(void **state)
{
    (void)state;
    wait_for_a_foreign_graph(NULL, false);
    wait_for_a_foreign_graph(NULL, true);
    if (gpu_fixture_driver() == GANTRY_DRIVER_EMULATED) { /* the driver has no events of contexts */
        wait_for_a_foreign_graph("cuda=12040", false);
        wait_for_a_foreign_graph("cuda=12040", true);
    }
}

enum { WAY_RECORDED, WAY_MARKED, WAYS, MARK_BLOCKS = 16 };

static void *settle_heap(void *arg)
{
    struct scene *s = arg;
    s->status = gantry_heap_settle(gantry_context_heap(s->gpu.context));
    atomic_store(&s->synchronised, 1);
    return NULL;
}

/* Blocks are freed behind a graph with a kernel of another green context: on the stream of the graph, or on
 * another one that recorded an event for it.  Both have their events. */
static void free_behind(struct scene *s, CUstream graph, CUstream other, int way)
{
    gantry_heap *heap = gantry_context_heap(s->gpu.context);
    void *blocks[MARK_BLOCKS], *more;
    for (int i = 0; i < MARK_BLOCKS; i++) {
        assert_ok(gantry_heap_alloc_on(heap, GANTRY_MEMORY_DEVICE, 1 << 20, 0,
                                       way == WAY_MARKED ? graph : other, GANTRY_ALLOC_SITE("behind"),
                                       &blocks[i]));
    }
    set_gate(s, 0);
    __atomic_store_n(&s->gate[0], 0, __ATOMIC_RELEASE);
    assert_ok(GY_CALL(s->gpu.context->cuda, cuGraphLaunch(s->foreign->exec, graph)));
    for (int i = 0; i < MARK_BLOCKS; i++) {
        if (way == WAY_RECORDED) {
            assert_ok(gantry_heap_record_stream(heap, blocks[i], graph));
        }
        assert_ok(gantry_heap_free_on(heap, blocks[i], way == WAY_MARKED ? graph : other));
    }
    assert_ok(
        gantry_heap_alloc_on(heap, GANTRY_MEMORY_DEVICE, 1, 0, graph, GANTRY_ALLOC_SITE("named"), &more));
    assert_ok(gantry_heap_free(heap, more));
}

/* The heap waits for the device: nothing may write to the memory that comes back. */
static void test_blocks_come_back_after_graphs_of_other_green_contexts(void **state)
{
    (void)state;
    struct scene s;
    struct foreign_graph foreign;
    CUstream streams[2];
    open_scene(&s, GANTRY_SUBMISSION_STREAMS, NULL);
    assert_ok(gantry_context_acquire(s.gpu.context));
    capture_foreign(&s, &foreign);
    s.foreign = &foreign;
    for (int i = 0; i < 2; i++) {
        assert_ok(gy_context_create_stream(s.gpu.context->cuda, NULL, 0, &streams[i]));
    }
    for (int way = 0; way < WAYS; way++) {
        free_behind(&s, streams[0], streams[1], way);
        expect_no_early_return(&s, settle_heap);
    }
    for (int i = 0; i < 2; i++) {
        assert_ok(GY_CALL(s.gpu.context->cuda, cuStreamDestroy(streams[i])));
    }
    destroy_foreign(&s, &foreign);
    assert_ok(gantry_context_release(s.gpu.context));
    close_scene(&s);
}

/* A kernel that does not end runs in one context, and the host waits for the other. */
static void test_work_of_other_partitions_is_not_waited_for(void **state)
{
    (void)state;
    struct scene s;
    open_two_partitions(&s, GANTRY_SUBMISSION_STREAMS);
    for (uint32_t i = 0; i < 2; i++) {
        s.where = gantry_partition_at(s.gpu.context, 1 - i);
        (void)submit(&s, GANTRY_TASK_KERNEL, launch_fill); /* so that there is something to wait for */
        assert_ok(gpu_fixture_step(&s.gpu));
        s.where = gantry_partition_at(s.gpu.context, i);
        set_gate(&s, 0);
        __atomic_store_n(&s.gate[0], 0, __ATOMIC_RELEASE);
        (void)submit(&s, GANTRY_TASK_KERNEL, launch_hold);
        assert_ok(gpu_fixture_step(&s.gpu));
        deadline_await(__atomic_load_n(&s.gate[0], __ATOMIC_ACQUIRE) != 0, "a kernel to begin");
        deadline_begin("a partition beside one that is busy");
        assert_ok(gantry_partition_synchronize(gantry_partition_at(s.gpu.context, 1 - i)));
        deadline_end();
        set_gate(&s, 1);
        assert_ok(gantry_context_synchronize(s.gpu.context));
    }
    close_scene(&s);
}

static void test_a_driver_without_events_of_contexts_will_do(void **state)
{
    (void)state;
    if (gpu_fixture_driver() != GANTRY_DRIVER_EMULATED) {
        return; /* this driver behaves so */
    }
    setenv("GANTRY_EMU_PROFILE", "cuda=12040", 1);
    struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_GRAPHS, NULL);
    wait_while_held(&s);
    s.partition = gantry_partition_default(s.gpu.context);
    wait_while_held(&s);
    int event;
    assert_int_equal(gantry_partition_record_event(s.partition, &event), GANTRY_ERR_UNSUPPORTED);
    assert_non_null(strstr(gantry_last_error(), "a driver of CUDA 12.5, this one is for 12.4"));
    assert_int_equal(gantry_partition_wait_event(s.partition, &event), GANTRY_ERR_UNSUPPORTED);
    close_scene(&s);
    unsetenv("GANTRY_EMU_PROFILE");
}

/* ---- an open capture --------------------------------------------------------------------------- */

static gantry_launch_result launch_and_stay(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    assert_ok(gantry_launch_fill(launch, s->device, 0x5a, 1, BYTES));
    atomic_store(&s->begun, 1);
    while (atomic_load(&s->open) == 0) {
        sched_yield();
    }
    return GANTRY_LAUNCH_DONE;
}

/* It is called in the same batch: it does not return before the other thread's call has. */
static gantry_launch_result launch_when_synchronised(gantry_launch *launch, void *arg)
{
    struct scene *s = arg;
    while (atomic_load(&s->open) != 0 && atomic_load(&s->synchronised) == 0) {
        sched_yield();
    }
    assert_ok(gantry_launch_fill(launch, s->device, 0, 1, 1));
    return GANTRY_LAUNCH_DONE;
}

static void submit_chain(struct scene *s)
{
    gantry_task *stay = gpu_fixture_gpu(&s->gpu, GANTRY_TASK_KERNEL, "stay", launch_and_stay, s);
    gantry_task *back = gpu_fixture_gpu(&s->gpu, GANTRY_TASK_KERNEL, "back", launch_back, s);
    gantry_task *last = gpu_fixture_gpu(&s->gpu, GANTRY_TASK_KERNEL, "last", launch_when_synchronised, s);
    gpu_fixture_after(back, stay);
    gpu_fixture_after(last, back);
}

/* GD is in a callback, and the work it has captured before is not launched: a waiting thread has it
 * launched, and does not wait for the rest of the batch. */
static void test_an_open_capture_is_launched_first(void **state)
{
    (void)state;
    struct scene s;
    pthread_t thread;
    open_scene(&s, GANTRY_SUBMISSION_GRAPHS, NULL);
    atomic_store(&s.synchronised, 1);
    for (int i = 0; i < 2; i++) { /* so that all callbacks are known, and are captured together */
        atomic_store(&s.open, 1);
        submit_chain(&s);
        assert_ok(gpu_fixture_step(&s.gpu));
    }
    memset(s.host, 0, BYTES);
    atomic_store(&s.open, 0);
    atomic_store(&s.begun, 0);
    atomic_store(&s.synchronised, 0);
    submit_chain(&s);
    assert_ok(gantry_taskman_start(s.gpu.manager));
    while (atomic_load(&s.begun) == 0) {
        sched_yield();
    }
    assert_int_equal(pthread_create(&thread, NULL, synchronise, &s), 0);
    struct gy_graphs *graphs = &s.gpu.context->dispatcher->graphs;
    while (atomic_load(&graphs->gate.waiting) == 0) {
        sched_yield();
    }
    atomic_store(&s.open, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(s.status);
    assert_ok(gantry_taskman_stop(s.gpu.manager));
    assert_ok(gantry_taskman_reset(s.gpu.manager));
    close_scene(&s);
}

static void test_events_of_a_whole_context(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_DEFAULT, NULL);
    gantry_partition *all = gantry_partition_default(s.gpu.context);
    struct gy_context *cuda = s.gpu.context->cuda;
    CUevent event;
    assert_ok(gantry_context_acquire(s.gpu.context));
    assert_ok(GY_CALL(cuda, cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)));
    set_gate(&s, 0);
    submit_work(&s);
    assert_ok(gpu_fixture_step(&s.gpu));
    assert_ok(gantry_partition_record_event(all, event));
    assert_int_equal(cuda->driver->cuEventQuery(event), CUDA_ERROR_NOT_READY);
    assert_ok(gantry_partition_wait_event(all, event));
    set_gate(&s, 1);
    assert_ok(GY_CALL(cuda, cuEventSynchronize(event)));
    assert_true(has_all(&s));
    assert_ok(GY_CALL(cuda, cuEventDestroy(event)));
    assert_ok(gantry_context_release(s.gpu.context));
    close_scene(&s);
}

static void test_a_lost_context_is_told(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_DEFAULT, NULL);
    gantry_dispatcher_force_failure(gantry_context_dispatcher(s.gpu.context));
    assert_int_equal(gantry_context_synchronize(s.gpu.context), GANTRY_ERR_DEVICE_LOST);
    assert_int_equal(gantry_context_synchronize(NULL), GANTRY_ERR_INVALID_ARGUMENT);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_work_of_a_step_is_done),
        cmocka_unit_test(test_all_partitions_of_a_plan_are_covered),
        cmocka_unit_test(test_graphs_that_reach_into_other_partitions_are_covered),
        cmocka_unit_test(test_graphs_of_other_green_contexts_are_covered),
        cmocka_unit_test(test_blocks_come_back_after_graphs_of_other_green_contexts),
        cmocka_unit_test(test_work_of_other_partitions_is_not_waited_for),
        cmocka_unit_test(test_a_driver_without_events_of_contexts_will_do),
        cmocka_unit_test(test_an_open_capture_is_launched_first),
        cmocka_unit_test(test_events_of_a_whole_context),
        cmocka_unit_test(test_a_lost_context_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
