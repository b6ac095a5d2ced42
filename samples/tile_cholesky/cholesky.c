/* SPDX-License-Identifier: MIT */
/* The fleet, the tiles' memory, and tasks of their own before and after the graph. */
#include "samples/tile_cholesky/cholesky.h"

#include "cholesky_kernels.kernels.h"
#include "cli/messages.h"
#include "cli/samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const kernel_names[CHOLESKY_KERNELS] = {
    [CHOLESKY_FILL] = "cholesky_fill",           [CHOLESKY_FACTOR] = "cholesky_factor",
    [CHOLESKY_SOLVE] = "cholesky_solve",         [CHOLESKY_SOLVE_64] = "cholesky_solve_64",
    [CHOLESKY_UPDATE_64] = "cholesky_update_64", [CHOLESKY_UPDATE_128] = "cholesky_update_128",
};

bool cholesky_ok(gantry_status status, const char *what)
{
    if (status != GANTRY_OK) {
        cli_error("tile_cholesky: %s: %s", what, cli_cause(status));
    }
    return status == GANTRY_OK;
}

float cholesky_diagonal(uint32_t size)
{
    return (float)(2 * sqrt((double)size) + 2);
}

static size_t tile_bytes(const struct cholesky *c)
{
    return (size_t)c->settings.tile * c->settings.tile * sizeof(float);
}

/* ---- the fleet ----------------------------------------------------------------------------------- */

static bool load_kernels(struct cholesky_device *device)
{
    gantry_module *module; /* lives as long as the context */
    bool good = cholesky_ok(gantry_module_load(device->context, &gantry_image_cholesky_kernels, &module),
                            "the kernels");
    for (int i = 0; i < CHOLESKY_KERNELS && good; i++) {
        good = cholesky_ok(gantry_module_get_kernel(module, kernel_names[i], &device->kernels[i]),
                           kernel_names[i]);
    }
    return good;
}

bool cholesky_open(struct cholesky *c, const struct cholesky_settings *settings)
{
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_fleet_options fleet = GANTRY_FLEET_OPTIONS_INIT;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    const char *why;
    memset(c, 0, sizeof(*c));
    c->settings = *settings;
    context.driver = settings->driver;
    context.submission = settings->submission;
    fleet.devices = settings->devices;
    fleet.context = &context;
    c->info.struct_size = sizeof(c->info);
    gantry_status status = gantry_fleet_create(&fleet, &c->fleet);
    c->exit_status = 1;
    if (status != GANTRY_OK) {
        c->exit_status = cli_not_opened("tile_cholesky", status, settings->devices);
        return false;
    }
    manager.fleet = c->fleet;
    c->fleet_count = gantry_fleet_device_count(c->fleet);
    bool good =
        cholesky_ok(gantry_context_device_info(gantry_fleet_context(c->fleet, 0), &c->info), "a device") &&
        cholesky_ok(gantry_taskman_create(&manager, &c->graph), "the task manager") &&
        cholesky_ok(gantry_taskman_create(&manager, &c->aside), "the task manager");
    for (uint32_t i = 0; i < c->fleet_count && good; i++) {
        c->devices[i].context = gantry_fleet_context(c->fleet, i);
        good = load_kernels(&c->devices[i]);
    }
    c->has_library = good && !c->info.emulated && cholesky_library_find(&why);
    return good;
}

/* ---- tiles ---------------------------------------------------------------------------------------- */

/* The devices are a rectangle as near to a square as their number allows. */
static void choose_rectangle(struct cholesky *c, uint32_t count)
{
    c->count = count;
    c->down = 1;
    for (uint32_t d = 2; d * d <= count; d++) {
        c->down = count % d == 0 ? d : c->down;
    }
    c->across = count / c->down;
}

static bool take(struct cholesky_device *device, gantry_memory_kind kind, size_t bytes, const char *what,
                 float **out)
{
    void *memory = NULL;
    bool good = cholesky_ok(gantry_heap_alloc(gantry_context_heap(device->context), kind, bytes, 0,
                                              GANTRY_ALLOC_SITE("tiles"), &memory),
                            what);
    *out = memory;
    return good;
}

static bool place_tiles(struct cholesky *c)
{
    uint32_t next[GANTRY_FLEET_DEVICES_MAX] = {0};
    c->tiles = calloc((size_t)c->side * c->side, sizeof(*c->tiles));
    if (c->tiles == NULL) {
        cli_error("tile_cholesky: out of memory");
        return false;
    }
    for (uint32_t i = 0; i < c->side; i++) {
        for (uint32_t j = 0; j <= i; j++) {
            struct cholesky_tile *tile = cholesky_tile_at(c, i, j);
            tile->device = i % c->down * c->across + j % c->across;
            c->devices[tile->device].tile_count++;
        }
    }
    for (uint32_t d = 0; d < c->count; d++) {
        struct cholesky_device *device = &c->devices[d];
        if ((device->tile_count > 0 && !take(device, GANTRY_MEMORY_DEVICE, device->tile_count * tile_bytes(c),
                                             "memory for a device's tiles", &device->tiles)) ||
            (c->count > 1 && !take(device, GANTRY_MEMORY_DEVICE, c->settings.cache * tile_bytes(c),
                                   "memory for copies of tiles", &device->cache))) {
            return false;
        }
    }
    for (size_t t = 0; t < (size_t)c->side * c->side; t++) {
        struct cholesky_tile *tile = &c->tiles[t];
        if (t / c->side >= t % c->side) {
            tile->memory = c->devices[tile->device].tiles +
                           next[tile->device]++ * (size_t)c->settings.tile * c->settings.tile;
        }
    }
    return take(&c->devices[0], GANTRY_MEMORY_PINNED, c->side * tile_bytes(c),
                "page-locked memory for a column of tiles", &c->column);
}

/* Handles are made with the device's context current. */
static bool open_library(struct cholesky *c, struct cholesky_device *device)
{
    size_t floats = 0;
    float *info = NULL;
    if (!cholesky_ok(gantry_context_acquire(device->context), "the context")) {
        return false;
    }
    bool good = cholesky_library_open(&device->library, c->settings.tile, &floats);
    good = cholesky_ok(gantry_context_release(device->context), "the context") && good;
    good = good && take(device, GANTRY_MEMORY_DEVICE, sizeof(int), "memory for cuSOLVER", &info) &&
           take(device, GANTRY_MEMORY_DEVICE, (floats + 1) * sizeof(float), "memory for cuSOLVER",
                &device->library.workspace);
    device->library.info = (int *)(void *)info;
    return good;
}

bool cholesky_build(struct cholesky *c, uint32_t count, bool uses_library)
{
    c->side = c->settings.size / c->settings.tile;
    c->uses_library = uses_library;
    choose_rectangle(c, count);
    bool good = place_tiles(c);
    for (uint32_t i = 0; i < count && good && uses_library; i++) {
        good = open_library(c, &c->devices[i]);
    }
    return good && cholesky_submit(c);
}

static void give_back(struct cholesky_device *device, void *memory)
{
    if (memory != NULL) {
        (void)gantry_heap_free(gantry_context_heap(device->context), memory);
    }
}

static void clear_device(struct cholesky_device *device)
{
    float *workspace = device->library.workspace;
    int *info = device->library.info;
    if (gantry_context_acquire(device->context) == GANTRY_OK) {
        cholesky_library_close(&device->library);
        (void)gantry_context_release(device->context);
    }
    give_back(device, workspace);
    give_back(device, info);
    give_back(device, device->tiles);
    give_back(device, device->cache);
    device->tiles = device->cache = NULL;
    device->tile_count = 0;
}

void cholesky_clear(struct cholesky *c)
{
    if (c->graph != NULL) {
        (void)!gantry_taskman_reset(c->graph);
    }
    cholesky_free_works(c);
    for (uint32_t i = 0; i < c->count; i++) {
        clear_device(&c->devices[i]);
    }
    if (c->column != NULL) {
        give_back(&c->devices[0], c->column);
    }
    free(c->tiles);
    c->column = NULL;
    c->tiles = NULL;
    c->count = 0;
}

void cholesky_close(struct cholesky *c)
{
    cholesky_clear(c);
    gantry_taskman_destroy(c->graph);
    gantry_taskman_destroy(c->aside);
    gantry_fleet_destroy(c->fleet);
}

/* ---- before and after the graph -------------------------------------------------------------------- */

/* A task for a tile. */
struct errand {
    struct cholesky *cholesky;
    const struct cholesky_tile *tile;
    uint32_t row, column;
};

static gantry_launch_result launch_fill(gantry_launch *launch, void *arg)
{
    struct errand *errand = arg;
    const struct cholesky *c = errand->cholesky;
    uint32_t side = c->settings.tile, row = errand->row * side, column = errand->column * side;
    float *to = errand->tile->memory, diagonal = cholesky_diagonal(c->settings.size);
    void *args[] = {&to, &side, &side, &row, &column, &diagonal};
    const gantry_dim3 grid = {(side + 255) / 256, side, 1}, block = {256, 1, 1};
    return gantry_launch_kernel(launch, c->devices[errand->tile->device].kernels[CHOLESKY_FILL], grid, block,
                                0, args) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_fetch(gantry_launch *launch, void *arg)
{
    struct errand *errand = arg;
    struct cholesky *c = errand->cholesky;
    const size_t bytes = tile_bytes(c);
    float *to = c->column + (errand->row - errand->column) * bytes / sizeof(float);
    return gantry_launch_copy_dtoh(launch, to, errand->tile->memory, bytes) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

/* A task for each tile of a column, and then a wait until the devices have done them. */
static bool visit_column(struct cholesky *c, uint32_t column, gantry_task_kind kind, gantry_launch_fn launch,
                         const char *label)
{
    gantry_task_desc end = GANTRY_TASK_DESC_INIT;
    gantry_task *ended, *task;
    struct errand *errands = calloc(c->side, sizeof(*errands));
    end.kind = GANTRY_TASK_SYNC_POINT;
    gantry_status status =
        errands != NULL ? gantry_taskman_submit(c->aside, &end, &ended) : GANTRY_ERR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = column; i < c->side && status == GANTRY_OK; i++) {
        const struct cholesky_tile *tile = cholesky_tile_at(c, i, column);
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        errands[i] = (struct errand){c, tile, i, column};
        desc.kind = kind;
        desc.label = label;
        desc.launch = launch;
        desc.arg = &errands[i];
        desc.context = c->devices[tile->device].context;
        status = gantry_taskman_submit(c->aside, &desc, &task);
        status = status == GANTRY_OK ? gantry_task_start_after_done(ended, task) : status;
    }
    status = status == GANTRY_OK ? gantry_taskman_start(c->aside) : status;
    status = status == GANTRY_OK ? gantry_taskman_stop(c->aside) : status;
    bool good = cholesky_ok(status, label);
    good = cholesky_ok(gantry_taskman_reset(c->aside), label) && good;
    free(errands);
    return good;
}

bool cholesky_fill(struct cholesky *c)
{
    bool good = true;
    for (uint32_t k = 0; k < c->side && good; k++) {
        good = visit_column(c, k, GANTRY_TASK_KERNEL, launch_fill, "fill");
    }
    return good;
}

bool cholesky_factor(struct cholesky *c)
{
    return cholesky_ok(gantry_taskman_run(c->graph, 1), "the factorisation");
}

bool cholesky_fetch(struct cholesky *c, uint32_t k)
{
    return visit_column(c, k, GANTRY_TASK_DTOH, launch_fetch, "fetch");
}
