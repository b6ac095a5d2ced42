/* Two buffers: while the GPU works on one frame, the next one is on its way.  A frame waits only for the
 * frame that had its buffer before, so copies and work of neighbouring frames are side by side. */
#include <gantry/gantry.h>
#include <stdio.h>
#include <stdlib.h>

enum { FRAMES = 6, BUFFERS = 2, COUNT = 4096, BYTES = COUNT * sizeof(uint32_t) };
struct frame {
    void *host;   /* each frame has its own */
    void *device; /* one of the two buffers */
    uint32_t sum;
};

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

static gantry_launch_result upload(gantry_launch *launch, void *arg)
{
    struct frame *frame = arg;
    return launched(gantry_launch_copy_htod(launch, frame->device, frame->host, BYTES));
}

static gantry_launch_result clear_half(gantry_launch *launch, void *arg)
{
    struct frame *frame = arg;
    return launched(gantry_launch_fill(launch, frame->device, 0, sizeof(uint32_t), COUNT / 2));
}

static gantry_launch_result download(gantry_launch *launch, void *arg)
{
    struct frame *frame = arg;
    return launched(gantry_launch_copy_dtoh(launch, frame->host, frame->device, BYTES));
}

static gantry_status add_up(gantry_task *task, void *arg)
{
    struct frame *frame = arg;
    for (int i = 0; i < COUNT; i++) {
        frame->sum += ((uint32_t *)frame->host)[i];
    }
    return GANTRY_OK;
}

int main(void)
{
    gantry_context *context;
    gantry_taskman *graph;
    static struct frame frames[FRAMES];
    gantry_task *tasks[FRAMES][4];
    must(gantry_context_create(NULL, &context));
    gantry_heap *heap = gantry_context_heap(context);
    gantry_taskman_options options = {sizeof(options), .gpu_dispatcher = gantry_context_dispatcher(context)};
    must(gantry_taskman_create(&options, &graph));
    for (int i = 0; i < FRAMES; i++) {
        struct frame *frame = &frames[i];
        must(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, BYTES, 0, GANTRY_ALLOC_SITE("frame"),
                               &frame->host));
        for (int j = 0; j < COUNT; j++) {
            ((uint32_t *)frame->host)[j] = (uint32_t)i;
        }
        if (i < BUFFERS) {
            must(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, BYTES, 0, GANTRY_ALLOC_SITE("buffer"),
                                   &frame->device));
        } else {
            frame->device = frames[i - BUFFERS].device;
        }
        gantry_task_desc chain[] = {
            {sizeof(*chain), GANTRY_TASK_HTOD, .label = "upload", .launch = upload, .arg = frame},
            {sizeof(*chain), GANTRY_TASK_KERNEL, .label = "clear half", .launch = clear_half, .arg = frame},
            {sizeof(*chain), GANTRY_TASK_DTOH, .label = "download", .launch = download, .arg = frame},
            {sizeof(*chain), GANTRY_TASK_CPU, .label = "add up", .run = add_up, .arg = frame}};
        must(gantry_taskman_submit_chain(graph, chain, 4, tasks[i]));
        must(gantry_task_start_after_done(tasks[i][3], tasks[i][2]));
        if (i >= BUFFERS) { /* the buffer is free when the frame that had it was downloaded */
            must(gantry_task_start_after(tasks[i][0], tasks[i - BUFFERS][2]));
        }
    }
    must(gantry_taskman_start(graph));
    must(gantry_taskman_stop(graph));
    for (int i = 0; i < FRAMES; i++) {
        printf("frame %d: %u\n", i, frames[i].sum);
    }
    gantry_taskman_destroy(graph);
    gantry_context_destroy(context); /* frees the heap with all that is left in it */
    return 0;
}
