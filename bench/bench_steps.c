/* SPDX-License-Identifier: MIT */
/* `gantry bench steps`: nanoseconds per GPU task, for steps of 1 to 10000 tasks, until the device is done.
 *
 * The work is that of `gantry bench submit`: kernels in 8 pipelines (submit_work.h), with the same arguments
 * in each step.
 *
 * streams-N: the tasks are built anew for each step, before the clock starts, and each kernel is launched on
 * a stream.  patched-N: the same, as graphs: the executable graph of an earlier step is launched.  frozen-N:
 * as graphs, and the tasks are built once and frozen.  Yardsticks: the loop over 8 streams written by hand,
 * for streams-N, and a graph that was captured once by hand and is launched as it is, for the others. */
#include "bench/submit_work.h"
#include "cli/messages.h"

#include <stdlib.h>

struct steps_bench {
    struct submit_work work;
    gantry_dispatcher_stats before; /* at the start of a run of ours */
    CUgraphExec captured;           /* by hand */
};

static bool read_stats(struct steps_bench *bench, gantry_dispatcher_stats *out)
{
    *out = (gantry_dispatcher_stats){.struct_size = sizeof(*out)};
    return bench_submit_ok(gantry_dispatcher_get_stats(gantry_context_dispatcher(bench->work.context), out));
}

/* ---- a run --------------------------------------------------------------------------------------- */

static bool prepare_frozen(void *arg)
{
    struct steps_bench *bench = arg;
    return read_stats(bench, &bench->before);
}

static bool prepare_new(void *arg)
{
    struct steps_bench *bench = arg;
    return prepare_frozen(arg) && bench_submit_ok(gantry_taskman_reset(bench->work.manager)) &&
           bench_submit_build(&bench->work);
}

static bool run_ours(void *arg)
{
    struct steps_bench *bench = arg;
    return bench_submit_run(&bench->work) && RAW(&bench->work.cuda, cuCtxSynchronize());
}

static bool run_loop(void *arg)
{
    struct steps_bench *bench = arg;
    return bench_submit_by_hand(&bench->work) && RAW(&bench->work.cuda, cuCtxSynchronize());
}

static bool run_captured(void *arg)
{
    struct steps_bench *bench = arg;
    return bench_submit_launch_kept(&bench->work, bench->captured) &&
           RAW(&bench->work.cuda, cuCtxSynchronize());
}

static bool verify_hand(void *arg)
{
    return bench_submit_check(&((struct steps_bench *)arg)->work);
}

static bool verify_ours(void *arg)
{
    struct steps_bench *bench = arg;
    gantry_dispatcher_stats now;
    return read_stats(bench, &now) && now.kernels - bench->before.kernels == bench->work.kernels &&
           bench_submit_check(&bench->work);
}

/* ---- rows ---------------------------------------------------------------------------------------- */

enum row { STREAMS, PATCHED, FROZEN, ROWS };

static const struct size {
    uint32_t kernels;
    const char *names[ROWS];
} sizes[] = {
    {1, {"steps/streams-1", "steps/patched-1", "steps/frozen-1"}},
    {10, {"steps/streams-10", "steps/patched-10", "steps/frozen-10"}},
    {100, {"steps/streams-100", "steps/patched-100", "steps/frozen-100"}},
    {1000, {"steps/streams-1000", "steps/patched-1000", "steps/frozen-1000"}},
    {10000, {"steps/streams-10000", "steps/patched-10000", "steps/frozen-10000"}},
};

static const struct bench_side by_hand[ROWS] = {
    [STREAMS] = {.name = "hand-loop", .run = run_loop, .verify = verify_hand},
    [PATCHED] = {.name = "hand-graph", .run = run_captured, .verify = verify_hand},
    [FROZEN] = {.name = "hand-graph", .run = run_captured, .verify = verify_hand},
};

static bool run_row(struct steps_bench *bench, const struct bench_options *options, const struct size *size,
                    enum row row)
{
    gantry_dispatcher *dispatcher = gantry_context_dispatcher(bench->work.context);
    struct bench_case one = {
        .name = size->names[row],
        .item = "task",
        .items = size->kernels,
        .ours = {.prepare = row == FROZEN ? prepare_frozen : prepare_new,
                 .run = run_ours,
                 .verify = verify_ours},
        .yardstick = by_hand[row],
        .arg = bench,
    };
    bool good = bench_submit_ok(gantry_dispatcher_set_submission(
        dispatcher, row == STREAMS ? GANTRY_SUBMISSION_STREAMS : GANTRY_SUBMISSION_GRAPHS));
    if (row == FROZEN) {
        good = good && prepare_new(bench) && bench_submit_ok(gantry_taskman_freeze(bench->work.manager));
    }
    return good && bench_run(options, &one, NULL);
}

static bool run_size(struct steps_bench *bench, const struct bench_options *options, const struct size *size)
{
    bench->work.kernels = size->kernels;
    if (!bench_submit_keep(&bench->work, &bench->captured)) {
        return false;
    }
    bool good = true;
    for (enum row row = STREAMS; row < ROWS; row++) {
        good = run_row(bench, options, size, row) && good;
    }
    good = bench_submit_ok(gantry_taskman_reset(bench->work.manager)) && good;
    return bench_submit_drop_kept(&bench->work, bench->captured) && good;
}

static bool bench_steps(const struct bench_options *options)
{
    struct steps_bench *bench = calloc(1, sizeof(*bench));
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    if (bench == NULL) {
        cli_error("bench: out of memory");
        return false;
    }
    context.driver = options->driver;
    bool good = bench_submit_open(&bench->work, &context);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && good; i++) {
        good = run_size(bench, options, &sizes[i]);
    }
    bench_submit_close(&bench->work);
    free(bench);
    return good;
}

const struct gantry_bench gantry_bench_steps = {
    .name = "steps",
    .summary = "time per GPU task in steps of 1 to 10000 tasks, against loops and graphs by hand",
    .help = "  streams-N        a step of N tasks, until the device is done\n"
            "  patched-N        the same, as graphs of which earlier steps have left the executable ones\n"
            "  frozen-N         the same, of tasks that are built once and frozen\n"
            "\n"
            "The yardsticks are a loop over 8 streams with events, by hand, for streams-N, and for the\n"
            "others a graph that is captured from that loop once and launched as it is.\n",
    .main = bench_steps,
};
