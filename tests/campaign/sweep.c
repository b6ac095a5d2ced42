/* Every point is a process: a crash is its signal, a hang its alarm, and what it leaves behind is gone.  It
 * runs the scene with the failure, looks at what is left, and runs it once more without: that must succeed.
 *
 * What a promise says is in check_after() and judge(). */
#include "tests/campaign/sweep.h"

#include "base/alloc.h"
#include "driver/emulator/gantry_emu.h"
#include "tests/campaign/clock_step.h"
#include "tests/support/emu_controls.h"

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
    LEAST_POINTS = 2,
    MOST_READINGS = 5000 /* of the clock: threads that wait read it as long as they wait */
};

/* Written by the process, read when it has ended. */
struct report {
    struct point_space space; /* POINT_NONE only */
    bool reached, finished;
    int status; /* of the scene's first run */
};

struct job {
    pid_t pid; /* 0: free */
    struct point point;
    struct report *report; /* shared with the process */
    int messages;          /* its stderr */
};

/* For the thread sanitizer: the child of a fork() has jemalloc's mutexes, which that initialises anew unseen.
 */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "mutex:libjemalloc.so\n";
}

static struct gantry_emu_control emu;
static struct job jobs[SWEEP_MOST_JOBS];

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
        gy_fault_arm(1000000000); /* counts without failing */
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

static bool start_job(const struct scene *scene, struct job *job, const struct point *point,
                      uint32_t patience_s)
{
    job->point = *point;
    memset(job->report, 0, sizeof(*job->report));
    if (ftruncate(job->messages, 0) != 0 || lseek(job->messages, 0, SEEK_SET) != 0) {
        return false;
    }
    (void)fflush(stdout);
    job->pid = fork();
    if (job->pid == 0) {
        process_main(scene, job, patience_s);
    }
    return job->pid > 0;
}

/* What was wrong, NULL when nothing was. */
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

static void end_job(const struct scene *scene, struct job *job, int wait_status, struct sweep_result *result)
{
    static char messages[MESSAGE_BYTES];
    ssize_t length = pread(job->messages, messages, sizeof(messages) - 1, 0);
    messages[length > 0 ? length : 0] = '\0';
    const char *wrong = judge(scene, job, wait_status, messages);
    job->pid = 0;
    result->run++;
    result->reached += job->report->reached || !job->report->finished;
    result->refused += job->report->status != 0 || !job->report->finished;
    if (wrong != NULL && result->broken++ < MOST_SHOWN) {
        char text[128];
        point_text(&job->point, text, sizeof(text));
        printf("%s %s: %s (wait status %d)\n%s\n", scene->name, text, wrong, wait_status, messages);
    }
}

/* Wait for any one to end. */
static bool reap(const struct scene *scene, struct sweep_result *result)
{
    int wait_status;
    pid_t pid = waitpid(-1, &wait_status, 0);
    for (int i = 0; i < SWEEP_MOST_JOBS && pid > 0; i++) {
        if (jobs[i].pid == pid) {
            end_job(scene, &jobs[i], wait_status, result);
            return true;
        }
    }
    return false;
}

static struct job *free_job(const struct scene *scene, uint32_t count, struct sweep_result *result)
{
    for (;;) {
        for (uint32_t i = 0; i < count; i++) {
            if (jobs[i].pid == 0) {
                return &jobs[i];
            }
        }
        if (!reap(scene, result)) {
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

/* The points in an order that visits each once and is spread over all. */
struct order {
    uint64_t at, stride, count;
};

static struct order order_of(uint64_t count, uint64_t seed)
{
    uint64_t mixed = seed * UINT64_C(0x9E3779B97F4A7C15) ^ (seed >> 7);
    struct order order = {mixed % count, 1 + (mixed >> 20) % count, count};
    while (greatest_divisor(order.stride, count) != 1) {
        order.stride++;
    }
    return order;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool find_space(const struct scene *scene, uint32_t patience_s, struct point_space *space)
{
    struct point none = {POINT_NONE, 0, 0, 0};
    struct sweep_result result = {.run = 0};
    bool counted =
        start_job(scene, &jobs[0], &none, patience_s) && reap(scene, &result) && result.broken == 0;
    *space = jobs[0].report->space;
    return counted;
}

bool sweep_scene(const struct scene *scene, const struct sweep_options *options, struct sweep_result *out)
{
    struct point_space space;
    struct sweep_result result = {.run = 0};
    bool good = find_space(scene, options->patience_s, &space);
    result.space = good ? point_count(&space) : 0;
    uint64_t most = options->most == 0 || options->most > result.space ? result.space : options->most;
    struct order order = result.space > 0 ? order_of(result.space, options->seed) : (struct order){0, 0, 1};
    for (uint64_t i = 0; i < most && good; i++) {
        if (options->end_ns != 0 && i >= LEAST_POINTS && now_ns() >= options->end_ns) {
            break;
        }
        struct point point = point_at(&space, order.at);
        order.at = (order.at + order.stride) % order.count;
        struct job *job = free_job(scene, options->jobs, &result);
        good = job != NULL && start_job(scene, job, &point, options->patience_s);
    }
    for (uint32_t i = 0; i < options->jobs; i++) {
        while (jobs[i].pid != 0 && reap(scene, &result)) {
        }
    }
    *out = result;
    return good && result.broken == 0;
}
