/* SPDX-License-Identifier: MIT */
/* `gantry info --partitions`: a plan from a file, carried out and checked. */
#ifndef CLI_PARTITIONS_H
#define CLI_PARTITIONS_H

#include <gantry/context.h>
#include <gantry/partition.h>

/* The command's exit status. */
int cli_show_partitions(gantry_driver_choice driver, const char *path, bool json);

/* The SMs that a task has run on which names no partition, launched on a stream and as a graph; false: the
 * log says why not. */
bool cli_look_at_tasks(gantry_context *context, gantry_sm_set *stream, gantry_sm_set *graph);

/* What a partition with a bound on GPU time got while it and all others with one wanted everything. */
struct cli_share {
    bool is_bound;            /* false: it has none, and the rest means nothing */
    bool is_too_small;        /* to be measured in a time that anybody waits: it was not loaded */
    gantry_share_usage usage; /* of that time, but for the windows, which are of all time so far */
};

/* Of the context's first `count` partitions; takes more than a second if any is bound.  False: the log says
 * why not. */
bool cli_try_shares(gantry_context *context, struct cli_share *out, uint32_t count);

#endif
