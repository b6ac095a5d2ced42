/* SPDX-License-Identifier: MIT */
#include "samples/proof_pipeline/options.h"

#include "cli/messages.h"
#include "cli/options.h"
#include "cli/samples.h"

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
    "  -j, --jobs LIST          proofs of a run: one number for all rows, or one for each of these "
    "(default:\n"
    "                           as many as the largest of these)\n"
    "  -p, --partitions N       of a proof (default: 2)\n"
    "  -w, --workers N          threads (default: one per CPU)\n"
    "  -r, --repeat N           measured runs of each row, 1 to 31 (default: 7)\n"
    "      --rows-log2 N        rows of a partition, 2^N, 4 to 24 (default: 9)\n"
    "      --entries N          of a row of each matrix (default: 8)\n"
    "      --window-bits N      a tail's table has 2^N points of 64 bytes, 2 to 20 (default: 8)\n"
    "      --rounds N           more transforms on the device (default: 0)\n"
    "      --device-mb N        most memory taken of the device (default: all)\n"
    "      --admission on|off   uploads wait until what their partition needs fits (default: on); it makes "
    "a\n"
    "                           difference where not all fit at a time: larger sizes, --device-mb\n"
    "      --tail-workers N     where tails are limited, to so many (default: a quarter of the workers)\n"
    "      --hold-us N          the gate holds a thread that long at most in one go (default: 100)\n"
    "      --run-percent N      and leaves it that much of its time (default: 90)\n"
    "      --gate-way WAY       sleep (the default), or yield: what a thread does that the gate holds back\n"
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

/* What an option that fixes a configuration was not given. */
#define NOT_GIVEN (-1)

/* As given, where that is not how struct options has it. */
struct given {
    int driver, admission, reclaim, keep, limit, cpu_set, gate, way;
    uint32_t device_mb, hold_us;
};

static bool read_list(const char *text, uint32_t most, struct levels *into)
{
    char *copy = strdup(text), *rest = copy;
    into->count = 0;
    bool good = copy != NULL;
    for (char *item; good && (item = strsep(&rest, ",")) != NULL;) {
        good = into->count < MOST_LEVELS && cli_parse_number(item, 1, most, &into->at[into->count]);
        into->count++;
    }
    free(copy);
    return good;
}

static bool read_levels(const char *text, void *into)
{
    return read_list(text, 1000, into);
}

static bool read_jobs(const char *text, void *into)
{
    return read_list(text, 10000, into);
}

static int read_given(int argc, char **argv, struct options *o, struct given *given)
{
    struct settings *s = &o->settings;
    static const char *const reclaim[] = {[GANTRY_RECLAIM_BOUNDED] = "bounded",
                                          [GANTRY_RECLAIM_INLINE] = "inline",
                                          [GANTRY_RECLAIM_UNBOUNDED] = "unbounded",
                                          NULL};
    static const char *const ways[] = {
        [GANTRY_BANDWIDTH_SLEEP] = "sleep", [GANTRY_BANDWIDTH_YIELD] = "yield", NULL};
    const struct cli_option table[] = {
        {.name = "concurrency",
         .letter = 'c',
         .read = read_levels,
         .into = &o->levels,
         .takes = "a list of up to 16 numbers from 1 to 1000"},
        {.name = "jobs",
         .letter = 'j',
         .read = read_jobs,
         .into = &o->jobs,
         .takes = "a list of up to 16 numbers from 1 to 10000"},
        {.name = "partitions", .letter = 'p', .number = &s->partitions, .low = 1, .high = 1000},
        {.name = "workers", .letter = 'w', .number = &s->workers, .low = 1, .high = 1024},
        {.name = "repeat", .letter = 'r', .number = &o->repeat, .low = 1, .high = MOST_REPEAT},
        {.name = "rows-log2", .number = &o->rows_log2, .low = 4, .high = 24},
        {.name = "entries", .number = &o->entries, .low = 1, .high = 1000},
        {.name = "window-bits", .number = &o->window_bits, .low = 2, .high = 20},
        {.name = "rounds", .number = &s->rounds, .low = 0, .high = 100000},
        {.name = "device-mb", .number = &given->device_mb, .low = 1, .high = 1000000},
        {.name = "admission", .choice = &given->admission, .names = cli_switch_names},
        {.name = "tail-workers", .number = &o->tail_limit, .low = 1, .high = 1024},
        {.name = "hold-us", .number = &given->hold_us, .low = 1, .high = 1000000},
        {.name = "run-percent", .number = &o->gate.run_percent, .low = 1, .high = 99},
        {.name = "gate-way", .choice = &given->way, .names = ways},
        {.name = "timeline", .text = &o->timeline},
        {.name = "reclaim", .choice = &given->reclaim, .names = reclaim},
        {.name = "keep-memory", .choice = &given->keep, .names = cli_switch_names},
        {.name = "class-limit", .choice = &given->limit, .names = cli_switch_names},
        {.name = "cpu-set", .choice = &given->cpu_set, .names = cli_switch_names},
        {.name = "gate", .choice = &given->gate, .names = cli_switch_names},
        {.name = "driver", .letter = 'd', .choice = &given->driver, .names = cli_driver_names},
        {.name = "help", .letter = 'h', .help = usage},
        {.name = NULL}};
    return cli_read_options(argc, argv, table, 0);
}

static void apply(const struct given *given, struct options *o)
{
    struct settings *s = &o->settings;
    s->driver = (gantry_driver_choice)given->driver;
    s->admission = given->admission == true;
    s->device_bytes = given->device_mb * UINT64_C(1048576);
    if (given->hold_us != 0) {
        o->gate.most_held_ns = given->hold_us * UINT64_C(1000);
    }
    o->gate.way = (uint32_t)given->way;
    s->reclaim =
        given->reclaim == NOT_GIVEN ? GANTRY_RECLAIM_UNBOUNDED : (gantry_reclaim_policy)given->reclaim;
    s->keep_memory = given->keep == true;
    s->cpu_set = given->cpu_set == true;
    s->gate = given->gate == true;
    o->is_fixed = given->reclaim != NOT_GIVEN || given->keep != NOT_GIVEN || given->limit != NOT_GIVEN ||
                  given->cpu_set != NOT_GIVEN || given->gate != NOT_GIVEN;
}

static uint32_t count_cpus(void)
{
    uint32_t cpus = 0, more = 0;
    for (uint32_t i = 0; gantry_cpu_cache_domain(i, NULL, 0, &more) == GANTRY_OK && more != 0; i++) {
        cpus += more;
    }
    return cpus;
}

static uint32_t largest(const struct levels *levels)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < levels->count; i++) {
        most = levels->at[i] > most ? levels->at[i] : most;
    }
    return most;
}

/* Every row has its number of proofs.  -1, or the exit status. */
static int complete_levels(struct options *o)
{
    o->settings.concurrency = largest(&o->levels);
    if (o->jobs.count > 1 && o->jobs.count != o->levels.count) {
        cli_error(
            "proof_pipeline: --jobs has %u numbers, and --concurrency %u: one for all rows, or one for each",
            o->jobs.count, o->levels.count);
        return cli_refused(GANTRY_ERR_INVALID_ARGUMENT, "--jobs");
    }
    for (uint32_t i = o->jobs.count; i < o->levels.count; i++) {
        o->jobs.at[i] = o->jobs.count != 0 ? o->jobs.at[0] : o->settings.concurrency;
    }
    o->jobs.count = o->levels.count;
    o->settings.jobs = largest(&o->jobs);
    return -1;
}

int proof_options_read(int argc, char **argv, struct options *out)
{
    struct options o = {.settings = {.partitions = 2},
                        .levels = {{1, 5, 10, 15, 20}, 5},
                        .repeat = 7,
                        .rows_log2 = 9,
                        .entries = 8,
                        .window_bits = 8,
                        .gate = GANTRY_BANDWIDTH_SETTINGS_INIT};
    struct given given = {.driver = GANTRY_DRIVER_AUTO,
                          .admission = true,
                          .reclaim = NOT_GIVEN,
                          .keep = NOT_GIVEN,
                          .limit = NOT_GIVEN,
                          .cpu_set = NOT_GIVEN,
                          .gate = NOT_GIVEN};
    int status = read_given(argc, argv, &o, &given);
    if (status >= 0) {
        return status;
    }
    apply(&given, &o);
    status = complete_levels(&o);
    if (status >= 0) {
        return status;
    }
    uint32_t workers = o.settings.workers != 0 ? o.settings.workers : count_cpus();
    o.tail_limit = o.tail_limit != 0 ? o.tail_limit : (workers + 3) / 4;
    o.settings.tail_workers = given.limit == true ? o.tail_limit : 0;
    *out = o;
    return -1;
}
