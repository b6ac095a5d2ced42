/* SPDX-License-Identifier: MIT */
#include "samples/image_pipeline/pipeline.h"

#include "cli/samples.h"
#include "samples/image_pipeline/gpu_stages.h"
#include "samples/image_pipeline/png_io.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void pipeline_report_failure(struct pipeline *pipeline, const char *format, ...)
{
    if (atomic_exchange(&pipeline->photo->failed, true)) {
        return;
    }
    char reason[512];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    progress_report("%s: %s", pipeline->photo->path, reason);
}

/* ---- memory -------------------------------------------------------------------------------- */

/* Size of each buffer: so many bytes per pixel, or fixed.  Those of a kind lie in one block. */
static const struct {
    enum memory_id memory;
    uint32_t bytes_per_pixel;
    uint32_t fixed_bytes;
} layout[BUFFER_COUNT] = {
    [HOST_RGB] = {MEMORY_HOST, 3, 0},
    [HOST_EDGES] = {MEMORY_HOST, 1, 0},
    [HOST_RESULT] = {MEMORY_HOST, 1, 0},
    [DEVICE_RGB] = {MEMORY_DEVICE, 3, 0},
    [DEVICE_LUMA] = {MEMORY_DEVICE, 1, 0},
    [DEVICE_BLURRED_ROWS] = {MEMORY_DEVICE, 1, 0},
    [DEVICE_BLURRED] = {MEMORY_DEVICE, 1, 0},
    [DEVICE_EDGES] = {MEMORY_DEVICE, 1, 0},
    [DEVICE_BINS] = {MEMORY_DEVICE, 0, 256 * sizeof(uint32_t)},
    [DEVICE_LUT] = {MEMORY_DEVICE, 0, 256},
    [DEVICE_EQUALISED] = {MEMORY_DEVICE, 1, 0},
    [DEVICE_RESULT] = {MEMORY_DEVICE, 1, 0},
};

static size_t buffer_bytes(size_t buffer, uint64_t pixels)
{
    const size_t alignment = 256;
    size_t bytes = (size_t)pixels * layout[buffer].bytes_per_pixel + layout[buffer].fixed_bytes;
    return (bytes + alignment - 1) / alignment * alignment;
}

size_t pipeline_bytes(enum memory_id memory, uint64_t pixels)
{
    size_t bytes = 0;
    for (size_t i = 0; i < BUFFER_COUNT; i++) {
        bytes += layout[i].memory == memory ? buffer_bytes(i, pixels) : 0;
    }
    return bytes;
}

void pipeline_free_buffers(struct pipeline *pipeline)
{
    for (int i = 0; i < MEMORY_COUNT; i++) {
        gantry_heap_free(pipeline->shared->heap, pipeline->memory[i]);
        pipeline->memory[i] = NULL;
    }
}

/* What was taken before a failure is given back when the pipeline ends. */
static gantry_status alloc_buffers(struct pipeline *p)
{
    static const gantry_memory_kind kinds[MEMORY_COUNT] = {GANTRY_MEMORY_PINNED, GANTRY_MEMORY_DEVICE};
    uint64_t pixels = (uint64_t)p->width * p->height;
    for (int i = 0; i < MEMORY_COUNT; i++) {
        gantry_status status =
            gantry_heap_alloc(p->shared->heap, kinds[i], pipeline_bytes((enum memory_id)i, pixels), 0,
                              GANTRY_ALLOC_SITE("photo"), &p->memory[i]);
        if (status != GANTRY_OK) {
            pipeline_report_failure(p, "no memory for its %u x %u pixels: %s", p->width, p->height,
                                    cli_cause(status));
            return status;
        }
    }
    size_t offsets[MEMORY_COUNT] = {0};
    for (size_t i = 0; i < BUFFER_COUNT; i++) {
        enum memory_id memory = layout[i].memory;
        p->buffers[i] = (unsigned char *)p->memory[memory] + offsets[memory];
        offsets[memory] += buffer_bytes(i, pixels);
    }
    return GANTRY_OK;
}

/* ---- decode: the first task ---------------------------------------------------------------- */

static gantry_status decode_opened(struct pipeline *p, struct image_reader *reader)
{
    char error[IMAGE_ERROR_BYTES];
    p->width = image_reader_width(reader);
    p->height = image_reader_height(reader);
    gantry_status status = alloc_buffers(p);
    if (status != GANTRY_OK) {
        return status;
    }
    if (!image_reader_read(reader, p->buffers[HOST_RGB], error)) {
        pipeline_report_failure(p, "%s", error);
        return GANTRY_ERR_IO;
    }
    atomic_fetch_add(&p->shared->pixels, (uint64_t)p->width * p->height);
    return GANTRY_OK;
}

/* Straight into page-locked memory, which the device copies from. */
static gantry_status decode(gantry_task *task, void *arg)
{
    (void)task;
    struct pipeline *p = arg;
    /* Nothing is wrong with a photo that is not begun because of an interrupt, and what was wrong with one
     * in an earlier round has been told: its tasks do nothing, and do not fail. */
    p->idle = atomic_load(p->shared->interrupted) || atomic_load(&p->photo->failed);
    if (p->idle) {
        return GANTRY_OK;
    }
    uint64_t begin = now_ns();
    struct image_reader *reader;
    char error[IMAGE_ERROR_BYTES];
    if (!image_reader_open(p->photo->path, &reader, error)) {
        pipeline_report_failure(p, "%s", error);
        return GANTRY_ERR_IO;
    }
    gantry_status status = decode_opened(p, reader);
    image_reader_close(reader);
    atomic_fetch_add(&p->shared->decode_ns, now_ns() - begin);
    return status;
}

/* ---- encode: the last task ----------------------------------------------------------------- */

static gantry_status keep_first(struct pipeline *p)
{
    size_t bytes = (size_t)p->width * p->height;
    p->photo->first = malloc(2 * bytes);
    if (p->photo->first == NULL) {
        pipeline_report_failure(p, "no memory to keep the first round's result");
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    p->photo->first_bytes = bytes;
    memcpy(p->photo->first, p->buffers[HOST_EDGES], bytes);
    memcpy(p->photo->first + bytes, p->buffers[HOST_RESULT], bytes);
    return GANTRY_OK;
}

static gantry_status write_results(struct pipeline *p)
{
    char error[IMAGE_ERROR_BYTES];
    if (!image_write_gray(p->photo->edges_path, p->buffers[HOST_EDGES], p->width, p->height, error)) {
        pipeline_report_failure(p, "%s: %s", p->photo->edges_path, error);
        return GANTRY_ERR_IO;
    }
    if (!image_write_gray(p->photo->result_path, p->buffers[HOST_RESULT], p->width, p->height, error)) {
        pipeline_report_failure(p, "%s: %s", p->photo->result_path, error);
        return GANTRY_ERR_IO;
    }
    return p->shared->keep_first ? keep_first(p) : GANTRY_OK;
}

static gantry_status compare_with_first(struct pipeline *p)
{
    size_t bytes = (size_t)p->width * p->height;
    const struct photo *photo = p->photo;
    if (bytes != photo->first_bytes || memcmp(p->buffers[HOST_EDGES], photo->first, bytes) != 0 ||
        memcmp(p->buffers[HOST_RESULT], photo->first + bytes, bytes) != 0) {
        pipeline_report_failure(p, "a later round's result differs from the first round's");
        return GANTRY_ERR_TASK_FAILED;
    }
    atomic_fetch_add(&p->shared->verified, 1);
    return GANTRY_OK;
}

static gantry_status encode(gantry_task *task, void *arg)
{
    (void)task;
    struct pipeline *p = arg;
    if (p->idle) {
        return GANTRY_OK;
    }
    uint64_t begin = now_ns();
    gantry_status status = p->first_round ? write_results(p) : compare_with_first(p);
    atomic_fetch_add(&p->shared->encode_ns, now_ns() - begin);
    return status;
}

static enum progress_outcome outcome_of(const struct pipeline *p, gantry_status result)
{
    if (result != GANTRY_OK) {
        return PROGRESS_FAILED;
    }
    if (p->idle) {
        return atomic_load(&p->photo->failed) ? PROGRESS_FAILED : PROGRESS_SKIPPED;
    }
    return PROGRESS_DONE;
}

/* Encode's release callback: called once, also when something before it failed and it never ran. */
static void end_pipeline(gantry_task *task, void *arg, gantry_status result)
{
    (void)task;
    struct pipeline *p = arg;
    if (result != GANTRY_OK) {
        if (!atomic_load(&p->photo->failed)) {
            atomic_store(&p->shared->untold, true);
        }
        pipeline_report_failure(p, "%s", gantry_status_text(result)); /* unless the cause has been told */
    }
    /* When a later GPU task could not be launched, the device may still be at work on what was launched
     * before, and nobody waits for that: the memory then stays taken until the whole run is over. */
    if (result == GANTRY_OK || !p->on_device) {
        pipeline_free_buffers(p);
    }
    progress_advance(p->shared->progress, outcome_of(p, result));
    if (p->next != NULL) {
        gantry_task_remove_reference(p->next);
    }
}

/* ---- the graph ----------------------------------------------------------------------------- */

enum stage_id { DECODE, UPLOAD, LUMINANCE, EDGES, BLUR, EQUALISE, COMBINE, DOWNLOAD, ENCODE, STAGE_COUNT };

static const struct {
    const char *label;
    gantry_task_kind kind;
    gantry_task_fn run;
    gantry_launch_fn launch;
    gantry_task_release_fn release;
} stages[STAGE_COUNT] = {
    [DECODE] = {"decode", GANTRY_TASK_CPU, decode, NULL, NULL},
    [UPLOAD] = {"upload", GANTRY_TASK_HTOD, NULL, launch_upload, NULL},
    [LUMINANCE] = {"luminance", GANTRY_TASK_KERNEL, NULL, launch_luminance, NULL},
    [EDGES] = {"edges", GANTRY_TASK_KERNEL, NULL, launch_edges, NULL},
    [BLUR] = {"blur", GANTRY_TASK_KERNEL, NULL, launch_blur, NULL},
    [EQUALISE] = {"equalise", GANTRY_TASK_KERNEL, NULL, launch_equalise, NULL},
    [COMBINE] = {"combine", GANTRY_TASK_KERNEL, NULL, launch_combine, NULL},
    [DOWNLOAD] = {"download", GANTRY_TASK_DTOH, NULL, launch_download, NULL},
    [ENCODE] = {"encode", GANTRY_TASK_CPU, encode, NULL, end_pipeline},
};

static const struct {
    enum stage_id first, then;
} dependencies[] = {
    {DECODE, UPLOAD}, {UPLOAD, LUMINANCE}, {LUMINANCE, EDGES}, {LUMINANCE, BLUR},
    {BLUR, EQUALISE}, {EQUALISE, COMBINE}, {EDGES, COMBINE},   {COMBINE, DOWNLOAD},
};

#define BIT(buffer) (1u << (buffer))
/* The same from data: which buffers a stage reads and writes.  The size of a photo, and so the address of a
 * buffer, is known when it was decoded; the pointer to the buffer stands for what it points to. */
static const struct {
    uint32_t reads, writes;
} data[STAGE_COUNT] = {
    [DECODE] = {0, BIT(HOST_RGB)},
    [UPLOAD] = {BIT(HOST_RGB), BIT(DEVICE_RGB)},
    [LUMINANCE] = {BIT(DEVICE_RGB), BIT(DEVICE_LUMA)},
    [EDGES] = {BIT(DEVICE_LUMA), BIT(DEVICE_EDGES)},
    [BLUR] = {BIT(DEVICE_LUMA), BIT(DEVICE_BLURRED_ROWS) | BIT(DEVICE_BLURRED)},
    [EQUALISE] = {BIT(DEVICE_BLURRED), BIT(DEVICE_BINS) | BIT(DEVICE_LUT) | BIT(DEVICE_EQUALISED)},
    [COMBINE] = {BIT(DEVICE_EQUALISED) | BIT(DEVICE_EDGES), BIT(DEVICE_RESULT)},
    [DOWNLOAD] = {BIT(DEVICE_RESULT) | BIT(DEVICE_EDGES), BIT(HOST_EDGES) | BIT(HOST_RESULT)},
    [ENCODE] = {BIT(HOST_EDGES) | BIT(HOST_RESULT), 0},
};

/* Returns how many accesses a stage has. */
static uint32_t list_accesses(struct pipeline *p, size_t stage, gantry_access list[BUFFER_COUNT + 1])
{
    uint32_t count = 0;
    for (int b = BUFFER_COUNT - 1; b >= 0; b--) {
        const bool reads = (data[stage].reads & BIT(b)) != 0;
        if (reads || (data[stage].writes & BIT(b)) != 0) {
            list[count++] = (gantry_access){
                &p->buffers[b], sizeof(void *), 1, 0, reads ? GANTRY_ACCESS_READ : GANTRY_ACCESS_WRITE, 0};
        }
    }
    if (stage == BLUR) {
        list[count++] = (gantry_access)GANTRY_READS(&p->shared->device_weights, sizeof(void *));
    }
    return count;
}

static gantry_status order_by_hand(gantry_task *const tasks[STAGE_COUNT], gantry_task *weights)
{
    gantry_status status = gantry_task_start_after_done(tasks[ENCODE], tasks[DOWNLOAD]); /* it reads that */
    for (size_t i = 0; i < sizeof(dependencies) / sizeof(dependencies[0]) && status == GANTRY_OK; i++) {
        status = gantry_task_start_after(tasks[dependencies[i].then], tasks[dependencies[i].first]);
    }
    return status == GANTRY_OK ? gantry_task_start_after(tasks[BLUR], weights) : status;
}

gantry_status pipeline_submit(struct pipeline *pipeline, gantry_taskman *manager, gantry_task *weights)
{
    gantry_task *tasks[STAGE_COUNT];
    gantry_status status = GANTRY_OK;
    for (size_t i = 0; i < STAGE_COUNT && status == GANTRY_OK; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.kind = stages[i].kind;
        desc.label = stages[i].label;
        desc.run = stages[i].run;
        desc.launch = stages[i].launch;
        desc.release = stages[i].release;
        desc.arg = pipeline;
        desc.context_id = pipeline->number;
        gantry_access accesses[BUFFER_COUNT + 1];
        desc.accesses = accesses;
        desc.access_count = pipeline->shared->from_data ? list_accesses(pipeline, i, accesses) : 0;
        status = gantry_taskman_submit(manager, &desc, &tasks[i]);
    }
    if (status == GANTRY_OK && !pipeline->shared->from_data) {
        status = order_by_hand(tasks, weights);
    }
    if (status == GANTRY_OK) {
        pipeline->decode = tasks[DECODE];
        pipeline->encode = tasks[ENCODE];
    }
    return status;
}
