/* SPDX-License-Identifier: MIT */
/* The same program as `gantry run fork_join`. */
#include "cli/options.h"
#include "cli/program.h"
#include "cli/samples.h"

int fork_join_program(int argc, char **argv);
#define main fork_join_program
#include "samples/fork_join/fork_join.c"
#undef main

static const char usage[] =
    "usage: gantry run fork_join [--count N] [--leaf N] [--workers N]\n\n"
    "Shows tasks that make tasks: a sum is divided in two until the parts are small, in light tasks that\n"
    "are added while the graph runs.  The result is compared with a loop.  Needs no device.\n\n"
    "  --count N    how many numbers to sum, 1 to 100000000 (10000000)\n"
    "  --leaf N     largest part that is not divided further (4096)\n"
    "  --workers N  threads, 0 to 256 (0: one per usable CPU)\n";

static int fork_join_main(int argc, char **argv)
{
    uint32_t count = 10000000, leaf = 4096, workers = 0;
    const struct cli_option table[] = {{.name = "count", .number = &count, .low = 1, .high = 100000000},
                                       {.name = "leaf", .number = &leaf, .low = 1, .high = 100000000},
                                       {.name = "workers", .number = &workers, .low = 0, .high = 256},
                                       {.name = "help", .letter = 'h', .help = usage},
                                       {.name = NULL}};
    int status = cli_read_options(argc, argv, table, 0);
    const struct arguments arguments = {.count = count, .leaf = leaf, .workers = workers};
    return status >= 0 ? status : sum_up(&arguments);
}

const struct gantry_sample gantry_sample_fork_join = {
    .name = "fork_join",
    .summary = "light tasks that make tasks while the graph runs; no device",
    .main = fork_join_main,
    .tells_errors = true,
};
