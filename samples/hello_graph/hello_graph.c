/* SPDX-License-Identifier: MIT */
/* The smallest whole program.  A thousand numbers go to the GPU, are tripled and incremented there, and come
 * back.  Then the CPU looks at them. */
#include "hello_graph.kernels.h" /* made of hello_graph.cu by gantry_add_kernels() */
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1000, BYTES = COUNT * sizeof(uint32_t) };
static gantry_kernel *triple, *increment;
static void *numbers;           /* in page-locked host memory, from which the GPU can copy */
static void *numbers_on_device; /* in the GPU's memory */

/* A call that fails ends the program, with the reason. */
static void must(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "%s\n", gantry_last_error());
        exit(EXIT_FAILURE);
    }
}

/* The callback of a GPU task gives the GPU something to do, and returns without waiting for it. */
static gantry_launch_result upload(gantry_launch *launch, void *unused)
{
    must(gantry_launch_copy_htod(launch, numbers_on_device, numbers, BYTES));
    return GANTRY_LAUNCH_DONE;
}

static gantry_launch_result compute(gantry_launch *launch, void *kernel)
{
    void *arguments[] = {&numbers_on_device, &(uint32_t){COUNT}};
    gantry_dim3 blocks = {4, 1, 1}, threads = {256, 1, 1};
    must(gantry_launch_kernel(launch, kernel, blocks, threads, 0, arguments));
    return GANTRY_LAUNCH_DONE;
}

static gantry_launch_result download(gantry_launch *launch, void *unused)
{
    must(gantry_launch_copy_dtoh(launch, numbers, numbers_on_device, BYTES));
    return GANTRY_LAUNCH_DONE;
}

/* The body of a CPU task does its work itself. */
static gantry_status look(gantry_task *task, void *unused)
{
    uint32_t right = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        right += ((uint32_t *)numbers)[i] == 3 * i + 1;
    }
    printf("%s: %u of %d numbers are 3 i + 1\n", gantry_task_label(task), right, COUNT);
    return right == COUNT ? GANTRY_OK : GANTRY_ERR_TASK_FAILED;
}

int main(void)
{
    gantry_context *context;
    gantry_module *module;
    gantry_taskman *graph;
    gantry_task *tasks[5];
    must(gantry_context_create(NULL, &context)); /* the GPU, or the emulated one */
    must(gantry_module_load(context, &gantry_image_hello_graph, &module));
    must(gantry_module_get_kernel(module, "triple", &triple));
    must(gantry_module_get_kernel(module, "increment", &increment));
    gantry_heap *heap = gantry_context_heap(context);
    gantry_alloc_site site = GANTRY_ALLOC_SITE("numbers");
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, BYTES, 0, site, &numbers));
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, BYTES, 0, site, &numbers_on_device));
    for (uint32_t i = 0; i < COUNT; i++) {
        ((uint32_t *)numbers)[i] = i;
    }
    gantry_taskman_options options = {sizeof(options), .gpu_dispatcher = gantry_context_dispatcher(context)};
    must(gantry_taskman_create(&options, &graph));

    /* Five tasks, each after the one before it. */
    gantry_task_desc chain[] = {
        {sizeof(*chain), GANTRY_TASK_HTOD, .label = "upload", .launch = upload},
        {sizeof(*chain), GANTRY_TASK_KERNEL, .label = "triple", .launch = compute, .arg = triple},
        {sizeof(*chain), GANTRY_TASK_KERNEL, .label = "increment", .launch = compute, .arg = increment},
        {sizeof(*chain), GANTRY_TASK_DTOH, .label = "download", .launch = download},
        {sizeof(*chain), GANTRY_TASK_CPU, .label = "look", .run = look}};
    must(gantry_taskman_submit_chain(graph, chain, 5, tasks));
    must(gantry_task_start_after_done(tasks[4], tasks[3])); /* and when the GPU has done "download" */
    must(gantry_taskman_start(graph));
    must(gantry_taskman_stop(graph)); /* waits for all five */
    gantry_taskman_destroy(graph);
    gantry_heap_free(heap, numbers);
    gantry_heap_free(heap, numbers_on_device);
    gantry_context_destroy(context);
    return 0;
}
