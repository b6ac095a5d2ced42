/* One thing fails, anywhere: no crash, no hang, nothing left behind, nothing released twice, outputs as they
 * were, a message that names the cause, and everything works afterwards.
 *
 *   test_campaign_sweep                          some points of every scene, for 4 seconds
 *   test_campaign_sweep --all [--jobs N]         all of them
 *   test_campaign_sweep --scene NAME --point P   one, in this process, as a failure names it
 *
 * Options: --scene NAME, --most N (points per scene, 0: all), --seconds N (in all; 0: no limit), --seed N,
 * --jobs N,
 * --patience SECONDS (a point that takes longer hangs), --list. */
#include "tests/campaign/sweep.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SKIPPED = 77, WRONG_ARGUMENTS = 2 };

struct arguments {
    struct sweep_options options;
    uint64_t seconds;
    const char *scene, *point;
    bool list;
};

static bool parse(int argc, char **argv, struct arguments *out)
{
    static const struct option table[] = {
        {"scene", required_argument, NULL, 's'}, {"point", required_argument, NULL, 'p'},
        {"most", required_argument, NULL, 'm'},  {"seconds", required_argument, NULL, 't'},
        {"seed", required_argument, NULL, 'r'},  {"jobs", required_argument, NULL, 'j'},
        {"all", no_argument, NULL, 'a'},         {"patience", required_argument, NULL, 'w'},
        {"list", no_argument, NULL, 'l'},        {NULL, 0, NULL, 0}};
    *out = (struct arguments){.options = {.most = 40, .seed = 1, .jobs = 2, .patience_s = 100}, .seconds = 4};
    for (int option; (option = getopt_long(argc, argv, "", table, NULL)) != -1;) {
        uint64_t number = optarg != NULL ? strtoull(optarg, NULL, 10) : 0;
        switch (option) {
        case 's':
            out->scene = optarg;
            break;
        case 'p':
            out->point = optarg;
            break;
        case 'm':
            out->options.most = number;
            break;
        case 't':
            out->seconds = number;
            break;
        case 'r':
            out->options.seed = number;
            break;
        case 'j':
            out->options.jobs = number < 1                 ? 1
                                : number > SWEEP_MOST_JOBS ? SWEEP_MOST_JOBS
                                                           : (uint32_t)number;
            break;
        case 'w':
            out->options.patience_s = (uint32_t)number;
            break;
        case 'a':
            out->options.most = 0;
            out->seconds = 0;
            break;
        case 'l':
            out->list = true;
            break;
        default:
            return false;
        }
    }
    return optind == argc && (out->point == NULL || out->scene != NULL);
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

/* One of them when one was asked for; where everything takes long, every fourth; else all. */
static bool is_wanted(const struct arguments *arguments, const struct scene *scene)
{
    if (arguments->scene != NULL) {
        return strcmp(arguments->scene, scene->name) == 0;
    }
    bool light = getenv("GANTRY_TEST_LIGHT") != NULL && arguments->seconds != 0;
    return !light || (uint64_t)(scene - scenes) % 4 == arguments->options.seed % 4;
}

/* The scenes share the time that is left. */
static bool sweep_all(const struct arguments *arguments)
{
    struct sweep_result sum = {.run = 0};
    bool good = true;
    size_t left = 0, found = 0;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t end_ns = ((uint64_t)now.tv_sec + arguments->seconds) * 1000000000u + (uint64_t)now.tv_nsec;
    printf("%-24s %10s %10s %10s %10s %10s\n", "scene", "points", "run", "reached", "refused", "broken");
    while (scenes[left].name != NULL) {
        left++;
    }
    for (const struct scene *scene = scenes; scene->name != NULL; scene++, left--) {
        if (!is_wanted(arguments, scene)) {
            continue;
        }
        struct sweep_options options = arguments->options;
        clock_gettime(CLOCK_MONOTONIC, &now);
        uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
        uint64_t rest_ns = end_ns > now_ns ? end_ns - now_ns : 0;
        options.end_ns = arguments->seconds != 0 ? now_ns + rest_ns / left + 1 : 0;
        struct sweep_result result;
        bool fine = sweep_scene(scene, &options, &result);
        printf("%-24s %10llu %10llu %10llu %10llu %10llu%s\n", scene->name, (unsigned long long)result.space,
               (unsigned long long)result.run, (unsigned long long)result.reached,
               (unsigned long long)result.refused, (unsigned long long)result.broken, fine ? "" : "  FAILED");
        found++;
        good = good && fine;
        sum.space += result.space;
        sum.run += result.run;
        sum.reached += result.reached;
        sum.refused += result.refused;
        sum.broken += result.broken;
    }
    printf("%-24s %10llu %10llu %10llu %10llu %10llu\n", "all", (unsigned long long)sum.space,
           (unsigned long long)sum.run, (unsigned long long)sum.reached, (unsigned long long)sum.refused,
           (unsigned long long)sum.broken);
    return good && found > 0;
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
        if (strcmp(arguments.scene, scene->name) == 0) {
            return run_one(&arguments, scene);
        }
    }
    return sweep_all(&arguments) ? 0 : 1;
}
