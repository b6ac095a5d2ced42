/* SPDX-License-Identifier: MIT */
/* Blocks of the heap: a limit, a callback that gives up a cache when nothing fits any more, who uses most,
 * and what a free of a block that is free already says. */
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>

#define MIB ((size_t)1 << 20)
static void *cache, *model, *input;

static void must(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "%s\n", gantry_last_error());
        exit(EXIT_FAILURE);
    }
}

static bool drop_cache(void *user, gantry_heap *heap, gantry_memory_kind kind, size_t bytes)
{
    printf("no room for %zu MiB: the cache goes\n", bytes / MIB);
    must(gantry_heap_free(heap, cache));
    return true; /* try once more */
}

static gantry_launch_result upload(gantry_launch *launch, void *arg)
{
    return gantry_launch_copy_htod(launch, model, input, MIB) ? GANTRY_LAUNCH_FAILED : GANTRY_LAUNCH_DONE;
}

int main(void)
{
    gantry_context *context;
    gantry_taskman *graph;
    gantry_heap_options limits = GANTRY_HEAP_OPTIONS_INIT;
    limits.limit_bytes[GANTRY_MEMORY_DEVICE] = 80 * MIB;
    limits.out_of_memory = drop_cache;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.heap = &limits;
    must(gantry_context_create(&options, &context));
    gantry_heap *heap = gantry_context_heap(context);
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 40 * MIB, 0, GANTRY_ALLOC_SITE("cache"), &cache));
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, 50 * MIB, 0, GANTRY_ALLOC_SITE("model"), &model));
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, 1 * MIB, 4096, GANTRY_ALLOC_SITE("input"), &input));
    must(gantry_heap_resize(heap, model, 45 * MIB)); /* where it is, or not at all */

    gantry_heap_tag_stats most;
    size_t tags;
    must(gantry_heap_get_tag_stats(heap, GANTRY_MEMORY_DEVICE, &most, 1, &tags));
    printf("most of the device memory: %s, %d MiB\n", most.tag, (int)(most.used_bytes / MIB));

    gantry_taskman_options on = {sizeof(on), .gpu_dispatcher = gantry_context_dispatcher(context)};
    must(gantry_taskman_create(&on, &graph));
    gantry_task_desc desc = {sizeof(desc), GANTRY_TASK_HTOD, .label = "upload", .launch = upload};
    must(gantry_taskman_submit(graph, &desc, NULL));
    must(gantry_taskman_start(graph));
    must(gantry_taskman_stop(graph));
    must(gantry_context_synchronize(context)); /* a block must no longer be in use when it is freed */
    must(gantry_heap_free(heap, input));
    must(gantry_heap_free(heap, model));
    if (gantry_heap_free(heap, model) == GANTRY_ERR_NOT_FOUND) { /* gantry_last_error() says why */
        printf("freed twice\n");
    }
    gantry_taskman_destroy(graph);
    gantry_context_destroy(context); /* warns in the log of what was not freed, by tag and place */
    return 0;
}
