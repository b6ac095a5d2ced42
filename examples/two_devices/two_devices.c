/* SPDX-License-Identifier: MIT */
/* One graph over two devices: a GPU task names its context, and an edge means the same between devices as on
 * one.  Without two devices the emulated driver has them; on a machine with one, everything runs there. */
#define _DEFAULT_SOURCE /* setenv() */
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1000, BYTES = COUNT * sizeof(uint32_t) };
static void *on_first, *on_second; /* memory of either device */
static uint32_t *host;             /* page-locked: both devices reach it */

static void must(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "%s\n", gantry_last_error());
        exit(EXIT_FAILURE);
    }
}

static gantry_launch_result fill(gantry_launch *launch, void *arg)
{
    bool failed = gantry_launch_fill(launch, on_first, 7, sizeof(uint32_t), COUNT) ||
                  gantry_launch_copy_dtoh(launch, host, on_first, BYTES);
    return failed ? GANTRY_LAUNCH_FAILED : GANTRY_LAUNCH_DONE;
}

static gantry_launch_result change_half(gantry_launch *launch, void *arg)
{
    bool failed = gantry_launch_copy_htod(launch, on_second, host, BYTES) ||
                  gantry_launch_fill(launch, on_second, 3, sizeof(uint32_t), COUNT / 2) ||
                  gantry_launch_copy_dtoh(launch, host, on_second, BYTES);
    return failed ? GANTRY_LAUNCH_FAILED : GANTRY_LAUNCH_DONE;
}

static gantry_status add_up(gantry_task *task, void *arg)
{
    uint32_t sum = 0;
    for (int i = 0; i < COUNT; i++) {
        sum += host[i];
    }
    printf("the sum is %u\n", sum);
    return GANTRY_OK;
}

static void *allocate(gantry_context *context, gantry_memory_kind kind)
{
    void *block;
    must(gantry_heap_alloc(gantry_context_heap(context), kind, BYTES, 0, GANTRY_ALLOC_SITE("numbers"),
                           &block));
    return block;
}

int main(void)
{
    gantry_fleet *fleet;
    gantry_taskman *graph;
    gantry_task *tasks[3];
    setenv("GANTRY_EMU_DEVICES", "2", 0);
    must(gantry_fleet_create(NULL, &fleet));
    gantry_context *first = gantry_fleet_context(fleet, 0);
    gantry_context *second = gantry_fleet_context(fleet, gantry_fleet_device_count(fleet) > 1);
    on_first = allocate(first, GANTRY_MEMORY_DEVICE);
    on_second = allocate(second, GANTRY_MEMORY_DEVICE);
    host = allocate(first, GANTRY_MEMORY_PINNED);
    gantry_taskman_options options = {sizeof(options), .fleet = fleet};
    must(gantry_taskman_create(&options, &graph));
    gantry_task_desc chain[] = {
        {sizeof(*chain), GANTRY_TASK_KERNEL, .label = "fill", .launch = fill, .context = first},
        {sizeof(*chain), GANTRY_TASK_KERNEL, .label = "change half", .launch = change_half,
         .context = second},
        {sizeof(*chain), GANTRY_TASK_CPU, .label = "add up", .run = add_up}};
    must(gantry_taskman_submit_chain(graph, chain, 3, tasks)); /* the second device waits for the first */
    must(gantry_task_start_after_done(tasks[2], tasks[1]));
    must(gantry_taskman_start(graph));
    must(gantry_taskman_stop(graph));
    gantry_taskman_destroy(graph);
    gantry_fleet_destroy(fleet); /* frees the heaps with all that is left in them */
    return 0;
}
