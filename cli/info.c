/* SPDX-License-Identifier: MIT */
/* `gantry info`: the driver, the device and its copy tuning, as text or as JSON. */
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/links.h"
#include "cli/options.h"
#include "cli/partitions.h"
#include "cli/surroundings.h"
#include "cli/ticker.h"

#include <gantry/gantry.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PEERS = 64 };

struct report {
    const char *driver; /* "cuda" or "emulated" */
    char why[640];      /* why the library chose this driver */
    gantry_device_info device;
    struct cli_surroundings surroundings;
    gantry_copy_tuning copies;
    uint64_t peers; /* bit d: the device with ordinal d and this one reach each other */
    gantry_copy_peer_tuning to_peer[PEERS];
};

/* The parts of the output that the options ask for. */
struct request {
    gantry_driver_choice choice;
    bool json, copies, calibrate, links;
    const char *plan; /* of partitions, NULL: none */
};

#define CALIBRATION_BYTES (64ul << 20)
#define EMULATED_BYTES (1ul << 20) /* its times say nothing: only the look of the table is shown */

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

/* The devices that reach the one that will be opened, and that it reaches: a bit for each ordinal.  Nothing
 * is known of them if it is not opened. */
static uint64_t find_peers(gantry_driver_choice driver)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_device_info device = {.struct_size = sizeof(device)};
    gantry_context *context = NULL;
    uint64_t peers = 0;
    options.driver = driver;
    if (gantry_context_create(&options, &context) != GANTRY_OK) {
        return 0; /* the next one says why */
    }
    const int count = cli_count_devices(driver);
    gantry_status status = gantry_context_device_info(context, &device);
    for (int peer = 0; peer < PEERS && peer < count && status == GANTRY_OK; peer++) {
        gantry_link there = {.struct_size = sizeof(there)}, back = there;
        if (peer == device.ordinal) {
            continue;
        }
        status = gantry_link_get(driver, device.ordinal, peer, &there);
        status = status == GANTRY_OK ? gantry_link_get(driver, peer, device.ordinal, &back) : status;
        if (status == GANTRY_OK && there.access != 0 && back.access != 0) {
            peers |= UINT64_C(1) << peer;
        }
    }
    gantry_context_destroy(context);
    return peers;
}

/* Create the context, with the calibration if it is asked for. */
static gantry_status open_context(const struct request *request, struct report *report,
                                  gantry_context **context)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = request->choice;
    gantry_heap_options heap = GANTRY_HEAP_OPTIONS_INIT;
    const uint64_t most = request->choice == GANTRY_DRIVER_EMULATED ? EMULATED_BYTES : CALIBRATION_BYTES;
    options.calibrate_copies = request->calibrate ? most : 0;
    options.heap = &heap;
    if (request->copies) {
        heap.peers = report->peers = find_peers(request->choice);
    }
    struct cli_ticker ticker;
    if (request->calibrate) {
        cli_ticker_begin(&ticker, "measuring copies");
    }
    gantry_status status = gantry_context_create(&options, context);
    if (request->calibrate) {
        cli_ticker_end(&ticker);
    }
    if (status == GANTRY_OK) {
        report->device.struct_size = sizeof(report->device);
        report->copies.struct_size = sizeof(report->copies);
        status = gantry_context_device_info(*context, &report->device);
        if (status == GANTRY_OK) {
            status = gantry_copy_get_tuning(*context, &report->copies);
        }
        cli_read_surroundings(*context, &report->surroundings);
        for (uint64_t left = report->peers; left != 0 && status == GANTRY_OK; left &= left - 1) {
            const int peer = __builtin_ctzll(left);
            report->to_peer[peer].struct_size = sizeof(report->to_peer[peer]);
            status = gantry_copy_get_peer_tuning(*context, peer, &report->to_peer[peer]);
        }
    }
    return status;
}

static bool read_device(const struct request *request, struct report *report)
{
    gantry_driver_choice choice = request->choice;
    gantry_context *context = NULL;
    gantry_set_log(keep_reason, report->why,
                   cli_log_level > GANTRY_LOG_INFO ? cli_log_level : GANTRY_LOG_INFO);
    gantry_status status = open_context(request, report, &context);
    gantry_set_log(cli_log_to_stderr, NULL, cli_log_level);
    gantry_context_destroy(context);
    if (status != GANTRY_OK) {
        return false;
    }
    const char *variable = secure_getenv("GANTRY_DRIVER");
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
    printf("multiprocessors    %" PRIu32 " at %" PRIu32 " MHz\n", device->total_sms,
           device->clock_khz / 1000);
    printf("copy engines       %" PRIu32 "\n", device->copy_engines);
    printf("memory             %" PRIu64 " MiB\n", device->memory_bytes >> 20);
    printf("block limits       %" PRIu32 " threads, %" PRIu32 " bytes of shared memory\n",
           device->max_threads_per_block, device->shared_bytes_per_block);
    printf("integrated         %s\n", device->integrated ? "yes" : "no");
    printf("maps host memory   %s\n", device->can_map_host_memory ? "yes" : "no");
    cli_print_surroundings(&report->surroundings);
}

/* In the columns of gantry_copy_tuning_text(). */
static void print_peer(const gantry_copy_peer_tuning *tuning, int peer)
{
    printf("device %d: the kernel has %" PRIu32 " blocks (%s)\n", peer, tuning->blocks,
           tuning->measured != 0 ? "measured" : "preset");
    for (int way = 0; way < 2; way++) {
        printf("%-8s", way == 0 ? "  to" : "  from");
        for (int c = 0; c < GANTRY_COPY_SIZE_CLASSES; c++) {
            if (tuning->engine_up_to[way][c] == UINT32_MAX) {
                printf(" %9s", "all");
            } else {
                printf(" %9" PRIu32, tuning->engine_up_to[way][c]);
            }
        }
        printf("\n");
    }
}

static void print_copies(const struct report *report)
{
    char text[2048];
    (void)gantry_copy_tuning_text(&report->copies, text, sizeof(text));
    printf("\nbatched copies\n%s", text);
    for (uint64_t left = report->peers; left != 0; left &= left - 1) {
        const int peer = __builtin_ctzll(left);
        print_peer(&report->to_peer[peer], peer);
    }
}

static void print_json_string(const char *key, const char *text)
{
    printf("\"%s\":", key);
    cli_json_string(stdout, text);
}

static void print_json_copies(const gantry_copy_tuning *copies)
{
    static const char *const names[] = {"htod", "dtoh", "dtod"};
    printf(",\"copies\":{\"host_blocks\":%" PRIu32 ",\"dtoh_blocks\":%" PRIu32 ",\"device_blocks\":%" PRIu32
           ",\"host_threads\":%" PRIu32 ",\"measured\":%s,\"engine_up_to\":{",
           copies->host_blocks, copies->dtoh_blocks, copies->device_blocks, copies->host_threads,
           copies->measured != 0 ? "true" : "false");
    for (int d = 0; d < 3; d++) {
        printf("%s\"%s\":[", d > 0 ? "," : "", names[d]);
        for (int c = 0; c < GANTRY_COPY_SIZE_CLASSES; c++) {
            printf("%s%" PRIu32, c > 0 ? "," : "", copies->engine_up_to[d][c]);
        }
        printf("]");
    }
    printf("}}");
}

static void print_json_row(const char *name, const uint32_t *row)
{
    printf(",\"%s\":[", name);
    for (int c = 0; c < GANTRY_COPY_SIZE_CLASSES; c++) {
        printf("%s%" PRIu32, c > 0 ? "," : "", row[c]);
    }
    printf("]");
}

static void print_json_peers(const struct report *report)
{
    printf(",\"peers\":[");
    for (uint64_t left = report->peers; left != 0; left &= left - 1) {
        const int peer = __builtin_ctzll(left);
        const gantry_copy_peer_tuning *tuning = &report->to_peer[peer];
        printf("{\"device\":%d,\"blocks\":%" PRIu32 ",\"measured\":%s", peer, tuning->blocks,
               tuning->measured != 0 ? "true" : "false");
        print_json_row("engine_up_to_it", tuning->engine_up_to[0]);
        print_json_row("engine_up_from_it", tuning->engine_up_to[1]);
        printf("}%s", (left & (left - 1)) != 0 ? "," : "");
    }
    printf("]");
}

static void print_json(const struct report *report, bool with_copies)
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
    printf("\"total_sms\":%" PRIu32 ",\"clock_khz\":%" PRIu32 ",\"copy_engines\":%" PRIu32 ",",
           device->total_sms, device->clock_khz, device->copy_engines);
    printf("\"memory_bytes\":%" PRIu64 ",\"max_threads_per_block\":%" PRIu32 ",", device->memory_bytes,
           device->max_threads_per_block);
    printf("\"shared_bytes_per_block\":%" PRIu32 ",\"integrated\":%s,\"can_map_host_memory\":%s}",
           device->shared_bytes_per_block, device->integrated ? "true" : "false",
           device->can_map_host_memory ? "true" : "false");
    cli_print_surroundings_json(&report->surroundings);
    if (with_copies) {
        print_json_copies(&report->copies);
        print_json_peers(report);
    }
    printf("}\n");
}

/* -1 when the options are in order, else the exit status. */
static int read_options(int argc, char **argv, struct request *request)
{
    int driver = (int)request->choice;
    const struct cli_option table[] = {{.name = "json", .flag = &request->json},
                                       {.name = "driver", .choice = &driver, .names = cli_driver_names},
                                       {.name = "partitions", .text = &request->plan},
                                       {.name = "links", .flag = &request->links},
                                       {.name = "copies", .flag = &request->copies},
                                       {.name = "calibrate", .flag = &request->calibrate},
                                       {.name = NULL}};
    int status = cli_read_options(argc, argv, table, 0);
    request->choice = (gantry_driver_choice)driver;
    request->copies = request->copies || request->calibrate;
    if (status < 0 && request->plan != NULL && request->copies) {
        return cli_usage_error("info: --partitions goes with neither --copies nor --calibrate");
    }
    if (status < 0 && request->links && (request->plan != NULL || request->copies)) {
        return cli_usage_error("info: --links goes with neither --partitions, --copies nor --calibrate");
    }
    return status;
}

static int info_main(int argc, char **argv)
{
    struct request request = {.choice = GANTRY_DRIVER_AUTO};
    int status = read_options(argc, argv, &request);
    if (status >= 0) {
        return status;
    }
    cli_interrupts_end_us();
    if (request.plan != NULL) {
        return cli_show_partitions(request.choice, request.plan, request.json);
    }
    if (request.links) {
        return cli_show_links(request.choice, request.json);
    }
    struct report report = {0};
    if (!read_device(&request, &report)) {
        return 1; /* the log said why */
    }
    if (request.json) {
        print_json(&report, request.copies);
        return 0;
    }
    print_text(&report);
    if (request.copies) {
        print_copies(&report);
    }
    return 0;
}

const struct cli_command cli_info = {
    .name = "info",
    .arguments = "[--json] [--driver DRIVER] [--copies | --calibrate | --links | --partitions PLAN.json]",
    .summary = "show the version, the driver in use and the device, or a plan of partitions",
    .help =
        "Opens the device that GANTRY_DEVICE names (an ordinal or a UUID), else the first one.\n"
        "  --json            one JSON object\n"
        "  --copies          also how copies are performed: thread blocks, and what goes to the copy "
        "engines;\n"
        "                    also between this device and those that it reaches\n"
        "  --calibrate       the same as measured now, with 64 MiB (1 MiB with --driver emulated)\n"
        "  --links           instead, how every device reaches every other one: access, the driver's rank (0 "
        "is\n"
        "                    the best), atomics, and copies of 64 MiB and of 4 KiB as measured now\n"
        "  --partitions PLAN carry the plan out and show what was granted, and which multiprocessors a "
        "kernel\n"
        "                    has run on; fails when blocks ran where they should not.  Of partitions with\n"
        "                    a share of GPU time also what they got of it, all loaded for 1.2 s\n"
        "  --driver DRIVER   auto (the default), cuda or emulated\n",
    .main = info_main,
};
