/* SPDX-License-Identifier: MIT */
#include "tests/conformance/conformance.h"

#include "driver/inside.h"

#include "conformance_kernels.kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_THINGS 32

struct gy_context *cf_context;
const struct gy_driver *cu;
CUfunction cf_add, cf_geometry, cf_reverse, cf_parameters, cf_place, cf_shared, cf_hold, cf_cluster, cf_meet,
    cf_crowd, cf_look, cf_early, cf_mirror;

static struct gantry_module *module;

/* The objects that the running test has made. */
static CUstream streams[MAX_THINGS];
static CUevent events[MAX_THINGS];
static CUdeviceptr device_blocks[MAX_THINGS];
static void *pinned_blocks[MAX_THINGS];
static unsigned stream_count, event_count, device_count, pinned_count;

static sem_t gate;
static bool gate_closed;

void cf_expect(CUresult expected, CUresult result, const char *call, const char *file, int line)
{
    if (result != expected) {
        print_error("%s: %s (%d) instead of %s (%d)\n", call, gy_driver_result_name(cu, result), (int)result,
                    gy_driver_result_name(cu, expected), (int)expected);
        _fail(file, line);
    }
}

bool cf_skipped(const char *reason)
{
    printf("left out: %s\n", reason); /* tools/test_summary.py lists these lines */
    return true;
}

/* ---- the suite's context -------------------------------------------------------------------- */

static CUfunction kernel(const char *name)
{
    struct gantry_kernel *found;
    assert_ok(gy_module_kernel(module, name, &found));
    return found->function;
}

/* Drivers load a kernel at its first launch and may synchronise the context for that, which must not happen
 * behind a closed gate. */
static void launch_each_once(void)
{
    CUdeviceptr data;
    uint32_t count = 1, value = 0;
    uint64_t words[2] = {0, 0};
    struct {
        uint32_t a;
        uint8_t b;
        uint64_t c;
    } triple = {0, 0, 0};
    void *add[] = {&data, &count, &value};
    void *shared[] = {&data, &count};
    void *hold[] = {&data, &data, &data};
    void *crowd[] = {&data, words}, *look[] = {&data, &data};
    void *parameters[] = {&data, words, words, words, words, words, &triple};
    cu_ok(cuMemAlloc(&data, 4096));
    cu_ok(cuMemsetD8Async(data, 0, 4096, NULL));
    cu_ok(cuLaunchKernel(cf_add, 1, 1, 1, 1, 1, 1, 0, NULL, add, NULL));
    cu_ok(cuLaunchKernel(cf_geometry, 1, 1, 1, 1, 1, 1, 0, NULL, add, NULL));
    cu_ok(cuLaunchKernel(cf_reverse, 1, 1, 1, 1, 1, 1, 64, NULL, add, NULL));
    cu_ok(cuLaunchKernel(cf_place, 1, 1, 1, 1, 1, 1, 0, NULL, add, NULL));
    cu_ok(cuLaunchKernel(cf_shared, 1, 1, 1, 1, 1, 1, 64, NULL, shared, NULL));
    cu_ok(cuLaunchKernel(cf_parameters, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    cu_ok(cuLaunchKernel(cf_crowd, 1, 1, 1, 1, 1, 1, 0, NULL, crowd, NULL));
    cu_ok(cuLaunchKernel(cf_look, 1, 1, 1, 1, 1, 1, 0, NULL, look, NULL));
    cu_ok(cuMemsetD8Async(data, 1, 64, NULL)); /* its gate is open */
    cu_ok(cuLaunchKernel(cf_hold, 1, 1, 1, 1, 1, 1, 0, NULL, hold, NULL));
    cu_ok(cuCtxSynchronize());
    cu_ok(cuMemFree(data));
}

static gantry_driver_choice chosen_driver(void)
{
    const char *name = getenv("GANTRY_TEST_DRIVER");
    if (name == NULL || name[0] == '\0' || strcmp(name, "emulated") == 0) {
        return GANTRY_DRIVER_EMULATED;
    }
    if (strcmp(name, "cuda") != 0) {
        fail_msg("$GANTRY_TEST_DRIVER is \"%s\", not \"cuda\" or \"emulated\"", name);
    }
    return GANTRY_DRIVER_CUDA;
}

int cf_group_setup(void **state)
{
    (void)state;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = chosen_driver();
    assert_ok(gy_context_open(&options, &cf_context));
    cu = cf_context->driver;
    print_message("on %s, %s driver for CUDA %d.%d\n", cf_context->info.name, cu->name, cu->version / 1000,
                  cu->version % 1000 / 10);
    assert_ok(gy_context_acquire(cf_context));
    assert_ok(gy_module_load(cf_context, &gantry_image_conformance_kernels, &module));
    cf_add = kernel("cf_add");
    cf_geometry = kernel("cf_geometry");
    cf_reverse = kernel("cf_reverse");
    cf_parameters = kernel("cf_parameters");
    cf_place = kernel("cf_place");
    cf_shared = kernel("cf_shared");
    cf_hold = kernel("cf_hold");
    cf_crowd = kernel("cf_crowd");
    cf_look = kernel("cf_look");
    cf_cluster = kernel("cf_cluster");
    cf_meet = kernel("cf_meet");
    cf_early = kernel("cf_early");
    cf_mirror = kernel("cf_mirror");
    launch_each_once();
    return sem_init(&gate, 0, 0);
}

int cf_group_teardown(void **state)
{
    (void)state;
    if (cf_context == NULL) { /* the set-up failed */
        return 0;
    }
    gy_module_unload(module);
    module = NULL;
    assert_ok(gy_context_pop(cf_context));
    gy_context_close(cf_context);
    cf_context = NULL;
    return sem_destroy(&gate);
}

/* ---- what a test takes ---------------------------------------------------------------------- */

int cf_setup(void **state)
{
    (void)state;
    stream_count = event_count = device_count = pinned_count = 0;
    gate_closed = false;
    return 0;
}

int cf_teardown(void **state)
{
    (void)state;
    bool clean = true;
    if (gate_closed) {
        cf_open_gate();
    }
    for (unsigned i = 0; i < stream_count; i++) {
        CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
        CUgraph graph = NULL;
        /* This matters only after a failed test; nothing else may be left behind. */
        if (cu->cuStreamIsCapturing(streams[i], &capture) == CUDA_SUCCESS &&
            capture != CU_STREAM_CAPTURE_STATUS_NONE) {
            (void)cu->cuStreamEndCapture(streams[i], &graph);
        }
        clean &= cu->cuStreamSynchronize(streams[i]) == CUDA_SUCCESS;
        clean &= cu->cuStreamDestroy(streams[i]) == CUDA_SUCCESS;
    }
    for (unsigned i = 0; i < event_count; i++) {
        clean &= cu->cuEventDestroy(events[i]) == CUDA_SUCCESS;
    }
    clean &= cu->cuCtxSynchronize() == CUDA_SUCCESS;
    for (unsigned i = 0; i < device_count; i++) {
        clean &= cu->cuMemFree(device_blocks[i]) == CUDA_SUCCESS;
    }
    for (unsigned i = 0; i < pinned_count; i++) {
        clean &= cu->cuMemFreeHost(pinned_blocks[i]) == CUDA_SUCCESS;
    }
    return clean ? 0 : -1;
}

CUstream cf_stream(void)
{
    assert_true(stream_count < MAX_THINGS);
    cu_ok(cuStreamCreate(&streams[stream_count], CU_STREAM_NON_BLOCKING));
    return streams[stream_count++];
}

static CUevent event_of(unsigned int flags)
{
    assert_true(event_count < MAX_THINGS);
    cu_ok(cuEventCreate(&events[event_count], flags));
    return events[event_count++];
}

CUevent cf_event(void)
{
    return event_of(CU_EVENT_DISABLE_TIMING);
}

CUevent cf_timed_event(void)
{
    return event_of(CU_EVENT_DEFAULT);
}

CUdeviceptr cf_device(size_t bytes)
{
    assert_true(device_count < MAX_THINGS);
    cu_ok(cuMemAlloc(&device_blocks[device_count], bytes));
    return device_blocks[device_count++];
}

uint32_t *cf_pinned(size_t count)
{
    assert_true(pinned_count < MAX_THINGS);
    cu_ok(cuMemHostAlloc(&pinned_blocks[pinned_count], count * sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP));
    memset(pinned_blocks[pinned_count], 0, count * sizeof(uint32_t));
    return pinned_blocks[pinned_count++];
}

CUdeviceptr cf_address(const void *pinned)
{
    CUdeviceptr address;
    cu_ok(cuMemHostGetDevicePointer(&address, (void *)(uintptr_t)pinned, 0));
    return address;
}

/* ---- the gate ------------------------------------------------------------------------------- */

static void wait_at_gate(void *user)
{
    (void)user;
    while (sem_wait(&gate) != 0) {
    }
}

void cf_close_gate(CUstream stream)
{
    assert_false(gate_closed);
    cu_ok(cuLaunchHostFunc(stream, wait_at_gate, NULL));
    gate_closed = true;
}

void cf_open_gate(void)
{
    gate_closed = false;
    sem_post(&gate);
}

/* ---- small work ----------------------------------------------------------------------------- */

void cf_launch_add(CUstream stream, CUdeviceptr data, uint32_t count, uint32_t value)
{
    void *params[] = {&data, &count, &value};
    cu_ok(cuLaunchKernel(cf_add, (count + 63) / 64, 1, 1, 64, 1, 1, 0, stream, params, NULL));
}

void cf_expect_words(CUstream stream, CUdeviceptr data, uint32_t count, uint32_t value)
{
    uint32_t *words = malloc(count * sizeof(*words));
    assert_non_null(words);
    cu_ok(cuStreamSynchronize(stream));
    cu_ok(cuMemcpyDtoH(words, data, count * sizeof(*words)));
    uint32_t wrong = 0, first = 0;
    for (uint32_t i = count; i-- > 0;) {
        if (words[i] != value) {
            wrong++;
            first = i;
        }
    }
    uint32_t other = words[first];
    free(words);
    if (wrong > 0) {
        fail_msg("%u of %u words are wrong; word %u is %u instead of %u", wrong, count, first, other, value);
    }
}

CUDA_KERNEL_NODE_PARAMS_v2 cf_kernel_node(CUfunction function, unsigned blocks, unsigned threads,
                                          void **params)
{
    return (CUDA_KERNEL_NODE_PARAMS_v2){.func = function,
                                        .gridDimX = blocks,
                                        .gridDimY = 1,
                                        .gridDimZ = 1,
                                        .blockDimX = threads,
                                        .blockDimY = 1,
                                        .blockDimZ = 1,
                                        .kernelParams = params};
}
