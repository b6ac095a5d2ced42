/* SPDX-License-Identifier: MIT */
/* Plans that are carried out: grants, sets of SMs, calls for whole partitions, refusals, destruction. */
#include "audit_kernels.kernels.h"
#include "base/alloc.h"
#include "context/context.h"
#include "emulator/gantry_emu.h"
#include "tests/partition/plan_support.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define EXACT GANTRY_PARTITION_EXACT
#define AT_LEAST GANTRY_PARTITION_AT_LEAST
#define REST GANTRY_PARTITION_REST

static gantry_status open_with(const gantry_partition_request *requests, uint32_t count,
                               gantry_partition_options *plan, gantry_context **out)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_partition_options defaults = GANTRY_PARTITION_OPTIONS_INIT;
    plan = plan != NULL ? plan : &defaults;
    plan->requests = requests;
    plan->count = count;
    gpu_fixture_hold_devices();
    options.driver = gpu_fixture_driver();
    options.partitions = plan;
    return gantry_context_create(&options, out);
}

/* Options that a later version has made longer, whose new fields are 0. */
static void test_longer_options_are_taken(void **state)
{
    (void)state;
    struct {
        gantry_partition_options plan;
        unsigned char later[4096]; /* more than what lies behind a copy of the struct on the stack */
    } newer;
    const gantry_partition_request requests[] = {request("all", REST, 0)};
    gantry_context *context;
    memset(&newer, 0, sizeof(newer));
    newer.plan.struct_size = sizeof(newer);
    assert_ok(open_with(requests, 1, &newer.plan, &context));
    gantry_context_destroy(context);
}

static bool on_emulator(void)
{
    return gpu_fixture_driver() == GANTRY_DRIVER_EMULATED;
}

static gantry_partition_info info_of(const gantry_partition *partition)
{
    gantry_partition_info info = {.struct_size = sizeof(info)};
    assert_ok(gantry_partition_get_info(partition, &info));
    return info;
}

static bool overlap(const gantry_sm_set *a, const gantry_sm_set *b)
{
    for (int w = 0; w < GANTRY_SM_SET_WORDS; w++) {
        if ((a->words[w] & b->words[w]) != 0) {
            return true;
        }
    }
    return false;
}

/* Every partition of a context runs on as many SMs as were granted, and on none of another's, also as a
 * graph. */
static void audit_all(gantry_context *context)
{
    gantry_sm_set sets[GANTRY_PARTITIONS_MAX];
    uint32_t count = gantry_partition_count(context);
    for (uint32_t i = 0; i < count; i++) {
        gantry_partition *p = gantry_partition_at(context, i);
        gantry_sm_set graph = {.struct_size = sizeof(graph)};
        sets[i].struct_size = sizeof(sets[i]);
        assert_ok(gantry_partition_audit(p, GANTRY_AUDIT_STREAM, &sets[i]));
        assert_ok(gantry_partition_audit(p, GANTRY_AUDIT_GRAPH, &graph));
        assert_int_equal(sets[i].seen_sms, info_of(p).granted_sms);
        assert_memory_equal(&sets[i], &graph, sizeof(graph));
        for (uint32_t other = 0; other < i; other++) {
            assert_int_equal(overlap(&sets[i], &sets[other]),
                             !info_of(p).is_exclusive &&
                                 !info_of(gantry_partition_at(context, other)).is_exclusive);
        }
    }
}

static void test_three_partitions_are_granted_and_disjoint(void **state)
{
    (void)state;
    gantry_context *context;
    gantry_partition_request r[] = {request("critical", AT_LEAST, 16), request("bulk", AT_LEAST, 32),
                                    request("other", REST, 0)};
    r[0].priority = -1;
    assert_ok(open_with(r, 3, NULL, &context));
    assert_int_equal(gantry_partition_count(context), 3);
    gantry_partition *p;
    assert_ok(gantry_partition_find(context, "bulk", &p));
    gantry_partition_info info = info_of(p);
    assert_int_equal(info.granted_sms, info.planned_sms);
    assert_true(info.granted_sms >= 32 && info.is_exclusive && !info.is_default);
    assert_string_equal(info.name, "bulk");
    assert_int_equal(info.index, 1);
    assert_true(info.id != info_of(gantry_partition_at(context, 0)).id);
    assert_int_equal(info_of(gantry_partition_at(context, 0)).priority, -1);
    assert_ptr_equal(gantry_partition_default(context), gantry_partition_at(context, 2));
    assert_null(gantry_partition_at(context, 3));
    assert_int_equal(gantry_partition_find(context, "nobody", &p), GANTRY_ERR_NOT_FOUND);
    assert_non_null(strstr(gantry_last_error(),
                           "there is no partition 'nobody'; there are: 'critical', 'bulk', 'other'"));
    gantry_partition_layout layout = {.struct_size = sizeof(layout)};
    assert_ok(gantry_partition_get_layout(context, &layout));
    assert_int_equal(layout.count, 3);
    audit_all(context);
    gantry_context_destroy(context);
}

static void test_fine_units_and_declared_overlap(void **state)
{
    (void)state;
    gantry_context *context;
    gantry_partition_request r[] = {request("a", EXACT, 12), request("b", EXACT, 20),
                                    request("rest", REST, 0)};
    r[0].ignore_coscheduling = 1;
    r[1].overlaps = "a";
    r[1].overlap_sms = 4;
    r[1].borrows = "a";
    assert_ok(open_with(r, 3, NULL, &context));
    gantry_partition_info a = info_of(gantry_partition_at(context, 0)),
                          b = info_of(gantry_partition_at(context, 1));
    assert_int_equal(a.granted_sms, 12);
    assert_int_equal(b.granted_sms, 20);
    assert_int_equal(b.wide_sms, 28);
    assert_false(a.is_exclusive || b.is_exclusive);
    audit_all(context);
    gantry_context_destroy(context);
}

static void test_without_a_plan_there_is_one_partition(void **state)
{
    (void)state;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_context *context;
    gantry_partition_layout layout = {.struct_size = sizeof(layout)};
    options.driver = gpu_fixture_driver();
    assert_ok(gantry_context_create(&options, &context));
    assert_int_equal(gantry_partition_count(context), 1);
    gantry_partition *all = gantry_partition_default(context);
    assert_int_equal(info_of(all).granted_sms, info_of(all).total_sms);
    assert_int_equal(gantry_partition_get_layout(context, &layout), GANTRY_ERR_NOT_FOUND);
    assert_ok(gantry_partition_synchronize(all));
    gantry_sm_set set = {.struct_size = sizeof(set)};
    assert_ok(gantry_partition_audit(all, GANTRY_AUDIT_STREAM, &set));
    assert_int_equal(set.seen_sms, info_of(all).total_sms);
    gantry_context_destroy(context);
}

static void test_an_audit_leaves_nothing(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_context *context;
    gantry_sm_set set = {.struct_size = sizeof(set)};
    options.driver = GANTRY_DRIVER_EMULATED;
    assert_ok(gantry_context_create(&options, &context));
    if (!gpu_fixture_controls(&emu)) {
        skip();
    }
    gantry_partition *all = gantry_partition_default(context);
    int64_t before[GANTRY_EMU_LIVE_KINDS];
    for (int kind = 0; kind < GANTRY_EMU_LIVE_KINDS; kind++) {
        before[kind] = emu.live(kind);
    }
    for (int i = 0; i < 4; i++) { /* and at last with failures on the way */
        static const char *const calls[] = {NULL, "cuStreamCreate", "cuLaunchKernel", "cuMemAlloc"};
        if (calls[i] != NULL) {
            assert_int_equal((emu.fail)(calls[i], 1, CUDA_ERROR_INVALID_VALUE, GANTRY_EMU_ONCE), 0);
        }
        assert_int_equal(gantry_partition_audit(all, GANTRY_AUDIT_STREAM, &set) == GANTRY_OK,
                         calls[i] == NULL);
        emu.clear_faults();
        for (int kind = 0; kind < GANTRY_EMU_LIVE_KINDS; kind++) {
            assert_int_equal(emu.live(kind), before[kind]);
        }
    }
    gantry_context_destroy(context);
}

static int warnings; /* work on streams that belong to no partition */

static void note_warning(void *user, gantry_log_level level, const char *line)
{
    (void)user;
    warnings += level == GANTRY_LOG_WARNING && strstr(line, "a stream of no partition") != NULL;
}

static void test_streams_know_their_partition(void **state)
{
    (void)state;
    gantry_context *context;
    gantry_partition_request r[] = {request("a", AT_LEAST, 8), request("b", REST, 0)};
    assert_ok(open_with(r, 2, NULL, &context));
    gantry_partition *a = gantry_partition_at(context, 0), *found = NULL;
    const struct gy_driver *driver = context->cuda->driver;
    void *stream;
    CUstream plain;
    assert_ok(gantry_partition_create_stream(a, &stream));
    assert_ok(gantry_partition_of_stream(context, stream, &found));
    assert_ptr_equal(found, a);
    assert_ok(gantry_context_acquire(context));
    assert_int_equal(driver->cuStreamCreate(&plain, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    gantry_set_log(note_warning, NULL, GANTRY_LOG_WARNING);
    assert_ok(gantry_partition_of_stream(context, stream, &found));
    assert_int_equal(warnings, 0);
    assert_ok(gantry_partition_of_stream(context, plain, &found));
    gantry_set_log(NULL, NULL, GANTRY_LOG_WARNING);
    assert_null(found);
    assert_int_equal(warnings, 1);
    assert_int_equal(driver->cuStreamDestroy(plain), CUDA_SUCCESS);
    assert_int_equal(driver->cuStreamDestroy(stream), CUDA_SUCCESS);
    assert_ok(gantry_context_release(context));
    gantry_context_destroy(context);
}

/* Record, wait and synchronise include all streams of a partition, and no others. */
static void test_whole_partition_calls(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    gantry_context *context;
    gantry_partition_request r[] = {request("a", AT_LEAST, 8), request("b", REST, 0)};
    assert_ok(open_with(r, 2, NULL, &context));
    gantry_partition *a = gantry_partition_at(context, 0);
    const struct gy_driver *driver = context->cuda->driver;
    void *streams[2];
    CUevent event;
    CUdeviceptr memory;
    assert_ok(gantry_context_acquire(context));
    assert_int_equal(driver->cuMemAlloc(&memory, 4096), CUDA_SUCCESS);
    assert_int_equal(driver->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    for (int i = 0; i < 2; i++) {
        assert_ok(gantry_partition_create_stream(a, &streams[i]));
    }
    bool controlled = gpu_fixture_controls(&emu);
    if (controlled) {
        emu.hold();
    }
    for (int i = 0; i < 2; i++) {
        CUdeviceptr half = memory + (CUdeviceptr)i * 2048; /* nothing orders the two */
        assert_int_equal(driver->cuMemsetD32Async(half, 7, 512, streams[i]), CUDA_SUCCESS);
    }
    assert_ok(gantry_partition_record_event(a, event));
    if (controlled) {
        assert_int_equal(driver->cuEventQuery(event), CUDA_ERROR_NOT_READY);
        emu.release();
    }
    assert_int_equal(driver->cuEventSynchronize(event), CUDA_SUCCESS);
    assert_ok(gantry_partition_wait_event(a, event));
    assert_int_equal(driver->cuMemsetD32Async(memory, 8, 1024, streams[1]), CUDA_SUCCESS);
    assert_ok(gantry_partition_synchronize(a));
    assert_int_equal(driver->cuStreamQuery(streams[1]), CUDA_SUCCESS);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(driver->cuStreamDestroy(streams[i]), CUDA_SUCCESS);
    }
    assert_int_equal(driver->cuEventDestroy(event), CUDA_SUCCESS);
    assert_int_equal(driver->cuMemFree(memory), CUDA_SUCCESS);
    assert_ok(gantry_context_release(context));
    gantry_context_destroy(context);
}

static void wait_for_go(void *user)
{
    while (!atomic_load((_Atomic(bool) *)user)) {
        sched_yield();
    }
}

/* Streams with borrowed SMs are the partition's, too. */
static void test_whole_partition_calls_with_borrowed_sms(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    gantry_context *context;
    gantry_partition_request r[] = {request("a", AT_LEAST, 8), request("b", REST, 0)};
    r[1].borrows = "a";
    assert_ok(open_with(r, 2, NULL, &context));
    gantry_partition *b = gantry_partition_at(context, 1);
    const struct gy_driver *driver = context->cuda->driver;
    CUstream streams[2];
    CUevent event;
    CUdeviceptr memory;
    uint32_t seen[2] = {0, 0};
    assert_ok(gantry_context_acquire(context));
    assert_int_equal(driver->cuMemAlloc(&memory, sizeof(seen)), CUDA_SUCCESS);
    assert_int_equal(driver->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    for (int i = 0; i < 2; i++) {
        assert_ok(gy_partition_stream(b, i == 1, &streams[i]));
    }
    for (int only = 0; only < 2; only++) { /* work is on one of the two kinds of stream at a time */
        bool controlled = gpu_fixture_controls(&emu);
        if (controlled) {
            emu.hold();
        }
        CUdeviceptr word = memory + (CUdeviceptr)only * sizeof(seen[0]);
        assert_int_equal(driver->cuMemsetD32Async(word, 7 + (unsigned)only, 1, streams[only]), CUDA_SUCCESS);
        assert_ok(gantry_partition_record_event(b, event));
        if (controlled) {
            assert_int_equal(driver->cuEventQuery(event), CUDA_ERROR_NOT_READY);
            emu.release();
        }
        assert_int_equal(driver->cuEventSynchronize(event), CUDA_SUCCESS);
        assert_int_equal(driver->cuStreamQuery(streams[only]), CUDA_SUCCESS);
        assert_ok(gantry_partition_synchronize(b));
    }
    assert_int_equal(driver->cuMemcpyDtoH(seen, memory, sizeof(seen)), CUDA_SUCCESS);
    assert_int_equal(seen[0], 7);
    assert_int_equal(seen[1], 8);
    for (int only = 0; only < 2; only++) { /* both wait for an event */
        _Atomic(bool) go = false;
        CUresult result = CUDA_ERROR_NOT_READY;
        assert_int_equal(driver->cuLaunchHostFunc(streams[!only], wait_for_go, &go), CUDA_SUCCESS);
        assert_int_equal(driver->cuEventRecord(event, streams[!only]), CUDA_SUCCESS);
        assert_ok(gantry_partition_wait_event(b, event));
        assert_int_equal(driver->cuMemsetD32Async(memory, 2, 1, streams[only]), CUDA_SUCCESS);
        for (int i = 0; i < 2000 && result == CUDA_ERROR_NOT_READY; i++) {
            sched_yield(); /* work that does not wait may be done now */
            result = driver->cuStreamQuery(streams[only]);
        }
        atomic_store(&go, true);
        assert_int_equal(result, CUDA_ERROR_NOT_READY);
        assert_ok(gantry_partition_synchronize(b));
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(driver->cuStreamDestroy(streams[i]), CUDA_SUCCESS);
    }
    assert_int_equal(driver->cuEventDestroy(event), CUDA_SUCCESS);
    assert_int_equal(driver->cuMemFree(memory), CUDA_SUCCESS);
    assert_ok(gantry_context_release(context));
    gantry_context_destroy(context);
}

static void test_green_contexts_need_the_primary_context(void **state)
{
    (void)state;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_partition_request r[] = {request("a", AT_LEAST, 8)};
    gantry_context *context = NULL;
    plan.requests = r;
    plan.count = 1;
    options.driver = gpu_fixture_driver();
    options.partitions = &plan;
    options.mode = GANTRY_CONTEXT_OWN;
    assert_int_equal(gantry_context_create(&options, &context), GANTRY_ERR_UNSUPPORTED);
    assert_null(context);
    plan.fallback = GANTRY_PARTITION_PRIORITY_ONLY;
    assert_ok(gantry_context_create(&options, &context));
    assert_int_equal(gantry_partition_count(context), 2);
    gantry_partition_info info = info_of(gantry_partition_at(context, 0));
    assert_int_equal(info.granted_sms, info.total_sms);
    assert_false(info.is_exclusive);
    gantry_context_destroy(context);
}

/* ---- only the emulated driver can be told to be like this ------------------------------------ */

static int restore_emulator(void **state)
{
    (void)state;
    unsetenv("GANTRY_EMU_PROFILE");
    return 0;
}

static gantry_launch_result ask_for_blocks(gantry_launch *launch, void *arg)
{
    gantry_module *module;
    gantry_kernel *kernel;
    gantry_context *context = gantry_launch_context(launch);
    assert_ok(gantry_module_load(context, &gantry_image_audit_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "gantry_audit", &kernel));
    assert_ok(gantry_launch_max_blocks(launch, kernel, 32, 0, arg));
    return GANTRY_LAUNCH_DONE;
}

/* An adopted context that is a green one has the SMs of that, wherever the number of SMs is given. */
static void test_an_adopted_green_context_tells_its_own_sms(void **state)
{
    (void)state;
    gantry_context *owner;
    gantry_partition_request r[] = {request("part", EXACT, 16), request("rest", REST, 0)};
    assert_ok(open_with(r, 2, NULL, &owner));
    struct gantry_partition *part = gantry_partition_at(owner, 0);
    CUcontext native = NULL;
    assert_int_equal(owner->cuda->driver->cuCtxFromGreenCtx(&native, part->green), CUDA_SUCCESS);
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    options.mode = GANTRY_CONTEXT_ADOPT;
    options.adopted = native;
    struct gpu_fixture whole, adopted;
    gpu_fixture_open(&whole, 1, 0);
    gpu_fixture_open_with(&adopted, 1, &options);
    gantry_partition_info info = info_of(gantry_partition_default(adopted.context));
    assert_int_equal(info.granted_sms, 16);
    assert_int_equal(info.planned_sms, 16);
    assert_int_equal(info.total_sms, info_of(part).total_sms);
    audit_all(adopted.context);
    uint32_t all = 0, few = 0;
    gpu_fixture_gpu(&whole, GANTRY_TASK_KERNEL, "all", ask_for_blocks, &all);
    gpu_fixture_gpu(&adopted, GANTRY_TASK_KERNEL, "few", ask_for_blocks, &few);
    assert_ok(gpu_fixture_step(&whole));
    assert_ok(gpu_fixture_step(&adopted));
    assert_true(few > 0 && few * info.total_sms == all * 16);
    gpu_fixture_close(&adopted);
    gpu_fixture_close(&whole);
    gantry_context_destroy(owner);
}

static void test_a_priority_beyond_the_drivers_is_told_as_it_is(void **state)
{
    (void)state;
    gantry_context *context = NULL;
    gantry_partition_request r[] = {request("a", AT_LEAST, 8), request("b", REST, 0)};
    r[0].priority = -100;
    assert_ok(open_with(r, 2, NULL, &context));
    void *stream;
    int priority = 0;
    assert_ok(gantry_partition_create_stream(gantry_partition_at(context, 0), &stream));
    assert_ok(gantry_context_acquire(context));
    assert_int_equal(context->cuda->driver->cuStreamGetPriority(stream, &priority), CUDA_SUCCESS);
    assert_true(priority > -100 && priority < 0);
    assert_int_equal(info_of(gantry_partition_at(context, 0)).priority, priority);
    assert_int_equal(info_of(gantry_partition_at(context, 1)).priority, 0);
    assert_int_equal(context->cuda->driver->cuStreamDestroy(stream), CUDA_SUCCESS);
    assert_ok(gantry_context_release(context));
    gantry_context_destroy(context);
}

static void test_an_old_driver_is_refused_or_falls_back(void **state)
{
    (void)state;
    if (!on_emulator()) {
        return; /* this driver behaves so */
    }
    gantry_context *context = NULL;
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_partition_request r[] = {request("a", AT_LEAST, 8), request("b", REST, 0)};
    r[0].priority = -2;
    setenv("GANTRY_EMU_PROFILE", "cuda=12030", 1);
    assert_int_equal(open_with(r, 2, NULL, &context), GANTRY_ERR_UNSUPPORTED);
    assert_non_null(strstr(gantry_last_error(), "CUDA 12.3"));
    plan.fallback = GANTRY_PARTITION_PRIORITY_ONLY;
    assert_ok(open_with(r, 2, &plan, &context));
    void *stream;
    int priority = 0;
    assert_ok(gantry_partition_create_stream(gantry_partition_at(context, 0), &stream));
    assert_ok(gantry_context_acquire(context));
    assert_int_equal(context->cuda->driver->cuStreamGetPriority(stream, &priority), CUDA_SUCCESS);
    assert_int_equal(priority, -2);
    assert_int_equal(context->cuda->driver->cuStreamDestroy(stream), CUDA_SUCCESS);
    assert_ok(gantry_context_release(context));
    gantry_context_destroy(context);
    setenv("GANTRY_EMU_PROFILE", "cuda=12040", 1); /* the driver has no call of its own for streams */
    assert_ok(open_with(r, 2, NULL, &context));
    audit_all(context);
    gantry_context_destroy(context);
}

static void test_a_structured_split_and_work_queues(void **state)
{
    (void)state;
    if (!on_emulator()) {
        return;
    }
    gantry_context *context = NULL;
    gantry_partition_request r[] = {request("a", EXACT, 28), request("b", EXACT, 32), request("c", EXACT, 0),
                                    request("rest", REST, 0)};
    for (int i = 0; i < 3; i++) {
        r[i].cluster_size = 4;
        r[i].workqueue_limit = (uint32_t)i;
        r[i].workqueue_scope = GANTRY_WORKQUEUE_BALANCED;
    }
    r[2].workqueue_scope = GANTRY_WORKQUEUE_SHARED;
    r[1].overlaps = "a";
    r[1].overlap_sms = 8;
    setenv("GANTRY_EMU_PROFILE", "cuda=13010", 1);
    assert_ok(open_with(r, 4, NULL, &context));
    gantry_partition_layout layout = {.struct_size = sizeof(layout)};
    gantry_sm_topology topology = {.struct_size = sizeof(topology)};
    assert_ok(gantry_partition_get_layout(context, &layout));
    assert_true(layout.is_structured);
    assert_ok(gantry_partition_read_topology(context, &topology));
    static const uint8_t sizes[] = {18, 18, 18, 16, 16, 16, 16, 14}; /* as the emulated device has them */
    assert_int_equal(topology.gpc_count, sizeof(sizes));
    assert_memory_equal(topology.gpc_sms, sizes, sizeof(sizes));
    assert_int_equal(topology.workqueues, 8);
    assert_int_equal(info_of(gantry_partition_at(context, 0)).granted_sms, 28);
    assert_int_equal(info_of(gantry_partition_at(context, 1)).granted_sms, 32);
    assert_int_equal(info_of(gantry_partition_at(context, 1)).workqueue_limit, 1);
    assert_int_equal(info_of(gantry_partition_at(context, 1)).workqueue_scope, GANTRY_WORKQUEUE_BALANCED);
    assert_int_equal(info_of(gantry_partition_at(context, 2)).workqueue_limit, 2);
    assert_int_equal(info_of(gantry_partition_at(context, 2)).workqueue_scope, GANTRY_WORKQUEUE_SHARED);
    /* Balanced without a number: as many partitions as the device has processing clusters. */
    assert_int_equal(info_of(gantry_partition_at(context, 0)).workqueue_limit, 8);
    assert_int_equal(info_of(gantry_partition_at(context, 0)).workqueue_scope, GANTRY_WORKQUEUE_BALANCED);
    /* Without a wish a partition uses those of all. */
    assert_int_equal(info_of(gantry_partition_at(context, 3)).workqueue_limit, 8);
    assert_int_equal(info_of(gantry_partition_at(context, 3)).workqueue_scope, GANTRY_WORKQUEUE_SHARED);
    /* Discovered: clusters of 4 in processing clusters of 18, 16 and 14; then the SMs that are left. */
    assert_int_equal(info_of(gantry_partition_at(context, 2)).granted_sms, 124 - 28 - 24);
    assert_int_equal(info_of(gantry_partition_at(context, 3)).granted_sms, 8);
    assert_int_equal(info_of(gantry_partition_at(context, 3)).planned_sms, 8);
    audit_all(context);
    gantry_context_destroy(context);
}

/* Nothing is split then, also where the device has too few SMs for one part. */
static void test_the_rest_alone_has_all_sms(void **state)
{
    (void)state;
    static const char *const profiles[] = {"h200", "h200,cuda=13010", "small", "small,cuda=13010", "mig"};
    if (!on_emulator()) {
        return;
    }
    for (size_t i = 0; i < sizeof(profiles) / sizeof(profiles[0]); i++) {
        const gantry_partition_request r[] = {request("all", REST, 0)};
        gantry_context *context;
        setenv("GANTRY_EMU_PROFILE", profiles[i], 1);
        assert_ok(open_with(r, 1, NULL, &context));
        assert_int_equal(gantry_partition_count(context), 1);
        const gantry_partition_info info = info_of(gantry_partition_at(context, 0));
        assert_int_equal(info.granted_sms, info.total_sms);
        assert_int_equal(info.planned_sms, info.total_sms);
        assert_true(info.total_sms != 0 && info.is_exclusive && info.is_default);
        audit_all(context);
        gantry_context_destroy(context);
    }
}

static void test_a_short_grant_is_an_error_or_a_warning(void **state)
{
    (void)state;
    if (!on_emulator()) {
        return;
    }
    gantry_context *context = NULL;
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_partition_request r[] = {request("a", AT_LEAST, 16), request("b", REST, 0)};
    setenv("GANTRY_EMU_PROFILE", "grant-less=6", 1);
    assert_int_equal(open_with(r, 2, NULL, &context), GANTRY_ERR_UNSUPPORTED);
    assert_non_null(strstr(gantry_last_error(), "16 SMs were planned, the driver granted 10"));
    plan.shortfall = GANTRY_PARTITION_SHORT_IS_WARNING;
    assert_ok(open_with(r, 2, &plan, &context));
    assert_int_equal(info_of(gantry_partition_at(context, 0)).granted_sms, 10);
    gantry_context_destroy(context);
}

/* After each failure nothing is left behind; streams are destroyed before their green context, always. */
static void test_failures_and_ends_leave_nothing(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    if (!gpu_fixture_controls(&emu)) {
        return;
    }
    static const char *const calls[] = {"cuDeviceGetDevResource",    "cuDevSmResourceSplitByCount",
                                        "cuDevResourceGenerateDesc", "cuGreenCtxCreate",
                                        "cuGreenCtxGetDevResource",  "cuGreenCtxStreamCreate"};
    gantry_partition_request r[] = {request("a", AT_LEAST, 16), request("b", REST, 0)};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        for (uint64_t nth = 1; nth <= (i == 0 ? 1u : 2u); nth++) { /* the device is asked once */
            gantry_context *context = NULL;
            assert_int_equal((emu.fail)(calls[i], nth, CUDA_ERROR_UNKNOWN, GANTRY_EMU_ONCE), 0);
            gantry_status status = open_with(r, 2, NULL, &context);
            assert_int_equal(status == GANTRY_OK, i == 5); /* streams are made when they are needed */
            gantry_context_destroy(context);
            assert_int_equal(emu.live(GANTRY_EMU_LIVE_GREEN_CONTEXTS), 0);
            assert_int_equal(emu.live(GANTRY_EMU_LIVE_STREAMS), 0);
            emu.clear_faults();
        }
    }
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    gantry_partition_request r[] = {request("a", AT_LEAST, 16), request("b", REST, 0)};
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    struct gy_context *cuda; /* there is no dispatcher and no heap, whose threads allocate and free memory */
    options.driver = gpu_fixture_driver();
    plan.requests = r;
    plan.count = 2;
    assert_ok(gy_context_open(&options, &cuda));
    assert_ok(gy_context_push(cuda));
    for (long nth = 0;; nth++) {
        struct gy_partitions *more = NULL;
        long before = gy_alloc_live();
        gy_fault_arm(nth);
        gantry_status status = gy_partitions_create(cuda, NULL, &plan, &more);
        bool fired = gy_fault_fired();
        gy_fault_arm(-1);
        if (!fired) {
            assert_ok(status);
            gy_partitions_destroy(more);
            break;
        }
        assert_int_equal(status, GANTRY_ERR_OUT_OF_HOST_MEMORY);
        assert_null(more);
        assert_int_equal(gy_alloc_live(), before);
    }
    assert_ok(gy_context_pop(cuda));
    gy_context_close(cuda);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_longer_options_are_taken),
        cmocka_unit_test(test_three_partitions_are_granted_and_disjoint),
        cmocka_unit_test(test_fine_units_and_declared_overlap),
        cmocka_unit_test(test_without_a_plan_there_is_one_partition),
        cmocka_unit_test(test_an_audit_leaves_nothing),
        cmocka_unit_test(test_streams_know_their_partition),
        cmocka_unit_test(test_whole_partition_calls),
        cmocka_unit_test(test_whole_partition_calls_with_borrowed_sms),
        cmocka_unit_test(test_green_contexts_need_the_primary_context),
        cmocka_unit_test(test_an_adopted_green_context_tells_its_own_sms),
        cmocka_unit_test(test_a_priority_beyond_the_drivers_is_told_as_it_is),
        cmocka_unit_test_teardown(test_an_old_driver_is_refused_or_falls_back, restore_emulator),
        cmocka_unit_test_teardown(test_a_structured_split_and_work_queues, restore_emulator),
        cmocka_unit_test_teardown(test_the_rest_alone_has_all_sms, restore_emulator),
        cmocka_unit_test_teardown(test_a_short_grant_is_an_error_or_a_warning, restore_emulator),
        cmocka_unit_test(test_failures_and_ends_leave_nothing),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
