/* SPDX-License-Identifier: MIT */
/* gantry_task_start_after_done(): a CPU task that reads data of the GPU finds it written, in every
 * submission mode, frozen or not, although the callbacks do nothing for it.  `--graphs N` sets how many
 * random graphs there are. */
#include "tests/dispatcher/step_stamps.h"
#include "tests/support/cmocka_c11.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LONG_NS UINT64_C(3000000)

static uint32_t graphs_wanted = 60;

struct scene;

struct node {
    struct scene *scene;
    uint32_t index;
    gantry_task_kind kind;
    gantry_task *task;
    uint64_t after, after_done; /* bit i: starts after node i; all are older */
    uint64_t done;              /* the GPU nodes that the GPU has done when this one starts */
    uint64_t least_ns;
    bool fails;
    _Atomic(uint32_t) ran;
};

struct scene {
    struct step_stamps on;
    uint32_t step; /* written between steps */
    uint32_t count;
    _Atomic(uint32_t) early; /* how many CPU tasks ran before the GPU had done the work they wait for */
    struct node nodes[MOST];
};

static void open_scene(struct scene *s, const gantry_context_options *options)
{
    memset(s, 0, sizeof(*s));
    step_stamps_open(&s->on, options, 0);
}

static void close_scene(struct scene *s)
{
    step_stamps_close(&s->on);
    assert_int_equal(atomic_load(&s->early), 0);
}

static gantry_launch_result launch_node(gantry_launch *launch, void *arg)
{
    struct node *node = arg;
    atomic_fetch_add(&node->ran, 1);
    return node->fails ? GANTRY_LAUNCH_FAILED
                       : step_stamps_launch(&node->scene->on, launch, node->index, node->least_ns);
}

static uint32_t ended_at(struct scene *s, uint32_t step, uint32_t index)
{
    return __atomic_load_n(&s->on.stamps.cells[step_stamps_at(step, index) + 1], __ATOMIC_ACQUIRE);
}

static gantry_status run_node(gantry_task *task, void *arg)
{
    struct node *node = arg;
    (void)task;
    for (uint64_t left = node->done; left != 0; left &= left - 1) {
        bool ended = ended_at(node->scene, node->scene->step % STEPS, (uint32_t)__builtin_ctzll(left)) != 0;
        atomic_fetch_add(&node->scene->early, !ended);
    }
    atomic_fetch_add(&node->ran, 1);
    return GANTRY_OK;
}

/* Make the next node, which is not submitted yet. */
static struct node *add(struct scene *s, gantry_task_kind kind)
{
    struct node *node = &s->nodes[s->count];
    *node = (struct node){.scene = s, .index = s->count++, .kind = kind};
    return node;
}

static uint64_t bit(const struct node *node)
{
    return UINT64_C(1) << node->index;
}

/* The nodes that the GPU has done when a node starts: by edges that wait for them, and by the waits of older
 * CPU nodes and sync points. */
static void find_done(struct scene *s, struct node *node)
{
    node->done = 0;
    for (uint64_t left = node->after | node->after_done; left != 0; left &= left - 1) {
        const struct node *before = &s->nodes[__builtin_ctzll(left)];
        bool waits = (node->after_done & bit(before)) != 0 && node->kind < GANTRY_TASK_HTOD;
        node->done |= before->done;
        node->done |= waits && before->kind >= GANTRY_TASK_HTOD ? bit(before) : 0;
        for (uint64_t more = waits && before->kind == GANTRY_TASK_SYNC_POINT ? before->after : 0; more != 0;
             more &= more - 1) {
            const struct node *joined = &s->nodes[__builtin_ctzll(more)];
            node->done |= joined->kind >= GANTRY_TASK_HTOD ? bit(joined) : 0;
        }
    }
}

static void submit(struct scene *s, bool is_stable)
{
    for (uint32_t i = 0; i < s->count; i++) {
        struct node *node = &s->nodes[i];
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.kind = node->kind;
        desc.label = "node";
        desc.run = node->kind == GANTRY_TASK_CPU ? run_node : NULL;
        desc.launch = node->kind >= GANTRY_TASK_HTOD ? launch_node : NULL;
        desc.arg = node;
        desc.is_stable = is_stable && desc.launch != NULL;
        assert_ok(gantry_taskman_submit(s->on.gpu.manager, &desc, &node->task));
        for (uint64_t left = node->after; left != 0; left &= left - 1) {
            assert_ok(gantry_task_start_after(node->task, s->nodes[__builtin_ctzll(left)].task));
        }
        for (uint64_t left = node->after_done; left != 0; left &= left - 1) {
            assert_ok(gantry_task_start_after_done(node->task, s->nodes[__builtin_ctzll(left)].task));
        }
        find_done(s, node);
    }
}

static gantry_status run_step(struct scene *s)
{
    gantry_status status = gantry_taskman_start(s->on.gpu.manager);
    return status == GANTRY_OK ? gantry_taskman_stop(s->on.gpu.manager) : status;
}

/* Run so many steps of the graph's nodes. */
static void run_steps(struct scene *s, bool is_frozen, bool is_stable)
{
    memset(s->on.stamps.cells, 0, STEP_CELLS * sizeof(uint32_t));
    s->on.stamps.cells[0] = 1;
    for (s->step = 0; s->step < STEPS; s->step++) {
        if (s->step == 0 || !is_frozen) {
            submit(s, is_stable);
        }
        if (s->step == 0 && is_frozen) {
            assert_ok(gantry_taskman_freeze(s->on.gpu.manager));
        }
        assert_ok(run_step(s));
        if (!is_frozen) {
            assert_ok(gantry_taskman_reset(s->on.gpu.manager));
        }
    }
    assert_ok(gantry_taskman_reset(s->on.gpu.manager));
}

/* ---- random graphs ---------------------------------------------------------------------------- */

static void draw_graph(struct scene *s)
{
    s->count = 0;
    for (uint32_t left = 2 + step_stamps_draw(&s->on, MOST - 3); left != 0; left--) {
        struct node *node =
            add(s, (gantry_task_kind)(step_stamps_draw(&s->on, 2) == 0 ? step_stamps_draw(&s->on, 2)
                                                                       : 2 + step_stamps_draw(&s->on, 3)));
        node->least_ns = step_stamps_draw(&s->on, 8) == 0 ? LONG_NS / 10 : 0;
        for (uint32_t edges = step_stamps_draw(&s->on, 4); edges != 0 && node->index != 0; edges--) {
            const struct node *before = &s->nodes[step_stamps_draw(&s->on, node->index)];
            bool may_wait = before->kind != GANTRY_TASK_CPU && step_stamps_draw(&s->on, 3) != 0;
            *(may_wait ? &node->after_done : &node->after) |= bit(before);
        }
    }
    struct node *last = add(s, GANTRY_TASK_CPU); /* so that a step leaves nothing behind */
    for (uint32_t i = 0; i + 1 < s->count; i++) {
        *(s->nodes[i].kind != GANTRY_TASK_CPU ? &last->after_done : &last->after) |= UINT64_C(1) << i;
    }
}

static void random_graphs(const gantry_context_options *options, uint32_t graphs)
{
    struct scene s;
    open_scene(&s, options);
    for (uint32_t seed = 1; seed <= graphs; seed++) {
        s.on.random = seed;
        draw_graph(&s);
        run_steps(&s, seed % 3 != 0, seed % 3 == 1);
        for (uint32_t i = 0; i < s.count; i++) {
            bool is_called = s.nodes[i].kind != GANTRY_TASK_SYNC_POINT && seed % 3 != 1;
            assert_true(!is_called || atomic_load(&s.nodes[i].ran) == STEPS);
        }
        assert_int_equal(atomic_load(&s.early), 0);
    }
    close_scene(&s);
}

static void test_random_graphs(void **state)
{
    (void)state;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    for (int mode = GANTRY_SUBMISSION_STREAMS; mode <= GANTRY_SUBMISSION_AUTO; mode++) {
        options.submission = (gantry_submission)mode;
        random_graphs(&options, graphs_wanted);
    }
}

static void test_random_graphs_in_other_modes(void **state)
{
    (void)state;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.completion_wait = GANTRY_WAIT_BLOCK;
    options.stream_limit = 2;
    random_graphs(&options, graphs_wanted / 4);
    options.wfi = GANTRY_WFI_DEVICE_WIDE;
    options.completion_wait = GANTRY_WAIT_SPIN;
    random_graphs(&options, graphs_wanted / 4);
}

/* ---- chosen graphs ---------------------------------------------------------------------------- */

/* Long kernels are on streams of their own; a CPU task comes behind each, and one behind a sync point of
 * all. */
static void test_a_cpu_task_sees_what_long_kernels_wrote(void **state)
{
    (void)state;
    for (int mode = GANTRY_SUBMISSION_STREAMS; mode <= GANTRY_SUBMISSION_AUTO; mode++) {
        struct scene s;
        gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
        options.submission = (gantry_submission)mode;
        open_scene(&s, &options);
        struct node *sync = add(&s, GANTRY_TASK_SYNC_POINT);
        (void)sync;
        for (uint32_t i = 0; i < 3; i++) {
            add(&s, GANTRY_TASK_KERNEL)->least_ns = LONG_NS;
        }
        struct node *join = add(&s, GANTRY_TASK_SYNC_POINT);
        join->after = 7u << 1;
        add(&s, GANTRY_TASK_CPU)->after_done = bit(join);
        add(&s, GANTRY_TASK_CPU)->after_done = 1u << 2;
        run_steps(&s, false, false);
        run_steps(&s, true, true);
        close_scene(&s);
    }
}

static void test_a_failed_task_fails_tasks_that_wait_for_it(void **state)
{
    struct scene s;
    (void)state;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    open_scene(&s, &options);
    struct node *kernel = add(&s, GANTRY_TASK_KERNEL);
    kernel->fails = true;
    struct node *cpu = add(&s, GANTRY_TASK_CPU);
    cpu->after_done = bit(kernel);
    submit(&s, false);
    assert_int_not_equal(run_step(&s), GANTRY_OK);
    assert_int_equal(gantry_task_get_state(cpu->task), GANTRY_TASK_STATE_FAILED);
    assert_int_equal(atomic_load(&cpu->ran), 0);
    assert_ok(gantry_taskman_reset(s.on.gpu.manager));
    close_scene(&s);
}

static void test_a_lost_device_fails_work_that_waits_for_it(void **state)
{
    struct scene s;
    (void)state;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    open_scene(&s, &options);
    struct node *kernel = add(&s, GANTRY_TASK_KERNEL);
    kernel->least_ns = 20 * LONG_NS;
    struct node *cpu = add(&s, GANTRY_TASK_CPU);
    cpu->after_done = bit(kernel);
    submit(&s, false);
    assert_ok(gantry_taskman_start(s.on.gpu.manager));
    while (atomic_load(&kernel->ran) == 0) {
    }
    gantry_dispatcher_force_failure(gantry_context_dispatcher(s.on.gpu.context));
    assert_int_equal(gantry_taskman_stop(s.on.gpu.manager), GANTRY_ERR_DEVICE_LOST);
    /* The GPU may have done it just before. */
    bool has_run = atomic_load(&cpu->ran) != 0;
    assert_int_equal(gantry_task_get_state(cpu->task),
                     has_run ? GANTRY_TASK_STATE_DONE : GANTRY_TASK_STATE_FAILED);
    assert_ok(gantry_taskman_reset(s.on.gpu.manager));
    close_scene(&s);
}

/* The name is filled after the edge was declared. */
static void test_a_name_may_be_waited_for_before_it_is_submitted(void **state)
{
    struct scene s;
    (void)state;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    open_scene(&s, &options);
    gantry_taskman *manager = s.on.gpu.manager;
    const gantry_task_kind kinds[] = {GANTRY_TASK_CPU, GANTRY_TASK_SYNC_POINT, GANTRY_TASK_KERNEL};
    for (int i = 0; i < 3; i++) {
        const gantry_task_kind kind = kinds[i];
        s.count = 0;
        struct node *kernel = add(&s, GANTRY_TASK_KERNEL), *cpu = add(&s, GANTRY_TASK_CPU);
        kernel->least_ns = LONG_NS;
        cpu->done = kind == GANTRY_TASK_KERNEL ? bit(kernel) : 0;
        memset(s.on.stamps.cells, 0, STEP_CELLS * sizeof(uint32_t));
        gantry_task *named, *waits;
        assert_ok(gantry_taskman_get_named(manager, "named", &named));
        gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
        desc.run = run_node;
        desc.arg = cpu;
        assert_ok(gantry_taskman_submit(manager, &desc, &waits));
        assert_ok(gantry_task_start_after_done(waits, named));
        desc.name = "named";
        desc.kind = kind;
        desc.run = kind == GANTRY_TASK_CPU ? run_node : NULL;
        desc.launch = kind == GANTRY_TASK_KERNEL ? launch_node : NULL;
        desc.arg = kind == GANTRY_TASK_KERNEL ? kernel : cpu;
        gantry_status status = gantry_taskman_submit(manager, &desc, NULL);
        assert_int_equal(status, kind == GANTRY_TASK_CPU ? GANTRY_ERR_INVALID_ARGUMENT : GANTRY_OK);
        if (status == GANTRY_OK) {
            assert_ok(run_step(&s));
            assert_int_equal(atomic_load(&cpu->ran), 1);
        }
        assert_ok(gantry_taskman_reset(manager));
    }
    close_scene(&s);
}

/* ---- conditions ------------------------------------------------------------------------------- */

struct loop {
    struct scene *s;
    struct node *kernel;
    uint32_t turns;
    _Atomic(uint32_t) early;
};

static gantry_status decide(gantry_task *task, void *arg)
{
    struct loop *loop = arg;
    uint32_t runs =
        __atomic_load_n(&loop->s->on.stamps.cells[RUNS_AT + loop->kernel->index], __ATOMIC_ACQUIRE);
    loop->turns++;
    atomic_fetch_add(&loop->early, runs != loop->turns || ended_at(loop->s, loop->turns - 1, 0) == 0);
    return gantry_task_choose(task, loop->turns < STEPS ? 0 : 1);
}

static void test_a_loop_reads_what_its_turn_wrote(void **state)
{
    struct scene s;
    (void)state;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    open_scene(&s, &options);
    struct loop loop = {.s = &s, .kernel = add(&s, GANTRY_TASK_KERNEL)};
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *begin, *kernel, *condition, *end;
    loop.kernel->least_ns = 4 * LONG_NS;
    desc.kind = GANTRY_TASK_SYNC_POINT;
    assert_ok(gantry_taskman_submit(s.on.gpu.manager, &desc, &begin));
    assert_ok(gantry_taskman_submit(s.on.gpu.manager, &desc, &end));
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = launch_node;
    desc.arg = loop.kernel;
    assert_ok(gantry_taskman_submit(s.on.gpu.manager, &desc, &kernel));
    desc = (gantry_task_desc)GANTRY_TASK_DESC_INIT;
    desc.run = decide;
    desc.arg = &loop;
    desc.is_condition = true;
    assert_ok(gantry_taskman_submit(s.on.gpu.manager, &desc, &condition));
    assert_ok(gantry_task_start_after(kernel, begin));
    assert_ok(gantry_task_start_after_done(condition, kernel));
    assert_ok(gantry_task_start_after(kernel, condition));
    assert_ok(gantry_task_start_after(end, condition));
    assert_ok(gantry_taskman_freeze(s.on.gpu.manager));
    assert_ok(run_step(&s));
    assert_int_equal(loop.turns, STEPS);
    assert_int_equal(atomic_load(&loop.early), 0);
    assert_ok(gantry_taskman_reset(s.on.gpu.manager));
    close_scene(&s);
}

/* ---- what is refused -------------------------------------------------------------------------- */

static gantry_task *submit_kind(struct scene *s, gantry_task_kind kind)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    desc.kind = kind;
    desc.run = kind == GANTRY_TASK_CPU ? run_node : NULL;
    desc.arg = &s->nodes[0];
    s->nodes[0].scene = s;
    assert_ok(gantry_taskman_submit(s->on.gpu.manager, &desc, &task));
    return task;
}

static void test_what_cannot_be_waited_for_is_refused(void **state)
{
    struct scene s;
    (void)state;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    open_scene(&s, &options);
    gantry_taskman *manager = s.on.gpu.manager;
    gantry_task *one = submit_kind(&s, GANTRY_TASK_CPU), *two = submit_kind(&s, GANTRY_TASK_CPU);
    assert_int_equal(gantry_task_start_after_done(two, one), GANTRY_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(gantry_last_error(), "CPU task"));
    assert_int_equal(gantry_task_start_after_done(two, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    assert_int_equal(gantry_task_start_after_done(two, two), GANTRY_ERR_INVALID_ARGUMENT);
    gantry_task *sync = submit_kind(&s, GANTRY_TASK_SYNC_POINT);
    assert_ok(gantry_task_add_reference(one));
    assert_ok(gantry_task_start_after(sync, one));
    assert_ok(gantry_taskman_start(manager));
    gantry_task *late = submit_kind(&s, GANTRY_TASK_CPU);
    assert_int_equal(gantry_task_start_after_done(late, sync), GANTRY_ERR_STATE);
    assert_ok(gantry_task_remove_reference(late));
    assert_ok(gantry_task_remove_reference(one));
    assert_ok(gantry_taskman_stop(manager));
    assert_ok(gantry_taskman_reset(manager));
    close_scene(&s);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--graphs") == 0) {
        graphs_wanted = (uint32_t)strtoul(argv[2], NULL, 10);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_random_graphs_in_other_modes),
        cmocka_unit_test(test_a_cpu_task_sees_what_long_kernels_wrote),
        cmocka_unit_test(test_a_failed_task_fails_tasks_that_wait_for_it),
        cmocka_unit_test(test_a_lost_device_fails_work_that_waits_for_it),
        cmocka_unit_test(test_a_name_may_be_waited_for_before_it_is_submitted),
        cmocka_unit_test(test_a_loop_reads_what_its_turn_wrote),
        cmocka_unit_test(test_what_cannot_be_waited_for_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
