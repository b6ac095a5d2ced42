/* `gantry bench ways`: AUTO against the better one of streams and graphs, for steps that repeat, change, or
 * never come again.
 *
 * The work is that of `gantry bench submit`: kernels in 8 pipelines (submit_work.h), one task each.  A row is
 * a sequence of steps in a context of its own, which has no graphs yet.  A step is timed from its start until
 * the device is done; building its tasks is not timed, and its result is checked.
 *
 * The ways take turns: a round is one sequence of each.  Each row is three lines: the mean of all steps, the
 * mean of the first 20, and the longest but 1 % of the others.  The yardstick is streams or graphs, whichever
 * has the least median of rounds in that line; the ratio is the median of the rounds' ratios.  A row also
 * says which way AUTO's steps took in its last round, by the dispatcher's statistics. */
#include "bench/submit_work.h"
#include "cli/messages.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 20, STEPS = 200, FEW_STEPS = 40, LEAST_ROUNDS = 3, MOST_ROUNDS = 100, SECONDS = 2 };
enum { TAKEN_BYTES = 160, MOST_TAKEN = 10 };
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
    bool is_frozen, is_stable, is_scrambled;
} rows[] = {
    {"ways/equal-1", 1, 1, 0, 0, false, false, false},
    {"ways/equal-2", 2, 1, 0, 0, false, false, false},
    {"ways/equal-4", 4, 1, 0, 0, false, false, false},
    {"ways/equal-10", 10, 1, 0, 0, false, false, false},
    {"ways/equal-100", 100, 1, 0, 0, false, false, false},
    {"ways/equal-1000", 1000, 1, 0, 0, false, false, false},
    {"ways/changed-1000", 1000, 1, 0, 100, false, false, false},
    {"ways/frozen-100", 100, 1, 0, 0, true, false, false},
    {"ways/stable-100", 100, 1, 0, 0, true, true, false},
    {"ways/two-shapes", 200, 2, 50, 0, false, false, false},
    {"ways/eight-shapes", 200, 8, 20, 0, false, false, false},
    {"ways/never-again-small", 8, 0, 1, 0, false, false, false},
    {"ways/never-again", 200, 0, 3, 0, false, false, false},
    {"ways/never-alike-small", 8, 0, 1, 0, false, false, true},
    {"ways/never-alike", 200, 0, 3, 0, false, false, true},
};

struct ways_bench {
    struct submit_work work;
    uint32_t steps; /* of a row */
    uint64_t ns[STEPS];
    char took[STEPS]; /* see way_of() */
    gantry_dispatcher_stats stats;
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

/* Which way has the step taken since the statistics were read last?  's' streams, 'k' graphs that were kept,
 * 'm' with one that was made, 'u' with one that was updated as a whole, 'b' both streams and graphs. */
static char way_of(struct ways_bench *bench)
{
    const gantry_dispatcher_stats was = bench->stats;
    gantry_dispatcher_stats *now = &bench->stats;
    now->struct_size = sizeof(*now);
    if (!bench_submit_ok(gantry_dispatcher_get_stats(gantry_context_dispatcher(bench->work.context), now))) {
        return '?';
    }
    const uint64_t graphs = now->graph_launches - was.graph_launches;
    const uint64_t replays = now->graph_replays - was.graph_replays;
    if (graphs + replays == 0) {
        return 's';
    }
    if (replays == 0 && now->graph_nodes - was.graph_nodes < bench->work.kernels) {
        return 'b';
    }
    if (now->graph_instantiations != was.graph_instantiations) {
        return 'm';
    }
    return now->graph_patches - was.graph_patches == graphs ? 'k' : 'u';
}

/* The ways of the steps, in their order: "1s 1m 38k". */
static void describe(const struct ways_bench *bench, char text[static TAKEN_BYTES])
{
    size_t used = 0;
    uint32_t from = 0;
    for (uint32_t taken = 0; from < bench->steps && taken < MOST_TAKEN; taken++) {
        uint32_t to = from;
        while (to < bench->steps && bench->took[to] == bench->took[from]) {
            to++;
        }
        used += (size_t)snprintf(text + used, TAKEN_BYTES - used, "%s%u%c", taken != 0 ? " " : "", to - from,
                                 bench->took[from]);
        from = to;
    }
    uint32_t rest[128] = {0};
    for (uint32_t i = from; i < bench->steps; i++) {
        rest[(unsigned char)bench->took[i] % 128]++;
    }
    for (const char *way = "skmub"; *way != '\0'; way++) {
        if (rest[(unsigned char)*way] != 0) {
            used += (size_t)snprintf(text + used, TAKEN_BYTES - used, "%s%u%c", *way == 's' ? " ... " : " + ",
                                     rest[(unsigned char)*way], *way);
        }
    }
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
static bool run_sequence(struct ways_bench *bench, const struct bench_options *options, const struct row *row,
                         enum way way, uint32_t round)
{
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    context.driver = options->driver;
    context.submission = submissions[way];
    bool good = bench_submit_open(&bench->work, &context);
    bench->work.changed = row->changed;
    bench->work.stable = row->is_stable && way != STREAMS; /* there it means nothing, and is told so */
    bench->work.scrambled = row->is_scrambled;
    memset(&bench->stats, 0, sizeof(bench->stats));
    for (uint32_t step = 0; step < bench->steps && good; step++) {
        good = run_step(bench, row, step);
        bench->took[step] = good ? way_of(bench) : '?';
    }
    good = bench_submit_ok(gantry_taskman_reset(bench->work.manager)) && good;
    bench_submit_close(&bench->work);
    bench->values[way][MEAN][round] = mean_of(bench->ns, bench->steps);
    bench->values[way][FIRST_STEPS][round] = mean_of(bench->ns, FIRST);
    bench_sort_times(bench->ns + FIRST, bench->steps - FIRST);
    bench->values[way][P99][round] = (double)bench->ns[FIRST + (bench->steps - FIRST) * 99 / 100];
    return good;
}

struct line {
    enum way best;
    struct bench_median of[WAYS], ratio;
};

static struct line line_of(const struct ways_bench *bench, enum value value, uint32_t rounds)
{
    struct line line;
    double sorted[MOST_ROUNDS];
    for (enum way way = STREAMS; way < WAYS; way++) {
        memcpy(sorted, bench->values[way][value], rounds * sizeof(sorted[0]));
        bench_sort(sorted, rounds);
        line.of[way] = bench_median_of(sorted, rounds);
    }
    line.best = line.of[STREAMS].is < line.of[GRAPHS].is ? STREAMS : GRAPHS;
    for (uint32_t i = 0; i < rounds; i++) {
        sorted[i] = bench->values[AUTO][value][i] / bench->values[line.best][value][i];
    }
    bench_sort(sorted, rounds);
    line.ratio = bench_median_of(sorted, rounds);
    return line;
}

static void report(const struct ways_bench *bench, const struct bench_options *options, const struct row *row,
                   uint32_t rounds, const char *taken)
{
    for (enum value value = MEAN; value < VALUES; value++) {
        const struct line line = line_of(bench, value, rounds);
        char name[64];
        snprintf(name, sizeof(name), "%s%s", row->name, value_names[value]);
        if (options->json) {
            fprintf(options->out,
                    "{\"name\":\"%s\",\"value\":%.6g,\"unit\":\"ns/step\",\"yardstick\":\"%s\","
                    "\"yardstick_value\":%.6g,\"ratio\":%.4g,\"ratio_low\":%.4g,\"ratio_high\":%.4g,"
                    "\"streams\":%.6g,\"graphs\":%.6g,\"rounds\":%u,\"taken\":\"%s\",",
                    name, line.of[AUTO].is, way_names[line.best], line.of[line.best].is, line.ratio.is,
                    line.ratio.low, line.ratio.high, line.of[STREAMS].is, line.of[GRAPHS].is, rounds, taken);
            bench_json_end(options, true);
        } else if (options->emulated) {
            fprintf(options->out, "%-36s right   %s\n", name, value == MEAN ? taken : "");
        } else {
            fprintf(options->out,
                    "%-28s %12.0f ns/step   streams %10.0f graphs %10.0f   ratio to %s %.3f (%.3f to %.3f)   "
                    "%s\n",
                    name, line.of[AUTO].is, line.of[STREAMS].is, line.of[GRAPHS].is, way_names[line.best],
                    line.ratio.is, line.ratio.low, line.ratio.high, value == MEAN ? taken : "");
        }
    }
    fflush(options->out);
}

static bool run_row(struct ways_bench *bench, const struct bench_options *options, const struct row *row)
{
    const uint32_t most = options->runs < MOST_ROUNDS ? options->runs : MOST_ROUNDS;
    const uint64_t begin = gy_clock_ns();
    const uint64_t ns = (options->seconds != 0 ? options->seconds : SECONDS) * UINT64_C(1000000000);
    char taken[TAKEN_BYTES];
    uint32_t round = 0;
    while (round < most && (round < LEAST_ROUNDS || gy_clock_ns() - begin < ns)) {
        cli_progress("%s: round %u of at most %u", row->name, round + 1, most);
        for (uint32_t k = 0; k < WAYS; k++) { /* each way is the first one in turn */
            const enum way way = (enum way)((k + round) % WAYS);
            if (!run_sequence(bench, options, row, way, round)) {
                bench_report(options, &(struct bench_case){.name = row->name, .item = "step"},
                             &(struct bench_result){.verified = false});
                return false;
            }
            if (way == AUTO) {
                describe(bench, taken);
            }
        }
        round++;
    }
    cli_progress_end();
    report(bench, options, row, round, taken);
    return true;
}

/* While this context is open the device's primary context stays, and opening others is quick. */
static bool open_keeper(const struct bench_options *options, gantry_context **keeper)
{
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    context.driver = options->driver;
    return bench_ok("ways", gantry_context_create(&context, keeper));
}

static bool bench_ways(const struct bench_options *options)
{
    struct ways_bench *bench = calloc(1, sizeof(*bench));
    if (bench == NULL) {
        cli_error("bench: out of memory");
        return false;
    }
    gantry_context *keeper = NULL;
    const bool is_open = open_keeper(options, &keeper);
    bool good = is_open;
    bench->steps = options->runs < LEAST_ROUNDS ? FEW_STEPS : STEPS;
    for (size_t i = 0; is_open && i < sizeof(rows) / sizeof(rows[0]); i++) {
        good = run_row(bench, options, &rows[i]) && good;
    }
    gantry_context_destroy(keeper);
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
        "  never-again      steps of which no two are alike, 200 and more kernels; -small: 8 and more; each\n"
        "                   begins as the one before\n"
        "  never-alike      the same with edges by chance, so that no two begin alike\n"
        "\n"
        "A row is 200 steps in a new context each way, up to --runs times in turn, but at least 3 times and\n"
        "then no longer than --seconds (2); with --runs 1 or 2 it is 40 steps.  Its lines: the mean time of "
        "a\n"
        "step until the device is done; -first: of the first 20 steps; -p99: the time that 99 of 100 of the\n"
        "others do not exceed.  Times are medians.  The ratio is that of AUTO to streams or graphs, "
        "whichever\n"
        "takes less time in that line: the median, and where it lies in 95 of 100 cases.  At the end stands\n"
        "which way AUTO's steps took, one after the other: s on streams, k as a graph that was kept, m as "
        "one\n"
        "that was made, u as one that was updated as a whole, b partly on streams; 1s 1m 198k.\n",
    .main = bench_ways,
};
