/* SPDX-License-Identifier: MIT */
/* A CPU task that reads what the GPU wrote starts after it is *done*.  A GPU task is over for its dependents
 * as soon as its work is launched: enough for other GPU tasks, which the GPU keeps in order, too early for
 * the CPU. */
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1000, BYTES = COUNT * sizeof(uint32_t) };
static void *host, *device;

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

static gantry_launch_result fill(gantry_launch *launch, void *arg)
{
    return launched(gantry_launch_fill(launch, device, 7, sizeof(uint32_t), COUNT));
}

static gantry_launch_result download(gantry_launch *launch, void *arg)
{
    return launched(gantry_launch_copy_dtoh(launch, host, device, BYTES));
}

static gantry_status add_up(gantry_task *task, void *arg)
{
    uint32_t sum = 0;
    for (int i = 0; i < COUNT; i++) {
        sum += ((uint32_t *)host)[i];
    }
    printf("the sum is %u\n", sum);
    return GANTRY_OK;
}

int main(void)
{
    gantry_context *context;
    gantry_taskman *graph;
    gantry_task *filled, *downloaded, *added;
    must(gantry_context_create(NULL, &context));
    gantry_heap *heap = gantry_context_heap(context);
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, BYTES, 0, GANTRY_ALLOC_SITE("host"), &host));
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, BYTES, 0, GANTRY_ALLOC_SITE("device"), &device));
    gantry_taskman_options options = {sizeof(options), .gpu_dispatcher = gantry_context_dispatcher(context)};
    must(gantry_taskman_create(&options, &graph));

    gantry_task_desc fill_it = {sizeof(fill_it), GANTRY_TASK_KERNEL, .label = "fill", .launch = fill};
    gantry_task_desc download_it = {sizeof(download_it), GANTRY_TASK_DTOH, .label = "download",
                                    .launch = download};
    gantry_task_desc add_it = {sizeof(add_it), GANTRY_TASK_CPU, .label = "add up", .run = add_up};
    must(gantry_taskman_submit(graph, &fill_it, &filled));
    must(gantry_taskman_submit(graph, &download_it, &downloaded));
    must(gantry_taskman_submit(graph, &add_it, &added));
    must(gantry_task_start_after(downloaded, filled));     /* GPU after GPU: ordered on the GPU */
    must(gantry_task_start_after_done(added, downloaded)); /* CPU after GPU: when the GPU has done it */

    must(gantry_taskman_start(graph));
    must(gantry_taskman_stop(graph));
    gantry_taskman_destroy(graph);
    gantry_heap_free(heap, host);
    gantry_heap_free(heap, device);
    gantry_context_destroy(context);
    return 0;
}
