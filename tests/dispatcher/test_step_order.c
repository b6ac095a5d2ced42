/* SPDX-License-Identifier: MIT */
/* The order between the steps of a task manager: GPU work of a step comes after GPU work of the step before,
 * in every submission mode, unless the application says that it need not.  `--graphs N` sets how many
 * random series of steps there are. */
#include "tests/dispatcher/step_stamps.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Behind the cells of the nodes there are those of await_flag. */
#define FLAG STEP_CELLS
#define SEEN (FLAG + 1u)
#define CELLS (FLAG + 2u)
/* How long a kernel waits for another one to overtake it: where that shall happen, and where it shall not. */
#define PATIENCE_NS UINT64_C(5000000000)
#define SHORT_NS UINT64_C(200000000)
#define LONG_NS UINT64_C(700000)
#define VERY_LONG_NS UINT64_C(60000000)

static uint32_t series_wanted = 60;

struct scene;

/* A task of the graph. */
struct node {
    struct scene *scene;
    uint32_t index;
    gantry_task_kind kind;
    bool is_independent;
    uint64_t least_ns; /* how long it lasts */
    gantry_task *task;
    uint64_t after; /* bit i: starts after node i; all are older */
};

struct scene {
    struct step_stamps on;
    gantry_kernel *await_flag;
    uint64_t patience_ns; /* for the next launch of await_flag */
    uint32_t count;
    struct node nodes[MOST];
    bool is_told; /* the host tells in which step a node stamps, and that is: */
    uint32_t step;
    gantry_submission submission;
    char way[64]; /* of the random steps: how they reach the device */
};

static void open_scene(struct scene *s, const gantry_context_options *options)
{
    memset(s, 0, sizeof(*s));
    s->submission = options->submission;
    step_stamps_open(&s->on, options, 2);
    assert_ok(gantry_module_get_kernel(s->on.module, "await_flag", &s->await_flag));
}

static void close_scene(struct scene *s)
{
    step_stamps_close(&s->on);
}

static gantry_launch_result launch_node(gantry_launch *launch, void *arg)
{
    const struct node *node = arg;
    const struct scene *s = node->scene;
    if (s->is_told) {
        return step_stamps_launch_in(&s->on, launch, s->step, node->index, node->least_ns);
    }
    return step_stamps_launch(&s->on, launch, node->index, node->least_ns);
}

static gantry_status run_nothing(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    return GANTRY_OK;
}

static void submit_node(struct scene *s, gantry_taskman *manager, struct node *node, bool is_stable)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    bool is_gpu = node->kind >= GANTRY_TASK_HTOD;
    desc.kind = node->kind;
    desc.label = "node";
    desc.run = node->kind == GANTRY_TASK_CPU ? run_nothing : NULL;
    desc.launch = is_gpu ? launch_node : NULL;
    desc.arg = node;
    desc.is_stable = is_gpu && is_stable;
    desc.is_independent = node->is_independent;
    assert_ok(gantry_taskman_submit(manager, &desc, &node->task));
    for (uint64_t left = node->after; left != 0; left &= left - 1) {
        assert_ok(gantry_task_start_after(node->task, s->nodes[__builtin_ctzll(left)].task));
    }
}

/* The same graph is built again in every step, or it is frozen. */
static void draw_graph(struct scene *s, uint32_t independent_percent)
{
    s->count = 1 + step_stamps_draw(&s->on, MOST);
    for (uint32_t i = 0; i < s->count; i++) {
        struct node *node = &s->nodes[i];
        *node = (struct node){.scene = s, .index = i};
        node->kind = (gantry_task_kind)(step_stamps_draw(&s->on, 4) == 0 ? step_stamps_draw(&s->on, 2)
                                                                         : 2 + step_stamps_draw(&s->on, 3));
        node->is_independent =
            node->kind >= GANTRY_TASK_HTOD && step_stamps_draw(&s->on, 100) < independent_percent;
        node->least_ns =
            step_stamps_draw(&s->on, 12) == 0 ? LONG_NS : 0; /* the steps behind it would overtake it */
        for (uint32_t edges = step_stamps_draw(&s->on, 3); edges != 0 && i != 0; edges--) {
            node->after |= UINT64_C(1) << step_stamps_draw(&s->on, i);
        }
    }
}

static void submit_graph(struct scene *s, gantry_taskman *manager, bool is_stable)
{
    for (uint32_t i = 0; i < s->count; i++) {
        submit_node(s, manager, &s->nodes[i], is_stable);
    }
}

static gantry_launch_result launch_last(gantry_launch *launch, void *arg)
{
    return gantry_launch_add_completion(launch, arg) == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* Run a step of one GPU task, which comes after everything before, and a CPU task that waits for it. */
static void flush(struct scene *s, gantry_taskman *manager)
{
    (void)s;
    assert_ok(gantry_taskman_reset(manager));
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *done;
    desc.run = run_nothing;
    assert_ok(gantry_taskman_submit(manager, &desc, &done));
    desc = (gantry_task_desc)GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_DTOH;
    desc.launch = launch_last;
    desc.arg = done;
    gantry_task *last;
    assert_ok(gantry_taskman_submit(manager, &desc, &last));
    assert_ok(gantry_task_start_after(done, last));
    assert_ok(gantry_taskman_start(manager));
    assert_ok(gantry_taskman_stop(manager));
    assert_ok(gantry_taskman_reset(manager));
}

/* The steps of which the stamps of a node's step may be: where the device counts them, the next one of an
 * independent node may begin first. */
static void find_steps(const struct scene *s, const struct node *node, uint32_t step, uint32_t *first,
                       uint32_t *last)
{
    const uint32_t off = node->is_independent && !s->is_told;
    *first = step < off ? 0 : step - off;
    *last = step + off < STEPS ? step + off : STEPS - 1;
}

/* When the node began in the step, at the latest. */
static uint32_t find_begin(const struct scene *s, const struct node *node, uint32_t step)
{
    uint32_t first, last;
    find_steps(s, node, step, &first, &last);
    return s->on.stamps.cells[step_stamps_at(last, node->index)]; /* they are in the order of their begins */
}

/* When it ended, at the earliest; 0: a run is missing. */
static uint32_t find_end(const struct scene *s, const struct node *node, uint32_t step)
{
    uint32_t first, last, end = UINT32_MAX;
    find_steps(s, node, step, &first, &last);
    for (; first <= last; first++) {
        const uint32_t at = s->on.stamps.cells[step_stamps_at(first, node->index) + 1];
        end = at < end ? at : end;
    }
    return end;
}

/* A node begins after all nodes of the steps before have ended; an independent one after those of the steps
 * before the step before. */
static void check_order(const struct scene *s, uint32_t seed)
{
    uint32_t latest = 0, older = 0; /* the end of all steps before, and of those but the last */
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t ended = latest;
        for (uint32_t i = 0; i < s->count; i++) {
            const struct node *node = &s->nodes[i];
            if (node->kind < GANTRY_TASK_HTOD) {
                continue;
            }
            const uint32_t begin = find_begin(s, node, step), end = find_end(s, node, step);
            const uint32_t bound = node->is_independent ? older : latest;
            if (end == 0 || begin < bound) {
                fail_msg("series %u, %s: %snode %u of step %u began at %u and ended at %u, but the steps "
                         "before ended at %u",
                         seed, s->way, node->is_independent ? "independent " : "", i, step, begin, end,
                         bound);
            }
            ended = end > ended ? end : ended;
        }
        older = latest;
        latest = ended;
    }
}

static void run_series(struct scene *s, uint32_t seed)
{
    s->on.random = seed;
    memset(s->on.stamps.cells, 0, CELLS * sizeof(uint32_t));
    s->on.stamps.cells[0] = 1;
    draw_graph(s, seed % 3 == 0 ? 25 : 0);
    bool is_frozen = step_stamps_draw(&s->on, 2) == 0, is_stable = step_stamps_draw(&s->on, 2) == 0;
    gantry_taskman *manager = s->on.gpu.manager;
    s->is_told = !is_frozen || !is_stable;
    snprintf(s->way, sizeof(s->way), "submission %d%s%s", (int)s->submission, is_frozen ? ", frozen" : "",
             is_frozen && is_stable ? ", stable" : "");
    if (is_frozen) {
        submit_graph(s, manager, is_stable);
        assert_ok(gantry_taskman_freeze(manager));
    }
    for (s->step = 0; s->step < STEPS; s->step++) {
        if (!is_frozen) {
            submit_graph(s, manager, false);
        }
        assert_ok(gantry_taskman_start(manager));
        assert_ok(gantry_taskman_stop(manager));
        if (!is_frozen) {
            assert_ok(gantry_taskman_reset(manager));
        }
    }
    flush(s, manager);
    check_order(s, seed);
}

static void random_series(const gantry_context_options *options, uint32_t series)
{
    struct scene s;
    open_scene(&s, options);
    for (uint32_t seed = 1; seed <= series; seed++) {
        run_series(&s, seed);
    }
    close_scene(&s);
}

static void test_random_steps_keep_their_order(void **state)
{
    (void)state;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    for (int mode = GANTRY_SUBMISSION_STREAMS; mode <= GANTRY_SUBMISSION_AUTO; mode++) {
        options.submission = (gantry_submission)mode;
        random_series(&options, series_wanted);
    }
}

static void test_few_streams_and_sync_points_keep_the_order(void **state)
{
    (void)state;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.stream_limit = 3;
    random_series(&options, series_wanted / 5);
    options.wfi = GANTRY_WFI_DEVICE_WIDE;
    random_series(&options, series_wanted / 5);
}

/* ---- a chosen graph --------------------------------------------------------------------------- */

/* a comes first, then b and c beside each other, and c lasts long: a of the next step would begin before c
 * has ended. */
static void check_fork(gantry_submission submission, bool is_frozen, bool is_stable, uint32_t steps)
{
    struct scene s;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.submission = submission;
    open_scene(&s, &options);
    gantry_taskman *manager = s.on.gpu.manager;
    s.on.stamps.cells[0] = 1;
    s.count = 3;
    for (uint32_t i = 0; i < s.count; i++) {
        s.nodes[i] = (struct node){.scene = &s, .index = i, .kind = GANTRY_TASK_KERNEL, .after = i != 0};
    }
    s.nodes[2].least_ns = VERY_LONG_NS;
    if (is_frozen) {
        submit_graph(&s, manager, is_stable);
        assert_ok(gantry_taskman_freeze(manager));
        assert_ok(gantry_taskman_run(manager, steps));
    }
    for (uint32_t step = 0; step < steps && !is_frozen; step++) {
        submit_graph(&s, manager, is_stable);
        assert_ok(gantry_taskman_start(manager));
        assert_ok(gantry_taskman_stop(manager));
        assert_ok(gantry_taskman_reset(manager));
    }
    flush(&s, manager);
    for (uint32_t step = 1; step < steps; step++) {
        assert_true(s.on.stamps.cells[step_stamps_at(step, 0)] >
                    s.on.stamps.cells[step_stamps_at(step - 1, 2) + 1]);
    }
    close_scene(&s);
}

static void test_a_step_waits_for_all_streams_of_the_step_before(void **state)
{
    (void)state;
    check_fork(GANTRY_SUBMISSION_STREAMS, false, false, 2);
    check_fork(GANTRY_SUBMISSION_STREAMS, true, false, 2);
    check_fork(GANTRY_SUBMISSION_AUTO, true, false, 2);
    check_fork(GANTRY_SUBMISSION_GRAPHS, true, false, 2);
    check_fork(GANTRY_SUBMISSION_GRAPHS, true, true, STEPS);
    check_fork(GANTRY_SUBMISSION_AUTO, true, true, STEPS);
}

/* ---- what overlaps ---------------------------------------------------------------------------- */

static gantry_launch_result launch_await(gantry_launch *launch, void *arg)
{
    const struct scene *s = arg;
    return stamps_await(&s->on.stamps, launch, s->await_flag, FLAG, s->patience_ns);
}

/* A step of one task: a node that stamps, or one that waits for the flag. */
static void run_one(struct scene *s, gantry_taskman *manager, gantry_launch_fn launch, bool is_independent)
{
    struct node *node = &s->nodes[0];
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    *node = (struct node){.scene = s};
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch;
    desc.arg = launch == launch_node ? (void *)node : (void *)s;
    desc.is_independent = is_independent;
    assert_ok(gantry_taskman_submit(manager, &desc, NULL));
    assert_ok(gantry_taskman_start(manager));
    assert_ok(gantry_taskman_stop(manager));
    assert_ok(gantry_taskman_reset(manager));
}

static gantry_taskman *make_manager(struct scene *s, bool independent_steps)
{
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_taskman *manager;
    options.cpu_dispatcher = s->on.gpu.cpus;
    options.gpu_dispatcher = gantry_context_dispatcher(s->on.gpu.context);
    options.independent_steps = independent_steps;
    assert_ok(gantry_taskman_create(&options, &manager));
    return manager;
}

/* A step of `first` waits for the flag on the GPU; returns whether the next step of `second` ends before. */
static bool overlaps(struct scene *s, gantry_taskman *first, gantry_taskman *second, bool is_independent,
                     uint64_t patience_ns)
{
    s->patience_ns = patience_ns;
    memset(s->on.stamps.cells, 0, CELLS * sizeof(uint32_t));
    s->on.stamps.cells[0] = 1;
    run_one(s, first, launch_await, false);
    run_one(s, second, launch_node, is_independent);
    while (__atomic_load_n(&s->on.stamps.cells[step_stamps_at(0, 0) + 1], __ATOMIC_ACQUIRE) == 0 &&
           __atomic_load_n(&s->on.stamps.cells[SEEN], __ATOMIC_ACQUIRE) == 0) {
    }
    __atomic_store_n(&s->on.stamps.cells[FLAG], 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&s->on.stamps.cells[SEEN], __ATOMIC_ACQUIRE) == 0) {
    }
    flush(s, first);
    flush(s, second);
    return s->on.stamps.cells[SEEN] == 2;
}

/* Streams are given out again between steps, unless a step `is_open` meanwhile. */
static void check_overlaps(gantry_submission submission, bool is_open)
{
    struct scene s;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.submission = submission;
    open_scene(&s, &options);
    gantry_taskman *independent = make_manager(&s, true);
    gantry_taskman *other = make_manager(&s, false);
    gantry_taskman *open = make_manager(&s, false);
    if (is_open) {
        assert_ok(gantry_taskman_start(open));
    }
    /* A driver may load a kernel when it is launched for the first time, and wait for all others to end
     * then. */
    (void)overlaps(&s, s.on.gpu.manager, s.on.gpu.manager, true, 0);
    assert_true(overlaps(&s, s.on.gpu.manager, s.on.gpu.manager, true, PATIENCE_NS));
    assert_true(overlaps(&s, independent, independent, false, PATIENCE_NS));
    assert_true(overlaps(&s, s.on.gpu.manager, other, false, PATIENCE_NS));
    assert_false(overlaps(&s, s.on.gpu.manager, s.on.gpu.manager, false, SHORT_NS));
    if (is_open) {
        assert_ok(gantry_taskman_stop(open));
    }
    gantry_taskman_destroy(open);
    gantry_taskman_destroy(other);
    gantry_taskman_destroy(independent);
    close_scene(&s);
}

static void test_independent_steps_and_tasks_overlap(void **state)
{
    (void)state;
    for (int mode = GANTRY_SUBMISSION_STREAMS; mode <= GANTRY_SUBMISSION_AUTO; mode++) {
        check_overlaps((gantry_submission)mode, true);
        check_overlaps((gantry_submission)mode, false);
    }
}

/* The kernel of the first steps stamps, that of the last but one waits for the flag. */
struct buffers {
    struct scene *scene;
    uint32_t step, waits_at;
};

static gantry_launch_result launch_second(gantry_launch *launch, void *arg)
{
    struct buffers *b = arg;
    return b->step == b->waits_at ? launch_await(launch, b->scene) : launch_node(launch, &b->scene->nodes[1]);
}

static void submit_buffers(struct buffers *b, uint32_t beside)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_taskman *manager = b->scene->on.gpu.manager;
    gantry_task *upload, *kernel;
    desc.kind = GANTRY_TASK_HTOD;
    desc.launch = launch_node;
    desc.arg = &b->scene->nodes[0];
    desc.is_independent = true;
    assert_ok(gantry_taskman_submit(manager, &desc, &upload));
    desc = (gantry_task_desc)GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch_second;
    desc.arg = b;
    assert_ok(gantry_taskman_submit(manager, &desc, &kernel));
    assert_ok(gantry_task_start_after(kernel, upload));
    for (uint32_t i = 0; i < beside; i++) { /* others, which come after the step before */
        desc.launch = launch_node;
        desc.arg = &b->scene->nodes[2 + i];
        assert_ok(gantry_taskman_submit(manager, &desc, NULL));
    }
}

/* Two buffers in turn: the upload of the last step ends while the kernel of the step before goes on; and that
 * of the step behind it, had there been one, would not. */
static void check_buffers(gantry_submission submission, uint32_t beside, bool is_frozen)
{
    struct scene s;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.submission = submission;
    open_scene(&s, &options);
    struct buffers b = {.scene = &s, .waits_at = 3};
    s.patience_ns = PATIENCE_NS;
    for (uint32_t i = 0; i < 2 + beside; i++) {
        s.nodes[i] = (struct node){.scene = &s, .index = i, .kind = GANTRY_TASK_KERNEL};
    }
    s.on.stamps.cells[0] = 1;
    for (b.step = 0; b.step < STEPS; b.step++) {
        if (!is_frozen || b.step == 0) {
            submit_buffers(&b, beside);
        }
        if (is_frozen && b.step == 0) {
            assert_ok(gantry_taskman_freeze(s.on.gpu.manager));
        }
        assert_ok(gantry_taskman_start(s.on.gpu.manager));
        assert_ok(gantry_taskman_stop(s.on.gpu.manager));
        if (!is_frozen) {
            assert_ok(gantry_taskman_reset(s.on.gpu.manager));
        }
    }
    while (__atomic_load_n(&s.on.stamps.cells[step_stamps_at(4, 0) + 1], __ATOMIC_ACQUIRE) == 0 &&
           __atomic_load_n(&s.on.stamps.cells[SEEN], __ATOMIC_ACQUIRE) == 0) {
    }
    __atomic_store_n(&s.on.stamps.cells[FLAG], 1, __ATOMIC_RELEASE);
    flush(&s, s.on.gpu.manager);
    assert_int_equal(s.on.stamps.cells[SEEN], 2);
    close_scene(&s);
}

static void test_of_two_buffers_one_is_written_while_the_other_is_read(void **state)
{
    (void)state;
    for (int mode = GANTRY_SUBMISSION_STREAMS; mode <= GANTRY_SUBMISSION_AUTO; mode++) {
        for (uint32_t beside = 0; beside < 3; beside++) {
            check_buffers((gantry_submission)mode, beside, false);
            check_buffers((gantry_submission)mode, beside, true);
        }
    }
}

/* ---- what it costs ---------------------------------------------------------------------------- */

static gantry_status run_pipelines(struct scene *s, uint32_t width, gantry_task **last)
{
    s->count = width;
    memset(&s->on.stamps.cells[RUNS_AT], 0,
           MOST * sizeof(uint32_t)); /* at worst a node stamps where it did before */
    for (uint32_t i = 0; i < width; i++) {
        s->nodes[i] = (struct node){.scene = s, .index = i, .kind = GANTRY_TASK_KERNEL};
    }
    submit_graph(s, s->on.gpu.manager, false);
    *last = s->nodes[width - 1].task;
    gantry_status status = gantry_taskman_start(s->on.gpu.manager);
    return status == GANTRY_OK ? gantry_taskman_stop(s->on.gpu.manager) : status;
}

static void test_a_step_costs_a_wait_per_stream(void **state)
{
    enum { WIDTH = 8, ROUNDS = 20 };
    struct scene s;
    gantry_task *last;
    (void)state;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    open_scene(&s, &options);
    gantry_dispatcher_stats before = gpu_fixture_stats(&s.on.gpu);
    for (int i = 0; i < ROUNDS; i++) {
        assert_ok(run_pipelines(&s, WIDTH, &last));
        assert_ok(gantry_taskman_reset(s.on.gpu.manager));
    }
    gantry_dispatcher_stats after = gpu_fixture_stats(&s.on.gpu);
    /* This joins all other streams into one, and goes back from its fence. */
    assert_true(after.wfi_edges - before.wfi_edges <= ROUNDS * 2 * (WIDTH - 1));
    flush(&s, s.on.gpu.manager);
    close_scene(&s);
}

/* Steps of one kernel, and of one replayed graph, record no event: their stream is in order anyhow. */
static void test_a_step_of_one_launch_records_nothing(void **state)
{
    enum { FIRST = 3, ROUNDS = STEPS - FIRST };
    struct gantry_emu_control emu;
    (void)state;
    for (int is_replayed = 0; is_replayed < 2; is_replayed++) {
        struct scene s;
        gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
        options.submission = is_replayed ? GANTRY_SUBMISSION_GRAPHS : GANTRY_SUBMISSION_STREAMS;
        open_scene(&s, &options);
        gantry_taskman *manager = s.on.gpu.manager;
        const bool holds = gpu_fixture_controls(&emu);
        s.count = is_replayed ? 3 : 1;
        for (uint32_t i = 0; i < s.count; i++) {
            s.nodes[i] = (struct node){.scene = &s, .index = i, .kind = GANTRY_TASK_KERNEL, .after = i != 0};
        }
        submit_graph(&s, manager, is_replayed);
        assert_ok(gantry_taskman_freeze(manager));
        assert_ok(gantry_taskman_run(manager, FIRST)); /* it is recorded by then */
        if (holds) {
            emu.hold();
        }
        const uint64_t before = holds ? emu.calls("cuEventRecord") : 0;
        assert_ok(gantry_taskman_run(manager, ROUNDS));
        if (holds) {
            assert_int_equal(emu.calls("cuEventRecord"), before);
            emu.release();
        }
        flush(&s, manager);
        for (uint32_t step = 1; step < STEPS; step++) {
            assert_true(s.on.stamps.cells[step_stamps_at(step, 0)] >
                        s.on.stamps.cells[step_stamps_at(step - 1, s.count - 1) + 1]);
        }
        close_scene(&s);
    }
}

/* What is submitted while a step runs comes after the step before, too, on whatever stream; be the graph
 * frozen, so that its only task was all of the step when it was called, or built anew. */
static void check_late_order(bool is_frozen)
{
    struct scene s;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    open_scene(&s, &options);
    gantry_taskman *manager = s.on.gpu.manager;
    s.count = 2;
    for (uint32_t step = 0; step < 2; step++) {
        for (uint32_t i = 0; i < 2; i++) {
            gantry_task *task = s.nodes[i].task;
            s.nodes[i] = (struct node){.scene = &s,
                                       .index = i,
                                       .kind = GANTRY_TASK_KERNEL,
                                       .least_ns = step == 0 && i == 1 ? VERY_LONG_NS : 0,
                                       .task = task};
        }
        if (step == 0 || !is_frozen) {
            submit_node(&s, manager, &s.nodes[0], false);
        }
        if (step == 0 && is_frozen) {
            assert_ok(gantry_taskman_freeze(manager));
        }
        assert_ok(gantry_taskman_start(manager));
        deadline_await(gantry_task_get_state(s.nodes[0].task) == GANTRY_TASK_STATE_DONE, "the first task");
        submit_node(&s, manager, &s.nodes[1], false);
        assert_ok(gantry_task_remove_reference(s.nodes[1].task));
        assert_ok(gantry_taskman_stop(manager));
        if (!is_frozen) {
            assert_ok(gantry_taskman_reset(manager));
        }
    }
    flush(&s, manager);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(s.on.stamps.cells[step_stamps_at(1, i)] > s.on.stamps.cells[step_stamps_at(0, 1) + 1]);
    }
    close_scene(&s);
}

static void test_what_is_submitted_late_comes_after_the_step_before(void **state)
{
    (void)state;
    check_late_order(false);
    check_late_order(true);
}

/* The first task of a step comes after the step before, which lasts, and then waits for the flag.  What is
 * submitted late does not wait for that task: it had no other beside it only when it was called. */
static void test_what_is_submitted_late_runs_beside_the_first(void **state)
{
    struct scene s;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    (void)state;
    options.submission = GANTRY_SUBMISSION_STREAMS; /* a kernel that waits for the host may hold up a graph */
    open_scene(&s, &options);
    gantry_taskman *manager = s.on.gpu.manager;
    s.on.stamps.cells[0] = 1;
    for (uint32_t i = 0; i < 2; i++) {
        s.nodes[i] =
            (struct node){.scene = &s, .index = i, .kind = GANTRY_TASK_KERNEL, .least_ns = VERY_LONG_NS};
    }
    submit_node(&s, manager, &s.nodes[0], false);
    assert_ok(gantry_taskman_start(manager));
    assert_ok(gantry_taskman_stop(manager));
    assert_ok(gantry_taskman_reset(manager));
    s.nodes[1].least_ns = 0;
    s.patience_ns = PATIENCE_NS;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *first;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch_await;
    desc.arg = &s;
    assert_ok(gantry_taskman_submit(manager, &desc, &first));
    assert_ok(gantry_taskman_start(manager));
    deadline_await(gantry_task_get_state(first) == GANTRY_TASK_STATE_DONE, "the first task");
    submit_node(&s, manager, &s.nodes[1], false);
    assert_ok(gantry_task_remove_reference(s.nodes[1].task));
    deadline_await(__atomic_load_n(&s.on.stamps.cells[step_stamps_at(0, 1) + 1], __ATOMIC_ACQUIRE) != 0,
                   "what was submitted late");
    __atomic_store_n(&s.on.stamps.cells[FLAG], 1, __ATOMIC_RELEASE);
    assert_ok(gantry_taskman_stop(manager));
    flush(&s, manager);
    assert_int_equal(s.on.stamps.cells[SEEN], 2);
    close_scene(&s);
}

static void test_what_has_finished_is_not_waited_for(void **state)
{
    struct scene s;
    (void)state;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.submission = GANTRY_SUBMISSION_STREAMS; /* a graph is waited for as a whole, and counts */
    open_scene(&s, &options);
    for (int i = 0; i < 10; i++) {
        flush(&s, s.on.gpu.manager); /* the host hears of its end */
    }
    assert_int_equal(gpu_fixture_stats(&s.on.gpu).wfi_edges, 0);
    close_scene(&s);
}

static void test_only_gpu_tasks_are_independent(void **state)
{
    struct scene s;
    (void)state;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    open_scene(&s, &options);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = run_nothing;
    desc.is_independent = true;
    assert_int_equal(gantry_taskman_submit(s.on.gpu.manager, &desc, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "independent"));
    close_scene(&s);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--graphs") == 0) {
        series_wanted = (uint32_t)strtoul(argv[2], NULL, 10);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_steps_keep_their_order),
        cmocka_unit_test(test_few_streams_and_sync_points_keep_the_order),
        cmocka_unit_test(test_a_step_waits_for_all_streams_of_the_step_before),
        cmocka_unit_test(test_independent_steps_and_tasks_overlap),
        cmocka_unit_test(test_of_two_buffers_one_is_written_while_the_other_is_read),
        cmocka_unit_test(test_a_step_costs_a_wait_per_stream),
        cmocka_unit_test(test_a_step_of_one_launch_records_nothing),
        cmocka_unit_test(test_what_is_submitted_late_comes_after_the_step_before),
        cmocka_unit_test(test_what_is_submitted_late_runs_beside_the_first),
        cmocka_unit_test(test_what_has_finished_is_not_waited_for),
        cmocka_unit_test(test_only_gpu_tasks_are_independent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
