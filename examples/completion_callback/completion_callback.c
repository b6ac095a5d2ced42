/* SPDX-License-Identifier: MIT */
/* One GPU task, several moments that the CPU wants to know of: its callback says for each part which CPU task
 * is to run when the GPU is done with what it has enqueued so far. */
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>

enum { PARTS = 3, COUNT = 1000, BYTES = COUNT * sizeof(uint32_t) };
struct part {
    void *host, *device;
    gantry_task *told; /* runs when this part is done */
    uint32_t sum;
};
static struct part parts[PARTS];

static void must(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "%s\n", gantry_last_error());
        exit(EXIT_FAILURE);
    }
}

static gantry_launch_result launch_part(gantry_launch *launch, void *arg)
{
    uint64_t i = gantry_launch_index(launch); /* 0, 1, 2: once per part */
    struct part *part = &parts[i];
    if (gantry_launch_fill(launch, part->device, (uint32_t)i + 1, sizeof(uint32_t), COUNT) != GANTRY_OK ||
        gantry_launch_copy_dtoh(launch, part->host, part->device, BYTES) != GANTRY_OK ||
        gantry_launch_add_completion(launch, part->told) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    return i + 1 < PARTS ? GANTRY_LAUNCH_AGAIN : GANTRY_LAUNCH_DONE;
}

static gantry_status add_up(gantry_task *task, void *arg)
{
    struct part *part = arg;
    for (int i = 0; i < COUNT; i++) {
        part->sum += ((uint32_t *)part->host)[i];
    }
    return GANTRY_OK;
}

int main(void)
{
    gantry_context *context;
    gantry_taskman *graph;
    gantry_task *all;
    must(gantry_context_create(NULL, &context));
    gantry_heap *heap = gantry_context_heap(context);
    gantry_taskman_options options = {sizeof(options), .gpu_dispatcher = gantry_context_dispatcher(context)};
    must(gantry_taskman_create(&options, &graph));
    gantry_task_desc launch_it = {sizeof(launch_it), GANTRY_TASK_DTOH, .label = "parts",
                                  .launch = launch_part};
    must(gantry_taskman_submit(graph, &launch_it, &all));
    for (int i = 0; i < PARTS; i++) {
        struct part *part = &parts[i];
        must(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, BYTES, 0, GANTRY_ALLOC_SITE("host"), &part->host));
        must(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, BYTES, 0, GANTRY_ALLOC_SITE("device"),
                               &part->device));
        gantry_task_desc add_it = {sizeof(add_it), GANTRY_TASK_CPU, .label = "add up", .run = add_up,
                                   .arg = part};
        must(gantry_taskman_submit(graph, &add_it, &part->told));
        must(gantry_task_start_after(part->told,
                                     all)); /* so that it has not begun when the callback names it */
    }
    must(gantry_taskman_start(graph));
    must(gantry_taskman_stop(graph));
    for (int i = 0; i < PARTS; i++) {
        printf("part %d: %u\n", i, parts[i].sum);
    }
    gantry_taskman_destroy(graph);
    gantry_context_destroy(context); /* frees the heap with all that is left in it */
    return 0;
}
