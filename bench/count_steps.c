/* SPDX-License-Identifier: MIT */
/* A program of one fixed loop, for tools/count_instructions.py and tools/compare_times.py: it runs the same
 * steps again and again; the first tool counts their instructions, the second takes their time.
 *
 *     count_steps [--times] [--cuda] CASE TASKS STEPS
 *
 * A step is TASKS tasks: kernels in 8 pipelines (submit_work.h), or in the cases with a chain CPU tasks that
 * come one after the other.  They are built, run and reset in each step; or, in the frozen cases, built once
 * and run again.  In the case "recorded" a recording runs, which goes nowhere.  The emulated driver accepts
 * launches and does not execute them, and all threads block while they wait, so that nearly the same
 * instructions are executed each time.  With --cuda the steps run on a GPU.  With --times two numbers are
 * printed, in ns per task: the median time of a step, until it has ended on the device, and the CPU time of
 * all threads; WARM_STEPS steps before are not counted. */
#include "bench/submit_work.h"
#include "cli/messages.h"

#include <gantry/profile.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct count_case {
    const char *name;
    gantry_submission submission;
    bool is_chain; /* of CPU tasks */
    bool is_frozen;
    bool is_stable;
    bool is_recorded; /* a recording runs */
};

static const struct count_case cases[] = {
    {"streams", GANTRY_SUBMISSION_STREAMS, false, false, false, false},
    {"frozen-streams", GANTRY_SUBMISSION_STREAMS, false, true, false, false},
    {"graphs", GANTRY_SUBMISSION_GRAPHS, false, false, false, false},
    {"frozen-graphs", GANTRY_SUBMISSION_GRAPHS, false, true, false, false},
    {"replay", GANTRY_SUBMISSION_GRAPHS, false, true, true, false},
    {"chain", GANTRY_SUBMISSION_STREAMS, true, false, false, false},
    {"frozen-chain", GANTRY_SUBMISSION_STREAMS, true, true, false, false},
    {"auto", GANTRY_SUBMISSION_AUTO, false, false, false, false},
    {"recorded", GANTRY_SUBMISSION_GRAPHS, false, false, false, true},
};

enum { CASES = sizeof(cases) / sizeof(cases[0]), WARM_STEPS = 5 };

struct count_options {
    bool on_gpu;
    bool wants_times;
    uint32_t tasks; /* per step */
    uint64_t steps;
};

static gantry_status add_one(gantry_task *task, void *arg)
{
    (void)task;
    ++*(uint64_t *)arg;
    return GANTRY_OK;
}

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool build_chain(struct submit_work *work, uint64_t *bodies)
{
    bool good = true;
    for (uint32_t i = 0; i < work->kernels && good; i++) {
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.kind = GANTRY_TASK_CPU;
        desc.run = add_one;
        desc.arg = bodies;
        good = bench_submit_ok(gantry_taskman_submit(work->manager, &desc, &work->tasks[i])) &&
               (i == 0 || bench_submit_ok(gantry_task_start_after(work->tasks[i], work->tasks[i - 1])));
    }
    return good;
}

/* What is measured, ns. */
struct count_times {
    double *steps; /* one for each; NULL: nothing is measured */
    uint64_t cpu;  /* of all threads, in the steps that count */
};

static bool run_steps(struct submit_work *work, const struct count_case *one, uint64_t steps,
                      uint64_t *bodies, struct count_times *times)
{
    bool good = true;
    for (uint64_t i = 0; i < steps && good; i++) {
        times->cpu = i == WARM_STEPS ? now_ns(CLOCK_PROCESS_CPUTIME_ID) : times->cpu;
        uint64_t begin = now_ns(CLOCK_MONOTONIC);
        if (i == 0 || !one->is_frozen) {
            good = one->is_chain ? build_chain(work, bodies) : bench_submit_build(work);
        }
        if (i == 0 && one->is_frozen) {
            good = good && bench_submit_ok(gantry_taskman_freeze(work->manager));
        }
        good = good && bench_submit_run(work) &&
               (times->steps == NULL || bench_submit_ok(gantry_context_synchronize(work->context))) &&
               (one->is_frozen || bench_submit_ok(gantry_taskman_reset(work->manager)));
        if (times->steps != NULL) {
            times->steps[i] = (double)(now_ns(CLOCK_MONOTONIC) - begin);
        }
    }
    times->cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID) - times->cpu;
    return good;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool print_times(const struct count_times *times, const struct count_options *options)
{
    double *counted = times->steps + WARM_STEPS;
    uint64_t count = options->steps - WARM_STEPS;
    qsort(counted, count, sizeof(*counted), compare_doubles);
    return printf("%.2f %.2f\n", counted[count / 2] / options->tasks,
                  (double)times->cpu / (double)(count * options->tasks)) > 0;
}

/* Has every task of every step run once? */
static bool verify(struct submit_work *work, const struct count_case *one, uint64_t steps, uint64_t bodies)
{
    gantry_dispatcher_stats stats = {.struct_size = sizeof(stats)};
    if (!bench_submit_ok(gantry_dispatcher_get_stats(gantry_context_dispatcher(work->context), &stats))) {
        return false;
    }
    uint64_t done = one->is_chain ? bodies : stats.kernels;
    if (done != steps * work->kernels) {
        cli_error("count_steps: %llu tasks ran, not %llu", (unsigned long long)done,
                  (unsigned long long)(steps * work->kernels));
        return false;
    }
    return true;
}

/* CPU tasks run in the waiting thread, which blocks when there are none. */
static bool open_manager(struct submit_work *work)
{
    gantry_taskman_destroy(work->manager);
    work->manager = NULL;
    gantry_cpu_dispatcher_destroy(work->cpus);
    work->cpus = NULL;
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    cpus.inline_only = true;
    cpus.wait_mode = GANTRY_WAIT_BLOCK;
    if (!bench_submit_ok(gantry_cpu_dispatcher_create(&cpus, &work->cpus))) {
        return false;
    }
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    manager.cpu_dispatcher = work->cpus;
    manager.gpu_dispatcher = gantry_context_dispatcher(work->context);
    return bench_submit_ok(gantry_taskman_create(&manager, &work->manager));
}

/* Record, where the case wants it, into a file that keeps nothing. */
static bool begin_recording(const struct count_case *one, gantry_profile **out)
{
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = "/dev/null";
    return !one->is_recorded || bench_submit_ok(gantry_profile_start(&options, out));
}

static bool count(const struct count_case *one, const struct count_options *options)
{
    static struct submit_work work;
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    context.driver = options->on_gpu ? GANTRY_DRIVER_CUDA : GANTRY_DRIVER_EMULATED;
    context.completion_wait = GANTRY_WAIT_BLOCK;
    context.submission = one->submission;
    uint64_t bodies = 0;
    gantry_profile *recording = NULL;
    struct count_times times = {0};
    times.steps = options->wants_times ? calloc(options->steps, sizeof(*times.steps)) : NULL;
    bool good = (!options->wants_times || times.steps != NULL) && bench_submit_open(&work, &context) &&
                open_manager(&work) && begin_recording(one, &recording);
    if (good) {
        if (!options->on_gpu) {
            work.cuda.emulator_set_noop(true);
        }
        work.kernels = options->tasks;
        work.stable = one->is_stable;
        good = run_steps(&work, one, options->steps, &bodies, &times) &&
               verify(&work, one, options->steps, bodies) &&
               (times.steps == NULL || print_times(&times, options));
        if (!options->on_gpu) {
            work.cuda.emulator_set_noop(false);
        }
    }
    gantry_profile_stop(recording, NULL);
    bench_submit_close(&work);
    free(times.steps);
    return good;
}

static bool read_number(const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *out >= least && *out <= most;
}

/* Read the options, which come first; the remaining three words are the arguments. */
static int read_options(int argc, char **argv, struct count_options *out)
{
    int at = 1;
    for (; at < argc && strncmp(argv[at], "--", 2) == 0; at++) {
        if (strcmp(argv[at], "--cuda") == 0) {
            out->on_gpu = true;
        } else if (strcmp(argv[at], "--times") == 0) {
            out->wants_times = true;
        } else {
            return argc;
        }
    }
    return at;
}

int main(int argc, char **argv)
{
    struct count_options options = {0};
    uint64_t tasks;
    int at = read_options(argc, argv, &options);
    if (argc - at == 3 && read_number(argv[at + 1], PIPELINES, MOST_KERNELS, &tasks) &&
        read_number(argv[at + 2], options.wants_times ? WARM_STEPS + 1 : 1, UINT32_MAX, &options.steps)) {
        options.tasks = (uint32_t)tasks;
        for (int i = 0; i < CASES; i++) {
            if (strcmp(argv[at], cases[i].name) == 0) {
                return count(&cases[i], &options) ? EXIT_SUCCESS : EXIT_FAILURE;
            }
        }
    }
    fprintf(
        stderr,
        "usage: count_steps [--times] [--cuda] CASE TASKS STEPS; TASKS from %u to %u; STEPS above %d with "
        "--times; CASE is one of",
        PIPELINES, MOST_KERNELS, WARM_STEPS);
    for (int i = 0; i < CASES; i++) {
        fprintf(stderr, " %s", cases[i].name);
    }
    fputc('\n', stderr);
    return EXIT_FAILURE;
}
