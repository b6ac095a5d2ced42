/* SPDX-License-Identifier: MIT */
/* How task graphs scale: with their size, down to short tasks, and from the start to the first body. */
#include "bench/bench_task_shapes.h"
#include "cli/messages.h"

#include "base/clock.h"

#include <gantry/taskman.h>

#include <stdlib.h>
#include <unistd.h>

static bool ok(gantry_status status)
{
    return bench_ok("tasks", status);
}

/* A pool and a manager for one measurement. */
struct setting {
    gantry_cpu_dispatcher *cpus;
    gantry_taskman *manager;
};

static bool open_setting(struct setting *s, uint32_t workers, gantry_wait_mode mode)
{
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    cpus.worker_count = workers;
    cpus.wait_mode = mode;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    if (!ok(gantry_cpu_dispatcher_create(&cpus, &s->cpus))) {
        return false;
    }
    manager.cpu_dispatcher = s->cpus;
    return ok(gantry_taskman_create(&manager, &s->manager));
}

static void close_setting(struct setting *s)
{
    gantry_taskman_destroy(s->manager);
    gantry_cpu_dispatcher_destroy(s->cpus);
}

/* Print a line of results that has no yardstick. */
static void print_value(const struct bench_options *options, const char *name, double value, const char *unit)
{
    if (options->json) {
        fprintf(options->out,
                "{\"name\":\"%s\",\"value\":%.6g,\"unit\":\"%s\",\"yardstick\":null,\"yardstick_value\":null,"
                "\"ratio\":null,",
                name, value, unit);
        bench_json_end(options, true);
    } else {
        cli_progress_end();
        fprintf(options->out, "%-36s %12.2f %s\n", name, value, unit);
    }
    fflush(options->out);
}

/* ---- size ------------------------------------------------------------------------------------ */

static gantry_status count(gantry_task *task, void *arg)
{
    (void)task;
    ++*(uint64_t *)arg; /* one worker */
    return GANTRY_OK;
}

/* Submit n tasks with 2 n edges: task i comes after task i - 1 and after task i / 2. */
static bool run_size(const struct bench_options *options, uint32_t n)
{
    struct setting s = {0};
    gantry_task **tasks = malloc(n * sizeof(gantry_task *));
    uint64_t ran = 0;
    bool good = tasks != NULL && open_setting(&s, 1, GANTRY_WAIT_DEFAULT);
    uint64_t begin = gy_clock_ns();
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = count;
    desc.arg = &ran;
    for (uint32_t i = 0; good && i < n; i++) {
        good = ok(gantry_taskman_submit(s.manager, &desc, &tasks[i])) &&
               (i < 1 || ok(gantry_task_start_after(tasks[i], tasks[i - 1]))) &&
               (i < 2 || ok(gantry_task_start_after(tasks[i], tasks[i / 2])));
    }
    uint64_t built = gy_clock_ns();
    good = good && ok(gantry_taskman_start(s.manager)) && ok(gantry_taskman_stop(s.manager)) && ran == n;
    uint64_t end = gy_clock_ns();
    gantry_taskman_stats stats = {.struct_size = sizeof(stats)};
    if (good && ok(gantry_taskman_get_stats(s.manager, &stats))) {
        char name[64];
        snprintf(name, sizeof(name), "tasks/size-%u/build", n);
        print_value(options, name, (double)(built - begin) / n, "ns/task");
        snprintf(name, sizeof(name), "tasks/size-%u/run", n);
        print_value(options, name, (double)(end - built) / n, "ns/task");
        snprintf(name, sizeof(name), "tasks/size-%u/memory", n);
        print_value(options, name, (double)stats.memory_bytes / n, "bytes/task");
    }
    close_setting(&s);
    free(tasks);
    return good;
}

/* ---- from the start to the first body --------------------------------------------------------- */

static gantry_status note_time(gantry_task *task, void *arg)
{
    (void)task;
    *(uint64_t *)arg = gy_clock_ns();
    return GANTRY_OK;
}

/* Time runs of one task, with a pause between them in which workers fall asleep, or without. */
static bool run_latency(const struct bench_options *options, const char *name, gantry_wait_mode mode,
                        useconds_t pause_us)
{
    enum { RUNS = 301 };
    struct setting s = {0};
    uint64_t times[RUNS], first = 0;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = note_time;
    desc.arg = &first;
    bool good = open_setting(&s, 1, mode) && ok(gantry_taskman_submit(s.manager, &desc, NULL)) &&
                ok(gantry_taskman_freeze(s.manager));
    for (int i = 0; good && i < RUNS; i++) {
        usleep(pause_us);
        uint64_t begin = gy_clock_ns();
        good = ok(gantry_taskman_start(s.manager)) && ok(gantry_taskman_stop(s.manager));
        times[i] = first - begin;
    }
    if (good) {
        bench_sort_times(times, RUNS);
        print_value(options, name, (double)times[RUNS / 2], "ns");
    }
    close_setting(&s);
    return good;
}

/* ---- short tasks ------------------------------------------------------------------------------ */

enum { WIDTH = 64, WIDTH_BITS = 6 };

static gantry_status spin(gantry_task *task, void *arg)
{
    (void)task;
    uint64_t end = gy_clock_ns() + *(uint64_t *)arg;
    while (gy_clock_ns() < end) {
    }
    return GANTRY_OK;
}

/* Does task `i` of a row come after task `j` of the row before? */
static bool depends(char pattern, uint32_t row, uint32_t i, uint32_t j)
{
    switch (pattern) {
    case 's': /* stencil */
        return i == j || i + 1 == j || j + 1 == i;
    case 'f': /* FFT */
        return i == j || (i ^ j) == 1u << row % WIDTH_BITS;
    default: /* tree, downwards from the first */
        return j == i / 2;
    }
}

static bool build_rows(struct setting *s, char pattern, uint32_t rows, uint64_t *length_ns)
{
    gantry_task *before[WIDTH], *now[WIDTH];
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = spin;
    desc.arg = length_ns;
    for (uint32_t row = 0; row < rows; row++) {
        for (uint32_t i = 0; i < WIDTH; i++) {
            if (!ok(gantry_taskman_submit(s->manager, &desc, &now[i]))) {
                return false;
            }
            for (uint32_t j = 0; row > 0 && j < WIDTH; j++) {
                if (depends(pattern, row, i, j) && !ok(gantry_task_start_after(now[i], before[j]))) {
                    return false;
                }
            }
        }
        for (uint32_t i = 0; i < WIDTH; i++) {
            before[i] = now[i];
        }
    }
    return ok(gantry_taskman_freeze(s->manager));
}

/* Measure the share of the workers' time that goes into bodies, for tasks from 0.1 µs to 1 ms, and the
 * length at which it is one half. */
static bool run_sweep(const struct bench_options *options, const char *pattern)
{
    static const double lengths[] = {1e2, 3e2, 1e3, 3e3, 1e4, 1e5, 1e6};
    double half = 0, before = 0;
    bool good = true;
    size_t count = options->runs == 1 ? 2 : sizeof(lengths) / sizeof(lengths[0]);
    for (size_t i = 0; good && i < count; i++) {
        struct setting s = {0};
        uint64_t length = (uint64_t)lengths[i];
        uint32_t rows = lengths[i] < 1e4 ? 100 : lengths[i] < 1e6 ? 20 : 2;
        good = open_setting(&s, 0, GANTRY_WAIT_DEFAULT) && build_rows(&s, pattern[0], rows, &length) &&
               ok(gantry_taskman_run(s.manager, 1));
        uint64_t best = UINT64_MAX;
        for (int run = 0; good && run < 5; run++) {
            uint64_t begin = gy_clock_ns();
            good = ok(gantry_taskman_run(s.manager, 1));
            uint64_t time = gy_clock_ns() - begin;
            best = time < best ? time : best;
        }
        uint32_t workers = good ? gantry_cpu_dispatcher_worker_count(s.cpus) : 1;
        double share = lengths[i] * rows * WIDTH / workers / (double)best;
        char name[64];
        snprintf(name, sizeof(name), "tasks/%s/%.1fus", pattern, lengths[i] / 1e3);
        print_value(options, name, share * 100, "% of the workers' time");
        if (half == 0 && share >= 0.5) {
            double left = i == 0 ? 0 : lengths[i - 1];
            half = i == 0 ? lengths[0] : left + (lengths[i] - left) * (0.5 - before) / (share - before);
        }
        before = share;
        close_setting(&s);
    }
    if (half > 0) { /* half is never reached: the machine is busy with something else */
        char name[64];
        snprintf(name, sizeof(name), "tasks/%s/half", pattern);
        print_value(options, name, half, "ns of length at one half");
    }
    return good;
}

bool bench_task_scale(const struct bench_options *options)
{
    bool good = true;
    uint32_t most = options->runs == 1 ? 10000 : 10000000; /* one run only shows that it works */
    for (uint32_t n = 10000; n <= most && good; n *= 10) {
        good = run_size(options, n);
    }
    good &= run_latency(options, "tasks/first-body/adaptive", GANTRY_WAIT_ADAPTIVE, 100);
    good &= run_latency(options, "tasks/first-body/hybrid", GANTRY_WAIT_HYBRID, 100);
    good &= run_latency(options, "tasks/first-body/block", GANTRY_WAIT_BLOCK, 1000);
    good &= run_sweep(options, "stencil");
    good &= run_sweep(options, "fft");
    good &= run_sweep(options, "tree");
    return good;
}
