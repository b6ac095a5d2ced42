/* SPDX-License-Identifier: MIT */
/* Many small copies in one launch.  Each copy on its own costs a call of the driver; a batch costs one kernel
 * that does them all at once.  Here every second row of a table is gathered. */
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 200, ROW_BYTES = 60 };
static unsigned char *table, *device, *gathered;

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

static gantry_launch_result gather(gantry_launch *launch, void *arg)
{
    gantry_copy_desc copies[ROWS / 2];
    for (int i = 0; i < ROWS / 2; i++) {
        copies[i] = (gantry_copy_desc){.dest = device + (size_t)i * ROW_BYTES,
                                       .source = table + (size_t)i * 2 * ROW_BYTES,
                                       .bytes = ROW_BYTES,
                                       .type = GANTRY_COPY_HTOD};
    }
    return launched(gantry_copy_launch(launch, copies, ROWS / 2)); /* `copies` is read before this returns */
}

static gantry_launch_result download(gantry_launch *launch, void *arg)
{
    return launched(gantry_launch_copy_dtoh(launch, gathered, device, ROWS / 2 * ROW_BYTES));
}

static void *allocate(gantry_heap *heap, gantry_memory_kind kind, size_t bytes)
{
    void *block;
    must(gantry_heap_alloc(heap, kind, bytes, 0, GANTRY_ALLOC_SITE("rows"), &block));
    return block;
}

int main(void)
{
    gantry_context *context;
    gantry_taskman *graph;
    gantry_task *tasks[3];
    int right = 0;
    must(gantry_context_create(NULL, &context));
    gantry_heap *heap = gantry_context_heap(context);
    table = allocate(heap, GANTRY_MEMORY_PINNED, ROWS * ROW_BYTES);
    gathered = allocate(heap, GANTRY_MEMORY_PINNED, ROWS / 2 * ROW_BYTES);
    device = allocate(heap, GANTRY_MEMORY_DEVICE, ROWS / 2 * ROW_BYTES);
    for (int i = 0; i < ROWS; i++) {
        memset(table + (size_t)i * ROW_BYTES, i, ROW_BYTES);
    }
    gantry_taskman_options options = {sizeof(options), .gpu_dispatcher = gantry_context_dispatcher(context)};
    must(gantry_taskman_create(&options, &graph));
    gantry_task_desc chain[] = {{sizeof(*chain), GANTRY_TASK_KERNEL, .label = "gather", .launch = gather},
                                {sizeof(*chain), GANTRY_TASK_DTOH, .label = "download", .launch = download},
                                {sizeof(*chain), GANTRY_TASK_SYNC_POINT, .label = "downloaded"}};
    must(gantry_taskman_submit_chain(graph, chain, 3, tasks));
    must(gantry_task_start_after_done(tasks[2], tasks[1])); /* so that stop() waits for the GPU */
    must(gantry_taskman_start(graph));
    must(gantry_taskman_stop(graph));
    for (int i = 0; i < ROWS / 2; i++) {
        right += gathered[i * ROW_BYTES] == 2 * i && gathered[(i + 1) * ROW_BYTES - 1] == 2 * i;
    }
    printf("%d of %d rows are where they should be\n", right, ROWS / 2);
    gantry_taskman_destroy(graph);
    gantry_context_destroy(context); /* frees the heap with all that is left in it */
    return 0;
}
