/* SPDX-License-Identifier: MIT */
/* Two buffers: while the GPU works on one frame, the next one is on its way.  A frame waits only for the
 * frame that had its buffer before, so copies and work of neighbouring frames are side by side. */
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>

enum { FRAMES = 6, BUFFERS = 2, COUNT = 4096, BYTES = COUNT * sizeof(uint32_t) };
struct frame {
    uint32_t *host;   /* each frame has its own */
    uint32_t *device; /* one of the two buffers */
};

static void must(gantry_status status)
{
    if (status != GANTRY_OK) {
        fprintf(stderr, "%s\n", gantry_last_error());
        exit(EXIT_FAILURE);
    }
}

static gantry_launch_result upload(gantry_launch *launch, void *arg)
{
    const struct frame *frame = arg;
    bool failed = gantry_launch_copy_htod(launch, frame->device, frame->host, BYTES);
    return failed ? GANTRY_LAUNCH_FAILED : GANTRY_LAUNCH_DONE;
}

static gantry_launch_result clear_half(gantry_launch *launch, void *arg)
{
    const struct frame *frame = arg;
    bool failed = gantry_launch_fill(launch, frame->device, 0, sizeof(uint32_t), COUNT / 2);
    return failed ? GANTRY_LAUNCH_FAILED : GANTRY_LAUNCH_DONE;
}

static gantry_launch_result download(gantry_launch *launch, void *arg)
{
    const struct frame *frame = arg;
    bool failed = gantry_launch_copy_dtoh(launch, frame->host, frame->device, BYTES);
    return failed ? GANTRY_LAUNCH_FAILED : GANTRY_LAUNCH_DONE;
}

int main(void)
{
    gantry_context *context;
    gantry_taskman *graph;
    gantry_task *tasks[FRAMES][3];
    struct frame frames[FRAMES];
    void *host, *buffers;
    must(gantry_context_create(NULL, &context));
    gantry_heap *heap = gantry_context_heap(context);
    gantry_alloc_site site = GANTRY_ALLOC_SITE("frames");
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, FRAMES * BYTES, 0, site, &host));
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, BUFFERS * BYTES, 0, site, &buffers));
    gantry_taskman_options options = {sizeof(options), .gpu_dispatcher = gantry_context_dispatcher(context)};
    must(gantry_taskman_create(&options, &graph));

    for (uint32_t i = 0; i < FRAMES; i++) {
        struct frame *frame = &frames[i];
        frame->host = (uint32_t *)host + i * COUNT;
        frame->device = (uint32_t *)buffers + i % BUFFERS * COUNT;
        frame->host[0] = frame->host[COUNT - 1] = 10 * i;
        gantry_task_desc chain[] = {
            {sizeof(*chain), GANTRY_TASK_HTOD, .label = "upload", .launch = upload, .arg = frame},
            {sizeof(*chain), GANTRY_TASK_KERNEL, .label = "clear half", .launch = clear_half, .arg = frame},
            {sizeof(*chain), GANTRY_TASK_DTOH, .label = "download", .launch = download, .arg = frame}};
        must(gantry_taskman_submit_chain(graph, chain, 3, tasks[i]));
        if (i >= BUFFERS) { /* the buffer is free when the frame that had it was downloaded */
            must(gantry_task_start_after(tasks[i][0], tasks[i - BUFFERS][2]));
        }
    }
    must(gantry_taskman_start(graph));
    must(gantry_taskman_stop(graph));          /* all is launched */
    must(gantry_context_synchronize(context)); /* all is done */
    for (int i = 0; i < FRAMES; i++) {
        printf("frame %d: from %u to %u\n", i, frames[i].host[0], frames[i].host[COUNT - 1]);
    }
    gantry_taskman_destroy(graph);
    gantry_context_destroy(context); /* frees the heap with all that is left in it */
    return 0;
}
