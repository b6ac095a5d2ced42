/* SPDX-License-Identifier: MIT */
#include "cli/links.h"

#include "cli/command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_DEVICES 64
#define BYTES_OF_A_COPY ((uint64_t)64 << 20)

/* The number of devices: the driver tells when there is no further one. */
int cli_count_devices(gantry_driver_choice driver)
{
    int count = 1;
    gantry_link link = {.struct_size = sizeof(link)};
    gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR);
    while (count < MOST_DEVICES && gantry_link_get(driver, 0, count, &link) == GANTRY_OK) {
        count++;
    }
    gantry_set_log(cli_log_to_stderr, NULL, cli_log_level);
    return count;
}

static void print_text(const gantry_link *link)
{
    printf("%4d -> %-4d  %-8s", link->from, link->to, link->access != 0 ? "direct" : "by host");
    if (link->rank >= 0) {
        printf("  %4" PRId32, link->rank);
    } else {
        printf("  %4s", "-");
    }
    printf("  %-7s  %8.1f  %8.2f\n", link->atomics != 0 ? "yes" : "no", link->gb_per_s, link->copy_us);
}

static void print_json(const gantry_link *link, bool is_first)
{
    printf("%s{\"from\":%d,\"to\":%d,\"access\":%s,\"atomics\":%s,\"rank\":%" PRId32
           ",\"gb_per_s\":%.3f,\"copy_us\":%.3f}",
           is_first ? "" : ",", link->from, link->to, link->access != 0 ? "true" : "false",
           link->atomics != 0 ? "true" : "false", link->rank, link->gb_per_s, link->copy_us);
}

static gantry_status show_all(gantry_driver_choice driver, int count, bool json)
{
    for (int pair = 0; pair < count * count; pair++) {
        const int from = pair / count, to = pair % count;
        gantry_link link = {.struct_size = sizeof(link)};
        if (from == to) {
            continue;
        }
        gantry_status status = gantry_link_measure(driver, from, to, BYTES_OF_A_COPY, &link);
        if (status != GANTRY_OK) {
            return status;
        }
        if (json) {
            print_json(&link, pair == 1);
        } else {
            print_text(&link);
        }
    }
    return GANTRY_OK;
}

int cli_show_links(gantry_driver_choice driver, bool json)
{
    int ordinal;
    if (gantry_suggest_device(driver, &ordinal) != GANTRY_OK) {
        return 1; /* the log said why */
    }
    int count = cli_count_devices(driver);
    if (json) {
        printf("{\"links\":[");
    } else if (count < 2) {
        printf("one device has no links\n");
    } else {
        printf("from    to    memory    rank  atomics      GB/s        us\n");
    }
    gantry_status status = show_all(driver, count, json);
    if (json) {
        printf("]}\n");
    }
    return status == GANTRY_OK ? 0 : 1; /* the log said why */
}
