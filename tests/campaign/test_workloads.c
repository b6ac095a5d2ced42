/* SPDX-License-Identifier: MIT */
/* Random workloads: whatever a program's task graph looks like and however it is submitted, every cell of
 * memory ends up as a sequential run makes it.
 *
 *   test_campaign_workloads [--seeds N] [--first SEED] [--steps S]
 *
 * Each seed is a context with a way of submission, waiting and ordering, a limit of streams, launching
 * threads, maybe partitions with a share and a borrower, maybe a recording, and up to four managers that
 * overlap on one thread or have one each.  A manager runs one of Task Bench's patterns, a tiled
 * factorisation, a wavefront, a map-reduce, a ping-pong or a random graph (workload_patterns.c) in several
 * steps: tasks submitted anew, late into a running step, or frozen, some declared stable and changed now and
 * then; kernels in several calls, with scratch memory, asking for sync points, leaving the graph that is
 * captured; copies one by one and batched; CPU tasks that read what kernels wrote, spawn, and run loops in
 * parallel.
 *
 * After each step every cell and every release is compared, in the end the dispatcher's counters and what is
 * left of the library's and the driver's objects; and the library may not log an error.  The same seed makes
 * the same choices, but not the same interleaving. */
#include "base/alloc.h"
#include "base/clock.h"
#include "emulator/gantry_emu.h"
#include "tests/campaign/workload.h"
#include "tests/support/emu_controls.h"
#include "tests/support/gpu_fixture.h"

#include "workload_kernels.kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MANAGERS = 4, WAIT_MODES = GANTRY_WAIT_ADAPTIVE + 1, DEFAULT_SEEDS = 30, SKIPPED = 77 };

enum arrangement { ARRANGED_ALONE, ARRANGED_OVERLAPPED, ARRANGED_ON_THREADS, ARRANGEMENTS };

static struct workload loads[MOST_MANAGERS];

/* Neighbouring seeds must not begin alike: this is splitmix64, after Steele, Lea and Flood (2014). */
static uint64_t scatter(uint64_t seed)
{
    uint64_t z = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Reports about a round, not about one of its workloads. */
static const struct workload *no_workload(const struct round *round)
{
    static struct workload none;
    none.round = round;
    return &none;
}

static void must(const struct round *round, gantry_status status, const char *what)
{
    workload_must(no_workload(round), status, what);
}

/* Nothing fails here, so an error that the library logs and survives is a mistake as well. */
static void refuse_message(void *user, gantry_log_level level, const char *line)
{
    (void)level;
    workload_broken(no_workload(user), "%s", line);
}

/* ---- what managers share --------------------------------------------------------------------- */

/* One partition has a share, one borrows, and one has the rest; only primary contexts have any. */
static void draw_partitions(struct rng *rng, gantry_partition_request requests[3],
                            gantry_partition_options *plan, gantry_context_options *options)
{
    static const char *const names[] = {"share", "borrower", "rest"};
    static const gantry_share share = {sizeof(share), .percent = 40};
    for (uint32_t i = 0; i < 3; i++) {
        requests[i] = (gantry_partition_request){.struct_size = sizeof(requests[i]),
                                                 .name = names[i],
                                                 .size = GANTRY_PARTITION_AT_LEAST,
                                                 .sm_count = 16 + 8 * i};
    }
    requests[0].share = draw(rng, 2) == 0 ? &share : NULL;
    requests[1].borrows = draw(rng, 2) == 0 ? names[2] : NULL;
    requests[2].size = GANTRY_PARTITION_REST;
    plan->requests = requests;
    plan->count = 3;
    options->mode = GANTRY_CONTEXT_PRIMARY;
    options->partitions = plan;
}

/* What --submission says; DEFAULT: each seed draws its own, and no times are told. */
static gantry_submission submission_asked;

static void open_context(struct round *round, struct rng *rng)
{
    static const uint32_t limits[] = {0, 0, 1, 2, 5, 64};
    static const gantry_submission submissions[] = {GANTRY_SUBMISSION_DEFAULT, GANTRY_SUBMISSION_STREAMS,
                                                    GANTRY_SUBMISSION_GRAPHS,  GANTRY_SUBMISSION_GRAPHS,
                                                    GANTRY_SUBMISSION_AUTO,    GANTRY_SUBMISSION_AUTO};
    gantry_partition_request requests[3];
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    options.mode = draw(rng, 2) == 0 ? GANTRY_CONTEXT_OWN : GANTRY_CONTEXT_PRIMARY;
    options.stream_limit = limits[draw(rng, 6)];
    options.submission = submissions[draw(rng, 6)];
    options.submission =
        submission_asked != GANTRY_SUBMISSION_DEFAULT ? submission_asked : options.submission;
    options.completion_wait = (gantry_wait_mode)draw(rng, WAIT_MODES);
    options.wfi = draw(rng, 3) == 0 ? GANTRY_WFI_DEVICE_WIDE : GANTRY_WFI_PRECISE;
    options.synchronous = draw(rng, 12) == 0;
    options.single_stream = draw(rng, 12) == 0;
    if (draw(rng, 3) == 0) {
        draw_partitions(rng, requests, &plan, &options);
        round->partition_count = plan.count;
    }
    (void)snprintf(round->options, sizeof(round->options),
                   "submission %d, wait %d, wfi %d, streams %u%s%s%s%s%s", options.submission,
                   options.completion_wait, options.wfi, options.stream_limit,
                   options.synchronous ? ", synchronous" : "", options.single_stream ? ", single stream" : "",
                   options.partitions != NULL ? ", partitions" : "",
                   options.partitions != NULL && requests[0].share != NULL ? ", a share" : "",
                   options.partitions != NULL && requests[1].borrows != NULL ? ", borrowing" : "");
    must(round, gantry_context_create(&options, &round->context), "context");
}

static void open_cpus(struct round *round, struct rng *rng)
{
    gantry_cpu_dispatcher_options options = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    uint32_t class_limit = 1 + draw(rng, 2);
    size_t used = strlen(round->options);
    options.inline_only = draw(rng, 6) == 0;
    options.worker_count = options.inline_only ? 0 : 1 + draw(rng, 4);
    options.pin_workers = !options.inline_only && draw(rng, 5) == 0;
    options.wait_mode = (gantry_wait_mode)draw(rng, WAIT_MODES);
    options.class_count = 1;
    options.class_limits = &class_limit;
    if (draw(rng, 6) != 0) {
        must(round, gantry_cpu_dispatcher_create(&options, &round->cpus), "CPU dispatcher");
        (void)snprintf(round->options + used, sizeof(round->options) - used, ", workers %u, wait %d",
                       options.worker_count, options.wait_mode);
    }
}

static void open_kernel(struct round *round)
{
    gantry_module *module = NULL;
    must(round, gantry_module_load(round->context, &gantry_image_workload_kernels, &module), "module");
    must(round, gantry_module_get_kernel(module, "mix_cells", &round->kernel), "kernel");
}

static gantry_profile *start_recording(const struct round *round)
{
    gantry_profile *profile = NULL;
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = "/dev/null";
    options.spans_per_thread = 1024;
    options.ctas_per_buffer = 1024;
    must(round, gantry_profile_start(&options, &profile), "recording");
    return profile;
}

/* ---- the managers ---------------------------------------------------------------------------- */

static void draw_workload(struct workload *w, bool may_run)
{
    static const uint32_t ask_chances[] = {40, 10, 4};
    w->pattern = (enum pattern)draw(&w->rng, PATTERN_COUNT);
    w->mixed = draw(&w->rng, 3) != 0;
    w->mode = (enum mode)draw(&w->rng, MODE_COUNT);
    if (w->mode == MODE_RUN && !may_run) {
        w->mode = MODE_FROZEN;
    }
    w->stable = w->mode >= MODE_FROZEN && draw(&w->rng, 4) != 0;
    w->launch_tasks = draw(&w->rng, 5) == 0;
    w->ask_chances = ask_chances[draw(&w->rng, 3)];
}

static void open_workload(struct workload *w, const struct round *round)
{
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    const gantry_share share = {sizeof(share), .percent = 60};
    options.cpu_dispatcher = round->cpus;
    options.gpu_dispatcher = gantry_context_dispatcher(round->context);
    options.workers_only = round->cpus != NULL && draw(&w->rng, 3) == 0;
    options.share = draw(&w->rng, 6) == 0 ? &share : NULL;
    if (round->partition_count != 0 && draw(&w->rng, 2) == 0) {
        options.partition = gantry_partition_at(round->context, draw(&w->rng, round->partition_count));
    }
    workload_must(w, gantry_taskman_create(&options, &w->manager), "manager");
    workload_plan(w);
    workload_open_memory(w);
}

static void workload_main(void *arg)
{
    workload_run(arg);
}

static void run_all(struct workload *all, uint32_t count, enum arrangement arrangement)
{
    if (arrangement == ARRANGED_ON_THREADS) {
        for (uint32_t i = 0; i < count; i++) {
            workload_must(&all[i], gy_thread_start(&all[i].thread, "workload", workload_main, &all[i]),
                          "thread");
        }
        for (uint32_t i = 0; i < count; i++) {
            gy_thread_join(&all[i].thread);
        }
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        workload_begin(&all[i], 0);
    }
    for (uint32_t step = 1, steps = all->round->steps; step <= steps; step++) {
        for (uint32_t i = 0; i < count; i++) {
            workload_finish(&all[i]);
            if (step < steps) {
                workload_begin(&all[i], step);
            }
        }
    }
}

static void check_counters(const struct round *round, uint32_t count)
{
    gantry_dispatcher_stats stats = {.struct_size = sizeof(stats)};
    uint64_t tasks = 0;
    must(round, gantry_dispatcher_get_stats(gantry_context_dispatcher(round->context), &stats), "statistics");
    for (uint32_t i = 0; i < count; i++) {
        tasks += 1 + (uint64_t)round->steps * workload_gpu_tasks(&loads[i]); /* one of them fills the cells */
    }
    if (stats.tasks != tasks || stats.tasks_failed != 0) {
        workload_broken(no_workload(round), "the dispatcher counted %llu tasks, not %llu, and %llu failures",
                        (unsigned long long)stats.tasks, (unsigned long long)tasks,
                        (unsigned long long)stats.tasks_failed);
    }
}

static void run_seed(struct round *round)
{
    struct rng rng = {scatter(round->seed)};
    gantry_set_log(refuse_message, round, GANTRY_LOG_ERROR);
    open_context(round, &rng);
    open_cpus(round, &rng);
    open_kernel(round);
    enum arrangement arrangement = (enum arrangement)draw(&rng, ARRANGEMENTS);
    uint32_t count = arrangement == ARRANGED_ALONE ? 1 : 2 + draw(&rng, MOST_MANAGERS - 1);
    gantry_profile *profile = draw(&rng, 4) == 0 ? start_recording(round) : NULL;
    memset(loads, 0, sizeof(loads));
    for (uint32_t i = 0; i < count; i++) {
        loads[i].round = round;
        loads[i].rng.state = scatter(rng.state + i);
        draw_workload(&loads[i], arrangement != ARRANGED_OVERLAPPED);
        open_workload(&loads[i], round);
    }
    const uint64_t begin = gy_clock_ns();
    run_all(loads, count, arrangement);
    if (submission_asked != GANTRY_SUBMISSION_DEFAULT) {
        printf("seed %llu: %.3f ms\n", (unsigned long long)round->seed,
               (double)(gy_clock_ns() - begin) / 1e6);
    }
    check_counters(round, count);
    if (profile != NULL) {
        must(round, gantry_profile_stop(profile, NULL), "end of the recording");
    }
    for (uint32_t i = 0; i < count; i++) {
        gantry_taskman_destroy(loads[i].manager);
        workload_close_memory(&loads[i]);
    }
    gantry_cpu_dispatcher_destroy(round->cpus);
    gantry_context_destroy(round->context);
    gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR);
}

/* ---- all seeds ------------------------------------------------------------------------------- */

static struct gantry_emu_control emu;

static int64_t live_objects(void)
{
    int64_t sum = gy_alloc_live();
    for (int kind = 0; gpu_fixture_driver() == GANTRY_DRIVER_EMULATED && kind < GANTRY_EMU_LIVE_KINDS;
         kind++) {
        sum += emu.live(kind);
    }
    return sum;
}

static bool number(const char *text, uint64_t *out)
{
    char *end = NULL;
    *out = strtoull(text, &end, 10);
    return end != text && *end == '\0';
}

static bool read_submission(const char *text)
{
    static const char *const names[] = {"streams", "graphs", "auto"};
    for (uint32_t i = 0; i < 3; i++) {
        if (strcmp(text, names[i]) == 0) {
            submission_asked = (gantry_submission)(GANTRY_SUBMISSION_STREAMS + i);
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    uint64_t seeds = getenv("GANTRY_TEST_LIGHT") != NULL ? DEFAULT_SEEDS / 3 : DEFAULT_SEEDS, first = 1,
             steps = 4;
    bool understood = argc % 2 == 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t *to = strcmp(argv[i], "--seeds") == 0   ? &seeds
                       : strcmp(argv[i], "--first") == 0 ? &first
                       : strcmp(argv[i], "--steps") == 0 ? &steps
                                                         : NULL;
        const bool is_way = strcmp(argv[i], "--submission") == 0;
        understood =
            understood && (is_way ? read_submission(argv[i + 1]) : to != NULL && number(argv[i + 1], to));
    }
    if (!understood || steps == 0 || steps > UINT32_MAX) {
        fprintf(stderr,
                "usage: %s [--seeds N] [--first SEED] [--steps S] [--submission streams|graphs|auto]\n",
                argv[0]);
        return 2;
    }
    if (gpu_fixture_driver() == GANTRY_DRIVER_EMULATED && !emu_controls_open(&emu)) {
        return SKIPPED;
    }
    const char *name = "mix_cells";
    uint32_t kernel_id = 0;
    if (gantry_profile_register_kernels(&name, 1, &kernel_id) != GANTRY_OK) {
        return 1;
    }
    int64_t live = live_objects();
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        struct round round = {.seed = seed, .steps = (uint32_t)steps, .kernel_id = kernel_id};
        run_seed(&round);
        if (live_objects() != live) {
            workload_broken(no_workload(&round), "%lld objects are left", (long long)(live_objects() - live));
        }
    }
    printf("%llu seeds of %llu steps\n", (unsigned long long)seeds, (unsigned long long)steps);
    return 0;
}
