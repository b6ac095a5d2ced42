/* SPDX-License-Identifier: MIT */
/* A program that uses an installed Gantry: one kernel on pinned memory. */
#include <gantry/gantry.h>

#include "consumer.kernels.h"

#include <stdio.h>

#define COUNT 1000u

static gantry_kernel *kernel;
static void *device_data;

static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    (void)arg;
    uint32_t count = COUNT;
    void *args[] = {&device_data, &count};
    gantry_dim3 grid = {(COUNT + 255) / 256, 1, 1}, block = {256, 1, 1};
    return gantry_launch_kernel(launch, kernel, grid, block, 0, args) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                   : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result complete(gantry_launch *launch, void *arg)
{
    return gantry_launch_add_completion(launch, arg) == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_status run(gantry_context *context, gantry_taskman *manager)
{
    gantry_task_desc work = GANTRY_TASK_DESC_INIT, end = GANTRY_TASK_DESC_INIT, done = GANTRY_TASK_DESC_INIT;
    gantry_task *work_task, *end_task, *done_task;
    gantry_module *module;
    gantry_status status;
    done.kind = GANTRY_TASK_SYNC_POINT;
    if ((status = gantry_module_load(context, &gantry_image_consumer, &module)) != GANTRY_OK ||
        (status = gantry_module_get_kernel(module, "add_one", &kernel)) != GANTRY_OK ||
        (status = gantry_taskman_submit(manager, &done, &done_task)) != GANTRY_OK) {
        return status;
    }
    work.kind = GANTRY_TASK_KERNEL;
    work.launch = launch;
    end.kind = GANTRY_TASK_DTOH;
    end.launch = complete;
    end.arg = done_task;
    if ((status = gantry_taskman_submit(manager, &work, &work_task)) != GANTRY_OK ||
        (status = gantry_taskman_submit(manager, &end, &end_task)) != GANTRY_OK ||
        (status = gantry_task_start_after(end_task, work_task)) != GANTRY_OK ||
        (status = gantry_task_start_after(done_task, end_task)) != GANTRY_OK ||
        (status = gantry_taskman_start(manager)) != GANTRY_OK) {
        return status;
    }
    return gantry_taskman_stop(manager);
}

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, gantry_last_error());
    return 1;
}

int main(void)
{
    gantry_context *context;
    gantry_cpu_dispatcher *cpus;
    gantry_taskman *manager;
    void *data;
    if (gantry_context_create(NULL, &context) != GANTRY_OK ||
        gantry_cpu_dispatcher_create(NULL, &cpus) != GANTRY_OK) {
        return fail("set-up");
    }
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    options.cpu_dispatcher = cpus;
    options.gpu_dispatcher = gantry_context_dispatcher(context);
    gantry_heap *heap = gantry_context_heap(context);
    if (gantry_taskman_create(&options, &manager) != GANTRY_OK ||
        gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, COUNT * sizeof(uint32_t), 0, GANTRY_ALLOC_SITE("data"),
                          &data) != GANTRY_OK ||
        gantry_heap_device_address(heap, data, &device_data) != GANTRY_OK) {
        return fail("memory");
    }
    uint32_t *values = data;
    for (uint32_t i = 0; i < COUNT; i++) {
        values[i] = i;
    }
    if (run(context, manager) != GANTRY_OK) {
        return fail("run");
    }
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        wrong += values[i] != i + 1;
    }
    gantry_taskman_destroy(manager);
    gantry_cpu_dispatcher_destroy(cpus);
    gantry_heap_free(heap, data);
    gantry_context_destroy(context);
    printf("%u wrong\n", wrong);
    return wrong != 0;
}
