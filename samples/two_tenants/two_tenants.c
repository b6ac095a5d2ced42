/* `gantry run two_tenants`: two task managers share a device by their shares of its time.
 *
 * Both always have kernels to launch, each of which fills the device.  Three ways: launched one by one,
 * captured into graphs, and as stable tasks of a frozen graph that are launched again without being called.
 * Printed is what each got: as the library charged it, by the kernels that ran, and against the other. */
#include "cli/command.h"
#include "cli/samples.h"
#include "samples/two_tenants/tenants.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static bool show(const struct tenants_settings *settings)
{
    static const char *const names[TENANTS_WAYS] = {"streams", "graphs", "replay"};
    static struct tenants_result result;
    if (!gantry_sample_tenants_run(settings, &result)) {
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

static void print_help(void)
{
    fputs("usage: gantry run two_tenants [--driver DRIVER] [--seconds S] [--kernel-us N] [--shares A,B]\n\n"
          "  --driver DRIVER   auto (the default), cuda or emulated\n"
          "  --seconds S       length of each of the three parts (10)\n"
          "  --kernel-us N     length of a kernel (500)\n"
          "  --shares A,B      percent of the device's time (30,70)\n",
          stdout);
}

static bool parse_shares(const char *text, double percent[TENANTS])
{
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

static int tenants_main(int argc, char **argv)
{
    static const struct option options[] = {{"driver", required_argument, NULL, 'd'},
                                            {"seconds", required_argument, NULL, 's'},
                                            {"kernel-us", required_argument, NULL, 'k'},
                                            {"shares", required_argument, NULL, 'p'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct tenants_settings settings = {.ways = (1u << TENANTS_WAYS) - 1,
                                        .percent = {30, 70},
                                        .seconds = 10,
                                        .kernel_ns = 500000,
                                        .now_ns = now_ns};
    unsigned long number;
    int result, index = 0;
    while ((result = getopt_long(argc, argv, ":h", options, &index)) != -1) {
        if (result == 'h') {
            print_help();
            return 0;
        }
        if (result == ':' || result == '?') {
            return cli_option_error(result, argv);
        }
        bool good = (result == 'd' && cli_parse_driver(optarg, &settings.driver)) ||
                    (result == 'p' && parse_shares(optarg, settings.percent));
        if (result == 's') {
            char *end;
            settings.seconds = strtod(optarg, &end);
            good = end != optarg && *end == '\0' && settings.seconds > 0 && settings.seconds <= 100000;
        }
        if (result == 'k' && cli_parse_number(optarg, 1, 100000, &number)) {
            settings.kernel_ns = number * 1000;
            good = true;
        }
        if (!good) {
            return cli_value_error(argv[0], &options[index]);
        }
    }
    if (optind != argc) {
        return cli_usage_error("two_tenants: unexpected argument '%s'", argv[optind]);
    }
    settings.told_ns = settings.kernel_ns;
    return show(&settings) ? 0 : 1;
}

const struct gantry_sample gantry_sample_two_tenants = {
    .name = "two_tenants",
    .summary = "two task managers that share a device by their shares of its time",
    .main = tenants_main,
};
