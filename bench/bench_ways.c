/* SPDX-License-Identifier: MIT */
/* `gantry bench ways`: AUTO against the better one of streams and graphs, for steps that repeat, change, or
 * never come again, and for those in which graphs gain nothing or do harm.
 *
 * A row is a sequence of steps (ways_work.h) in contexts of its own, one for each way, which have no graphs
 * yet.  A step is timed from its start until the device is done; building its tasks is not timed, and its
 * result is checked.  ways_figures.h says how the times are compared.  A row also says which way AUTO's steps
 * took in its last whole round, by the dispatcher's statistics.
 *
 * Half of a row's time goes to rounds that are no longer than the first turn, whose steps differ most. */
#include "bench/ways_figures.h"
#include "bench/ways_work.h"
#include "cli/messages.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_STEPS = 40, LEAST_ROUNDS = 5, MOST_ROUNDS = WAYS_ROUNDS, SECONDS = 2 };
enum { TAKEN_BYTES = 160, MOST_TAKEN = 10 };

static const gantry_submission submissions[WAYS_WAYS] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS,
                                                         GANTRY_SUBMISSION_AUTO};
static const char *const way_names[WAYS_WAYS] = {"streams", "graphs", "auto"};
static const char *const value_names[WAYS_VALUES] = {"", "-first", "-p99"};

static const struct ways_row rows[] = {
    {.name = "ways/equal-1", .kernels = 1, .shapes = 1},
    {.name = "ways/equal-2", .kernels = 2, .shapes = 1},
    {.name = "ways/equal-4", .kernels = 4, .shapes = 1},
    {.name = "ways/equal-10", .kernels = 10, .shapes = 1},
    {.name = "ways/equal-100", .kernels = 100, .shapes = 1},
    {.name = "ways/equal-1000", .kernels = 1000, .shapes = 1},
    {.name = "ways/changed-1000", .kernels = 1000, .shapes = 1, .changed = 100},
    {.name = "ways/frozen-100", .kernels = 100, .shapes = 1, .is_frozen = true},
    {.name = "ways/stable-100", .kernels = 100, .shapes = 1, .is_frozen = true, .is_stable = true},
    {.name = "ways/two-shapes-small", .kernels = 2, .shapes = 2, .more = 6},
    {.name = "ways/eight-shapes-small", .kernels = 2, .shapes = 8, .more = 2},
    {.name = "ways/two-shapes", .kernels = 200, .shapes = 2, .more = 50},
    {.name = "ways/eight-shapes", .kernels = 200, .shapes = 8, .more = 20},
    {.name = "ways/never-again-small", .kernels = 8, .more = 1},
    {.name = "ways/never-again", .kernels = 200, .more = 3},
    {.name = "ways/never-alike-small", .kernels = 8, .more = 1, .is_scrambled = true},
    {.name = "ways/never-alike", .kernels = 200, .more = 3, .is_scrambled = true},
    {.name = "ways/raw-1", .kernels = 1, .shapes = 1, .kind = WAYS_RAW},
    {.name = "ways/raw-8", .kernels = 8, .shapes = 1, .kind = WAYS_RAW},
    {.name = "ways/raw-100", .kernels = 100, .shapes = 1, .kind = WAYS_RAW},
    {.name = "ways/capturable-8", .kernels = 8, .shapes = 1, .kind = WAYS_CAPTURABLE},
    {.name = "ways/capturable-100", .kernels = 100, .shapes = 1, .kind = WAYS_CAPTURABLE},
    {.name = "ways/host-8", .kernels = 8, .shapes = 1, .kind = WAYS_HOST},
    {.name = "ways/mixed-19", .kernels = 19, .shapes = 1, .kind = WAYS_MIXED},
    {.name = "ways/uneven-6", .kernels = 6, .shapes = 1, .kind = WAYS_UNEVEN},
    {.name = "ways/long-64", .kernels = 64, .shapes = 1, .kind = WAYS_LONG},
    {.name = "ways/partitions-100", .kernels = 100, .shapes = 1, .kind = WAYS_PARTITIONS},
    {.name = "ways/managers-200", .kernels = 200, .shapes = 1, .kind = WAYS_MANAGERS},
    {.name = "ways/loads-100", .kernels = 100, .shapes = 1, .kind = WAYS_LOADS},
    {.name = "ways/some-of-six", .kernels = 34, .kind = WAYS_SOME},
};

struct ways_bench {
    struct ways_scene scenes[WAYS_WAYS];
    struct ways_times times;
    char took[WAYS_STEPS]; /* AUTO's steps, see way_of() */
    gantry_dispatcher_stats stats;
};

/* Which way has the step taken since the statistics were read last?  's' streams, 'k' graphs that were kept,
 * 'm' with one that was made, 'u' with one that was updated as a whole, 'b' both streams and graphs. */
static char way_of(struct ways_bench *bench)
{
    const gantry_dispatcher_stats was = bench->stats;
    gantry_dispatcher_stats *now = &bench->stats;
    struct ways_scene *scene = &bench->scenes[WAYS_AUTO];
    now->struct_size = sizeof(*now);
    if (!bench_submit_ok(gantry_dispatcher_get_stats(gantry_context_dispatcher(scene->work.context), now))) {
        return '?';
    }
    const uint64_t graphs = now->graph_launches - was.graph_launches;
    const uint64_t replays = now->graph_replays - was.graph_replays;
    if (graphs + replays == 0) {
        return 's';
    }
    if (replays == 0 && now->graph_nodes - was.graph_nodes < scene->work.kernels) {
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
    for (uint32_t taken = 0; from < bench->times.steps && taken < MOST_TAKEN; taken++) {
        uint32_t to = from;
        while (to < bench->times.steps && bench->took[to] == bench->took[from]) {
            to++;
        }
        used += (size_t)snprintf(text + used, TAKEN_BYTES - used, "%s%u%c", taken != 0 ? " " : "", to - from,
                                 bench->took[from]);
        from = to;
    }
    uint32_t rest[128] = {0};
    for (uint32_t i = from; i < bench->times.steps; i++) {
        rest[(unsigned char)bench->took[i] % 128]++;
    }
    for (const char *way = "skmub"; *way != '\0'; way++) {
        if (rest[(unsigned char)*way] != 0) {
            used += (size_t)snprintf(text + used, TAKEN_BYTES - used, "%s%u%c", *way == 's' ? " ... " : " + ",
                                     rest[(unsigned char)*way], *way);
        }
    }
}

/* One turn of a way, from the step `from` on; `next` is the first step of the next one. */
static bool run_turn(struct ways_bench *bench, enum ways_way way, uint32_t from, uint32_t steps,
                     uint32_t *next)
{
    const uint32_t round = bench->times.rounds;
    uint32_t step = from;
    do {
        uint64_t ns;
        if (!bench_ways_run_step(&bench->scenes[way], step, &ns)) {
            return false;
        }
        bench->times.us[way][round][step] = (float)ns / 1e3f;
        if (way == WAYS_AUTO && steps == bench->times.steps) {
            bench->took[step] = way_of(bench);
        }
        step++;
    } while (step < steps && !bench_ways_begins_turn(round, step));
    *next = step;
    return true;
}

/* The turns of the ways from `first` on, before `end`. */
static bool run_turns(struct ways_bench *bench, uint32_t steps, uint32_t first, uint32_t end)
{
    bool good = true;
    for (uint32_t step = 0, next = 0; step < steps && good; step = next) {
        for (uint32_t k = 0; k < end - first && good; k++) { /* each way is the first one in turn */
            const uint32_t way = first + (k + step / WAYS_TURN + bench->times.rounds) % (end - first);
            good = run_turn(bench, (enum ways_way)way, step, steps, &next);
        }
    }
    return good;
}

/* One sequence of so many steps of each way from `first` on, before `end`, each in a new context. */
static bool run_ways(struct ways_bench *bench, const struct bench_options *options,
                     const struct ways_row *row, uint32_t steps, uint32_t first, uint32_t end)
{
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    context.driver = options->driver;
    bool good = true;
    for (uint32_t way = first; way < end; way++) {
        context.submission = submissions[way];
        good = bench_ways_open(&bench->scenes[way], row, &context) && good;
    }
    good = good && run_turns(bench, steps, first, end);
    for (uint32_t way = end; way > first; way--) { /* the thread leaves the latest context first */
        bench_ways_close(&bench->scenes[way - 1]);
    }
    return good;
}

/* Plans that divide a device at the same time disturb each other, so there the ways come one after the other.
 */
static bool run_round(struct ways_bench *bench, const struct bench_options *options,
                      const struct ways_row *row, uint32_t steps)
{
    const bool is_apart = row->kind == WAYS_PARTITIONS;
    bool good = true;
    memset(&bench->stats, 0, sizeof(bench->stats));
    for (uint32_t k = 0; k < WAYS_WAYS && is_apart && good; k++) {
        const uint32_t way = (k + bench->times.rounds) % WAYS_WAYS;
        good = run_ways(bench, options, row, steps, way, way + 1);
    }
    good = is_apart ? good : run_ways(bench, options, row, steps, 0, WAYS_WAYS);
    bench->times.rounds += good;
    bench->times.whole += good && steps == bench->times.steps;
    return good;
}

static void print_line(const struct bench_options *options, const char *name, const struct ways_line *line,
                       const struct ways_times *times, const char *taken, bool is_first)
{
    const double *us = line->us;
    if (options->json) {
        fprintf(options->out,
                "{\"name\":\"%s\",\"value\":%.6g,\"unit\":\"ns/step\",\"yardstick\":\"%s\","
                "\"yardstick_value\":%.6g,\"ratio\":%.4g,\"ratio_low\":%.4g,\"ratio_high\":%.4g,"
                "\"streams\":%.6g,\"graphs\":%.6g,\"rounds\":%u,\"taken\":\"%s\",",
                name, us[WAYS_AUTO] * 1e3, way_names[line->best], us[line->best] * 1e3, line->ratio.is,
                line->ratio.low, line->ratio.high, us[WAYS_STREAMS] * 1e3, us[WAYS_GRAPHS] * 1e3,
                is_first ? times->rounds : times->whole, taken);
        bench_json_end(options, true);
    } else if (options->emulated) {
        fprintf(options->out, "%-36s right   %s\n", name, taken);
    } else {
        fprintf(
            options->out,
            "%-28s %12.0f ns/step   streams %10.0f graphs %10.0f   ratio to %s %.3f (%.3f to %.3f)   %s\n",
            name, us[WAYS_AUTO] * 1e3, us[WAYS_STREAMS] * 1e3, us[WAYS_GRAPHS] * 1e3, way_names[line->best],
            line->ratio.is, line->ratio.low, line->ratio.high, taken);
    }
}

static bool report(const struct ways_bench *bench, const struct bench_options *options,
                   const struct ways_row *row)
{
    char taken[TAKEN_BYTES];
    describe(bench, taken);
    for (enum ways_value value = WAYS_MEAN; value < WAYS_VALUES; value++) {
        struct ways_line line;
        char name[64];
        if (!bench_ways_line_of(&bench->times, value, &line)) {
            cli_error("bench: out of memory");
            return false;
        }
        snprintf(name, sizeof(name), "%s%s", row->name, value_names[value]);
        print_line(options, name, &line, &bench->times, options->json || value == WAYS_MEAN ? taken : "",
                   value == WAYS_FIRST_STEPS);
    }
    fflush(options->out);
    return true;
}

static bool run_row(struct ways_bench *bench, const struct bench_options *options, const struct ways_row *row)
{
    struct ways_times *times = &bench->times;
    const uint32_t most = options->runs < MOST_ROUNDS ? options->runs : MOST_ROUNDS;
    const uint64_t begin = gy_clock_ns();
    const uint64_t ns = (options->seconds != 0 ? options->seconds : SECONDS) * UINT64_C(1000000000);
    times->rounds = times->whole = 0;
    /* Whole rounds first, for half of the time that is left; then first turns alone. */
    while (times->rounds < most && (times->whole < LEAST_ROUNDS || gy_clock_ns() - begin < ns)) {
        const bool is_whole = times->whole < LEAST_ROUNDS || gy_clock_ns() - begin < ns / 2;
        cli_progress("%s: round %u of at most %u", row->name, times->rounds + 1, most);
        if (!run_round(bench, options, row, is_whole ? times->steps : WAYS_TURN)) {
            bench_report(options, &(struct bench_case){.name = row->name, .item = "step"},
                         &(struct bench_result){.verified = false});
            return false;
        }
    }
    cli_progress_end();
    return report(bench, options, row);
}

/* That callbacks enqueue on their streams themselves is no news where a row has them do so. */
static bool run_row_quietly(struct ways_bench *bench, const struct bench_options *options,
                            const struct ways_row *row)
{
    cli_mute_notes(bench_ways_is_raw(row));
    const bool good = run_row(bench, options, row);
    cli_mute_notes(false);
    return good;
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
    bench->times.steps = options->runs < 3 ? FEW_STEPS : WAYS_STEPS;
    for (size_t i = 0; is_open && i < sizeof(rows) / sizeof(rows[0]); i++) {
        good = run_row_quietly(bench, options, &rows[i]) && good;
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
        "  two-shapes, eight-shapes   steps of different numbers of kernels in turn; -small: of 2 to 16\n"
        "  never-again      steps of which no two are alike, 200 and more kernels; -small: 8 and more; each\n"
        "                   begins as the one before\n"
        "  never-alike      the same with edges by chance, so that no two begin alike\n"
        "  raw-N            callbacks launch by the driver's own call; capturable-N: and say that it may be\n"
        "                   captured\n"
        "  host-8           a chain with a CPU task between each two kernels\n"
        "  mixed-19         the same for three kernels, and then 16 at once\n"
        "  uneven-6         a kernel of 200 us, and beside it a chain with CPU tasks\n"
        "  long-64          kernels of 20 us, 8 wide, with CPU tasks after each fourth row\n"
        "  partitions-100   half of the kernels in a partition of 16 SMs\n"
        "  managers-200     two managers at the same time\n"
        "  loads-100        a module is loaded and unloaded before each fourth step\n"
        "  some-of-six      of six chains of 34 to 44 kernels two or more by chance, in any order\n"
        "\n"
        "A row is 200 steps in a new context each way, at least 5 times, then up to --runs times and no\n"
        "longer than --seconds (2); half of that time goes to rounds of 20 steps.  With --runs 1 or 2 it is\n"
        "40 steps.  The ways take turns of 20 steps.  Its lines: the mean time of a step until the device "
        "is\n"
        "done; -first: of the first 20 steps; -p99: the time that 99 of 100 of the others do not exceed.\n"
        "The ratio is that of AUTO to streams or graphs, whichever takes less time in that line, and where\n"
        "it lies in 95 of 100 cases.  At the end stands which way AUTO's steps took, one after the other: s\n"
        "on streams, k as a graph that was kept, m as one that was made, u as one that was updated as a\n"
        "whole, b partly on streams; 1s 1m 198k.\n",
    .main = bench_ways,
};
