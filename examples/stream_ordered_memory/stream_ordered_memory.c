/* SPDX-License-Identifier: MIT */
/* Scratch memory without waiting: it is given back in the callback that uses it, and taken by the next task
 * on the same stream at once, since the GPU does one after the other. */
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>

enum { TASKS = 20, BYTES = 1 << 20 };

static void must(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "%s\n", gantry_last_error());
        exit(EXIT_FAILURE);
    }
}

static gantry_launch_result work(gantry_launch *launch, void *arg)
{
    void *scratch;
    if (gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, BYTES, 0, GANTRY_ALLOC_SITE("scratch"), &scratch) !=
        GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    gantry_status status = gantry_launch_fill(launch, scratch, 0, 1, BYTES);
    gantry_status freed =
        gantry_free_after(scratch, launch); /* when the GPU has done what was enqueued so far */
    return status == GANTRY_OK && freed == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

int main(void)
{
    gantry_context *context;
    gantry_taskman *graph;
    gantry_task *tasks[TASKS];
    gantry_task_desc chain[TASKS];
    must(gantry_context_create(NULL, &context));
    gantry_taskman_options options = {sizeof(options), .gpu_dispatcher = gantry_context_dispatcher(context)};
    must(gantry_taskman_create(&options, &graph));
    for (int i = 0; i < TASKS; i++) {
        chain[i] = (gantry_task_desc){sizeof(*chain), GANTRY_TASK_KERNEL, .label = "work", .launch = work};
    }
    must(gantry_taskman_submit_chain(graph, chain, TASKS, tasks));
    must(gantry_taskman_start(graph));
    must(gantry_taskman_stop(graph));
    must(gantry_context_synchronize(context));

    gantry_dispatcher_stats stats = {.struct_size = sizeof(stats)};
    must(gantry_dispatcher_get_stats(gantry_context_dispatcher(context), &stats));
    printf("%llu blocks were given back while the GPU might still use them\n",
           (unsigned long long)stats.frees_deferred);
    gantry_taskman_destroy(graph);
    gantry_context_destroy(context);
    return 0;
}
