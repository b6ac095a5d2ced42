/* SPDX-License-Identifier: MIT */
/* What is told of streams, whoever made them, and of work queues. */
#include "context/context.h"
#include "tests/partition/plan_support.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include <gantry/launch.h>

#include "audit_kernels.kernels.h"

#include <stdlib.h>
#include <string.h>

#define EXACT GANTRY_PARTITION_EXACT
#define REST GANTRY_PARTITION_REST

static gantry_context *open_plan(const gantry_partition_request *requests, uint32_t count)
{
    gantry_context *context = NULL;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    plan.requests = requests;
    plan.count = count;
    gpu_fixture_hold_devices();
    options.driver = gpu_fixture_driver();
    options.partitions = count != 0 ? &plan : NULL;
    assert_ok(gantry_context_create(&options, &context));
    return context;
}

static bool on_emulator(void)
{
    return gpu_fixture_driver() == GANTRY_DRIVER_EMULATED;
}

static int restore_emulator(void **state)
{
    (void)state;
    unsetenv("GANTRY_EMU_PROFILE");
    return 0;
}

static void expect(gantry_context *context, void *stream, gantry_stream_place place, uint32_t sms,
                   const gantry_partition *partition)
{
    gantry_stream_info info = {.struct_size = sizeof(info)};
    assert_ok(gantry_stream_get_info(context, stream, &info));
    assert_int_equal(info.place, place);
    assert_int_equal(info.granted_sms, sms);
    assert_ptr_equal(info.partition, partition);
    assert_int_equal(info.total_sms, context->cuda->info.total_sms);
}

/* A green context that somebody else has made. */
struct foreign {
    CUgreenCtx green;
    CUstream stream;    /* of cuGreenCtxStreamCreate() */
    CUstream converted; /* of cuStreamCreate() while the context of the green one was current */
    uint32_t sms;
};

static void make_foreign(struct gy_context *cuda, struct foreign *f)
{
    CUdevResource all, part;
    CUdevResourceDesc desc;
    CUcontext context, popped;
    unsigned groups = 1;
    memset(&all, 0, sizeof(all));
    assert_ok(GY_CALL(cuda, cuDeviceGetDevResource(cuda->device, &all, CU_DEV_RESOURCE_TYPE_SM)));
    assert_ok(GY_CALL(cuda, cuDevSmResourceSplitByCount(&part, &groups, &all, NULL, 0, 8)));
    assert_ok(GY_CALL(cuda, cuDevResourceGenerateDesc(&desc, &part, 1)));
    assert_ok(GY_CALL(cuda, cuGreenCtxCreate(&f->green, desc, cuda->device, CU_GREEN_CTX_DEFAULT_STREAM)));
    assert_ok(gy_context_create_stream(cuda, f->green, 0, &f->stream));
    assert_ok(GY_CALL(cuda, cuCtxFromGreenCtx(&context, f->green)));
    assert_ok(GY_CALL(cuda, cuCtxPushCurrent(context)));
    assert_ok(GY_CALL(cuda, cuStreamCreate(&f->converted, CU_STREAM_NON_BLOCKING)));
    assert_ok(GY_CALL(cuda, cuCtxPopCurrent(&popped)));
    f->sms = part.sm.smCount;
}

static void destroy_foreign(struct gy_context *cuda, const struct foreign *f)
{
    assert_ok(GY_CALL(cuda, cuStreamDestroy(f->converted)));
    assert_ok(GY_CALL(cuda, cuStreamDestroy(f->stream)));
    assert_ok(GY_CALL(cuda, cuGreenCtxDestroy(f->green)));
}

/* Ask about streams of all kinds, in a context with a plan in which one partition borrows. */
static void ask_about_all(void)
{
    gantry_partition_request r[] = {request("a", EXACT, 16), request("b", EXACT, 32), request("c", REST, 0)};
    r[0].borrows = "b";
    r[1].priority = -2;
    gantry_context *context = open_plan(r, 3);
    struct gy_context *cuda = context->cuda;
    struct gantry_partition *a = gantry_partition_at(context, 0), *b = gantry_partition_at(context, 1);
    gantry_stream_info info = {.struct_size = sizeof(info)};
    void *in_a, *in_b;
    CUstream wide, plain;
    struct foreign foreign;
    assert_ok(gantry_partition_create_stream(a, &in_a));
    assert_ok(gantry_partition_create_stream(b, &in_b));
    assert_ok(gantry_context_acquire(context));
    assert_ok(gy_partition_stream(a, true, &wide));
    assert_ok(GY_CALL(cuda, cuStreamCreate(&plain, CU_STREAM_NON_BLOCKING)));
    make_foreign(cuda, &foreign);
    assert_ok(gantry_context_release(context)); /* the calls make it current themselves */
    const uint32_t all = cuda->info.total_sms;
    expect(context, in_a, GANTRY_STREAM_OF_PARTITION, 16, a);
    expect(context, in_b, GANTRY_STREAM_OF_PARTITION, 32, b);
    assert_ok(gantry_stream_get_info(context, in_b, &info));
    assert_int_equal(info.priority, -2);
    expect(context, wide, GANTRY_STREAM_OF_WIDE, 48, a);
    expect(context, plain, GANTRY_STREAM_OF_CONTEXT, all, NULL);
    expect(context, NULL, GANTRY_STREAM_OF_CONTEXT, all, NULL);
    expect(context, foreign.stream, GANTRY_STREAM_OF_GREEN, foreign.sms, NULL);
    expect(context, foreign.converted, GANTRY_STREAM_OF_GREEN, foreign.sms, NULL);
    assert_true(foreign.sms >= 8 && foreign.sms < all);
    assert_ok(gantry_context_acquire(context));
    destroy_foreign(cuda, &foreign);
    assert_ok(GY_CALL(cuda, cuStreamDestroy(plain)));
    assert_ok(GY_CALL(cuda, cuStreamDestroy(wide)));
    assert_ok(GY_CALL(cuda, cuStreamDestroy(in_b)));
    assert_ok(GY_CALL(cuda, cuStreamDestroy(in_a)));
    assert_ok(gantry_context_release(context));
    gantry_context_destroy(context);
}

static void test_streams_tell_their_sms(void **state)
{
    (void)state;
    ask_about_all();
    if (on_emulator()) {
        setenv("GANTRY_EMU_PROFILE", "cuda=12080", 1);
        ask_about_all();
        setenv("GANTRY_EMU_PROFILE", "cuda=13010", 1); /* here streams have a question of their own */
        ask_about_all();
    }
}

/* Without a plan, and from another context of CUDA. */
static void test_streams_of_other_contexts_are_told_apart(void **state)
{
    (void)state;
    gantry_context *context = open_plan(NULL, 0), *other = NULL;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    options.mode = GANTRY_CONTEXT_OWN;
    assert_ok(gantry_context_create(&options, &other));
    void *ours, *theirs;
    const uint32_t all = context->cuda->info.total_sms;
    assert_ok(gantry_partition_create_stream(gantry_partition_default(context), &ours));
    assert_ok(gantry_partition_create_stream(gantry_partition_default(other), &theirs));
    expect(context, ours, GANTRY_STREAM_OF_CONTEXT, all, NULL);
    expect(context, theirs, GANTRY_STREAM_OF_OTHER, all, NULL);
    expect(other, theirs, GANTRY_STREAM_OF_CONTEXT, all, NULL);
    assert_ok(GY_CALL(context->cuda, cuStreamDestroy(ours)));
    assert_ok(GY_CALL(other->cuda, cuStreamDestroy(theirs)));
    gantry_context_destroy(other);
    gantry_context_destroy(context);
}

/* An adopted green context is the context itself, with the SMs that it has. */
static void test_streams_of_an_adopted_green_context(void **state)
{
    (void)state;
    gantry_partition_request r[] = {request("part", EXACT, 16), request("rest", REST, 0)};
    gantry_context *owner = open_plan(r, 2), *adopted = NULL;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    CUcontext native = NULL;
    struct gantry_partition *part = gantry_partition_at(owner, 0);
    assert_int_equal(owner->cuda->driver->cuCtxFromGreenCtx(&native, part->green), CUDA_SUCCESS);
    options.driver = gpu_fixture_driver();
    options.mode = GANTRY_CONTEXT_ADOPT;
    options.adopted = native;
    assert_ok(gantry_context_create(&options, &adopted));
    void *stream;
    assert_ok(gantry_partition_create_stream(gantry_partition_default(adopted), &stream));
    expect(adopted, stream, GANTRY_STREAM_OF_CONTEXT, 16, NULL);
    expect(owner, stream, GANTRY_STREAM_OF_PARTITION, 16, part);
    assert_ok(gantry_context_acquire(adopted));
    assert_ok(GY_CALL(adopted->cuda, cuStreamDestroy(stream)));
    assert_ok(gantry_context_release(adopted));
    gantry_context_destroy(adopted);
    gantry_context_destroy(owner);
}

/* A driver without green contexts has streams of all SMs only. */
static void test_an_old_driver_has_all_sms(void **state)
{
    (void)state;
    if (!on_emulator()) {
        return;
    }
    setenv("GANTRY_EMU_PROFILE", "cuda=12030", 1);
    gantry_context *context = open_plan(NULL, 0);
    void *stream;
    assert_ok(gantry_partition_create_stream(gantry_partition_default(context), &stream));
    expect(context, stream, GANTRY_STREAM_OF_CONTEXT, context->cuda->info.total_sms, NULL);
    assert_ok(GY_CALL(context->cuda, cuStreamDestroy(stream)));
    gantry_context_destroy(context);
}

/* A driver that calls it an error when a stream is of no green context, and one that fails. */
static void test_answers_of_other_drivers(void **state)
{
    (void)state;
    struct gantry_emu_control emu;
    gantry_stream_info info = {.struct_size = sizeof(info)};
    gantry_context *context = open_plan(NULL, 0);
    void *stream;
    if (!gpu_fixture_controls(&emu)) {
        gantry_context_destroy(context);
        return;
    }
    assert_ok(gantry_partition_create_stream(gantry_partition_default(context), &stream));
    assert_int_equal((emu.fail)("cuStreamGetGreenCtx", 1, CUDA_ERROR_INVALID_HANDLE, GANTRY_EMU_ONCE), 0);
    expect(context, stream, GANTRY_STREAM_OF_CONTEXT, context->cuda->info.total_sms, NULL);
    static const char *const calls[] = {"cuStreamGetGreenCtx", "cuStreamGetCtx", "cuStreamGetPriority",
                                        "cuCtxGetDevResource"};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        assert_int_equal((emu.fail)(calls[i], 1, CUDA_ERROR_NOT_PERMITTED, GANTRY_EMU_ONCE), 0);
        assert_int_equal(gantry_stream_get_info(context, stream, &info), GANTRY_ERR_DRIVER);
        assert_non_null(strstr(gantry_last_error(), calls[i]));
        emu.clear_faults();
    }
    assert_ok(GY_CALL(context->cuda, cuStreamDestroy(stream)));
    assert_int_equal(gantry_stream_get_info(context, stream, &info), GANTRY_ERR_DRIVER);
    gantry_context_destroy(context);
}

/* The question is answered, and the capture goes on. */
static void test_a_captured_stream_can_be_asked(void **state)
{
    (void)state;
    gantry_partition_request r[] = {request("a", EXACT, 16), request("rest", REST, 0)};
    gantry_context *context = open_plan(r, 2);
    struct gy_context *cuda = context->cuda;
    struct gantry_partition *of = NULL;
    gantry_module *module;
    gantry_kernel *kernel;
    void *stream;
    CUgraph graph = NULL;
    gantry_stream_info info = {.struct_size = sizeof(info)};
    gantry_occupancy fits = {.struct_size = sizeof(fits)};
    assert_ok(gantry_module_load(context, &gantry_image_audit_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "gantry_audit", &kernel));
    assert_ok(gantry_partition_create_stream(gantry_partition_at(context, 0), &stream));
    assert_ok(gantry_context_acquire(context));
    assert_ok(GY_CALL(cuda, cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)));
    assert_ok(gantry_stream_get_info(context, stream, &info));
    assert_int_equal(info.place, GANTRY_STREAM_OF_PARTITION);
    assert_int_equal(info.granted_sms, gantry_partition_at(context, 0) == info.partition ? 16 : 0);
    assert_ok(gantry_stream_get_occupancy(context, stream, kernel, (gantry_dim3){32, 1, 1}, 0, NULL, &fits));
    assert_true(fits.blocks_per_sm > 0);
    assert_ok(gantry_partition_of_stream(context, stream, &of));
    assert_ptr_equal(of, gantry_partition_at(context, 0));
    assert_ok(GY_CALL(cuda, cuStreamEndCapture(stream, &graph)));
    assert_non_null(graph);
    expect(context, stream, GANTRY_STREAM_OF_PARTITION, 16, of);
    assert_ok(GY_CALL(cuda, cuGraphDestroy(graph)));
    assert_ok(GY_CALL(cuda, cuStreamDestroy(stream)));
    assert_ok(gantry_context_release(context));
    gantry_context_destroy(context);
}

/* What fits is counted by the SMs of the stream. */
static void test_occupancy_of_a_foreign_stream(void **state)
{
    (void)state;
    gantry_context *context = open_plan(NULL, 0);
    struct gy_context *cuda = context->cuda;
    gantry_module *module;
    gantry_kernel *kernel;
    struct foreign foreign;
    const gantry_dim3 block = {32, 1, 1};
    gantry_occupancy whole = {.struct_size = sizeof(whole)}, part = whole;
    assert_ok(gantry_module_load(context, &gantry_image_audit_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "gantry_audit", &kernel));
    assert_ok(gantry_context_acquire(context));
    make_foreign(cuda, &foreign);
    assert_ok(
        gantry_partition_get_occupancy(gantry_partition_default(context), kernel, block, 0, NULL, &whole));
    assert_ok(gantry_stream_get_occupancy(context, foreign.stream, kernel, block, 0, NULL, &part));
    assert_int_equal(part.granted_sms, foreign.sms);
    assert_int_equal(part.blocks_per_sm, whole.blocks_per_sm);
    assert_int_equal(part.blocks, foreign.sms * whole.blocks_per_sm);
    assert_true(part.blocks < whole.blocks);
    gantry_launch_options options = GANTRY_LAUNCH_OPTIONS_INIT;
    options.cluster = (gantry_dim3){16, 1, 1};
    const gantry_status status =
        gantry_stream_get_occupancy(context, foreign.stream, kernel, block, 0, &options, &part);
    assert_true(status == GANTRY_ERR_UNSUPPORTED || status == GANTRY_OK); /* by the device's code */
    if (status == GANTRY_OK) {
        assert_int_equal(part.clusters, 0); /* in 8 SMs there is no cluster of 16 */
    }
    destroy_foreign(cuda, &foreign);
    assert_ok(gantry_context_release(context));
    gantry_context_destroy(context);
}

/* ---- work queues ------------------------------------------------------------------------------- */

static gantry_partition_info info_of(gantry_context *context, uint32_t index)
{
    gantry_partition_info info = {.struct_size = sizeof(info)};
    assert_ok(gantry_partition_get_info(gantry_partition_at(context, index), &info));
    return info;
}

static CUdevWorkqueueResource queues_of(gantry_context *context, uint32_t index)
{
    CUdevResource queues;
    memset(&queues, 0, sizeof(queues));
    assert_ok(GY_CALL(context->cuda, cuGreenCtxGetDevResource(gantry_partition_at(context, index)->green,
                                                              &queues, CU_DEV_RESOURCE_TYPE_WORKQUEUE)));
    return queues.wq;
}

/* A partition gets the queues that another one has, whichever comes first in the plan. */
static void test_partitions_share_existing_queues(void **state)
{
    (void)state;
    if (!on_emulator()) {
        return; /* since CUDA 13.1 */
    }
    setenv("GANTRY_EMU_PROFILE", "cuda=13010", 1);
    gantry_partition_request r[] = {request("guest", EXACT, 16), request("host", EXACT, 16),
                                    request("own", EXACT, 16), request("rest", REST, 0)};
    r[0].workqueues_of = "host";
    r[1].workqueue_limit = 3;
    r[1].workqueue_scope = r[2].workqueue_scope = GANTRY_WORKQUEUE_BALANCED;
    gantry_context *context = open_plan(r, 4);
    gantry_sm_topology topology = {.struct_size = sizeof(topology)};
    assert_ok(gantry_partition_read_topology(context, &topology));
    assert_int_equal(topology.workqueues, 8);
    assert_int_equal(topology.workqueue_scope, GANTRY_WORKQUEUE_SHARED);
    assert_int_equal(topology.has_workqueues, 1);
    static const uint32_t limits[] = {3, 3, 8, 8};
    static const gantry_workqueue_scope scopes[] = {GANTRY_WORKQUEUE_BALANCED, GANTRY_WORKQUEUE_BALANCED,
                                                    GANTRY_WORKQUEUE_BALANCED, GANTRY_WORKQUEUE_SHARED};
    for (uint32_t i = 0; i < 4; i++) {
        const gantry_partition_info info = info_of(context, i);
        assert_int_equal(info.workqueue_limit, limits[i]);
        assert_int_equal(info.workqueue_scope, scopes[i]);
        assert_true(info.has_workqueues);
    }
    const CUdevWorkqueueResource guest = queues_of(context, 0), host = queues_of(context, 1),
                                 own = queues_of(context, 2);
    assert_memory_equal(&guest, &host, sizeof(host));
    assert_memory_not_equal(&own, &host, sizeof(host));
    gantry_context_destroy(context);
}

/* A partition gets the queues of a green context that is not Gantry's to it: here one of another context. */
static void test_a_partition_uses_the_queues_of_a_foreign_green_context(void **state)
{
    (void)state;
    if (!on_emulator()) {
        return; /* since CUDA 13.1 */
    }
    setenv("GANTRY_EMU_PROFILE", "cuda=13010", 1);
    gantry_partition_request theirs[] = {request("theirs", EXACT, 16), request("rest", REST, 0)};
    theirs[0].workqueue_limit = 3;
    theirs[0].workqueue_scope = GANTRY_WORKQUEUE_BALANCED;
    gantry_context *other = open_plan(theirs, 2);
    gantry_partition_request ours[] = {request("guest", EXACT, 16), request("rest", REST, 0)};
    ours[0].workqueues_green = gantry_partition_at(other, 0)->green;
    gantry_context *context = open_plan(ours, 2);
    const CUdevWorkqueueResource guest = queues_of(context, 0), host = queues_of(other, 0),
                                 rest = queues_of(context, 1);
    assert_memory_equal(&guest, &host, sizeof(host));
    assert_memory_not_equal(&rest, &host, sizeof(host));
    assert_int_equal(info_of(context, 0).workqueue_limit, 3);
    assert_int_equal(info_of(context, 0).workqueue_scope, GANTRY_WORKQUEUE_BALANCED);
    gantry_context_destroy(context);
    gantry_context_destroy(other);
}

static int warnings;

static void note_warning(void *user, gantry_log_level level, const char *line)
{
    (void)user;
    warnings += level == GANTRY_LOG_WARNING && strstr(line, "'guest': this driver does not hand on") != NULL;
}

static void test_an_older_driver_hands_on_no_queues(void **state)
{
    (void)state;
    gantry_partition_request r[] = {request("guest", EXACT, 8), request("rest", REST, 0)};
    r[0].workqueues_of = "rest";
    gantry_set_log(note_warning, NULL, GANTRY_LOG_WARNING);
    gantry_context *context = open_plan(r, 2);
    gantry_set_log(NULL, NULL, GANTRY_LOG_WARNING);
    const gantry_partition_info info = info_of(context, 0);
    assert_int_equal(warnings, context->cuda->driver->version < 13010);
    assert_int_equal(info.has_workqueues, context->cuda->driver->version >= 13010);
    gantry_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_streams_tell_their_sms, restore_emulator),
        cmocka_unit_test(test_streams_of_other_contexts_are_told_apart),
        cmocka_unit_test(test_streams_of_an_adopted_green_context),
        cmocka_unit_test_teardown(test_an_old_driver_has_all_sms, restore_emulator),
        cmocka_unit_test(test_answers_of_other_drivers),
        cmocka_unit_test(test_a_captured_stream_can_be_asked),
        cmocka_unit_test(test_occupancy_of_a_foreign_stream),
        cmocka_unit_test_teardown(test_partitions_share_existing_queues, restore_emulator),
        cmocka_unit_test_teardown(test_a_partition_uses_the_queues_of_a_foreign_green_context,
                                  restore_emulator),
        cmocka_unit_test(test_an_older_driver_hands_on_no_queues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
