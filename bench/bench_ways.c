/* `gantry bench ways`: AUTO against the better one of streams and graphs, for steps that repeat, change, or
 * never come again.
 *
 * The work is that of `gantry bench submit`: kernels in 8 pipelines (submit_work.h), one task each.  A row is
 * a sequence of steps in a context of its own, which has no graphs yet.  A step is timed from its start until
 * the device is done; building its tasks is not timed, and its result is checked.
 *
 * Each row is three lines: the mean of all steps, the mean of the first 20, and the longest but 1 % of the
 * others. The yardstick is streams or graphs, whichever has the least mean in that line. */
#include "bench/submit_work.h"
#include "cli/messages.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>

enum { FIRST = 20, STEPS = 200, FEW_STEPS = 40, MOST_ROUNDS = 10, RUNS_EACH = 5 };
enum way { STREAMS, GRAPHS, AUTO, WAYS };
enum value { MEAN, FIRST_STEPS, P99, VALUES };

static const gantry_submission submissions[WAYS] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS,
                                                    GANTRY_SUBMISSION_AUTO};
static const char *const way_names[WAYS] = {"streams", "graphs", "auto"};
static const char *const value_names[VALUES] = {"", "-first", "-p99"};

/* The step `number` of a row has `kernels` kernels, and `more` more for each of `shapes` shapes in turn; 0:
 * no two steps are alike. */
static const struct row {
    const char *name;
    uint32_t kernels, shapes, more, changed;
    bool is_frozen, is_stable;
} rows[] = {
    {"ways/equal-1", 1, 1, 0, 0, false, false},
    {"ways/equal-2", 2, 1, 0, 0, false, false},
    {"ways/equal-4", 4, 1, 0, 0, false, false},
    {"ways/equal-10", 10, 1, 0, 0, false, false},
    {"ways/equal-100", 100, 1, 0, 0, false, false},
    {"ways/equal-1000", 1000, 1, 0, 0, false, false},
    {"ways/changed-1000", 1000, 1, 0, 100, false, false},
    {"ways/frozen-100", 100, 1, 0, 0, true, false},
    {"ways/stable-100", 100, 1, 0, 0, true, true},
    {"ways/two-shapes", 200, 2, 50, 0, false, false},
    {"ways/eight-shapes", 200, 8, 20, 0, false, false},
    {"ways/never-again-small", 8, 0, 1, 0, false, false},
    {"ways/never-again", 200, 0, 3, 0, false, false},
};

struct ways_bench {
    struct submit_work work;
    uint32_t steps; /* of a row */
    uint64_t ns[STEPS];
    double values[WAYS][VALUES][MOST_ROUNDS];
};

static uint32_t kernels_of(const struct row *row, uint32_t step)
{
    return row->kernels + row->more * (row->shapes != 0 ? step % row->shapes : step);
}

static bool run_step(struct ways_bench *bench, const struct row *row, uint32_t step)
{
    struct submit_work *work = &bench->work;
    work->kernels = kernels_of(row, step);
    bool good = true;
    if (!row->is_frozen || step == 0) {
        good = bench_submit_ok(gantry_taskman_reset(work->manager)) && bench_submit_build(work);
    }
    if (row->is_frozen && step == 0) {
        good = good && bench_submit_ok(gantry_taskman_freeze(work->manager));
    }
    work->turn++;
    const uint64_t begin = gy_clock_ns();
    good = good && bench_submit_run(work) && RAW(&work->cuda, cuCtxSynchronize());
    bench->ns[step] = gy_clock_ns() - begin;
    return good && bench_submit_check(work);
}

static double mean_of(const uint64_t *ns, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += (double)ns[i];
    }
    return sum / count;
}

/* One sequence of steps in a new context. */
static bool run_round(struct ways_bench *bench, const struct bench_options *options, const struct row *row,
                      enum way way, uint32_t round)
{
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    context.driver = options->driver;
    context.submission = submissions[way];
    bool good = bench_submit_open(&bench->work, &context);
    bench->work.changed = row->changed;
    bench->work.stable = row->is_stable;
    for (uint32_t step = 0; step < bench->steps && good; step++) {
        good = run_step(bench, row, step);
    }
    good = bench_submit_ok(gantry_taskman_reset(bench->work.manager)) && good;
    bench_submit_close(&bench->work);
    bench->values[way][MEAN][round] = mean_of(bench->ns, bench->steps);
    bench->values[way][FIRST_STEPS][round] = mean_of(bench->ns, FIRST);
    bench_sort_times(bench->ns + FIRST, bench->steps - FIRST);
    bench->values[way][P99][round] = (double)bench->ns[FIRST + (bench->steps - FIRST) * 99 / 100];
    return good;
}

static void report(struct ways_bench *bench, const struct bench_options *options, const struct row *row,
                   uint32_t rounds, bool verified)
{
    for (enum value value = MEAN; value < VALUES; value++) {
        char name[64];
        for (enum way way = STREAMS; way < WAYS; way++) {
            bench_sort(bench->values[way][value], rounds);
        }
        const double *streams = bench->values[STREAMS][value], *graphs = bench->values[GRAPHS][value];
        const enum way best = streams[rounds / 2] < graphs[rounds / 2] ? STREAMS : GRAPHS;
        const double *ours = bench->values[AUTO][value], *theirs = bench->values[best][value];
        snprintf(name, sizeof(name), "%s%s", row->name, value_names[value]);
        const struct bench_case one = {.name = name, .item = "step", .yardstick = {.name = way_names[best]}};
        const struct bench_result result = {.min_ns = ours[rounds / 2],
                                            .median_ns = ours[rounds / 2],
                                            .yardstick_min_ns = theirs[rounds / 2],
                                            .yardstick_median_ns = theirs[rounds / 2],
                                            .ratio = ours[rounds / 2] / theirs[rounds / 2],
                                            .verified = verified};
        bench_report(options, &one, &result);
    }
}

static bool run_row(struct ways_bench *bench, const struct bench_options *options, const struct row *row)
{
    const uint32_t wanted = options->runs / RUNS_EACH, rounds = wanted == 0            ? 1
                                                                : wanted < MOST_ROUNDS ? wanted
                                                                                       : MOST_ROUNDS;
    bool good = true;
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t k = 0; k < WAYS && good; k++) { /* each way is the first one in turn */
            good = run_round(bench, options, row, (enum way)((k + round) % WAYS), round);
        }
    }
    report(bench, options, row, rounds, good);
    return good;
}

static bool bench_ways(const struct bench_options *options)
{
    struct ways_bench *bench = calloc(1, sizeof(*bench));
    if (bench == NULL) {
        cli_error("bench: out of memory");
        return false;
    }
    bool good = true;
    bench->steps = options->runs < RUNS_EACH ? FEW_STEPS : STEPS;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        good = run_row(bench, options, &rows[i]) && good;
    }
    free(bench);
    return good;
}

const struct gantry_bench gantry_bench_ways = {
    .name = "ways",
    .summary = "AUTO against the better one of streams and graphs, from the first step on",
    .help =
        "  equal-N          steps of N kernels that repeat\n"
        "  changed-1000     the same, and each kernel has another argument than in the step before\n"
        "  frozen-100       steps of tasks that are built once; stable-100: and declared stable\n"
        "  two-shapes, eight-shapes   steps of different numbers of kernels in turn\n"
        "  never-again      steps of which no two are alike, 200 and more kernels; -small: 8 and more\n"
        "\n"
        "Each row is 200 steps in a new context, three times with --runs 15: once for each 5 runs, and with\n"
        "less than 5 it is 40 steps.  Its lines, medians of these: the mean time of a step until the device\n"
        "is done; -first: of the first 20 steps; -p99: the time that 99 of 100 of the others do not exceed.\n"
        "The yardstick is streams or graphs, whichever takes less time in that line.\n",
    .main = bench_ways,
};
