/* SPDX-License-Identifier: MIT */
#include "bench/harness.h"

#include "base/clock.h"
#include "cli/messages.h"

#include <stdlib.h>

/* Time one run in ns; false when it failed or its result is wrong. */
static bool run_once(const struct bench_side *side, void *arg, uint64_t *out)
{
    if (side->prepare != NULL && !side->prepare(arg)) {
        return false;
    }
    uint64_t begin = gy_clock_ns();
    bool worked = side->run(arg);
    uint64_t end = gy_clock_ns();
    if (!worked || (side->verify != NULL && !side->verify(arg))) {
        return false;
    }
    *out = end - begin;
    return true;
}

static int compare_times(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static int compare_doubles(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

void bench_sort(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare_doubles);
}

void bench_sort_times(uint64_t *times, size_t count)
{
    qsort(times, count, sizeof(*times), compare_times);
}

static void summarise(uint64_t *times, uint32_t count, uint64_t items, double *min, double *median)
{
    bench_sort_times(times, count);
    uint64_t low = times[(count - 1) / 2];
    uint64_t high = times[count / 2];
    *min = (double)times[0] / (double)items;
    *median = ((double)low + (double)high) / 2.0 / (double)items;
}

/* Run both sides in turn; the first round warms up and is not kept.  The side that runs first changes from
 * pair to pair. */
static bool measure(const struct bench_case *bench, uint32_t runs, uint64_t *ours, uint64_t *theirs)
{
    uint64_t warm_up;
    for (uint32_t i = 0; i <= runs; i++) {
        cli_progress("%s: run %u of %u", bench->name, i, runs);
        bool swap = bench->pairs != 0 && i % 2 == 1;
        for (uint32_t side = 0; side < 2; side++) {
            bool is_ours = (side == 0) != swap;
            const struct bench_side *now = is_ours ? &bench->ours : &bench->yardstick;
            uint64_t *time = is_ours ? ours : theirs;
            if (now->run != NULL && !run_once(now, bench->arg, i == 0 ? &warm_up : &time[i - 1])) {
                return false;
            }
        }
    }
    return true;
}

struct bench_median bench_median_of(const double *sorted, uint32_t count)
{
    uint32_t below = 0; /* the rank: count / 2 - 1.96 * sqrt(count) / 2, rounded down */
    while (2 * (below + 1) < count &&
           (double)(count - 2 * (below + 1)) * (count - 2 * (below + 1)) >= 3.8416 * count) {
        below++;
    }
    return (struct bench_median){(sorted[(count - 1) / 2] + sorted[count / 2]) / 2, sorted[below],
                                 sorted[count - 1 - below]};
}

/* The median of the pairs' ratios.  False when out of memory. */
static bool compare_pairs(const uint64_t *ours, const uint64_t *theirs, uint32_t pairs, double items,
                          struct bench_result *result)
{
    double *ratios = calloc(pairs, sizeof(*ratios));
    if (ratios == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < pairs; i++) {
        ratios[i] = (double)ours[i] / (double)theirs[i] * items;
    }
    bench_sort(ratios, pairs);
    const struct bench_median median = bench_median_of(ratios, pairs);
    result->ratio = median.is;
    result->ratio_error = (median.high - median.low) / 2;
    free(ratios);
    return true;
}

static double ratio_of(const struct bench_result *result)
{
    return result->ratio != 0 ? result->ratio : result->min_ns / result->yardstick_min_ns;
}

/* A busy machine may measure a yardstick as 0, and there is no ratio to that. */
static bool has_ratio(const struct bench_result *result)
{
    return result->ratio != 0 || result->yardstick_min_ns > 0;
}

bool bench_has_times(const struct bench_options *options, const char *name, bool verified)
{
    cli_progress_end();
    if (!options->emulated || options->json) {
        return true;
    }
    fprintf(options->out, "%-36s %s\n", name, verified ? "right" : "failed: a result is wrong");
    fflush(options->out);
    return false;
}

void bench_json_end(const struct bench_options *options, bool verified)
{
    fprintf(options->out, "\"verified\":%s,\"emulated\":%s}\n", verified ? "true" : "false",
            options->emulated ? "true" : "false");
}

/* Names are string constants of ours that need no escapes. */
static void print_json(const struct bench_options *options, const struct bench_case *bench,
                       const struct bench_result *result)
{
    FILE *out = options->out;
    fprintf(out, "{\"name\":\"%s\",\"value\":%.6g,\"unit\":\"ns/%s\",", bench->name, result->min_ns,
            bench->item);
    if (bench->yardstick.name != NULL && result->verified) {
        fprintf(out, "\"yardstick\":\"%s\",\"yardstick_value\":%.6g,", bench->yardstick.name,
                result->yardstick_min_ns);
        if (has_ratio(result)) {
            fprintf(out, "\"ratio\":%.4g,", ratio_of(result));
        } else {
            fputs("\"ratio\":null,", out);
        }
        if (bench->pairs != 0) {
            fprintf(out, "\"ratio_error\":%.2g,", result->ratio_error);
        }
    } else {
        fputs("\"yardstick\":null,\"yardstick_value\":null,\"ratio\":null,", out);
    }
    bench_json_end(options, result->verified);
}

static void print_row(FILE *out, const struct bench_case *bench, const struct bench_result *result)
{
    if (!result->verified) {
        fprintf(out, "%-28s failed: a run failed or its result is wrong\n", bench->name);
        return;
    }
    fprintf(out, "%-28s %12.2f ns/%-8s median %12.2f", bench->name, result->min_ns, bench->item,
            result->median_ns);
    if (bench->yardstick.name != NULL) {
        fprintf(out, "   %s %12.2f median %12.2f   ratio %.*f", bench->yardstick.name,
                result->yardstick_min_ns, result->yardstick_median_ns, bench->pairs != 0 ? 4 : 3,
                ratio_of(result));
        if (bench->pairs != 0) {
            fprintf(out, " +- %.4f", result->ratio_error);
        }
    }
    fputc('\n', out);
}

void bench_report(const struct bench_options *options, const struct bench_case *bench,
                  const struct bench_result *result)
{
    if (options->json) {
        cli_progress_end();
        print_json(options, bench, result);
    } else if (!result->verified || bench_has_times(options, bench->name, true)) {
        cli_progress_end();
        print_row(options->out, bench, result);
    }
    fflush(options->out);
}

static bool summarise_all(const struct bench_case *bench, uint32_t runs, uint64_t *ours, uint64_t *theirs,
                          struct bench_result *result)
{
    uint64_t items = bench->yardstick_items != 0 ? bench->yardstick_items : bench->items;
    if (bench->pairs != 0 &&
        !compare_pairs(ours, theirs, runs, (double)items / (double)bench->items, result)) {
        return false;
    }
    summarise(ours, runs, bench->items, &result->min_ns, &result->median_ns);
    if (bench->yardstick.run != NULL) {
        summarise(theirs, runs, items, &result->yardstick_min_ns, &result->yardstick_median_ns);
    }
    return true;
}

/* Of a case that wants a precision: so many times as many pairs are made at most. */
enum { MOST_TIMES = 256 };

static bool wants_precision(const struct bench_options *options, const struct bench_case *bench)
{
    return bench->pairs != 0 && bench->precision != 0 && options->runs > 2 && !options->emulated;
}

/* Make pairs until the median of their ratios is as precise as the case wants it.  *done: so many. */
static bool measure_to(const struct bench_options *options, const struct bench_case *bench, uint32_t runs,
                       uint32_t room, uint64_t *times, uint32_t *done)
{
    const uint64_t seconds = options->seconds != 0 ? options->seconds : BENCH_PRECISION_S;
    const uint64_t end = gy_clock_ns() + seconds * UINT64_C(1000000000);
    struct bench_result so_far = {0};
    *done = 0;
    do {
        if (!measure(bench, runs, times + *done, times + room + *done)) {
            return false;
        }
        *done += runs;
        if (room != runs && !compare_pairs(times, times + room, *done, 1, &so_far)) {
            return false;
        }
    } while (*done + runs <= room && so_far.ratio_error > bench->precision && gy_clock_ns() < end);
    return true;
}

bool bench_run(const struct bench_options *options, const struct bench_case *bench,
               struct bench_result *result)
{
    struct bench_result local = {0};
    const uint32_t runs = options->runs * (bench->pairs != 0 ? bench->pairs : 1);
    const uint32_t room = wants_precision(options, bench) ? runs * MOST_TIMES : runs;
    uint32_t done;
    uint64_t *times = calloc((size_t)room * 2, sizeof(*times));
    if (times != NULL && measure_to(options, bench, runs, room, times, &done)) {
        local.verified = summarise_all(bench, done, times, times + room, &local);
    }
    free(times);
    bench_report(options, bench, &local);
    if (result != NULL) {
        *result = local;
    }
    return local.verified;
}

bool bench_ok(const char *bench, gantry_status status)
{
    if (status != GANTRY_OK) {
        cli_error("bench %s: %s", bench, gantry_last_error());
    }
    return status == GANTRY_OK;
}
