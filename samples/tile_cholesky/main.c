/* SPDX-License-Identifier: MIT */
/* `gantry run tile_cholesky`: a Cholesky factorisation of tiles over 1, 2, 4 … devices, checked and timed.
 *
 * cholesky.h says what there is, graph.c has the tasks, their order and the copies between devices. */
#include "cli/messages.h"
#include "cli/options.h"
#include "cli/samples.h"
#include "samples/tile_cholesky/dense.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST_RUNS = 100, OWN = 0, CUBLAS = 1, ALL = 2 };

struct options {
    struct cholesky_settings settings;
    uint32_t runs;
    int kernels;
};

struct session {
    struct options options;
    struct cholesky cholesky;
    struct check check;
    double yardstick_ms; /* 0: none */
};

static int compare_doubles(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median_of(double *values, uint32_t count)
{
    qsort(values, count, sizeof(*values), compare_doubles);
    return values[count / 2];
}

/* ---- rows of the table ---------------------------------------------------------------------------- */

static void print_times(const struct session *s, double ms, double one_ms)
{
    const double n = s->options.settings.size;
    if (s->cholesky.info.emulated) {
        printf(" %10s %10s %10s %12s", "-", "-", "-", "-");
        return;
    }
    printf(" %10.2f %10.0f", ms, n * n * n / 3 / ms / 1e6);
    if (one_ms > 0) {
        printf(" %10.3f", one_ms / ms / (s->cholesky.count > 0 ? s->cholesky.count : 1));
    } else {
        printf(" %10s", "-");
    }
    if (s->yardstick_ms > 0) {
        printf(" %12.3f", s->yardstick_ms / ms);
    } else {
        printf(" %12s", "-");
    }
}

static bool print_check(const struct check_result *result)
{
    printf(" %10.2e", result->residual);
    if (result->difference >= 0) {
        printf(" %10.2e", result->difference);
    }
    printf("  %s\n", result->is_good ? "right" : "WRONG");
    fflush(stdout);
    if (!result->is_good) {
        cli_error("tile_cholesky: the factor is wrong: the residual may be %.1e, differences %.1e",
                  result->residual_bound, result->difference_bound);
    }
    return result->is_good;
}

static bool check_tiles(struct session *s, struct check_result *out)
{
    const size_t tile = s->options.settings.tile;
    bool good = true;
    check_begin(&s->check);
    for (uint32_t k = 0; k < s->cholesky.side && good; k++) {
        good = cholesky_fetch(&s->cholesky, k) &&
               check_column(&s->check, k, s->cholesky.column, tile * tile, tile);
    }
    (void)(good && check_end(&s->check, out));
    return good;
}

/* Waits of streams for each other so far, on the devices that are used. */
static uint64_t count_waits(const struct cholesky *c)
{
    uint64_t waits = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        gantry_dispatcher_stats stats = {.struct_size = sizeof(stats)};
        const gantry_dispatcher *dispatcher = gantry_context_dispatcher(c->devices[i].context);
        waits += gantry_dispatcher_get_stats(dispatcher, &stats) == GANTRY_OK ? stats.wfi_edges : 0;
    }
    return waits;
}

/* `waits`: those of the last run. */
static bool time_factor(struct session *s, double *ms, uint64_t *waits)
{
    double all[MOST_RUNS];
    for (uint32_t i = 0; i <= s->options.runs; i++) { /* the first one warms up */
        struct timespec begin, end;
        cli_progress("%u device%s: run %u of %u", s->cholesky.count, s->cholesky.count > 1 ? "s" : "", i,
                     s->options.runs);
        if (!cholesky_fill(&s->cholesky)) {
            return false;
        }
        const uint64_t before = count_waits(&s->cholesky);
        clock_gettime(CLOCK_MONOTONIC, &begin);
        if (!cholesky_factor(&s->cholesky)) {
            return false;
        }
        clock_gettime(CLOCK_MONOTONIC, &end);
        *waits = count_waits(&s->cholesky) - before;
        all[i > 0 ? i - 1 : 0] =
            (double)(end.tv_sec - begin.tv_sec) * 1e3 + (double)(end.tv_nsec - begin.tv_nsec) / 1e6;
    }
    *ms = median_of(all, s->options.runs);
    return true;
}

/* The same over the first `count` devices; `one_ms` is the time on one, and set by it. */
static bool show_devices(struct session *s, uint32_t count, bool uses_library, double *one_ms)
{
    struct cholesky *c = &s->cholesky;
    struct check_result result = {.is_good = false};
    double ms = 0;
    uint64_t waits = 0;
    bool good =
        cholesky_build(c, count, uses_library) && time_factor(s, &ms, &waits) && check_tiles(s, &result);
    cli_progress_end();
    if (good) {
        char grid[24];
        *one_ms = count == 1 ? ms : *one_ms;
        snprintf(grid, sizeof(grid), "%u x %u", c->down, c->across);
        printf("%7u %7s %-8s %7llu %7llu %7llu %7llu", count, grid, uses_library ? "cublas" : "own",
               (unsigned long long)c->tasks, (unsigned long long)c->copies, (unsigned long long)c->edges,
               (unsigned long long)waits);
        print_times(s, ms, *one_ms);
        good = print_check(&result);
    }
    cholesky_clear(c);
    return good;
}

static bool show_yardstick(struct session *s)
{
    double all[MOST_RUNS];
    struct check_result result = {.is_good = false};
    bool good = cholesky_time_dense(&s->cholesky, &s->check, s->options.runs, all, &result);
    if (good) {
        s->yardstick_ms = median_of(all, s->options.runs);
        printf("%7u %7s %-8s %7u %7u %7u %7u", 1, "-", "potrf", 1, 0, 0, 0);
        print_times(s, s->yardstick_ms, 0);
    }
    return good && print_check(&result);
}

static bool show_all(struct session *s)
{
    const struct cholesky *c = &s->cholesky;
    const struct cholesky_settings *settings = &s->options.settings;
    printf("%s, %u x %u floats in tiles of %u, medians of %u run%s; room for %u tiles of other devices\n",
           c->info.name, settings->size, settings->size, settings->tile, s->options.runs,
           s->options.runs > 1 ? "s" : "", settings->cache);
    printf("%7s %7s %-8s %7s %7s %7s %7s %10s %10s %10s %12s %10s %s\n", "devices", "grid", "kernels",
           "tasks", "copies", "edges", "waits", "ms", "GFLOP/s", "efficiency", "potrf / this", "residual",
           settings->size <= CHECK_WHOLE_SIZE ? "difference" : "");
    bool good = !c->has_library || s->options.kernels == OWN || show_yardstick(s);
    for (int library = 0; library < 2 && good; library++) {
        double one_ms = 0;
        if (library == 1 ? !c->has_library || s->options.kernels == OWN : s->options.kernels == CUBLAS) {
            continue;
        }
        for (uint32_t count = 1; good; count = 2 * count < c->fleet_count ? 2 * count : c->fleet_count) {
            good = show_devices(s, count, library == 1, &one_ms);
            if (count == c->fleet_count) {
                break;
            }
        }
    }
    return good;
}

/* ---- options ---------------------------------------------------------------------------------------- */

/* Sizes that were not asked for, and those that do not fit. */
static int settle_sizes(struct cholesky_settings *settings, bool emulated)
{
    settings->tile = settings->tile != 0 ? settings->tile : emulated ? 64 : 1024;
    settings->size = settings->size != 0 ? settings->size : emulated ? 4 * settings->tile : 16384;
    if (settings->tile % CHOLESKY_BLOCK != 0) {
        cli_error("tile_cholesky: --tile takes a multiple of %d, not %u", CHOLESKY_BLOCK, settings->tile);
        return 2;
    }
    if (settings->size % settings->tile != 0) {
        cli_error("tile_cholesky: --size takes a multiple of the tile's side, which is %u, not %u",
                  settings->tile, settings->size);
        return 2;
    }
    uint32_t side = settings->size / settings->tile;
    settings->cache = settings->cache != 0 ? settings->cache : 2 * side > 2 ? 2 * side : 2;
    return 0;
}

static bool settle_kernels(const struct session *s)
{
    const bool emulated = s->cholesky.info.emulated;
    const char *why = "the device is emulated";
    if (s->options.kernels == OWN || s->cholesky.has_library || (emulated && s->options.kernels == ALL)) {
        return true;
    }
    if (!emulated) {
        (void)cholesky_library_find(&why);
    }
    if (s->options.kernels == CUBLAS) {
        cli_error("tile_cholesky: cuBLAS and cuSOLVER cannot be used: %s", why);
        return false;
    }
    cli_note("tile_cholesky: without cuBLAS and cuSOLVER, and their time to compare with: %s", why);
    return true;
}

static int run_cholesky(const struct options *options)
{
    static struct session s;
    s.options = *options;
    bool is_open = cholesky_open(&s.cholesky, &options->settings);
    int status = s.cholesky.exit_status;
    if (is_open) {
        status = settle_sizes(&s.options.settings, s.cholesky.info.emulated);
        s.cholesky.settings = s.options.settings;
        if (status == 0) {
            status = settle_kernels(&s) &&
                             check_open(&s.check, s.options.settings.size, s.options.settings.tile) &&
                             show_all(&s)
                         ? 0
                         : 1;
        }
    }
    check_close(&s.check);
    cholesky_close(&s.cholesky);
    return status;
}

static const char usage[] =
    "usage: gantry run tile_cholesky [OPTION...]\n\n"
    "Factors a symmetric positive definite matrix in tiles, which are dealt out to one, two, four devices:\n"
    "a graph over all of them, with copies of tiles where a device needs those of another one.  Prints for\n"
    "each number of devices the time, the efficiency against one device, and the residual: the part of the\n"
    "matrix that the factor's product differs by.  Where cuBLAS and cuSOLVER are found they are used as "
    "well,\n"
    "and compared with: 'potrf / this' is the time of one call of cuSOLVER, divided by ours.\n"
    "Without a GPU it runs on two emulated devices, or as many as $GANTRY_EMU_DEVICES says.\n\n"
    "  --driver DRIVER     auto (the default), cuda or emulated\n"
    "  --devices LIST      ordinals or UUIDs with commas between them, or all (the default)\n"
    "  --size N            rows of the matrix (16384; emulated 4 tiles)\n"
    "  --tile N            rows of a tile, a multiple of 64 (1024; emulated 64)\n"
    "  --cache N           tiles of others that a device has room for (two columns of tiles)\n"
    "  --runs N            runs of each graph, after one that does not count (3)\n"
    "  --kernels WHICH     own, cublas or all (the default: those that there are)\n"
    "  --order WAY         edges (the default): by hand; data: from the tiles that tasks access\n"
    "  --submission MODE   streams (the default), graphs or auto\n"
    "  -h, --help          print this\n";

static int cholesky_main(int argc, char **argv)
{
    static const char *const which[] = {"own", "cublas", "all", NULL}, *const modes[] = {"streams", "graphs",
                                                                                         "auto", NULL};
    struct options options = {.runs = 3, .kernels = ALL};
    struct cholesky_settings *settings = &options.settings;
    static const char *const orders[] = {"edges", "data", NULL};
    int driver = GANTRY_DRIVER_AUTO, mode = 0, order = 0;
    const struct cli_option table[] = {
        {.name = "driver", .choice = &driver, .names = cli_driver_names},
        {.name = "devices", .text = &settings->devices},
        {.name = "size", .number = &settings->size, .low = CHOLESKY_BLOCK, .high = 1u << 18},
        {.name = "tile", .number = &settings->tile, .low = CHOLESKY_BLOCK, .high = 1u << 13},
        {.name = "cache", .number = &settings->cache, .low = CHOLESKY_CACHE_LEAST, .high = 1u << 16},
        {.name = "runs", .number = &options.runs, .low = 1, .high = MOST_RUNS},
        {.name = "kernels", .choice = &options.kernels, .names = which},
        {.name = "order", .choice = &order, .names = orders},
        {.name = "submission", .choice = &mode, .names = modes},
        {.name = "help", .letter = 'h', .help = usage},
        {.name = NULL}};
    int status = cli_read_options(argc, argv, table, 0);
    if (status >= 0) {
        return status;
    }
    settings->driver = (gantry_driver_choice)driver;
    settings->submission = (gantry_submission)(GANTRY_SUBMISSION_STREAMS + mode);
    settings->from_data = order == 1;
    (void)setenv("GANTRY_EMU_DEVICES", "2", 0);
    return run_cholesky(&options);
}

const struct gantry_sample gantry_sample_tile_cholesky = {
    .name = "tile_cholesky",
    .summary = "one graph over all devices: a Cholesky factorisation of tiles",
    .main = cholesky_main,
};
