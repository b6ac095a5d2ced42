/* SPDX-License-Identifier: MIT */
/* The bytes are a device's topology and requests for partitions of it.  A plan keeps its promises: no SM is
 * given out twice unless that was asked for, exact sizes are exact, and no more SMs are used than there
 * are. */
#include "tests/fuzz/fuzz.h"

#include <gantry/gantry.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const uint8_t *at;
    size_t left;
};

static uint32_t byte(struct reader *reader)
{
    if (reader->left == 0) {
        return 0;
    }
    reader->left--;
    return *reader->at++;
}

static void make_topology(struct reader *in, gantry_sm_topology *out)
{
    memset(out, 0, sizeof(*out));
    out->struct_size = sizeof(*out);
    out->total_sms = byte(in);
    out->alignment = byte(in) % 17;
    out->unit_sms = byte(in) % 17;
    out->unit_count = byte(in);
    out->fine_unit_sms = byte(in) % 9;
    out->fine_unit_count = byte(in);
    out->max_cluster = byte(in) % 33;
    out->workqueues = byte(in);
    out->is_structured = byte(in) % 2;
    out->gpc_count = byte(in) % 12;
    for (uint32_t i = 0; i < out->gpc_count; i++) {
        out->gpc_sms[i] = (uint8_t)byte(in);
    }
}

static void make_request(struct reader *in, char *name, gantry_share *share, gantry_partition_request *out)
{
    static const char *const others[] = {NULL, "a", "b", "c", "z"};
    memset(out, 0, sizeof(*out));
    uint32_t flags = byte(in);
    name[0] = (char)('a' + byte(in) % 5);
    name[1] = '\0';
    out->struct_size = sizeof(*out);
    out->name = name;
    out->size = (gantry_partition_size)(flags & 3);
    out->sm_count = byte(in);
    out->cluster_size = byte(in) % 20;
    out->preferred_cluster_size = byte(in) % 20;
    out->backfill = flags >> 2 & 1;
    out->ignore_coscheduling = flags >> 3 & 1;
    out->is_default = flags >> 4 & 1;
    if ((flags >> 5 & 1) != 0) {
        out->overlaps = others[byte(in) % 5];
        out->overlap_sms = byte(in);
    }
    if ((flags >> 6 & 1) != 0) {
        out->borrows = others[byte(in) % 5];
    }
    *share = (gantry_share){sizeof(*share), .percent = (double)byte(in)};
    out->share = share;
}

static void check(int promise, const char *what)
{
    if (!promise) {
        fprintf(stderr, "broken: %s\n", what);
        abort();
    }
}

static void check_layout(const gantry_sm_topology *topology, const gantry_partition_request *requests,
                         const gantry_partition_layout *layout)
{
    uint64_t own_sms = layout->unused_sms;
    check(layout->count >= 1 && layout->count <= GANTRY_PARTITIONS_MAX, "number of partitions");
    check(layout->default_partition < layout->count, "default partition");
    for (uint32_t i = 0; i < layout->count; i++) {
        const gantry_partition_slot *slot = &layout->partitions[i];
        check(slot->planned_sms <= topology->total_sms, "more SMs than there are");
        check(slot->shared_sms <= slot->planned_sms, "more shared SMs than SMs");
        check(memchr(slot->name, '\0', sizeof(slot->name)) != NULL && slot->name[0] != '\0', "name");
        own_sms += slot->planned_sms - slot->shared_sms;
        if (slot->request != UINT32_MAX) {
            const gantry_partition_request *request = &requests[slot->request];
            check(strcmp(slot->name, request->name) == 0, "name of the request");
            check(request->size != GANTRY_PARTITION_EXACT || request->sm_count == 0 ||
                      slot->planned_sms == request->sm_count,
                  "exact size");
            check(request->size != GANTRY_PARTITION_AT_LEAST || slot->planned_sms >= request->sm_count,
                  "least size");
        }
    }
    check(own_sms <= topology->total_sms, "SMs that were given out twice");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char names[GANTRY_PARTITIONS_MAX + 2][2];
    static gantry_partition_request requests[GANTRY_PARTITIONS_MAX + 2];
    static gantry_share shares[GANTRY_PARTITIONS_MAX + 2];
    static gantry_partition_layout layout;
    struct reader in = {data, size};
    gantry_sm_topology topology;
    gantry_partition_options options = GANTRY_PARTITION_OPTIONS_INIT;
    make_topology(&in, &topology);
    options.count = byte(&in) % (GANTRY_PARTITIONS_MAX + 2);
    for (uint32_t i = 0; i < options.count; i++) {
        make_request(&in, names[i], &shares[i], &requests[i]);
    }
    options.requests = requests;
    memset(&layout, 0, sizeof(layout));
    layout.struct_size = sizeof(layout);
    gantry_partition_layout before = layout;
    if (gantry_partition_plan(&topology, &options, &layout) == GANTRY_OK) {
        check_layout(&topology, requests, &layout);
    } else {
        check(memcmp(&before, &layout, sizeof(layout)) == 0, "a refused plan wrote its output");
        check(gantry_last_error()[0] != '\0', "a refused plan has a message");
    }
    return 0;
}
