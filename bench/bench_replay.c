/* SPDX-License-Identifier: MIT */
/* `gantry bench replay`: a frozen step of stable tasks, until the device is done.
 *
 * One step is `kernels` launches in 8 pipelines (submit_work.h), unchanged from run to run.  Ours: a frozen
 * graph with a stable task per launch, in graphs mode, started and stopped; the spin cases with a dispatcher
 * that never sleeps.  Yardsticks: the loop an engineer writes by hand, which launches everything again; the
 * same work, captured once by hand and launched with cuGraphLaunch(); and the least that the device needs, a
 * captured graph of as many kernels in pipelines that do not wait for each other. */
#include "bench/submit_work.h"

#include <stdlib.h>

struct replay_bench {
    struct submit_work work;
    CUgraphExec bare;  /* yardsticks: the same graph, made by hand, */
    CUgraphExec apart; /* and without the edges between pipelines */
    uint64_t kernels_before;
};

/* ---- ours ---------------------------------------------------------------------------------- */

static bool read_kernels(struct replay_bench *bench, uint64_t *kernels, uint64_t *replays)
{
    gantry_dispatcher_stats stats = {.struct_size = sizeof(stats)};
    if (!bench_submit_ok(
            gantry_dispatcher_get_stats(gantry_context_dispatcher(bench->work.context), &stats))) {
        return false;
    }
    *kernels = stats.kernels;
    *replays = stats.graph_replays;
    return true;
}

static bool prepare_ours(void *arg)
{
    struct replay_bench *bench = arg;
    uint64_t replays;
    return read_kernels(bench, &bench->kernels_before, &replays);
}

static bool run_ours(void *arg)
{
    struct replay_bench *bench = arg;
    return bench_submit_run(&bench->work) && RAW(&bench->work.cuda, cuCtxSynchronize());
}

static bool verify_ours(void *arg)
{
    struct replay_bench *bench = arg;
    uint64_t kernels = 0, replays = 0;
    return read_kernels(bench, &kernels, &replays) && replays > 0 &&
           kernels - bench->kernels_before == bench->work.kernels && bench_submit_check(&bench->work);
}

/* The first runs, in which callbacks are called: once so that the shape is known, once so that it is
 * recorded. */
static bool warm_up(struct replay_bench *bench)
{
    bool good =
        bench_submit_build(&bench->work) && bench_submit_ok(gantry_taskman_freeze(bench->work.manager));
    for (int i = 0; i < 3 && good; i++) {
        good = run_ours(bench) && bench_submit_check(&bench->work);
    }
    return good;
}

/* ---- by hand ------------------------------------------------------------------------------- */

static bool run_hand(void *arg)
{
    struct replay_bench *bench = arg;
    return bench_submit_by_hand(&bench->work) && RAW(&bench->work.cuda, cuCtxSynchronize());
}

static bool run_exec(struct replay_bench *bench, CUgraphExec exec)
{
    struct raw_cuda *cuda = &bench->work.cuda;
    return RAW(cuda, cuGraphLaunch(exec, bench->work.streams[0])) && RAW(cuda, cuCtxSynchronize());
}

static bool run_bare(void *arg)
{
    struct replay_bench *bench = arg;
    return run_exec(bench, bench->bare);
}

static bool run_apart(void *arg)
{
    struct replay_bench *bench = arg;
    return run_exec(bench, bench->apart);
}

static bool verify_hand(void *arg)
{
    return bench_submit_check(&((struct replay_bench *)arg)->work);
}

/* All streams enter the capture of the first one, and are joined at the end. */
static bool capture_by_hand(struct replay_bench *bench, CUgraph *graph)
{
    struct submit_work *work = &bench->work;
    struct raw_cuda *cuda = &work->cuda;
    bool good = RAW(cuda, cuStreamBeginCapture(work->streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)) &&
                RAW(cuda, cuEventRecord(work->events[0], work->streams[0]));
    for (uint32_t p = 1; p < PIPELINES && good; p++) {
        good = RAW(cuda, cuStreamWaitEvent(work->streams[p], work->events[0], 0));
    }
    good = good && bench_submit_by_hand(work);
    for (uint32_t p = 1; p < PIPELINES && good; p++) {
        good = RAW(cuda, cuEventRecord(work->events[p], work->streams[p])) &&
               RAW(cuda, cuStreamWaitEvent(work->streams[0], work->events[p], 0));
    }
    return good && RAW(cuda, cuStreamEndCapture(work->streams[0], graph));
}

static bool instantiate(struct replay_bench *bench, bool apart, CUgraphExec *exec)
{
    struct raw_cuda *cuda = &bench->work.cuda;
    CUgraph graph = NULL;
    bench->work.apart = apart;
    bool good = capture_by_hand(bench, &graph) && RAW(cuda, cuGraphInstantiateWithFlags(exec, graph, 0));
    bench->work.apart = false;
    return (graph == NULL || RAW(cuda, cuGraphDestroy(graph))) && good;
}

/* ---- cases --------------------------------------------------------------------------------- */

static bool run_case(struct replay_bench *bench, const struct bench_options *options, const char *name,
                     struct bench_side yardstick)
{
    struct bench_case one = {
        .name = name,
        .item = "kernel",
        .items = bench->work.kernels,
        .ours = {.prepare = prepare_ours, .run = run_ours, .verify = verify_ours},
        .yardstick = yardstick,
        .arg = bench,
    };
    return bench_run(options, &one, NULL);
}

static bool run_yardsticks(struct replay_bench *bench, const struct bench_options *options,
                           const char *const names[3])
{
    const struct bench_side sides[] = {
        {.name = "hand-loop", .run = run_hand, .verify = verify_hand},
        {.name = "cuGraphLaunch", .run = run_bare, .verify = verify_hand},
        {.name = "no-edges", .run = run_apart, .verify = verify_hand},
    };
    bool good = true;
    for (size_t i = 0; i < sizeof(sides) / sizeof(sides[0]); i++) {
        good = (names[i] == NULL || run_case(bench, options, names[i], sides[i])) && good;
    }
    return good;
}

static void destroy_exec(struct replay_bench *bench, CUgraphExec exec)
{
    if (exec != NULL) {
        (void)bench->work.cuda.cuGraphExecDestroy(exec);
    }
}

static bool run_size(const struct bench_options *options, gantry_wait_mode mode, uint32_t kernels,
                     const char *const names[3])
{
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    struct replay_bench *bench = calloc(1, sizeof(*bench));
    if (bench == NULL) {
        return false;
    }
    context.driver = options->driver;
    context.submission = GANTRY_SUBMISSION_GRAPHS;
    context.completion_wait = mode;
    bool good = bench_submit_open(&bench->work, &context);
    bench->work.kernels = kernels;
    bench->work.stable = true;
    good = good && instantiate(bench, false, &bench->bare) && instantiate(bench, true, &bench->apart) &&
           warm_up(bench) && run_yardsticks(bench, options, names);
    destroy_exec(bench, bench->bare);
    destroy_exec(bench, bench->apart);
    bench_submit_close(&bench->work);
    free(bench);
    return good;
}

static bool bench_replay(const struct bench_options *options)
{
    static const struct {
        gantry_wait_mode mode;
        uint32_t kernels;
        const char *names[3]; /* against the loop, the bare launch, the floor */
    } cases[] = {
        {GANTRY_WAIT_HYBRID, 200, {"replay/stable-200", "replay/bare-200", "replay/floor-200"}},
        {GANTRY_WAIT_HYBRID, 1000, {"replay/stable-1000", "replay/bare-1000", "replay/floor-1000"}},
        {GANTRY_WAIT_SPIN, 200, {"replay/spin-200", "replay/spin-bare-200"}},
        {GANTRY_WAIT_SPIN, 1000, {"replay/spin-1000", "replay/spin-bare-1000"}},
        {GANTRY_WAIT_ADAPTIVE, 1000, {"replay/adaptive-1000", "replay/adaptive-bare-1000"}},
    };
    bool good = true;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        good = run_size(options, cases[i].mode, cases[i].kernels, cases[i].names) && good;
    }
    return good;
}

const struct gantry_bench gantry_bench_replay = {
    .name = "replay",
    .summary = "a frozen step of stable tasks, against a loop by hand and a bare graph launch",
    .help = "A frozen step of stable tasks until the device is done, per kernel, against a loop that "
            "launches all\n"
            "again, and against a graph captured by hand.\n",
    .main = bench_replay,
};
