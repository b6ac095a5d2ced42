/* SPDX-License-Identifier: MIT */
/* `gantry bench tasks`: what a CPU task costs, from its description to its release.
 *
 * Yardstick: the pool an engineer writes in an afternoon, one queue under one mutex with a condition
 * variable, and jobs that push their followers themselves.  Both have WORKERS threads.  A task counts
 * itself; in the chain it also checks that it is its turn. */
#include "bench/bench_task_shapes.h"
#include "bench/harness.h"

#include <gantry/taskman.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define TASKS 10000u
#define WORKERS 2u

struct tasks_bench {
    bool chain;           /* each task starts after the one before; else all are independent */
    atomic_uint done;     /* tasks that ran */
    atomic_bool disorder; /* a task of the chain ran out of order */

    gantry_cpu_dispatcher *cpus;
    gantry_taskman *manager;

    pthread_t threads[WORKERS];
    uint32_t thread_count;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* signalled when there are jobs, or the pool stops */
    pthread_cond_t drained; /* signalled when `left` is 0 */
    uint32_t first, last;   /* guarded by lock: queued jobs are queue[first … last) */
    uint32_t left;          /* guarded by lock: how many jobs have not finished yet */
    bool stop;              /* guarded by lock */
    uint32_t queue[TASKS];  /* guarded by lock */
};

static bool ok(gantry_status status)
{
    return bench_ok("tasks", status);
}

/* The work itself, which both sides share. */
static void work(struct tasks_bench *bench, uint32_t index)
{
    uint32_t before = atomic_fetch_add_explicit(&bench->done, 1, memory_order_relaxed);
    if (bench->chain && before != index) {
        atomic_store_explicit(&bench->disorder, true, memory_order_relaxed);
    }
}

static bool verify(void *arg)
{
    struct tasks_bench *bench = arg;
    return atomic_load(&bench->done) == TASKS && !atomic_load(&bench->disorder);
}

static void clear(struct tasks_bench *bench)
{
    atomic_store(&bench->done, 0);
    atomic_store(&bench->disorder, false);
}

/* ---- ours ---------------------------------------------------------------------------------- */

static gantry_status body(gantry_task *task, void *arg)
{
    work(arg, (uint32_t)gantry_task_context_id(task));
    return GANTRY_OK;
}

static bool prepare_ours(void *arg)
{
    struct tasks_bench *bench = arg;
    clear(bench);
    return ok(gantry_taskman_reset(bench->manager));
}

static bool run_ours(void *arg)
{
    struct tasks_bench *bench = arg;
    gantry_task *before = NULL;
    for (uint32_t i = 0; i < TASKS; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.run = body;
        desc.arg = bench;
        desc.context_id = i;
        gantry_task *task;
        if (!ok(gantry_taskman_submit(bench->manager, &desc, &task)) ||
            (bench->chain && before != NULL && !ok(gantry_task_start_after(task, before)))) {
            return false;
        }
        before = task;
    }
    return ok(gantry_taskman_start(bench->manager)) && ok(gantry_taskman_stop(bench->manager));
}

/* ---- by hand ------------------------------------------------------------------------------- */

static void push_locked(struct tasks_bench *bench, uint32_t index)
{
    bench->queue[bench->last++] = index;
    pthread_cond_signal(&bench->changed);
}

static void *hand_worker(void *arg)
{
    struct tasks_bench *bench = arg;
    pthread_mutex_lock(&bench->lock);
    while (!bench->stop) {
        if (bench->first == bench->last) {
            pthread_cond_wait(&bench->changed, &bench->lock);
            continue;
        }
        uint32_t index = bench->queue[bench->first++];
        pthread_mutex_unlock(&bench->lock);
        work(bench, index);
        pthread_mutex_lock(&bench->lock);
        if (bench->chain && index + 1 < TASKS) {
            push_locked(bench, index + 1);
        }
        if (--bench->left == 0) {
            pthread_cond_signal(&bench->drained);
        }
    }
    pthread_mutex_unlock(&bench->lock);
    return NULL;
}

static bool prepare_hand(void *arg)
{
    struct tasks_bench *bench = arg;
    clear(bench);
    pthread_mutex_lock(&bench->lock);
    bench->first = bench->last = 0;
    bench->left = TASKS;
    pthread_mutex_unlock(&bench->lock);
    return true;
}

static bool run_hand(void *arg)
{
    struct tasks_bench *bench = arg;
    uint32_t pushed = bench->chain ? 1 : TASKS;
    for (uint32_t i = 0; i < pushed; i++) {
        pthread_mutex_lock(&bench->lock);
        push_locked(bench, i);
        pthread_mutex_unlock(&bench->lock);
    }
    pthread_mutex_lock(&bench->lock);
    while (bench->left != 0) {
        pthread_cond_wait(&bench->drained, &bench->lock);
    }
    pthread_mutex_unlock(&bench->lock);
    return true;
}

/* ---- set-up -------------------------------------------------------------------------------- */

static bool open_all(struct tasks_bench *bench)
{
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    cpus.worker_count = WORKERS;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    manager.expected_tasks = TASKS;
    if (!ok(gantry_cpu_dispatcher_create(&cpus, &bench->cpus))) {
        return false;
    }
    manager.cpu_dispatcher = bench->cpus;
    if (!ok(gantry_taskman_create(&manager, &bench->manager))) {
        return false;
    }
    for (; bench->thread_count < WORKERS; bench->thread_count++) {
        if (pthread_create(&bench->threads[bench->thread_count], NULL, hand_worker, bench) != 0) {
            fputs("bench tasks: cannot start a thread\n", stderr);
            return false;
        }
    }
    return true;
}

static void close_all(struct tasks_bench *bench)
{
    pthread_mutex_lock(&bench->lock);
    bench->stop = true;
    pthread_cond_broadcast(&bench->changed);
    pthread_mutex_unlock(&bench->lock);
    for (uint32_t i = 0; i < bench->thread_count; i++) {
        pthread_join(bench->threads[i], NULL);
    }
    gantry_taskman_destroy(bench->manager);
    gantry_cpu_dispatcher_destroy(bench->cpus);
}

static bool run_case(struct tasks_bench *bench, const struct bench_options *options, const char *name,
                     bool chain)
{
    pthread_mutex_lock(&bench->lock);
    bench->chain = chain;
    pthread_mutex_unlock(&bench->lock);
    struct bench_case one = {
        .name = name,
        .item = "task",
        .items = TASKS,
        .ours = {.prepare = prepare_ours, .run = run_ours, .verify = verify},
        .yardstick = {.name = "hand-pool", .prepare = prepare_hand, .run = run_hand, .verify = verify},
        .arg = bench,
    };
    return bench_run(options, &one, NULL);
}

static bool bench_tasks(const struct bench_options *options)
{
    struct tasks_bench *bench = calloc(1, sizeof(*bench));
    if (bench == NULL) {
        return false;
    }
    pthread_mutex_init(&bench->lock, NULL);
    pthread_cond_init(&bench->changed, NULL);
    pthread_cond_init(&bench->drained, NULL);
    bool good = open_all(bench);
    if (good) {
        good = run_case(bench, options, "tasks/independent", false);
        good &= run_case(bench, options, "tasks/chain", true);
    }
    close_all(bench);
    free(bench);
    good &= bench_task_shapes(options);
    good &= bench_task_data(options);
    good &= bench_task_curves(options);
    good &= bench_task_scale(options);
    return good;
}

const struct gantry_bench gantry_bench_tasks = {
    .name = "tasks",
    .summary = "CPU tasks from description to release, against a pool written by hand, oneTBB and OpenMP",
    .help =
        "  SHAPE-build/Nw   describing a graph of CPU tasks, per task, with N workers\n"
        "  SHAPE-first/Nw   its first run\n"
        "  SHAPE-rerun/Nw   its next runs\n"
        "  order-...        describing CPU tasks: without an order (none), with accesses that give two\n"
        "                   edges of a wavefront (data), or three of a stencil as areas overlap (halo);\n"
        "                   -adds: what that takes more than these edges made by hand\n"
        "  step-.../Nw      a small step of CPU tasks, from start to stop\n"
        "  curve-.../Nw     1, 2, 4 ... workers, as many as there are CPUs: a tree whose tasks spawn it "
        "(twice, for\n"
        "                   two yardsticks; -join: with a continuation for each), tasks that one body "
        "spawns, a\n"
        "                   frozen tree with a join, independent tasks of a frozen graph\n"
        "  metg-.../Nw      the length of a body at which half of the workers' time goes into bodies, for\n"
        "                   stencil, FFT and random neighbours, frozen, or built and run each time\n"
        "  SHAPE/Xus        the share of the time that is not spent in bodies of X microseconds\n"
        "\n"
        "Yardsticks: a pool under one mutex, oneTBB, OpenMP.  It needs no device.\n",
    .needs_no_device = true,
    .main = bench_tasks,
};
