/* SPDX-License-Identifier: MIT */
/* Page-locked memory is host memory that the device reads and writes in place: no copies, at the speed of the
 * bus.  Good for what is touched once.  It has two addresses, one for the CPU and one for kernels. */
#include "pinned_memory.kernels.h" /* made of pinned_memory.cu by gantry_add_kernels() */
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 100 };
static gantry_kernel *kernel;
static void *numbers_on_device;

static void must(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "%s\n", gantry_last_error());
        exit(EXIT_FAILURE);
    }
}

static gantry_launch_result launched(gantry_status status)
{
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result square(gantry_launch *launch, void *arg)
{
    void *args[] = {&numbers_on_device, &(uint32_t){COUNT}};
    return launched(
        gantry_launch_kernel(launch, kernel, (gantry_dim3){1, 1, 1}, (gantry_dim3){COUNT, 1, 1}, 0, args));
}

static gantry_status show(gantry_task *task, void *numbers)
{
    printf("the square of 9 is %u, that of 99 is %u\n", ((uint32_t *)numbers)[9], ((uint32_t *)numbers)[99]);
    return GANTRY_OK;
}

int main(void)
{
    gantry_context *context;
    gantry_module *module;
    gantry_taskman *graph;
    gantry_task *tasks[2];
    void *numbers;
    must(gantry_context_create(NULL, &context));
    must(gantry_module_load(context, &gantry_image_pinned_memory, &module));
    must(gantry_module_get_kernel(module, "square", &kernel));
    gantry_heap *heap = gantry_context_heap(context);
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, COUNT * sizeof(uint32_t), 0,
                           GANTRY_ALLOC_SITE("numbers"), &numbers));
    must(gantry_heap_device_address(heap, numbers, &numbers_on_device));
    for (uint32_t i = 0; i < COUNT; i++) {
        ((uint32_t *)numbers)[i] = i;
    }
    gantry_taskman_options options = {sizeof(options), .gpu_dispatcher = gantry_context_dispatcher(context)};
    must(gantry_taskman_create(&options, &graph));
    gantry_task_desc chain[] = {
        {sizeof(*chain), GANTRY_TASK_KERNEL, .label = "square", .launch = square},
        {sizeof(*chain), GANTRY_TASK_CPU, .label = "show", .run = show, .arg = numbers}};
    must(gantry_taskman_submit_chain(graph, chain, 2, tasks));
    must(gantry_task_start_after_done(tasks[1], tasks[0]));
    must(gantry_taskman_start(graph));
    must(gantry_taskman_stop(graph));
    gantry_taskman_destroy(graph);
    gantry_heap_free(heap, numbers);
    gantry_context_destroy(context);
    return 0;
}
