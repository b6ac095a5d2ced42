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

#endif
