/* SPDX-License-Identifier: MIT */
#include "samples/tile_cholesky/dense.h"

#include <string.h>
#include <time.h>

struct dense {
    struct cholesky *cholesky;
    struct cholesky_device *device;
    struct cholesky_library library;
    void *matrix;     /* size x size floats, column by column */
    void *column;     /* page-locked: `tile` columns of it */
    uint32_t fetched; /* the column of tiles to be fetched */
    void *workspace, *info;
};

static gantry_launch_result launched(bool good)
{
    return good ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_fill(gantry_launch *launch, void *arg)
{
    struct dense *d = arg;
    uint32_t n = d->cholesky->settings.size, tile = d->cholesky->settings.tile;
    float diagonal = cholesky_diagonal(n);
    bool good = true;
    for (uint32_t column = 0; column < n && good; column += tile) {
        uint32_t row = 0;
        float *to = (float *)d->matrix + (size_t)column * n;
        void *args[] = {&to, &n, &n, &row, &column, &diagonal};
        const gantry_dim3 grid = {(n + 255) / 256, tile, 1}, block = {256, 1, 1};
        good = gantry_launch_kernel(launch, d->device->kernels[CHOLESKY_FILL], grid, block, 0, args) ==
               GANTRY_OK;
    }
    return launched(good);
}

static gantry_launch_result launch_factor(gantry_launch *launch, void *arg)
{
    struct dense *d = arg;
    void *stream = gantry_launch_stream(launch);
    return launched(stream != NULL &&
                    cholesky_library_factor(&d->library, stream, d->matrix, d->cholesky->settings.size));
}

static gantry_launch_result launch_fetch(gantry_launch *launch, void *arg)
{
    struct dense *d = arg;
    const size_t n = d->cholesky->settings.size, tile = d->cholesky->settings.tile;
    return launched(gantry_launch_copy_dtoh(launch, d->column, (float *)d->matrix + d->fetched * tile * n,
                                            tile * n * sizeof(float)) == GANTRY_OK);
}

/* One task, until the device has done it. */
static bool run_alone(struct dense *d, gantry_task_kind kind, gantry_launch_fn launch, const char *label)
{
    gantry_taskman *manager = d->cholesky->aside;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT, end = GANTRY_TASK_DESC_INIT;
    gantry_task *task, *ended;
    desc.kind = kind;
    desc.label = label;
    desc.launch = launch;
    desc.arg = d;
    desc.context = d->device->context;
    end.kind = GANTRY_TASK_SYNC_POINT;
    gantry_status status = gantry_taskman_submit(manager, &desc, &task);
    status = status == GANTRY_OK ? gantry_taskman_submit(manager, &end, &ended) : status;
    status = status == GANTRY_OK ? gantry_task_start_after_done(ended, task) : status;
    status = status == GANTRY_OK ? gantry_taskman_start(manager) : status;
    status = status == GANTRY_OK ? gantry_taskman_stop(manager) : status;
    bool good = cholesky_ok(status, label);
    return cholesky_ok(gantry_taskman_reset(manager), label) && good;
}

static bool check_result(struct dense *d, struct check *check, struct check_result *out)
{
    const uint32_t n = d->cholesky->settings.size, tile = d->cholesky->settings.tile;
    bool good = true;
    check_begin(check);
    for (d->fetched = 0; d->fetched < n / tile && good; d->fetched++) {
        const uint32_t k = d->fetched;
        good = run_alone(d, GANTRY_TASK_DTOH, launch_fetch, "fetch") &&
               check_column(check, k, (const float *)d->column + (size_t)k * tile, tile, n);
    }
    return good && check_end(check, out);
}

static bool take(struct dense *d, gantry_memory_kind kind, size_t bytes, void **out)
{
    return cholesky_ok(gantry_heap_alloc(gantry_context_heap(d->device->context), kind, bytes, 0,
                                         GANTRY_ALLOC_SITE("yardstick"), out),
                       "memory for the yardstick");
}

static bool open_dense(struct dense *d)
{
    const size_t n = d->cholesky->settings.size, tile = d->cholesky->settings.tile;
    size_t floats = 0;
    if (!cholesky_ok(gantry_context_acquire(d->device->context), "the context")) {
        return false;
    }
    bool good = cholesky_library_open(&d->library, (uint32_t)n, &floats);
    good = cholesky_ok(gantry_context_release(d->device->context), "the context") && good;
    good = good && take(d, GANTRY_MEMORY_DEVICE, n * n * sizeof(float), &d->matrix) &&
           take(d, GANTRY_MEMORY_PINNED, n * tile * sizeof(float), &d->column) &&
           take(d, GANTRY_MEMORY_DEVICE, (floats + 1) * sizeof(float), &d->workspace) &&
           take(d, GANTRY_MEMORY_DEVICE, sizeof(int), &d->info);
    d->library.workspace = d->workspace;
    d->library.info = d->info;
    return good;
}

static void close_dense(struct dense *d)
{
    void *const blocks[] = {d->matrix, d->column, d->workspace, d->info};
    if (gantry_context_acquire(d->device->context) == GANTRY_OK) {
        cholesky_library_close(&d->library);
        (void)gantry_context_release(d->device->context);
    }
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        if (blocks[i] != NULL) {
            (void)gantry_heap_free(gantry_context_heap(d->device->context), blocks[i]);
        }
    }
}

bool cholesky_time_dense(struct cholesky *c, struct check *check, uint32_t runs, double *ms,
                         struct check_result *out)
{
    struct dense d;
    memset(&d, 0, sizeof(d));
    d.cholesky = c;
    d.device = &c->devices[0];
    bool good = open_dense(&d);
    for (uint32_t i = 0; i <= runs && good; i++) { /* the first one warms up */
        struct timespec begin, end;
        good = run_alone(&d, GANTRY_TASK_KERNEL, launch_fill, "fill");
        clock_gettime(CLOCK_MONOTONIC, &begin);
        good = good && run_alone(&d, GANTRY_TASK_KERNEL, launch_factor, "cusolverDnSpotrf");
        clock_gettime(CLOCK_MONOTONIC, &end);
        ms[i > 0 ? i - 1 : 0] =
            (double)(end.tv_sec - begin.tv_sec) * 1e3 + (double)(end.tv_nsec - begin.tv_nsec) / 1e6;
        good = good && (i != 0 && i != runs ? true : check_result(&d, check, out));
    }
    close_dense(&d);
    return good;
}
