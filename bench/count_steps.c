/* A program of one fixed loop, for tools/count_instructions.py: the same steps again and again, of which the
 * tool counts the instructions.
 *
 *     count_steps CASE TASKS STEPS
 *
 * A step is TASKS tasks: kernels in 8 pipelines (submit_work.h), or for the chains CPU tasks of which each
 * comes after the one before.  They are built, run and reset in each step; or, in the frozen cases, built
 * once and run again.  The emulated driver accepts launches and does not execute them, and all threads block
 * while they wait, so that nearly the same instructions are executed each time. */
#include "bench/submit_work.h"
#include "cli/messages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct count_case {
    const char *name;
    gantry_submission submission;
    bool is_chain; /* of CPU tasks */
    bool is_frozen;
    bool is_stable;
};

static const struct count_case cases[] = {
    {"streams", GANTRY_SUBMISSION_STREAMS, false, false, false},
    {"frozen-streams", GANTRY_SUBMISSION_STREAMS, false, true, false},
    {"graphs", GANTRY_SUBMISSION_GRAPHS, false, false, false},
    {"frozen-graphs", GANTRY_SUBMISSION_GRAPHS, false, true, false},
    {"replay", GANTRY_SUBMISSION_GRAPHS, false, true, true},
    {"chain", GANTRY_SUBMISSION_STREAMS, true, false, false},
    {"frozen-chain", GANTRY_SUBMISSION_STREAMS, true, true, false},
};

enum { CASES = sizeof(cases) / sizeof(cases[0]) };

static gantry_status add_one(gantry_task *task, void *arg)
{
    (void)task;
    ++*(uint64_t *)arg;
    return GANTRY_OK;
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

static bool run_steps(struct submit_work *work, const struct count_case *one, uint64_t steps,
                      uint64_t *bodies)
{
    bool good = true;
    for (uint64_t i = 0; i < steps && good; i++) {
        if (i == 0 || !one->is_frozen) {
            good = one->is_chain ? build_chain(work, bodies) : bench_submit_build(work);
        }
        if (i == 0 && one->is_frozen) {
            good = good && bench_submit_ok(gantry_taskman_freeze(work->manager));
        }
        good = good && bench_submit_run(work) &&
               (one->is_frozen || bench_submit_ok(gantry_taskman_reset(work->manager)));
    }
    return good;
}

/* Every task of every step ran once. */
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

/* CPU tasks run in the thread that waits, which blocks when there are none. */
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

static bool count(const struct count_case *one, uint32_t tasks, uint64_t steps)
{
    static struct submit_work work;
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    context.driver = GANTRY_DRIVER_EMULATED;
    context.completion_wait = GANTRY_WAIT_BLOCK;
    context.submission = one->submission;
    uint64_t bodies = 0;
    bool good = bench_submit_open(&work, &context) && open_manager(&work);
    if (good) {
        work.cuda.emulator_set_noop(true);
        work.kernels = tasks;
        work.stable = one->is_stable;
        good = run_steps(&work, one, steps, &bodies) && verify(&work, one, steps, bodies);
        work.cuda.emulator_set_noop(false);
    }
    bench_submit_close(&work);
    return good;
}

static bool read_number(const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *out >= least && *out <= most;
}

int main(int argc, char **argv)
{
    uint64_t tasks, steps;
    if (argc == 4 && read_number(argv[2], PIPELINES, MOST_KERNELS, &tasks) &&
        read_number(argv[3], 1, UINT32_MAX, &steps)) {
        for (int i = 0; i < CASES; i++) {
            if (strcmp(argv[1], cases[i].name) == 0) {
                return count(&cases[i], (uint32_t)tasks, steps) ? EXIT_SUCCESS : EXIT_FAILURE;
            }
        }
    }
    fprintf(stderr, "usage: count_steps CASE TASKS STEPS; TASKS from %u to %u; CASE is one of", PIPELINES,
            MOST_KERNELS);
    for (int i = 0; i < CASES; i++) {
        fprintf(stderr, " %s", cases[i].name);
    }
    fputc('\n', stderr);
    return EXIT_FAILURE;
}
