/* SPDX-License-Identifier: MIT */
/* What an order costs when CPU tasks are described: none, edges that are made by hand, and accesses from
 * which the manager makes the same edges.  The last two are timed in turn, in one run. */
#include "bench/bench_task_shapes.h"

#include <gantry/access.h>
#include <gantry/taskman.h>

#include <stdlib.h>
#include <string.h>

enum {
    MOST_BEFORE = 3,
    LANE = 64 /* bytes */
};

/* How tasks in rows depend on each other. */
enum grid {
    GRID_FREE,
    GRID_WAVEFRONT, /* each comes after its upper and its left neighbour: two accesses, each of an area that
                     * comes again as it was */
    GRID_HALO,      /* each comes after the three above it: it reads them, and writes a lane of its own */
};

struct data_bench {
    enum grid grid;
    uint32_t rows, columns, count;
    gantry_cpu_dispatcher *cpus;
    gantry_taskman *manager;
    gantry_task **tasks;
    uint8_t *lanes; /* what accesses name; nothing touches it */
    uint8_t *cells; /* for each task: it has run; bodies run one at a time */
    uint32_t early; /* bodies that ran before another that they come after */
};

static struct data_bench *bench_now; /* one at a time; a body finds its cell by it */

static bool ok(gantry_status status)
{
    return bench_ok("tasks", status);
}

/* The tasks that task i comes after, by their numbers; returns how many. */
static uint32_t find_before(const struct data_bench *b, uint32_t i, uint32_t before[MOST_BEFORE])
{
    const uint32_t row = i / b->columns, column = i % b->columns;
    uint32_t count = 0;
    if (b->grid == GRID_WAVEFRONT && column != 0) {
        before[count++] = i - 1;
    }
    if (b->grid != GRID_FREE && row != 0) {
        before[count++] = i - b->columns;
    }
    if (b->grid == GRID_HALO && row != 0 && column != 0) {
        before[count++] = i - b->columns - 1;
    }
    if (b->grid == GRID_HALO && row != 0 && column + 1 != b->columns) {
        before[count++] = i - b->columns + 1;
    }
    return count;
}

static gantry_status touch(gantry_task *task, void *arg)
{
    (void)task;
    struct data_bench *b = bench_now;
    uint32_t before[MOST_BEFORE];
    const uint32_t i = (uint32_t)((uint8_t *)arg - b->cells), count = find_before(b, i, before);
    for (uint32_t k = 0; k < count; k++) {
        b->early += b->cells[before[k]] == 0;
    }
    b->cells[i] = 1;
    return GANTRY_OK;
}

/* ---- what is timed ----------------------------------------------------------------------------- */

static bool build_by_hand(void *arg)
{
    struct data_bench *b = arg;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = touch;
    for (uint32_t i = 0; i < b->count; i++) {
        uint32_t before[MOST_BEFORE];
        const uint32_t count = find_before(b, i, before);
        desc.arg = b->cells + i;
        if (!ok(gantry_taskman_submit(b->manager, &desc, &b->tasks[i]))) {
            return false;
        }
        for (uint32_t k = 0; k < count; k++) {
            if (!ok(gantry_task_start_after(b->tasks[i], b->tasks[before[k]]))) {
                return false;
            }
        }
    }
    return true;
}

/* Of a wavefront a task writes the lanes of its row and of its column.  With a halo rows write two buffers by
 * turns, and read the other one. */
static void find_accesses(const struct data_bench *b, uint32_t i, gantry_access accesses[2])
{
    const uint32_t row = i / b->columns, column = i % b->columns;
    if (b->grid == GRID_WAVEFRONT) {
        const gantry_access both[] = {
            GANTRY_WRITES(b->lanes + (size_t)row * LANE, LANE),
            GANTRY_WRITES(b->lanes + ((size_t)b->rows + column) * LANE, LANE),
        };
        memcpy(accesses, both, sizeof(both));
        return;
    }
    uint8_t *to = b->lanes + (size_t)(row % 2) * b->columns * LANE;
    const uint8_t *from = b->lanes + (size_t)((row + 1) % 2) * b->columns * LANE;
    const uint32_t first = column != 0 ? column - 1 : 0;
    const uint32_t end = column + 2 < b->columns ? column + 2 : b->columns;
    const gantry_access both[] = {
        GANTRY_READS(from + (size_t)first * LANE, (size_t)(end - first) * LANE),
        GANTRY_WRITES(to + (size_t)column * LANE, LANE),
    };
    memcpy(accesses, both, sizeof(both));
}

static bool build_from_data(void *arg)
{
    struct data_bench *b = arg;
    gantry_access accesses[2];
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = touch;
    desc.accesses = accesses;
    desc.access_count = 2;
    for (uint32_t i = 0; i < b->count; i++) {
        find_accesses(b, i, accesses);
        desc.arg = b->cells + i;
        if (!ok(gantry_taskman_submit(b->manager, &desc, &b->tasks[i]))) {
            return false;
        }
    }
    return true;
}

static bool prepare(void *arg)
{
    struct data_bench *b = arg;
    bench_now = b;
    memset(b->cells, 0, b->count);
    b->early = 0;
    return ok(gantry_taskman_reset(b->manager));
}

/* The graph was built correctly if it runs correctly. */
static bool verify(void *arg)
{
    struct data_bench *b = arg;
    if (!ok(gantry_taskman_start(b->manager)) || !ok(gantry_taskman_stop(b->manager))) {
        return false;
    }
    return b->early == 0 && memchr(b->cells, 0, b->count) == NULL;
}

/* ---- set-up ------------------------------------------------------------------------------------ */

static bool open_bench(struct data_bench *b)
{
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    cpus.worker_count = 1;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    b->cells = calloc(b->count, 1);
    b->tasks = calloc(b->count, sizeof(gantry_task *));
    b->lanes = calloc((size_t)b->rows + 2u * b->columns, LANE);
    if (b->cells == NULL || b->tasks == NULL || b->lanes == NULL ||
        !ok(gantry_cpu_dispatcher_create(&cpus, &b->cpus))) {
        return false;
    }
    manager.cpu_dispatcher = b->cpus;
    return ok(gantry_taskman_create(&manager, &b->manager));
}

static void close_bench(struct data_bench *b)
{
    gantry_taskman_destroy(b->manager);
    gantry_cpu_dispatcher_destroy(b->cpus);
    free(b->cells);
    free(b->tasks);
    free(b->lanes);
}

/* The row `name`, and what the accesses add to the edges. */
static bool run_grid(const struct bench_options *options, const char *name, enum grid grid, uint32_t rows,
                     uint32_t columns)
{
    struct data_bench b = {.grid = grid, .rows = rows, .columns = columns, .count = rows * columns};
    struct bench_case one = {
        .name = name,
        .item = "task",
        .items = b.count,
        .ours = {.prepare = prepare,
                 .run = grid == GRID_FREE ? build_by_hand : build_from_data,
                 .verify = verify},
        .arg = &b,
    };
    if (grid != GRID_FREE) {
        one.yardstick = (struct bench_side){"hand-edges", prepare, build_by_hand, verify};
    }
    struct bench_result result;
    const bool good = open_bench(&b) && bench_run(options, &one, &result);
    close_bench(&b);
    if (good && grid != GRID_FREE) {
        char added[64];
        snprintf(added, sizeof(added), "%s-adds", name);
        const struct bench_case difference = {.name = added, .item = "task", .items = b.count};
        result.min_ns -= result.yardstick_min_ns;
        result.median_ns -= result.yardstick_median_ns;
        bench_report(options, &difference, &result);
    }
    return good;
}

bool bench_task_data(const struct bench_options *options)
{
    const bool is_check = options->runs == 1; /* one run only shows that it works, and measures nothing */
    const uint32_t side = is_check ? 50 : 500;
    bool good = run_grid(options, "tasks/order-none", GRID_FREE, side, side);
    good &= run_grid(options, "tasks/order-data", GRID_WAVEFRONT, side, side);
    good &= run_grid(options, "tasks/order-halo", GRID_HALO, 2 * side, side / 2);
    return good;
}
