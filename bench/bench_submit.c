/* SPDX-License-Identifier: MIT */
/* `gantry bench submit`: what it costs the host to get kernels to the device.
 *
 * streams-N: the time from the start until the last task is released.  dispatcher-N: the least time of that
 * which the dispatcher's thread spent in its phases.  step-N: the time with the building of the graph.
 * done-streams-N, done-graphs-N: the time until the device has finished, in streams mode and in graphs
 * mode.  Of a graph's time, on the dispatcher's thread, calls-graphs-N is what it takes to call the
 * callbacks and capture what they launch, launch-graphs-N what it takes to set what differs, and to launch
 * it.
 *
 * One step is `kernels` launches in 8 pipelines; every tenth launch of a pipeline also waits for the launch
 * before it in the neighbouring pipeline.  Ours: a task per launch, timed from the start until the last
 * task is released.  Yardstick: the loop an engineer writes by hand, 8 streams with events for the cross
 * edges.  The kernel increments its pipeline's cell, so a lost, doubled or unordered launch shows.
 *
 * same-cpu-...: both sides run in turn on one CPU, and the ratio is that of the pairs, see submit_cpu.c.
 * kept-graph-N: done-graphs-N beside a graph that was made once by hand and is launched as it is. ...-tenth
 * and ...-all: a tenth of the arguments, or all, differ from those of the run before; in the graph by hand
 * the nodes are set as well. ordered-N: steps that come after the step before on the GPU; the yardstick is
 * steps that are independent of it.
 *
 * On the emulated driver launches are accepted and not executed, which leaves the dispatcher's own time. */
#include "bench/submit_copies.h"
#include "bench/submit_work.h"
#include "cli/messages.h"

#include <stdlib.h>

struct submit_bench {
    struct submit_work work;
    gantry_dispatcher_stats before; /* at the start of a run of ours */
    uint64_t gd_least_ns;           /* least time of the dispatcher's thread in its phases, of all runs */
    uint32_t samples, most_samples; /* in statistics that were kept here: how many batches were a whole run */
    double *calls_ns, *launch_ns;   /* the time of these batches in their phases, and afterwards */
    CUgraphExec kept;               /* see run_kept() */
    gantry_taskman *ordered, *independent; /* two managers, of which one is work.manager: see run_ordered() */
};

/* ---- ours ---------------------------------------------------------------------------------- */

/* Read the time of the former run on the dispatcher's thread; by now that thread has left its phases. */
static void note_gd_time(struct submit_bench *bench, const gantry_dispatcher_stats *now)
{
    uint64_t ns = 0;
    for (int phase = 0; phase < 3; phase++) {
        ns += now->phase_ns[phase] - bench->before.phase_ns[phase];
    }
    if (now->kernels - bench->before.kernels == bench->work.kernels && ns < bench->gd_least_ns) {
        bench->gd_least_ns = ns;
    }
}

static void note_batch(struct submit_bench *bench, const gantry_batch_stats *batch)
{
    if (bench->samples < bench->most_samples && batch->launch_calls == bench->work.kernels) {
        uint64_t phases = batch->phase_ns[0] + batch->phase_ns[1] + batch->phase_ns[2];
        bench->calls_ns[bench->samples] = (double)phases;
        bench->launch_ns[bench->samples++] = (double)(batch->ns - phases);
    }
}

static bool reset(void *arg)
{
    struct submit_bench *bench = arg;
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(bench->work.context);
    gantry_dispatcher_stats now = {.struct_size = sizeof(now)};
    gantry_batch_stats batch = {.struct_size = sizeof(batch)};
    if (!bench_submit_ok(gantry_dispatcher_get_stats(dispatcher, &now)) ||
        !bench_submit_ok(gantry_dispatcher_get_batch_stats(dispatcher, &batch)) ||
        !bench_submit_ok(gantry_taskman_reset(bench->work.manager))) {
        return false;
    }
    note_gd_time(bench, &now);
    note_batch(bench, &batch);
    bench->before = now;
    return true;
}

static bool prepare_run(void *arg)
{
    struct submit_bench *bench = arg;
    bench->work.turn++;
    return reset(arg) && bench_submit_build(&bench->work);
}

static bool run_graph(void *arg)
{
    return bench_submit_run(&((struct submit_bench *)arg)->work);
}

static bool build_and_run(void *arg)
{
    return bench_submit_build(&((struct submit_bench *)arg)->work) && run_graph(arg);
}

/* ---- by hand ------------------------------------------------------------------------------- */

static bool run_hand(void *arg)
{
    return bench_submit_by_hand(&((struct submit_bench *)arg)->work);
}

/* ---- until the device is done -------------------------------------------------------------- */

static bool run_graph_to_end(void *arg)
{
    return run_graph(arg) && RAW(&((struct submit_bench *)arg)->work.cuda, cuCtxSynchronize());
}

static bool run_hand_to_end(void *arg)
{
    return run_hand(arg) && RAW(&((struct submit_bench *)arg)->work.cuda, cuCtxSynchronize());
}

static bool run_kept_to_end(void *arg)
{
    struct submit_bench *bench = arg;
    return bench_submit_patch_kept(&bench->work, bench->kept) &&
           bench_submit_launch_kept(&bench->work, bench->kept) && RAW(&bench->work.cuda, cuCtxSynchronize());
}

/* ---- checks -------------------------------------------------------------------------------- */

static bool verify_hand(void *arg)
{
    return bench_submit_check(&((struct submit_bench *)arg)->work);
}

static bool enter_cpu(void *arg)
{
    return bench_submit_enter_cpu(&((struct submit_bench *)arg)->work);
}

static bool leave_cpu(void *arg)
{
    return bench_submit_leave_cpu(&((struct submit_bench *)arg)->work) && verify_hand(arg);
}

static bool verify_ours(void *arg)
{
    struct submit_bench *bench = arg;
    gantry_dispatcher_stats stats = {.struct_size = sizeof(stats)};
    return bench_submit_ok(
               gantry_dispatcher_get_stats(gantry_context_dispatcher(bench->work.context), &stats)) &&
           stats.kernels - bench->before.kernels == bench->work.kernels && bench_submit_check(&bench->work);
}

/* ---- cases --------------------------------------------------------------------------------- */

static bool run_case(struct submit_bench *bench, const struct bench_options *options, const char *name,
                     const char *gd_name, uint32_t kernels)
{
    bool with_build = gd_name == NULL;
    bool same_cpu = bench->work.cpu >= 0;
    bench->work.kernels = kernels;
    bench->gd_least_ns = UINT64_MAX;
    struct bench_case one = {
        .name = name,
        .item = "kernel",
        .items = kernels,
        .pairs = same_cpu,
        .precision = same_cpu ? 0.01 : 0,
        .ours = {.prepare = with_build ? reset : prepare_run,
                 .run = with_build ? build_and_run : run_graph,
                 .verify = verify_ours},
        .yardstick = {.name = "hand-loop",
                      .prepare = same_cpu ? enter_cpu : NULL,
                      .run = run_hand,
                      .verify = same_cpu ? leave_cpu : verify_hand},
        .arg = bench,
    };
    struct bench_result result;
    bool good = bench_run(options, &one, &result);
    if (!with_build) {
        one.name = gd_name;
        one.pairs = 0;
        result.ratio = 0;
        result.min_ns = result.median_ns = (double)bench->gd_least_ns / kernels;
        result.verified = result.verified && bench->gd_least_ns != UINT64_MAX;
        bench_report(options, &one, &result);
    }
    return good;
}

static void report_part(const struct bench_options *options, const char *name, uint32_t kernels, double *ns,
                        uint32_t count)
{
    struct bench_case one = {.name = name, .item = "kernel", .items = kernels};
    struct bench_result result = {.verified = count != 0};
    if (count != 0) {
        bench_sort(ns, count);
        result.min_ns = ns[0] / kernels;
        result.median_ns = ns[count / 2] / kernels;
    }
    bench_report(options, &one, &result);
}

static bool run_to_end(struct submit_bench *bench, const struct bench_options *options, const char *name,
                       gantry_submission submission, uint32_t kernels)
{
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(bench->work.context);
    bench->work.kernels = kernels;
    bench->samples = 0;
    struct bench_case one = {
        .name = name,
        .item = "kernel",
        .items = kernels,
        .ours = {.prepare = prepare_run, .run = run_graph_to_end, .verify = verify_ours},
        .yardstick = {.name = "hand-loop", .run = run_hand_to_end, .verify = verify_hand},
        .arg = bench,
    };
    bool good = bench_submit_ok(gantry_dispatcher_set_submission(dispatcher, submission)) &&
                bench_run(options, &one, NULL);
    return bench_submit_ok(gantry_dispatcher_set_submission(dispatcher, GANTRY_SUBMISSION_STREAMS)) && good;
}

/* Measure graphs mode, and where its time goes. */
static bool run_graphs(struct submit_bench *bench, const struct bench_options *options, uint32_t kernels,
                       const char *name, const char *calls, const char *launch)
{
    bench->most_samples = options->runs;
    bench->calls_ns = calloc(2 * (size_t)options->runs, sizeof(double));
    if (bench->calls_ns == NULL) {
        return false;
    }
    bench->launch_ns = bench->calls_ns + options->runs;
    bool good = run_to_end(bench, options, name, GANTRY_SUBMISSION_GRAPHS, kernels);
    report_part(options, calls, kernels, bench->calls_ns, bench->samples);
    report_part(options, launch, kernels, bench->launch_ns, bench->samples);
    bench->most_samples = 0;
    free(bench->calls_ns);
    return good;
}

/* Measure graphs mode against the part of it that the device and one launch take. */
static bool run_kept(struct submit_bench *bench, const struct bench_options *options, const char *name,
                     uint32_t kernels, uint32_t changed)
{
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(bench->work.context);
    bench->work.kernels = kernels;
    if (!bench_submit_keep(&bench->work, &bench->kept)) {
        return false;
    }
    bench->work.changed = changed;
    struct bench_case one = {
        .name = name,
        .item = "kernel",
        .items = kernels,
        .ours = {.prepare = prepare_run, .run = run_graph_to_end, .verify = verify_ours},
        .yardstick = {.name = "kept-graph", .run = run_kept_to_end, .verify = verify_hand},
        .arg = bench,
    };
    bool good = bench_submit_ok(gantry_dispatcher_set_submission(dispatcher, GANTRY_SUBMISSION_GRAPHS)) &&
                bench_run(options, &one, NULL);
    bench->work.changed = 0;
    good = bench_submit_drop_kept(&bench->work, bench->kept) && good;
    return bench_submit_ok(gantry_dispatcher_set_submission(dispatcher, GANTRY_SUBMISSION_STREAMS)) && good;
}

static bool measure_same_cpu(struct submit_bench *bench, const struct bench_options *options, bool own)
{
    if (!bench_submit_pin(&bench->work)) {
        cli_error("bench: threads cannot be pinned here: no same-cpu rows");
        bench->work.cpu = -1;
        return true;
    }
    bool good;
    if (own) {
        good = run_case(bench, options, "submit/same-cpu-own-cost", "submit/same-cpu-own-dispatcher", 1000);
    } else {
        good = run_case(bench, options, "submit/same-cpu-streams-200", "submit/same-cpu-dispatcher-200", 200);
        good &=
            run_case(bench, options, "submit/same-cpu-streams-1000", "submit/same-cpu-dispatcher-1000", 1000);
    }
    good = bench_submit_unpin(&bench->work) && good;
    bench->work.cpu = -1;
    return good;
}

/* Measure both sides on one CPU, if there are others.  The dispatcher's thread does our side's work, which
 * else a guest would do, on the caller's CPU. */
static bool run_same_cpu(struct submit_bench *bench, const struct bench_options *options, bool own)
{
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *const usual = bench->work.manager;
    manager.cpu_dispatcher = bench->work.cpus;
    manager.gpu_dispatcher = gantry_context_dispatcher(bench->work.context);
    manager.dispatcher_only = true;
    if (!bench_submit_ok(gantry_taskman_create(&manager, &bench->work.manager))) {
        bench->work.manager = usual;
        return false;
    }
    const bool good = measure_same_cpu(bench, options, own);
    gantry_taskman_destroy(bench->work.manager);
    bench->work.manager = usual;
    return good;
}

static bool prepare_ordered(void *arg)
{
    struct submit_bench *bench = arg;
    bench->work.manager = bench->ordered;
    return prepare_run(arg);
}

static bool prepare_independent(void *arg)
{
    struct submit_bench *bench = arg;
    bench->work.manager = bench->independent;
    return prepare_run(arg);
}

/* What the order between steps costs the host.  The device is done with the step before, but the dispatcher
 * does not know it yet. */
static bool run_ordered(struct submit_bench *bench, const struct bench_options *options, const char *name,
                        uint32_t kernels)
{
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    manager.cpu_dispatcher = bench->work.cpus;
    manager.gpu_dispatcher = gantry_context_dispatcher(bench->work.context);
    manager.independent_steps = true;
    if (!bench_submit_ok(gantry_taskman_create(&manager, &bench->independent))) {
        return false;
    }
    bench->work.kernels = kernels;
    bench->ordered = bench->work.manager;
    struct bench_case one = {
        .name = name,
        .item = "kernel",
        .items = kernels,
        .pairs = 4,
        .ours = {.prepare = prepare_ordered, .run = run_graph, .verify = verify_ours},
        .yardstick = {.name = "independent",
                      .prepare = prepare_independent,
                      .run = run_graph,
                      .verify = verify_ours},
        .arg = bench,
    };
    bool good = bench_run(options, &one, NULL);
    bench->work.manager = bench->ordered;
    gantry_taskman_destroy(bench->independent);
    return good;
}

/* Measure with no argument, a tenth of the arguments, and all of them changed from run to run. */
static bool run_changed(struct submit_bench *bench, const struct bench_options *options)
{
    static const struct {
        uint32_t kernels, changed;
        const char *kept, *done;
    } rows[] = {
        {200, 0, "submit/kept-graph-200", NULL},
        {200, 10, "submit/kept-graph-200-tenth", "submit/done-graphs-200-tenth"},
        {200, 100, "submit/kept-graph-200-all", "submit/done-graphs-200-all"},
        {1000, 0, "submit/kept-graph-1000", NULL},
        {1000, 10, "submit/kept-graph-1000-tenth", "submit/done-graphs-1000-tenth"},
        {1000, 100, "submit/kept-graph-1000-all", "submit/done-graphs-1000-all"},
    };
    bool good = true;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        good &= run_kept(bench, options, rows[i].kept, rows[i].kernels, rows[i].changed);
        bench->work.changed = rows[i].changed;
        if (rows[i].done != NULL) {
            good &= run_to_end(bench, options, rows[i].done, GANTRY_SUBMISSION_GRAPHS, rows[i].kernels);
        }
        bench->work.changed = 0;
    }
    return good;
}

static bool run_cases(struct submit_bench *bench, const struct bench_options *options)
{
    bool good = true;
    good &= run_case(bench, options, "submit/streams-200", "submit/dispatcher-200", 200);
    good &= run_case(bench, options, "submit/streams-1000", "submit/dispatcher-1000", 1000);
    good &= run_same_cpu(bench, options, false);
    good &= run_ordered(bench, options, "submit/ordered-200", 200);
    good &= run_ordered(bench, options, "submit/ordered-1000", 1000);
    good &= run_case(bench, options, "submit/step-200", NULL, 200);
    good &= run_case(bench, options, "submit/step-1000", NULL, 1000);
    good &= run_to_end(bench, options, "submit/done-streams-200", GANTRY_SUBMISSION_STREAMS, 200);
    good &= run_graphs(bench, options, 200, "submit/done-graphs-200", "submit/calls-graphs-200",
                       "submit/launch-graphs-200");
    good &= run_to_end(bench, options, "submit/done-streams-1000", GANTRY_SUBMISSION_STREAMS, 1000);
    good &= run_graphs(bench, options, 1000, "submit/done-graphs-1000", "submit/calls-graphs-1000",
                       "submit/launch-graphs-1000");
    good &= run_changed(bench, options);
    good &= bench_submit_copies(&bench->work, options, "submit/done-copies-1000", 1000);
    if (bench->work.cuda.emulator_set_noop != NULL) {
        bench->work.cuda.emulator_set_noop(true);
        bench->work.executes = false;
        good &= run_case(bench, options, "submit/own-cost-1000", "submit/own-dispatcher-1000", 1000);
        good &= run_case(bench, options, "submit/own-cost-10000", "submit/own-dispatcher-10000", 10000);
        good &= run_same_cpu(bench, options, true);
        bench->work.cuda.emulator_set_noop(false);
    }
    return good;
}

static bool bench_submit(const struct bench_options *options)
{
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    struct submit_bench *bench = calloc(1, sizeof(*bench));
    if (bench == NULL) {
        return false;
    }
    context.driver = options->driver;
    context.submission = GANTRY_SUBMISSION_STREAMS; /* rows of graphs change it for themselves */
    bool good = bench_submit_open(&bench->work, &context) && run_cases(bench, options);
    bench_submit_close(&bench->work);
    free(bench);
    return good;
}

const struct gantry_bench gantry_bench_submit = {
    .name = "submit",
    .summary = "host time to get kernels to the device, against streams written by hand",
    .help =
        "  streams-N        a step of N kernels, until the last task is released\n"
        "  done-streams-N   the same until the device is done\n"
        "  done-graphs-N    the same, launched as graphs\n"
        "  kept-graph-N     the same, beside a graph that was made once by hand\n"
        "  done-copies-N    N kernels as graphs, in 8 pipelines that copy 64 KiB to the device and back, "
        "and\n"
        "                   have a completion each, until the CPU tasks behind these have run\n"
        "  ...-tenth, -all  a tenth of the arguments differ from run to run, or all\n"
        "  same-cpu-...     both sides on one CPU, in pairs, until the ratio is known to 0.01 or --seconds\n"
        "                   (8) are over: the rows to compare versions by\n"
        "  own-dispatcher-N the dispatcher's own time, with callbacks that launch nothing\n"
        "\n"
        "The yardstick is a loop over 8 streams with events, by hand.\n",
    .main = bench_submit,
};
