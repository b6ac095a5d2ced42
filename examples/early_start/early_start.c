/* SPDX-License-Identifier: MIT */
/* Kernels that start early: each one prepares while the one before it still runs, and waits before it touches
 * what that one writes. */
#include "early_start.kernels.h" /* made of early_start.cu by gantry_add_kernels() */
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1000, STEPS = 10, TABLE = 4, THREADS = 128 };
static gantry_kernel *kernel;
static uint32_t *numbers, *host;

static void must(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "%s\n", gantry_last_error());
        exit(EXIT_FAILURE);
    }
}

static gantry_launch_result steps(gantry_launch *launch, void *arg)
{
    void *args[] = {&numbers, &(uint32_t){COUNT}, &(uint32_t){TABLE}};
    gantry_launch_options options = GANTRY_LAUNCH_OPTIONS_INIT;
    options.start = GANTRY_KERNEL_START_EARLY;
    gantry_status status = gantry_launch_fill(launch, numbers, 1, sizeof(uint32_t), COUNT);
    for (int i = 0; i < STEPS && status == GANTRY_OK; i++) {
        status =
            gantry_launch_kernel_with(launch, kernel, (gantry_dim3){(COUNT + THREADS - 1) / THREADS, 1, 1},
                                      (gantry_dim3){THREADS, 1, 1}, 0, args, &options);
    }
    status = status == GANTRY_OK ? gantry_launch_copy_dtoh(launch, host, numbers, COUNT * sizeof(uint32_t))
                                 : status;
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

int main(void)
{
    gantry_context *context;
    gantry_module *module;
    gantry_taskman *graph;
    must(gantry_context_create(NULL, &context));
    must(gantry_module_load(context, &gantry_image_early_start, &module));
    must(gantry_module_get_kernel(module, "step", &kernel));
    gantry_heap *heap = gantry_context_heap(context);
    const size_t bytes = COUNT * sizeof(uint32_t);
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, bytes, 0, GANTRY_ALLOC_SITE("numbers"),
                           (void **)&numbers));
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, bytes, 0, GANTRY_ALLOC_SITE("host"), (void **)&host));
    gantry_taskman_options options = {sizeof(options), .gpu_dispatcher = gantry_context_dispatcher(context)};
    must(gantry_taskman_create(&options, &graph));
    gantry_task_desc desc = {sizeof(desc), GANTRY_TASK_KERNEL, .label = "steps", .launch = steps};
    must(gantry_taskman_submit(graph, &desc, NULL));
    must(gantry_taskman_start(graph));
    must(gantry_taskman_stop(graph));
    must(gantry_context_synchronize(context));
    printf("after %d steps the first number is %u, the last %u\n", STEPS, host[0], host[COUNT - 1]);
    gantry_taskman_destroy(graph);
    gantry_context_destroy(context);
    return 0;
}
