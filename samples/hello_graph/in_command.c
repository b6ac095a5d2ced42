/* SPDX-License-Identifier: MIT */
/* The same program as `gantry run hello_graph`. */
#include "cli/options.h"
#include "cli/program.h"
#include "cli/samples.h"

int hello_graph_program(void);
#define main hello_graph_program
#include "samples/hello_graph/hello_graph.c"
#undef main

static const char usage[] =
    "usage: gantry run hello_graph\n\n"
    "Shows a whole program: copies 1000 numbers to the device, triples and increments\n"
    "them there, copies them back and looks at each.  Takes no options.\n";

static int hello_main(int argc, char **argv)
{
    const struct cli_option table[] = {{.name = "help", .letter = 'h', .help = usage}, {.name = NULL}};
    int status = cli_read_options(argc, argv, table, 0);
    return status >= 0 ? status : hello_graph_program();
}

const struct gantry_sample gantry_sample_hello_graph = {
    .name = "hello_graph",
    .summary = "the smallest whole program: copy, two kernels, copy back, look",
    .main = hello_main,
    .tells_errors = true,
};
