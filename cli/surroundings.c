/* SPDX-License-Identifier: MIT */
#include "cli/surroundings.h"

#include "cli/command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GREEN_CONTEXTS 12040 /* the driver tells SMs since this version */
#define LOGS 12090           /* drivers write $CUDA_LOG_FILE since this version */

static const char *variable(const char *name)
{
    const char *text = secure_getenv(name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

void cli_read_surroundings(gantry_context *context, struct cli_surroundings *out)
{
    gantry_device_info device = {.struct_size = sizeof(device)};
    *out = (struct cli_surroundings){.max_connections = variable("CUDA_DEVICE_MAX_CONNECTIONS"),
                                     .mps_partition = variable("CUDA_MPS_SM_PARTITION"),
                                     .log_file = variable("CUDA_LOG_FILE")};
    out->topology.struct_size = sizeof(out->topology);
    if (gantry_context_device_info(context, &device) != GANTRY_OK) {
        return;
    }
    out->driver_version = device.driver_version;
    if (device.driver_version < GREEN_CONTEXTS ||
        gantry_partition_read_topology(context, &out->topology) != GANTRY_OK) {
        memset(&out->topology, 0, sizeof(out->topology));
    }
}

static const char *scope_of(const gantry_sm_topology *t)
{
    return t->workqueue_scope == GANTRY_WORKQUEUE_BALANCED ? "balanced" : "shared";
}

void cli_work_queues_text(const struct cli_surroundings *s, char out[CLI_SURROUNDINGS_TEXT])
{
    const gantry_sm_topology *t = &s->topology;
    char limit[64] = "not told by drivers before CUDA 13.1";
    if (t->workqueues != 0) {
        snprintf(limit, sizeof(limit), "%" PRIu32 ", %s%s", t->workqueues, scope_of(t),
                 t->has_workqueues != 0 ? ", can be handed on" : "");
    }
    if (s->max_connections != NULL) {
        snprintf(out, CLI_SURROUNDINGS_TEXT, "%s (CUDA_DEVICE_MAX_CONNECTIONS is %.32s)", limit,
                 s->max_connections);
    } else {
        snprintf(out, CLI_SURROUNDINGS_TEXT, "%s (CUDA_DEVICE_MAX_CONNECTIONS is not set: 8 of 1 to 32)",
                 limit);
    }
}

/* Which part of the GPU a client of MPS has, in numbers. */
static void part_text(const gantry_sm_topology *t, char *out, size_t room)
{
    if (t->device_sms == 0) {
        snprintf(out, room, "%" PRIu32 " multiprocessors; NVML does not say of how many", t->total_sms);
    } else {
        snprintf(out, room, "%" PRIu32 " of %" PRIu32 " multiprocessors", t->total_sms, t->device_sms);
    }
}

bool cli_mps_text(const struct cli_surroundings *s, char out[CLI_SURROUNDINGS_TEXT])
{
    const gantry_sm_topology *t = &s->topology;
    char part[80];
    part_text(t, part, sizeof(part));
    if (t->mps_percentage == 0) {
        return false;
    }
    if (t->mps_is_static != 0) {
        snprintf(out, CLI_SURROUNDINGS_TEXT, "static partition %.100s: %s",
                 s->mps_partition != NULL ? s->mps_partition : "", part);
    } else if (t->mps_percentage < 100) {
        snprintf(out, CLI_SURROUNDINGS_TEXT, "active thread percentage %" PRIu32 ": %s", t->mps_percentage,
                 part);
    } else if (t->device_sms > t->total_sms) { /* no variable of this process says why */
        snprintf(out, CLI_SURROUNDINGS_TEXT, "%s: a limit of the MPS server", part);
    } else {
        snprintf(out, CLI_SURROUNDINGS_TEXT, "a client without a limit: %s", part);
    }
    return true;
}

const char *cli_small_allocator(void)
{
    return GANTRY_SMALL_ALLOCATOR;
}

const char *cli_small_allocator_text(void)
{
    switch (GANTRY_SMALL_ALLOCATOR[0]) {
    case 'j':
        return "jemalloc, built with the library, which may be opened at run time";
    case 'i':
        return "jemalloc as installed; programs that open the library at run time need "
               "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=8192";
    default:
        return "no jemalloc: small blocks of the heap take whole pages";
    }
}

void cli_print_surroundings(const struct cli_surroundings *s)
{
    char text[CLI_SURROUNDINGS_TEXT];
    cli_work_queues_text(s, text);
    printf("work queues        ");
    cli_print_text(stdout, text, 0, CLI_ANY_LENGTH);
    if (cli_mps_text(s, text)) {
        printf("\nMPS                ");
        cli_print_text(stdout, text, 0, CLI_ANY_LENGTH);
    }
    printf("\ndriver's log       ");
    if (s->log_file != NULL && s->driver_version >= LOGS) {
        printf("in ");
        cli_print_text(stdout, s->log_file, 0, CLI_ANY_LENGTH);
        printf(" (CUDA_LOG_FILE)\n");
    } else {
        printf("%s\n", s->driver_version >= LOGS
                           ? "nowhere (CUDA_LOG_FILE is not set: stdout, stderr or a file)"
                           : "nowhere: this driver writes none");
    }
    printf("small blocks       %s\n", cli_small_allocator_text());
}

static void print_json_text(const char *key, const char *text)
{
    printf("\"%s\":", key);
    if (text != NULL) {
        cli_json_string(stdout, text);
    } else {
        printf("null");
    }
}

void cli_print_surroundings_json(const struct cli_surroundings *s)
{
    const gantry_sm_topology *t = &s->topology;
    printf(",\"work_queues\":{");
    if (t->workqueues != 0) {
        printf("\"limit\":%" PRIu32 ",\"scope\":\"%s\"", t->workqueues, scope_of(t));
    } else {
        printf("\"limit\":null,\"scope\":null");
    }
    printf(",\"can_be_handed_on\":%s,", t->has_workqueues != 0 ? "true" : "false");
    print_json_text("max_connections", s->max_connections);
    printf("},\"mps\":");
    if (t->mps_percentage == 0) {
        printf("null,");
    } else {
        printf("{\"percentage\":%" PRIu32 ",", t->mps_percentage);
        print_json_text("static_partition", t->mps_is_static != 0 ? s->mps_partition : NULL);
        printf(",\"total_sms\":%" PRIu32 ",\"device_sms\":", t->total_sms);
        if (t->device_sms != 0) {
            printf("%" PRIu32 "},", t->device_sms);
        } else {
            printf("null},");
        }
    }
    print_json_text("log_file", s->driver_version >= LOGS ? s->log_file : NULL);
    printf(",");
    print_json_text("small_allocator", cli_small_allocator());
}
