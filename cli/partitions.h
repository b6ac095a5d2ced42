/* `gantry info --partitions`: a plan from a file, carried out and checked. */
#ifndef CLI_PARTITIONS_H
#define CLI_PARTITIONS_H

#include <gantry/context.h>

/* The command's exit status. */
int cli_show_partitions(gantry_driver_choice driver, const char *path, bool json);

#endif
