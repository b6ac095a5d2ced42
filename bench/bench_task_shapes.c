/* SPDX-License-Identifier: MIT */
/* The graphs of task_shapes.h with Gantry, and with oneTBB and OpenMP where they were found, in the same run.
 * All are built before they are timed, except where the case is the building itself. */
#include "bench/bench_task_shapes.h"

#include <gantry/taskman.h>

#include <stdlib.h>
#include <string.h>

enum { SMALL_STEPS = 1000 };

struct shape_bench {
    struct task_field field;
    enum task_way way;
    gantry_cpu_dispatcher *cpus;
    gantry_taskman *manager;
    gantry_task **tasks;
    gantry_task *meeting; /* comes after all that are made; NULL: nothing does */
    const struct task_peer *peer;
    void *job;
    uint32_t workers;
    uint32_t steps; /* of one run */
};

static bool ok(gantry_status status)
{
    return bench_ok("tasks", status);
}

static struct shape_bench *bench_now; /* one at a time; a body finds its field by it */

static gantry_status touch(gantry_task *task, void *arg)
{
    (void)task;
    struct task_field *field = &bench_now->field;
    task_field_touch(field, (uint32_t)((uint8_t *)arg - field->cells));
    return GANTRY_OK;
}

static gantry_status spawn(gantry_task *task, void *arg)
{
    struct task_field *field = &bench_now->field;
    uint32_t i = (uint32_t)((uint8_t *)arg - field->cells);
    task_field_touch(field, i);
    gantry_taskman *manager = gantry_task_manager(task);
    if (field->shape == SHAPE_INDEPENDENT) { /* the first makes all others */
        for (uint32_t other = i == 0 ? 1 : field->count; other < field->count; other++) {
            gantry_status status =
                gantry_taskman_spawn(manager, touch, field->cells + other, NULL, bench_now->meeting);
            if (status != GANTRY_OK) {
                return status;
            }
        }
        return GANTRY_OK;
    }
    for (uint32_t child = 2 * i + 1; child <= 2 * i + 2 && child + 1 < field->count; child++) {
        gantry_status status =
            gantry_taskman_spawn(manager, spawn, field->cells + child, NULL, bench_now->meeting);
        if (status != GANTRY_OK) {
            return status;
        }
    }
    return GANTRY_OK;
}

/* All that were made are done. */
static gantry_status meet(gantry_task *task, void *arg)
{
    (void)task;
    struct task_field *field = arg;
    for (uint32_t i = 0; i + 1 < field->count; i += 251) {
        field->disorder |= field->cells[i] == 0;
    }
    return GANTRY_OK;
}

/* Both subtrees are done. */
static gantry_status join(gantry_task *task, void *arg)
{
    (void)task;
    struct task_field *field = &bench_now->field;
    uint32_t i = (uint32_t)((uint8_t *)arg - field->cells);
    if (field->cells[2 * i + 1] == 0 || field->cells[2 * i + 2] == 0) {
        field->disorder = 1;
    }
    return GANTRY_OK;
}

static gantry_status fork_and_join(gantry_task *task, void *arg)
{
    struct shape_bench *b = bench_now;
    struct task_field *field = &b->field;
    uint32_t i = (uint32_t)((uint8_t *)arg - field->cells);
    task_field_touch(field, i);
    if (2 * i + 3 > field->count - 1) {
        return GANTRY_OK;
    }
    gantry_taskman *manager = gantry_task_manager(task);
    gantry_status status = gantry_taskman_create_light(manager, join, arg, NULL,
                                                       i == 0 ? NULL : b->tasks[(i - 1) / 2], &b->tasks[i]);
    for (uint32_t child = 2 * i + 1; child <= 2 * i + 2 && status == GANTRY_OK; child++) {
        status = gantry_taskman_spawn(manager, fork_and_join, field->cells + child, NULL, b->tasks[i]);
    }
    return status == GANTRY_OK ? gantry_task_remove_reference(b->tasks[i]) : status;
}

static bool after(struct shape_bench *b, uint32_t i, uint32_t predecessor)
{
    return gantry_task_start_after(b->tasks[i], b->tasks[predecessor]) == GANTRY_OK;
}

static bool connect(struct shape_bench *b, uint32_t i)
{
    const struct task_field *field = &b->field;
    switch (field->shape) {
    case SHAPE_INDEPENDENT:
        return true;
    case SHAPE_CHAIN:
        return i == 0 || after(b, i, i - 1);
    case SHAPE_WAVEFRONT:
        return (i % field->side == 0 || after(b, i, i - 1)) &&
               (i < field->side || after(b, i, i - field->side));
    case SHAPE_TREE:
        break;
    }
    if (i + 1 < field->count) {
        return i == 0 || after(b, i, (i - 1) / 2);
    }
    bool good = true;
    for (uint32_t leaf = (field->count - 1) / 2; leaf + 1 < field->count; leaf++) {
        good &= after(b, i, leaf);
    }
    return good;
}

static bool build(struct shape_bench *b)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = touch;
    for (uint32_t i = 0; i < b->field.count; i++) {
        desc.arg = b->field.cells + i;
        if (gantry_taskman_submit(b->manager, &desc, &b->tasks[i]) != GANTRY_OK || !connect(b, i)) {
            return ok(GANTRY_ERR_STATE);
        }
    }
    return true;
}

static bool is_frozen(const struct shape_bench *b)
{
    return b->way == WAY_RERUN || b->way == WAY_STEPS || b->way == WAY_APART;
}

static bool prepare(void *arg)
{
    struct shape_bench *b = arg;
    bench_now = b;
    memset(b->field.cells, 0, b->field.count);
    b->field.disorder = 0;
    if (is_frozen(b)) {
        return true;
    }
    return ok(gantry_taskman_reset(b->manager)) && (b->way != WAY_FIRST || build(b));
}

static bool run(void *arg)
{
    struct shape_bench *b = arg;
    if (b->way == WAY_BUILD) {
        return build(b);
    }
    gantry_task *first = NULL;
    b->meeting = NULL;
    bool is_spawned = b->way == WAY_SPAWN || b->way == WAY_JOIN || b->way == WAY_MEET;
    if (b->way == WAY_MEET &&
        !ok(gantry_taskman_create_light(b->manager, meet, &b->field, NULL, NULL, &b->meeting))) {
        return false;
    }
    if (is_spawned && !ok(gantry_taskman_create_light(b->manager, b->way == WAY_JOIN ? fork_and_join : spawn,
                                                      b->field.cells, NULL, b->meeting, &first))) {
        return false;
    }
    if (b->meeting != NULL) {
        gantry_task_remove_reference(b->meeting);
    }
    if (first != NULL) {
        gantry_task_remove_reference(first);
    }
    bool good = true;
    for (uint32_t i = 0; i < b->steps && good; i++) {
        good = b->way == WAY_STEPS
                   ? ok(gantry_taskman_run(b->manager, 1))
                   : ok(gantry_taskman_start(b->manager)) && ok(gantry_taskman_stop(b->manager));
    }
    if (is_spawned && b->field.shape == SHAPE_TREE) {
        task_field_touch(&b->field, b->field.count - 1);
    }
    return good;
}

static bool verify(void *arg)
{
    struct shape_bench *b = arg;
    if (b->way == WAY_BUILD) { /* the graph was built correctly if it runs correctly */
        b->way = WAY_FIRST;
        bool good = run(b) && verify(b);
        b->way = WAY_BUILD;
        return good;
    }
    for (uint32_t i = 0; i < b->field.count; i++) {
        if (b->field.cells[i] != (uint8_t)b->steps) {
            return false;
        }
    }
    return b->field.disorder == 0;
}

static bool prepare_peer(void *arg)
{
    struct shape_bench *b = arg;
    memset(b->field.cells, 0, b->field.count);
    b->field.disorder = 0;
    if (b->way == WAY_BUILD && b->job != NULL) {
        b->peer->drop(b->job);
        b->job = NULL;
    }
    if (b->way != WAY_BUILD && b->job == NULL) {
        b->job = b->peer->make(&b->field, b->workers);
    }
    return b->way == WAY_BUILD || b->job != NULL;
}

static bool run_peer(void *arg)
{
    struct shape_bench *b = arg;
    if (b->way == WAY_BUILD) {
        b->job = b->peer->make(&b->field, b->workers);
        return b->job != NULL;
    }
    bool good = true;
    for (uint32_t i = 0; i < b->steps && good; i++) {
        good = b->peer->run(b->job);
    }
    return good;
}

static bool verify_peer(void *arg)
{
    struct shape_bench *b = arg;
    if (b->way == WAY_BUILD) {
        b->way = WAY_FIRST;
        bool good = run_peer(b) && verify(b);
        b->way = WAY_BUILD;
        return good;
    }
    return verify(b);
}

static bool open_shape(struct shape_bench *b)
{
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    cpus.worker_count = b->workers;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    b->field.cells = calloc(b->field.count, 1);
    b->tasks = calloc(b->field.count, sizeof(gantry_task *));
    if (b->field.cells == NULL || b->tasks == NULL || !ok(gantry_cpu_dispatcher_create(&cpus, &b->cpus))) {
        return false;
    }
    manager.cpu_dispatcher = b->cpus;
    if (!ok(gantry_taskman_create(&manager, &b->manager))) {
        return false;
    }
    return !is_frozen(b) || (build(b) && ok(gantry_taskman_freeze(b->manager)));
}

static void close_shape(struct shape_bench *b)
{
    if (b->job != NULL) {
        b->peer->drop(b->job);
    }
    gantry_taskman_destroy(b->manager);
    gantry_cpu_dispatcher_destroy(b->cpus);
    free(b->field.cells);
    free(b->tasks);
}

bool bench_task_case(const struct bench_options *options, const char *name, enum task_shape shape,
                     uint32_t size, enum task_way way, uint32_t workers, const struct task_peer *peer)
{
    struct shape_bench b = {.field = {.shape = shape, .side = size, .count = size},
                            .way = way,
                            .peer = peer,
                            .workers = workers,
                            .steps = way == WAY_STEPS || way == WAY_APART ? SMALL_STEPS : 1};
    if (shape == SHAPE_WAVEFRONT) {
        b.field.count = size * size;
    } else if (shape == SHAPE_TREE) {
        b.field.count = 2u << size; /* all nodes, and the last */
    }
    char text[64];
    snprintf(text, sizeof(text), "tasks/%s/%uw", name, workers);
    struct bench_case one = {.name = text,
                             .item = b.steps == 1 ? "task" : "step",
                             .items = b.steps == 1 ? b.field.count : b.steps,
                             .ours = {.prepare = prepare, .run = run, .verify = verify},
                             .arg = &b};
    if (peer != NULL) {
        one.yardstick = (struct bench_side){peer->name, prepare_peer, run_peer, verify_peer};
    }
    bool good = open_shape(&b) && bench_run(options, &one, NULL);
    close_shape(&b);
    return good;
}

bool bench_task_shapes(const struct bench_options *options)
{
    bool is_check = options->runs == 1; /* one run only shows that it works, and measures nothing */
    const uint32_t tasks = is_check ? 10000 : 1000000, side = is_check ? 50 : 512, depth = is_check ? 10 : 18;
    bool good = true;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        good &= bench_task_case(options, "independent-build", SHAPE_INDEPENDENT, tasks, WAY_BUILD, workers,
                                TBB_GRAPH);
        good &= bench_task_case(options, "independent-first", SHAPE_INDEPENDENT, tasks, WAY_FIRST, workers,
                                TBB_GROUP);
        good &= bench_task_case(options, "independent-rerun", SHAPE_INDEPENDENT, tasks, WAY_RERUN, workers,
                                OPENMP);
        good &= bench_task_case(options, "chain-build", SHAPE_CHAIN, tasks, WAY_BUILD, workers, TBB_GRAPH);
        good &= bench_task_case(options, "chain-rerun", SHAPE_CHAIN, tasks, WAY_RERUN, workers, TBB_GRAPH);
        good &=
            bench_task_case(options, "wavefront-rerun", SHAPE_WAVEFRONT, side, WAY_RERUN, workers, TBB_GRAPH);
        good &= bench_task_case(options, "tree-rerun", SHAPE_TREE, depth, WAY_RERUN, workers, TBB_GRAPH);
        good &= bench_task_case(options, "tree-spawn", SHAPE_TREE, depth, WAY_SPAWN, workers, TBB_GROUP);
        good &= bench_task_case(options, "tree-spawn-omp", SHAPE_TREE, depth, WAY_SPAWN, workers, OPENMP);
        good &= bench_task_case(options, "step-chain-10", SHAPE_CHAIN, 10, WAY_STEPS, workers, TBB_GRAPH);
        good &=
            bench_task_case(options, "step-wide-10", SHAPE_INDEPENDENT, 10, WAY_STEPS, workers, TBB_GRAPH);
        good &= bench_task_case(options, "step-chain-100", SHAPE_CHAIN, 100, WAY_STEPS, workers, TBB_GRAPH);
        good &=
            bench_task_case(options, "step-wide-100", SHAPE_INDEPENDENT, 100, WAY_STEPS, workers, TBB_GRAPH);
        good &= bench_task_case(options, "step-apart-10", SHAPE_CHAIN, 10, WAY_APART, workers, TBB_GRAPH);
        good &= bench_task_case(options, "step-apart-wide-10", SHAPE_INDEPENDENT, 10, WAY_APART, workers,
                                TBB_GRAPH);
    }
    return good;
}
