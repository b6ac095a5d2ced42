#include "bench/harness.h"

#include "base/clock.h"

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

static void summarise(uint64_t *times, uint32_t count, uint64_t items, double *min, double *median)
{
    qsort(times, count, sizeof(*times), compare_times);
    uint64_t low = times[(count - 1) / 2];
    uint64_t high = times[count / 2];
    *min = (double)times[0] / (double)items;
    *median = ((double)low + (double)high) / 2.0 / (double)items;
}

/* Both sides in turn; the first round warms up and is not kept. */
static bool measure(const struct bench_case *bench, uint32_t runs, uint64_t *ours, uint64_t *theirs)
{
    uint64_t warm_up;
    for (uint32_t i = 0; i <= runs; i++) {
        if (!run_once(&bench->ours, bench->arg, i == 0 ? &warm_up : &ours[i - 1])) {
            return false;
        }
        if (bench->yardstick.run != NULL &&
            !run_once(&bench->yardstick, bench->arg, i == 0 ? &warm_up : &theirs[i - 1])) {
            return false;
        }
    }
    return true;
}

/* Names are string constants of ours that need no escapes. */
static void print_json(FILE *out, const struct bench_case *bench, const struct bench_result *result)
{
    fprintf(out, "{\"name\":\"%s\",\"value\":%.6g,\"unit\":\"ns/%s\",", bench->name, result->min_ns,
            bench->item);
    if (bench->yardstick.run != NULL && result->verified) {
        fprintf(out, "\"yardstick\":\"%s\",\"yardstick_value\":%.6g,\"ratio\":%.4g,", bench->yardstick.name,
                result->yardstick_min_ns, result->min_ns / result->yardstick_min_ns);
    } else {
        fputs("\"yardstick\":null,\"yardstick_value\":null,\"ratio\":null,", out);
    }
    fprintf(out, "\"verified\":%s}\n", result->verified ? "true" : "false");
}

static void print_row(FILE *out, const struct bench_case *bench, const struct bench_result *result)
{
    if (!result->verified) {
        fprintf(out, "%-28s failed: a run failed or its result is wrong\n", bench->name);
        return;
    }
    fprintf(out, "%-28s %12.2f ns/%-8s median %12.2f", bench->name, result->min_ns, bench->item,
            result->median_ns);
    if (bench->yardstick.run != NULL) {
        fprintf(out, "   %s %12.2f median %12.2f   ratio %.3f", bench->yardstick.name,
                result->yardstick_min_ns, result->yardstick_median_ns,
                result->min_ns / result->yardstick_min_ns);
    }
    fputc('\n', out);
}

void bench_report(const struct bench_options *options, const struct bench_case *bench,
                  const struct bench_result *result)
{
    if (options->json) {
        print_json(options->out, bench, result);
    } else {
        print_row(options->out, bench, result);
    }
    fflush(options->out);
}

bool bench_run(const struct bench_options *options, const struct bench_case *bench,
               struct bench_result *result)
{
    struct bench_result local = {0};
    uint64_t *times = calloc((size_t)options->runs * 2, sizeof(*times));
    if (times != NULL && measure(bench, options->runs, times, times + options->runs)) {
        local.verified = true;
        summarise(times, options->runs, bench->items, &local.min_ns, &local.median_ns);
        if (bench->yardstick.run != NULL) {
            uint64_t items = bench->yardstick_items != 0 ? bench->yardstick_items : bench->items;
            summarise(times + options->runs, options->runs, items, &local.yardstick_min_ns,
                      &local.yardstick_median_ns);
        }
    }
    free(times);
    bench_report(options, bench, &local);
    if (result != NULL) {
        *result = local;
    }
    return local.verified;
}
