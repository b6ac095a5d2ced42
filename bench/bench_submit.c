/* `gantry bench submit`: what it costs the host to get kernels to the device.
 *
 * streams-N: from start to the last task released; dispatcher-N: of that, the least time the dispatcher's
 * thread spent in its phases; step-N: with the building of the graph.  done-streams-N, done-graphs-N: until
 * the device has finished, submitted as streams and as graphs.
 *
 * One step is `kernels` launches in 8 pipelines; every tenth launch of a pipeline also waits for its
 * neighbour's launch before.  Ours: a task per launch, timed from start to the last task released.
 * Yardstick: the loop an engineer writes by hand, 8 streams with events for the cross edges.  The kernel
 * increments its pipeline's cell, so a lost, doubled or unordered launch shows.
 *
 * On the emulated driver launches are accepted and not executed, which leaves the dispatcher's own time. */
#include "bench/submit_work.h"

#include <stdlib.h>

struct submit_bench {
    struct submit_work work;
    gantry_dispatcher_stats before; /* at the start of a run of ours */
    uint64_t gd_least_ns;           /* least time of the dispatcher's thread in its phases, over the runs */
};

/* ---- ours ---------------------------------------------------------------------------------- */

/* The former run's time on the dispatcher's thread; by now that thread has left its phases. */
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

static bool reset(void *arg)
{
    struct submit_bench *bench = arg;
    gantry_dispatcher_stats now = {.struct_size = sizeof(now)};
    if (!bench_submit_ok(gantry_dispatcher_get_stats(gantry_context_dispatcher(bench->work.context), &now)) ||
        !bench_submit_ok(gantry_taskman_reset(bench->work.manager))) {
        return false;
    }
    note_gd_time(bench, &now);
    bench->before = now;
    return true;
}

static bool prepare_run(void *arg)
{
    return reset(arg) && bench_submit_build(&((struct submit_bench *)arg)->work);
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

/* ---- checks -------------------------------------------------------------------------------- */

static bool verify_hand(void *arg)
{
    return bench_submit_check(&((struct submit_bench *)arg)->work);
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
    bench->work.kernels = kernels;
    bench->gd_least_ns = UINT64_MAX;
    struct bench_case one = {
        .name = name,
        .item = "kernel",
        .items = kernels,
        .ours = {.prepare = with_build ? reset : prepare_run,
                 .run = with_build ? build_and_run : run_graph,
                 .verify = verify_ours},
        .yardstick = {.name = "hand-loop", .run = run_hand, .verify = verify_hand},
        .arg = bench,
    };
    struct bench_result result;
    bool good = bench_run(options, &one, &result);
    if (!with_build) {
        one.name = gd_name;
        result.min_ns = result.median_ns = (double)bench->gd_least_ns / kernels;
        result.verified = result.verified && bench->gd_least_ns != UINT64_MAX;
        bench_report(options, &one, &result);
    }
    return good;
}

static bool run_to_end(struct submit_bench *bench, const struct bench_options *options, const char *name,
                       gantry_submission submission, uint32_t kernels)
{
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(bench->work.context);
    bench->work.kernels = kernels;
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

static bool run_cases(struct submit_bench *bench, const struct bench_options *options)
{
    bool good = true;
    good &= run_case(bench, options, "submit/streams-200", "submit/dispatcher-200", 200);
    good &= run_case(bench, options, "submit/streams-1000", "submit/dispatcher-1000", 1000);
    good &= run_case(bench, options, "submit/step-200", NULL, 200);
    good &= run_case(bench, options, "submit/step-1000", NULL, 1000);
    good &= run_to_end(bench, options, "submit/done-streams-200", GANTRY_SUBMISSION_STREAMS, 200);
    good &= run_to_end(bench, options, "submit/done-graphs-200", GANTRY_SUBMISSION_GRAPHS, 200);
    good &= run_to_end(bench, options, "submit/done-streams-1000", GANTRY_SUBMISSION_STREAMS, 1000);
    good &= run_to_end(bench, options, "submit/done-graphs-1000", GANTRY_SUBMISSION_GRAPHS, 1000);
    if (bench->work.cuda.emulator_set_noop != NULL) {
        bench->work.cuda.emulator_set_noop(true);
        bench->work.executes = false;
        good &= run_case(bench, options, "submit/own-cost-1000", "submit/own-dispatcher-1000", 1000);
        good &= run_case(bench, options, "submit/own-cost-10000", "submit/own-dispatcher-10000", 10000);
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
    bool good = bench_submit_open(&bench->work, &context) && run_cases(bench, options);
    bench_submit_close(&bench->work);
    free(bench);
    return good;
}

const struct gantry_bench gantry_bench_submit = {
    .name = "submit",
    .summary = "host time to get kernels to the device, against streams written by hand",
    .main = bench_submit,
};
