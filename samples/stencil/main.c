/* SPDX-License-Identifier: MIT */
/* `gantry run stencil`: a grid divided between all devices, advanced by one graph, and checked.
 *
 * stencil.h says what there is, graph.c has the tasks and their order. */
#include "cli/messages.h"
#include "cli/options.h"
#include "cli/samples.h"
#include "samples/stencil/by_hand.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_RUNS = 1000 };

struct options {
    struct stencil_settings settings;
    uint32_t runs;
    bool by_hand; /* as well */
};

/* Of each run, in us. */
struct times {
    double ours[MOST_RUNS], by_hand[MOST_RUNS], ratio[MOST_RUNS];
};

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compare_doubles(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Sizes that were not asked for: an emulated device is a thousand times slower. */
static void choose_sizes(struct stencil_settings *settings, uint32_t parts, bool emulated)
{
    settings->rows = settings->rows != 0 ? settings->rows : (emulated ? 16 : 2048) * parts;
    settings->columns = settings->columns != 0 ? settings->columns : emulated ? 100 : 4096;
    settings->steps = settings->steps != 0 ? settings->steps : emulated ? 20 : 200;
}

/* A run of the graph; `hand` not NULL: and one by hand, each first in every other pair. */
static bool time_pair(struct stencil *s, struct stencil_by_hand *hand, uint32_t i, struct times *times)
{
    for (uint32_t side = 0; side < 2; side++) {
        bool is_ours = (side == 0) == (i % 2 == 0);
        if (!is_ours && (hand == NULL || !stencil_by_hand_ready(hand))) {
            if (hand != NULL) {
                return false;
            }
            continue;
        }
        double begin = now_us();
        if (!(is_ours ? stencil_run(s) : stencil_by_hand_run(hand))) {
            return false;
        }
        *(is_ours ? &times->ours[i] : &times->by_hand[i]) = now_us() - begin;
    }
    times->ratio[i] = hand != NULL ? times->ours[i] / times->by_hand[i] : 0;
    return true;
}

static bool time_runs(struct stencil *s, const struct options *options, struct times *times)
{
    struct stencil_by_hand *hand = options->by_hand ? stencil_by_hand_open(s) : NULL;
    bool good = hand != NULL || !options->by_hand;
    for (uint32_t i = 0; i < options->runs && good; i++) {
        cli_progress("run %u of %u", i + 1, options->runs);
        good = time_pair(s, hand, i, times);
    }
    cli_progress_end();
    stencil_by_hand_close(hand);
    return good;
}

/* Which way the halos went: a transfer through the host should not stay unnoticed. */
static bool print_copies(const struct stencil *s)
{
    uint64_t copies = 0, staged = 0, waits = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        gantry_dispatcher_stats stats = {.struct_size = sizeof(stats)};
        gantry_status status =
            gantry_dispatcher_get_stats(gantry_context_dispatcher(s->parts[i].context), &stats);
        if (status != GANTRY_OK) {
            cli_error("stencil: statistics: %s", cli_cause(status));
            return false;
        }
        copies += stats.peer_copies;
        staged += stats.staged_copies;
        waits += stats.wfi_edges;
    }
    printf("copies between devices: %llu, of these through the host: %llu\n", (unsigned long long)copies,
           (unsigned long long)staged);
    printf("waits between streams: %llu\n", (unsigned long long)waits);
    return true;
}

static void print_head(const struct stencil *s, uint32_t runs)
{
    const struct stencil_settings *settings = &s->settings;
    printf("%u device%s (%s), %u x %u cells, %u run%s of %u steps\n", s->count, s->count > 1 ? "s" : "",
           s->info.name, settings->rows, settings->columns, runs, runs > 1 ? "s" : "", settings->steps);
    printf("halos: %s; submitted %s\n",
           s->count == 1        ? "none, on one device"
           : settings->is_fused ? "stored by the kernel of the edges"
                                : "copied by tasks of their own",
           settings->submission == GANTRY_SUBMISSION_STREAMS  ? "to streams"
           : settings->submission == GANTRY_SUBMISSION_GRAPHS ? "as graphs"
                                                              : "as auto chooses");
    gantry_taskman_stats stats = {.struct_size = sizeof(stats)};
    if (gantry_taskman_get_stats(s->graph, &stats) == GANTRY_OK) {
        printf("order: %s, %llu edges\n", settings->from_data ? "from data" : "by hand",
               (unsigned long long)stats.edges);
    }
}

static void print_times(const char *name, double *us, const struct options *options)
{
    const struct stencil_settings *settings = &options->settings;
    const double cells = (double)settings->rows * settings->columns;
    qsort(us, options->runs, sizeof(us[0]), compare_doubles);
    double median = us[options->runs / 2] / settings->steps;
    printf("%s: %.2f us per step (median; fastest %.2f), %.1f million cells per ms\n", name, median,
           us[0] / settings->steps, cells / median / 1e3);
}

static bool check(struct stencil *s, const struct options *options)
{
    const struct stencil_settings *settings = &s->settings;
    uint64_t runs = (uint64_t)options->runs * (options->by_hand ? 2 : 1);
    float *expected = stencil_reference(settings->rows, settings->columns, settings->steps * runs);
    bool good = expected != NULL && stencil_compare(s, expected);
    free(expected);
    if (good) {
        printf("result: equal to that of the CPU, bit for bit\n");
    }
    return good;
}

static bool measure(struct stencil *s, const struct options *options)
{
    static struct times times;
    print_head(s, options->runs);
    if (!stencil_fill(s) || !time_runs(s, options, &times) || !stencil_fetch(s) || !print_copies(s) ||
        !check(s, options)) {
        return false;
    }
    if (s->info.emulated) {
        printf("time: not printed, as the devices are emulated\n");
        return true;
    }
    print_times("time", times.ours, options);
    if (options->by_hand) {
        print_times("by hand, a thread for each device", times.by_hand, options);
        qsort(times.ratio, options->runs, sizeof(times.ratio[0]), compare_doubles);
        printf("time / by hand: %.3f (median of %u pairs)\n", times.ratio[options->runs / 2], options->runs);
    }
    return true;
}

/* Kernels that store into a neighbour's memory, and plain copies, need to reach it; tasks' copies find a way.
 */
static bool can_store(const struct stencil *s)
{
    for (uint32_t i = 0; i + 1 < s->count; i++) {
        gantry_device_info a = {.struct_size = sizeof(a)}, b = a;
        gantry_link link = {.struct_size = sizeof(link)};
        gantry_status status = gantry_context_device_info(gantry_fleet_context(s->fleet, i), &a);
        status = status == GANTRY_OK ? gantry_context_device_info(gantry_fleet_context(s->fleet, i + 1), &b)
                                     : status;
        for (int way = 0; way < 2 && status == GANTRY_OK; way++) {
            int from = way == 0 ? a.ordinal : b.ordinal, to = way == 0 ? b.ordinal : a.ordinal;
            status = gantry_link_get(s->settings.driver, from, to, &link);
            if (status == GANTRY_OK && link.access == 0) {
                cli_error(
                    "stencil: kernels of device %d do not reach memory of device %d, which '--halo fused' "
                    "and '--by-hand' need",
                    from, to);
                return false;
            }
        }
        if (status != GANTRY_OK) {
            cli_error("stencil: the link between two devices: %s", cli_cause(status));
            return false;
        }
    }
    return true;
}

static int run_stencil(struct options *options)
{
    static struct stencil s;
    struct stencil_settings *settings = &options->settings;
    bool is_open = stencil_open(&s, settings->driver, settings->devices, settings->submission);
    int status = s.exit_status;
    if (is_open) {
        choose_sizes(settings, s.count, s.info.emulated);
        s.settings = *settings;
        if (settings->rows < STENCIL_ROWS_LEAST * s.count) {
            cli_error("stencil: %u rows are too few for %u devices: each needs %d at least", settings->rows,
                      s.count, STENCIL_ROWS_LEAST);
            status = 2;
        } else if (((!settings->is_fused && !options->by_hand) || can_store(&s)) &&
                   stencil_build(&s, settings) && measure(&s, options)) {
            status = 0;
        }
    }
    stencil_close(&s);
    return status;
}

static bool read_steps(const char *text, void *into)
{
    uint32_t steps;
    bool good = cli_parse_number(text, 2, 10000, &steps) && steps % 2 == 0;
    *(uint32_t *)into = good ? steps : 0;
    return good;
}

static const char usage[] =
    "usage: gantry run stencil [OPTION...]\n\n"
    "Divides a grid by rows between the devices of the machine.  In each step a cell becomes the mean of\n"
    "its four neighbours; the outermost rows of each part go to its neighbours while the others are\n"
    "computed.  All steps of a run are one frozen graph over all devices.  The result is compared with the\n"
    "CPU's, bit by bit.\n"
    "Without a GPU it runs on two emulated devices, or as many as $GANTRY_EMU_DEVICES says.\n\n"
    "  --driver DRIVER     auto (the default), cuda or emulated\n"
    "  --devices LIST      ordinals or UUIDs with commas between them, or all (the default)\n"
    "  --rows N            rows of the grid, up to 60000 (2048 for each device; emulated 16)\n"
    "  --columns N         columns of the grid (4096; emulated 100)\n"
    "  --steps N           steps of a run, an even number (200; emulated 20)\n"
    "  --runs N            runs of the graph, one after the other (3)\n"
    "  --halo WAY          copy: by tasks of their own (the default); fused: the kernel of the edges\n"
    "                      stores them\n"
    "  --order WAY         edges (the default): by hand; data: from what tasks read and write\n"
    "  --submission MODE   graphs (the default), streams or auto\n"
    "  --by-hand           the same by hand, too: a thread for each device, streams and events\n"
    "  -h, --help          print this\n";

static int stencil_main(int argc, char **argv)
{
    static const char *const halos[] = {"copy", "fused", NULL}, *const modes[] = {"streams", "graphs", "auto",
                                                                                  NULL};
    static const char *const orders[] = {"edges", "data", NULL};
    struct options options = {.runs = 3};
    struct stencil_settings *settings = &options.settings;
    int driver = GANTRY_DRIVER_AUTO, halo = 0, mode = 1, order = 0;
    const struct cli_option table[] = {
        {.name = "driver", .choice = &driver, .names = cli_driver_names},
        {.name = "devices", .text = &settings->devices},
        {.name = "rows", .number = &settings->rows, .low = 3, .high = 60000},
        {.name = "columns", .number = &settings->columns, .low = 1, .high = 1000000},
        {.name = "steps",
         .read = read_steps,
         .into = &settings->steps,
         .takes = "an even number up to 10000"},
        {.name = "runs", .number = &options.runs, .low = 1, .high = MOST_RUNS},
        {.name = "halo", .choice = &halo, .names = halos},
        {.name = "order", .choice = &order, .names = orders},
        {.name = "submission", .choice = &mode, .names = modes},
        {.name = "by-hand", .flag = &options.by_hand},
        {.name = "help", .letter = 'h', .help = usage},
        {.name = NULL}};
    int status = cli_read_options(argc, argv, table, 0);
    if (status >= 0) {
        return status;
    }
    settings->driver = (gantry_driver_choice)driver;
    settings->is_fused = halo == 1;
    settings->from_data = order == 1;
    settings->submission = (gantry_submission)(GANTRY_SUBMISSION_STREAMS + mode);
    (void)setenv("GANTRY_EMU_DEVICES", "2", 0);
    return run_stencil(&options);
}

const struct gantry_sample gantry_sample_stencil = {
    .name = "stencil",
    .summary = "one graph over all devices: a grid whose parts exchange their halos",
    .main = stencil_main,
};
