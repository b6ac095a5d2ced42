/* SPDX-License-Identifier: MIT */
#include "bench/ways_work.h"

#include "base/clock.h"
#include "critical_kernels.kernels.h"
#include "submit_kernels.kernels.h"

#include <string.h>

enum { LONG_NS = 20000, UNEVEN_NS = 200000, UNEVEN_SHORT_NS = 2000, UNEVEN_CHAIN = 5, LOAD_EVERY = 4 };
enum { MIXED_CHAIN = 3, LONG_ROWS = 4, SMALL_SMS = 16 };
enum { SOME_CHAINS = 6, FEWEST_CHAINS = 2 };

/* ---- the kernels of a list ------------------------------------------------------------------------ */

static gantry_launch_result launch_listed(gantry_launch *launch, void *arg)
{
    struct ways_kernel *k = arg;
    void *args[] = {&k->cell, &k->ns};
    const gantry_dim3 one = {1, 1, 1}, warp = {32, 1, 1};
    gantry_kernel *kernel = k->ns != 0 ? k->scene->timed : k->scene->work.kernel;
    return gantry_launch_kernel(launch, kernel, one, warp, 0, args) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                                 : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result launch_raw(gantry_launch *launch, void *arg)
{
    struct ways_kernel *k = arg;
    const struct submit_work *work = &k->scene->work;
    void *args[] = {&k->cell};
    CUstream stream = k->scene->row->kind == WAYS_CAPTURABLE ? gantry_launch_capture_stream(launch)
                                                             : gantry_launch_stream(launch);
    return stream != NULL &&
                   RAW(&work->cuda, cuLaunchKernel(work->function, 1, 1, 1, 32, 1, 1, 0, stream, args, NULL))
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_status pass(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

struct ways_place {
    gantry_taskman *manager;
    gantry_partition *partition;
    uint32_t cell;
    uint64_t ns;
};

/* One more kernel of the step. */
static gantry_task *add_kernel(struct ways_scene *scene, const struct ways_place *place)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    struct ways_kernel *k = &scene->listed[scene->count++];
    gantry_task *task = NULL;
    *k = (struct ways_kernel){scene, scene->work.cell[place->cell], place->ns};
    scene->expected[place->cell]++;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.label = "increment";
    desc.launch = bench_ways_is_raw(scene->row) ? launch_raw : launch_listed;
    desc.arg = k;
    desc.partition = place->partition;
    return bench_submit_ok(gantry_taskman_submit(place->manager, &desc, &task)) ? task : NULL;
}

/* A CPU task behind the end of `before`'s work. */
static gantry_task *add_host(struct ways_scene *scene, gantry_task *before)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task = NULL;
    desc.kind = GANTRY_TASK_CPU;
    desc.label = "look";
    desc.run = pass;
    return before != NULL && bench_submit_ok(gantry_taskman_submit(scene->work.manager, &desc, &task)) &&
                   bench_submit_ok(gantry_task_start_after_done(task, before))
               ? task
               : NULL;
}

static bool follows(gantry_task *task, gantry_task *before)
{
    return task != NULL && (before == NULL || bench_submit_ok(gantry_task_start_after(task, before)));
}

/* ---- the steps ------------------------------------------------------------------------------------ */

/* A chain of kernels in one cell, with a CPU task behind each; `last` is the one behind the last kernel. */
static bool build_chain(struct ways_scene *scene, const struct ways_place *place, uint32_t kernels,
                        gantry_task **last)
{
    gantry_task *host = NULL;
    for (uint32_t i = 0; i < kernels; i++) {
        gantry_task *task = add_kernel(scene, place);
        if (!follows(task, host) || (host = add_host(scene, task)) == NULL) {
            return false;
        }
    }
    *last = host;
    return true;
}

/* Kernels in PIPELINES chains from cell `first` on, behind `before`. */
static bool build_wide(struct ways_scene *scene, const struct ways_place *like, uint32_t kernels,
                       gantry_task *before)
{
    gantry_task *latest[PIPELINES];
    const bool is_planned = scene->row->kind == WAYS_PARTITIONS;
    struct ways_place place = *like;
    bool good = true;
    for (uint32_t p = 0; p < PIPELINES; p++) {
        latest[p] = before;
    }
    for (uint32_t i = 0; i < kernels && good; i++) {
        const uint32_t p = i % PIPELINES;
        place.cell = like->cell + p;
        place.partition = is_planned ? gantry_partition_at(scene->work.context, p % 2) : NULL;
        gantry_task *task = add_kernel(scene, &place);
        good = follows(task, latest[p]);
        latest[p] = task;
        if (good && scene->row->kind == WAYS_LONG && i / PIPELINES % LONG_ROWS == LONG_ROWS - 1) {
            good = (latest[p] = add_host(scene, task)) != NULL;
        }
    }
    return good;
}

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33) % below;
}

/* The chains of a step, in the order in which they begin; returns their number. */
static uint32_t draw_chains(uint32_t step, uint32_t chains[static SOME_CHAINS])
{
    uint64_t seed = step;
    (void)draw(&seed, 1);
    for (uint32_t i = 0; i < SOME_CHAINS; i++) {
        chains[i] = i;
    }
    for (uint32_t i = SOME_CHAINS; i-- > 1;) {
        const uint32_t other = draw(&seed, i + 1), chain = chains[other];
        chains[other] = chains[i];
        chains[i] = chain;
    }
    return FEWEST_CHAINS + draw(&seed, SOME_CHAINS - FEWEST_CHAINS + 1);
}

/* Two kernels more than that of the chain before. */
static uint32_t length_of(const struct ways_row *row, uint32_t chain)
{
    return row->kernels + 2 * chain;
}

static bool build_some(struct ways_scene *scene, uint32_t step)
{
    uint32_t chains[SOME_CHAINS];
    const uint32_t count = draw_chains(step, chains);
    bool good = true;
    for (uint32_t i = 0; i < count; i++) {
        const struct ways_place place = {.manager = scene->work.manager, .cell = chains[i]};
        gantry_task *latest = NULL;
        for (uint32_t k = 0; k < length_of(scene->row, chains[i]) && good; k++) {
            gantry_task *task = add_kernel(scene, &place);
            good = follows(task, latest);
            latest = task;
        }
    }
    return good;
}

static bool build_listed(struct ways_scene *scene, uint32_t kernels, uint32_t step)
{
    struct ways_place place = {.manager = scene->work.manager};
    gantry_task *last = NULL;
    switch (scene->row->kind) {
    case WAYS_HOST:
        return build_chain(scene, &place, kernels, &last);
    case WAYS_MIXED:
        return build_chain(scene, &place, MIXED_CHAIN, &last) &&
               build_wide(scene, &place, kernels - MIXED_CHAIN, last);
    case WAYS_UNEVEN:
        place.ns = UNEVEN_NS;
        if (add_kernel(scene, &place) == NULL) {
            return false;
        }
        place.cell = 1;
        place.ns = UNEVEN_SHORT_NS;
        return build_chain(scene, &place, UNEVEN_CHAIN, &last);
    case WAYS_MANAGERS:
        if (!build_wide(scene, &place, kernels / WAYS_MANAGER_COUNT, NULL)) {
            return false;
        }
        place.manager = scene->second;
        place.cell = PIPELINES;
        return build_wide(scene, &place, kernels / WAYS_MANAGER_COUNT, NULL);
    case WAYS_LONG:
        place.ns = LONG_NS;
        return build_wide(scene, &place, kernels, NULL);
    case WAYS_RAW:
    case WAYS_CAPTURABLE:
    case WAYS_PARTITIONS:
    case WAYS_LOADS:
        return build_wide(scene, &place, kernels, NULL);
    case WAYS_SOME:
        return build_some(scene, step);
    case WAYS_PIPELINES:
        break;
    }
    return false;
}

/* A module comes and goes, none of whose kernels is launched.  It is loaded by nobody else. */
static bool load_anew(struct ways_scene *scene)
{
    gantry_module *module = NULL;
    if (!bench_submit_ok(gantry_module_load(scene->work.context, &gantry_image_critical_kernels, &module))) {
        return false;
    }
    gantry_module_unload(module);
    return true;
}

static bool build(struct ways_scene *scene, uint32_t step)
{
    struct submit_work *work = &scene->work;
    const struct ways_row *row = scene->row;
    if (row->is_frozen && step != 0) {
        return true;
    }
    bool good = bench_submit_ok(gantry_taskman_reset(work->manager)) &&
                (scene->second == NULL || bench_submit_ok(gantry_taskman_reset(scene->second)));
    if (row->kind == WAYS_PIPELINES) {
        good = good && bench_submit_build(work);
    } else {
        scene->count = 0;
        memset(scene->expected, 0, sizeof(scene->expected));
        good = good && (row->kind != WAYS_LOADS || step % LOAD_EVERY != 0 || load_anew(scene)) &&
               build_listed(scene, work->kernels, step);
    }
    return good && (!row->is_frozen || bench_submit_ok(gantry_taskman_freeze(work->manager)));
}

/* Have as many kernels as expected added to each cell?  The cells are set to zero again. */
static bool check(struct ways_scene *scene)
{
    uint32_t host[2 * PIPELINES * CELL_BYTES / sizeof(uint32_t)];
    const CUdeviceptr cells = (CUdeviceptr)(uintptr_t)scene->work.cells;
    if (scene->row->kind == WAYS_PIPELINES) {
        return bench_submit_check(&scene->work);
    }
    bool right = RAW(&scene->work.cuda, cuMemcpyDtoH(host, cells, sizeof(host)));
    for (uint32_t cell = 0; cell < 2 * PIPELINES; cell++) {
        right = right && host[cell * CELL_BYTES / sizeof(uint32_t)] == scene->expected[cell];
    }
    memset(host, 0, sizeof(host));
    return right && raw_cuda_upload(&scene->work.cuda, scene->work.cells, host, sizeof(host));
}

static bool run(struct ways_scene *scene)
{
    gantry_taskman *second = scene->second;
    if (second == NULL) {
        return bench_submit_run(&scene->work);
    }
    return bench_submit_ok(gantry_taskman_start(scene->work.manager)) &&
           bench_submit_ok(gantry_taskman_start(second)) &&
           bench_submit_ok(gantry_taskman_stop(scene->work.manager)) &&
           bench_submit_ok(gantry_taskman_stop(second));
}

/* Wait for the device.  The thread blocks in the library's call, and in the driver's it spins; but that
 * leaves out green contexts. */
static bool await_device(struct ways_scene *scene)
{
    return scene->row->kind == WAYS_PARTITIONS
               ? bench_submit_ok(gantry_context_synchronize(scene->work.context))
               : RAW(&scene->work.cuda, cuCtxSynchronize());
}

uint32_t bench_ways_kernels(const struct ways_row *row, uint32_t step)
{
    if (row->kind == WAYS_SOME) {
        uint32_t chains[SOME_CHAINS], kernels = 0;
        for (uint32_t i = draw_chains(step, chains); i-- > 0;) {
            kernels += length_of(row, chains[i]);
        }
        return kernels;
    }
    return row->kernels + row->more * (row->shapes != 0 ? step % row->shapes : step);
}

bool bench_ways_run_step(struct ways_scene *scene, uint32_t step, uint64_t *ns)
{
    scene->work.kernels = bench_ways_kernels(scene->row, step);
    bool good = build(scene, step);
    scene->work.turn++;
    const uint64_t begin = gy_clock_ns();
    good = good && run(scene) && await_device(scene);
    *ns = gy_clock_ns() - begin;
    return good && check(scene);
}

/* ---- life ----------------------------------------------------------------------------------------- */

static bool open_second(struct ways_scene *scene)
{
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    manager.cpu_dispatcher = scene->work.cpus;
    manager.gpu_dispatcher = gantry_context_dispatcher(scene->work.context);
    return bench_submit_ok(gantry_taskman_create(&manager, &scene->second));
}

bool bench_ways_open(struct ways_scene *scene, const struct ways_row *row,
                     const gantry_context_options *options)
{
    gantry_partition_request requests[] = {
        {.struct_size = sizeof(requests[0]),
         .name = "small",
         .size = GANTRY_PARTITION_AT_LEAST,
         .sm_count = SMALL_SMS},
        {.struct_size = sizeof(requests[0]), .name = "rest", .size = GANTRY_PARTITION_REST},
    };
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_context_options context = *options;
    plan.requests = requests;
    plan.count = 2;
    context.partitions = row->kind == WAYS_PARTITIONS ? &plan : NULL;
    memset(scene, 0, sizeof(*scene));
    scene->row = row;
    if (!bench_submit_open(&scene->work, &context) ||
        !bench_submit_ok(
            gantry_module_load(scene->work.context, &gantry_image_submit_kernels, &scene->module)) ||
        !bench_submit_ok(gantry_module_get_kernel(scene->module, "increment_after", &scene->timed))) {
        return false;
    }
    scene->work.changed = row->changed;
    scene->work.stable =
        row->is_stable && options->submission != GANTRY_SUBMISSION_STREAMS; /* nothing there */
    scene->work.scrambled = row->is_scrambled;
    return row->kind != WAYS_MANAGERS || open_second(scene);
}

void bench_ways_close(struct ways_scene *scene)
{
    if (scene->work.manager != NULL) {
        (void)bench_submit_ok(gantry_taskman_reset(scene->work.manager));
    }
    gantry_taskman_destroy(scene->second);
    bench_submit_close(&scene->work);
}
