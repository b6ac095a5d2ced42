/* SPDX-License-Identifier: MIT */
/* `gantry bench partition`: a kernel of 20 us that is in a hurry behind one that fills the device.
 *
 * critical, long: the time from the submission until the host knows the end, through tasks, beside the same
 * by hand on streams of green contexts, on plain streams, and on streams with priorities.  `leak`: through
 * tasks, but the long kernel is on a stream of no partition.  Rows whose names end in p99 have the time
 * that 99 of 100 do not exceed.
 *
 * path: the moments of the short kernel since its submission (bench_moment); the kernels report their begin
 * and end to the host, so these are other runs than those above.
 *
 * hybrid: the same through tasks, in a context of the default wait mode.
 *
 * one-graph: the short kernel and four long ones in one graph.  In ours the long ones name no partition, in
 * the yardstick they name one.
 *
 * split: for several sizes of the short kernel's partition, its 99th percentile, and how much longer the
 * long kernel takes on the other SMs than on all. */
#include "bench/bench_partition.h"

#include "base/clock.h"
#include "cli/messages.h"

#include <stdio.h>

enum {
    SAMPLES_PER_RUN = 20,
    SPLIT_SAMPLES_PER_RUN = 4,
    CRITICAL_SMS = 16,
    BULK_SMS = 56,    /* about half of what is left of 132 */
    LONG_TASKS = 4,   /* of one graph */
    WAVES = 4,        /* of a millisecond each */
    SPLIT_WAVES = 16, /* of a quarter: on fewer SMs the last one weighs less */
    SPLIT_STEP = 8
};

void bench_partition_line(const struct bench_options *options, const char *name, const char *item,
                          struct bench_pair ours, const char *yardstick, struct bench_pair theirs)
{
    struct bench_case one = {.name = name, .item = item, .items = 1};
    struct bench_result result = {.min_ns = ours.least,
                                  .median_ns = ours.median,
                                  .yardstick_min_ns = theirs.least,
                                  .yardstick_median_ns = theirs.median,
                                  .verified = true};
    one.yardstick.name = yardstick;
    bench_report(options, &one, &result);
}

static struct bench_pair once(double ns)
{
    return (struct bench_pair){ns, ns};
}

/* Print the line of the samples and that of their 99th percentile. */
static void report_kernel(const struct bench_options *options, const char *name,
                          const struct bench_figures *ours, const char *yardstick,
                          const struct bench_figures *theirs)
{
    char p99[64];
    (void)snprintf(p99, sizeof(p99), "%s-p99", name);
    struct bench_pair hand = theirs != NULL ? (struct bench_pair){theirs->least, theirs->median} : once(0);
    bench_partition_line(options, name, "kernel", (struct bench_pair){ours->least, ours->median}, yardstick,
                         hand);
    bench_partition_line(options, p99, "kernel", once(ours->p99), yardstick,
                         once(theirs != NULL ? theirs->p99 : 0));
}

/* The emulated device only shows that it works. */
static uint32_t samples(const struct bench_options *options, const struct bench_scene *scene,
                        uint32_t per_run)
{
    return options->runs * (scene->info.emulated ? 1 : per_run);
}

static struct bench_scene_options scene_options(const struct bench_options *options)
{
    /* Emulated SMs need the cores on which threads would spin. */
    bool emulated = options->driver == GANTRY_DRIVER_EMULATED;
    return (struct bench_scene_options){.driver = options->driver,
                                        .wait = emulated ? GANTRY_WAIT_BLOCK : GANTRY_WAIT_SPIN,
                                        .critical_sms = CRITICAL_SMS,
                                        .waves = WAVES,
                                        .wave_us = 1000};
}

/* ---- ways ----------------------------------------------------------------------------------- */

static void report_path(const struct bench_options *options, const struct bench_figures *ours,
                        const struct bench_figures *hand)
{
    static const char *const names[BENCH_MOMENTS] = {"partition/path-called", "partition/path-launched",
                                                     "partition/path-begun", "partition/path-ended",
                                                     "partition/path-known"};
    for (int m = 0; m < BENCH_MOMENTS; m++) {
        bool both = m != BENCH_MOMENT_CALLED;
        bench_partition_line(options, names[m], "kernel", once(ours->moments[m]), both ? "by-hand" : NULL,
                             once(hand->moments[m]));
    }
}

static bool bench_ways(const struct bench_options *options)
{
    struct bench_scene scene;
    struct bench_scene_options how = scene_options(options);
    struct bench_figures f[BENCH_WAYS], path[BENCH_WAYS];
    bool good = bench_scene_open(&scene, &how);
    uint32_t count = samples(options, &scene, SAMPLES_PER_RUN);
    for (int way = 0; way < BENCH_WAYS && good; way++) {
        good = bench_scene_measure_way(&scene, (enum bench_way)way, false, count, &f[way]);
    }
    good = good &&
           bench_scene_measure_way(&scene, BENCH_WAY_BY_HAND, true, count, &path[BENCH_WAY_BY_HAND]) &&
           bench_scene_measure_way(&scene, BENCH_WAY_TASKS, true, count, &path[BENCH_WAY_TASKS]) &&
           bench_scene_verify(&scene);
    bench_scene_close(&scene);
    if (!good) {
        return false;
    }
    const struct bench_figures *ours = &f[BENCH_WAY_TASKS], *hand = &f[BENCH_WAY_BY_HAND];
    report_kernel(options, "partition/plain", &f[BENCH_WAY_PLAIN], NULL, NULL);
    report_kernel(options, "partition/priority", &f[BENCH_WAY_PRIORITY], NULL, NULL);
    report_kernel(options, "partition/leak", &f[BENCH_WAY_LEAK], NULL, NULL);
    report_kernel(options, "partition/critical", ours, "by-hand", hand);
    bench_partition_line(options, "partition/long", "kernel", once(ours->long_median), "by-hand",
                         once(hand->long_median));
    bench_partition_line(options, "partition/long-plain", "kernel", once(f[BENCH_WAY_PLAIN].long_median),
                         NULL, once(0));
    report_path(options, &path[BENCH_WAY_TASKS], &path[BENCH_WAY_BY_HAND]);
    return true;
}

static bool bench_hybrid(const struct bench_options *options)
{
    struct bench_scene scene;
    struct bench_scene_options how = scene_options(options);
    struct bench_figures ours;
    how.wait = GANTRY_WAIT_HYBRID;
    bool good = bench_scene_open(&scene, &how) &&
                bench_scene_measure_way(&scene, BENCH_WAY_TASKS, false,
                                        samples(options, &scene, SAMPLES_PER_RUN), &ours) &&
                bench_scene_verify(&scene);
    bench_scene_close(&scene);
    if (good) {
        report_kernel(options, "partition/hybrid", &ours, NULL, NULL);
    }
    return good;
}

/* ---- one graph ------------------------------------------------------------------------------ */

struct gate {
    struct bench_scene *scene;
    uint64_t passed_ns;
};

/* Submit the short kernel once a long one runs. */
static gantry_status pass_gate(gantry_task *task, void *arg)
{
    struct gate *gate = arg;
    (void)task;
    if (!bench_scene_await_begin(gate->scene)) {
        return GANTRY_ERR_TASK_FAILED;
    }
    gate->passed_ns = gy_clock_ns();
    return GANTRY_OK;
}

static bool sample_graph(struct bench_scene *scene, void *arg, struct bench_sample *out)
{
    struct bench_shot longs[LONG_TASKS], small = {.is_long = false};
    struct gate gate = {.scene = scene};
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *gpu = NULL, *before;
    bool good = true;
    for (int i = 0; i < LONG_TASKS && good; i++) {
        longs[i] = (struct bench_shot){.is_long = true, .blocks = scene->long_blocks / LONG_TASKS};
        good = bench_scene_add(scene, scene->urgent, arg, &longs[i], &gpu);
    }
    desc.run = pass_gate;
    desc.arg = &gate;
    good = good && gantry_taskman_submit(scene->urgent, &desc, &before) == GANTRY_OK &&
           bench_scene_add(scene, scene->urgent, scene->critical, &small, &gpu) &&
           gantry_task_start_after(gpu, before) == GANTRY_OK;
    bench_scene_arm(scene);
    uint64_t begin = gy_clock_ns();
    good = good && gantry_taskman_start(scene->urgent) == GANTRY_OK &&
           gantry_taskman_stop(scene->urgent) == GANTRY_OK;
    if (!good) {
        cli_error("bench partition: %s", gantry_last_error());
    }
    /* Whether it was started or not, no task is left that has pointers to our stack. */
    if (gantry_taskman_reset(scene->urgent) != GANTRY_OK || !good) {
        return false;
    }
    *out = (struct bench_sample){.short_ns = small.finished_ns - gate.passed_ns};
    for (int i = 0; i < LONG_TASKS; i++) {
        uint64_t took = longs[i].finished_ns - begin;
        out->long_ns = took > out->long_ns ? took : out->long_ns;
    }
    return true;
}

static bool bench_one_graph(const struct bench_options *options)
{
    struct bench_scene scene;
    struct bench_scene_options how = scene_options(options);
    struct bench_figures unnamed, named;
    gantry_partition *bulk = NULL;
    how.bulk_sms = BULK_SMS;
    bool good = bench_scene_open(&scene, &how);
    uint32_t count = samples(options, &scene, SAMPLES_PER_RUN);
    good = good && gantry_partition_find(scene.context, "bulk", &bulk) == GANTRY_OK &&
           bench_scene_measure(&scene, sample_graph, NULL, count, &unnamed) &&
           bench_scene_measure(&scene, sample_graph, bulk, count, &named) && bench_scene_verify(&scene);
    bench_scene_close(&scene);
    if (good) {
        report_kernel(options, "partition/one-graph", &unnamed, "named", &named);
    }
    return good;
}

/* ---- splits --------------------------------------------------------------------------------- */

/* Measure one split; `whole` is the long kernel's time on all SMs, which is measured with the first split. */
static bool bench_split(const struct bench_options *options, uint32_t sms, bool fine, double *whole,
                        uint32_t *total)
{
    struct bench_scene scene;
    struct bench_scene_options how = scene_options(options);
    struct bench_figures f, plain = {.long_median = *whole};
    gantry_partition_info critical = {.struct_size = sizeof(critical)};
    how.critical_sms = sms;
    how.fine = fine;
    how.waves = SPLIT_WAVES;
    how.wave_us = 1000 * WAVES / SPLIT_WAVES;
    bool good =
        bench_scene_open(&scene, &how) &&
        (*whole != 0 || bench_scene_measure_way(&scene, BENCH_WAY_PLAIN, false, options->runs, &plain)) &&
        bench_scene_measure_way(&scene, BENCH_WAY_TASKS, false,
                                samples(options, &scene, SPLIT_SAMPLES_PER_RUN), &f) &&
        bench_scene_verify(&scene) && gantry_partition_get_info(scene.critical, &critical) == GANTRY_OK;
    *total = scene.info.total_sms;
    bench_scene_close(&scene);
    *whole = plain.long_median;
    if (good) {
        char name[64];
        (void)snprintf(name, sizeof(name), "partition/split-%u", critical.granted_sms);
        report_kernel(options, name, &f, NULL, NULL);
        (void)snprintf(name, sizeof(name), "partition/split-%u-long", critical.granted_sms);
        bench_partition_line(options, name, "kernel", once(f.long_median), "all-sms", once(*whole));
    }
    return good;
}

static bool bench_splits(const struct bench_options *options)
{
    double whole = 0;
    uint32_t total = UINT32_MAX;
    bool good = true;
    for (uint32_t sms = SPLIT_STEP; good && sms + SPLIT_STEP < total; sms += SPLIT_STEP) {
        good = bench_split(options, sms, false, &whole, &total);
    }
    /* A partition that leaves just one step is no multiple of a unit in general. */
    return good && bench_split(options, total - SPLIT_STEP, true, &whole, &total);
}

static bool bench_partition(const struct bench_options *options)
{
    return bench_ways(options) && bench_one_graph(options) && bench_splits(options) &&
           bench_hybrid(options) && bench_partition_costs(options);
}

const struct gantry_bench gantry_bench_partition = {
    .name = "partition",
    .summary = "a kernel in a hurry behind one that fills the device; what partitions cost",
    .help = "  critical, long   a short kernel and the one that fills the device, from submission until the "
            "host\n"
            "                   knows the end; yardsticks are green contexts, plain streams and priorities "
            "by hand\n"
            "  leak             the same with the long kernel on a stream of no partition\n"
            "  path             where the short kernel's time goes\n"
            "  NAME-p99         what 99 of 100 are below\n",
    .main = bench_partition,
};
