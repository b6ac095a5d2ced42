/* SPDX-License-Identifier: MIT */
/* A part of the device for urgent work: 16 multiprocessors that nothing else can occupy.  A task names the
 * partition whose streams its work goes to; what names none goes to the default one. */
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1000 };
static void *device;

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
    gantry_partition_info info = {.struct_size = sizeof(info)};
    if (gantry_partition_get_info(gantry_launch_partition(launch), &info) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    printf("%s runs in \"%s\"\n", gantry_task_label(gantry_launch_task(launch)), info.name);
    return launched(gantry_launch_fill(launch, device, 1, sizeof(uint32_t), COUNT));
}

int main(void)
{
    gantry_partition_request requests[] = {
        {.struct_size = sizeof(*requests),
         .name = "urgent",
         .size = GANTRY_PARTITION_EXACT,
         .sm_count = 16,
         .priority = -1}, /* lower numbers come first; the others have 0 */
        {.struct_size = sizeof(*requests), .name = "others", .size = GANTRY_PARTITION_REST, .is_default = 1}};
    gantry_partition_options plan = {.struct_size = sizeof(plan), .requests = requests, .count = 2};
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.partitions = &plan;
    gantry_context *context;
    gantry_taskman *graph;
    gantry_partition *urgent;
    gantry_task *tasks[2];
    must(gantry_context_create(&options, &context));
    must(gantry_partition_find(context, "urgent", &urgent));
    must(gantry_heap_alloc(gantry_context_heap(context), GANTRY_MEMORY_DEVICE, COUNT * sizeof(uint32_t), 0,
                           GANTRY_ALLOC_SITE("numbers"), &device));
    gantry_taskman_options on = {sizeof(on), .gpu_dispatcher = gantry_context_dispatcher(context)};
    must(gantry_taskman_create(&on, &graph));
    gantry_task_desc chain[] = {
        {sizeof(*chain), GANTRY_TASK_KERNEL, .label = "the alarm", .launch = fill, .partition = urgent},
        {sizeof(*chain), GANTRY_TASK_KERNEL, .label = "the statistics", .launch = fill}};
    must(gantry_taskman_submit_chain(graph, chain, 2,
                                     tasks)); /* an edge from one partition to the other is an event */
    must(gantry_taskman_start(graph));
    must(gantry_taskman_stop(graph));
    must(gantry_context_synchronize(context));

    gantry_sm_set seen = {.struct_size = sizeof(seen)}; /* where blocks really run */
    must(gantry_partition_audit(urgent, GANTRY_AUDIT_STREAM, &seen));
    printf("\"urgent\" uses %u multiprocessors\n", seen.seen_sms);
    gantry_taskman_destroy(graph);
    gantry_heap_free(gantry_context_heap(context), device);
    gantry_context_destroy(context);
    return 0;
}
