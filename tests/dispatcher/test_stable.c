/* SPDX-License-Identifier: MIT */
/* Stable tasks of frozen graphs are called until the work that they enqueue is recorded, and then no more.
 * The work is done in every run all the same, in the same order, with the same completions.  `--graphs N`
 * sets how many random graphs there are. */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "tests/dispatcher/stamps.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"
#include "tests/support/log_lines.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 48u
#define RUNS 8u

static uint32_t graphs_wanted = 150;

struct scene;

/* A task of a graph: node `index` stamps cells 1 + 2 index (begin) and 2 + 2 index (end) from the clock. */
struct node {
    struct scene *scene;
    uint32_t index;
    gantry_task_kind kind;
    gantry_task *task;
    gantry_task *completes; /* GPU: the CPU task that starts when the GPU is done with this one */
    gantry_launch_fn extra; /* GPU: the callback has something more to do */
    uint64_t before;        /* bit i: node i comes before, directly or not */
    uint64_t completed_by;  /* CPU: the nodes that the GPU has done when it starts */
    uint32_t spins;
    bool stable;
    bool fails;                   /* CPU: in this run */
    _Atomic(uint32_t) calls, ran; /* since the graph was made */
};

struct scene {
    struct gpu_fixture gpu;
    struct stamps stamps;
    uint32_t count;
    uint64_t random;
    _Atomic(uint32_t) early; /* how many CPU tasks started before the GPU had done what they wait for */
    struct node nodes[MOST];
};

static void open_scene(struct scene *s, gantry_submission submission)
{
    memset(s, 0, sizeof(*s));
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    options.submission = submission;
    gpu_fixture_open_with(&s->gpu, 2, &options);
    stamps_open(&s->stamps, s->gpu.context, 4096);
}

static void close_scene(struct scene *s)
{
    stamps_close(&s->stamps);
    gpu_fixture_close(&s->gpu);
}

static gantry_launch_result launch_node(gantry_launch *launch, void *arg)
{
    struct node *node = arg;
    uint32_t begin = 1 + 2 * node->index;
    atomic_fetch_add(&node->calls, 1);
    if (stamps_launch(&node->scene->stamps, launch, begin, begin + 1, node->spins) != GANTRY_OK ||
        (node->extra != NULL && node->extra(launch, arg) != GANTRY_LAUNCH_DONE) ||
        (node->completes != NULL && gantry_launch_add_completion(launch, node->completes) != GANTRY_OK)) {
        return GANTRY_LAUNCH_FAILED;
    }
    return GANTRY_LAUNCH_DONE;
}

static gantry_status run_node(gantry_task *task, void *arg)
{
    struct node *node = arg;
    (void)task;
    for (uint64_t left = node->completed_by; left != 0; left &= left - 1) {
        uint32_t other = (uint32_t)__builtin_ctzll(left);
        uint32_t ended = __atomic_load_n(&node->scene->stamps.cells[2 + 2 * other], __ATOMIC_ACQUIRE);
        atomic_fetch_add(&node->scene->early, ended == 0);
    }
    atomic_fetch_add(&node->ran, 1);
    return node->fails ? GANTRY_ERR_IO : GANTRY_OK;
}

static struct node *add_with(struct scene *s, gantry_task_kind kind, bool stable, uint32_t memory)
{
    struct node *node = &s->nodes[s->count];
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    *node = (struct node){.scene = s, .index = s->count++, .kind = kind, .stable = stable};
    desc.kind = kind;
    desc.label = stable ? "stable" : "other";
    desc.run = kind == GANTRY_TASK_CPU ? run_node : NULL;
    desc.launch = kind >= GANTRY_TASK_HTOD ? launch_node : NULL;
    desc.arg = node;
    desc.is_stable = stable;
    desc.memory = memory;
    assert_ok(gantry_taskman_submit(s->gpu.manager, &desc, &node->task));
    return node;
}

static struct node *add(struct scene *s, gantry_task_kind kind, bool stable)
{
    return add_with(s, kind, stable, 0);
}

static struct node *kernel(struct scene *s)
{
    return add(s, GANTRY_TASK_KERNEL, true);
}

static void after(struct node *node, const struct node *before)
{
    gpu_fixture_after(node->task, before->task);
    node->before |= before->before | UINT64_C(1) << before->index;
}

static void complete(struct node *gpu, struct node *cpu)
{
    after(cpu, gpu);
    gpu->completes = cpu->task;
    cpu->completed_by |= (gpu->before | UINT64_C(1) << gpu->index);
    for (uint32_t i = 0; i < cpu->scene->count; i++) {
        if (cpu->scene->nodes[i].kind < GANTRY_TASK_HTOD) {
            cpu->completed_by &= ~(UINT64_C(1) << i);
        }
    }
}

/* Submit a CPU task that starts when the GPU has done all GPU nodes. */
static void add_end(struct scene *s)
{
    uint32_t count = s->count;
    struct node *last = add(s, GANTRY_TASK_DTOH, true);
    struct node *end = add(s, GANTRY_TASK_CPU, false);
    for (uint32_t i = 0; i < count; i++) {
        after(last, &s->nodes[i]);
    }
    complete(last, end);
}

static void clear_cells(struct scene *s)
{
    memset(s->stamps.cells, 0, (1 + 2 * MOST) * sizeof(*s->stamps.cells));
}

static gantry_status run(struct scene *s)
{
    clear_cells(s);
    return gantry_taskman_run(s->gpu.manager, 1);
}

/* Check that everything ran once more, and in order. */
static void check_run(const struct scene *s, uint32_t runs)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const struct node *node = &s->nodes[i];
        if (node->kind == GANTRY_TASK_CPU) {
            assert_int_equal(atomic_load(&node->ran), runs);
        }
        if (node->kind < GANTRY_TASK_HTOD) {
            continue;
        }
        assert_true(s->stamps.cells[2 + 2 * i] > s->stamps.cells[1 + 2 * i]);
        for (uint64_t left = node->before; left != 0; left &= left - 1) {
            uint32_t p = (uint32_t)__builtin_ctzll(left);
            if (s->nodes[p].kind >= GANTRY_TASK_HTOD &&
                s->stamps.cells[2 + 2 * p] > s->stamps.cells[1 + 2 * i]) {
                fail_msg("run %u: %u ended after %u began", runs, p, i);
            }
        }
    }
    assert_int_equal(atomic_load(&s->early), 0);
}

static uint32_t calls(const struct scene *s, bool stable)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        sum += s->nodes[i].stable == stable ? atomic_load(&s->nodes[i].calls) : 0;
    }
    return sum;
}

static void freeze(struct scene *s)
{
    assert_ok(gantry_taskman_freeze(s->gpu.manager));
}

/* Run until a run has called no stable task; it takes as many runs as there are nodes at most. */
static uint32_t warm_up(struct scene *s, uint32_t runs)
{
    for (uint32_t i = 0; i <= s->count + 4; i++) {
        uint32_t before = calls(s, true);
        assert_ok(run(s));
        check_run(s, ++runs);
        if (calls(s, true) == before) {
            return runs;
        }
    }
    fail_msg("stable tasks are called again and again");
    return 0;
}

static void check_silent(struct scene *s, uint32_t runs)
{
    uint32_t before = calls(s, true);
    for (uint32_t i = 1; i <= RUNS; i++) {
        assert_ok(run(s));
        check_run(s, runs + i);
    }
    assert_int_equal(calls(s, true), before);
}

/* in -> {left, right} -> join -> out, and an end. */
static void build_diamond(struct scene *s)
{
    struct node *in = add(s, GANTRY_TASK_HTOD, true);
    struct node *left = kernel(s), *right = kernel(s), *join = kernel(s);
    left->spins = 200;
    after(left, in);
    after(right, in);
    after(join, left);
    after(join, right);
    add_end(s);
}

static void test_a_stable_graph_is_launched_without_calls(void **state)
{
    (void)state;
    static struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_GRAPHS);
    build_diamond(&s);
    freeze(&s);
    uint32_t runs = warm_up(&s, 0);
    assert_true(runs <= 4);
    /* callbacks that are not known yet are tried first, and then recorded */
    assert_true(calls(&s, true) <= 2 * 5);
    gantry_dispatcher_stats before = gpu_fixture_stats(&s.gpu);
    check_silent(&s, runs);
    gantry_dispatcher_stats stats = gpu_fixture_stats(&s.gpu);
    assert_int_equal(stats.graph_replays - before.graph_replays, RUNS);
    assert_int_equal(stats.kernels - before.kernels, RUNS * 5);
    assert_int_equal(stats.completions - before.completions, RUNS);
    assert_int_equal(stats.tasks - before.tasks, RUNS * 5);
    assert_int_equal(stats.launch_calls, before.launch_calls);
    gantry_batch_stats batch = {.struct_size = sizeof(batch)};
    assert_ok(gantry_dispatcher_get_batch_stats(gantry_context_dispatcher(s.gpu.context), &batch));
    assert_int_equal(batch.as_graph, 1);
    assert_int_equal(batch.launch_calls, 0);
    gantry_task_launch_stats one = {.struct_size = sizeof(one)};
    assert_ok(gantry_task_get_launch_stats(s.nodes[1].task, &one));
    assert_int_equal(one.launch_calls, 0);
    assert_int_not_equal(one.stream, 0);
    close_scene(&s);
}

static void test_cpu_tasks_divide_a_graph_into_units(void **state)
{
    (void)state;
    static struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_GRAPHS);
    for (uint32_t pipeline = 0; pipeline < 4; pipeline++) {
        struct node *in = add(&s, GANTRY_TASK_HTOD, true), *work = kernel(&s);
        struct node *look = add(&s, GANTRY_TASK_CPU, false);
        struct node *more = kernel(&s), *point = add(&s, GANTRY_TASK_SYNC_POINT, false), *last = kernel(&s);
        after(work, in);
        complete(work, look);
        after(more, look);
        after(point, more);
        after(last, point);
    }
    add_end(&s);
    freeze(&s);
    uint32_t runs = warm_up(&s, 0);
    gantry_dispatcher_stats before = gpu_fixture_stats(&s.gpu);
    check_silent(&s, runs);
    /* The first part of each pipeline, the second part of each, and the end. */
    assert_int_equal(gpu_fixture_stats(&s.gpu).graph_replays - before.graph_replays, RUNS * (1 + 4 + 1));
    close_scene(&s);
}

/* r comes after a CPU task, t after r and after a GPU task that no CPU task precedes: the units are {p} and
 * {r, t}, and the second needs the first. */
static void test_a_region_may_need_another(void **state)
{
    (void)state;
    static struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_GRAPHS);
    struct node *cpu = add(&s, GANTRY_TASK_CPU, false), *p = kernel(&s), *r = kernel(&s), *t = kernel(&s);
    p->spins = 500;
    after(r, cpu);
    after(t, r);
    after(t, p);
    add_end(&s);
    freeze(&s);
    uint32_t runs = warm_up(&s, 0);
    check_silent(&s, runs);
    close_scene(&s);
}

static void test_other_tasks_are_called_in_every_run(void **state)
{
    (void)state;
    static struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_GRAPHS);
    struct node *a = kernel(&s), *b = add(&s, GANTRY_TASK_KERNEL, false), *c = kernel(&s), *d = kernel(&s);
    struct node *e = add(&s, GANTRY_TASK_KERNEL, false);
    a->spins = b->spins = 200;
    after(b, a);
    after(c, b);
    after(d, a);
    after(e, d);
    after(e, c);
    add_end(&s);
    freeze(&s);
    uint32_t runs = warm_up(&s, 0);
    uint32_t others = calls(&s, false);
    check_silent(&s, runs);
    assert_int_equal(calls(&s, false) - others, 2 * RUNS);
    close_scene(&s);
}

static void test_what_has_changed_is_recorded_anew(void **state)
{
    (void)state;
    static struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_GRAPHS);
    build_diamond(&s);
    struct node *elsewhere = &s.nodes[MOST - 1];
    freeze(&s);
    uint32_t runs = warm_up(&s, 0);
    uint32_t before = calls(&s, true);
    /* A kernel that stamps other cells. */
    *elsewhere = s.nodes[2];
    elsewhere->index = MOST - 1;
    assert_ok(gantry_task_set_arg(s.nodes[2].task, elsewhere));
    assert_ok(run(&s));
    assert_true(s.stamps.cells[2 + 2 * elsewhere->index] != 0 && s.stamps.cells[2 + 2 * 2] == 0);
    assert_int_equal(calls(&s, true) - before, 4); /* and one whose kernel counts elsewhere */
    assert_ok(run(&s));
    assert_true(s.stamps.cells[2 + 2 * elsewhere->index] != 0 && s.stamps.cells[2 + 2 * 2] == 0);
    assert_int_equal(calls(&s, true) - before, 4);
    /* the last task did not see node 2's stamp, as it should */
    assert_int_equal(atomic_exchange(&s.early, 0), 2);
    /* The argument is the same, but something else about it has changed. */
    elsewhere->index = 2;
    assert_ok(gantry_task_invalidate(s.nodes[2].task));
    runs += 2;
    assert_ok(run(&s));
    check_run(&s, ++runs);
    assert_int_equal(calls(&s, true) - before, 8);
    check_silent(&s, runs);
    assert_int_equal(gantry_task_invalidate(NULL), GANTRY_ERR_INVALID_ARGUMENT);
    close_scene(&s);
}

static void test_a_failed_predecessor_keeps_a_region_from_being_launched(void **state)
{
    (void)state;
    static struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_GRAPHS);
    struct node *cpu = add(&s, GANTRY_TASK_CPU, false), *other = add(&s, GANTRY_TASK_CPU, false);
    struct node *a = kernel(&s), *b = kernel(&s), *c = kernel(&s), *free = kernel(&s);
    after(a, cpu);
    after(a, other);
    after(b, other);
    after(b, cpu);
    after(c, a);
    after(c, b);
    (void)free;
    freeze(&s);
    for (uint32_t round = 0; round < 6; round++) {
        cpu->fails = round % 2 != 0;
        for (int i = 0; i < 4; i++) {
            assert_int_equal(run(&s), cpu->fails ? GANTRY_ERR_IO : GANTRY_OK);
            assert_int_equal(gantry_task_get_state(c->task),
                             cpu->fails ? GANTRY_TASK_STATE_FAILED : GANTRY_TASK_STATE_DONE);
            assert_int_equal(gantry_task_get_state(free->task), GANTRY_TASK_STATE_DONE);
        }
    }
    assert_true(gpu_fixture_stats(&s.gpu).graph_replays > 0);
    assert_ok(gantry_context_acquire(s.gpu.context)); /* nothing before waits for the GPU */
    assert_int_equal(s.gpu.context->cuda->driver->cuCtxSynchronize(), CUDA_SUCCESS);
    assert_ok(gantry_context_release(s.gpu.context));
    close_scene(&s);
}

static gantry_launch_result ask_for_sync_point(gantry_launch *launch, void *arg)
{
    (void)arg;
    return gantry_launch_request_sync_point(launch) == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result use_memory(gantry_launch *launch, void *arg)
{
    (void)arg;
    void *block;
    return gantry_launch_alloc(launch, GANTRY_MEMORY_DEVICE, 256, 0, GANTRY_ALLOC_SITE("once"), &block) ==
                       GANTRY_OK &&
                   gantry_free_after(block, launch) == GANTRY_OK
               ? GANTRY_LAUNCH_DONE
               : GANTRY_LAUNCH_FAILED;
}

static gantry_launch_result leave(gantry_launch *launch, void *arg)
{
    (void)arg;
    return gantry_launch_leave_graph(launch) == GANTRY_OK ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static void check_called(gantry_launch_fn extra, gantry_submission submission)
{
    static struct scene s;
    open_scene(&s, submission);
    build_diamond(&s);
    s.nodes[3].extra = extra;
    freeze(&s);
    for (uint32_t i = 1; i <= RUNS; i++) {
        assert_ok(run(&s));
        check_run(&s, i);
        assert_true(calls(&s, true) >= i * 5);
    }
    assert_int_equal(gpu_fixture_stats(&s.gpu).graph_replays, 0);
    close_scene(&s);
}

static void test_what_cannot_be_replayed_is_called_in_every_run(void **state)
{
    (void)state;
    check_called(ask_for_sync_point, GANTRY_SUBMISSION_GRAPHS);
    check_called(use_memory, GANTRY_SUBMISSION_GRAPHS);
    check_called(leave, GANTRY_SUBMISSION_GRAPHS);
    check_called(NULL, GANTRY_SUBMISSION_STREAMS);
}

/* These tasks start when there is room, at a time that nobody can know; the others are launched without a
 * call. */
static void test_tasks_that_declare_memory_are_called_in_every_run(void **state)
{
    (void)state;
    static struct scene s;
    struct log_lines lines;
    uint64_t bytes[GANTRY_MEMORY_KIND_COUNT] = {[GANTRY_MEMORY_DEVICE] = 4096};
    uint32_t memory;
    log_lines_begin(&lines, "all that declare memory");
    open_scene(&s, GANTRY_SUBMISSION_GRAPHS);
    assert_ok(gantry_taskman_declare_memory(s.gpu.manager, bytes, &memory));
    struct node *a = kernel(&s);
    struct node *b = add_with(&s, GANTRY_TASK_KERNEL, true, memory);
    struct node *c = add_with(&s, GANTRY_TASK_KERNEL, true, memory);
    b->stable = c->stable = false; /* they are not counted as such */
    after(b, a);
    after(c, b);
    add_end(&s);
    freeze(&s);
    uint32_t runs = warm_up(&s, 0);
    uint32_t others = calls(&s, false);
    check_silent(&s, runs);
    assert_int_equal(calls(&s, false) - others, 2 * RUNS);
    assert_true(gpu_fixture_stats(&s.gpu).graph_replays >= RUNS);
    close_scene(&s);
    assert_int_equal(log_lines_end(&lines), 1);
}

static void test_auto_replays(void **state)
{
    (void)state;
    static struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_AUTO);
    build_diamond(&s);
    freeze(&s);
    uint32_t runs = 0;
    while (gpu_fixture_stats(&s.gpu).graph_replays == 0 && runs < 100) {
        assert_ok(run(&s));
        check_run(&s, ++runs);
    }
    check_silent(&s, runs);
    close_scene(&s);
}

static void test_a_part_of_a_graph_is_called(void **state)
{
    (void)state;
    static struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_GRAPHS);
    build_diamond(&s);
    freeze(&s);
    (void)warm_up(&s, 0);
    uint32_t before = calls(&s, true);
    clear_cells(&s);
    assert_ok(gantry_taskman_start_from(s.gpu.manager, &s.nodes[3].task, 1));
    assert_ok(gantry_taskman_stop(s.gpu.manager));
    assert_int_equal(calls(&s, true) - before, 2); /* the join and the last one */
    assert_true(s.stamps.cells[2 + 2 * 3] != 0 && s.stamps.cells[2 + 2 * 0] == 0);
    before = calls(&s, true);
    assert_ok(run(&s));
    assert_int_equal(calls(&s, true), before);
    close_scene(&s);
}

static void test_a_recording_sees_every_task(void **state)
{
    (void)state;
    static struct scene s;
    char path[] = "/tmp/gantry-stable-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    open_scene(&s, GANTRY_SUBMISSION_GRAPHS);
    build_diamond(&s);
    freeze(&s);
    uint32_t runs = warm_up(&s, 0);
    uint32_t before = calls(&s, true);
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    gantry_profile *profile;
    options.path = path;
    assert_ok(gantry_profile_start(&options, &profile));
    assert_ok(run(&s));
    assert_ok(gantry_profile_stop(profile, NULL));
    check_run(&s, ++runs);
    assert_int_equal(calls(&s, true) - before, 5);
    check_silent(&s, runs);
    close_scene(&s);
    (void)close(file);
    (void)unlink(path);
}

static gantry_status cancel_run(gantry_task *task, void *arg)
{
    (void)arg;
    return gantry_taskman_cancel(gantry_task_manager(task));
}

static void test_a_cancelled_run_launches_nothing_more(void **state)
{
    (void)state;
    static struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_GRAPHS);
    gantry_task *cancel = gpu_fixture_cpu(&s.gpu, "cancel", cancel_run, NULL);
    build_diamond(&s);
    gpu_fixture_after(s.nodes[0].task, cancel);
    freeze(&s);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(run(&s), GANTRY_ERR_CANCELLED);
        assert_int_equal(gantry_task_get_state(s.nodes[3].task), GANTRY_TASK_STATE_FAILED);
    }
    assert_int_equal(calls(&s, true), 0);
    close_scene(&s);
}

static void test_a_lost_context_fails_a_stable_graph(void **state)
{
    (void)state;
    static struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_GRAPHS);
    build_diamond(&s);
    freeze(&s);
    (void)warm_up(&s, 0);
    gantry_dispatcher_force_failure(gantry_context_dispatcher(s.gpu.context));
    assert_int_equal(gantry_taskman_run(s.gpu.manager, 1), GANTRY_ERR_DEVICE_LOST);
    close_scene(&s);
}

static void test_a_manager_may_outlive_the_context(void **state)
{
    (void)state;
    static struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_GRAPHS);
    build_diamond(&s);
    freeze(&s);
    (void)warm_up(&s, 0);
    gantry_heap *heap = gantry_context_heap(s.gpu.context);
    assert_ok(gantry_heap_free(heap, s.stamps.cells));
    gantry_context_destroy(s.gpu.context);
    gantry_taskman_destroy(s.gpu.manager);
    gantry_cpu_dispatcher_destroy(s.gpu.cpus);
}

static void test_only_gpu_tasks_are_stable(void **state)
{
    (void)state;
    static struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_GRAPHS);
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.run = run_node;
    desc.is_stable = true;
    assert_int_equal(gantry_taskman_submit(s.gpu.manager, &desc, NULL), GANTRY_ERR_INVALID_ARGUMENT);
    close_scene(&s);
}

/* ---- random graphs --------------------------------------------------------------------------- */

static uint32_t next_random(struct scene *s, uint32_t below)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return (uint32_t)((s->random >> 32) % below);
}

static void build_random(struct scene *s)
{
    static const gantry_task_kind kinds[] = {GANTRY_TASK_CPU,    GANTRY_TASK_SYNC_POINT, GANTRY_TASK_HTOD,
                                             GANTRY_TASK_KERNEL, GANTRY_TASK_KERNEL,     GANTRY_TASK_DTOH};
    uint32_t count = 1 + next_random(s, MOST - 4);
    uint32_t few = next_random(s, 3); /* of CPU tasks: fewer of them make units larger */
    s->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        gantry_task_kind kind = kinds[next_random(s, 6)];
        kind = kind == GANTRY_TASK_CPU && next_random(s, 3) < few ? GANTRY_TASK_KERNEL : kind;
        struct node *node = add(s, kind, kind >= GANTRY_TASK_HTOD && next_random(s, 8) != 0);
        node->spins = next_random(s, 4) * 20;
        for (uint32_t e = i == 0 ? 0 : next_random(s, 4); e > 0; e--) {
            struct node *from = &s->nodes[next_random(s, i)];
            if (kind == GANTRY_TASK_CPU && from->kind >= GANTRY_TASK_HTOD && from->completes == NULL) {
                complete(from, node);
            } else {
                after(node, from);
            }
        }
    }
    add_end(s);
}

static void test_random_graphs_keep_their_order(void **state)
{
    (void)state;
    static struct scene s;
    open_scene(&s, GANTRY_SUBMISSION_GRAPHS);
    for (uint32_t n = 1; n <= graphs_wanted; n++) {
        s.random = UINT64_C(0x9e3779b97f4a7c15) * n;
        build_random(&s);
        freeze(&s);
        for (uint32_t i = 1; i <= 6; i++) {
            assert_ok(run(&s));
            check_run(&s, i);
        }
        assert_ok(gantry_taskman_reset(s.gpu.manager));
    }
    assert_true(gpu_fixture_stats(&s.gpu).graph_replays > graphs_wanted);
    close_scene(&s);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--graphs") == 0) {
        graphs_wanted = (uint32_t)strtoul(argv[2], NULL, 10);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stable_graph_is_launched_without_calls),
        cmocka_unit_test(test_cpu_tasks_divide_a_graph_into_units),
        cmocka_unit_test(test_a_region_may_need_another),
        cmocka_unit_test(test_other_tasks_are_called_in_every_run),
        cmocka_unit_test(test_what_has_changed_is_recorded_anew),
        cmocka_unit_test(test_a_failed_predecessor_keeps_a_region_from_being_launched),
        cmocka_unit_test(test_what_cannot_be_replayed_is_called_in_every_run),
        cmocka_unit_test(test_tasks_that_declare_memory_are_called_in_every_run),
        cmocka_unit_test(test_auto_replays),
        cmocka_unit_test(test_a_part_of_a_graph_is_called),
        cmocka_unit_test(test_a_recording_sees_every_task),
        cmocka_unit_test(test_a_cancelled_run_launches_nothing_more),
        cmocka_unit_test(test_a_lost_context_fails_a_stable_graph),
        cmocka_unit_test(test_a_manager_may_outlive_the_context),
        cmocka_unit_test(test_only_gpu_tasks_are_stable),
        cmocka_unit_test(test_random_graphs_keep_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
