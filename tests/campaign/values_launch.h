/* SPDX-License-Identifier: MIT */
/* How value chains reach the library: the world that they run in, and the callback of a node. */
#ifndef TESTS_CAMPAIGN_VALUES_LAUNCH_H
#define TESTS_CAMPAIGN_VALUES_LAUNCH_H

#include "tests/campaign/values.h"

#include <gantry/gantry.h>

/* Memory that a call of a list has for its arrays: page-locked, and unchanged while a step runs. */
struct value_lists {
    gantry_copy_desc descs[VALUE_DESCS];
    void *dests[VALUE_DESCS];
    const void *sources[VALUE_DESCS];
    uint64_t bytes[VALUE_DESCS];
    uint8_t patterns[VALUE_DESCS][16];
    uint32_t count;
};

struct value_device {
    gantry_context *context;
    gantry_kernel *kernels[VALUE_KERNELS];
    uint8_t *memory; /* its space */
};

/* One at a time; the callbacks read it. */
struct value_setup {
    struct value_world world;
    struct value_device devices[2];
    gantry_partition *partitions[3]; /* 0: NULL */
    uint8_t *host;                   /* the space of page-locked memory */
    struct value_lists (*lists)[VALUE_OPS];
    gantry_copy_queue *queues[VALUE_NODES];
};
extern struct value_setup value_setup;

/* Write the arrays of the node's lists; no step runs. */
void value_write_lists(const struct value_node *node);
/* The callback of a node, which is `arg`. */
gantry_launch_result value_launch_node(gantry_launch *launch, void *arg);

/* A rule is broken: print it, what ran, and how to repeat it; then exit. */
void value_broken(const char *format, ...) GANTRY_PRINTF(1, 2);

#endif
