/* SPDX-License-Identifier: MIT */
#include "bench/submit_work.h"

#include "cli/messages.h"
#include "submit_kernels.kernels.h"

#include <stdlib.h>
#include <string.h>

bool bench_submit_ok(gantry_status status)
{
    if (status != GANTRY_OK) {
        cli_error("bench: %s", gantry_last_error());
    }
    return status == GANTRY_OK;
}

/* True when launch `step` of a pipeline waits for its neighbour. */
static bool has_cross_edge(uint32_t step)
{
    return step % CROSS_EVERY == CROSS_EVERY - 1;
}

void **bench_submit_cell(struct submit_work *work, uint32_t index, uint32_t turn)
{
    const uint64_t changed = work->changed;
    const bool changes = changed != 0 && (index + 1) * changed / 100 != index * changed / 100;
    return &work->cell[index % PIPELINES + (changes && turn % 2 != 0 ? PIPELINES : 0)];
}

/* ---- ours ---------------------------------------------------------------------------------- */

static gantry_launch_result launch_increment(gantry_launch *launch, void *arg)
{
    struct submit_work *work = arg;
    const uint32_t index = (uint32_t)gantry_task_context_id(gantry_launch_task(launch));
    void *args[] = {bench_submit_cell(work, index, work->turn)};
    gantry_dim3 one = {1, 1, 1};
    gantry_dim3 warp = {32, 1, 1};
    return gantry_launch_kernel(launch, work->kernel, one, warp, 0, args) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                       : GANTRY_LAUNCH_FAILED;
}

/* Half of the tasks: wait for a task of the step before, of any pipeline. */
static bool scramble(struct submit_work *work, uint32_t index, uint32_t before)
{
    uint64_t chance = ((uint64_t)work->turn << 32 | index) * UINT64_C(0x9e3779b97f4a7c15);
    chance = (chance ^ chance >> 32) * UINT64_C(0x9e3779b97f4a7c15) >> 60;
    return chance % 2 != 0 || bench_submit_ok(gantry_task_start_after(
                                  work->tasks[index], work->tasks[before + chance / 2 % PIPELINES]));
}

static bool submit_one(struct submit_work *work, uint32_t index)
{
    uint32_t step = index / PIPELINES;
    uint32_t pipeline = index % PIPELINES;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.label = "increment";
    desc.launch = launch_increment;
    desc.arg = work;
    desc.context_id = index;
    desc.is_stable = work->stable;
    if (!bench_submit_ok(gantry_taskman_submit(work->manager, &desc, &work->tasks[index]))) {
        return false;
    }
    if (step == 0) {
        return true;
    }
    uint32_t before = (step - 1) * PIPELINES;
    uint32_t neighbour = before + (pipeline + 1) % PIPELINES;
    if (work->scrambled && !scramble(work, index, before)) {
        return false;
    }
    return bench_submit_ok(gantry_task_start_after(work->tasks[index], work->tasks[before + pipeline])) &&
           (!has_cross_edge(step) ||
            bench_submit_ok(gantry_task_start_after(work->tasks[index], work->tasks[neighbour])));
}

bool bench_submit_build(struct submit_work *work)
{
    for (uint32_t i = 0; i < work->kernels; i++) {
        if (!submit_one(work, i)) {
            return false;
        }
    }
    return true;
}

bool bench_submit_run(struct submit_work *work)
{
    return bench_submit_ok(gantry_taskman_start(work->manager)) &&
           bench_submit_ok(gantry_taskman_stop(work->manager));
}

/* ---- by hand ------------------------------------------------------------------------------- */

static bool hand_launch(struct submit_work *work, uint32_t step, uint32_t pipeline)
{
    struct raw_cuda *cuda = &work->cuda;
    void *args[] = {&work->cell[pipeline]};
    if (has_cross_edge(step) && !work->apart &&
        !RAW(cuda, cuStreamWaitEvent(work->streams[pipeline], work->events[(pipeline + 1) % PIPELINES], 0))) {
        return false;
    }
    return RAW(cuda,
               cuLaunchKernel(work->function, 1, 1, 1, 32, 1, 1, 0, work->streams[pipeline], args, NULL));
}

bool bench_submit_by_hand(struct submit_work *work)
{
    for (uint32_t step = 0; step * PIPELINES < work->kernels; step++) {
        for (uint32_t p = 0; p < PIPELINES && step * PIPELINES + p < work->kernels; p++) {
            if (!hand_launch(work, step, p)) {
                return false;
            }
        }
        for (uint32_t p = 0; p < PIPELINES && has_cross_edge(step + 1) && !work->apart; p++) {
            if (!RAW(&work->cuda, cuEventRecord(work->events[p], work->streams[p]))) {
                return false;
            }
        }
    }
    return true;
}

/* ---- checks -------------------------------------------------------------------------------- */

bool bench_submit_check(struct submit_work *work)
{
    struct raw_cuda *cuda = &work->cuda;
    CUdeviceptr cells = (CUdeviceptr)(uintptr_t)work->cells;
    uint32_t host[2 * PIPELINES * CELL_BYTES / sizeof(uint32_t)];
    const uint32_t words = CELL_BYTES / sizeof(uint32_t);
    if (!work->executes) {
        return RAW(cuda, cuCtxSynchronize()); /* copies are not done either: there is nothing to look at */
    }
    if (!RAW(cuda, cuCtxSynchronize()) || !RAW(cuda, cuMemcpyDtoH(host, cells, sizeof(host)))) {
        return false;
    }
    bool right = true;
    for (uint32_t p = 0; p < PIPELINES; p++) {
        const uint32_t launches = work->kernels / PIPELINES + (p < work->kernels % PIPELINES);
        right = right && host[p * words] + host[(p + PIPELINES) * words] == launches;
    }
    memset(host, 0, sizeof(host));
    return raw_cuda_upload(cuda, work->cells, host, sizeof(host)) && right;
}

/* ---- set-up -------------------------------------------------------------------------------- */

static bool open_gantry(struct submit_work *work, const gantry_context_options *context)
{
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    cpus.worker_count = 1;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_module *module;
    if (!bench_submit_ok(gantry_context_create(context, &work->context)) ||
        !bench_submit_ok(gantry_cpu_dispatcher_create(&cpus, &work->cpus))) {
        return false;
    }
    manager.cpu_dispatcher = work->cpus;
    manager.gpu_dispatcher = gantry_context_dispatcher(work->context);
    return bench_submit_ok(gantry_taskman_create(&manager, &work->manager)) &&
           bench_submit_ok(gantry_module_load(work->context, &gantry_image_submit_kernels, &module)) &&
           bench_submit_ok(gantry_module_get_kernel(module, "increment", &work->kernel)) &&
           bench_submit_ok(gantry_context_acquire(work->context));
}

static bool open_hand(struct submit_work *work)
{
    struct raw_cuda *cuda = &work->cuda;
    const gantry_module_image *image = &gantry_image_submit_kernels;
    if (!raw_cuda_open(work->context, cuda)) {
        return false;
    }
    if (!raw_cuda_load(cuda, image, "increment", &work->module, &work->function)) {
        return false;
    }
    for (uint32_t p = 0; p < PIPELINES; p++) {
        if (!RAW(cuda, cuStreamCreate(&work->streams[p], CU_STREAM_NON_BLOCKING)) ||
            !RAW(cuda, cuEventCreate(&work->events[p], CU_EVENT_DISABLE_TIMING))) {
            return false;
        }
    }
    return true;
}

static bool open_cells(struct submit_work *work)
{
    gantry_alloc_site site = GANTRY_ALLOC_SITE("bench submit");
    if (!bench_submit_ok(gantry_heap_alloc(gantry_context_heap(work->context), GANTRY_MEMORY_DEVICE,
                                           2 * PIPELINES * CELL_BYTES, 0, site, &work->cells))) {
        return false;
    }
    for (uint32_t p = 0; p < 2 * PIPELINES; p++) {
        work->cell[p] = (char *)work->cells + p * CELL_BYTES;
    }
    uint32_t zeros[2 * PIPELINES * CELL_BYTES / sizeof(uint32_t)] = {0};
    return raw_cuda_upload(&work->cuda, work->cells, zeros, sizeof(zeros));
}

bool bench_submit_open(struct submit_work *work, const gantry_context_options *context)
{
    memset(work, 0, sizeof(*work));
    work->tasks = calloc(MOST_KERNELS, sizeof(gantry_task *));
    work->executes = true;
    work->cpu = -1;
    return work->tasks != NULL && open_gantry(work, context) && open_hand(work) && open_cells(work);
}

void bench_submit_close(struct submit_work *work)
{
    gantry_taskman_destroy(work->manager);
    gantry_cpu_dispatcher_destroy(work->cpus);
    for (uint32_t p = 0; p < PIPELINES; p++) {
        if (work->streams[p] != NULL) {
            (void)work->cuda.cuStreamDestroy(work->streams[p]);
        }
        if (work->events[p] != NULL) {
            (void)work->cuda.cuEventDestroy(work->events[p]);
        }
    }
    if (work->cells != NULL) {
        (void)gantry_heap_free(gantry_context_heap(work->context), work->cells);
    }
    if (work->context != NULL) {
        (void)gantry_context_release(work->context);
    }
    gantry_context_destroy(work->context);
    free(work->tasks);
}
