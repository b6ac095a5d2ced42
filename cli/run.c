#include "cli/samples.h"

#include "cli/command.h"
#include "cli/options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define X(name) extern const struct gantry_sample gantry_sample_##name;
#include "samples.inc"
#undef X

static const struct gantry_sample *const samples[] = {
#define X(name) &gantry_sample_##name,
#include "samples.inc"
#undef X
    NULL,
};

static void list_samples(FILE *file)
{
    for (size_t i = 0; samples[i] != NULL; i++) {
        fprintf(file, "  %-20s %s\n", samples[i]->name, samples[i]->summary);
    }
}

static int run_main(int argc, char **argv)
{
    bool list = false;
    const struct cli_option table[] = {{.name = "list", .letter = 'l', .flag = &list}, {.name = NULL}};
    int status = cli_read_options(argc, argv, table, CLI_ANY_WORDS);
    if (status >= 0) {
        return status;
    }
    if (list && optind < argc) {
        return cli_surplus_error(argv, optind);
    }
    if (list) {
        list_samples(stdout);
        return 0;
    }
    if (optind == argc) {
        status = cli_usage_error("run: which sample?");
        list_samples(stderr);
        return status;
    }
    int first = optind;
    for (size_t i = 0; samples[i] != NULL; i++) {
        if (strcmp(samples[i]->name, argv[first]) == 0) {
            return samples[i]->main(argc - first, argv + first);
        }
    }
    status = cli_usage_error("run: there is no sample '%s'", argv[first]);
    list_samples(stderr);
    return status;
}

const struct cli_command cli_run = {
    .name = "run",
    .arguments = "[--list] NAME [ARGUMENT...]",
    .summary = "run a sample",
    .help = "Arguments after NAME belong to the sample; most samples know --help.\n"
            "  -l, --list   print the samples and what they do\n",
    .main = run_main,
};
