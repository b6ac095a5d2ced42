/* SPDX-License-Identifier: MIT */
/* Launch options: a cooperative grid, whose blocks wait for each other.  One that is larger than what the
 * partition's multiprocessors run at once is refused by the call, with the numbers. */
#include "launch_options.kernels.h" /* made of launch_options.cu by gantry_add_kernels() */
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 16, THREADS = 64, BYTES = (2 + BLOCKS) * sizeof(uint32_t) };
static gantry_kernel *kernel;
static uint32_t most;           /* blocks that run at once */
static uint32_t *counts, *host; /* the barrier, the count, and what each block has seen */

static void must(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "%s\n", gantry_last_error());
        exit(EXIT_FAILURE);
    }
}

static gantry_status meet(gantry_launch *launch, uint32_t grid)
{
    uint32_t *count = counts + 1, *seen = counts + 2;
    void *args[] = {&counts, &count, &seen};
    gantry_launch_options options = GANTRY_LAUNCH_OPTIONS_INIT;
    options.cooperative = 1;
    return gantry_launch_kernel_with(launch, kernel, (gantry_dim3){grid, 1, 1}, (gantry_dim3){THREADS, 1, 1},
                                     0, args, &options);
}

static gantry_launch_result launch_meeting(gantry_launch *launch, void *arg)
{
    gantry_status status = meet(launch, most + 1);
    printf("one block more than fits: %s\n", status == GANTRY_ERR_UNSUPPORTED ? "refused" : "not refused");
    status = gantry_launch_copy_htod(launch, counts, host, BYTES);
    status = status == GANTRY_OK ? meet(launch, BLOCKS) : status;
    status = status == GANTRY_OK ? gantry_launch_copy_dtoh(launch, host, counts, BYTES) : status;
    return status == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

int main(void)
{
    gantry_context *context;
    gantry_module *module;
    gantry_taskman *graph;
    gantry_occupancy fits = {.struct_size = sizeof(fits)};
    must(gantry_context_create(NULL, &context));
    must(gantry_module_load(context, &gantry_image_launch_options, &module));
    must(gantry_module_get_kernel(module, "meet", &kernel));
    must(gantry_partition_get_occupancy(gantry_partition_default(context), kernel,
                                        (gantry_dim3){THREADS, 1, 1}, 0, NULL, &fits));
    most = fits.blocks;

    gantry_heap *heap = gantry_context_heap(context);
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, BYTES, 0, GANTRY_ALLOC_SITE("counts"),
                           (void **)&counts));
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, BYTES, 0, GANTRY_ALLOC_SITE("host"), (void **)&host));
    host[0] = host[1] = 0;
    gantry_taskman_options options = {sizeof(options), .gpu_dispatcher = gantry_context_dispatcher(context)};
    must(gantry_taskman_create(&options, &graph));
    gantry_task_desc desc = {sizeof(desc), GANTRY_TASK_KERNEL, .label = "meet", .launch = launch_meeting};
    must(gantry_taskman_submit(graph, &desc, NULL));
    must(gantry_taskman_start(graph));
    must(gantry_taskman_stop(graph));
    must(gantry_context_synchronize(context));
    uint32_t right = 0;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        right += host[2 + i] == BLOCKS;
    }
    printf("blocks that have seen all others: %s\n", right == BLOCKS ? "all" : "not all");
    gantry_taskman_destroy(graph);
    gantry_context_destroy(context);
    return 0;
}
