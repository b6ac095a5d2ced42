/* SPDX-License-Identifier: MIT */
/* Every point is a process: a crash is its signal, a hang its alarm, and everything that it leaves behind is
 * gone with it.  It runs the scene with the failure, looks at what is left, and runs it once more without:
 * that must succeed.  check_after() and judge() say what is promised. */
#include "tests/campaign/sweep.h"

#include "base/alloc.h"
#include "emulator/gantry_emu.h"
#include "profile/gpu_marks.h"
#include "tests/campaign/clock_step.h"
#include "tests/support/emu_controls.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    MESSAGE_BYTES = 16384,
    REFUSED_STATUS = 1,
    MOST_SHOWN = 20,
    MOST_SCENES = 64,
    LEAST_POINTS = 2, /* points of each scene that are run even when the time is over */
    TOLD_EVERY_S = 30,
    FEW_MARKS = 64,      /* events of a recording: each makes two events, as the other does */
    MOST_READINGS = 2000 /* readings of the clock: threads that wait read it as long as they wait */
};

/* The process writes it, and it is read when the process has ended. */
struct report {
    struct point_space space; /* POINT_NONE only */
    bool reached, finished;
    int status; /* of the scene's first run */
};

/* The points of a scene in an order that visits each once and is spread over all of them. */
struct order {
    uint64_t at, stride, count;
    uint64_t left; /* points not visited yet */
};

/* The progress of one scene. */
struct sweep {
    const struct scene *scene;
    struct point_space space;
    struct order order;
    uint64_t started;  /* points */
    uint64_t spent_ns; /* the time spent on those that have ended */
    bool done;         /* no more shall be started */
    struct sweep_result result;
};

struct job {
    pid_t pid; /* 0: free */
    uint64_t begin_ns;
    struct sweep *sweep;
    struct point point;
    struct report *report; /* shared with the process */
    int messages;          /* its stderr */
};

/* For the thread sanitizer: the child of a fork() has jemalloc's mutexes, and the sanitizer does not see
 * that jemalloc initialises them anew. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "mutex:libjemalloc.so\n";
}

static struct gantry_emu_control emu;
static struct job jobs[SWEEP_MOST_JOBS];
static struct sweep sweeps[MOST_SCENES];
static uint32_t sweep_count;
static volatile sig_atomic_t stopped;

bool sweep_open(void)
{
    if (!emu_controls_open(&emu)) {
        return false;
    }
    for (int i = 0; i < SWEEP_MOST_JOBS; i++) {
        jobs[i].report =
            mmap(NULL, sizeof(*jobs[i].report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        jobs[i].messages = memfd_create("messages", 0);
        if (jobs[i].report == MAP_FAILED || jobs[i].messages < 0) {
            return false;
        }
    }
    gy_gpu_marks_set_first(FEW_MARKS);
    return setenv("GANTRY_DRIVER", "emulated", 1) == 0;
}

/* ---- in the process -------------------------------------------------------------------------- */

static void check_after(const struct scene *scene, const struct point *point, uint32_t runs)
{
    const char *when = runs > 1 ? "after once more" : "afterwards";
    if (gy_alloc_live() > (long)(runs * scene->names)) {
        scene_broken("%s %ld blocks of host memory are left", when, gy_alloc_live());
    }
    for (int kind = 0; kind < GANTRY_EMU_LIVE_KINDS; kind++) {
        if (emu.live(kind) != 0 && !point_may_leak(point)) {
            scene_broken("%s %lld of the driver's objects of kind %d are left", when,
                         (long long)emu.live(kind), kind);
        }
    }
}

static uint64_t at_most(uint64_t count, uint32_t most)
{
    return most != 0 && count > most ? most : count;
}

static void count_space(const struct scene *scene, struct point_space *space)
{
    for (uint32_t i = 0; i < point_functions(); i++) {
        space->calls[i] = at_most((emu.calls)(point_function(i)), scene->most);
    }
    space->host = (uint64_t)(1000000000 - gy_fault_left());
    space->clock = at_most(clock_step_readings(), scene->most != 0 ? scene->most : MOST_READINGS);
}

static int run_point(const struct scene *scene, const struct point *point, struct report *report)
{
    point_arm(point, &emu);
    if (point->class == POINT_NONE) {
        gy_fault_arm(1000000000); /* this counts without failing */
    }
    report->status = scene->run();
    report->reached = point_fired(point, &emu);
    if (point->class == POINT_NONE) {
        count_space(scene, &report->space);
    }
    point_disarm(&emu);
    check_after(scene, point, 1);
    int again = scene->once ? 0 : scene->run();
    if (again != 0 && !point_may_lose(point)) {
        scene_broken("the same once more, without a failure, ended with %d", again);
    }
    check_after(scene, point, 2);
    report->finished = true;
    return 0;
}

static _Noreturn void process_main(const struct scene *scene, const struct job *job, uint32_t patience_s)
{
    int sink = open("/dev/null", O_WRONLY);
    if (sink < 0 || dup2(sink, STDOUT_FILENO) < 0 || dup2(job->messages, STDERR_FILENO) < 0) {
        _exit(98);
    }
    (void)alarm(patience_s);
    exit(run_point(scene, &job->point, job->report));
}

int sweep_point(const struct scene *scene, const struct point *point)
{
    int status = run_point(scene, point, jobs[0].report);
    fprintf(stderr, "%s, the scene ended with %d\n", jobs[0].report->reached ? "reached" : "not reached",
            jobs[0].report->status);
    return status;
}

/* ---- around it ------------------------------------------------------------------------------- */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool start_job(struct sweep *sweep, struct job *job, const struct point *point, uint32_t patience_s)
{
    job->point = *point;
    job->sweep = sweep;
    job->begin_ns = now_ns();
    memset(job->report, 0, sizeof(*job->report));
    if (ftruncate(job->messages, 0) != 0 || lseek(job->messages, 0, SEEK_SET) != 0) {
        return false;
    }
    (void)fflush(stdout);
    job->pid = fork();
    if (job->pid == 0) {
        (void)setpgid(0, 0); /* a signal that ends the sweep, and all of its group, lets its points end */
        process_main(sweep->scene, job, patience_s);
    }
    return job->pid > 0;
}

/* Returns what was wrong; NULL when nothing was. */
static const char *judge(const struct scene *scene, const struct job *job, int wait_status,
                         const char *messages)
{
    const struct report *report = job->report;
    bool exited = scene->may_exit && !report->finished && WIFEXITED(wait_status) &&
                  WEXITSTATUS(wait_status) == REFUSED_STATUS;
    if (WIFSIGNALED(wait_status)) {
        return WTERMSIG(wait_status) == SIGALRM ? "it hangs" : strsignal(WTERMSIG(wait_status));
    }
    if (!exited && (WEXITSTATUS(wait_status) != 0 || !report->finished)) {
        return "it does not end well";
    }
    if (!exited && report->status == 0) {
        return NULL;
    }
    if (!exited && !report->reached) {
        return "it was refused something though nothing failed";
    }
    return point_is_named(&job->point, messages) ? NULL : "the message does not name the cause";
}

static void end_job(struct job *job, int wait_status)
{
    static char messages[MESSAGE_BYTES];
    ssize_t length = pread(job->messages, messages, sizeof(messages) - 1, 0);
    messages[length > 0 ? length : 0] = '\0';
    const struct scene *scene = job->sweep->scene;
    struct sweep_result *result = &job->sweep->result;
    const char *wrong = judge(scene, job, wait_status, messages);
    job->pid = 0;
    job->sweep->spent_ns += now_ns() - job->begin_ns;
    result->run++;
    result->reached += job->report->reached || !job->report->finished;
    result->refused += job->report->status != 0 || !job->report->finished;
    if (wrong != NULL && result->broken++ < MOST_SHOWN) {
        char text[128];
        point_text(&job->point, text, sizeof(text));
        printf("%s %s: %s (wait status %d)\n%s\n", scene->name, text, wrong, wait_status, messages);
    }
}

/* Wait for any process to end; false: none is running. */
static bool reap(void)
{
    int wait_status;
    pid_t pid;
    do {
        pid = waitpid(-1, &wait_status, 0);
    } while (pid < 0 && errno == EINTR);
    for (int i = 0; i < SWEEP_MOST_JOBS && pid > 0; i++) {
        if (jobs[i].pid == pid) {
            end_job(&jobs[i], wait_status);
            return true;
        }
    }
    return false;
}

static struct job *free_job(uint32_t count)
{
    for (;;) {
        for (uint32_t i = 0; i < count; i++) {
            if (jobs[i].pid == 0) {
                return &jobs[i];
            }
        }
        if (!reap()) {
            return NULL;
        }
    }
}

static uint64_t greatest_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static struct order order_of(uint64_t count, uint64_t seed)
{
    uint64_t mixed = seed * UINT64_C(0x9E3779B97F4A7C15) ^ (seed >> 7);
    if (count == 0) {
        return (struct order){0, 0, 1, 0};
    }
    struct order order = {mixed % count, 1 + (mixed >> 20) % count, count, count};
    while (greatest_divisor(order.stride, count) != 1) {
        order.stride++;
    }
    return order;
}

/* False: every point of this part was visited. */
static bool next_point(struct sweep *sweep, const struct sweep_options *options, struct point *out)
{
    struct order *order = &sweep->order;
    while (order->left > 0) {
        order->left--;
        *out = point_at(&sweep->space, order->at);
        order->at = (order->at + order->stride) % order->count;
        if (point_part(out, options->parts) == options->part) {
            return true;
        }
    }
    return false;
}

/* Run the scene without a failure to see what it does. */
static bool count_points(struct sweep *sweep, const struct sweep_options *options)
{
    struct point point = {POINT_NONE, 0, 0, 0};
    bool good =
        start_job(sweep, &jobs[0], &point, options->patience_s) && reap() && sweep->result.broken == 0;
    sweep->result = (struct sweep_result){.broken = sweep->result.broken};
    sweep->spent_ns = 0;
    if (good) {
        sweep->space = jobs[0].report->space;
        sweep->order = order_of(point_count(&sweep->space), options->seed);
        while (next_point(sweep, options, &point)) {
            sweep->result.space++;
        }
        sweep->order = order_of(point_count(&sweep->space), options->seed);
    }
    return good;
}

static bool choose(const struct sweep_options *options)
{
    bool good = true;
    sweep_count = 0;
    for (const struct scene *scene = scenes; scene->name != NULL; scene++) {
        bool wanted = options->scene != NULL
                          ? strcmp(options->scene, scene->name) == 0
                          : !options->fourth || (uint64_t)(scene - scenes) % 4 == options->seed % 4;
        if (wanted && sweep_count < MOST_SCENES) {
            struct sweep *sweep = &sweeps[sweep_count++];
            *sweep = (struct sweep){.scene = scene};
            good = count_points(sweep, options) && good;
        }
    }
    return good && sweep_count > 0;
}

static struct sweep_result sum_up(void)
{
    struct sweep_result sum = {.run = 0};
    for (uint32_t i = 0; i < sweep_count; i++) {
        const struct sweep_result *result = &sweeps[i].result;
        sum.space += result->space;
        sum.run += result->run;
        sum.reached += result->reached;
        sum.refused += result->refused;
        sum.broken += result->broken;
    }
    return sum;
}

static void tell_row(const char *name, const struct sweep_result *result)
{
    printf("%-24s %10llu %10llu %10llu %10llu %10llu%s\n", name, (unsigned long long)result->space,
           (unsigned long long)result->run, (unsigned long long)result->reached,
           (unsigned long long)result->refused, (unsigned long long)result->broken,
           result->broken != 0 ? "  FAILED" : "");
}

static void tell_table(uint64_t took_ns)
{
    struct sweep_result sum = sum_up();
    printf("%-24s %10s %10s %10s %10s %10s\n", "scene", "points", "run", "reached", "refused", "broken");
    for (uint32_t i = 0; i < sweep_count; i++) {
        tell_row(sweeps[i].scene->name, &sweeps[i].result);
    }
    tell_row("all", &sum);
    printf("%.1f s, %.1f points/s\n", (double)took_ns / 1e9,
           took_ns > 0 ? (double)sum.run * 1e9 / (double)took_ns : 0.0);
}

/* The scene that has had the least time; NULL: none has a point left. */
static struct sweep *whose_turn(void)
{
    const uint64_t unknown_ns = 1000000000;
    struct sweep *least = NULL;
    uint64_t least_ns = 0;
    for (uint32_t i = 0; i < sweep_count; i++) {
        struct sweep *sweep = &sweeps[i];
        uint64_t each_ns = sweep->result.run > 0 ? sweep->spent_ns / sweep->result.run : unknown_ns;
        uint64_t ns = sweep->started * each_ns;
        if (!sweep->done && (least == NULL || ns < least_ns)) {
            least = sweep;
            least_ns = ns;
        }
    }
    return least;
}

/* Start the next point; false: no scene has a point left, or one could not be run. */
static bool take_turn(const struct sweep_options *options, uint64_t end_ns)
{
    struct job *job = free_job(options->jobs);
    struct sweep *sweep = whose_turn();
    struct point point;
    if (sweep == NULL) {
        return false;
    }
    sweep->done = stopped != 0 || (options->most != 0 && sweep->started >= options->most) ||
                  (end_ns != 0 && sweep->started >= LEAST_POINTS && now_ns() >= end_ns) ||
                  !next_point(sweep, options, &point);
    if (sweep->done) {
        return true;
    }
    if (job == NULL || !start_job(sweep, job, &point, options->patience_s)) {
        sweep->result.broken++;
        printf("%s: no process can be started\n", sweep->scene->name);
        return false;
    }
    sweep->started++;
    return true;
}

static void stop(int signal_number)
{
    (void)signal_number;
    stopped = 1;
}

bool sweep_run(const struct sweep_options *options)
{
    bool good = choose(options);
    uint64_t begin = now_ns(), told = begin;
    uint64_t end_ns = options->seconds != 0 ? begin + options->seconds * UINT64_C(1000000000) : 0;
    (void)signal(SIGTERM, stop);
    while (take_turn(options, end_ns)) {
        uint64_t now = now_ns();
        if (now - told >= TOLD_EVERY_S * UINT64_C(1000000000)) {
            told = now;
            tell_table(now - begin); /* in case that the whole machine stops */
            (void)fflush(stdout);
        }
    }
    while (reap()) {
    }
    tell_table(now_ns() - begin);
    return good && sum_up().broken == 0;
}
