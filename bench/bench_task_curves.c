/* SPDX-License-Identifier: MIT */
/* How CPU tasks scale with the workers: 1, 2, 4 and so on, as many as there are CPUs. */
#include "base/clock.h"
#include "bench/bench_task_shapes.h"
#include "cli/messages.h"

#include <gantry/taskman.h>

#include <sched.h>
#include <stdlib.h>

enum {
    WIDTH = 64, /* tasks of a row */
    WIDTH_BITS = 6,
    ROWS = 100,
    REACH = 2, /* a random neighbour is so far away at most */
    MOST_PREDECESSORS = 2 * REACH + 1,
};

struct metg {
    gantry_cpu_dispatcher *cpus;
    gantry_taskman *manager;
    char pattern;                  /* s: stencil, f: FFT, n: random neighbours */
    bool is_built;                 /* the graph is built each time; else it is frozen */
    uint64_t length_ns;            /* of a body */
    uint32_t counts[ROWS * WIDTH]; /* how many predecessors each task has */
    /* where in the row before these are, task by task */
    uint32_t predecessors[ROWS * WIDTH * MOST_PREDECESSORS];
};

static gantry_status spin(gantry_task *task, void *arg)
{
    (void)task;
    uint64_t end = gy_clock_ns() + *(uint64_t *)arg;
    while (gy_clock_ns() < end) {
    }
    return GANTRY_OK;
}

/* Toss a coin for the edge from `j` to `i`; the same edge always gets the same answer. */
static bool is_drawn(uint32_t row, uint32_t i, uint32_t j)
{
    uint32_t x = (row * WIDTH + i) * WIDTH + j;
    x = (x ^ x >> 16) * 0x45d9f3bu;
    x = (x ^ x >> 16) * 0x45d9f3bu;
    return ((x ^ x >> 16) & 1) != 0;
}

static bool depends(char pattern, uint32_t row, uint32_t i, uint32_t j)
{
    switch (pattern) {
    case 's':
        return i == j || i + 1 == j || j + 1 == i;
    case 'f':
        return i == j || (i ^ j) == 1u << row % WIDTH_BITS;
    default:
        return i + REACH >= j && j + REACH >= i && is_drawn(row, i, j);
    }
}

/* Find the predecessors of all tasks beforehand: what is measured is building a graph, not inventing one. */
static void plan(struct metg *m)
{
    uint32_t *place = m->predecessors;
    for (uint32_t row = 0; row < ROWS; row++) {
        for (uint32_t i = 0; i < WIDTH; i++) {
            const uint32_t *first = place;
            for (uint32_t j = 0; row > 0 && j < WIDTH; j++) {
                if (depends(m->pattern, row, i, j)) {
                    *place++ = j;
                }
            }
            m->counts[row * WIDTH + i] = (uint32_t)(place - first);
        }
    }
}

static bool build(struct metg *m)
{
    gantry_task *rows[2][WIDTH], **before = rows[0], **now = rows[1];
    gantry_task *predecessors[MOST_PREDECESSORS];
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = spin;
    desc.arg = &m->length_ns;
    const uint32_t *place = m->predecessors;
    for (uint32_t row = 0; row < ROWS; row++) {
        for (uint32_t i = 0; i < WIDTH; i++) {
            const uint32_t count = m->counts[row * WIDTH + i];
            for (uint32_t k = 0; k < count; k++) {
                predecessors[k] = before[*place++];
            }
            if (gantry_taskman_submit_after(m->manager, &desc, predecessors, count, &now[i]) != GANTRY_OK) {
                return bench_ok("tasks", GANTRY_ERR_STATE);
            }
        }
        gantry_task **other = before;
        before = now;
        now = other;
    }
    return true;
}

static bool run_once(struct metg *m)
{
    if (!m->is_built) {
        return bench_ok("tasks", gantry_taskman_run(m->manager, 1));
    }
    return build(m) && bench_ok("tasks", gantry_taskman_start(m->manager)) &&
           bench_ok("tasks", gantry_taskman_stop(m->manager));
}

/* Measure which share of the workers' time goes into bodies of that length; below 0: it failed. */
static double share_of(struct metg *m, uint64_t length_ns, uint32_t workers, uint32_t runs)
{
    uint64_t best = UINT64_MAX;
    m->length_ns = length_ns;
    for (uint32_t i = 0; i < runs; i++) {
        if (m->is_built && !bench_ok("tasks", gantry_taskman_reset(m->manager))) {
            return -1;
        }
        uint64_t begin = gy_clock_ns();
        if (!run_once(m)) {
            return -1;
        }
        uint64_t time = gy_clock_ns() - begin;
        best = time < best ? time : best;
    }
    return (double)length_ns * ROWS * WIDTH / workers / (double)best;
}

/* Try bodies from 50 ns up, each 15 % longer than the one before; 0: it failed.  A disturbance of the
 * machine makes no body look shorter. */
static double find_half(struct metg *m, uint32_t workers, bool is_check)
{
    const double most = is_check ? 100 : 20000;
    double length = 50;
    for (; length < most; length *= 1.15) {
        double share = share_of(m, (uint64_t)length, workers, is_check ? 1 : 7);
        if (share < 0) {
            return 0;
        }
        if (share >= 0.5) {
            break;
        }
    }
    return length;
}

static bool run_metg(const struct bench_options *options, const char *pattern, bool is_built,
                     uint32_t workers)
{
    static struct metg m;
    m = (struct metg){.pattern = pattern[0], .is_built = is_built};
    plan(&m);
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    cpus.worker_count = workers;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    bool good = bench_ok("tasks", gantry_cpu_dispatcher_create(&cpus, &m.cpus));
    manager.cpu_dispatcher = m.cpus;
    good = good && bench_ok("tasks", gantry_taskman_create(&manager, &m.manager)) &&
           (is_built || (build(&m) && bench_ok("tasks", gantry_taskman_freeze(m.manager))));
    double half = good ? find_half(&m, workers, options->runs == 1) : 0;
    gantry_taskman_destroy(m.manager);
    gantry_cpu_dispatcher_destroy(m.cpus);
    char name[64];
    snprintf(name, sizeof(name), "tasks/metg-%s%s/%uw", pattern, is_built ? "-built" : "", workers);
    struct bench_case one = {.name = name, .item = "body", .items = 1};
    struct bench_result result = {.min_ns = half, .median_ns = half, .verified = half != 0};
    bench_report(options, &one, &result);
    return half != 0;
}

bool bench_task_curves(const struct bench_options *options)
{
    bool is_check = options->runs == 1, good = true;
    const uint32_t tasks = is_check ? 10000 : 1000000, depth = is_check ? 10 : 18;
    cpu_set_t mine;
    uint32_t cpus = sched_getaffinity(0, sizeof(mine), &mine) == 0 ? (uint32_t)CPU_COUNT(&mine) : 1;
    for (uint32_t w = 1; w <= 2 || w <= cpus; w *= 2) {
        good &= bench_task_case(options, "curve-tree-spawn", SHAPE_TREE, depth, WAY_SPAWN, w, TBB_GROUP);
        good &= bench_task_case(options, "curve-tree-spawn-omp", SHAPE_TREE, depth, WAY_SPAWN, w, OPENMP);
        good &= bench_task_case(options, "curve-tree-join", SHAPE_TREE, depth, WAY_JOIN, w, TBB_GROUP);
        good &= bench_task_case(options, "curve-tree-meet", SHAPE_TREE, depth, WAY_MEET, w, OPENMP);
        good &=
            bench_task_case(options, "curve-one-spawns-meet", SHAPE_INDEPENDENT, tasks, WAY_MEET, w, NULL);
        good &=
            bench_task_case(options, "curve-one-spawns", SHAPE_INDEPENDENT, tasks, WAY_SPAWN, w, TBB_GROUP);
        good &=
            bench_task_case(options, "curve-one-spawns-omp", SHAPE_INDEPENDENT, tasks, WAY_SPAWN, w, OPENMP);
        good &= bench_task_case(options, "curve-tree-rerun", SHAPE_TREE, depth, WAY_RERUN, w, TBB_GRAPH);
        good &= bench_task_case(options, "curve-independent-rerun", SHAPE_INDEPENDENT, tasks, WAY_RERUN, w,
                                TBB_GRAPH);
    }
    static const char *const patterns[] = {"stencil", "fft", "nearest"};
    for (uint32_t w = 1; w <= 2 || w <= cpus; w *= 2) {
        for (size_t i = 0; i < 3; i++) {
            good &= run_metg(options, patterns[i], false, w);
            good &= run_metg(options, patterns[i], true, w);
        }
    }
    return good;
}
