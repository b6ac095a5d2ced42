/* SPDX-License-Identifier: MIT */
/* Which SMs a task runs on that names no partition: as everything of an application that knows of none. */
#include "audit_kernels.kernels.h"
#include "cli/partitions.h"

#include <gantry/gantry.h>

enum {
    WORDS = 2 * GANTRY_SM_SET_WORDS,
    LAUNCHES = 8,      /* one kernel alone may leave out SMs that are still busy with the kernel before */
    BLOCKS_PER_SM = 4, /* more blocks than run at once */
    THREADS = 1024,
    HOLD_NS = 20000 /* longer than it takes to start a wave of blocks */
};

struct unnamed {
    gantry_kernel *kernel;
    gantry_task *done;
    uint32_t *seen; /* WORDS of the device */
    uint32_t *host; /* the same, page-locked */
    uint64_t ns;
    uint32_t blocks;
};

static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    struct unnamed *u = arg;
    void *seen = u->seen;
    uint32_t words = WORDS;
    void *args[] = {&seen, &words, &u->ns};
    gantry_dim3 grid = {u->blocks, 1, 1}, block = {THREADS, 1, 1};
    gantry_status status = gantry_launch_fill(launch, seen, 0, 4, WORDS);
    for (int i = 0; i < LAUNCHES && status == GANTRY_OK; i++) {
        status = gantry_launch_kernel(launch, u->kernel, grid, block, 0, args);
    }
    if (status == GANTRY_OK) {
        status = gantry_launch_copy_dtoh(launch, u->host, seen, WORDS * sizeof(uint32_t));
    }
    if (status == GANTRY_OK) {
        status = gantry_launch_add_completion(launch, u->done);
    }
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_status nothing(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

static gantry_status run(gantry_taskman *manager, struct unnamed *u)
{
    gantry_task_desc gpu = GANTRY_TASK_DESC_INIT, cpu = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    gpu.kind = GANTRY_TASK_KERNEL;
    gpu.launch = launch;
    gpu.arg = u;
    cpu.run = nothing;
    gantry_status status = gantry_taskman_submit(manager, &cpu, &u->done);
    if (status == GANTRY_OK) {
        status = gantry_taskman_submit(manager, &gpu, &task);
    }
    if (status == GANTRY_OK) {
        status = gantry_task_start_after(u->done, task);
    }
    if (status == GANTRY_OK) {
        status = gantry_taskman_start(manager);
    }
    if (status == GANTRY_OK) {
        status = gantry_taskman_stop(manager);
    }
    return status == GANTRY_OK ? gantry_taskman_reset(manager) : status;
}

static gantry_status look(gantry_context *context, gantry_taskman *manager, struct unnamed *u,
                          gantry_submission submission, gantry_sm_set *out)
{
    gantry_status status = gantry_dispatcher_set_submission(gantry_context_dispatcher(context), submission);
    if (status == GANTRY_OK) {
        status = run(manager, u);
    }
    out->seen_sms = 0;
    for (uint32_t w = 0; w < GANTRY_SM_SET_WORDS && status == GANTRY_OK; w++) {
        out->words[w] = u->host[2 * w] | (uint64_t)u->host[2 * w + 1] << 32;
        out->seen_sms += (uint32_t)__builtin_popcountll(out->words[w]);
    }
    return status;
}

static gantry_status open_unnamed(gantry_context *context, struct unnamed *u)
{
    gantry_device_info info = {.struct_size = sizeof(info)};
    gantry_module *module;
    void *device = NULL, *pinned = NULL;
    gantry_heap *heap = gantry_context_heap(context);
    size_t bytes = WORDS * sizeof(uint32_t);
    gantry_status status = gantry_context_device_info(context, &info);
    if (status == GANTRY_OK) {
        status = gantry_module_load(context, &gantry_image_audit_kernels, &module);
    }
    if (status == GANTRY_OK) {
        status = gantry_module_get_kernel(module, "gantry_audit", &u->kernel);
    }
    if (status == GANTRY_OK) {
        status = gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, bytes, 0, GANTRY_ALLOC_SITE("SMs"), &device);
    }
    u->seen = device;
    if (status == GANTRY_OK) {
        status = gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, bytes, 0, GANTRY_ALLOC_SITE("SMs"), &pinned);
    }
    u->host = pinned;
    u->ns = info.emulated ? 0 : HOLD_NS; /* virtual SMs need not be filled */
    u->blocks = info.total_sms * BLOCKS_PER_SM;
    return status;
}

static void close_unnamed(gantry_context *context, struct unnamed *u)
{
    if (u->seen != NULL) {
        (void)gantry_heap_free(gantry_context_heap(context), u->seen);
    }
    if (u->host != NULL) {
        (void)gantry_heap_free(gantry_context_heap(context), u->host);
    }
}

bool cli_look_at_tasks(gantry_context *context, gantry_sm_set *stream, gantry_sm_set *graph)
{
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_cpu_dispatcher *workers = NULL;
    gantry_taskman *manager = NULL;
    struct unnamed u = {.kernel = NULL};
    cpus.worker_count = 1;
    gantry_status status = gantry_cpu_dispatcher_create(&cpus, &workers);
    options.cpu_dispatcher = workers;
    options.gpu_dispatcher = gantry_context_dispatcher(context);
    if (status == GANTRY_OK) {
        status = gantry_taskman_create(&options, &manager);
    }
    if (status == GANTRY_OK) {
        status = open_unnamed(context, &u);
    }
    if (status == GANTRY_OK) {
        status = look(context, manager, &u, GANTRY_SUBMISSION_STREAMS, stream);
    }
    if (status == GANTRY_OK) {
        status = look(context, manager, &u, GANTRY_SUBMISSION_GRAPHS, graph);
    }
    gantry_taskman_destroy(manager);
    gantry_cpu_dispatcher_destroy(workers);
    close_unnamed(context, &u);
    return status == GANTRY_OK;
}
