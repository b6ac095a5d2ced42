/* SPDX-License-Identifier: MIT */
/* One thing fails, anywhere: no crash, no hang, nothing left behind, nothing released twice, outputs as they
 * were, a message that names the cause, and everything works afterwards.
 *
 *   test_campaign_sweep                          some points of every scene, for 4 seconds
 *   test_campaign_sweep --all [--jobs N]         all of them
 *   test_campaign_sweep --scene NAME --point P   one, in this process, as a failure names it
 *   test_campaign_sweep --all --part 2/5         the second of five parts, for several machines or evenings
 *
 * Options: --scene NAME, --most N (points per scene, 0: all), --seconds N (in all; 0: no limit), --seed N,
 * --jobs N (at a time; 0: as many as there are cores), --patience SECONDS (a point that takes longer hangs),
 * --list. */
#include "tests/campaign/sweep.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SKIPPED = 77, WRONG_ARGUMENTS = 2 };

struct arguments {
    struct sweep_options options;
    const char *point;
    bool list;
};

static uint32_t jobs_of(uint64_t number)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t jobs = number != 0 ? number : cores > 0 ? (uint64_t)cores : 1;
    return jobs > SWEEP_MOST_JOBS ? SWEEP_MOST_JOBS : (uint32_t)jobs;
}

/* "2/5" */
static bool parse_part(const char *text, struct sweep_options *options)
{
    char *end;
    unsigned long part = strtoul(text, &end, 10);
    unsigned long parts = *end == '/' ? strtoul(end + 1, &end, 10) : 0;
    options->part = (uint32_t)(part - 1);
    options->parts = (uint32_t)parts;
    return *end == '\0' && part >= 1 && part <= parts && parts <= UINT16_MAX;
}

static bool parse(int argc, char **argv, struct arguments *out)
{
    static const struct option table[] = {{"scene", required_argument, NULL, 's'},
                                          {"point", required_argument, NULL, 'p'},
                                          {"most", required_argument, NULL, 'm'},
                                          {"seconds", required_argument, NULL, 't'},
                                          {"seed", required_argument, NULL, 'r'},
                                          {"jobs", required_argument, NULL, 'j'},
                                          {"all", no_argument, NULL, 'a'},
                                          {"patience", required_argument, NULL, 'w'},
                                          {"part", required_argument, NULL, 'i'},
                                          {"list", no_argument, NULL, 'l'},
                                          {NULL, 0, NULL, 0}};
    *out = (struct arguments){
        .options = {.most = 40, .seed = 1, .seconds = 4, .jobs = 2, .patience_s = 100, .parts = 1}};
    for (int option; (option = getopt_long(argc, argv, "", table, NULL)) != -1;) {
        uint64_t number = optarg != NULL ? strtoull(optarg, NULL, 10) : 0;
        switch (option) {
        case 's':
            out->options.scene = optarg;
            break;
        case 'p':
            out->point = optarg;
            break;
        case 'm':
            out->options.most = number;
            break;
        case 't':
            out->options.seconds = number;
            break;
        case 'r':
            out->options.seed = number;
            break;
        case 'j':
            out->options.jobs = jobs_of(number);
            break;
        case 'i':
            if (!parse_part(optarg, &out->options)) {
                return false;
            }
            break;
        case 'w':
            out->options.patience_s = (uint32_t)number;
            break;
        case 'a':
            out->options.most = 0;
            out->options.seconds = 0;
            break;
        case 'l':
            out->list = true;
            break;
        default:
            return false;
        }
    }
    return optind == argc && (out->point == NULL || out->options.scene != NULL);
}

static int run_one(const struct arguments *arguments, const struct scene *scene)
{
    struct point point;
    if (!point_parse(arguments->point, &point)) {
        fprintf(stderr, "there is no point %s\n", arguments->point);
        return WRONG_ARGUMENTS;
    }
    return sweep_point(scene, &point);
}

int main(int argc, char **argv)
{
    struct arguments arguments;
    if (!parse(argc, argv, &arguments)) {
        fprintf(stderr, "see the head of tests/campaign/test_sweep.c\n");
        return WRONG_ARGUMENTS;
    }
    for (const struct scene *scene = scenes; arguments.list && scene->name != NULL; scene++) {
        puts(scene->name);
    }
    if (arguments.list) {
        return 0;
    }
    if (!sweep_open()) {
        return SKIPPED;
    }
    for (const struct scene *scene = scenes; arguments.point != NULL && scene->name != NULL; scene++) {
        if (strcmp(arguments.options.scene, scene->name) == 0) {
            return run_one(&arguments, scene);
        }
    }
    /* for places where everything takes long and time is short */
    arguments.options.fourth = getenv("GANTRY_TEST_LIGHT") != NULL && arguments.options.seconds != 0;
    return sweep_run(&arguments.options) ? 0 : 1;
}
