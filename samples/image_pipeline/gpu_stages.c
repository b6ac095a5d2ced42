/* SPDX-License-Identifier: MIT */
/* What the photo's GPU tasks enqueue.
 *
 * A launch callback runs on the dispatcher's thread, enqueues a little on its task's stream and returns:
 * LAUNCH_DONE, or LAUNCH_AGAIN to be called with the next index after the other running tasks had their
 * turn.  Long sequences are therefore cut into one kernel per call, so that the photos' kernels are
 * enqueued side by side instead of one photo after the other. */
#include "samples/image_pipeline/gpu_stages.h"

#include "cli/samples.h"
#include "samples/image_pipeline/pipeline.h"

#define LINE_THREADS 256u
#define TILE_WIDTH 32u
#define TILE_HEIGHT 8u
#define HISTOGRAM_BINS 256u
#define MOST_PARAMETERS 8 /* of a kernel */
/* Each block adds its own 256 counts to the bins at its end: it must have enough pixels to make up for it. */
#define HISTOGRAM_PIXELS_PER_THREAD 32u

static uint32_t divide_up(uint32_t value, uint32_t by)
{
    return (value + by - 1) / by;
}

/* Turn a launch function's status into what the callback returns. */
static gantry_launch_result result_of(struct pipeline *p, gantry_launch *launch, gantry_status status,
                                      gantry_launch_result success)
{
    if (status == GANTRY_OK) {
        return success;
    }
    pipeline_report_failure(p, "%s: %s", gantry_task_label(gantry_launch_task(launch)), cli_cause(status));
    return GANTRY_LAUNCH_FAILED;
}

/* Launch with `args`, which end with NULL, and the two parameters for recordings. */
static gantry_status launch_kernel(struct pipeline *p, gantry_launch *launch, enum kernel_id kernel,
                                   gantry_dim3 grid, gantry_dim3 block, void *const *args)
{
    uint32_t id = p->shared->first_profile_id + kernel;
    void *profile = gantry_launch_profile(launch, id, grid);
    void *all[MOST_PARAMETERS];
    size_t count = 0;
    for (; args[count] != NULL; count++) {
        all[count] = args[count];
    }
    all[count++] = &profile;
    all[count] = &id;
    return gantry_launch_kernel(launch, p->shared->kernels[kernel], grid, block, 0, all);
}

/* One thread per pixel, in a line. */
static gantry_status launch_line(struct pipeline *p, gantry_launch *launch, enum kernel_id kernel,
                                 void **args)
{
    gantry_dim3 grid = {divide_up(p->width * p->height, LINE_THREADS), 1, 1};
    gantry_dim3 block = {LINE_THREADS, 1, 1};
    return launch_kernel(p, launch, kernel, grid, block, args);
}

/* One thread per pixel, in tiles. */
static gantry_status launch_tiles(struct pipeline *p, gantry_launch *launch, enum kernel_id kernel,
                                  void **args)
{
    gantry_dim3 grid = {divide_up(p->width, TILE_WIDTH), divide_up(p->height, TILE_HEIGHT), 1};
    gantry_dim3 block = {TILE_WIDTH, TILE_HEIGHT, 1};
    return launch_kernel(p, launch, kernel, grid, block, args);
}

gantry_launch_result launch_weights(gantry_launch *launch, void *arg)
{
    struct shared *shared = arg;
    gantry_status status = gantry_launch_copy_htod(launch, shared->device_weights, shared->host_weights,
                                                   BLUR_WEIGHTS * sizeof(float));
    if (status != GANTRY_OK) {
        progress_report("blur weights: %s", cli_cause(status));
        return GANTRY_LAUNCH_FAILED;
    }
    return GANTRY_LAUNCH_DONE;
}

gantry_launch_result launch_upload(gantry_launch *launch, void *arg)
{
    struct pipeline *p = arg;
    if (p->idle) {
        return GANTRY_LAUNCH_DONE;
    }
    p->on_device = true;
    gantry_status status = gantry_launch_copy_htod(launch, p->buffers[DEVICE_RGB], p->buffers[HOST_RGB],
                                                   (size_t)p->width * p->height * 3);
    return result_of(p, launch, status, GANTRY_LAUNCH_DONE);
}

gantry_launch_result launch_luminance(gantry_launch *launch, void *arg)
{
    struct pipeline *p = arg;
    if (p->idle) {
        return GANTRY_LAUNCH_DONE;
    }
    uint32_t pixels = p->width * p->height;
    void *args[] = {&p->buffers[DEVICE_RGB], &p->buffers[DEVICE_LUMA], &pixels, NULL};
    gantry_status status = launch_line(p, launch, KERNEL_LUMINANCE, args);
    return result_of(p, launch, status, GANTRY_LAUNCH_DONE);
}

gantry_launch_result launch_edges(gantry_launch *launch, void *arg)
{
    struct pipeline *p = arg;
    if (p->idle) {
        return GANTRY_LAUNCH_DONE;
    }
    void *args[] = {&p->buffers[DEVICE_LUMA], &p->buffers[DEVICE_EDGES], &p->width, &p->height, NULL};
    gantry_status status = launch_tiles(p, launch, KERNEL_SOBEL, args);
    return result_of(p, launch, status, GANTRY_LAUNCH_DONE);
}

/* Two kernels: along the rows, then along the columns of what came of it. */
gantry_launch_result launch_blur(gantry_launch *launch, void *arg)
{
    struct pipeline *p = arg;
    if (p->idle) {
        return GANTRY_LAUNCH_DONE;
    }
    uint32_t radius = BLUR_RADIUS;
    bool rows = gantry_launch_index(launch) == 0;
    void **source = &p->buffers[rows ? DEVICE_LUMA : DEVICE_BLURRED_ROWS];
    void **dest = &p->buffers[rows ? DEVICE_BLURRED_ROWS : DEVICE_BLURRED];
    void *args[] = {source, dest, &p->width, &p->height, &p->shared->device_weights, &radius, NULL};
    gantry_status status = launch_tiles(p, launch, rows ? KERNEL_BLUR_ROWS : KERNEL_BLUR_COLUMNS, args);
    return result_of(p, launch, status, rows ? GANTRY_LAUNCH_AGAIN : GANTRY_LAUNCH_DONE);
}

/* The bins are cleared by the library's copy kernel: a fill is a copy without a source. */
static gantry_status launch_histogram(struct pipeline *p, gantry_launch *launch)
{
    const gantry_copy_desc clear = {.dest = p->buffers[DEVICE_BINS],
                                    .bytes = HISTOGRAM_BINS * sizeof(uint32_t),
                                    .type = GANTRY_COPY_FILL,
                                    .pattern_bytes = 4,
                                    .pattern = 0};
    gantry_status status = gantry_copy_launch(launch, &clear, 1);
    if (status != GANTRY_OK) {
        return status;
    }
    uint32_t pixels = p->width * p->height;
    void *args[] = {&p->buffers[DEVICE_BLURRED], &pixels, &p->buffers[DEVICE_BINS], NULL};
    gantry_dim3 grid = {divide_up(pixels, LINE_THREADS * HISTOGRAM_PIXELS_PER_THREAD), 1, 1};
    return launch_kernel(p, launch, KERNEL_HISTOGRAM, grid, (gantry_dim3){LINE_THREADS, 1, 1}, args);
}

/* One block, one thread per bin. */
static gantry_status launch_lookup_table(struct pipeline *p, gantry_launch *launch)
{
    uint32_t pixels = p->width * p->height;
    void *args[] = {&p->buffers[DEVICE_BINS], &pixels, &p->buffers[DEVICE_LUT], NULL};
    return launch_kernel(p, launch, KERNEL_EQUALISE_LUT, (gantry_dim3){1, 1, 1},
                         (gantry_dim3){HISTOGRAM_BINS, 1, 1}, args);
}

static gantry_status launch_lookup(struct pipeline *p, gantry_launch *launch)
{
    uint32_t pixels = p->width * p->height;
    void *args[] = {&p->buffers[DEVICE_BLURRED], &p->buffers[DEVICE_EQUALISED], &pixels,
                    &p->buffers[DEVICE_LUT], NULL};
    return launch_line(p, launch, KERNEL_APPLY_LUT, args);
}

gantry_launch_result launch_equalise(gantry_launch *launch, void *arg)
{
    struct pipeline *p = arg;
    if (p->idle) {
        return GANTRY_LAUNCH_DONE;
    }
    switch (gantry_launch_index(launch)) {
    case 0:
        return result_of(p, launch, launch_histogram(p, launch), GANTRY_LAUNCH_AGAIN);
    case 1:
        return result_of(p, launch, launch_lookup_table(p, launch), GANTRY_LAUNCH_AGAIN);
    default:
        return result_of(p, launch, launch_lookup(p, launch), GANTRY_LAUNCH_DONE);
    }
}

gantry_launch_result launch_combine(gantry_launch *launch, void *arg)
{
    struct pipeline *p = arg;
    if (p->idle) {
        return GANTRY_LAUNCH_DONE;
    }
    uint32_t pixels = p->width * p->height;
    void *args[] = {&p->buffers[DEVICE_EQUALISED], &p->buffers[DEVICE_EDGES], &p->buffers[DEVICE_RESULT],
                    &pixels, NULL};
    gantry_status status = launch_line(p, launch, KERNEL_COMBINE, args);
    return result_of(p, launch, status, GANTRY_LAUNCH_DONE);
}

gantry_launch_result launch_download(gantry_launch *launch, void *arg)
{
    struct pipeline *p = arg;
    if (p->idle) {
        return GANTRY_LAUNCH_DONE;
    }
    size_t bytes = (size_t)p->width * p->height;
    gantry_status status =
        gantry_launch_copy_dtoh(launch, p->buffers[HOST_EDGES], p->buffers[DEVICE_EDGES], bytes);
    if (status == GANTRY_OK) {
        status = gantry_launch_copy_dtoh(launch, p->buffers[HOST_RESULT], p->buffers[DEVICE_RESULT], bytes);
    }
    return result_of(p, launch, status, GANTRY_LAUNCH_DONE);
}
