#include "cli/samples.h"

#include "cli/command.h"

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
    static const struct option options[] = {{"list", no_argument, NULL, 'l'}, {NULL, 0, NULL, 0}};
    int result;
    while ((result = getopt_long(argc, argv, "+:l", options, NULL)) != -1) {
        if (result != 'l') {
            return cli_option_error(result, argv);
        }
        list_samples(stdout);
        return 0;
    }
    if (optind == argc) {
        int status = cli_usage_error("run: which sample?");
        list_samples(stderr);
        return status;
    }
    int first = optind;
    for (size_t i = 0; samples[i] != NULL; i++) {
        if (strcmp(samples[i]->name, argv[first]) == 0) {
            optind = 0; /* GNU: start over, with the sample's own options */
            return samples[i]->main(argc - first, argv + first);
        }
    }
    int status = cli_usage_error("run: there is no sample '%s'", argv[first]);
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
