/* SPDX-License-Identifier: MIT */
/* Processes that perform crossings, and their parent, which reports their results. */
#include "tests/campaign/crossing_jobs.h"
#include "tests/support/emu_controls.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum {
    ENOUGH = 40000,    /* programs after which each pair has met as often as is asked for, on any machine */
    TRIED = 200,       /* programs with a pair, one of which it should have met in */
    MISSING_MOST = 40, /* pairs that are printed */
    PLANS = 5,         /* plans are made until one has a value of each feature, but so often at most */
    GROWTH_BASE = 500, /* programs after which a process has its final size */
    GROWTH_EVERY = 500,
    GROWTH_MOST_MB = 64,
    LIFE =
        4000, /* programs per process: each context leaves jemalloc some address space, and tables for it */
    SHRINK_DEADLINE = 6,
    SPINNERS = 6,     /* the number of threads of a program that spin, roughly */
    PAIRS_OF_ONE = 16 /* a process is kept from spinning while so many pairs are missing */
};

static struct cross_run run;
static struct cross_program program;
static uint64_t deadline_s = 60;

double cross_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

void cross_print_repetition(const struct cross_slot *slot, FILE *file)
{
    const char *comma = " --with ";
    fprintf(file, "repeat with --seed %llu%s", (unsigned long long)slot->seed,
            cross_everything ? " --everything" : "");
    for (int f = 0; f < FEATURES; f++) {
        for (int k = 0; k <= MORE; k++) {
            int value = k == 0 ? slot->choice.forced[f] : slot->choice.more[f][k - 1];
            if (value >= 0) {
                fprintf(file, "%s%s=%s", comma, cross_features[f].name, cross_values[value].name);
                comma = ",";
            }
        }
    }
    comma = " --drop ";
    for (uint32_t i = 0; i < NODES_MOST; i++) {
        if ((slot->choice.dropped >> i & 1) != 0) {
            fprintf(file, "%s%u", comma, i);
            comma = ",";
        }
    }
    fprintf(file, "\n");
}

/* ---- in a process of its own ----------------------------------------------------------------- */

/* This is one write, so that lines of several processes do not mix. */
static void tell(const struct cross_slot *slot, const char *what, const char *log_line)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    if (file != NULL) {
        fprintf(file, "%s\n%s%s", what, log_line, log_line[0] != '\0' ? "\n" : "");
        cross_program_print(&program, file);
        cross_print_repetition(slot, file);
        (void)fclose(file);
        (void)!write(STDERR_FILENO, text, size);
    }
}

static atomic_bool is_slow; /* the program may take long */

/* A share of 1 percent turns 400 ms for which a kernel of the emulated driver has waited for a processor
 * into 40 s. */
static uint64_t patience_of(uint64_t seconds)
{
    return atomic_load(&is_slow) ? 3 * seconds : seconds;
}

static void *watch(void *arg)
{
    unsigned long long seen = 0;
    for (double since = cross_seconds();;) {
        unsigned long long is = atomic_load(&cross_progress);
        if (is != seen) {
            seen = is;
            since = cross_seconds();
        } else if (cross_seconds() - since > (double)patience_of(deadline_s)) {
            char what[64];
            (void)snprintf(what, sizeof(what), "no progress for %llu s",
                           (unsigned long long)patience_of(deadline_s));
            tell(arg, what, "");
            if (getenv("GANTRY_TEST_STUCK_WAITS") != NULL) { /* for a debugger */
                pause();
            }
            _exit(CROSS_STUCK);
        }
        (void)usleep(50000);
    }
    return NULL;
}

/* The work beside programs is ended and checked: otherwise its thread is left when the process ends. */
static void end_beside(const struct cross_slot *slot)
{
    cross_limit_end(&run);
    if (run.broken != NULL) {
        tell(slot, run.broken, run.log_line);
        _exit(CROSS_BROKEN);
    }
}

/* `ends`: no work goes on beside it when it has ended. */
static void perform(struct cross_matrix *matrix, const struct cross_slot *slot, bool ends)
{
    cross_program_draw(&program, slot->seed, &slot->choice);
    atomic_store(&is_slow, cross_has(&program, VALUE_CANCEL_DEBT));
    cross_pace_begin(&program);
    bool right = cross_run(&run, &program);
    cross_pace_end();
    if (!right) {
        tell(slot, run.broken, run.log_line);
        _exit(CROSS_BROKEN);
    }
    cross_matrix_count(matrix, &program, &run.effects);
    if (ends) {
        end_beside(slot);
    }
}

static void begin(struct cross_slot *slot)
{
    pthread_t watchdog;
    (void)setenv("GANTRY_EMU_PROFILE", "b200", 0); /* its blocks steal */
    (void)setenv("GANTRY_EMU_DEVICES", "2", 0);
    (void)setenv("GANTRY_EMU_THREADS", "4", 0); /* older work keeps one */
    if (!cross_foreign_open()) {
        _exit(CROSS_SKIPPED);
    }
    cross_pace_open();
    (void)pthread_create(&watchdog, NULL, watch, slot);
}

/* Threads that spin cost less the fewer of them there are at the same time.  On few processors a single
 * process has them, as long as some of their meetings are wanted; more processes have them the less else is
 * wanted. */
static enum cross_spin may_spin(const struct cross_shared *shared, const struct cross_slot *slot)
{
    uint64_t processors = cross_processors(), number = (uint64_t)(slot - shared->slots);
    uint64_t who = processors / SPINNERS;
    if (shared->settings.jobs == 1 || processors >= shared->settings.jobs * SPINNERS) {
        return CROSS_MAY_SPIN;
    }
    who = who > 0 ? who : 1;
    uint32_t calm =
        cross_matrix_missing_calm(&shared->matrix, (uint32_t)shared->settings.jobs * PAIRS_OF_ONE);
    bool spins = number < who ||
                 (!atomic_load(&shared->is_over) && number >= who + (calm + PAIRS_OF_ONE - 1) / PAIRS_OF_ONE);
    return spins ? CROSS_SPINS_FIRST : CROSS_NEVER_SPINS;
}

static void choose(struct cross_shared *shared, struct cross_slot *slot)
{
    for (uint64_t i = 0; i < PLANS; i++) {
        slot->choice = shared->settings.choice;
        if (cross_limit_runs() && cross_goes_with(&slot->choice, VALUE_LIMIT)) {
            cross_force(&slot->choice, VALUE_LIMIT);
        }
        cross_plan(&shared->matrix, slot->seed * PLANS + i, may_spin(shared, slot), &slot->choice);
        if (cross_choice_fits(slot->seed, &slot->choice)) {
            return;
        }
    }
    slot->choice = shared->settings.choice;
}

static uint64_t resident_mb(void)
{
    unsigned long long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL && fscanf(file, "%llu %llu", &size, &resident) != 2) {
        resident = 0;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return resident * (uint64_t)sysconf(_SC_PAGESIZE) >> 20;
}

/* After a number of programs that is enough for every way to have been used, a process has reached its final
 * size. */
static void check_growth(const struct cross_slot *slot, uint64_t n)
{
    static uint64_t base;
    char what[128];
    if (n < GROWTH_BASE || n % GROWTH_EVERY != 0 || CROSS_SANITIZED) { /* these keep freed memory */
        return;
    }
    uint64_t is = resident_mb();
    base = base == 0 ? is : base;
    if (is > base + GROWTH_MOST_MB) {
        (void)snprintf(what, sizeof(what),
                       "after %llu programs the process has %llu MiB, after %d it had %llu",
                       (unsigned long long)n, (unsigned long long)is, GROWTH_BASE, (unsigned long long)base);
        tell(slot, what, "");
        _exit(CROSS_BROKEN);
    }
}

static void run_programs(struct cross_shared *shared, struct cross_slot *slot)
{
    const struct cross_settings *s = &shared->settings;
    for (uint64_t n = 0; cross_seconds() - shared->begin < (double)(s->seconds + s->patience); n++) {
        check_growth(slot, n);
        if (n == LIFE) {
            end_beside(slot);
            _exit(CROSS_NEXT);
        }
        uint64_t number = atomic_fetch_add(&shared->next, 1);
        bool late = cross_seconds() - shared->begin >= (double)s->seconds;
        if (number >= s->programs || (late && atomic_load(&shared->is_over))) {
            break;
        }
        slot->seed = s->first + number;
        choose(shared, slot);
        perform(&shared->matrix, slot, false);
    }
    end_beside(slot);
}

void cross_worker(struct cross_shared *shared, uint32_t number)
{
    struct cross_slot *slot = &shared->slots[number];
    deadline_s = number == CROSS_SHRINKS ? SHRINK_DEADLINE : shared->settings.deadline_s;
    begin(slot);
    if (number == CROSS_SHRINKS) {
        perform(&shared->matrix, slot, true);
    } else {
        run_programs(shared, slot);
    }
    _exit(0);
}

void cross_run_single(struct cross_shared *shared)
{
    const struct cross_settings *s = &shared->settings;
    struct cross_slot *slot = &shared->slots[0];
    slot->seed = s->first;
    slot->choice = s->choice;
    deadline_s = s->deadline_s;
    begin(slot);
    for (uint64_t i = 0; i < s->repeat; i++) {
        perform(&shared->matrix, slot, true);
    }
    cross_program_print(&program, stdout);
    printf("effects:");
    for (int v = 0; v < VALUES; v++) {
        if ((run.effects.words[v / 64] >> v % 64 & 1) != 0) {
            printf(" %s=%s", cross_features[cross_values[v].feature].name, cross_values[v].name);
        }
    }
    printf("\n%llu times: right\n", (unsigned long long)s->repeat);
    exit(0); /* what is preloaded may have something to say */
}

/* ---- their parent ---------------------------------------------------------------------------- */

pid_t cross_begin_worker(int file, uint32_t slot, bool quiet)
{
    char number[16], descriptor[16], name[] = "test_campaign_crossings", worker[] = "--worker";
    char *const args[] = {name, worker, number, descriptor, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child = -1;
    (void)snprintf(number, sizeof(number), "%u", slot);
    (void)snprintf(descriptor, sizeof(descriptor), "%d", file);
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return -1;
    }
    if (quiet) {
        (void)posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    }
    int result = posix_spawn(&child, "/proc/self/exe", &actions, NULL, args, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    return result == 0 ? child : -1;
}

/* The report for a process that did not end by itself. */
static void tell_end(const struct cross_slot *slot, int status)
{
    char what[96];
    if (WIFEXITED(status) && (WEXITSTATUS(status) == CROSS_BROKEN || WEXITSTATUS(status) == CROSS_STUCK)) {
        return;
    }
    if (WIFSIGNALED(status)) {
        (void)snprintf(what, sizeof(what), "ended with signal %d (%s)", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
    } else {
        (void)snprintf(what, sizeof(what), "ended with code %d", WEXITSTATUS(status));
    }
    cross_program_draw(&program, slot->seed, &slot->choice);
    tell(slot, what, "");
}

static void kill_children(const pid_t *children)
{
    for (uint32_t job = 0; job < CROSS_JOBS_MOST; job++) {
        if (children[job] > 0) {
            (void)kill(children[job], SIGKILL);
            (void)waitpid(children[job], NULL, 0);
        }
    }
}

static void look_whether_over(struct cross_shared *shared)
{
    double now = cross_seconds() - shared->begin;
    if (shared->settings.patience != 0 && !atomic_load(&shared->is_over) &&
        cross_matrix_missing(&shared->matrix, 0, stdout) == 0 &&
        cross_matrix_missing_triples(&shared->matrix, 0, stdout) == 0) {
        printf("everything had met as often as was asked for after %llu programs, %.0f s\n",
               (unsigned long long)atomic_load(&shared->matrix.programs), now);
        atomic_store(&shared->is_over, true);
    }
}

/* A failure is reported and made smaller; then another process goes on, until there were enough failures. */
static int await_children(struct cross_shared *shared, int file, pid_t *children)
{
    const struct cross_settings *s = &shared->settings;
    int failed = 0;
    uint64_t failures = 0;
    for (uint64_t left = s->jobs; left > 0;) {
        int status = 0;
        pid_t ended = waitpid(-1, &status, WNOHANG);
        look_whether_over(shared);
        if (ended <= 0) {
            (void)usleep(50000);
            continue;
        }
        for (uint32_t job = 0; job < s->jobs; job++) {
            if (children[job] != ended) {
                continue;
            }
            children[job] = 0;
            left--;
            if (status == 0) {
                continue;
            }
            if (WIFEXITED(status) && WEXITSTATUS(status) == CROSS_NEXT) {
                children[job] = cross_begin_worker(file, job, false);
                left += children[job] > 0;
                continue;
            }
            failed = WIFEXITED(status) && WEXITSTATUS(status) == CROSS_SKIPPED ? CROSS_SKIPPED : 1;
            bool enough = failed == CROSS_SKIPPED || ++failures >= s->failures;
            if (failed != CROSS_SKIPPED) {
                printf("a failure after %llu programs, %.0f s\n",
                       (unsigned long long)atomic_load(&shared->matrix.programs),
                       cross_seconds() - shared->begin);
                fflush(stdout);
            }
            if (enough) {
                kill_children(children);
            }
            if (failed != CROSS_SKIPPED) {
                struct cross_slot slot = shared->slots[job];
                tell_end(&slot, status);
                if (getenv("GANTRY_TEST_NO_SHRINK") == NULL) {
                    cross_shrink(shared, file, &slot);
                }
            }
            if (enough) {
                return failed;
            }
            children[job] = cross_begin_worker(file, job, false);
            left += children[job] > 0;
        }
    }
    return failed;
}

/* The counts of the processes that have ended. */
static double processor_seconds(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_CHILDREN, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

/* Did all pairs meet that should, and no others?  The machine decides how many programs a run has in its
 * time: a run with too few prints the pairs it lacks, and a pair that was tried again and again is an
 * error. */
static bool check_matrix(struct cross_shared *shared)
{
    const struct cross_settings *s = &shared->settings;
    const struct cross_matrix *matrix = &shared->matrix;
    uint32_t missing = 0, unexpected = cross_matrix_unexpected(matrix, stdout);
    if (s->least != 0) {
        missing = cross_matrix_missing(matrix, MISSING_MOST, stdout);
        printf("%u pairs of values met in fewer than %u programs, %u where both are dear\n", missing,
               matrix->least, matrix->least_dear);
    }
    if (missing != 0 && s->patience != 0 && atomic_load(&matrix->programs) < ENOUGH) {
        missing = cross_matrix_never(matrix, TRIED, stdout);
        printf("%u of them in none, though at least %d programs had them: the others had too little time\n",
               missing, TRIED);
    }
    if (s->triples != 0) {
        uint32_t triples = cross_matrix_missing_triples(matrix, MISSING_MOST, stdout);
        printf("%u triples of values met in fewer than %llu programs\n", triples,
               (unsigned long long)s->triples);
        missing += triples;
    }
    return missing + unexpected == 0;
}

int cross_run_many(struct cross_shared *shared, int file)
{
    static pid_t children[CROSS_JOBS_MOST];
    const struct cross_settings *s = &shared->settings;
    shared->begin = cross_seconds();
    for (uint32_t job = 0; job < s->jobs; job++) {
        children[job] = cross_begin_worker(file, job, false);
        if (children[job] < 0) {
            fprintf(stderr, "no process could be begun\n");
            kill_children(children);
            return 1;
        }
    }
    int failed = await_children(shared, file, children);
    if (failed != 0 && s->failures == 1) {
        return failed;
    }
    cross_matrix_print(&shared->matrix, stdout);
    printf("%.0f s, %.0f s of processors\n", cross_seconds() - shared->begin, processor_seconds());
    return check_matrix(shared) ? failed : 1;
}
