#include "samples/proof_pipeline/options.h"

#include "cli/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: gantry run proof_pipeline [OPTION...]\n\n"
    "Proofs in partitions, each of which goes through a CPU stage on all cores, one on one core, the "
    "device,\n"
    "and a CPU stage with large tables; its memory is given back at once.  Results are compared with a "
    "serial\n"
    "run.  Prints what more proofs at a time do to throughput and stages, and what the reclaimer, the limit\n"
    "of a task class and the bandwidth gate bring, alone and together.\n\n"
    "  -c, --concurrency LIST   proofs at a time (default: 1,5,10,15,20)\n"
    "  -j, --jobs N             proofs of a run (default: as many as the largest of these)\n"
    "  -p, --partitions N       of a proof (default: 2)\n"
    "  -w, --workers N          threads (default: one per CPU)\n"
    "  -r, --repeat N           measured runs of each row, 1 to 31 (default: 3)\n"
    "      --rows-log2 N        rows of a partition, 2^N, 4 to 24 (default: 9)\n"
    "      --entries N          of a row of each matrix (default: 8)\n"
    "      --window-bits N      a tail's table has 2^N points of 64 bytes, 2 to 20 (default: 8)\n"
    "      --rounds N           more transforms on the device (default: 0)\n"
    "      --device-mb N        most memory taken of the device (default: all)\n"
    "      --admission on|off   uploads wait until what their partition needs fits (default: on)\n"
    "      --tail-workers N     where tails are limited, to so many (default: a quarter of the workers)\n"
    "      --hold-us N          the gate holds a thread that long at most in one go (default: 10000)\n"
    "      --run-percent N      and leaves it that much of its time (default: 20)\n"
    "      --timeline FILE      record the last row's configuration once more, for https://ui.perfetto.dev\n"
    "  -d, --driver DRIVER      auto (the default), cuda or emulated\n"
    "One configuration instead of the comparison, with any of these; the others are as in the first row:\n"
    "      --reclaim WAY        inline, bounded or unbounded (a thread for each release; the default)\n"
    "      --keep-memory on|off big memory is the heap's, which keeps it, instead of the system's\n"
    "      --class-limit on|off tails on few workers\n"
    "      --cpu-set on|off     tails on the CPUs of as few last-level caches as have one per worker of "
    "theirs\n"
    "      --gate on|off        synthesis gives way to tails\n"
    "  -h, --help               print this\n\n"
    "Exit status: 0 everything right, 1 not, 2 wrong arguments.\n";

enum {
    ROWS = 1,
    ENTRIES,
    WINDOW,
    ROUNDS,
    DEVICE_MB,
    ADMISSION,
    TAIL,
    HOLD,
    RUN_PERCENT,
    TIMELINE,
    RECLAIM,
    KEEP,
    LIMIT,
    CPU_SET,
    GATE
};

static bool parse_number(const char *name, unsigned long low, unsigned long high, uint32_t *out)
{
    unsigned long value;
    if (!cli_parse_number(optarg, low, high, &value)) {
        cli_usage_error("proof_pipeline: %s: '%s' is not a number from %lu to %lu", name, optarg, low, high);
        return false;
    }
    *out = (uint32_t)value;
    return true;
}

static bool parse_levels(struct options *options)
{
    char *copy = strdup(optarg), *rest = copy;
    options->level_count = 0;
    bool good = copy != NULL;
    for (char *item; good && (item = strsep(&rest, ",")) != NULL;) {
        unsigned long value = 0;
        good = options->level_count < MOST_LEVELS && cli_parse_number(item, 1, 1000, &value);
        if (good) {
            options->levels[options->level_count++] = (uint32_t)value;
        }
    }
    free(copy);
    if (!good) {
        cli_usage_error(
            "proof_pipeline: --concurrency: '%s' is not a list of up to %d numbers from 1 to 1000", optarg,
            MOST_LEVELS);
    }
    return good;
}

static bool parse_switch(const char *name, bool *out)
{
    *out = strcmp(optarg, "on") == 0;
    if (!*out && strcmp(optarg, "off") != 0) {
        cli_usage_error("proof_pipeline: %s: '%s' is not on or off", name, optarg);
        return false;
    }
    return true;
}

static bool parse_reclaim(gantry_reclaim_policy *out)
{
    static const char *const names[] = {"bounded", "inline", "unbounded"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(optarg, names[i]) == 0) {
            *out = (gantry_reclaim_policy)i;
            return true;
        }
    }
    cli_usage_error("proof_pipeline: --reclaim: '%s' is not inline, bounded or unbounded", optarg);
    return false;
}

/* The options that fix a configuration. */
static bool apply_fixed(int option, struct options *o, bool *limit)
{
    o->is_fixed = true;
    return option == RECLAIM   ? parse_reclaim(&o->settings.reclaim)
           : option == KEEP    ? parse_switch("--keep-memory", &o->settings.keep_memory)
           : option == LIMIT   ? parse_switch("--class-limit", limit)
           : option == CPU_SET ? parse_switch("--cpu-set", &o->settings.cpu_set)
                               : parse_switch("--gate", &o->settings.gate);
}

static bool apply(int option, char *const *argv, struct options *o, bool *limit)
{
    uint32_t number = 0;
    switch (option) {
    case 'c':
        return parse_levels(o);
    case 'j':
        return parse_number("--jobs", 1, 10000, &o->settings.jobs);
    case 'p':
        return parse_number("--partitions", 1, 1000, &o->settings.partitions);
    case 'w':
        return parse_number("--workers", 1, 1024, &o->settings.workers);
    case 'r':
        return parse_number("--repeat", 1, MOST_REPEAT, &o->repeat);
    case ROWS:
        return parse_number("--rows-log2", 4, 24, &o->rows_log2);
    case ENTRIES:
        return parse_number("--entries", 1, 1000, &o->entries);
    case WINDOW:
        return parse_number("--window-bits", 2, 20, &o->window_bits);
    case ROUNDS:
        return parse_number("--rounds", 0, 100000, &o->settings.rounds);
    case DEVICE_MB:
        o->settings.device_bytes = parse_number("--device-mb", 1, 1000000, &number) ? number * 1048576ull : 0;
        return number != 0;
    case ADMISSION:
        return parse_switch("--admission", &o->settings.admission);
    case TAIL:
        return parse_number("--tail-workers", 1, 1024, &o->tail_limit);
    case HOLD:
        o->gate.most_held_ns = parse_number("--hold-us", 1, 1000000, &number) ? number * 1000ull : 0;
        return number != 0;
    case RUN_PERCENT:
        return parse_number("--run-percent", 1, 99, &o->gate.run_percent);
    case TIMELINE:
        o->timeline = optarg;
        return true;
    case RECLAIM:
    case KEEP:
    case LIMIT:
    case CPU_SET:
    case GATE:
        return apply_fixed(option, o, limit);
    case 'd':
        if (!cli_parse_driver(optarg, &o->settings.driver)) {
            cli_usage_error("proof_pipeline: --driver: '%s' is not auto, cuda or emulated", optarg);
            return false;
        }
        return true;
    default:
        cli_option_error(option, argv);
        return false;
    }
}

static const struct option table[] = {
    {"concurrency", required_argument, NULL, 'c'},
    {"jobs", required_argument, NULL, 'j'},
    {"partitions", required_argument, NULL, 'p'},
    {"workers", required_argument, NULL, 'w'},
    {"repeat", required_argument, NULL, 'r'},
    {"rows-log2", required_argument, NULL, ROWS},
    {"entries", required_argument, NULL, ENTRIES},
    {"window-bits", required_argument, NULL, WINDOW},
    {"rounds", required_argument, NULL, ROUNDS},
    {"device-mb", required_argument, NULL, DEVICE_MB},
    {"admission", required_argument, NULL, ADMISSION},
    {"tail-workers", required_argument, NULL, TAIL},
    {"hold-us", required_argument, NULL, HOLD},
    {"run-percent", required_argument, NULL, RUN_PERCENT},
    {"timeline", required_argument, NULL, TIMELINE},
    {"reclaim", required_argument, NULL, RECLAIM},
    {"keep-memory", required_argument, NULL, KEEP},
    {"class-limit", required_argument, NULL, LIMIT},
    {"cpu-set", required_argument, NULL, CPU_SET},
    {"gate", required_argument, NULL, GATE},
    {"driver", required_argument, NULL, 'd'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

enum options_result proof_options_parse(int argc, char **argv, struct options *out)
{
    struct options o = {.settings = {.partitions = 2, .reclaim = GANTRY_RECLAIM_UNBOUNDED, .admission = true},
                        .levels = {1, 5, 10, 15, 20},
                        .level_count = 5,
                        .repeat = 3,
                        .rows_log2 = 9,
                        .entries = 8,
                        .window_bits = 8,
                        .gate = GANTRY_BANDWIDTH_SETTINGS_INIT};
    bool limit = false;
    for (int option; (option = getopt_long(argc, argv, ":c:j:p:w:r:d:h", table, NULL)) != -1;) {
        if (option == 'h') {
            fputs(usage, stdout);
            return OPTIONS_DONE;
        }
        if (!apply(option, argv, &o, &limit)) {
            return OPTIONS_WRONG;
        }
    }
    if (optind < argc) {
        cli_usage_error("proof_pipeline: '%s' is not an option", argv[optind]);
        return OPTIONS_WRONG;
    }
    for (uint32_t i = 0; i < o.level_count; i++) {
        o.settings.concurrency = o.levels[i] > o.settings.concurrency ? o.levels[i] : o.settings.concurrency;
    }
    if (o.settings.jobs == 0) {
        o.settings.jobs = o.settings.concurrency;
    }
    uint32_t cpus = 0, more = 0;
    for (uint32_t i = 0; gantry_cpu_cache_domain(i, NULL, 0, &more) == GANTRY_OK && more != 0; i++) {
        cpus += more;
    }
    uint32_t workers = o.settings.workers != 0 ? o.settings.workers : cpus;
    o.tail_limit = o.tail_limit != 0 ? o.tail_limit : (workers + 3) / 4;
    o.settings.tail_workers = limit ? o.tail_limit : 0;
    *out = o;
    return OPTIONS_RUN;
}
