/* Random programs in which features meet, judged by an oracle (crossing.h).
 *
 *   test_campaign_crossings [--seconds S] [--programs N] [--jobs J] [--first SEED] [--least N] [--everything]
 *   test_campaign_crossings --seed SEED [--with FEATURE=VALUE,...] [--drop NODE,...] [--repeat N]
 *
 * A program runs in one of a few processes (--jobs 0: in this one).  Its parent says which program crashed
 * one; a thread in each says which one makes no progress any more.  A program that broke a rule is printed
 * with the rule, then made smaller as long as it still fails.  Which two values the next program must have is
 * decided by the matrix of those that have met least so far; it is part of what is printed for a repetition.
 */
#include "tests/campaign/crossing.h"
#include "tests/support/emu_controls.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    JOBS_MOST = 16,
    SKIPPED = 77,
    STUCK = 3,
    BROKEN = 1,
    SHRINK_TRIES = 6,
    SHRINK_SECONDS = 60,
    LEAST = 200
};

struct slot {
    uint64_t seed;
    struct cross_choice choice;
};

struct shared {
    struct cross_matrix matrix;
    atomic_ullong next, busy_ns;
    struct slot slots[JOBS_MOST];
};

struct settings {
    uint64_t first, programs, seconds, jobs, repeat, least, deadline;
    bool single;
    struct cross_choice choice;
};

static struct shared *shared;
static struct cross_run run;
static struct cross_program program;
static uint64_t deadline_s = 20;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* ---- one program ----------------------------------------------------------------------------- */

static void print_repetition(const struct slot *slot)
{
    const char *comma = " --with ";
    fprintf(stderr, "repeat with --seed %llu%s", (unsigned long long)slot->seed,
            cross_everything ? " --everything" : "");
    for (int f = 0; f < FEATURES; f++) {
        int value = slot->choice.forced[f];
        if (value >= 0) {
            fprintf(stderr, "%s%s=%s", comma, cross_features[f].name, cross_values[value].name);
            comma = ",";
        }
    }
    comma = " --drop ";
    for (uint32_t i = 0; i < NODES_MOST; i++) {
        if ((slot->choice.dropped >> i & 1) != 0) {
            fprintf(stderr, "%s%u", comma, i);
            comma = ",";
        }
    }
    fprintf(stderr, "\n");
}

static void *watch(void *arg)
{
    unsigned long long seen = 0;
    for (double since = now();;) {
        unsigned long long is = atomic_load(&cross_progress);
        if (is != seen) {
            seen = is;
            since = now();
        } else if (now() - since > (double)deadline_s) {
            fprintf(stderr, "no progress for %llu s\n", (unsigned long long)deadline_s);
            cross_program_print(&program, stderr);
            print_repetition(arg);
            if (getenv("GANTRY_TEST_STUCK_WAITS") != NULL) { /* for a debugger */
                pause();
            }
            _exit(STUCK);
        }
        (void)usleep(50000);
    }
    return NULL;
}

static void perform(const struct slot *slot)
{
    cross_program_draw(&program, slot->seed, &slot->choice);
    if (!cross_run(&run, &program)) {
        fprintf(stderr, "%s\n%s%s", run.broken, run.log_line, run.log_line[0] != '\0' ? "\n" : "");
        cross_program_print(&program, stderr);
        print_repetition(slot);
        _exit(BROKEN);
    }
    cross_matrix_count(&shared->matrix, &run.effects);
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
static const struct slot *observed;

void __sanitizer_set_death_callback(void (*callback)(void));

/* A sanitizer ends the process: say which program it was. */
static void print_observed(void)
{
    cross_program_print(&program, stderr);
    print_repetition(observed);
}
#endif

static void begin_child(struct slot *slot)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    observed = slot;
    __sanitizer_set_death_callback(print_observed);
#endif
    pthread_t watchdog;
    if (!cross_foreign_open()) {
        _exit(SKIPPED);
    }
    (void)pthread_create(&watchdog, NULL, watch, slot);
}

/* ---- many ------------------------------------------------------------------------------------ */

static bool goes_with(const struct cross_choice *choice, int value)
{
    bool goes = choice->forced[cross_values[value].feature] < 0;
    for (int f = 0; f < FEATURES && goes; f++) {
        goes = choice->forced[f] < 0 || (cross_impossible(value, choice->forced[f]) == NULL &&
                                         cross_not_yet(value, choice->forced[f]) == NULL);
    }
    return goes;
}

static void choose(struct slot *slot, const struct settings *settings)
{
    int a = 0, b = 0;
    slot->choice = settings->choice;
    uint32_t least = (uint32_t)(settings->least != 0 ? settings->least : LEAST);
    if (cross_matrix_poorest(&shared->matrix, least, slot->seed, &a, &b)) {
        if (goes_with(&slot->choice, a) && goes_with(&slot->choice, b)) {
            slot->choice.forced[cross_values[a].feature] = a;
            slot->choice.forced[cross_values[b].feature] = b;
        }
        if (slot->seed % 2 == 0) { /* every other program is left to chance otherwise */
            cross_matrix_fill(&shared->matrix, least, slot->seed, &slot->choice);
        }
    }
}

static void work(struct slot *slot, const struct settings *settings)
{
    double begin = now();
    begin_child(slot);
    for (uint64_t n = 0; now() - begin < (double)settings->seconds; n++) {
        uint64_t number = atomic_fetch_add(&shared->next, 1);
        if (number >= settings->programs) {
            break;
        }
        slot->seed = settings->first + number;
        choose(slot, settings);
        perform(slot);
    }
    if (settings->jobs == 0) {
        cross_matrix_print(&shared->matrix, stdout);
        fflush(stdout);
    }
    _exit(0);
}

static pid_t start_child(uint64_t job, const struct settings *settings)
{
    pid_t child = fork();
    if (child == 0) {
        work(&shared->slots[job], settings);
    }
    return child;
}

/* ---- making a failure smaller ---------------------------------------------------------------- */

static bool is_possible(const struct cross_choice *choice)
{
    for (int f = 0; f < FEATURES; f++) {
        for (int g = f + 1; g < FEATURES; g++) {
            if (choice->forced[f] >= 0 && choice->forced[g] >= 0 &&
                cross_impossible(choice->forced[f], choice->forced[g]) != NULL) {
                return false;
            }
        }
    }
    return true;
}

static bool still_fails(const struct slot *slot)
{
    if (!is_possible(&slot->choice)) {
        return false;
    }
    for (int i = 0; i < SHRINK_TRIES; i++) {
        pid_t child = fork();
        if (child == 0) {
            struct slot copy = *slot;
            (void)!freopen("/dev/null", "w", stderr);
            deadline_s = 6;
            begin_child(&copy);
            perform(&copy);
            _exit(0);
        }
        int status = 0;
        if (waitpid(child, &status, 0) == child && status != 0) {
            return true;
        }
    }
    return false;
}

static void shrink(const struct slot *failed)
{
    struct slot slot = *failed;
    double end = now() + SHRINK_SECONDS;
    fflush(stderr);
    if (!still_fails(&slot)) {
        fprintf(stderr, "it did not fail again in %d runs\n", SHRINK_TRIES);
        return;
    }
    cross_program_draw(&program, slot.seed, &slot.choice);
    for (int f = 0; f < FEATURES; f++) { /* as it was drawn, so that one feature can be changed alone */
        slot.choice.forced[f] = program.value[f];
    }
    for (int f = 0; f < FEATURES && now() < end; f++) {
        struct slot next = slot;
        next.choice.forced[f] = cross_features[f].first;
        if (next.choice.forced[f] != slot.choice.forced[f] && still_fails(&next)) {
            slot = next;
        }
    }
    for (uint32_t size = program.node_count / 2; size > 0 && now() < end; size /= 2) {
        for (uint32_t from = 0; from < program.node_count && now() < end; from += size) {
            struct slot next = slot;
            next.choice.dropped |= ((UINT64_C(1) << size) - 1) << from;
            if (next.choice.dropped != slot.choice.dropped && still_fails(&next)) {
                slot = next;
            }
        }
    }
    cross_program_draw(&program, slot.seed, &slot.choice);
    fprintf(stderr, "made smaller:\n");
    cross_program_print(&program, stderr);
    print_repetition(&slot);
}

/* ---- main ------------------------------------------------------------------------------------ */

static int await_children(pid_t *children, const struct settings *settings)
{
    int failed = 0;
    const uint32_t jobs = (uint32_t)settings->jobs;
    for (uint32_t left = jobs; left > 0; left--) {
        int status = 0;
        pid_t ended = wait(&status);
        for (uint64_t job = 0; job < settings->jobs; job++) {
            if (children[job] != ended) {
                continue;
            }
            children[job] = 0;
            if (WIFSIGNALED(status) && failed == 0) {
                fprintf(stderr, "ended with signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
                cross_program_draw(&program, shared->slots[job].seed, &shared->slots[job].choice);
                cross_program_print(&program, stderr);
                print_repetition(&shared->slots[job]);
            }
            if (status != 0 && failed == 0) {
                failed = WIFEXITED(status) ? WEXITSTATUS(status) : BROKEN;
                for (uint64_t other = 0; other < settings->jobs; other++) {
                    if (children[other] > 0) {
                        (void)kill(children[other], SIGKILL);
                    }
                }
                if (failed != SKIPPED && getenv("GANTRY_TEST_NO_SHRINK") == NULL) {
                    shrink(&shared->slots[job]);
                }
            }
        }
    }
    return failed;
}

static int run_many(const struct settings *settings)
{
    pid_t children[JOBS_MOST];
    double begin = now();
    if (settings->jobs == 0) {
        work(&shared->slots[0], settings);
    }
    for (uint64_t job = 0; job < settings->jobs; job++) {
        children[job] = start_child(job, settings);
    }
    int failed = await_children(children, settings);
    if (failed == 0) {
        cross_matrix_print(&shared->matrix, stdout);
        printf("%.0f s\n", now() - begin);
    }
    if (failed == 0 && settings->least != 0) {
        uint32_t missing = cross_matrix_missing(&shared->matrix, (uint32_t)settings->least, 40, stdout);
        printf("%u pairs of values met in fewer than %llu programs\n", missing,
               (unsigned long long)settings->least);
        failed = missing != 0 ? BROKEN : 0;
    }
    return failed;
}

static int run_single(const struct settings *settings)
{
    struct slot *slot = &shared->slots[0];
    slot->seed = settings->first;
    slot->choice = settings->choice;
    begin_child(slot);
    for (uint64_t i = 0; i < settings->repeat; i++) {
        perform(slot);
    }
    cross_program_print(&program, stdout);
    printf("effects:");
    for (int v = 0; v < VALUES; v++) {
        if ((run.effects.words[v / 64] >> v % 64 & 1) != 0) {
            printf(" %s=%s", cross_features[cross_values[v].feature].name, cross_values[v].name);
        }
    }
    printf("\n%llu times: right\n", (unsigned long long)settings->repeat);
    fflush(stdout);
    _exit(0);
}

static bool parse_with(const char *text, struct cross_choice *choice)
{
    while (*text != '\0') {
        size_t length = strcspn(text, ",");
        int value = cross_value_find(text, length);
        if (value < 0) {
            return false;
        }
        choice->forced[cross_values[value].feature] = value;
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

static bool parse(int argc, char **argv, struct settings *s)
{
    for (int i = 1; i < argc; i++) {
        uint64_t *to = strcmp(argv[i], "--seconds") == 0    ? &s->seconds
                       : strcmp(argv[i], "--programs") == 0 ? &s->programs
                       : strcmp(argv[i], "--jobs") == 0     ? &s->jobs
                       : strcmp(argv[i], "--first") == 0    ? &s->first
                       : strcmp(argv[i], "--seed") == 0     ? &s->first
                       : strcmp(argv[i], "--repeat") == 0   ? &s->repeat
                       : strcmp(argv[i], "--least") == 0    ? &s->least
                       : strcmp(argv[i], "--deadline") == 0 ? &deadline_s
                                                            : NULL;
        if (strcmp(argv[i], "--everything") == 0) {
            cross_everything = true;
            continue;
        }
        if (i + 1 >= argc) {
            return false;
        }
        s->single = s->single || strcmp(argv[i], "--seed") == 0;
        if (to != NULL) {
            char *end = NULL;
            *to = strtoull(argv[++i], &end, 10);
            if (end == argv[i] || *end != '\0') {
                return false;
            }
        } else if (strcmp(argv[i], "--with") == 0
                       ? !parse_with(argv[i + 1], &s->choice)
                       : strcmp(argv[i], "--drop") != 0 || !parse_drop(argv[i + 1], &s->choice)) {
            return false;
        } else {
            i++;
        }
    }
    return s->jobs <= JOBS_MOST;
}

int main(int argc, char **argv)
{
    bool light = getenv("GANTRY_TEST_LIGHT") != NULL;
    struct settings settings = {
        .first = 1, .programs = UINT64_MAX, .seconds = light ? 20 : 60, .jobs = 3, .repeat = 1};
    for (int f = 0; f < FEATURES; f++) {
        settings.choice.forced[f] = -1;
    }
#if defined(__SANITIZE_THREAD__)
    settings.jobs =
        0; /* jemalloc's locks are taken before a fork, and the sanitizer does not see them made anew */
#endif
    cross_features_open();
    if (!parse(argc, argv, &settings)) {
        fprintf(
            stderr,
            "usage: %s [--seconds S] [--programs N] [--jobs J] [--first SEED] [--least N] [--everything]\n"
            "       %s --seed SEED [--with FEATURE=VALUE,...] [--drop NODE,...] [--repeat N]\n",
            argv[0], argv[0]);
        return 2;
    }
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return SKIPPED;
    }
    return settings.single ? run_single(&settings) : run_many(&settings);
}
