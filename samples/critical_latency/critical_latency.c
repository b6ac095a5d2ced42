/* SPDX-License-Identifier: MIT */
/* `gantry run critical_latency`: a short kernel behind one that fills the device.
 *
 *   plain streams      it waits until the long kernel's last wave leaves SMs over
 *   priority           it waits until blocks of the wave that runs have ended
 *   partition, by hand streams of two partitions, launched and watched by hand: what the hardware can do
 *   partition          tasks of two task managers; the long one names no partition, so it is in the default
 * one leak               the same, with the long kernel on a stream of no partition: what not to do
 *
 * The long kernel's time shows the price: it has fewer SMs.  On the emulated driver times say nothing, and
 * only results are looked at.  How the context is made and the tasks are is in
 * bench/critical_scene.c: open_context() and bench_scene_add().  Both of the context's threads and the worker
 * spin, as they would where a short reaction is worth three cores; --wait chooses otherwise. */
#include "bench/critical_scene.h"
#include "cli/messages.h"
#include "cli/options.h"
#include "cli/samples.h"

#include <stdio.h>

static const char *const way_names[BENCH_WAYS] = {"plain streams", "priority", "partition, by hand",
                                                  "partition", "leak"};

#define CRITICAL_SMS 16

struct settings {
    struct bench_scene_options scene;
    uint32_t samples;
};

static bool measure_way(struct bench_scene *scene, int way, uint32_t samples, struct bench_figures *f)
{
    cli_progress("%s, way %d of %d: %u times, Ctrl-C ends this", way_names[way], way + 1, BENCH_WAYS,
                 samples);
    bool good = bench_scene_measure_way(scene, (enum bench_way)way, false, samples, f);
    cli_progress_end();
    return good;
}

/* All ways, with their times; with none where they say nothing about a device. */
static bool measure_ways(struct bench_scene *scene, uint32_t samples)
{
    bool good = true;
    printf("%s, %u SMs\n%-20s %12s %12s %14s\n", scene->info.name, scene->info.total_sms, "way", "median us",
           "p99 us", "long kernel us");
    for (int way = 0; way < BENCH_WAYS && good; way++) {
        struct bench_figures f;
        good = measure_way(scene, way, samples, &f);
        if (good) {
            printf("%-20s %12.1f %12.1f %14.0f\n", way_names[way], f.median / 1e3, f.p99 / 1e3,
                   f.long_median / 1e3);
        }
    }
    return good && bench_scene_verify(scene);
}

static bool check_ways(struct bench_scene *scene, uint32_t samples)
{
    bool good = true;
    printf("%s, %u SMs: emulated, so results are checked and no times printed\n", scene->info.name,
           scene->info.total_sms);
    for (int way = 0; way < BENCH_WAYS && good; way++) {
        struct bench_figures f;
        good = measure_way(scene, way, samples, &f);
    }
    good = good && bench_scene_verify(scene);
    for (int way = 0; way < BENCH_WAYS; way++) {
        printf("%-20s %s\n", way_names[way], good ? "right" : "WRONG");
    }
    return good;
}

/* Returns the exit status. */
static int show_ways(const struct settings *settings)
{
    struct bench_scene scene;
    bench_scene_cause = cli_cause;
    bool is_open = bench_scene_open(&scene, &settings->scene);
    bool good = is_open && (scene.info.emulated ? check_ways : measure_ways)(&scene, settings->samples);
    gantry_status refused = scene.refused;
    bench_scene_close(&scene);
    if (refused != GANTRY_OK) {
        bool by_size = refused == GANTRY_ERR_INVALID_ARGUMENT && settings->scene.critical_sms != CRITICAL_SMS;
        return cli_refused(refused, by_size ? "--critical-sms" : NULL);
    }
    return good ? 0 : 1;
}

static const char usage[] =
    "usage: gantry run critical_latency [--driver DRIVER] [--samples N] [--critical-sms N]\n"
    "                                   [--wait spin|hybrid|block]\n\n"
    "Shows what a partition of the device is good for: a kernel of 20 us is submitted while another one "
    "fills\n"
    "the device, and waits for it on plain streams, less with priorities, and hardly with a partition of "
    "its\n"
    "own.  Prints the time from submission until the host knows the end.  In the row 'leak' the long kernel\n"
    "runs in no partition and so gets in the way again.\n\n"
    "  --driver DRIVER    auto (the default), cuda or emulated\n"
    "  --samples N        of each way (100)\n"
    "  --critical-sms N   multiprocessors of the critical partition, at least (16)\n"
    "  --wait MODE        how the dispatcher's threads and the worker wait: spin (the default), hybrid\n"
    "                     or block\n";

static int critical_main(int argc, char **argv)
{
    static const char *const wait_names[] = {"spin", "hybrid", "block", NULL};
    static const gantry_wait_mode waits[] = {GANTRY_WAIT_SPIN, GANTRY_WAIT_HYBRID, GANTRY_WAIT_BLOCK};
    struct settings settings = {.samples = 100,
                                .scene = {.critical_sms = CRITICAL_SMS, .waves = 4, .wave_us = 1000}};
    int driver = GANTRY_DRIVER_AUTO, wait = 0;
    const struct cli_option table[] = {
        {.name = "driver", .choice = &driver, .names = cli_driver_names},
        {.name = "samples", .number = &settings.samples, .low = 1, .high = 10000},
        {.name = "critical-sms", .number = &settings.scene.critical_sms, .low = 1, .high = 10000},
        {.name = "wait", .choice = &wait, .names = wait_names},
        {.name = "help", .letter = 'h', .help = usage},
        {.name = NULL}};
    int status = cli_read_options(argc, argv, table, 0);
    if (status >= 0) {
        return status;
    }
    settings.scene.driver = (gantry_driver_choice)driver;
    settings.scene.wait = waits[wait];
    return show_ways(&settings);
}

const struct gantry_sample gantry_sample_critical_latency = {
    .name = "critical_latency",
    .summary = "a short kernel behind one that fills the device, with and without partitions",
    .main = critical_main,
};
