/* SPDX-License-Identifier: MIT */
/* The fleet, memory, and launches of their own before and after the steps; graph.c has the steps. */
#include "samples/stencil/stencil.h"

#include "cli/messages.h"
#include "cli/samples.h"
#include "samples/stencil/graph.h"
#include "stencil_kernels.kernels.h"

#include <string.h>

bool stencil_ok(gantry_status status, const char *what)
{
    if (status != GANTRY_OK) {
        cli_error("stencil: %s: %s", what, cli_cause(status));
    }
    return status == GANTRY_OK;
}

gantry_dim3 stencil_blocks(const struct stencil *s, uint32_t rows)
{
    return (gantry_dim3){(s->settings.columns + STENCIL_BLOCK - 1) / STENCIL_BLOCK, rows, 1};
}

/* ---- opening ---------------------------------------------------------------------------------- */

bool stencil_open(struct stencil *s, gantry_driver_choice driver, const char *devices,
                  gantry_submission submission)
{
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_fleet_options fleet = GANTRY_FLEET_OPTIONS_INIT;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    memset(s, 0, sizeof(*s));
    context.driver = driver;
    context.submission = submission;
    fleet.devices = devices;
    fleet.context = &context;
    s->info.struct_size = sizeof(s->info);
    gantry_status status = gantry_fleet_create(&fleet, &s->fleet);
    s->exit_status = 1;
    if (status != GANTRY_OK) {
        s->exit_status = cli_not_opened("stencil", status, devices);
        return false;
    }
    manager.fleet = s->fleet;
    s->count = gantry_fleet_device_count(s->fleet);
    return stencil_ok(gantry_context_device_info(gantry_fleet_context(s->fleet, 0), &s->info), "a device") &&
           stencil_ok(gantry_taskman_create(&manager, &s->graph), "the task manager") &&
           stencil_ok(gantry_taskman_create(&manager, &s->aside), "the task manager");
}

static bool load_kernels(struct stencil_part *part)
{
    gantry_module *module; /* lives as long as the context */
    return stencil_ok(gantry_module_load(part->context, &gantry_image_stencil_kernels, &module),
                      "the kernels") &&
           stencil_ok(gantry_module_get_kernel(module, "stencil_rows", &part->rows_kernel), "a kernel") &&
           stencil_ok(gantry_module_get_kernel(module, "stencil_edges", &part->edges_kernel), "a kernel") &&
           stencil_ok(gantry_module_get_kernel(module, "stencil_fill", &part->fill_kernel), "a kernel");
}

static bool take_memory(struct stencil_part *part)
{
    const size_t row = part->stencil->settings.columns * sizeof(float);
    gantry_heap *heap = gantry_context_heap(part->context);
    void *memory;
    for (int i = 0; i < 2; i++) {
        if (!stencil_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, (part->rows + 2) * row, 0,
                                          GANTRY_ALLOC_SITE("rows"), &memory),
                        "memory for a part of the grid")) {
            return false;
        }
        part->buffers[i] = memory;
    }
    if (!stencil_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, part->rows * row, 0,
                                      GANTRY_ALLOC_SITE("result"), &memory),
                    "page-locked memory for a part of the grid")) {
        return false;
    }
    part->host = memory;
    return true;
}

bool stencil_build(struct stencil *s, const struct stencil_settings *settings)
{
    uint32_t first = 0;
    s->settings = *settings;
    for (uint32_t i = 0; i < s->count; i++) {
        struct stencil_part *part = &s->parts[i];
        part->stencil = s;
        part->context = gantry_fleet_context(s->fleet, i);
        part->above = i > 0 ? part - 1 : NULL;
        part->below = i + 1 < s->count ? part + 1 : NULL;
        part->first = first;
        part->rows = settings->rows / s->count + (i < settings->rows % s->count ? 1 : 0);
        first += part->rows;
        if (!load_kernels(part) || !take_memory(part)) {
            return false;
        }
        for (uint32_t n = 0; n < 2; n++) {
            part->steps[n] = (struct stencil_step){part, part->buffers[n], part->buffers[1 - n], 1 - n};
        }
    }
    return stencil_submit_steps(s);
}

/* ---- before and after the steps ---------------------------------------------------------------- */

static gantry_launch_result launch_fill(gantry_launch *launch, void *arg)
{
    struct stencil_part *part = arg;
    struct stencil *s = part->stencil;
    void *args[] = {&part->buffers[0], &part->buffers[1], &s->settings.columns, &part->first,
                    &s->settings.rows};
    const gantry_dim3 block = {STENCIL_BLOCK, 1, 1};
    return gantry_launch_kernel(launch, part->fill_kernel, stencil_blocks(s, part->rows + 2), block, 0,
                                args) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

/* An even number of steps ends where it began, in buffer 0. */
static gantry_launch_result launch_fetch(gantry_launch *launch, void *arg)
{
    struct stencil_part *part = arg;
    const uint32_t columns = part->stencil->settings.columns;
    return gantry_launch_copy_dtoh(launch, part->host, part->buffers[0] + columns,
                                   (size_t)part->rows * columns * sizeof(float)) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

/* A task for each part, and then a wait until the devices have done it. */
static bool run_aside(struct stencil *s, gantry_task_kind kind, gantry_launch_fn launch, const char *label)
{
    gantry_task_desc end = GANTRY_TASK_DESC_INIT;
    gantry_task *ended;
    end.kind = GANTRY_TASK_SYNC_POINT;
    gantry_status status = gantry_taskman_submit(s->aside, &end, &ended);
    for (uint32_t i = 0; i < s->count && status == GANTRY_OK; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        gantry_task *task;
        desc.kind = kind;
        desc.label = label;
        desc.launch = launch;
        desc.arg = &s->parts[i];
        desc.context = s->parts[i].context;
        status = gantry_taskman_submit(s->aside, &desc, &task);
        status = status == GANTRY_OK ? gantry_task_start_after_done(ended, task) : status;
    }
    status = status == GANTRY_OK ? gantry_taskman_start(s->aside) : status;
    status = status == GANTRY_OK ? gantry_taskman_stop(s->aside) : status;
    bool good = stencil_ok(status, label);
    return stencil_ok(gantry_taskman_reset(s->aside), label) && good;
}

bool stencil_fill(struct stencil *s)
{
    return run_aside(s, GANTRY_TASK_KERNEL, launch_fill, "fill");
}

bool stencil_run(struct stencil *s)
{
    return stencil_ok(gantry_taskman_run(s->graph, 1), "the steps");
}

bool stencil_fetch(struct stencil *s)
{
    return run_aside(s, GANTRY_TASK_DTOH, launch_fetch, "fetch");
}

bool stencil_compare(const struct stencil *s, const float *expected)
{
    const uint32_t columns = s->settings.columns;
    for (uint32_t i = 0; i < s->count; i++) {
        const struct stencil_part *part = &s->parts[i];
        const float *wanted = expected + (size_t)part->first * columns;
        const size_t cells = (size_t)part->rows * columns;
        if (memcmp(part->host, wanted, cells * sizeof(float)) == 0) {
            continue;
        }
        size_t at = 0;
        while (memcmp(&part->host[at], &wanted[at], sizeof(float)) == 0) {
            at++;
        }
        cli_error("stencil: the cell in row %zu, column %zu, on device %u of the fleet, is %.9g, not %.9g",
                  part->first + at / columns, at % columns, i, (double)part->host[at], (double)wanted[at]);
        return false;
    }
    return true;
}

void stencil_close(struct stencil *s)
{
    gantry_taskman_destroy(s->graph);
    gantry_taskman_destroy(s->aside);
    for (uint32_t i = 0; i < s->count; i++) {
        struct stencil_part *part = &s->parts[i];
        gantry_heap *heap = part->context != NULL ? gantry_context_heap(part->context) : NULL;
        void *const blocks[] = {part->buffers[0], part->buffers[1], part->host};
        for (size_t b = 0; b < sizeof(blocks) / sizeof(blocks[0]); b++) {
            if (blocks[b] != NULL) {
                (void)gantry_heap_free(heap, blocks[b]);
            }
        }
    }
    gantry_fleet_destroy(s->fleet);
}
