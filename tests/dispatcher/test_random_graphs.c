/* SPDX-License-Identifier: MIT */
/* Random graphs of CPU tasks, GPU tasks of all flavours and sync points: whatever the shape, every GPU task
 * that follows another in the graph, directly or through CPU tasks and sync points, begins on the device
 * after the other has ended, and no CPU task starts before its predecessors were released, nor, where it
 * waits for the GPU's end of one, before that.  The order is recorded by the kernels themselves.
 *
 * Beside it runs a model of what the driver was told (order_model.h), which says the same without luck: every
 * task's stream is behind all it must come after, and none of its waits is redundant: each covers
 * something that neither the stream nor the other waits do.  (So a task has at most as many waits as its
 * needed predecessors have latest ones, which is the transitive reduction.)  Some CPU tasks wait for
 * completions on the way, so that what the host knows to be over is left out, too.  And it counts the streams
 * that a graph uses: never more than a graph that wide may need.
 *
 * `--graphs N` sets how many graphs each of the first three tests takes its share of; `--seed N` which. */
#include "dispatcher/internal.h"
#include "tests/dispatcher/order_model.h"
#include "tests/dispatcher/stamps.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NODES 48

static uint32_t graphs_wanted = 3000;
static uint64_t first_seed = 1;

struct node {
    gantry_task_kind kind;
    uint32_t launches; /* GPU: how many launch calls it has */
    uint32_t spins;
    bool asks; /* GPU: it has a sync point after it */
    gantry_task *task;
    gantry_task *completes;      /* GPU: the task that starts when the GPU has done this one; may be NULL */
    uint64_t before;             /* bit i: node i precedes this one, directly or not */
    _Atomic(uint32_t) cpu_order; /* its place in the order of releases of CPU bodies and last launches */
    struct graph *graph;
};

struct graph {
    struct gpu_fixture *fixture;
    struct stamps stamps; /* the begin and the end of each node */
    _Atomic(uint32_t) cpu_clock;
    _Atomic(uint32_t) violations;
    _Atomic(uint32_t) early; /* GPU tasks whose end was told before it */
    bool has_graphs;         /* batches may be graphs */
    bool may_ask;            /* the order model does not know the effect of sync points that tasks ask for */
    uint32_t count;
    uint64_t gpu_nodes;        /* bit i: node i is a GPU task */
    _Atomic(uint64_t) streams; /* bit i: a task was on stream i of the pool */
    struct node nodes[MAX_NODES];
    uint64_t random;
    gantry_task *done; /* the task that starts when the GPU has finished all of them */
};

static uint32_t next_random(struct graph *g, uint32_t below)
{
    g->random ^= g->random << 13;
    g->random ^= g->random >> 7;
    g->random ^= g->random << 17;
    return (uint32_t)((g->random >> 32) % below);
}

static bool is_gpu(const struct node *node)
{
    return node->kind >= GANTRY_TASK_HTOD;
}

/* Every direct or indirect predecessor must have ended on the host. */
static void check_predecessors(struct node *node)
{
    for (uint64_t left = node->before; left != 0; left &= left - 1) {
        const struct node *p = &node->graph->nodes[__builtin_ctzll(left)];
        if (p->kind != GANTRY_TASK_SYNC_POINT && atomic_load(&p->cpu_order) == 0) {
            atomic_fetch_add(&node->graph->violations, 1);
        }
    }
}

/* The dispatcher says that the GPU has done these. */
static void check_ended(struct graph *g, uint64_t nodes)
{
    const volatile uint32_t *cells = g->stamps.cells;
    for (uint64_t left = nodes & g->gpu_nodes; left != 0; left &= left - 1) {
        if (cells[2 + 2 * __builtin_ctzll(left)] == 0) {
            atomic_fetch_add(&g->early, 1);
        }
    }
}

static gantry_status run_node(gantry_task *task, void *arg)
{
    struct node *node = arg;
    check_predecessors(node);
    for (uint64_t left = node->before & node->graph->gpu_nodes; left != 0; left &= left - 1) {
        uint32_t p = (uint32_t)__builtin_ctzll(left);
        if (node->graph->nodes[p].completes == task) {
            check_ended(node->graph, UINT64_C(1) << p | node->graph->nodes[p].before);
        }
    }
    atomic_store(&node->cpu_order, atomic_fetch_add(&node->graph->cpu_clock, 1) + 1);
    return GANTRY_OK;
}

static gantry_launch_result launch_node(gantry_launch *launch, void *arg)
{
    struct node *node = arg;
    struct graph *g = node->graph;
    uint32_t index = (uint32_t)(node - g->nodes);
    uint32_t call = (uint32_t)gantry_launch_index(launch);
    if (call == 0) {
        check_predecessors(node);
        atomic_fetch_or(&g->streams, UINT64_C(1) << launch->stream_index);
        order_model_begin(launch, node->before & g->gpu_nodes);
    }
    /* The first launch writes begin, and each overwrites end; later launches write their begin to the node's
     * scratch cell. */
    uint32_t begin = call == 0 ? 1 + 2 * index : 1 + 2 * MAX_NODES + index;
    if (stamps_launch(&g->stamps, launch, begin, 2 + 2 * index, node->spins) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    if (call + 1 < node->launches) {
        order_model_called(launch, 0);
        return GANTRY_LAUNCH_AGAIN;
    }
    if (node->completes != NULL && gantry_launch_add_completion(launch, node->completes) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    if (node->asks && gantry_launch_request_sync_point(launch) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    order_model_called(launch, UINT64_C(1) << index);
    atomic_store(&node->cpu_order, atomic_fetch_add(&g->cpu_clock, 1) + 1);
    return GANTRY_LAUNCH_DONE;
}

static void make_node(struct graph *g, uint32_t index)
{
    static const gantry_task_kind kinds[] = {GANTRY_TASK_CPU,    GANTRY_TASK_SYNC_POINT, GANTRY_TASK_HTOD,
                                             GANTRY_TASK_KERNEL, GANTRY_TASK_KERNEL,     GANTRY_TASK_DTOH};
    struct node *node = &g->nodes[index];
    node->graph = g;
    node->kind = kinds[next_random(g, 6)];
    node->launches = 1 + next_random(g, 3);
    node->spins = next_random(g, 4) * 20;
    node->asks = next_random(g, 8) == 0 && g->may_ask;
    node->before = 0;
    node->completes = NULL;
    g->gpu_nodes |= (uint64_t)is_gpu(node) << index;
    atomic_store(&node->cpu_order, 0);
    if (is_gpu(node)) {
        node->task = gpu_fixture_gpu(g->fixture, node->kind, "node", launch_node, node);
    } else {
        node->task =
            gpu_fixture_cpu(g->fixture, "node", node->kind == GANTRY_TASK_CPU ? run_node : NULL, node);
    }
    uint32_t edges = index == 0 ? 0 : next_random(g, 4);
    for (uint32_t e = 0; e < edges; e++) {
        uint32_t from = next_random(g, index);
        if ((node->before >> from & 1) != 0 && next_random(g, 2) == 0) {
            continue; /* some redundant edges are kept, others are dropped */
        }
        gpu_fixture_after(node->task, g->nodes[from].task);
        node->before |= UINT64_C(1) << from | g->nodes[from].before;
        if (node->kind == GANTRY_TASK_CPU && is_gpu(&g->nodes[from]) && next_random(g, 4) == 0) {
            g->nodes[from].completes = node->task;
        }
    }
}

static gantry_launch_result launch_end(gantry_launch *launch, void *arg)
{
    struct graph *g = arg;
    if (g->gpu_nodes != 0) {
        order_model_begin(launch, g->gpu_nodes);
    }
    return gantry_launch_add_completion(launch, g->done) == GANTRY_OK ? GANTRY_LAUNCH_DONE
                                                                      : GANTRY_LAUNCH_FAILED;
}

static gantry_status run_done(gantry_task *task, void *arg)
{
    (void)task;
    struct graph *g = arg;
    check_ended(g, g->gpu_nodes);
    return GANTRY_OK;
}

/* One GPU task comes after all others, and a CPU task starts when the GPU has done it: when the step has
 * stopped, the device has finished everything. */
static void add_end(struct graph *g)
{
    g->done = gpu_fixture_cpu(g->fixture, "done", run_done, g);
    gantry_task *end = gpu_fixture_gpu(g->fixture, GANTRY_TASK_DTOH, "end", launch_end, g);
    gpu_fixture_after(g->done, end);
    for (uint32_t i = 0; i < g->count; i++) {
        gpu_fixture_after(end, g->nodes[i].task);
    }
}

/* ---- width: the most GPU tasks of which none precedes another --------------------------------- */

/* Kuhn's augmenting path in the bipartite graph "p precedes i". */
static bool augment(const struct graph *g, uint32_t i, uint64_t *seen, int *heir)
{
    for (uint64_t left = g->nodes[i].before & g->gpu_nodes; left != 0; left &= left - 1) {
        uint32_t p = (uint32_t)__builtin_ctzll(left);
        if ((*seen >> p & 1) != 0) {
            continue;
        }
        *seen |= UINT64_C(1) << p;
        if (heir[p] < 0 || augment(g, (uint32_t)heir[p], seen, heir)) {
            heir[p] = (int)i;
            return true;
        }
    }
    return false;
}

/* Dilworth: the number of nodes less the pairs of a largest matching is the least number of chains. */
static uint32_t width(const struct graph *g)
{
    int heir[MAX_NODES];
    uint32_t nodes = 0;
    uint32_t pairs = 0;
    memset(heir, -1, sizeof(heir));
    for (uint32_t i = 0; i < g->count; i++) {
        uint64_t seen = 0;
        if (is_gpu(&g->nodes[i])) {
            nodes++;
            pairs += augment(g, i, &seen, heir);
        }
    }
    return nodes - pairs;
}

/* The largest number of GPU tasks that were between begin and end on the device at once. */
static uint32_t most_in_flight(const struct graph *g)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        uint32_t at = g->stamps.cells[1 + 2 * i];
        uint32_t now = 0;
        for (uint32_t j = 0; j < g->count && is_gpu(&g->nodes[i]); j++) {
            now +=
                is_gpu(&g->nodes[j]) && g->stamps.cells[1 + 2 * j] <= at && at < g->stamps.cells[2 + 2 * j];
        }
        most = now > most ? now : most;
    }
    return most;
}

/* The number of pairs whose order on the device is wrong. */
static uint32_t check_device_order(const struct graph *g)
{
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        if (!is_gpu(&g->nodes[i])) {
            continue;
        }
        for (uint64_t left = g->nodes[i].before; left != 0; left &= left - 1) {
            uint32_t p = (uint32_t)__builtin_ctzll(left);
            if (is_gpu(&g->nodes[p]) && g->stamps.cells[2 + 2 * p] >= g->stamps.cells[1 + 2 * i]) {
                wrong++;
            }
        }
    }
    return wrong;
}

static void check_graph(struct graph *g, uint32_t n)
{
    uint32_t wrong = check_device_order(g);
    if (wrong != 0 || atomic_load(&g->violations) != 0) {
        fail_msg("graph %u: %u pairs out of order on the device, %u on the host", n, wrong,
                 atomic_load(&g->violations));
    }
    if (atomic_load(&g->early) != 0) {
        fail_msg("graph %u: the end of %u GPU tasks was told before it", n, atomic_load(&g->early));
    }
    struct order_faults faults = order_model_faults();
    if (faults.unordered != 0 || faults.redundant != 0 || faults.misplaced != 0) {
        fail_msg("graph %u: %llu tasks not ordered, %llu waits redundant, %llu misplaced", n,
                 (unsigned long long)faults.unordered, (unsigned long long)faults.redundant,
                 (unsigned long long)faults.misplaced);
    }
    uint32_t wide = width(g);
    if (most_in_flight(g) > wide) {
        fail_msg("graph %u: %u tasks in flight, width %u", n, most_in_flight(g), wide);
    }
    uint32_t used = (uint32_t)__builtin_popcountll(atomic_load(&g->streams));
    /* Whoever decides when a task becomes ready, and adds no order, may need so many (decision 57). */
    if (used > wide * (wide + 1) / 2 && !g->has_graphs) { /* a stream may be held by a graph */
        fail_msg("graph %u: %u streams, width %u", n, used, wide);
    }
}

static void run_random_graphs(struct gpu_fixture *fixture, struct graph *g, uint32_t graphs)
{
    for (uint32_t n = 0; n < graphs; n++) {
        g->random = UINT64_C(0x9e3779b97f4a7c15) * (n + first_seed);
        g->count = 1 + next_random(g, MAX_NODES - 1);
        g->gpu_nodes = 0;
        atomic_store(&g->streams, 0);
        memset(g->stamps.cells, 0, (1 + 3 * MAX_NODES) * sizeof(*g->stamps.cells));
        atomic_store(&g->cpu_clock, 0);
        order_model_reset();
        for (uint32_t i = 0; i < g->count; i++) {
            make_node(g, i);
        }
        add_end(g);
        gantry_status status = gpu_fixture_step(fixture);
        if (status != GANTRY_OK) {
            fail_msg("graph %u: %s", n, gantry_last_error());
        }
        check_graph(g, n);
    }
}

/* The objects that a test has open; a test that fails leaves them to its teardown. */
static struct {
    struct gpu_fixture fixture;
    struct graph graph;
    bool is_open;
} scene;

static int close_scene(void **state)
{
    (void)state;
    if (scene.is_open) {
        scene.is_open = false;
        stamps_close(&scene.graph.stamps);
        gpu_fixture_close(&scene.fixture);
        order_model_detach();
    }
    return 0;
}

/* `first_calls`: the most calls in the first part of a captured batch; 0: as always. */
static void check_parts(uint32_t workers, const gantry_context_options *options, uint32_t graphs,
                        uint32_t first_calls)
{
    bool has_model = options->submission == GANTRY_SUBMISSION_STREAMS && options->wfi == GANTRY_WFI_PRECISE;
    struct graph *g = &scene.graph;
    memset(g, 0, sizeof(*g));
    order_model_attach(has_model);
    scene.is_open = true;
    gpu_fixture_open_with(&scene.fixture, workers, options);
    g->fixture = &scene.fixture;
    g->may_ask = !has_model;
    g->has_graphs =
        options->submission == GANTRY_SUBMISSION_GRAPHS || options->submission == GANTRY_SUBMISSION_AUTO;
    stamps_open(&g->stamps, scene.fixture.context, 4096);
    if (first_calls != 0) {
        gantry_context_dispatcher(scene.fixture.context)->graphs.size.first_calls = first_calls;
    }
    run_random_graphs(&scene.fixture, g, graphs);
    print_message("%u graphs, %llu waits\n", graphs, (unsigned long long)order_model_faults().waits);
    (void)close_scene(NULL);
}

static void check_with(uint32_t workers, const gantry_context_options *options, uint32_t graphs)
{
    check_parts(workers, options, graphs, 0);
}

static gantry_context_options default_options(void)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    options.submission =
        GANTRY_SUBMISSION_STREAMS; /* the model is of these, and so is the number of streams */
    return options;
}

static void test_order_is_kept_with_many_streams(void **state)
{
    (void)state;
    gantry_context_options options = default_options();
    check_with(2, &options, graphs_wanted / 2);
}

static void test_order_is_kept_with_few_streams(void **state)
{
    (void)state;
    gantry_context_options options = default_options();
    options.stream_limit = 3;
    check_with(2, &options, graphs_wanted / 4);
}

static void test_order_is_kept_with_one_stream_and_inline_tasks(void **state)
{
    (void)state;
    gantry_context_options options = default_options();
    options.stream_limit = 1;
    check_with(0, &options, graphs_wanted / 4);
}

static void test_order_is_kept_without_concurrent_streams(void **state)
{
    (void)state;
    gantry_context_options options = default_options();
    options.single_stream = 1;
    check_with(2, &options, graphs_wanted / 10);
}

static void test_order_is_kept_with_device_wide_waits(void **state)
{
    (void)state;
    gantry_context_options options = default_options();
    options.wfi = GANTRY_WFI_DEVICE_WIDE;
    check_with(2, &options, graphs_wanted / 4);
}

static void test_order_is_kept_in_graphs(void **state)
{
    (void)state;
    gantry_context_options options = default_options();
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    check_with(2, &options, graphs_wanted / 4);
    options.stream_limit = 3;
    options.wfi = GANTRY_WFI_DEVICE_WIDE;
    check_with(2, &options, graphs_wanted / 10);
}

static void test_order_is_kept_in_graphs_of_parts(void **state)
{
    (void)state;
    gantry_context_options options = default_options();
    options.submission = GANTRY_SUBMISSION_GRAPHS;
    for (uint32_t first_calls = 1; first_calls <= 5; first_calls += 2) {
        check_parts(2, &options, graphs_wanted / 20, first_calls);
    }
}

static void test_order_is_kept_by_auto(void **state)
{
    (void)state;
    gantry_context_options options = default_options();
    options.submission = GANTRY_SUBMISSION_AUTO;
    check_with(2, &options, graphs_wanted / 4);
}

#define TEST(name) cmocka_unit_test_teardown(name, close_scene)

int main(int argc, char **argv)
{
    if (getenv("GANTRY_TEST_LIGHT") != NULL) {
        graphs_wanted /= 3;
    }
    for (int i = 1; i + 1 < argc; i += 2) {
        unsigned long long value = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--graphs") == 0) {
            graphs_wanted = (uint32_t)value;
        } else if (strcmp(argv[i], "--seed") == 0) {
            first_seed = value;
        }
    }
    const struct CMUnitTest tests[] = {
        TEST(test_order_is_kept_with_many_streams),
        TEST(test_order_is_kept_with_few_streams),
        TEST(test_order_is_kept_with_one_stream_and_inline_tasks),
        TEST(test_order_is_kept_without_concurrent_streams),
        TEST(test_order_is_kept_with_device_wide_waits),
        TEST(test_order_is_kept_in_graphs),
        TEST(test_order_is_kept_in_graphs_of_parts),
        TEST(test_order_is_kept_by_auto),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
