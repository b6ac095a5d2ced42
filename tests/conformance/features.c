/* SPDX-License-Identifier: MIT */
/* What Gantry finds out about the driver: lines "feature: outcome", as in the table of
 * docs/design/driver.md.  Each outcome was found by trying. */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "partition/partitions.h"

#include <gantry/host_module.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(call)                                                                   \
    do {                                                                             \
        if ((call) != GANTRY_OK) {                                                   \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, gantry_last_error()); \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)

static struct {
    gantry_context *context;
    gantry_cpu_dispatcher *cpus;
    gantry_taskman *manager;
    gantry_kernel *nothing;
    uint32_t *device, *pinned; /* 64 words each */
} scene;

static void run_nothing(struct gantry_host_thread *self, void *const *args)
{
    (void)self;
    (void)args;
}

static const struct gantry_host_kernel kernels[] = {{"nothing", run_nothing, 0, NULL}};
static const struct gantry_host_module host = {
    .magic = GANTRY_HOST_MODULE_MAGIC, .name = "features", .kernel_count = 1, .kernels = kernels};
static const char *const names[] = {"nothing", NULL};
static const gantry_module_image image = {
    .struct_size = sizeof(image), .name = "features", .host = &host, .kernel_names = names};

static void open_scene(gantry_submission submission)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_cpu_dispatcher_options pool = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_module *module;
    options.driver = GANTRY_DRIVER_EMULATED;
    options.mode = GANTRY_CONTEXT_OWN;
    options.submission = submission;
    pool.worker_count = 1;
    MUST(gantry_context_create(&options, &scene.context));
    MUST(gantry_module_load(scene.context, &image, &module));
    MUST(gantry_module_get_kernel(module, "nothing", &scene.nothing));
    gantry_heap *heap = gantry_context_heap(scene.context);
    MUST(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 256, 0, GANTRY_ALLOC_SITE("f"),
                           (void **)&scene.device));
    MUST(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 256, 0, GANTRY_ALLOC_SITE("f"),
                           (void **)&scene.pinned));
    MUST(gantry_cpu_dispatcher_create(&pool, &scene.cpus));
    manager.cpu_dispatcher = scene.cpus;
    manager.gpu_dispatcher = gantry_context_dispatcher(scene.context);
    MUST(gantry_taskman_create(&manager, &scene.manager));
}

static void close_scene(void)
{
    gantry_taskman_destroy(scene.manager);
    gantry_cpu_dispatcher_destroy(scene.cpus);
    (void)gantry_heap_free(gantry_context_heap(scene.context), scene.device);
    (void)gantry_heap_free(gantry_context_heap(scene.context), scene.pinned);
    gantry_context_destroy(scene.context);
}

static gantry_task *submit(gantry_launch_fn launch)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch;
    MUST(gantry_taskman_submit(scene.manager, &desc, &task));
    return task;
}

/* A step of these tasks, each after the one before. */
static gantry_status run(const gantry_launch_fn *functions, uint32_t count)
{
    gantry_task *before = NULL;
    for (uint32_t i = 0; i < count; i++) {
        gantry_task *task = submit(functions[i]);
        if (before != NULL) {
            MUST(gantry_task_start_after(task, before));
        }
        before = task;
    }
    MUST(gantry_taskman_start(scene.manager));
    gantry_status status = gantry_taskman_stop(scene.manager);
    MUST(gantry_taskman_reset(scene.manager));
    return status;
}

static void await(void)
{
    MUST(gantry_context_acquire(scene.context));
    (void)scene.context->cuda->driver->cuCtxSynchronize();
    MUST(gantry_context_release(scene.context));
}

static gantry_launch_result result_of(bool fine)
{
    return fine ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_prepare(gantry_launch *launch, void *arg)
{
    (void)arg;
    return result_of(gantry_launch_fill(launch, scene.device, 7, 4, 1) == GANTRY_OK &&
                     gantry_launch_fill(launch, scene.device + 1, 0, 4, 1) == GANTRY_OK);
}

static gantry_launch_result launch_fetch(gantry_launch *launch, void *arg)
{
    (void)arg;
    return result_of(gantry_launch_copy_dtoh(launch, scene.pinned, scene.device, 8) == GANTRY_OK);
}

/* ---- features ---------------------------------------------------------------------------------- */

static gantry_launch_result launch_badly(gantry_launch *launch, void *arg)
{
    (void)arg;
    gantry_dim3 one = {1, 1, 1}, many = {4096, 1, 1};
    return result_of(gantry_launch_kernel(launch, scene.nothing, one, many, 0, NULL) == GANTRY_OK);
}

static const char *reasons(void)
{
    static const gantry_launch_fn functions[] = {launch_badly};
    open_scene(GANTRY_SUBMISSION_STREAMS);
    (void)run(functions, 1);
    bool numbers = strstr(gantry_last_error(), "block.x 4096 is above 1024") != NULL;
    bool told = strstr(gantry_last_error(), "the driver says") != NULL;
    close_scene();
    return numbers ? told ? "yes" : "no" : "?";
}

static CUstreamCaptureStatus captured;

static gantry_launch_result launch_on_stream(gantry_launch *launch, void *arg)
{
    (void)arg;
    const struct gy_driver *driver = launch->dispatcher->config.context->driver;
    CUstream stream = gantry_launch_stream(launch);
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)scene.device;
    return result_of(driver->cuStreamIsCapturing(stream, &captured) == CUDA_SUCCESS &&
                     driver->cuMemcpyDtoDAsync(at + 4, at, 4, stream) == CUDA_SUCCESS);
}

static const char *streams_in_graphs(void)
{
    static const gantry_launch_fn functions[] = {launch_prepare, launch_on_stream, launch_fetch};
    open_scene(GANTRY_SUBMISSION_GRAPHS);
    for (int step = 0; step < 3; step++) {
        MUST(run(functions, 3));
    }
    await();
    bool right = scene.pinned[1] == 7;
    close_scene();
    return !right ? "?" : captured == CU_STREAM_CAPTURE_STATUS_ACTIVE ? "in the graph" : "on streams";
}

/* The refusal leaves the capture as it was. */
static gantry_launch_result launch_ignoring(gantry_launch *launch, void *arg)
{
    (void)arg;
    const struct gy_driver *driver = launch->dispatcher->config.context->driver;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUdeviceptr from = (CUdeviceptr)(uintptr_t)scene.device, to = from + 4;
    size_t bytes = 4, first = 0, failed;
    (void)driver->cuMemcpyBatchAsync(&to, &from, &bytes, 1, &attributes, &first, 1, &failed,
                                     gantry_launch_stream(launch));
    return GANTRY_LAUNCH_DONE;
}

static const char *ignored_refusals(void)
{
    static const gantry_launch_fn functions[] = {launch_prepare, launch_ignoring, launch_fetch};
    open_scene(GANTRY_SUBMISSION_GRAPHS);
    const char *outcome = "no such call";
    if (scene.context->cuda->driver->cuMemcpyBatchAsync != NULL) {
        MUST(run(functions, 3));
        await();
        outcome = scene.pinned[1] == 7 ? "done on a stream" : "lost";
    }
    close_scene();
    return outcome;
}

static bool breaks, whole;

static gantry_launch_result launch_breaking(gantry_launch *launch, void *arg)
{
    gantry_launch_result result = launch_prepare(launch, arg);
    const struct gy_driver *driver = launch->dispatcher->config.context->driver;
    CUdeviceptr address;
    bool done =
        !breaks || (whole ? driver->cuCtxSynchronize() : driver->cuMemAlloc(&address, 64)) == CUDA_SUCCESS;
    return done ? result : GANTRY_LAUNCH_FAILED;
}

static const char *break_capture(bool by_the_context)
{
    whole = by_the_context;
    static const gantry_launch_fn functions[] = {launch_prepare, launch_breaking};
    open_scene(GANTRY_SUBMISSION_GRAPHS);
    breaks = false;
    MUST(run(functions, 2));
    MUST(run(functions, 2));
    breaks = true;
    gantry_status status = run(functions, 2);
    const char *outcome = status == GANTRY_OK                      ? "done on a stream"
                          : gantry_context_is_valid(scene.context) ? "one task fails"
                                                                   : "the context is lost";
    close_scene();
    return outcome;
}

static const char *forbidden_calls(void)
{
    return break_capture(false);
}

static const char *synchronised_contexts(void)
{
    return break_capture(true);
}

static const char *partitions(void)
{
    gantry_partition_request requests[2] = {{.struct_size = sizeof(requests[0]), .name = "a"},
                                            {.struct_size = sizeof(requests[0]), .name = "b"}};
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    requests[0].sm_count = requests[1].sm_count = 16;
    plan.requests = requests;
    plan.count = 2;
    options.driver = GANTRY_DRIVER_EMULATED;
    options.partitions = &plan;
    gantry_context *context;
    gantry_status status = gantry_context_create(&options, &context);
    if (status == GANTRY_OK) {
        gantry_context_destroy(context);
    }
    return status == GANTRY_OK ? "yes" : status == GANTRY_ERR_UNSUPPORTED ? "no" : "?";
}

static const char *structured_split(void)
{
    open_scene(GANTRY_SUBMISSION_STREAMS);
    MUST(gantry_context_acquire(scene.context));
    gantry_sm_topology topology = {.struct_size = sizeof(topology)};
    bool read = gantry_partition_read_topology(scene.context, &topology) == GANTRY_OK;
    MUST(gantry_context_release(scene.context));
    bool structured = read && topology.is_structured != 0;
    close_scene();
    return structured ? "one call" : read ? "units of one split" : "no";
}

static const char *context_synchronize(void)
{
    open_scene(GANTRY_SUBMISSION_STREAMS);
    gantry_status status = gantry_context_synchronize(scene.context);
    close_scene();
    return status == GANTRY_OK ? "yes" : "no";
}

static const char *context_events(void)
{
    open_scene(GANTRY_SUBMISSION_STREAMS);
    CUevent event;
    MUST(gantry_context_acquire(scene.context));
    const struct gy_driver *driver = scene.context->cuda->driver;
    bool made = driver->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
    gantry_status status = gantry_partition_record_event(gantry_partition_at(scene.context, 0), event);
    (void)driver->cuEventDestroy(event);
    MUST(gantry_context_release(scene.context));
    close_scene();
    return !made ? "?" : status == GANTRY_OK ? "yes" : status == GANTRY_ERR_UNSUPPORTED ? "no" : "?";
}

int main(void)
{
    static const struct {
        const char *name;
        const char *(*outcome)(void);
    } features[] = {
        {"messages have the driver's own reason", reasons},
        {"graphs: callbacks that use their stream", streams_in_graphs},
        {"graphs: a refused call that the callback ignores", ignored_refusals},
        {"graphs: memory allocated in a batch with others' work", forbidden_calls},
        {"graphs: the context synchronised in such a batch", synchronised_contexts},
        {"partitions with SMs of their own", partitions},
        {"how these are cut", structured_split},
        {"`gantry_context_synchronize()`", context_synchronize},
        {"events of a whole context, `gantry_partition_record_event()`", context_events},
    };
    for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
        printf("%s: %s\n", features[i].name, features[i].outcome());
    }
    return 0;
}
