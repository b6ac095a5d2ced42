/* SPDX-License-Identifier: MIT */
/* `gantry run two_tenants`: two task managers share a device by their shares of its time.
 *
 * Both always have kernels to launch, each of which fills the device.  Three ways: launched one by one,
 * captured into graphs, and as stable tasks of a frozen graph that are launched again without being called.
 * Printed is what each got: as the library charged it, by the kernels that ran, and against the other. */
#include "cli/messages.h"
#include "cli/options.h"
#include "cli/samples.h"
#include "samples/two_tenants/tenants.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static const char *const names[TENANTS_WAYS] = {"streams", "graphs", "replay"};

static void tell_progress(enum tenants_way way, double seconds)
{
    cli_progress("%s, part %d of %d: %g s", names[way], (int)way + 1, TENANTS_WAYS, seconds);
}

static bool show(const struct tenants_settings *settings)
{
    static struct tenants_result result;
    bool good = gantry_sample_tenants_run(settings, &result);
    cli_progress_end();
    if (!good) {
        return false;
    }
    printf("%s: %g s of kernels of %g us%s\n", result.device, settings->seconds,
           (double)settings->kernel_ns / 1e3, result.emulated ? "; emulated, the times mean nothing" : "");
    printf("%-8s %8s %9s %9s %10s %9s %9s %9s %8s\n", "way", "target %", "charged %", "kernels %",
           "of both %", "100 ms %", "1 s %", "held %", "kernels");
    for (int way = 0; way < TENANTS_WAYS; way++) {
        const struct tenant_result *t = result.ways[way].tenants;
        double both = t[0].charged + t[1].charged > 0 ? t[0].charged + t[1].charged : 1;
        for (int i = 0; i < TENANTS; i++) {
            printf("%-8s %8.1f %9.3f %9.3f %10.3f %9.2f %9.2f %9.2f %8llu\n", names[way], 100 * t[i].target,
                   100 * t[i].charged, 100 * t[i].by_kernels, 100 * t[i].charged / both,
                   100 * t[i].usage.worst_100ms, 100 * t[i].usage.worst_1s, 100 * t[i].throttled,
                   (unsigned long long)t[i].kernels);
        }
    }
    return true;
}

static const char usage[] =
    "usage: gantry run two_tenants [--driver DRIVER] [--seconds S] [--kernel-us N] [--shares A,B]\n\n"
    "Shows shares of a device's time: two task managers have kernels to launch all the time and get the "
    "part\n"
    "that they were given, 30 and 70 percent, whichever way they launch.  Prints for each what it was "
    "charged,\n"
    "what its kernels took, how far the worst 100 ms and the worst second were from the target, and how much "
    "of\n"
    "the time it was held back.\n\n"
    "  --driver DRIVER   auto (the default), cuda or emulated\n"
    "  --seconds S       length of each of the three parts (10)\n"
    "  --kernel-us N     length of a kernel (500)\n"
    "  --shares A,B      percent of the device's time (30,70)\n";

static bool read_shares(const char *text, void *into)
{
    double *percent = into;
    char *end;
    for (int i = 0; i < TENANTS; i++) {
        percent[i] = strtod(text, &end);
        if (end == text || *end != (i + 1 < TENANTS ? ',' : '\0') || !(percent[i] > 0 && percent[i] < 100)) {
            return false;
        }
        text = end + 1;
    }
    return true;
}

static bool read_seconds(const char *text, void *into)
{
    double *seconds = into;
    char *end;
    *seconds = strtod(text, &end);
    return end != text && *end == '\0' && *seconds > 0 && *seconds <= 100000;
}

static int tenants_main(int argc, char **argv)
{
    struct tenants_settings settings = {.ways = (1u << TENANTS_WAYS) - 1,
                                        .percent = {30, 70},
                                        .seconds = 10,
                                        .now_ns = now_ns,
                                        .begins = tell_progress};
    int driver = GANTRY_DRIVER_AUTO;
    uint32_t kernel_us = 500;
    const struct cli_option table[] = {{.name = "driver", .choice = &driver, .names = cli_driver_names},
                                       {.name = "seconds",
                                        .read = read_seconds,
                                        .into = &settings.seconds,
                                        .takes = "seconds, up to 100000"},
                                       {.name = "kernel-us", .number = &kernel_us, .low = 1, .high = 100000},
                                       {.name = "shares",
                                        .read = read_shares,
                                        .into = settings.percent,
                                        .takes = "two percentages, as in 30,70"},
                                       {.name = "help", .letter = 'h', .help = usage},
                                       {.name = NULL}};
    int status = cli_read_options(argc, argv, table, 0);
    if (status >= 0) {
        return status;
    }
    settings.driver = (gantry_driver_choice)driver;
    settings.kernel_ns = settings.told_ns = kernel_us * UINT64_C(1000);
    return show(&settings) ? 0 : 1;
}

const struct gantry_sample gantry_sample_two_tenants = {
    .name = "two_tenants",
    .summary = "two task managers that share a device by their shares of its time",
    .main = tenants_main,
};
