/* SPDX-License-Identifier: MIT */
/* The same program as `gantry run host_pool`. */
#include "cli/options.h"
#include "cli/program.h"
#include "cli/samples.h"

int host_pool_program(void);
#define main host_pool_program
#include "samples/host_pool/host_pool.c"
#undef main

static const char usage[] =
    "usage: gantry run host_pool\n\n"
    "Shows how an application keeps its own threads: runs a graph of squares and their\n"
    "sum ten times on a thread pool that knows nothing of Gantry.  Takes no options.\n";

static int host_pool_main(int argc, char **argv)
{
    const struct cli_option table[] = {{.name = "help", .letter = 'h', .help = usage}, {.name = NULL}};
    int status = cli_read_options(argc, argv, table, 0);
    return status >= 0 ? status : host_pool_program();
}

const struct gantry_sample gantry_sample_host_pool = {
    .name = "host_pool",
    .summary = "tasks on a thread pool that the application has already; no device",
    .main = host_pool_main,
    .tells_errors = true,
};
