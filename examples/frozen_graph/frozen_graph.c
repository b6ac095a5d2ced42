/* SPDX-License-Identifier: MIT */
/* A graph that is built once and runs many times.  A frozen graph allocates nothing per run; what its tasks
 * work on can be changed between runs. */
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 256, BYTES = COUNT * sizeof(uint32_t) };
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
    uint32_t *value = arg;
    return launched(gantry_launch_fill(launch, device, *value, sizeof(uint32_t), COUNT));
}

static gantry_launch_result download(gantry_launch *launch, void *arg)
{
    return launched(gantry_launch_copy_dtoh(launch, host, device, BYTES));
}

static gantry_status add_up(gantry_task *task, void *arg)
{
    uint64_t *total = arg;
    for (int i = 0; i < COUNT; i++) {
        *total += ((uint32_t *)host)[i];
    }
    return GANTRY_OK;
}

int main(void)
{
    gantry_context *context;
    gantry_taskman *graph;
    gantry_task *tasks[3];
    uint32_t one = 1, two = 2;
    uint64_t total = 0;
    must(gantry_context_create(NULL, &context));
    gantry_heap *heap = gantry_context_heap(context);
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, BYTES, 0, GANTRY_ALLOC_SITE("host"), &host));
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, BYTES, 0, GANTRY_ALLOC_SITE("device"), &device));
    gantry_taskman_options options = {sizeof(options), .gpu_dispatcher = gantry_context_dispatcher(context)};
    must(gantry_taskman_create(&options, &graph));
    gantry_task_desc chain[] = {
        {sizeof(*chain), GANTRY_TASK_KERNEL, .label = "fill", .launch = fill, .arg = &one},
        {sizeof(*chain), GANTRY_TASK_DTOH, .label = "download", .launch = download},
        {sizeof(*chain), GANTRY_TASK_CPU, .label = "add up", .run = add_up, .arg = &total}};
    must(gantry_taskman_submit_chain(graph, chain, 3, tasks));
    must(gantry_task_start_after_done(tasks[2], tasks[1]));

    must(gantry_taskman_freeze(graph));
    must(gantry_taskman_run(graph, 10));
    printf("after 10 runs with ones: %d x %d\n", (int)(total / COUNT), COUNT);
    must(gantry_task_set_arg(tasks[0], &two)); /* between runs */
    must(gantry_taskman_run(graph, 10));
    printf("after 10 runs with twos: %d x %d\n", (int)(total / COUNT), COUNT);

    gantry_taskman_destroy(graph);
    gantry_heap_free(heap, host);
    gantry_heap_free(heap, device);
    gantry_context_destroy(context);
    return 0;
}
