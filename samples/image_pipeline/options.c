/* SPDX-License-Identifier: MIT */
#include "samples/image_pipeline/options.h"

#include "cli/messages.h"
#include "cli/options.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#define MAX_REPEAT 100000
#define MAX_WORKERS 1024
#define MAX_IN_FLIGHT 4096

static const char usage[] =
    "usage: gantry run image_pipeline [OPTION...]\n\n"
    "Decodes every PNG file of a folder on the CPU; finds its edges, blurs and equalises it on the device;\n"
    "encodes NAME_edges.png (edge strength) and NAME_result.png (equalised, edges drawn in).  All photos "
    "are\n"
    "one task graph, with a timeline for https://ui.perfetto.dev.\n\n"
    "  -i, --input DIR         folder of photos (default: those that come with the sample)\n"
    "  -o, --output DIR        folder for the results, created if missing (default: out)\n"
    "  -d, --driver DRIVER     auto (the default), cuda or emulated\n"
    "      --device DEVICE     ordinal or UUID of the device\n"
    "  -r, --repeat N          process every photo N times (default: 1); results of the first round are\n"
    "                          written, those of later rounds compared with them byte by byte\n"
    "  -w, --workers N         threads for decoding and encoding (default: one per CPU)\n"
    "  -f, --in-flight N       photos in memory at a time (default: 16)\n"
    "      --order WAY         edges (the default): by hand; data: from what tasks read and write\n"
    "  -g, --dump-graph FILE   write the graph, as it ended, in Graphviz' dot language\n"
    "      --no-timeline       do not write timeline.pftrace\n"
    "  -h, --help              print this\n\n"
    "Exit status: 0 all photos processed, 1 some were not, 2 wrong arguments, 130 interrupted.\n";

/* The sample's photos, where they lie from the command's own file: as installed, or in the build folder. NULL
 * after telling on stderr that they are in neither place. */
static const char *default_input(void)
{
    static const char *const places[] = {IMAGE_PIPELINE_INSTALLED, "photos"};
    static char path[PATH_MAX + sizeof(IMAGE_PIPELINE_INSTALLED)];
    ssize_t bytes = readlink("/proc/self/exe", path, PATH_MAX);
    while (bytes > 0 && path[bytes - 1] != '/') {
        bytes--;
    }
    for (size_t i = 0; bytes > 0 && i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(path + bytes, sizeof(path) - (size_t)bytes, "%s", places[i]);
        if (access(path, R_OK) == 0) {
            return path;
        }
    }
    cli_error("image_pipeline: its photos are in neither %.*s%s nor %.*s%s: name a folder of PNG files with "
              "--input",
              (int)bytes, path, places[0], (int)bytes, path, places[1]);
    return NULL;
}

int options_read(int argc, char **argv, struct options *out)
{
    struct options options = {.output = "out", .repeat = 1, .in_flight = 16};
    static const char *const orders[] = {"edges", "data", NULL};
    int driver = GANTRY_DRIVER_AUTO, order = 0;
    bool no_timeline = false;
    const struct cli_option table[] = {
        {.name = "input", .letter = 'i', .text = &options.input},
        {.name = "output", .letter = 'o', .text = &options.output},
        {.name = "driver", .letter = 'd', .choice = &driver, .names = cli_driver_names},
        {.name = "device", .text = &options.device},
        {.name = "repeat", .letter = 'r', .number = &options.repeat, .low = 1, .high = MAX_REPEAT},
        {.name = "workers", .letter = 'w', .number = &options.workers, .low = 1, .high = MAX_WORKERS},
        {.name = "in-flight", .letter = 'f', .number = &options.in_flight, .low = 1, .high = MAX_IN_FLIGHT},
        {.name = "order", .choice = &order, .names = orders},
        {.name = "dump-graph", .letter = 'g', .text = &options.graph_file},
        {.name = "no-timeline", .flag = &no_timeline},
        {.name = "help", .letter = 'h', .help = usage},
        {.name = NULL}};
    int status = cli_read_options(argc, argv, table, 0);
    if (status >= 0) {
        return status;
    }
    options.driver = (gantry_driver_choice)driver;
    options.timeline = !no_timeline;
    options.from_data = order == 1;
    if (options.input == NULL) {
        options.input = default_input();
    }
    if (options.input == NULL) {
        return 1;
    }
    *out = options;
    return -1;
}
