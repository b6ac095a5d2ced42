/* SPDX-License-Identifier: MIT */
/* Random steps with kernels that look at memory until the host has seen another task's end: none is held up
 * by a task that has nothing to do with it.  A task waits for what it comes after, and for nothing else: on
 * streams and in graphs, with a plan of partitions and without, beside a second manager.
 *
 * `--steps N` random steps of each kind from `--seed S` on; `--kind K` of one kind only; `--group G` of them
 * in one context.  A step that fails says how it is run alone, or with those before it. */
#include "tests/dispatcher/stamps.h"
#include "tests/partition/plan_support.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include "order_kernels.kernels.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A kernel gives up after that long: the step is wrong, and nothing hangs. */
#define PATIENCE_NS UINT64_C(6000000000)

enum { MOST_NODES = 20, MOST_HOLDERS = 2, PARTITIONS = 3, MANAGERS = 2 };

/* Cells: the clock, one that nobody reads, two of each node, two of each holder. */
enum {
    SCRATCH = 1,
    STAMPS_FROM = 2,
    FLAGS_FROM = STAMPS_FROM + 2 * MANAGERS * MOST_NODES,
    CELLS = FLAGS_FROM + 2 * MOST_HOLDERS
};

struct scene;

enum role { ROLE_WORKS, ROLE_HOLDS, ROLE_CPU, ROLE_RELEASES };

struct node {
    struct scene *scene;
    gantry_task *task;
    gantry_task_kind kind;
    enum role role;
    uint32_t manager;
    uint32_t stamp;     /* the cell of its begin; the next one is that of its end */
    uint32_t flag;      /* HOLDS, RELEASES: the cell */
    uint32_t calls;     /* a kernel each */
    uint32_t partition; /* PARTITIONS: none is named */
    bool leaves;        /* the graph, before its first call */
    uint64_t after;     /* bit i: node i, which is older */
    uint64_t after_done;
    uint64_t completes; /* bit i: node i waits for its completion */
};

/* A kind of scene. */
struct kind {
    gantry_submission submission;
    bool is_planned;
    bool has_other; /* a second manager's step is open beside */
};

struct scene {
    struct gpu_fixture gpu;
    struct stamps stamps;
    gantry_kernel *await;
    gantry_taskman *managers[MANAGERS];
    struct kind kind;
    uint64_t random;
    uint32_t count;
    struct node nodes[2 * MOST_NODES];
};

static const struct kind kinds[] = {
    {GANTRY_SUBMISSION_STREAMS, false, false}, {GANTRY_SUBMISSION_GRAPHS, false, false},
    {GANTRY_SUBMISSION_AUTO, false, false},    {GANTRY_SUBMISSION_STREAMS, true, false},
    {GANTRY_SUBMISSION_GRAPHS, true, false},   {GANTRY_SUBMISSION_AUTO, true, false},
    {GANTRY_SUBMISSION_STREAMS, false, true},  {GANTRY_SUBMISSION_GRAPHS, false, true},
    {GANTRY_SUBMISSION_AUTO, false, true},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static uint32_t steps_wanted = 150, seed_wanted = 1, kind_wanted = KINDS, group_wanted = 16;

static uint32_t draw(struct scene *s, uint32_t below)
{
    s->random = s->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(s->random >> 33) % below;
}

/* ---- the tasks ------------------------------------------------------------------------------- */

static gantry_launch_result launch(gantry_launch *launch, void *arg)
{
    struct node *node = arg;
    struct scene *s = node->scene;
    const uint64_t index = gantry_launch_index(launch);
    if (index == 0 && node->leaves && gantry_launch_leave_graph(launch) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    if (stamps_launch(&s->stamps, launch, index == 0 ? node->stamp : SCRATCH, node->stamp + 1, 0) !=
        GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    if (index + 1 < node->calls) {
        return GANTRY_LAUNCH_AGAIN;
    }
    if (node->role == ROLE_HOLDS &&
        stamps_await(&s->stamps, launch, s->await, node->flag, PATIENCE_NS) != GANTRY_LAUNCH_DONE) {
        return GANTRY_LAUNCH_FAILED;
    }
    for (uint64_t left = node->completes; left != 0; left &= left - 1) {
        if (gantry_launch_add_completion(launch, s->nodes[__builtin_ctzll(left)].task) != GANTRY_OK) {
            return GANTRY_LAUNCH_FAILED;
        }
    }
    return GANTRY_LAUNCH_DONE;
}

static gantry_status run(gantry_task *task, void *arg)
{
    const struct node *node = arg;
    (void)task;
    if (node->role == ROLE_RELEASES) {
        __atomic_store_n(&node->scene->stamps.cells[node->flag], 1, __ATOMIC_RELEASE);
    }
    return GANTRY_OK;
}

/* ---- a random step --------------------------------------------------------------------------- */

static bool is_gpu(const struct node *node)
{
    return node->role == ROLE_WORKS || node->role == ROLE_HOLDS;
}

static void draw_node(struct scene *s, uint32_t index, uint32_t manager, uint32_t first)
{
    struct node *node = &s->nodes[index];
    *node = (struct node){.scene = s, .manager = manager, .calls = 1, .partition = PARTITIONS};
    node->role = draw(s, 4) == 0 ? ROLE_CPU : ROLE_WORKS;
    node->kind = is_gpu(node) ? (gantry_task_kind)(GANTRY_TASK_HTOD + draw(s, 3)) : GANTRY_TASK_CPU;
    node->stamp = STAMPS_FROM + 2 * index;
    if (is_gpu(node)) {
        node->calls += draw(s, 8) == 0;
        node->leaves = draw(s, 16) == 0;
        node->partition = s->kind.is_planned ? draw(s, PARTITIONS + 1) : PARTITIONS;
    }
    for (uint32_t edges = draw(s, 4); edges != 0 && index != first; edges--) {
        const uint32_t before = first + draw(s, index - first);
        const uint64_t bit = UINT64_C(1) << before;
        const bool may_wait = !is_gpu(node) && is_gpu(&s->nodes[before]);
        const uint32_t how = may_wait ? draw(s, 3) : 0;
        node->after |= bit;
        node->after_done |= how == 1 ? bit : 0;
        s->nodes[before].completes |= how == 2 ? UINT64_C(1) << index : 0;
    }
}

/* The node, and what comes before it: by edges, and through holders that their releasers let go. */
static uint64_t all_before(const struct scene *s, uint32_t index)
{
    uint64_t all = UINT64_C(1) << index, seen = 0;
    while (all != seen) {
        const uint64_t more = all & ~seen;
        seen = all;
        for (uint64_t left = more; left != 0; left &= left - 1) {
            const uint32_t i = (uint32_t)__builtin_ctzll(left);
            all |= s->nodes[i].after;
            for (uint32_t r = 0; s->nodes[i].role == ROLE_HOLDS && r < s->count; r++) {
                if (s->nodes[r].role == ROLE_RELEASES && s->nodes[r].flag == s->nodes[i].flag) {
                    all |= UINT64_C(1) << r | s->nodes[r].after;
                }
            }
        }
    }
    return all;
}

/* Some GPU task holds its stream up until the host has seen some others end: those may not come after it,
 * nor after a holder that waits for it in turn. */
static void draw_holder(struct scene *s, uint32_t number, uint32_t first, uint32_t count, uint32_t manager)
{
    const uint32_t at = first + draw(s, count);
    struct node *holder = &s->nodes[at];
    if (holder->role != ROLE_WORKS) {
        return;
    }
    struct node *releaser = &s->nodes[s->count];
    *releaser = (struct node){.scene = s, .manager = manager, .role = ROLE_RELEASES, .partition = PARTITIONS};
    releaser->flag = FLAGS_FROM + 2 * number;
    for (uint32_t tries = 1 + draw(s, 3); tries != 0; tries--) {
        const uint32_t i = first + draw(s, count);
        if ((all_before(s, i) >> at & 1u) == 0) {
            releaser->after |= UINT64_C(1) << i;
            if (is_gpu(&s->nodes[i])) {
                releaser->after_done |= draw(s, 2) == 0 ? UINT64_C(1) << i : 0;
            }
        }
    }
    for (uint64_t left = releaser->after & ~releaser->after_done; left != 0; left &= left - 1) {
        struct node *before = &s->nodes[__builtin_ctzll(left)];
        before->completes |= is_gpu(before) ? UINT64_C(1) << s->count : 0;
    }
    holder->role = ROLE_HOLDS;
    holder->flag = releaser->flag;
    s->count++;
}

static void submit_as(struct scene *s, struct node *node, gantry_launch_fn call, gantry_task_fn body)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = node->kind;
    desc.label = node->role == ROLE_HOLDS ? "holder" : node->role == ROLE_RELEASES ? "releaser" : "node";
    desc.launch = is_gpu(node) ? call : NULL;
    desc.run = is_gpu(node) ? NULL : body;
    desc.arg = node;
    desc.partition =
        node->partition < PARTITIONS ? gantry_partition_at(s->gpu.context, node->partition) : NULL;
    assert_ok(gantry_taskman_submit(s->managers[node->manager], &desc, &node->task));
    for (uint64_t left = node->after; left != 0; left &= left - 1) {
        const uint32_t i = (uint32_t)__builtin_ctzll(left);
        const bool when_done = (node->after_done >> i & 1u) != 0;
        assert_ok(when_done ? gantry_task_start_after_done(node->task, s->nodes[i].task)
                            : gantry_task_start_after(node->task, s->nodes[i].task));
    }
}

static void submit(struct scene *s, struct node *node)
{
    submit_as(s, node, launch, run);
}

static void draw_step(struct scene *s)
{
    s->count = 0;
    memset(s->stamps.cells, 0, CELLS * sizeof(uint32_t));
    s->stamps.cells[0] = 1;
    for (uint32_t m = 0; m < (s->kind.has_other ? MANAGERS : 1); m++) {
        const uint32_t first = s->count, count = 3 + draw(s, MOST_NODES - MOST_HOLDERS - 2);
        for (uint32_t i = 0; i < count; i++) {
            draw_node(s, s->count++, m, first);
        }
        const uint32_t holders = m == 0 ? MOST_HOLDERS : 0;
        for (uint32_t h = 0; h < holders; h++) {
            draw_holder(s, h, first, count, m);
        }
    }
    for (uint32_t i = 0; i < s->count; i++) {
        submit(s, &s->nodes[i]);
    }
}

/* ---- what came of it -------------------------------------------------------------------------- */

static void print_step(const struct scene *s)
{
    static const char *const roles[] = {"works", "holds", "cpu", "releases"};
    for (uint32_t i = 0; i < s->count; i++) {
        const struct node *node = &s->nodes[i];
        print_message("  %2u manager %u %-8s kind %d calls %u%s partition %u flag %u begin %u end %u after",
                      i, node->manager, roles[node->role], (int)node->kind, node->calls,
                      node->leaves ? " leaves" : "", node->partition, node->flag,
                      is_gpu(node) ? s->stamps.cells[node->stamp] : 0,
                      is_gpu(node) ? s->stamps.cells[node->stamp + 1] : 0);
        for (uint64_t left = node->after; left != 0; left &= left - 1) {
            const uint32_t b = (uint32_t)__builtin_ctzll(left);
            print_message(" %u%s%s", b, (node->after_done >> b & 1u) != 0 ? " (done)" : "",
                          (s->nodes[b].completes >> i & 1u) != 0 ? " (completion)" : "");
        }
        print_message("\n");
    }
}

/* `first`: the seed of the first step in this context. */
static void check_step(const struct scene *s, uint32_t kind, uint32_t seed, uint32_t first)
{
    const char *wrong = NULL;
    for (uint32_t i = 0; i < s->count && wrong == NULL; i++) {
        const struct node *node = &s->nodes[i];
        if (node->role == ROLE_HOLDS && s->stamps.cells[node->flag + 1] != 2) {
            wrong = "was held up";
        }
        for (uint64_t left = is_gpu(node) ? node->after : 0; left != 0 && wrong == NULL; left &= left - 1) {
            const struct node *before = &s->nodes[__builtin_ctzll(left)];
            if (is_gpu(before) && s->stamps.cells[before->stamp + 1] > s->stamps.cells[node->stamp]) {
                wrong = "began before what it comes after had ended";
            }
        }
        if (wrong != NULL) {
            print_step(s);
            fail_msg(
                "node %u %s; again: test_dispatcher_host_waits --kind %u --seed %u --steps 1, with those "
                "before it --seed %u --steps %u --group %u",
                i, wrong, kind, seed, first, seed + 1 - first, group_wanted);
        }
    }
}

static void run_step(struct scene *s)
{
    const uint32_t managers = s->kind.has_other ? MANAGERS : 1;
    for (uint32_t m = 0; m < managers; m++) {
        assert_ok(gantry_taskman_start(s->managers[m]));
    }
    for (uint32_t m = 0; m < managers; m++) {
        assert_ok(gantry_taskman_stop(s->managers[m]));
    }
    assert_ok(gantry_context_synchronize(s->gpu.context));
    for (uint32_t m = 0; m < managers; m++) {
        assert_ok(gantry_taskman_reset(s->managers[m]));
    }
}

/* ---- scenes ----------------------------------------------------------------------------------- */

static void open_scene(struct scene *s, const struct kind *kind)
{
    gantry_partition_request requests[] = {request("a", GANTRY_PARTITION_AT_LEAST, 16),
                                           request("b", GANTRY_PARTITION_AT_LEAST, 16),
                                           request("c", GANTRY_PARTITION_REST, 0)};
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    memset(s, 0, sizeof(*s));
    s->kind = *kind;
    plan.requests = requests;
    plan.count = PARTITIONS;
    options.driver = gpu_fixture_driver();
    options.submission = kind->submission;
    options.stream_limit = 64;
    options.partitions = kind->is_planned ? &plan : NULL;
    gpu_fixture_open_with(&s->gpu, 2, &options);
    stamps_open(&s->stamps, s->gpu.context, CELLS * sizeof(uint32_t));
    gantry_module *module;
    assert_ok(gantry_module_load(s->gpu.context, &gantry_image_order_kernels, &module));
    assert_ok(gantry_module_get_kernel(module, "await_flag", &s->await));
    manager.cpu_dispatcher = s->gpu.cpus;
    manager.gpu_dispatcher = gantry_context_dispatcher(s->gpu.context);
    s->managers[0] = s->gpu.manager;
    assert_ok(gantry_taskman_create(&manager, &s->managers[1]));
}

static void close_scene(struct scene *s)
{
    gantry_taskman_destroy(s->managers[1]);
    assert_ok(gantry_context_synchronize(s->gpu.context));
    stamps_close(&s->stamps);
    gpu_fixture_close(&s->gpu);
}

/* Kernels that were never launched are loaded at their first launch, which may wait for others. */
static void load_kernels(struct scene *s)
{
    s->nodes[0] = (struct node){.scene = s,
                                .kind = GANTRY_TASK_KERNEL,
                                .role = ROLE_HOLDS,
                                .calls = 1,
                                .partition = PARTITIONS,
                                .stamp = STAMPS_FROM,
                                .flag = FLAGS_FROM};
    s->count = 1;
    memset(s->stamps.cells, 0, CELLS * sizeof(uint32_t));
    s->stamps.cells[0] = s->stamps.cells[FLAGS_FROM] = 1;
    submit(s, &s->nodes[0]);
    assert_ok(gantry_taskman_start(s->managers[0]));
    assert_ok(gantry_taskman_stop(s->managers[0]));
    assert_ok(gantry_context_synchronize(s->gpu.context));
    assert_ok(gantry_taskman_reset(s->managers[0]));
}

/* Steps in a context of their own. */
static void run_group(uint32_t kind, uint32_t first, uint32_t steps)
{
    struct scene *s = malloc(sizeof(*s));
    assert_non_null(s);
    open_scene(s, &kinds[kind]);
    load_kernels(s);
    for (uint32_t seed = first; seed - first < steps; seed++) {
        s->random = (uint64_t)seed * 7919u + kind;
        (void)draw(s, 2);
        draw_step(s);
        run_step(s);
        check_step(s, kind, seed, first);
    }
    close_scene(s);
    free(s);
}

/* Each group of steps has a context of its own, so that a step can be run again with those before it. */
static void run_kind(uint32_t kind)
{
    for (uint32_t done = 0; done < steps_wanted; done += group_wanted) {
        const uint32_t left = steps_wanted - done;
        run_group(kind, seed_wanted + done, left < group_wanted ? left : group_wanted);
    }
}

static void test_no_task_holds_up_what_does_not_come_after_it(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        if (kind_wanted == KINDS || kind == kind_wanted) {
            run_kind(kind);
        }
    }
}

/* A graph with a task that had begun, noted a wait and left it: who came after the rest of the graph waited
 * for that, too. */
static void test_steps_that_failed_once(void **state)
{
    (void)state;
    run_group(5, 1288, 2);
}

/* Two GPU tasks behind a CPU task, which hands on what that comes after: the first gets the stream of the GPU
 * task before, and goes on there; the other comes after that GPU task, and not after the first. */
static void test_tasks_behind_one_on_the_host_do_not_wait_for_each_other(void **state)
{
    static const struct node drawn[] = {
        {.role = ROLE_WORKS, .kind = GANTRY_TASK_HTOD},
        {.role = ROLE_CPU, .kind = GANTRY_TASK_CPU, .after = 1u << 0},
        {.role = ROLE_HOLDS, .kind = GANTRY_TASK_HTOD, .after = 1u << 1},
        {.role = ROLE_WORKS, .kind = GANTRY_TASK_DTOH, .after = 1u << 1, .completes = 1u << 4},
        {.role = ROLE_RELEASES, .kind = GANTRY_TASK_CPU, .after = 1u << 3},
    };
    enum { UNPLANNED = 3 };
    struct scene *s = malloc(sizeof(*s));
    assert_non_null(s);
    (void)state;
    for (uint32_t kind = 0; kind < UNPLANNED; kind++) {
        open_scene(s, &kinds[kind]);
        load_kernels(s);
        memset(s->stamps.cells, 0, CELLS * sizeof(uint32_t));
        s->stamps.cells[0] = 1;
        s->count = sizeof(drawn) / sizeof(drawn[0]);
        for (uint32_t i = 0; i < s->count; i++) {
            s->nodes[i] = drawn[i];
            s->nodes[i].scene = s;
            s->nodes[i].calls = 1;
            s->nodes[i].partition = PARTITIONS;
            s->nodes[i].stamp = STAMPS_FROM + 2 * i;
            s->nodes[i].flag = FLAGS_FROM;
            submit(s, &s->nodes[i]);
        }
        run_step(s);
        assert_int_equal(s->stamps.cells[FLAGS_FROM + 1], 2); /* it was let go */
        close_scene(s);
    }
    free(s);
}

/* ---- a home that another task gets ------------------------------------------------------------- */

/* What tasks of the scene tell each other, in this order. */
enum told { TOLD_NOTHING, TOLD_FIRST_IS_DONE, TOLD_HOLDER_IS_CALLED, TOLD_HEIR_IS_RELEASED };

static atomic_int told_so_far;

static void await_told(enum told what)
{
    while (atomic_load(&told_so_far) < (int)what) {
        sched_yield();
    }
}

/* Another function than that of tasks that are noted: how each is called goes by its function. */
static gantry_launch_result launch_apart(gantry_launch *call, void *arg)
{
    return launch(call, arg);
}

static gantry_launch_result launch_holder(gantry_launch *call, void *arg)
{
    const struct node *node = arg;
    const gantry_launch_result result = launch(call, arg);
    atomic_store(&told_so_far, TOLD_HOLDER_IS_CALLED);
    await_told(TOLD_HEIR_IS_RELEASED);
    __atomic_store_n(&node->scene->stamps.cells[FLAGS_FROM], 1, __ATOMIC_RELEASE);
    return result;
}

static gantry_status tell_first(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    atomic_store(&told_so_far, TOLD_FIRST_IS_DONE);
    return GANTRY_OK;
}

static gantry_status await_first(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    await_told(TOLD_FIRST_IS_DONE);
    return GANTRY_OK;
}

static gantry_status await_holder(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    await_told(TOLD_HOLDER_IS_CALLED);
    return GANTRY_OK;
}

static gantry_status tell_heir(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    atomic_store(&told_so_far, TOLD_HEIR_IS_RELEASED);
    return GANTRY_OK;
}

/* The holder's graph gets the stream of `first` for its home, since that is over and `busy` is not.  While
 * the graph is being built, `heir` inherits that stream.  The holder waits for the heir, so the graph may not
 * be launched in front of it. */
static void test_a_graph_leaves_a_home_that_another_task_gets(void **state)
{
    static const struct node drawn[] = {
        {.role = ROLE_WORKS, .kind = GANTRY_TASK_KERNEL, .leaves = true},
        {.role = ROLE_WORKS, .kind = GANTRY_TASK_KERNEL, .leaves = true, .after = 1u << 0},   /* first */
        {.role = ROLE_HOLDS, .kind = GANTRY_TASK_KERNEL, .leaves = true, .flag = FLAGS_FROM}, /* busy */
        {.role = ROLE_CPU, .after = 1u << 1, .after_done = 1u << 1},                          /* tell_first */
        {.role = ROLE_CPU, .after = 1u << 0}, /* await_first */
        {.role = ROLE_HOLDS,
         .kind = GANTRY_TASK_KERNEL,
         .flag = FLAGS_FROM + 2,
         .after = 1u << 0 | 1u << 2 | 1u << 4},                           /* holder */
        {.role = ROLE_CPU, .after = 1u << 3},                             /* await_holder */
        {.role = ROLE_WORKS, .kind = GANTRY_TASK_HTOD, .after = 1u << 6}, /* heir */
        {.role = ROLE_CPU, .after = 1u << 6},
        {.role = ROLE_CPU, .after = 1u << 8}, /* tell_heir */
        {.role = ROLE_RELEASES, .flag = FLAGS_FROM + 2, .after = 1u << 7, .after_done = 1u << 7},
    };
    enum { HOLDER = 5, COUNT = sizeof(drawn) / sizeof(drawn[0]) };
    const gantry_task_fn bodies[COUNT] = {
        [3] = tell_first, [4] = await_first, [6] = await_holder, [9] = tell_heir};
    struct scene *s = malloc(sizeof(*s));
    assert_non_null(s);
    (void)state;
    open_scene(s, &kinds[1]);
    load_kernels(s);
    memset(s->stamps.cells, 0, CELLS * sizeof(uint32_t));
    s->stamps.cells[0] = 1;
    s->count = COUNT;
    atomic_store(&told_so_far, TOLD_NOTHING);
    for (uint32_t i = 0; i < COUNT; i++) {
        s->nodes[i] = drawn[i];
        s->nodes[i].scene = s;
        s->nodes[i].calls = 1;
        s->nodes[i].partition = PARTITIONS;
        s->nodes[i].stamp = STAMPS_FROM + 2 * i;
        const gantry_launch_fn call = i == HOLDER ? launch_holder : drawn[i].leaves ? launch_apart : launch;
        submit_as(s, &s->nodes[i], call, bodies[i] != NULL ? bodies[i] : run);
    }
    run_step(s);
    assert_int_equal(s->stamps.cells[FLAGS_FROM + 3], 2); /* the holder was let go */
    close_scene(s);
    free(s);
}

int main(int argc, char **argv)
{
    /* Kernels that wait take a thread each, or a place in a work queue of the device. */
    (void)setenv("GANTRY_EMU_THREADS", "8", 0);
    (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    if (getenv("GANTRY_TEST_LIGHT") != NULL) {
        steps_wanted /= 5;
    }
    if (gpu_fixture_driver() != GANTRY_DRIVER_EMULATED) {
        group_wanted = steps_wanted; /* a context takes as long as many steps */
    }
    for (int i = 1; i + 1 < argc; i += 2) {
        const uint32_t value = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        steps_wanted = strcmp(argv[i], "--steps") == 0 ? value : steps_wanted;
        seed_wanted = strcmp(argv[i], "--seed") == 0 ? value : seed_wanted;
        kind_wanted = strcmp(argv[i], "--kind") == 0 ? value : kind_wanted;
        group_wanted = strcmp(argv[i], "--group") == 0 && value != 0 ? value : group_wanted;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tasks_behind_one_on_the_host_do_not_wait_for_each_other),
        cmocka_unit_test(test_a_graph_leaves_a_home_that_another_task_gets),
        cmocka_unit_test(test_steps_that_failed_once),
        cmocka_unit_test(test_no_task_holds_up_what_does_not_come_after_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
