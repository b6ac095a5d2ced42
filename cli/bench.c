#include "bench/harness.h"

#include "cli/command.h"

#include <string.h>

#define X(name) extern const struct gantry_bench gantry_bench_##name;
#include "benches.inc"
#undef X

static const struct gantry_bench *const benches[] = {
#define X(name) &gantry_bench_##name,
#include "benches.inc"
#undef X
    NULL,
};

static void list_benches(FILE *file)
{
    for (size_t i = 0; benches[i] != NULL; i++) {
        fprintf(file, "  %-20s %s\n", benches[i]->name, benches[i]->summary);
    }
}

static const struct gantry_bench *find_bench(const char *name)
{
    for (size_t i = 0; benches[i] != NULL; i++) {
        if (strcmp(benches[i]->name, name) == 0) {
            return benches[i];
        }
    }
    return NULL;
}

/* One or, for "all", every bench; false when any result was not verified. */
static bool run_benches(const struct gantry_bench *one, const struct bench_options *options)
{
    if (one != NULL) {
        return one->main(options);
    }
    bool verified = true;
    for (size_t i = 0; benches[i] != NULL; i++) {
        verified = benches[i]->main(options) && verified;
    }
    return verified;
}

/* -1 when the options are in order, else the exit status. */
static int parse_options(int argc, char **argv, struct bench_options *bench)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'},         {"runs", required_argument, NULL, 'r'},
        {"driver", required_argument, NULL, 'd'}, {"seconds", required_argument, NULL, 's'},
        {"list", no_argument, NULL, 'l'},         {NULL, 0, NULL, 0}};
    unsigned long number;
    int result;
    while ((result = getopt_long(argc, argv, ":l", options, NULL)) != -1) {
        switch (result) {
        case 'j':
            bench->json = true;
            break;
        case 'r':
            if (!cli_parse_number(optarg, 1, 100000, &number)) {
                return cli_usage_error("bench: --runs takes a number from 1 to 100000, not '%s'", optarg);
            }
            bench->runs = (uint32_t)number;
            break;
        case 'd':
            if (!cli_parse_driver(optarg, &bench->driver)) {
                return cli_usage_error("bench: there is no driver '%s'", optarg);
            }
            break;
        case 's':
            if (!cli_parse_number(optarg, 1, 3600, &number)) {
                return cli_usage_error("bench: --seconds takes a number from 1 to 3600, not '%s'", optarg);
            }
            bench->seconds = (uint32_t)number;
            break;
        case 'l':
            list_benches(stdout);
            return 0;
        default:
            return cli_option_error(result, argv);
        }
    }
    return -1;
}

static int bench_main(int argc, char **argv)
{
    struct bench_options options = {.out = stdout, .runs = 15};
    int status = parse_options(argc, argv, &options);
    if (status >= 0) {
        return status;
    }
    if (argc - optind != 1) {
        status = cli_usage_error("bench: %s", optind == argc ? "which bench?" : "one NAME only");
        list_benches(stderr);
        return status;
    }
    const struct gantry_bench *bench = find_bench(argv[optind]);
    if (bench == NULL && strcmp(argv[optind], "all") != 0) {
        status = cli_usage_error("bench: there is no bench '%s'", argv[optind]);
        list_benches(stderr);
        return status;
    }
    return run_benches(bench, &options) ? 0 : 1;
}

const struct cli_command cli_bench = {
    .name = "bench",
    .arguments = "[--json] [--runs N] [--seconds S] [--driver DRIVER] NAME | all | --list",
    .summary = "measure against yardsticks",
    .help = "Runs Gantry and a yardstick in turn, checks every result and prints the fastest and the median\n"
            "run.  ratio is ours divided by the yardstick's: below 1 is better.\n"
            "  --json            one JSON object per line\n"
            "  --runs N          timed runs of each side (15)\n"
            "  --seconds S       length of a row of benches that measure for a time (quota: 5)\n"
            "  --driver DRIVER   auto (the default), cuda or emulated\n"
            "  -l, --list        print the benches and what they measure\n",
    .main = bench_main,
};
