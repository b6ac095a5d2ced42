/* SPDX-License-Identifier: MIT */
/* Recording what ran when, from inside the program.  `gantry report trace run.pftrace` reads the file, and so
 * does https://ui.perfetto.dev.  Any program is recorded without a line of code by
 * GANTRY_PROFILE=run.pftrace. */
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>

enum { BYTES = 1 << 16 };
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

static gantry_launch_result clear(gantry_launch *launch, void *arg)
{
    return launched(gantry_launch_fill(launch, device, 0, 1, BYTES));
}

static gantry_status think(gantry_task *task, void *arg)
{
    return GANTRY_OK;
}

int main(int argc, char **argv)
{
    gantry_context *context;
    gantry_taskman *graph;
    gantry_profile *recording;
    gantry_task *tasks[3];
    must(gantry_context_create(NULL, &context));
    must(gantry_heap_alloc(gantry_context_heap(context), GANTRY_MEMORY_DEVICE, BYTES, 0,
                           GANTRY_ALLOC_SITE("device"), &device));
    gantry_taskman_options options = {sizeof(options), .gpu_dispatcher = gantry_context_dispatcher(context)};
    must(gantry_taskman_create(&options, &graph));
    gantry_task_desc chain[] = {{sizeof(*chain), GANTRY_TASK_CPU, .label = "think", .run = think},
                                {sizeof(*chain), GANTRY_TASK_KERNEL, .label = "clear", .launch = clear},
                                {sizeof(*chain), GANTRY_TASK_CPU, .label = "think again", .run = think}};
    must(gantry_taskman_submit_chain(graph, chain, 3, tasks));

    gantry_profile_options record = GANTRY_PROFILE_OPTIONS_INIT;
    record.path = argc > 1 ? argv[1] : "run.pftrace";
    must(gantry_profile_start(&record, &recording));
    must(gantry_taskman_start(graph));
    must(gantry_taskman_stop(graph));
    gantry_profile_stats stats = {.struct_size = sizeof(stats)};
    must(gantry_profile_stop(recording, &stats));
    printf("a recording was written; lost: %llu slices, %llu blocks, %llu ranges in blocks\n",
           (unsigned long long)stats.lost, (unsigned long long)stats.ctas_lost,
           (unsigned long long)stats.ranges_lost);

    gantry_taskman_destroy(graph);
    gantry_heap_free(gantry_context_heap(context), device);
    gantry_context_destroy(context);
    return stats.spans > 0 ? 0 : 1;
}
