/* SPDX-License-Identifier: MIT */
/* Plans of partitions as JSON. */
#ifndef CLI_PLAN_JSON_H
#define CLI_PLAN_JSON_H

#include <gantry/partition.h>

/* A plan and the memory that holds it. */
struct cli_plan {
    gantry_partition_options options;
    gantry_partition_request requests[GANTRY_PARTITIONS_MAX];
    gantry_share shares[GANTRY_PARTITIONS_MAX]; /* of the requests that have one */
    void *document;                             /* the strings are in it */
};

/* Read a file; false, with the reason on stderr, when it cannot be read or is no plan. */
bool cli_plan_read(const char *path, struct cli_plan *out);
void cli_plan_free(struct cli_plan *plan);

#endif
