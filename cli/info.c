#include "cli/command.h"
#include "cli/partitions.h"

#include <gantry/gantry.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct report {
    const char *driver; /* "cuda" or "emulated" */
    char why[640];      /* why that one */
    gantry_device_info device;
};

/* Keeps the library's line about the driver it took, and passes every line on. */
static void keep_reason(void *user, gantry_log_level level, const char *line)
{
    if (level == GANTRY_LOG_INFO && strstr(line, "driver") != NULL) {
        snprintf(user, sizeof(((struct report *)0)->why), "%s", line);
    }
    if (level <= cli_log_level) {
        cli_log_to_stderr(NULL, level, line);
    }
}

static bool read_device(gantry_driver_choice choice, struct report *report)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = choice;
    gantry_context *context;
    gantry_set_log(keep_reason, report->why, GANTRY_LOG_DEBUG);
    gantry_status status = gantry_context_create(&options, &context);
    gantry_set_log(cli_log_to_stderr, NULL, cli_log_level);
    if (status != GANTRY_OK) {
        return false;
    }
    report->device.struct_size = sizeof(report->device);
    status = gantry_context_device_info(context, &report->device);
    gantry_context_destroy(context);
    if (status != GANTRY_OK) {
        return false;
    }
    const char *variable = getenv("GANTRY_DRIVER");
    report->driver = report->device.emulated ? "emulated" : "cuda";
    if (choice != GANTRY_DRIVER_AUTO) {
        snprintf(report->why, sizeof(report->why), "asked for with --driver");
    } else if (variable != NULL && variable[0] != '\0') {
        snprintf(report->why, sizeof(report->why), "GANTRY_DRIVER is set to %.100s", variable);
    } else if (!report->device.emulated) {
        snprintf(report->why, sizeof(report->why), "a CUDA device was found");
    }
    return true;
}

/* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" */
static void format_uuid(const uint8_t *uuid, char *out, size_t room)
{
    size_t used = (size_t)snprintf(out, room, "GPU");
    for (size_t i = 0; i < 16; i++) {
        const char *dash = i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
        used += (size_t)snprintf(out + used, room - used, "%s%02x", dash, uuid[i]);
    }
}

static void print_text(const struct report *report)
{
    const gantry_device_info *device = &report->device;
    char uuid[48];
    format_uuid(device->uuid, uuid, sizeof(uuid));
    printf("gantry %s\n", gantry_version());
    printf("driver             %s (CUDA %d.%d)\n", report->driver, device->driver_version / 1000,
           device->driver_version % 1000 / 10);
    printf("chosen because     %s\n", report->why);
    printf("device             %d: %s\n", device->ordinal, device->name);
    printf("uuid               %s\n", uuid);
    printf("compute capability %d.%d\n", device->compute_major, device->compute_minor);
    printf("multiprocessors    %" PRIu32 " at %" PRIu32 " MHz\n", device->multiprocessors,
           device->clock_khz / 1000);
    printf("copy engines       %" PRIu32 "\n", device->copy_engines);
    printf("memory             %" PRIu64 " MiB\n", device->memory_bytes >> 20);
    printf("block limits       %" PRIu32 " threads, %" PRIu32 " bytes of shared memory\n",
           device->max_threads_per_block, device->shared_bytes_per_block);
    printf("integrated         %s\n", device->integrated ? "yes" : "no");
    printf("maps host memory   %s\n", device->can_map_host_memory ? "yes" : "no");
}

static void print_json_string(const char *key, const char *text)
{
    printf("\"%s\":\"", key);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            printf("\\%c", *c);
        } else if (*c < 0x20) {
            printf("\\u%04x", *c);
        } else {
            putchar(*c);
        }
    }
    printf("\"");
}

static void print_json(const struct report *report)
{
    const gantry_device_info *device = &report->device;
    char uuid[48];
    format_uuid(device->uuid, uuid, sizeof(uuid));
    printf("{");
    print_json_string("version", gantry_version());
    printf(",");
    print_json_string("driver", report->driver);
    printf(",\"driver_version\":%d,", device->driver_version);
    print_json_string("why", report->why);
    printf(",\"device\":{\"ordinal\":%d,", device->ordinal);
    print_json_string("name", device->name);
    printf(",");
    print_json_string("uuid", uuid);
    printf(",\"compute_major\":%d,\"compute_minor\":%d,", device->compute_major, device->compute_minor);
    printf("\"multiprocessors\":%" PRIu32 ",\"clock_khz\":%" PRIu32 ",\"copy_engines\":%" PRIu32 ",",
           device->multiprocessors, device->clock_khz, device->copy_engines);
    printf("\"memory_bytes\":%" PRIu64 ",\"max_threads_per_block\":%" PRIu32 ",", device->memory_bytes,
           device->max_threads_per_block);
    printf("\"shared_bytes_per_block\":%" PRIu32 ",\"integrated\":%s,\"can_map_host_memory\":%s}}\n",
           device->shared_bytes_per_block, device->integrated ? "true" : "false",
           device->can_map_host_memory ? "true" : "false");
}

static int info_main(int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                            {"driver", required_argument, NULL, 'd'},
                                            {"partitions", required_argument, NULL, 'p'},
                                            {NULL, 0, NULL, 0}};
    gantry_driver_choice choice = GANTRY_DRIVER_AUTO;
    bool json = false;
    const char *plan = NULL;
    int result;
    while ((result = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        switch (result) {
        case 'j':
            json = true;
            break;
        case 'p':
            plan = optarg;
            break;
        case 'd':
            if (!cli_parse_driver(optarg, &choice)) {
                return cli_usage_error("info: there is no driver '%s'", optarg);
            }
            break;
        default:
            return cli_option_error(result, argv);
        }
    }
    if (optind != argc) {
        return cli_usage_error("info: unexpected argument '%s'", argv[optind]);
    }
    if (plan != NULL) {
        return cli_show_partitions(choice, plan, json);
    }
    struct report report = {0};
    if (!read_device(choice, &report)) {
        return 1; /* the log said why */
    }
    if (json) {
        print_json(&report);
    } else {
        print_text(&report);
    }
    return 0;
}

const struct cli_command cli_info = {
    .name = "info",
    .arguments = "[--json] [--driver DRIVER] [--partitions PLAN.json]",
    .summary = "show the version, the driver in use and the device, or a plan of partitions",
    .help = "Opens the device that GANTRY_DEVICE names (an ordinal or a UUID), else the first one.\n"
            "  --json            one JSON object\n"
            "  --partitions PLAN carry the plan out and show what was granted, and which multiprocessors a "
            "kernel\n"
            "                    has run on; fails when blocks ran where they should not\n"
            "  --driver DRIVER   auto (the default), cuda or emulated\n",
    .main = info_main,
};
