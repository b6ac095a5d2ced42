#include "samples/image_pipeline/options.h"

#include "cli/command.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
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
    "  -g, --dump-graph FILE   write the graph, as it ended, in Graphviz' dot language\n"
    "      --no-timeline       do not write timeline.pftrace\n"
    "  -h, --help              print this\n\n"
    "Exit status: 0 all photos processed, 1 some were not, 2 wrong arguments, 130 interrupted.\n";

/* The sample's photos, as found from the source tree's root, as installed beside the command, or where the
 * tree was when this was built. */
static const char *default_input(void)
{
    static const char here[] = "samples/image_pipeline/data", installed[] = "../share/gantry/photos";
    static char beside[PATH_MAX + sizeof(installed)];
    if (access(here, R_OK) == 0) {
        return here;
    }
    ssize_t bytes = readlink("/proc/self/exe", beside, PATH_MAX);
    while (bytes > 0 && beside[bytes - 1] != '/') {
        bytes--;
    }
    if (bytes > 0) {
        memcpy(beside + bytes, installed, sizeof(installed));
    }
    return bytes > 0 && access(beside, R_OK) == 0 ? beside : IMAGE_PIPELINE_DATA;
}

static bool parse_count(const char *name, const char *text, unsigned long low, unsigned long high,
                        uint32_t *out)
{
    unsigned long value;
    if (!cli_parse_number(text, low, high, &value)) {
        cli_usage_error("image_pipeline: %s: '%s' is not a number from %lu to %lu", name, text, low, high);
        return false;
    }
    *out = (uint32_t)value;
    return true;
}

static bool parse_driver(const char *text, gantry_driver_choice *out)
{
    if (!cli_parse_driver(text, out)) {
        cli_usage_error("image_pipeline: --driver: '%s' is not auto, cuda or emulated", text);
        return false;
    }
    return true;
}

/* One option with its argument in `optarg`; false when it was wrong, which has been told. */
static bool apply(int option, char *const *argv, struct options *options)
{
    switch (option) {
    case 'i':
        options->input = optarg;
        return true;
    case 'o':
        options->output = optarg;
        return true;
    case 'd':
        return parse_driver(optarg, &options->driver);
    case 'D':
        options->device = optarg;
        return true;
    case 'r':
        return parse_count("--repeat", optarg, 1, MAX_REPEAT, &options->repeat);
    case 'w':
        return parse_count("--workers", optarg, 1, MAX_WORKERS, &options->workers);
    case 'f':
        return parse_count("--in-flight", optarg, 1, MAX_IN_FLIGHT, &options->in_flight);
    case 'g':
        options->graph_file = optarg;
        return true;
    case 'T':
        options->timeline = false;
        return true;
    default:
        cli_option_error(option, argv);
        return false;
    }
}

enum options_result options_parse(int argc, char **argv, struct options *out)
{
    static const struct option table[] = {
        {"input", required_argument, NULL, 'i'},
        {"output", required_argument, NULL, 'o'},
        {"driver", required_argument, NULL, 'd'},
        {"device", required_argument, NULL, 'D'},
        {"repeat", required_argument, NULL, 'r'},
        {"workers", required_argument, NULL, 'w'},
        {"in-flight", required_argument, NULL, 'f'},
        {"dump-graph", required_argument, NULL, 'g'},
        {"no-timeline", no_argument, NULL, 'T'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct options options = {.output = "out", .repeat = 1, .in_flight = 16, .timeline = true};
    int option;
    while ((option = getopt_long(argc, argv, ":i:o:d:r:w:f:g:h", table, NULL)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            return OPTIONS_DONE;
        }
        if (!apply(option, argv, &options)) {
            return OPTIONS_WRONG;
        }
    }
    if (optind < argc) {
        cli_usage_error("image_pipeline: '%s' is not an option", argv[optind]);
        return OPTIONS_WRONG;
    }
    if (options.input == NULL) {
        options.input = default_input();
    }
    *out = options;
    return OPTIONS_RUN;
}
