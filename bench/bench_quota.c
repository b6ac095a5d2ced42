/* SPDX-License-Identifier: MIT */
/* `gantry bench quota`: how well a limit on GPU time is kept, and what it costs.
 *
 * error-LIMIT-US: one tenant launches kernels of US microseconds without a pause, for some seconds
 * (--seconds), under a limit of LIMIT percent.  Ours is the bucket of GPU time, the yardstick the
 * same kernels, launched by hand under tokens that NVML's utilisation gives back (quota_tokens.h), one after
 * the other in the same run.  The figure is the distance of the share from the limit, in percentage points,
 * computed from what the kernels noted themselves.  `window` is the greatest distance in any window of 1 s;
 * the bucket's must not exceed its bound, (burst + (n + 1) * longest group) / 1 s with n groups in flight.
 *
 * cost-…: kernels that do nothing under a limit that does not throttle (99 %), against no limit.  On the
 * emulated driver launches are accepted and not executed, so that only our time is left.  The two contexts
 * run in turn. */
#include "bench/quota_tokens.h"
#include "bench/quota_work.h"
#include "bench/submit_work.h"

#include <math.h>
#include <stdlib.h>

/* ---- error ---------------------------------------------------------------------------------- */

static double window_error(const struct quota_figures *f, double target)
{
    return f->high_1s <= 0 ? 0 : fmax(f->high_1s - target, target - f->low_1s);
}

static void print_json(const struct bench_options *options, const struct quota_setting *s, const char *what,
                       double value, const char *yardstick, double other, bool verified)
{
    FILE *out = options->out;
    fprintf(out, "{\"name\":\"quota/%s-%u-%u\",\"value\":%.6g,\"unit\":\"pp\",", what, s->percent,
            s->kernel_us, fmax(value, 1e-6));
    if (yardstick != NULL) {
        fprintf(out, "\"yardstick\":\"%s\",\"yardstick_value\":%.6g,\"ratio\":%.4g,", yardstick, other,
                value / fmax(other, 1e-6));
    } else {
        fputs("\"yardstick\":null,\"yardstick_value\":null,\"ratio\":null,", out);
    }
    bench_json_end(options, verified);
}

static void print_error(const struct bench_options *options, const struct quota_setting *s,
                        const struct quota_figures *ours, const struct quota_figures *theirs, bool verified)
{
    double target = s->percent, error = fabs(ours->mean - target), other = fabs(theirs->mean - target);
    bool have = theirs->kernels != 0;
    if (options->json) {
        print_json(options, s, "error", error, have ? "nvml" : NULL, other, verified);
        print_json(options, s, "charged-error", fabs(ours->charged - ours->mean), NULL, 0, verified);
        if (ours->high_1s > 0) {
            print_json(options, s, "window", window_error(ours, target), "bound", ours->bound_1s, verified);
        }
        return;
    }
    char name[48];
    snprintf(name, sizeof(name), "quota/error-%u-%u", s->percent, s->kernel_us);
    if (!bench_has_times(options, name, verified)) {
        return;
    }
    fprintf(options->out,
            "quota/error-%u-%-6u %8.3f pp  share %7.3f (kernels %7.3f, charged %7.3f)  1 s: %6.2f of %5.2f",
            s->percent, s->kernel_us, error, ours->mean, ours->kernels_only, ours->charged,
            window_error(ours, target), ours->bound_1s);
    if (have) {
        fprintf(options->out, "   nvml %8.3f pp  share %7.3f  1 s: %6.2f   ratio %.3f", other, theirs->mean,
                window_error(theirs, target), error / fmax(other, 1e-9));
    }
    fputc('\n', options->out);
}

static bool run_error(const struct bench_options *options, struct quota_setting *s, bool with_nvml,
                      double sums[2])
{
    struct quota_figures ours, theirs = {0};
    s->by_hand = false;
    bool good = bench_quota_run(s, &ours);
    if (good && with_nvml) {
        s->by_hand = true;
        good = bench_quota_run(s, &theirs);
    }
    if (good) {
        sums[0] += fabs(ours.mean - s->percent);
        sums[1] += fabs(theirs.mean - s->percent);
    }
    print_error(options, s, &ours, &theirs, good);
    fflush(options->out);
    return good;
}

/* Does NVML tell of the device? */
static bool has_nvml(const gantry_device_info *info)
{
    struct quota_tokens tokens;
    bool has = bench_quota_tokens_open(&tokens, info, 50);
    bench_quota_tokens_close(&tokens);
    return has;
}

static bool run_errors(const struct bench_options *options, const gantry_device_info *info)
{
    const bool emulated = info->emulated;
    static const uint32_t percents[] = {20, 50, 80}, lengths[] = {50, 500, 5000};
    bool with_nvml = !emulated && has_nvml(info), good = true;
    double sums[2] = {0, 0};
    uint32_t rows = 0;
    for (size_t p = 0; p < 3; p++) {
        for (size_t k = 0; k < 3; k++) {
            if (emulated && options->seconds == 0 && (p != 1 || k != 1)) {
                continue; /* its times mean nothing: one row shows that it works */
            }
            struct quota_setting s = {
                .driver = options->driver, .percent = percents[p], .kernel_us = lengths[k]};
            s.seconds = options->seconds != 0 ? options->seconds : emulated ? 0.3 : 5;
            good = run_error(options, &s, with_nvml, sums) && good;
            rows++;
        }
    }
    if (!options->json && !options->emulated) {
        fprintf(options->out, "quota/mean-error: %.3f pp", sums[0] / rows);
        if (with_nvml) {
            fprintf(options->out, "   nvml %.3f pp   ratio %.4f", sums[1] / rows,
                    sums[0] / fmax(sums[1], 1e-9));
        }
        fputc('\n', options->out);
    }
    return good;
}

/* ---- cost ----------------------------------------------------------------------------------- */

struct cost_side {
    struct submit_work work;
    uint64_t gd_least_ns; /* the least time of the dispatcher's thread in its phases */
    uint64_t before_ns;
};

struct cost_bench {
    struct cost_side bounded, plain;
};

static uint64_t phases_of(const struct cost_side *side)
{
    gantry_dispatcher_stats stats = {.struct_size = sizeof(stats)};
    (void)bench_submit_ok(gantry_dispatcher_get_stats(gantry_context_dispatcher(side->work.context), &stats));
    return stats.phase_ns[0] + stats.phase_ns[1] + stats.phase_ns[2];
}

static bool prepare(struct cost_side *side)
{
    bool good = bench_submit_ok(gantry_taskman_reset(side->work.manager)) && bench_submit_build(&side->work);
    side->before_ns = phases_of(side);
    return good;
}

static bool finish(struct cost_side *side)
{
    uint64_t ns = phases_of(side) - side->before_ns;
    side->gd_least_ns = ns != 0 && ns < side->gd_least_ns ? ns : side->gd_least_ns;
    return bench_submit_check(&side->work);
}

static bool prepare_bounded(void *arg)
{
    return prepare(&((struct cost_bench *)arg)->bounded);
}

static bool prepare_plain(void *arg)
{
    return prepare(&((struct cost_bench *)arg)->plain);
}

static bool run_bounded(void *arg)
{
    return bench_submit_run(&((struct cost_bench *)arg)->bounded.work);
}

static bool run_plain(void *arg)
{
    return bench_submit_run(&((struct cost_bench *)arg)->plain.work);
}

static bool verify_bounded(void *arg)
{
    return finish(&((struct cost_bench *)arg)->bounded);
}

static bool verify_plain(void *arg)
{
    return finish(&((struct cost_bench *)arg)->plain);
}

static bool run_cost(struct cost_bench *bench, const struct bench_options *options, const char *name,
                     const char *gd_name, uint32_t kernels)
{
    bench->bounded.work.kernels = bench->plain.work.kernels = kernels;
    bench->bounded.gd_least_ns = bench->plain.gd_least_ns = UINT64_MAX;
    struct bench_case one = {
        .name = name,
        .item = "kernel",
        .items = kernels,
        .ours = {.prepare = prepare_bounded, .run = run_bounded, .verify = verify_bounded},
        .yardstick = {.name = "no-limit", .prepare = prepare_plain, .run = run_plain, .verify = verify_plain},
        .arg = bench,
    };
    struct bench_result result;
    bool good = bench_run(options, &one, &result);
    one.name = gd_name;
    result.min_ns = result.median_ns = (double)bench->bounded.gd_least_ns / kernels;
    result.yardstick_min_ns = result.yardstick_median_ns = (double)bench->plain.gd_least_ns / kernels;
    bench_report(options, &one, &result);
    if (good && !options->json && !options->emulated) {
        fprintf(options->out, "%-28s %+.1f ns/kernel on the dispatcher's thread\n", "  the limit costs",
                result.min_ns - result.yardstick_min_ns);
    }
    return good;
}

static bool run_costs(struct cost_bench *bench, const struct bench_options *options)
{
    bool good = run_cost(bench, options, "quota/cost-run-1000", "quota/cost-dispatcher-1000", 1000);
    struct raw_cuda *cuda = &bench->bounded.work.cuda;
    if (cuda->emulator_set_noop != NULL) {
        cuda->emulator_set_noop(true);
        bench->bounded.work.executes = bench->plain.work.executes = false;
        good = run_cost(bench, options, "quota/cost-own-run-1000", "quota/cost-own-dispatcher-1000", 1000) &&
               good;
        cuda->emulator_set_noop(false);
    }
    return good;
}

static bool bench_quota(const struct bench_options *options)
{
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_device_info info = {.struct_size = sizeof(info)};
    struct cost_bench *bench = calloc(1, sizeof(*bench));
    if (bench == NULL) {
        return false;
    }
    context.driver = options->driver;
    context.submission = GANTRY_SUBMISSION_STREAMS; /* a bound costs each launch of a stream something */
    setenv("CUDA_DEVICE_SM_LIMIT", "99", 1);
    bool good = bench_submit_open(&bench->bounded.work, &context);
    unsetenv("CUDA_DEVICE_SM_LIMIT");
    good = good && bench_submit_open(&bench->plain.work, &context) &&
           bench_submit_ok(gantry_context_device_info(bench->plain.work.context, &info)) &&
           run_costs(bench, options);
    bench_submit_close(&bench->plain.work);
    bench_submit_close(&bench->bounded.work);
    free(bench);
    return good && run_errors(options, &info);
}

const struct gantry_bench gantry_bench_quota = {
    .name = "quota",
    .summary = "how well a limit on GPU time is kept, against NVML's utilisation, and what it costs",
    .help =
        "  error-LIMIT-US   how far the share of GPU time is from a limit, in points of percent, kernels of "
        "US\n"
        "                   microseconds; the yardstick is launches by hand under tokens that NVML gives "
        "back\n"
        "  cost-...         what a limit that never holds anything up costs a launch\n"
        "\n"
        "Each row of the first kind takes twice --seconds (5).\n",
    .main = bench_quota,
};
