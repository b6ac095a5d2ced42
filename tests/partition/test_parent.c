/* SPDX-License-Identifier: MIT */
/* Plans inside a green context: of a partition of another context, or of the application. */
#include "context/context.h"
#include "tests/partition/plan_support.h"
#include "tests/partition/replan_scene.h"
#include "tests/support/cmocka_c11.h"

#include <stdlib.h>
#include <string.h>

#define PLAN_A "critical16 bulk24 *other"
#define PLAN_B "bulk32 *other critical8"

static void test_a_plan_inside_a_partition(void **state)
{
    (void)state;
    struct replan_scene outer;
    gantry_context *inner;
    void *stream;
    replan_open(&outer, PLAN_A, GANTRY_SUBMISSION_STREAMS);
    gantry_partition *bulk = replan_partition(&outer, "bulk");
    assert_ok(gantry_partition_create_stream(bulk, &stream));
    struct replan_plan plan;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    options.partitions = replan_plan(&plan, "half8 *more");
    plan.options.parent_stream = stream;
    gantry_sm_topology topology = {.struct_size = sizeof(topology)};
    assert_ok(gantry_partition_read_parent_topology(outer.gpu.context, &plan.options, &topology));
    assert_int_equal(topology.total_sms, replan_info(bulk).granted_sms);
    assert_ok(gantry_context_create(&options, &inner));
    gantry_sm_set whole = {.struct_size = sizeof(whole)}, part = whole;
    uint32_t sms = 0;
    assert_ok(gantry_partition_audit(bulk, GANTRY_AUDIT_STREAM, &whole));
    for (uint32_t i = 0; i < 2; i++) {
        gantry_partition *p = gantry_partition_at(inner, i);
        assert_ok(gantry_partition_audit(p, GANTRY_AUDIT_GRAPH, &part));
        assert_int_equal(part.seen_sms, replan_info(p).granted_sms);
        assert_int_equal(replan_info(p).parent_sms, replan_info(bulk).granted_sms);
        assert_int_equal(replan_info(p).total_sms, replan_info(bulk).total_sms);
        sms += part.seen_sms;
        for (uint32_t w = 0; w < GANTRY_SM_SET_WORDS; w++) {
            assert_int_equal(part.words[w] & ~whole.words[w], 0);
        }
    }
    assert_int_equal(sms, replan_info(bulk).granted_sms);
    gantry_context *second = NULL;
    replan_refused(gantry_context_create(&options, &second), GANTRY_ERR_STATE,
                   "divided by the plan of another context already, into 2 partitions, 'half' the first");
    replan_refused(replan_to(&outer, PLAN_B), GANTRY_ERR_STATE, "partition 'bulk' is divided by the plan");
    plan.requests[0].sm_count = 32;
    replan_refused(gantry_context_set_partitions(inner, &plan.options), GANTRY_ERR_INVALID_ARGUMENT,
                   "wants 32 SMs: its parent has");
    plan.requests[0].sm_count = 16;
    assert_ok(gantry_context_set_partitions(inner, &plan.options)); /* the same parent, in its own place */
    assert_int_equal(replan_info(gantry_partition_at(inner, 0)).granted_sms, 16);
    gantry_context_destroy(inner);
    replan_run_row(&outer);
    assert_ok(gantry_context_acquire(outer.gpu.context));
    assert_int_equal(outer.gpu.context->cuda->driver->cuStreamDestroy(stream), CUDA_SUCCESS);
    assert_ok(gantry_context_release(outer.gpu.context));
    assert_ok(replan_to(&outer, PLAN_B));
    replan_run_row(&outer);
    replan_close(&outer);
}

/* A green context of so many SMs that the application has made itself. */
static CUgreenCtx make_green(struct gy_context *cuda, unsigned sms)
{
    CUdevResource all, part;
    CUdevResourceDesc desc;
    CUgreenCtx green = NULL;
    unsigned groups = 1;
    memset(&all, 0, sizeof(all));
    assert_ok(GY_CALL(cuda, cuDeviceGetDevResource(cuda->device, &all, CU_DEV_RESOURCE_TYPE_SM)));
    assert_ok(GY_CALL(cuda, cuDevSmResourceSplitByCount(&part, &groups, &all, NULL, 0, sms)));
    assert_ok(GY_CALL(cuda, cuDevResourceGenerateDesc(&desc, &part, 1)));
    assert_ok(GY_CALL(cuda, cuGreenCtxCreate(&green, desc, cuda->device, CU_GREEN_CTX_DEFAULT_STREAM)));
    return green;
}

static void test_a_plan_inside_a_green_context(void **state)
{
    (void)state;
    struct replan_scene s;
    struct replan_plan plan;
    replan_open(&s, NULL, GANTRY_SUBMISSION_GRAPHS);
    CUgreenCtx green = make_green(s.gpu.context->cuda, 48);
    (void)replan_plan(&plan, "critical8 bulk16 *other");
    plan.options.parent_green = green;
    assert_ok(gantry_context_set_partitions(s.gpu.context, &plan.options));
    uint32_t sms = 0;
    for (uint32_t i = 0; i < 3; i++) {
        gantry_partition_info info = replan_info(gantry_partition_at(s.gpu.context, i));
        assert_int_equal(info.parent_sms, 48);
        assert_true(info.total_sms > 48);
        sms += info.granted_sms;
    }
    assert_int_equal(sms, 48);
    replan_run_row(&s);
    assert_ok(gantry_context_set_partitions(s.gpu.context, NULL));
    assert_int_equal(replan_info(gantry_partition_default(s.gpu.context)).parent_sms,
                     replan_info(gantry_partition_default(s.gpu.context)).total_sms);
    assert_ok(gantry_context_acquire(s.gpu.context));
    assert_ok(GY_CALL(s.gpu.context->cuda, cuGreenCtxDestroy(green)));
    assert_ok(gantry_context_release(s.gpu.context));
    replan_close(&s);
}

/* A stream of no green context stands for the device. */
static void test_parents_that_are_no_part(void **state)
{
    (void)state;
    struct replan_scene s;
    struct replan_plan plan;
    replan_open(&s, NULL, GANTRY_SUBMISSION_STREAMS);
    struct gy_context *cuda = s.gpu.context->cuda;
    CUstream stream;
    CUgraph graph;
    gantry_partition *before = gantry_partition_default(s.gpu.context);
    assert_ok(gantry_context_acquire(s.gpu.context));
    assert_ok(GY_CALL(cuda, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)));
    (void)replan_plan(&plan, PLAN_A);
    plan.options.parent_stream = stream;
    assert_ok(GY_CALL(cuda, cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)));
    gantry_sm_topology topology = {.struct_size = sizeof(topology)};
    assert_ok(gantry_partition_read_parent_topology(s.gpu.context, &plan.options, &topology));
    assert_int_equal(topology.total_sms, replan_info(before).total_sms);
    assert_ok(GY_CALL(cuda, cuStreamEndCapture(stream, &graph))); /* the question has not broken it */
    assert_ok(GY_CALL(cuda, cuGraphDestroy(graph)));
    plan.options.parent_green = (void *)&plan;
    replan_refused(gantry_context_set_partitions(s.gpu.context, &plan.options), GANTRY_ERR_INVALID_ARGUMENT,
                   "both parent_green and parent_stream");
    assert_ptr_equal(gantry_partition_default(s.gpu.context), before);
    plan.options.parent_green = NULL;
    assert_ok(gantry_context_set_partitions(s.gpu.context, &plan.options));
    gantry_partition_info info = replan_info(gantry_partition_at(s.gpu.context, 0));
    assert_int_equal(info.parent_sms, info.total_sms);
    replan_run_row(&s);
    if (gpu_fixture_driver() == GANTRY_DRIVER_EMULATED) { /* a device does not survive such a handle */
        plan.options.parent_stream = NULL;
        plan.options.parent_green = (void *)(uintptr_t)0x1234;
        replan_refused(gantry_context_set_partitions(s.gpu.context, &plan.options), GANTRY_ERR_DRIVER,
                       "cuGreenCtxGetDevResource");
        replan_run_row(&s);
    }
    assert_ok(GY_CALL(cuda, cuStreamDestroy(stream)));
    assert_ok(gantry_context_release(s.gpu.context));
    replan_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plan_inside_a_partition),
        cmocka_unit_test(test_a_plan_inside_a_green_context),
        cmocka_unit_test(test_parents_that_are_no_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
