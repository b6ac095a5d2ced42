/* SPDX-License-Identifier: MIT */
/* Random programs in which features meet, judged by an oracle (crossing.h).
 *
 *   test_campaign_crossings [--seconds S | --minutes M] [--patience S] [--programs N] [--jobs J] [--first
 * SEED]
 *                           [--least N] [--dear N] [--triples N] [--failures N] [--everything]
 *   test_campaign_crossings --seed SEED [--with FEATURE=VALUE,...] [--drop NODE,...] [--repeat N] [--stamps]
 * [--off NODE]
 *
 * A program runs in one of a few processes.  Their parent says which program crashed one; a thread in each
 * says which one makes no progress any more.  A program that broke a rule is printed with the rule, then made
 * smaller as long as it still fails.  Which values the next program has is decided by what has met least so
 * far; it is part of what is printed for a repetition.  With --stamps kernels touch bytes that
 * GANTRY_CHECK=edges looks at (tests/proof/take_edges.py); --off makes one write a byte of its neighbour's.
 * Each two values must take effect together in --least programs, or in --dear where both are dear, each three
 * in --triples; when some have not after S seconds, the run goes on for --patience seconds at most.  Without
 * any option that is 200, 20, 0, 20 s and 220 s, and on a machine where that makes too few programs a pair is
 * only missing that many of them had in vain. */
#include "tests/campaign/crossing_jobs.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { LEAST = 200, LEAST_DEAR = 20, JOBS = 5, PATIENCE = 220 };

static bool parse_with(const char *text, struct cross_choice *choice)
{
    while (*text != '\0') {
        size_t length = strcspn(text, ",");
        int value = cross_value_find(text, length);
        if (value < 0) {
            fprintf(stderr, "there is no %.*s\n", (int)length, text);
            return false;
        }
        cross_force(choice, value);
        text += length + (text[length] == ',' ? 1 : 0);
    }
    return true;
}

static bool parse_drop(const char *text, struct cross_choice *choice)
{
    while (*text != '\0') {
        char *end = NULL;
        unsigned long node = strtoul(text, &end, 10);
        if (end == text || node >= NODES_MOST) {
            return false;
        }
        choice->dropped |= UINT64_C(1) << node;
        text = end + (*end == ',' ? 1 : 0);
    }
    return true;
}

static bool parse_off(const char *text, struct cross_choice *choice)
{
    char *end = NULL;
    const unsigned long node = strtoul(text, &end, 10);
    choice->has_stamps = true;
    choice->stamp_off = (uint8_t)node;
    return end != text && *end == '\0' && node < NODES_MOST;
}

static bool parse_number(const char *name, const char *text, struct cross_settings *s)
{
    const struct {
        const char *name;
        uint64_t *to, factor;
    } options[] = {
        {"--seconds", &s->seconds, 1},    {"--minutes", &s->seconds, 60}, {"--patience", &s->patience, 1},
        {"--programs", &s->programs, 1},  {"--jobs", &s->jobs, 1},        {"--first", &s->first, 1},
        {"--seed", &s->first, 1},         {"--repeat", &s->repeat, 1},    {"--least", &s->least, 1},
        {"--triples", &s->triples, 1},    {"--dear", &s->dear, 1},        {"--failures", &s->failures, 1},
        {"--deadline", &s->deadline_s, 1}};
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if (strcmp(name, options[i].name) == 0) {
            char *end = NULL;
            *options[i].to = strtoull(text, &end, 10) * options[i].factor;
            s->single = s->single || strcmp(name, "--seed") == 0;
            return end != text && *end == '\0';
        }
    }
    return false;
}

static bool parse(int argc, char **argv, struct cross_settings *s)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--everything") == 0) {
            s->everything = true;
            continue;
        }
        if (strcmp(argv[i], "--stamps") == 0) {
            s->choice.has_stamps = true;
            continue;
        }
        if (i + 1 >= argc) {
            return false;
        }
        bool done = strcmp(argv[i], "--with") == 0   ? parse_with(argv[i + 1], &s->choice)
                    : strcmp(argv[i], "--drop") == 0 ? parse_drop(argv[i + 1], &s->choice)
                    : strcmp(argv[i], "--off") == 0  ? parse_off(argv[i + 1], &s->choice)
                                                     : parse_number(argv[i], argv[i + 1], s);
        if (!done) {
            return false;
        }
        i++;
    }
    return s->jobs > 0 && s->jobs <= CROSS_JOBS_MOST && s->least <= UINT32_MAX &&
           s->triples <= CROSS_TRIPLES_MOST;
}

/* When everything shall meet, the run ends as soon as it has; otherwise it takes this long. */
static uint64_t default_seconds(bool whole, bool light)
{
    return whole || light ? 20 : CROSS_SANITIZED ? 40 : 60;
}

/* There are more processes than processors, since programs wait for most of their time. */
static uint64_t default_jobs(void)
{
    uint64_t jobs = (uint64_t)cross_processors() * JOBS;
    return jobs < CROSS_JOBS_MOST ? jobs : CROSS_JOBS_MOST;
}

static struct cross_shared *map(int file)
{
    struct cross_shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return shared == MAP_FAILED ? NULL : shared;
}

/* --worker SLOT FILE; the help does not mention it, since only this program uses it. */
static int work(const char *slot, const char *file)
{
    struct cross_shared *shared = map((int)strtol(file, NULL, 10));
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody counts its results when its parent was killed */
    if (shared == NULL) {
        return CROSS_SKIPPED;
    }
    cross_everything = shared->settings.everything;
    cross_features_open();
    cross_worker(shared, (uint32_t)strtoul(slot, NULL, 10));
    return 0;
}

int main(int argc, char **argv)
{
    bool light = getenv("GANTRY_TEST_LIGHT") != NULL,
         whole = argc == 1 && !light && !CROSS_SANITIZED && !cross_is_device();
    struct cross_settings settings = {.first = 1,
                                      .programs = UINT64_MAX,
                                      .seconds = default_seconds(whole, light),
                                      .jobs = default_jobs(),
                                      .repeat = 1,
                                      .failures = 1,
                                      .deadline_s = 60,
                                      .least = whole ? LEAST : 0,
                                      .dear = LEAST_DEAR,
                                      .patience = whole ? PATIENCE : 0};
    if (argc == 4 && strcmp(argv[1], "--worker") == 0) {
        return work(argv[2], argv[3]);
    }
    cross_choice_init(&settings.choice);
    cross_features_open();
    if (!parse(argc, argv, &settings)) {
        fprintf(
            stderr,
            "usage: %s [--seconds S | --minutes M] [--patience S] [--programs N] [--jobs J] [--first SEED]\n"
            "                [--least N] [--dear N] [--triples N] [--failures N] [--deadline S] "
            "[--everything]\n"
            "       %s --seed SEED [--with FEATURE=VALUE,...] [--drop NODE,...] [--repeat N] [--stamps] "
            "[--off "
            "NODE]\n",
            argv[0], argv[0]);
        return 2;
    }
    int file = memfd_create("crossings", 0);
    struct cross_shared *shared = NULL;
    if (file < 0 || ftruncate(file, sizeof(*shared)) != 0 || (shared = map(file)) == NULL) {
        return CROSS_SKIPPED;
    }
    cross_everything = settings.everything;
    cross_features_open(); /* again, since some values are left out */
    shared->settings = settings;
    shared->matrix.least = settings.least != 0 ? (uint32_t)settings.least : LEAST;
    shared->matrix.least_dear =
        settings.dear < shared->matrix.least ? (uint32_t)settings.dear : shared->matrix.least;
    shared->matrix.least_triples = (uint32_t)settings.triples;
    if (settings.single) {
        cross_run_single(shared);
    }
    return cross_run_many(shared, file);
}
