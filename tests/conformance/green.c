/* SPDX-License-Identifier: MIT */
/* Multiprocessor resources and green contexts. */
#include "tests/conformance/conformance.h"

#include <sched.h>
#include <string.h>

#define BLOCKS 4096

static bool available(void)
{
    return cu->cuDeviceGetDevResource != NULL && cu->cuDevSmResourceSplitByCount != NULL &&
           cu->cuDevResourceGenerateDesc != NULL && cu->cuGreenCtxCreate != NULL &&
           cu->cuGreenCtxDestroy != NULL && cu->cuGreenCtxStreamCreate != NULL &&
           cu->cuCtxFromGreenCtx != NULL && cu->cuGreenCtxGetDevResource != NULL &&
           cu->cuGreenCtxRecordEvent != NULL && cu->cuGreenCtxWaitEvent != NULL &&
           cu->cuStreamGetGreenCtx != NULL && cu->cuCtxGetDevResource != NULL &&
           cu->cuCtxRecordEvent != NULL && cu->cuCtxWaitEvent != NULL;
}

#define NEED_GREEN()                                  \
    do {                                              \
        if (!available()) {                           \
            cf_skip("no green contexts (CUDA 12.5)"); \
        }                                             \
    } while (0)

static CUdevResource all_sms(void)
{
    CUdevResource resource;
    memset(&resource, 0, sizeof(resource));
    cu_ok(cuDeviceGetDevResource(cf_context->device, &resource, CU_DEV_RESOURCE_TYPE_SM));
    return resource;
}

/* The smallest number of multiprocessors that a part can have here, as the driver rounds it. */
static unsigned smallest(const CUdevResource *all)
{
    CUdevResource part;
    unsigned groups = 1;
    cu_ok(cuDevSmResourceSplitByCount(&part, &groups, all, NULL, 0, 1));
    assert_int_equal(groups, 1);
    return part.sm.smCount;
}

static void test_device_offers_all_multiprocessors(void **state)
{
    (void)state;
    NEED_GREEN();
    CUdevResource all = all_sms(), none;
    int count = 0;
    cu_ok(cuDeviceGetAttribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, cf_context->device));
    assert_int_equal(all.type, CU_DEV_RESOURCE_TYPE_SM);
    assert_int_equal(all.sm.smCount, count);
    cu_is(CUDA_ERROR_INVALID_RESOURCE_TYPE,
          cuDeviceGetDevResource(cf_context->device, &none, CU_DEV_RESOURCE_TYPE_INVALID));
}

static void test_dry_run_tells_the_number_of_groups(void **state)
{
    (void)state;
    NEED_GREEN();
    CUdevResource all = all_sms(), parts[256], rest;
    unsigned unit = smallest(&all), groups = 0, again;
    cu_ok(cuDevSmResourceSplitByCount(NULL, &groups, &all, NULL, 0, unit));
    assert_true(groups >= 1 && groups <= all.sm.smCount / unit && groups <= 256);
    again = groups;
    cu_ok(cuDevSmResourceSplitByCount(parts, &again, &all, &rest, 0, unit));
    assert_int_equal(again, groups);
    unsigned sum = 0;
    for (unsigned i = 0; i < groups; i++) {
        assert_int_equal(parts[i].type, CU_DEV_RESOURCE_TYPE_SM);
        assert_true(parts[i].sm.smCount >= unit);
        sum += parts[i].sm.smCount;
    }
    if (sum < all.sm.smCount) {
        assert_int_equal(rest.type, CU_DEV_RESOURCE_TYPE_SM);
        assert_int_equal(sum + rest.sm.smCount, all.sm.smCount);
    }
}

static void test_split_gives_no_more_groups_than_asked(void **state)
{
    (void)state;
    NEED_GREEN();
    CUdevResource all = all_sms(), parts[2], rest;
    unsigned unit = smallest(&all), groups = 2;
    if (all.sm.smCount < 3 * unit) {
        cf_skip("too few multiprocessors for three parts");
    }
    cu_ok(cuDevSmResourceSplitByCount(parts, &groups, &all, &rest, 0, 1)); /* rounded up to the unit */
    assert_int_equal(groups, 2);
    assert_int_equal(parts[0].sm.smCount, unit);
    assert_int_equal(parts[1].sm.smCount, unit);
    assert_int_equal(rest.sm.smCount, all.sm.smCount - 2 * unit);
    groups = 1;
    CUresult result = cu->cuDevSmResourceSplitByCount(parts, &groups, &all, NULL, 0, all.sm.smCount + unit);
    assert_true(result != CUDA_SUCCESS || groups == 0); /* drivers may refuse in different ways */
}

struct green {
    CUgreenCtx context;
    CUstream stream;
    unsigned sms; /* granted */
};

static struct green create_green(CUdevResource *resources, unsigned count)
{
    struct green green = {NULL, NULL, 0};
    CUdevResourceDesc desc = NULL;
    CUdevResource granted;
    cu_ok(cuDevResourceGenerateDesc(&desc, resources, count));
    cu_ok(cuGreenCtxCreate(&green.context, desc, cf_context->device, CU_GREEN_CTX_DEFAULT_STREAM));
    cu_ok(cuGreenCtxGetDevResource(green.context, &granted, CU_DEV_RESOURCE_TYPE_SM));
    cu_ok(cuGreenCtxStreamCreate(&green.stream, green.context, CU_STREAM_NON_BLOCKING, 0));
    green.sms = granted.sm.smCount;
    return green;
}

static void destroy_green(struct green green)
{
    cu_ok(cuStreamSynchronize(green.stream));
    cu_ok(cuStreamDestroy(green.stream)); /* before its context */
    cu_ok(cuGreenCtxDestroy(green.context));
}

/* Mark the multiprocessors on which the blocks of cf_place were, as they have told `out`; returns how many.
 */
static unsigned read_places(CUstream stream, CUdeviceptr out, unsigned char used[1024])
{
    uint32_t *host = cf_pinned(BLOCKS);
    unsigned distinct = 0;
    memset(used, 0, 1024);
    cu_ok(cuMemcpyDtoHAsync(host, out, BLOCKS * 4, stream));
    cu_ok(cuStreamSynchronize(stream));
    for (uint32_t i = 0; i < BLOCKS; i++) {
        assert_true(host[i] < 1024);
        distinct += used[host[i]] == 0;
        used[host[i]] = 1;
    }
    return distinct;
}

/* The multiprocessors on which blocks of this stream run. */
static unsigned place_blocks(CUstream stream, unsigned char used[1024])
{
    CUdeviceptr out = cf_device(BLOCKS * 4);
    void *params[] = {&out};
    cu_ok(cuLaunchKernel(cf_place, BLOCKS, 1, 1, 256, 1, 1, 0, stream, params, NULL));
    return read_places(stream, out, used);
}

static void test_parts_run_on_their_own_multiprocessors(void **state)
{
    (void)state;
    NEED_GREEN();
    CUdevResource all = all_sms(), units[3], rest;
    unsigned unit = smallest(&all), groups = 3;
    static unsigned char used_a[1024], used_b[1024];
    if (all.sm.smCount < 3 * unit) {
        cf_skip("too few multiprocessors for three parts");
    }
    cu_ok(cuDevSmResourceSplitByCount(units, &groups, &all, &rest, 0, unit));
    assert_int_equal(groups, 3);
    struct green a = create_green(units, 2); /* two units of one split make one part */
    struct green b = create_green(units + 2, 1);
    assert_int_equal(a.sms, 2 * unit);
    assert_int_equal(b.sms, unit);
    unsigned on_a = place_blocks(a.stream, used_a), on_b = place_blocks(b.stream, used_b);
    assert_true(on_a >= 1 && on_a <= a.sms);
    assert_true(on_b >= 1 && on_b <= b.sms);
    for (size_t i = 0; i < sizeof(used_a); i++) {
        assert_false(used_a[i] && used_b[i]);
    }
    destroy_green(b);
    destroy_green(a);
}

static void test_stream_of_a_part_does_ordinary_work(void **state)
{
    (void)state;
    NEED_GREEN();
    CUdevResource all = all_sms(), part;
    unsigned groups = 1;
    CUcontext context = NULL;
    CUgreenCtx of = NULL;
    CUstream plain = cf_stream();
    CUevent event = cf_event();
    CUdeviceptr data = cf_device(4000), copy = cf_device(4000);
    cu_ok(cuDevSmResourceSplitByCount(&part, &groups, &all, NULL, 0, 1));
    struct green green = create_green(&part, 1);
    cu_ok(cuCtxFromGreenCtx(&context, green.context));
    assert_non_null(context);
    cu_ok(cuStreamGetGreenCtx(green.stream, &of));
    assert_ptr_equal(of, green.context);
    CUcontext context_of = NULL;
    cu_ok(cuStreamGetCtx(green.stream, &context_of));
    assert_ptr_equal(context_of, context);
    of = NULL;
    CUresult result = cu->cuStreamGetGreenCtx(plain, &of); /* drivers differ: they return an error, or NULL */
    assert_true(result == CUDA_ERROR_INVALID_HANDLE || (result == CUDA_SUCCESS && of == NULL));

    /* Events order it with streams of the whole device, in both directions. */
    cu_ok(cuMemsetD32Async(data, 1, 1000, plain));
    cu_ok(cuEventRecord(event, plain));
    cu_ok(cuStreamWaitEvent(green.stream, event, CU_EVENT_WAIT_DEFAULT));
    cf_launch_add(green.stream, data, 1000, 2);
    cu_ok(cuEventRecord(event, green.stream));
    cu_ok(cuStreamWaitEvent(plain, event, CU_EVENT_WAIT_DEFAULT));
    cu_ok(cuMemcpyDtoDAsync(copy, data, 4000, plain));
    cf_expect_words(plain, copy, 1000, 3);
    destroy_green(green);
}

static void test_event_covers_all_streams_of_a_part(void **state)
{
    (void)state;
    NEED_GREEN();
    CUdevResource all = all_sms(), part;
    unsigned groups = 1;
    CUevent event = cf_event(), before = cf_event();
    CUstream second = NULL, plain = cf_stream();
    CUdeviceptr a = cf_device(256), b = cf_device(256), c = cf_device(256);
    cu_ok(cuDevSmResourceSplitByCount(&part, &groups, &all, NULL, 0, 1));
    struct green green = create_green(&part, 1);
    cu_ok(cuGreenCtxStreamCreate(&second, green.context, CU_STREAM_NON_BLOCKING, 0));
    cf_close_gate(green.stream);
    cu_ok(cuMemsetD32Async(a, 31, 64, green.stream));
    cu_ok(cuMemsetD32Async(b, 32, 64, second));
    cu_ok(cuGreenCtxRecordEvent(green.context, event));
    cu_is(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    cf_open_gate();
    cu_ok(cuEventSynchronize(event));
    cf_expect_words(green.stream, a, 64, 31);
    cf_expect_words(second, b, 64, 32);

    cf_close_gate(plain);
    cu_ok(cuMemsetD32Async(c, 33, 64, plain));
    cu_ok(cuEventRecord(before, plain));
    cu_ok(cuGreenCtxWaitEvent(green.context, before)); /* later work of the whole part waits */
    cu_ok(cuMemcpyDtoDAsync(b, c, 256, second));
    cu_is(CUDA_ERROR_NOT_READY, cuStreamQuery(second));
    cf_open_gate();
    cf_expect_words(second, b, 64, 33);
    cu_ok(cuStreamDestroy(second));
    destroy_green(green);
}

/* Events of the primary context: they cover its own streams, and those of every part. */
static void test_event_covers_a_whole_context(void **state)
{
    (void)state;
    NEED_GREEN();
    CUdevResource all = all_sms(), part, told;
    unsigned groups = 1;
    CUcontext context = cf_context->native, converted = NULL;
    CUevent event = cf_event(), before = cf_event();
    CUstream first = cf_stream(), plain = cf_stream();
    CUdeviceptr a = cf_device(256), b = cf_device(256), c = cf_device(256);
    cu_ok(cuDevSmResourceSplitByCount(&part, &groups, &all, NULL, 0, 1));
    struct green green = create_green(&part, 1);
    cu_ok(cuCtxGetDevResource(context, &told, CU_DEV_RESOURCE_TYPE_SM));
    assert_int_equal(told.sm.smCount, all.sm.smCount);
    cu_ok(cuCtxFromGreenCtx(&converted, green.context));
    cu_ok(cuCtxGetDevResource(converted, &told, CU_DEV_RESOURCE_TYPE_SM));
    assert_int_equal(told.sm.smCount, green.sms);

    cf_close_gate(green.stream);
    cu_ok(cuMemsetD32Async(a, 41, 64, green.stream));
    cu_ok(cuMemsetD32Async(b, 42, 64, first));
    cu_ok(cuCtxRecordEvent(context, event));
    cu_is(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    cf_open_gate();
    cu_ok(cuEventSynchronize(event));
    cf_expect_words(green.stream, a, 64, 41);
    cf_expect_words(first, b, 64, 42);

    cf_close_gate(plain);
    cu_ok(cuMemsetD32Async(c, 43, 64, plain));
    cu_ok(cuEventRecord(before, plain));
    cu_ok(cuCtxWaitEvent(context, before)); /* later work of the context and of its parts waits */
    cu_ok(cuMemcpyDtoDAsync(a, c, 256, green.stream));
    cu_ok(cuMemcpyDtoDAsync(b, c, 256, first));
    cu_is(CUDA_ERROR_NOT_READY, cuStreamQuery(green.stream));
    cu_is(CUDA_ERROR_NOT_READY, cuStreamQuery(first));
    cf_open_gate();
    cf_expect_words(green.stream, a, 64, 43);
    cf_expect_words(first, b, 64, 43);
    destroy_green(green);
}

/* A graph of one kernel. */
struct captured {
    CUgraph graph;
    CUgraphExec exec;
};

static struct captured capture(CUstream stream, CUfunction kernel, unsigned blocks, unsigned threads,
                               void **params)
{
    struct captured g = {NULL, NULL};
    cu_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    cu_ok(cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, params, NULL));
    cu_ok(cuStreamEndCapture(stream, &g.graph));
    cu_ok(cuGraphInstantiateWithFlags(&g.exec, g.graph, 0));
    return g;
}

static void destroy_captured(const struct captured *g)
{
    cu_ok(cuGraphExecDestroy(g->exec));
    cu_ok(cuGraphDestroy(g->graph));
}

static void test_graph_keeps_the_part_it_was_captured_on(void **state)
{
    (void)state;
    NEED_GREEN();
    CUdevResource all = all_sms(), part;
    unsigned groups = 1;
    static unsigned char used[1024];
    CUstream plain = cf_stream();
    CUdeviceptr out = cf_device(BLOCKS * 4);
    void *params[] = {&out};
    cu_ok(cuDevSmResourceSplitByCount(&part, &groups, &all, NULL, 0, 1));
    struct green green = create_green(&part, 1);
    struct captured g = capture(green.stream, cf_place, BLOCKS, 256, params);
    cu_ok(cuGraphLaunch(g.exec, plain)); /* the launching stream does not choose multiprocessors */
    assert_true(read_places(plain, out, used) <= green.sms);
    destroy_captured(&g);
    destroy_green(green);
}

/* Nodes of executable graphs are set in the context that they were captured in, and keep its part. */
static void test_nodes_of_a_part_are_set_in_its_context(void **state)
{
    (void)state;
    NEED_GREEN();
    CUdevResource all = all_sms(), part;
    unsigned groups = 1;
    static unsigned char used[1024];
    CUstream plain = cf_stream();
    CUdeviceptr out = cf_device(BLOCKS * 4), other = cf_device(BLOCKS * 4);
    void *params[] = {&out}, *others[] = {&other};
    CUDA_KERNEL_NODE_PARAMS_v2 node = {.func = cf_place,
                                       .gridDimX = BLOCKS,
                                       .gridDimY = 1,
                                       .gridDimZ = 1,
                                       .blockDimX = 256,
                                       .blockDimY = 1,
                                       .blockDimZ = 1,
                                       .kernelParams = others};
    CUgraphNode made = NULL;
    CUcontext context = NULL, popped = NULL;
    size_t count = 1;
    cu_ok(cuDevSmResourceSplitByCount(&part, &groups, &all, NULL, 0, 1));
    struct green green = create_green(&part, 1);
    cu_ok(cuCtxFromGreenCtx(&context, green.context));
    struct captured g = capture(green.stream, cf_place, BLOCKS, 256, params);
    cu_ok(cuGraphGetNodes(g.graph, &made, &count));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuGraphExecKernelNodeSetParams(g.exec, made, &node));
    cu_ok(cuCtxPushCurrent(context));
    cu_ok(cuGraphExecKernelNodeSetParams(g.exec, made, &node));
    cu_ok(cuCtxPopCurrent(&popped));
    cu_ok(cuMemsetD8Async(other, 0xff, BLOCKS * 4, plain));
    cu_ok(cuGraphLaunch(g.exec, plain));
    assert_true(read_places(plain, other, used) <= green.sms);
    destroy_captured(&g);
    destroy_green(green);
}

/* A graph whose kernel keeps the part it was captured on runs until the host says so. */
struct held {
    struct captured g;
    uint32_t *words; /* page-locked: the kernel has begun, it may end, it has ended */
};

static struct held capture_hold(const struct green *green)
{
    struct held h = {.words = cf_pinned(3)};
    CUdeviceptr words = cf_address(h.words), open = words + 4, ended = words + 8;
    void *params[] = {&words, &open, &ended};
    h.g = capture(green->stream, cf_hold, 1, 1, params);
    return h;
}

/* The state of the context's event while the graph's kernel runs, which was launched on `stream`.  Nothing
 * fails before the kernel may end. */
static CUresult ask_while_held(struct held *h, CUstream stream, const struct green *of, bool synchronise)
{
    CUevent event = cf_event(), behind = cf_event();
    memset(h->words, 0, 3 * sizeof(*h->words));
    CUresult launched = cu->cuGraphLaunch(h->g.exec, stream);
    while (launched == CUDA_SUCCESS && __atomic_load_n(h->words, __ATOMIC_ACQUIRE) == 0) {
        sched_yield();
    }
    CUresult recorded = of != NULL ? cu->cuGreenCtxRecordEvent(of->context, event)
                                   : cu->cuCtxRecordEvent(cf_context->native, event);
    CUresult of_context = cu->cuEventQuery(event);
    CUresult synchronised = synchronise ? cu->cuCtxSynchronize() : CUDA_SUCCESS;
    CUresult of_stream = cu->cuStreamQuery(stream);
    CUresult also = cu->cuEventRecord(behind, stream), of_event = cu->cuEventQuery(behind);
    bool early = __atomic_load_n(h->words + 2, __ATOMIC_ACQUIRE) != 0;
    __atomic_store_n(h->words + 1, 1u, __ATOMIC_RELEASE);
    assert_int_equal(launched, CUDA_SUCCESS);
    assert_int_equal(recorded, CUDA_SUCCESS);
    assert_int_equal(synchronised, CUDA_SUCCESS);
    assert_int_equal(of_stream, CUDA_ERROR_NOT_READY);
    assert_int_equal(also, CUDA_SUCCESS);
    assert_int_equal(of_event, CUDA_ERROR_NOT_READY);
    assert_false(early);
    cu_ok(cuEventSynchronize(behind)); /* this covers it */
    assert_int_equal(h->words[2], 1);
    cu_ok(cuEventSynchronize(event));
    return of_context;
}

/* "The activities of a context" may leave out kernels of other green contexts in a graph: a program that
 * needs them asks the stream of the launch.  The emulated driver always leaves them out. */
static void test_event_of_a_context_may_leave_out_kernels_of_graphs(void **state)
{
    (void)state;
    NEED_GREEN();
    CUdevResource all = all_sms(), parts[2];
    unsigned groups = 2;
    CUstream plain = cf_stream();
    if (all.sm.smCount < 2 * smallest(&all)) {
        cf_skip("too few multiprocessors for two parts");
    }
    cu_ok(cuDevSmResourceSplitByCount(parts, &groups, &all, NULL, 0, 1));
    struct green a = create_green(parts, 1), b = create_green(parts + 1, 1);
    struct held of_b = capture_hold(&b);
    const struct {
        const char *what;
        CUstream launched_on;
        const struct green *asked; /* NULL: the primary context */
        CUresult emulated;
    } cases[] = {
        {"launched on the primary context", plain, NULL, CUDA_SUCCESS},
        {"launched on another part", a.stream, NULL, CUDA_SUCCESS},
        {"launched on another part, and that part asked", a.stream, &a, CUDA_SUCCESS},
        {"launched on its own part", b.stream, NULL, CUDA_ERROR_NOT_READY},
        {"launched on its own part, and that part asked", b.stream, &b, CUDA_ERROR_NOT_READY},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        /* otherwise it need not return */
        bool synchronise = cu->emulated && cases[i].emulated == CUDA_SUCCESS;
        CUresult said = ask_while_held(&of_b, cases[i].launched_on, cases[i].asked, synchronise);
        print_message("a part's kernel in a graph, %s: the context's event is %s\n", cases[i].what,
                      said == CUDA_SUCCESS ? "there before it ends" : "pending");
        if (cu->emulated) {
            assert_int_equal(said, cases[i].emulated);
        }
    }
    destroy_captured(&of_b.g);
    destroy_green(b);
    destroy_green(a);
}

static void test_mistaken_parts_are_refused(void **state)
{
    (void)state;
    NEED_GREEN();
    CUdevResource all = all_sms(), part;
    unsigned unit = smallest(&all), groups = 1;
    CUdevResourceDesc desc = NULL;
    CUgreenCtx green = NULL;
    CUstream stream = NULL;
    if (all.sm.smCount < 3 * unit) {
        cf_skip("too few multiprocessors for three parts");
    }
    cu_ok(cuDevSmResourceSplitByCount(&part, &groups, &all, NULL, 0, unit));
    cu_ok(cuDevResourceGenerateDesc(&desc, &part, 1));
    cu_ok(cuGreenCtxCreate(&green, desc, cf_context->device, CU_GREEN_CTX_DEFAULT_STREAM));
    cu_is(CUDA_ERROR_INVALID_VALUE, cuGreenCtxStreamCreate(&stream, green, CU_STREAM_DEFAULT, 0));
    cu_ok(cuGreenCtxDestroy(green));
}

/* Since CUDA 13.1: groups of different sizes, and a request for work queues beside them. */
static void test_structured_split_makes_unequal_groups(void **state)
{
    (void)state;
    NEED_GREEN();
    CUdevResource all = all_sms(), groups[2], both[2], rest, queues;
    memset(&queues, 0, sizeof(queues));
    CUresult result =
        cu->cuDeviceGetDevResource(cf_context->device, &queues, CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG);
    if (cu->version < 13010) { /* an older driver has nothing of it, not even the type of resource */
        assert_int_not_equal(result, CUDA_SUCCESS);
        return;
    }
    assert_int_equal(result, CUDA_SUCCESS);
    CU_DEV_SM_RESOURCE_GROUP_PARAMS params[2] = {{.smCount = 16}, {.smCount = 0}};
    static unsigned char used_a[1024], used_b[1024];
    if (all.sm.smCount < 32) {
        cf_skip("too few multiprocessors");
    }
    cu_ok(cuDevSmResourceSplit(groups, 2, &all, &rest, 0, params));
    assert_int_equal(groups[0].sm.smCount, 16);
    assert_int_equal(params[1].smCount, groups[1].sm.smCount);
    assert_true(params[0].coscheduledSmCount != 0);
    queues.wqConfig.wqConcurrencyLimit = 2;
    queues.wqConfig.sharingScope = CU_WORKQUEUE_SCOPE_GREEN_CTX_BALANCED;
    both[0] = groups[0];
    both[1] = queues;
    struct green a = create_green(both, 2), b = create_green(&groups[1], 1);
    assert_int_equal(a.sms, 16);
    (void)place_blocks(a.stream, used_a);
    (void)place_blocks(b.stream, used_b);
    for (size_t i = 0; i < sizeof(used_a); i++) {
        assert_false(used_a[i] && used_b[i]);
    }
    destroy_green(b);
    destroy_green(a);
    params[0].smCount = 15;
    assert_int_not_equal(CUDA_SUCCESS, cu->cuDevSmResourceSplit(groups, 2, &all, &rest, 0, params));
}

/* Since CUDA 13.1: the SMs of a stream, and work queues that are there already. */
static void test_streams_and_contexts_tell_what_they_have(void **state)
{
    (void)state;
    NEED_GREEN();
    CUdevResource all = all_sms(), groups[2], both[2], told, config, queues;
    CUstream plain = cf_stream();
    CU_DEV_SM_RESOURCE_GROUP_PARAMS params[2] = {{.smCount = 16}, {.smCount = 16}};
    if (cu->version < 13010 || cu->cuStreamGetDevResource == NULL || all.sm.smCount < 32) {
        cf_skip("a driver before CUDA 13.1, or too few multiprocessors");
    }
    memset(&config, 0, sizeof(config));
    memset(&queues, 0, sizeof(queues));
    cu_ok(cuDevSmResourceSplit(groups, 2, &all, NULL, 0, params));
    cu_ok(cuDeviceGetDevResource(cf_context->device, &config, CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG));
    cu_ok(cuCtxGetDevResource(cf_context->native, &queues, CU_DEV_RESOURCE_TYPE_WORKQUEUE));
    assert_int_equal(queues.type, CU_DEV_RESOURCE_TYPE_WORKQUEUE);
    config.wqConfig.wqConcurrencyLimit = 2;
    both[0] = groups[0];
    both[1] = config;
    struct green a = create_green(both, 2);
    cu_ok(cuGreenCtxGetDevResource(a.context, &queues, CU_DEV_RESOURCE_TYPE_WORKQUEUE));
    both[0] = groups[1];
    both[1] = queues;
    struct green b = create_green(both, 2); /* uses the work queues of the first one */
    cu_ok(cuGreenCtxGetDevResource(b.context, &config, CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG));
    assert_int_equal(config.wqConfig.wqConcurrencyLimit, 2);
    memset(&told, 0, sizeof(told));
    cu_ok(cuStreamGetDevResource(a.stream, &told, CU_DEV_RESOURCE_TYPE_SM));
    assert_int_equal(told.sm.smCount, a.sms);
    cu_ok(cuStreamGetDevResource(plain, &told, CU_DEV_RESOURCE_TYPE_SM));
    assert_int_equal(told.sm.smCount, all.sm.smCount);
    cu_is(CUDA_ERROR_INVALID_RESOURCE_TYPE,
          cuStreamGetDevResource(a.stream, &told, CU_DEV_RESOURCE_TYPE_WORKQUEUE));
    destroy_green(b);
    destroy_green(a);
}

/* The multiprocessors that a green context has can be split like a device's.  Parts of them make green
 * contexts that stay within its own, and outlive it. */
static void test_a_part_can_be_divided(void **state)
{
    (void)state;
    NEED_GREEN();
    CUdevResource all = all_sms(), units[4], rest, whole, halves[2];
    unsigned char outer[1024], used[2][1024];
    CUgreenCtx of = NULL;
    unsigned unit = smallest(&all), groups = 4;
    if (all.sm.smCount < 5 * unit) {
        cf_skip("too few multiprocessors for four parts");
    }
    cu_ok(cuDevSmResourceSplitByCount(units, &groups, &all, &rest, 0, unit));
    assert_int_equal(groups, 4);
    struct green parent = create_green(units, 4);
    cu_ok(cuStreamGetGreenCtx(parent.stream, &of));
    assert_ptr_equal(of, parent.context);
    memset(&whole, 0, sizeof(whole));
    cu_ok(cuGreenCtxGetDevResource(of, &whole, CU_DEV_RESOURCE_TYPE_SM));
    assert_int_equal(whole.sm.smCount, parent.sms);
    groups = 2;
    cu_ok(cuDevSmResourceSplitByCount(halves, &groups, &whole, &rest, 0, 2 * unit));
    assert_int_equal(groups, 2);
    struct green a = create_green(&halves[0], 1), b = create_green(&halves[1], 1);
    (void)place_blocks(parent.stream, outer);
    unsigned on_a = place_blocks(a.stream, used[0]);
    destroy_green(parent);
    unsigned on_b = place_blocks(b.stream, used[1]), beyond = 0;
    assert_true(on_a >= 1 && on_a <= a.sms && on_b >= 1 && on_b <= b.sms);
    for (size_t i = 0; i < sizeof(outer); i++) {
        assert_false(used[0][i] && used[1][i]);
        beyond += !outer[i] && (used[0][i] || used[1][i]);
    }
    assert_int_equal(beyond, 0);
    destroy_green(b);
    destroy_green(a);
}

/* While a stream of a green context is captured, calls on the whole of the primary context go on, of all
 * threads, and the capture is not broken.  Its own thread is refused what any capture forbids it. */
static void test_a_capture_in_a_part_leaves_the_primary_context_alone(void **state)
{
    (void)state;
    NEED_GREEN();
    CUdevResource all = all_sms();
    struct green part = create_green(&all, 1);
    CUevent event = cf_event();
    CUdeviceptr data = cf_device(64), memory = 0;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUgraph graph = NULL;
    cu_ok(cuStreamBeginCapture(part.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    cf_launch_add(cf_stream(), data, 16, 1);
    cu_ok(cuCtxSynchronize());
    cu_ok(cuCtxRecordEvent(cf_context->native, event));
    cu_ok(cuCtxWaitEvent(cf_context->native, event));
    cu_ok(cuStreamIsCapturing(part.stream, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    cu_is(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc(&memory, 64));
    cu_ok(cuStreamIsCapturing(part.stream, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    cu_is(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(part.stream, &graph));
    destroy_green(part);
}

static const struct CMUnitTest green[] = {
    CF_TEST(test_device_offers_all_multiprocessors),
    CF_TEST(test_dry_run_tells_the_number_of_groups),
    CF_TEST(test_split_gives_no_more_groups_than_asked),
    CF_TEST(test_parts_run_on_their_own_multiprocessors),
    CF_TEST(test_a_part_can_be_divided),
    CF_TEST(test_stream_of_a_part_does_ordinary_work),
    CF_TEST(test_event_covers_all_streams_of_a_part),
    CF_TEST(test_event_covers_a_whole_context),
    CF_TEST(test_graph_keeps_the_part_it_was_captured_on),
    CF_TEST(test_nodes_of_a_part_are_set_in_its_context),
    CF_TEST(test_event_of_a_context_may_leave_out_kernels_of_graphs),
    CF_TEST(test_mistaken_parts_are_refused),
    CF_TEST(test_structured_split_makes_unequal_groups),
    CF_TEST(test_a_capture_in_a_part_leaves_the_primary_context_alone),
    CF_TEST(test_streams_and_contexts_tell_what_they_have),
};
CF_GROUP(green)
