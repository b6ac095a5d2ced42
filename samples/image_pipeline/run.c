/* SPDX-License-Identifier: MIT */
/* From a list of photos to a graph that has run.
 *
 * Everything the graph needs is made first (context, kernels, blur weights, workers, task manager), then
 * the graph with a pipeline per photo and round, and only then does anything run: gantry_taskman_start().
 *
 * Only --in-flight pipelines hold memory at a time.  Pipeline i waits for the end of pipeline i - N, but
 * not by a dependency, which would also hand on its failure: its decode task has one reference more, which
 * the end of the other one removes, whatever came of it. */
#include "samples/image_pipeline/run.h"

#include "cli/messages.h"
#include "cli/samples.h"
#include "kernels.kernels.h"
#include "samples/image_pipeline/gpu_stages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef TIMELINE_CTAS
#define TIMELINE_CTAS 0 /* Gantry's default; tests with a small photo have less memory to clear */
#endif

static const char *const kernel_names[KERNEL_COUNT] = {
    [KERNEL_LUMINANCE] = "luminance",       [KERNEL_BLUR_ROWS] = "blur_rows",
    [KERNEL_BLUR_COLUMNS] = "blur_columns", [KERNEL_SOBEL] = "sobel",
    [KERNEL_HISTOGRAM] = "histogram",       [KERNEL_EQUALISE_LUT] = "equalise_lut",
    [KERNEL_APPLY_LUT] = "apply_lut",       [KERNEL_COMBINE] = "combine",
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool is_ok(gantry_status status, const char *what)
{
    if (status != GANTRY_OK) {
        cli_error("image_pipeline: %s: %s", what, cli_cause(status));
    }
    return status == GANTRY_OK;
}

/* ---- what the graph needs ------------------------------------------------------------------ */

static bool open_device(struct run *run)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = run->options->driver;
    options.device = run->options->device;
    gantry_status status = gantry_context_create(&options, &run->context);
    if (status != GANTRY_OK) {
        run->exit_status = cli_not_opened("image_pipeline", status, options.device);
        return false;
    }
    run->shared.heap = gantry_context_heap(run->context);
    run->shared.from_data = run->options->from_data;
    /* Not unloaded by us: the module lives as long as the context. */
    gantry_module *module;
    if (!is_ok(gantry_module_load(run->context, &gantry_image_kernels, &module), "the kernels")) {
        return false;
    }
    for (size_t i = 0; i < KERNEL_COUNT; i++) {
        if (!is_ok(gantry_module_get_kernel(module, kernel_names[i], &run->shared.kernels[i]),
                   "the kernels")) {
            return false;
        }
    }
    return is_ok(gantry_profile_register_kernels(kernel_names, KERNEL_COUNT, &run->shared.first_profile_id),
                 "the kernels");
}

static bool make_weights(struct run *run)
{
    const size_t bytes = BLUR_WEIGHTS * sizeof(float);
    gantry_heap *heap = run->shared.heap;
    void *host;
    gantry_alloc_site site = GANTRY_ALLOC_SITE("blur weights");
    if (!is_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, bytes, 0, site, &host), "blur weights")) {
        return false;
    }
    run->shared.host_weights = host;
    reference_gaussian(REFERENCE_BLUR_SIGMA, BLUR_RADIUS, run->shared.host_weights);
    return is_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, bytes, 0, site, &run->shared.device_weights),
                 "blur weights");
}

static bool open_manager(struct run *run)
{
    gantry_cpu_dispatcher_options cpu = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    cpu.worker_count = run->options->workers;
    if (!is_ok(gantry_cpu_dispatcher_create(&cpu, &run->workers), "the worker threads")) {
        return false;
    }
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    options.cpu_dispatcher = run->workers;
    options.gpu_dispatcher = gantry_context_dispatcher(run->context);
    return is_ok(gantry_taskman_create(&options, &run->manager), "the task manager");
}

static bool start_timeline(struct run *run)
{
    const char *recorded = getenv("GANTRY_PROFILE");
    if (!run->options->timeline) {
        return true;
    }
    if (recorded != NULL && recorded[0] != '\0') {
        cli_note("image_pipeline: no timeline.pftrace: $GANTRY_PROFILE asks for the recording in %s",
                 recorded);
        return true;
    }
    if (asprintf(&run->timeline, "%s/timeline.pftrace", run->options->output) < 0) {
        run->timeline = NULL;
        cli_error("image_pipeline: out of memory");
        return false;
    }
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = run->timeline;
    options.buffers = 32; /* each batch in flight needs one, and there may be many of few photos each */
    options.ctas_per_buffer = TIMELINE_CTAS;
    return is_ok(gantry_profile_start(&options, &run->profile), "the timeline");
}

/* Page-locked memory for all that is in flight, before anything runs: the driver stops the device when it is
 * asked for more.  A photo is one block of at most B bytes.  While fewer than N have one, which leaves at
 * most N gaps, one gap of (2 N - 1) B bytes has room for another, wherever the blocks lie and however they
 * differ: (2 N - 1) B - (N - 1) B = N B.  Where that is very much, memory is taken when it is needed. */
static void reserve_memory(struct run *run)
{
    const size_t page = 4096, small_blocks = 4u << 20, most = 1u << 30;
    size_t count = run->photos->count * run->options->repeat;
    size_t in_flight = count < run->options->in_flight ? count : run->options->in_flight;
    size_t block = pipeline_bytes(MEMORY_HOST, photos_most_pixels(run->photos)) + page;
    if (block <= most / 2 / in_flight) {
        (void)!gantry_heap_reserve(run->shared.heap, GANTRY_MEMORY_PINNED,
                                   (2 * in_flight - 1) * block + small_blocks);
    }
}

/* ---- the graph ----------------------------------------------------------------------------- */

static gantry_status submit_weights(struct run *run, gantry_task **out)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_HTOD;
    desc.label = "blur weights";
    desc.launch = launch_weights;
    desc.arg = &run->shared;
    const gantry_access write = GANTRY_WRITES(&run->shared.device_weights, sizeof(void *));
    desc.accesses = &write;
    desc.access_count = run->shared.from_data;
    return gantry_taskman_submit(run->manager, &desc, out);
}

/* A later round compares with what the first one has kept, and is not begun where that one was not. */
static gantry_status follow_first_round(struct pipeline *pipeline, struct pipeline *first)
{
    gantry_status status = gantry_task_start_after(pipeline->decode, first->decode);
    return status == GANTRY_OK ? gantry_task_start_after(pipeline->encode, first->encode) : status;
}

static gantry_status add_pipeline(struct run *run, size_t number, gantry_task *weights)
{
    size_t photo_count = run->photos->count;
    struct pipeline *pipeline = &run->pipelines[number];
    pipeline->photo = &run->photos->photos[number % photo_count];
    pipeline->number = number;
    pipeline->first_round = number < photo_count;
    gantry_status status = pipeline_submit(pipeline, run->manager, weights);
    if (status == GANTRY_OK && !pipeline->first_round) {
        status = follow_first_round(pipeline, &run->pipelines[number % photo_count]);
    }
    if (status == GANTRY_OK && number >= run->options->in_flight) {
        status = gantry_task_add_reference(pipeline->decode);
        run->pipelines[number - run->options->in_flight].next = pipeline->decode;
    }
    return status;
}

static bool build_graph(struct run *run)
{
    run->pipeline_count = run->photos->count * run->options->repeat;
    run->pipelines = calloc(run->pipeline_count, sizeof(*run->pipelines));
    if (run->pipelines == NULL || !progress_init(&run->progress, run->pipeline_count)) {
        free(run->pipelines);
        run->pipelines = NULL;
        cli_error("image_pipeline: out of memory");
        return false;
    }
    for (size_t i = 0; i < run->pipeline_count; i++) {
        run->pipelines[i].shared = &run->shared; /* also those that the graph has no memory for */
    }
    gantry_task *weights;
    gantry_status status = submit_weights(run, &weights);
    for (size_t i = 0; i < run->pipeline_count && status == GANTRY_OK; i++) {
        status = add_pipeline(run, i, weights);
    }
    return is_ok(status, "the graph");
}

bool run_open(struct run *run, const struct options *options, struct photo_list *photos,
              const atomic_bool *interrupted)
{
    *run = (struct run){.options = options, .photos = photos, .exit_status = 1};
    run->shared.progress = &run->progress;
    run->shared.interrupted = interrupted;
    run->shared.keep_first = options->repeat > 1;
    if (!open_device(run) || !make_weights(run)) {
        return false;
    }
    reserve_memory(run);
    return open_manager(run) && build_graph(run) && start_timeline(run);
}

static bool dump_graph(struct run *run)
{
    const char *path = run->options->graph_file;
    if (path == NULL) {
        return true;
    }
    FILE *file = fopen(path, "w");
    bool dumped = file != NULL && gantry_taskman_dump_graph(run->manager, file) == GANTRY_OK;
    bool written = file != NULL && fclose(file) == 0 && dumped;
    if (!written) {
        cli_error("image_pipeline: %s: the graph cannot be written: %s", path,
                  file != NULL && !dumped ? gantry_last_error() : strerrordesc_np(errno));
    }
    return written;
}

static bool stop_timeline(struct run *run)
{
    run->profile_stats.struct_size = sizeof(run->profile_stats);
    gantry_status status = gantry_profile_stop(run->profile, &run->profile_stats);
    run->profile = NULL;
    return is_ok(status, "the timeline");
}

/* A failed photo fails its tasks, and mostly that has been told; anything else is ours. */
bool run_graph(struct run *run)
{
    uint64_t begin = now_ns();
    gantry_status status = gantry_taskman_start(run->manager);
    if (status == GANTRY_OK) {
        status = gantry_taskman_stop(run->manager);
    }
    run->wall_ns = now_ns() - begin;
    bool told = status != GANTRY_ERR_DEVICE_LOST && run->progress.counts[PROGRESS_FAILED] != 0 &&
                !atomic_load(&run->shared.untold);
    bool good = told || is_ok(status, "the graph");
    good = dump_graph(run) && good;
    return stop_timeline(run) && good;
}

void run_close(struct run *run)
{
    gantry_taskman_destroy(run->manager);
    gantry_cpu_dispatcher_destroy(run->workers);
    gantry_profile_stop(run->profile, NULL);
    if (run->pipelines != NULL) {
        for (size_t i = 0; i < run->pipeline_count; i++) {
            pipeline_free_buffers(&run->pipelines[i]);
        }
        free(run->pipelines);
        progress_fini(&run->progress);
    }
    if (run->context != NULL) {
        gantry_heap_free(run->shared.heap, run->shared.host_weights);
        gantry_heap_free(run->shared.heap, run->shared.device_weights);
    }
    gantry_context_destroy(run->context);
    free(run->timeline);
}
