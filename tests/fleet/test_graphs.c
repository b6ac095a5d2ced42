/* SPDX-License-Identifier: MIT */
/* Random graphs over the devices of a fleet: CPU tasks, sync points, and GPU tasks that each name a device.
 *
 * Whatever the shape, a GPU task that follows another, directly or through CPU tasks and sync points, begins
 * after the other has ended, on whatever device; a step comes after the whole step before it; and a task
 * that waits for the GPU's end of another starts after that.  The kernels record the order themselves, with
 * one clock in the memory of the first device: over PCI Express, additions to host memory are not atomic.
 * `--graphs N` sets how many graphs each test takes, `--seed N` the first one, `--test PATTERN` which tests.
 */
#include "base/handle.h"
#include "base/sanitizers.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/deadline.h"
#include "tests/support/gpu_fixture.h"

#include "fleet_kernels.kernels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROOM ((uint64_t)64 << 20) /* of device memory, in scenes in which tasks declare some */
#define BURST 500000u             /* ns */

enum { MOST_NODES = 32, RUNS = 5, MOST_DEVICES = 4, CELLS = 1 + 2 * RUNS * MOST_NODES };

static uint32_t graphs_wanted = GY_WITH_TSAN ? 20 : 60; /* of each kind */
static uint64_t first_seed = 1;

struct node {
    struct scene *scene;
    gantry_task_kind kind;
    uint32_t device, spins, index;
    bool fails;             /* its callback says that it has failed */
    bool is_stable;         /* it is launched again, and not called in each run */
    bool asks;              /* its callback asks for a sync point */
    gantry_status result;   /* of the latest run */
    uint32_t before;        /* bit i: node i precedes this one, directly or not */
    uint32_t ended;         /* bit i: the GPU has done node i before this one starts */
    gantry_task *completes; /* a task that starts when the GPU has done this one */
    gantry_task *task;
    _Atomic(uint32_t) released; /* the run in which it was called or run last, plus 1 */
};

struct scene {
    gantry_fleet *fleet;
    gantry_cpu_dispatcher *cpus;
    gantry_taskman *manager;
    gantry_kernel *kernels[MOST_DEVICES];
    gantry_kernel *of_run[MOST_DEVICES];
    uint32_t devices;
    uint32_t *cells; /* the last one is the run */
    uint32_t *on_device;
    uint32_t *clock;
    uint64_t random;
    uint32_t count, run;
    uint32_t fails_one_in; /* 0: no node fails */
    bool may_be_lost;      /* a driver call fails */
    uint32_t memories[4];  /* declared for this graph, by no node or by some */
    _Atomic(uint32_t) early;
    struct node nodes[MOST_NODES];
};

static struct scene scene;

/* The features that scenes opened from now on have besides. */
static struct {
    bool memory; /* tasks declare memory, of which there is not enough for all at once */
    bool share;  /* the manager has a bound on its GPU time */
    bool stable; /* most GPU tasks are stable, and graphs are frozen */
    bool asks;   /* some GPU tasks ask for a sync point of their device */
    bool few;    /* there are fewer streams than most graphs are wide */
} extra;

static uint32_t draw(struct scene *s, uint32_t below)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return (uint32_t)((s->random >> 32) % below);
}

/* Kernels of a context that broke may still run on the emulated driver. */
static uint32_t read_cell(const struct scene *s, uint32_t index)
{
    return __atomic_load_n(&s->cells[index], __ATOMIC_ACQUIRE);
}

static bool is_gpu(const struct node *node)
{
    return node->kind >= GANTRY_TASK_HTOD;
}

/* The cell of the node's begin in a run; the next cell is that of its end. */
static uint32_t cell_of(uint32_t run, uint32_t index)
{
    return 2 * (run * MOST_NODES + index);
}

/* Its ticks are those of all graphs of the scene; the first one is 1. */
static void open_clock(void)
{
    const uint32_t first = 1;
    gantry_context *owner = gantry_fleet_context(scene.fleet, 0);
    void *clock;
    assert_ok(gantry_heap_alloc(gantry_context_heap(owner), GANTRY_MEMORY_DEVICE, sizeof(first), 0,
                                GANTRY_ALLOC_SITE("clock"), &clock));
    gpu_fixture_upload(owner, clock, &first, sizeof(first));
    scene.clock = clock;
}

/* Use as many devices as are wanted, or all that a real machine has if those are fewer. */
static void open_scene(uint32_t wanted, gantry_submission submission, gantry_wait_mode wait)
{
    const uint32_t there = gpu_fixture_devices();
    const uint32_t devices = gpu_fixture_lacks_devices(wanted) ? there : wanted;
    memset(&scene, 0, sizeof(scene));
    static const char *const lists[] = {"", "0", "0,1", "2,0,1", "0,1,2,3"};
    gantry_context_options context = GANTRY_CONTEXT_OPTIONS_INIT;
    context.driver = gpu_fixture_driver();
    context.mode = GANTRY_CONTEXT_OWN;
    context.submission = submission;
    context.completion_wait = wait;
    context.stream_limit = extra.few ? 3 : context.stream_limit;
    gantry_heap_options heap = GANTRY_HEAP_OPTIONS_INIT;
    heap.limit_bytes[GANTRY_MEMORY_DEVICE] = extra.memory ? ROOM : 0;
    context.heap = &heap;
    gantry_fleet_options options = GANTRY_FLEET_OPTIONS_INIT;
    options.devices = devices == there ? "all" : lists[devices];
    options.context = &context;
    assert_ok(gantry_fleet_create(&options, &scene.fleet));
    scene.devices = gantry_fleet_device_count(scene.fleet);
    assert_int_equal(scene.devices, devices);
    gantry_cpu_dispatcher_options cpus = GANTRY_CPU_DISPATCHER_OPTIONS_INIT;
    cpus.worker_count = 2;
    assert_ok(gantry_cpu_dispatcher_create(&cpus, &scene.cpus));
    gantry_taskman_options manager = GANTRY_TASKMAN_OPTIONS_INIT;
    manager.cpu_dispatcher = scene.cpus;
    manager.fleet = scene.fleet;
    const gantry_share share = {sizeof(share), .percent = 60, .burst_ns = BURST, .group_us = 100};
    manager.share = extra.share ? &share : NULL;
    assert_ok(gantry_taskman_create(&manager, &scene.manager));
    for (uint32_t e = 0; e < devices; e++) {
        gantry_module *module;
        assert_ok(
            gantry_module_load(gantry_fleet_context(scene.fleet, e), &gantry_image_fleet_kernels, &module));
        assert_ok(gantry_module_get_kernel(module, "stamp", &scene.kernels[e]));
        assert_ok(gantry_module_get_kernel(module, "stamp_in_run", &scene.of_run[e]));
    }
    void *cells, *on_device;
    assert_ok(gantry_heap_alloc(gantry_context_heap(gantry_fleet_context(scene.fleet, 0)),
                                GANTRY_MEMORY_PINNED, CELLS * sizeof(uint32_t), 0,
                                GANTRY_ALLOC_SITE("stamps"), &cells));
    assert_ok(gantry_heap_device_address(gantry_context_heap(gantry_fleet_context(scene.fleet, 0)), cells,
                                         &on_device));
    scene.cells = cells;
    scene.on_device = on_device;
    open_clock();
}

static void close_scene(void)
{
    gantry_taskman_destroy(scene.manager);
    gantry_cpu_dispatcher_destroy(scene.cpus);
    gantry_heap *heap = gantry_context_heap(gantry_fleet_context(scene.fleet, 0));
    assert_ok(gantry_heap_free(heap, scene.clock));
    assert_ok(gantry_heap_free(heap, scene.cells));
    gantry_fleet_destroy(scene.fleet);
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static void check_host_order(struct node *node)
{
    struct scene *s = node->scene;
    for (uint32_t left = node->before; left != 0; left &= left - 1) {
        const struct node *p = &s->nodes[__builtin_ctz(left)];
        bool has_body = p->kind != GANTRY_TASK_SYNC_POINT && !p->is_stable;
        if (has_body && atomic_load(&p->released) != s->run + 1) {
            atomic_fetch_add(&s->early, 1);
        }
    }
    for (uint32_t left = node->ended; left != 0; left &= left - 1) {
        uint32_t p = (uint32_t)__builtin_ctz(left);
        if (is_gpu(&s->nodes[p]) && read_cell(s, cell_of(s->run, p) + 1) == 0) {
            atomic_fetch_add(&s->early, 1);
        }
    }
}

static gantry_status run_node(gantry_task *task, void *arg)
{
    (void)task;
    struct node *node = arg;
    check_host_order(node);
    atomic_store(&node->released, node->scene->run + 1);
    return node->fails ? GANTRY_ERR_IO : GANTRY_OK;
}

static void note_result(gantry_task *task, void *arg, gantry_status result)
{
    (void)task;
    ((struct node *)arg)->result = result;
}

static gantry_launch_result launch_node(gantry_launch *launch, void *arg)
{
    struct node *node = arg;
    struct scene *s = node->scene;
    check_host_order(node);
    if (node->fails) {
        return GANTRY_LAUNCH_FAILED;
    }
    if (gantry_launch_context(launch) != gantry_fleet_context(s->fleet, node->device)) {
        return GANTRY_LAUNCH_FAILED;
    }
    uint32_t *clock = s->clock;
    uint32_t *begin = &s->on_device[cell_of(node->is_stable ? 0 : s->run, node->index)];
    uint32_t *end = begin + 1, *run = &s->on_device[CELLS - 1], stride = cell_of(1, 0) - cell_of(0, 0);
    void *args[] = {&clock, &begin, &end, &node->spins};
    void *args_in_run[] = {&clock, &begin, &run, &stride, &node->spins};
    gantry_dim3 one = {1, 1, 1};
    gantry_kernel *kernel = node->is_stable ? s->of_run[node->device] : s->kernels[node->device];
    if (gantry_launch_kernel(launch, kernel, one, one, 0, node->is_stable ? args_in_run : args) !=
        GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    if (node->asks && gantry_launch_request_sync_point(launch) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    if (node->completes != NULL && gantry_launch_add_completion(launch, node->completes) != GANTRY_OK) {
        return GANTRY_LAUNCH_FAILED;
    }
    atomic_store(&node->released, s->run + 1);
    return GANTRY_LAUNCH_DONE;
}

static void declare_memories(struct scene *s)
{
    for (uint32_t i = 0; i < 4 && extra.memory; i++) {
        uint64_t bytes[GANTRY_MEMORY_KIND_COUNT] = {0};
        bytes[GANTRY_MEMORY_DEVICE] = ROOM / 8 * (1 + draw(s, 5));
        assert_ok(gantry_taskman_declare_memory(s->manager, bytes, &s->memories[i]));
    }
}

static void make_node(struct scene *s, uint32_t index)
{
    static const gantry_task_kind kinds[] = {GANTRY_TASK_CPU,    GANTRY_TASK_SYNC_POINT, GANTRY_TASK_HTOD,
                                             GANTRY_TASK_KERNEL, GANTRY_TASK_KERNEL,     GANTRY_TASK_DTOH};
    struct node *node = &s->nodes[index];
    memset(node, 0, sizeof(*node));
    node->scene = s;
    node->index = index;
    node->kind = kinds[draw(s, 6)];
    node->device = draw(s, s->devices);
    node->spins = draw(s, 3) == 0 ? 20000 + draw(s, 200000) : draw(s, 60); /* long enough to be overtaken */
    node->fails =
        node->kind != GANTRY_TASK_SYNC_POINT && s->fails_one_in != 0 && draw(s, s->fails_one_in) == 0;
    node->asks = extra.asks && draw(s, 4) == 0;
    node->is_stable = extra.stable && is_gpu(node) && draw(s, 4) != 0;
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = node->kind;
    desc.is_stable = node->is_stable;
    desc.release = note_result;
    desc.label = "node";
    desc.arg = node;
    desc.run = node->kind == GANTRY_TASK_CPU ? run_node : NULL;
    desc.launch = is_gpu(node) ? launch_node : NULL;
    desc.context = is_gpu(node) ? gantry_fleet_context(s->fleet, node->device) : NULL;
    desc.memory =
        extra.memory && node->kind != GANTRY_TASK_SYNC_POINT && draw(s, 2) == 0 ? s->memories[draw(s, 4)] : 0;
    assert_ok(gantry_taskman_submit(s->manager, &desc, &node->task));
    for (uint32_t edges = index == 0 ? 0 : draw(s, 4); edges > 0; edges--) {
        struct node *from = &s->nodes[draw(s, index)];
        uint32_t past = (1u << from->index) | from->before;
        if ((node->before >> from->index & 1u) != 0) {
            continue;
        }
        bool waits = node->kind == GANTRY_TASK_CPU && draw(s, 3) == 0;
        if (waits && (is_gpu(from) || from->kind == GANTRY_TASK_SYNC_POINT)) {
            assert_ok(gantry_task_start_after_done(node->task, from->task));
            node->ended |= past;
        } else {
            assert_ok(gantry_task_start_after(node->task, from->task));
            if (waits || draw(s, 4) != 0 || node->kind != GANTRY_TASK_CPU || !is_gpu(from) ||
                from->completes != NULL) {
                node->before |= past;
                continue;
            }
            from->completes = node->task;
            node->ended |= past;
        }
        node->before |= past;
    }
}

/* ---- what came out -------------------------------------------------------------------------- */

/* A node has failed if it says so, or if one before it has; no other node has. */
static void check_results(const struct scene *s, uint32_t graph)
{
    uint32_t failed = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        const struct node *node = &s->nodes[i];
        bool must_fail = node->fails || (node->before & failed) != 0;
        failed |= (uint32_t)must_fail << i;
        if (s->may_be_lost ? must_fail && node->result == GANTRY_OK
                           : (node->result != GANTRY_OK) != must_fail) {
            fail_msg("graph %u: node %u of device %u ended with %s", graph, i, node->device,
                     gantry_status_name(node->result));
        }
        failed |= (uint32_t)(node->result != GANTRY_OK) << i;
    }
}

/* Has the node done its work?  The loss of its device may have taken the work of a node that was called. */
static bool is_due(const struct scene *s, uint32_t i)
{
    return is_gpu(&s->nodes[i]) && s->nodes[i].result == GANTRY_OK && !s->may_be_lost;
}

/* No two stamps of a graph are the same tick, else the clock proves nothing. */
static void check_clock(const struct scene *s, uint32_t graph, uint32_t runs)
{
    for (uint32_t i = 0; i < cell_of(runs, 0); i++) {
        for (uint32_t other = 0; other < i && read_cell(s, i) != 0; other++) {
            if (read_cell(s, i) == read_cell(s, other)) {
                fail_msg("graph %u: two stamps are %u: the clock is not atomic", graph, read_cell(s, i));
            }
        }
    }
}

static void check_runs(const struct scene *s, uint32_t graph, uint32_t runs)
{
    uint32_t latest = 0; /* the end of the runs before */
    check_clock(s, graph, runs);
    for (uint32_t run = 0; run < runs; run++) {
        uint32_t end_of_run = latest;
        for (uint32_t i = 0; i < s->count; i++) {
            if (!is_gpu(&s->nodes[i]) || (read_cell(s, cell_of(run, i)) == 0 && !is_due(s, i))) {
                continue;
            }
            uint32_t begin = read_cell(s, cell_of(run, i)), end = read_cell(s, cell_of(run, i) + 1);
            if ((end == 0 && is_due(s, i)) || (run > 0 && begin <= latest)) {
                fail_msg("graph %u, run %u: node %u began at %u, ended at %u, the run before at %u", graph,
                         run, i, begin, end, latest);
            }
            end_of_run = end > end_of_run ? end : end_of_run;
            for (uint32_t left = s->nodes[i].before; left != 0; left &= left - 1) {
                uint32_t p = (uint32_t)__builtin_ctz(left);
                uint32_t before = read_cell(s, cell_of(run, p) + 1);
                if (is_gpu(&s->nodes[p]) && (before == 0 || before >= begin)) {
                    fail_msg("graph %u, run %u: node %u of device %u did not wait for %u of device %u", graph,
                             run, i, s->nodes[i].device, p, s->nodes[p].device);
                }
            }
        }
        latest = end_of_run;
    }
    if (atomic_load(&s->early) != 0) {
        fail_msg("graph %u: %u tasks too early on the host", graph, atomic_load(&s->early));
    }
}

static gantry_status build(struct scene *s, uint32_t graph, bool *is_frozen)
{
    s->random = UINT64_C(0x9e3779b97f4a7c15) * (graph + first_seed);
    s->count = 2 + draw(s, MOST_NODES - 1);
    memset(s->cells, 0, CELLS * sizeof(*s->cells));
    declare_memories(s);
    for (uint32_t i = 0; i < s->count; i++) {
        make_node(s, i);
    }
    *is_frozen = draw(s, 2) == 0 || extra.stable;
    return *is_frozen ? gantry_taskman_freeze(s->manager) : GANTRY_OK;
}

static void run_graph(struct scene *s, uint32_t graph)
{
    bool is_frozen;
    assert_ok(build(s, graph, &is_frozen));
    uint32_t runs = is_frozen ? RUNS : 1;
    deadline_begin("the end of a graph over several devices");
    for (s->run = 0; s->run < runs; s->run++) {
        s->cells[CELLS - 1] = s->run;
        assert_ok(gantry_taskman_start(s->manager));
        gantry_status status = gantry_taskman_stop(s->manager);
        assert_true(status == GANTRY_OK || s->fails_one_in != 0);
        check_results(s, graph);
        for (uint32_t e = 0; e < s->devices && (extra.stable || s->run + 1 == runs); e++) {
            assert_ok(gantry_context_synchronize(gantry_fleet_context(s->fleet, e)));
        }
    }
    deadline_end();
    assert_ok(gantry_taskman_reset(s->manager));
    check_runs(s, graph, runs);
}

static void run_graphs(uint32_t devices, gantry_submission submission, gantry_wait_mode wait)
{
    const uint32_t wanted = extra.memory || extra.share ? graphs_wanted / 2 : graphs_wanted;
    open_scene(devices, submission, wait);
    for (uint32_t n = 0; n < wanted; n++) {
        run_graph(&scene, n);
    }
    for (uint32_t e = 0; e < scene.devices && extra.stable; e++) {
        gantry_dispatcher_stats stats = {.struct_size = sizeof(stats)};
        gantry_context *context = gantry_fleet_context(scene.fleet, e);
        assert_ok(gantry_dispatcher_get_stats(gantry_context_dispatcher(context), &stats));
        assert_true(stats.graph_replays > 0);
    }
    close_scene();
}

static void test_one_device(void **state)
{
    (void)state;
    run_graphs(1, GANTRY_SUBMISSION_STREAMS, GANTRY_WAIT_HYBRID);
}

static void test_two_devices(void **state)
{
    (void)state;
    run_graphs(2, GANTRY_SUBMISSION_STREAMS, GANTRY_WAIT_HYBRID);
}

static void test_two_devices_in_graphs(void **state)
{
    (void)state;
    run_graphs(2, GANTRY_SUBMISSION_GRAPHS, GANTRY_WAIT_BLOCK);
}

static void test_three_devices_in_graphs(void **state)
{
    (void)state;
    run_graphs(3, GANTRY_SUBMISSION_GRAPHS, GANTRY_WAIT_HYBRID);
}

static void test_all_devices(void **state)
{
    (void)state;
    run_graphs(4, GANTRY_SUBMISSION_STREAMS, GANTRY_WAIT_BLOCK);
}

static void test_failing_tasks(void **state)
{
    (void)state;
    for (uint32_t devices = 2; devices <= 3; devices++) {
        open_scene(devices, devices == 2 ? GANTRY_SUBMISSION_STREAMS : GANTRY_SUBMISSION_GRAPHS,
                   GANTRY_WAIT_HYBRID);
        scene.fails_one_in = 8;
        for (uint32_t n = 0; n < graphs_wanted; n++) {
            run_graph(&scene, n);
        }
        close_scene();
    }
}

/* Tasks wait for memory that another task holds, on their device and through edges on the others. */
static void test_declared_memory(void **state)
{
    (void)state;
    extra.memory = true;
    run_graphs(2, GANTRY_SUBMISSION_STREAMS, GANTRY_WAIT_BLOCK);
    run_graphs(3, GANTRY_SUBMISSION_GRAPHS, GANTRY_WAIT_HYBRID);
}

/* The stable tasks of each device are launched again, in the order of the graph, also across devices. */
static void test_stable_tasks(void **state)
{
    (void)state;
    extra.stable = true;
    run_graphs(2, GANTRY_SUBMISSION_GRAPHS, GANTRY_WAIT_HYBRID);
    run_graphs(3, GANTRY_SUBMISSION_GRAPHS, GANTRY_WAIT_BLOCK);
}

/* What comes before a sync point of a device needs no wait of that device's streams, but work of the other
 * devices in the next step must still wait for it. */
static void test_sync_points(void **state)
{
    (void)state;
    extra.asks = true;
    run_graphs(2, GANTRY_SUBMISSION_STREAMS, GANTRY_WAIT_HYBRID);
    run_graphs(2, GANTRY_SUBMISSION_GRAPHS, GANTRY_WAIT_BLOCK);
}

/* Tasks share streams, also with graphs of which they are no part. */
static void test_few_streams(void **state)
{
    (void)state;
    extra.few = true;
    run_graphs(2, GANTRY_SUBMISSION_GRAPHS, GANTRY_WAIT_HYBRID);
    run_graphs(3, GANTRY_SUBMISSION_GRAPHS, GANTRY_WAIT_BLOCK);
}

static void test_shares(void **state)
{
    (void)state;
    extra.share = true;
    run_graphs(2, GANTRY_SUBMISSION_GRAPHS, GANTRY_WAIT_HYBRID);
    extra.memory = true;
    run_graphs(3, GANTRY_SUBMISSION_STREAMS, GANTRY_WAIT_BLOCK);
}

/* ---- faults --------------------------------------------------------------------------------- */

static struct gantry_emu_control emu;

/* The rules for a step in which something failed: a task that comes after a failed one has failed; the GPU
 * did the work that it did in order; and no task was told too early that the GPU had done another.  If a
 * device is lost all are, with a cause that names it. */
static void check_after_a_fault(struct scene *s, uint32_t n, bool is_frozen)
{
    gantry_status status = GANTRY_OK;
    for (uint32_t e = 0; e < s->devices && status == GANTRY_OK; e++) {
        status = gantry_context_synchronize(gantry_fleet_context(s->fleet, e));
    }
    bool is_lost = status != GANTRY_OK;
    check_runs(s, n, s->run + 1);
    for (uint32_t e = 0; e < s->devices; e++) {
        assert_int_equal(is_lost, !gantry_context_is_valid(gantry_fleet_context(s->fleet, e)));
    }
    if (is_lost) {
        assert_int_equal(gantry_taskman_start(s->manager),
                         is_frozen ? GANTRY_ERR_DEVICE_LOST : GANTRY_ERR_STATE);
        assert_int_equal(gantry_context_synchronize(gantry_fleet_context(s->fleet, 0)),
                         GANTRY_ERR_DEVICE_LOST);
        assert_non_null(strstr(gantry_last_error(), "device "));
    }
}

/* The ways to break a graph: a driver call or a kernel of one device fails. */
struct fault {
    const char *function; /* NULL: a kernel fails */
    int result;
    bool spreads_late; /* the other devices do not notice for a while */
};

static void break_something(const struct scene *s, uint32_t n, const struct fault *fault)
{
    emu.hold_spread(fault->spreads_late);
    if (fault->function != NULL) {
        assert_int_equal((emu.fail)(fault->function, 1 + n % 23, fault->result, GANTRY_EMU_ONCE), 0);
    } else {
        assert_int_equal(emu.fail_kernel_on((int)(n % s->devices), 1 + n % 7, fault->result, GANTRY_EMU_ONCE),
                         0);
    }
}

static void *let_it_spread(void *arg)
{
    (void)arg;
    struct timespec while_asleep = {.tv_nsec = 3000000};
    (void)nanosleep(&while_asleep, NULL);
    emu.hold_spread(0);
    return NULL;
}

/* One whole run of a graph of stable tasks. */
static void run_stable(struct scene *s)
{
    s->cells[CELLS - 1] = s->run;
    assert_ok(gantry_taskman_start(s->manager));
    assert_ok(gantry_taskman_stop(s->manager));
    for (uint32_t e = 0; e < s->devices; e++) {
        assert_ok(gantry_context_synchronize(gantry_fleet_context(s->fleet, e)));
    }
}

/* Something fails in the middle of a graph: nothing hangs, and no task that has failed is reported as
 * successful. */
static void run_faulty_graph(uint32_t n, const struct fault *fault)
{
    open_scene(2 + n % 2, extra.stable || n % 3 == 0 ? GANTRY_SUBMISSION_GRAPHS : GANTRY_SUBMISSION_STREAMS,
               n % 4 == 0 ? GANTRY_WAIT_BLOCK : GANTRY_WAIT_HYBRID);
    struct scene *s = &scene;
    bool is_frozen;
    pthread_t spreading;
    assert_ok(build(s, n, &is_frozen));
    deadline_begin("the end of a graph in which something fails");
    for (; extra.stable && s->run < RUNS - 1; s->run++) { /* most of what fails is launched again */
        run_stable(s);
    }
    s->cells[CELLS - 1] = s->run;
    s->may_be_lost = true;
    break_something(s, n, fault);
    assert_int_equal(pthread_create(&spreading, NULL, let_it_spread, NULL), 0);
    gantry_status status = gantry_taskman_start(s->manager);
    if (status == GANTRY_OK) {
        status = gantry_taskman_stop(s->manager);
        check_results(s, n);
        for (uint32_t i = 0; i < s->count && status == GANTRY_OK; i++) {
            assert_int_equal(s->nodes[i].result, GANTRY_OK); /* else the step has failed, too */
        }
    }
    assert_int_equal(pthread_join(spreading, NULL), 0);
    emu.clear_faults();
    check_after_a_fault(s, n, is_frozen);
    deadline_end();
    close_scene();
}

/* Can anything be made to fail?  The driver is loaded with the first context. */
static bool finds_controls(void)
{
    open_scene(2, GANTRY_SUBMISSION_STREAMS, GANTRY_WAIT_HYBRID);
    bool there = gpu_fixture_controls(&emu);
    close_scene();
    printf("%s", there ? "" : "left out: neither calls nor kernels of a real driver fail at will\n");
    return there;
}

static void test_faults_anywhere(void **state)
{
    (void)state;
    if (!finds_controls()) {
        return;
    }
    static const char *const functions[] = {"cuEventRecord", "cuStreamWaitEvent", "cuLaunchKernel",
                                            "cuEventCreate", "cuEventQuery",      "cuStreamCreate",
                                            "cuGraphLaunch"};
    for (uint32_t n = 0; n < graphs_wanted; n++) {
        struct fault fault = {functions[n % 7], n % 5 == 0 ? 2 : 700, n % 11 == 0};
        extra.memory = n % 2 == 0;
        run_faulty_graph(n, &fault);
    }
}

/* An illegal address ends all GPU work of the process, but the other devices notice later. */
static void test_kernels_fault_anywhere(void **state)
{
    (void)state;
    if (!finds_controls()) {
        return;
    }
    for (uint32_t n = 0; n < graphs_wanted; n++) {
        struct fault fault = {NULL, 700, n % 2 == 0};
        extra.memory = n % 3 == 0;
        run_faulty_graph(n, &fault);
    }
}

/* The same where most tasks are launched again without being called. */
static void test_faults_among_stable_tasks(void **state)
{
    (void)state;
    if (!finds_controls()) {
        return;
    }
    static const char *const functions[] = {"cuGraphLaunch", "cuEventRecord", "cuStreamWaitEvent"};
    extra.stable = true;
    for (uint32_t n = 0; n < graphs_wanted; n++) {
        const bool kernel = n % 2 == 0;
        struct fault fault = {kernel ? NULL : functions[n / 2 % 3], !kernel && n % 5 == 1 ? 2 : 700,
                              n % 4 == 0};
        run_faulty_graph(n, &fault);
    }
}

/* A test that failed has not taken its features back. */
static int begin_plain(void **state)
{
    (void)state;
    memset(&extra, 0, sizeof(extra));
    return 0;
}

int main(int argc, char **argv)
{
    setenv("GANTRY_EMU_DEVICES", "4", 1);
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--graphs") == 0) {
            graphs_wanted = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--seed") == 0) {
            first_seed = strtoull(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--test") == 0) {
            cmocka_set_test_filter(argv[i + 1]);
        }
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_one_device, begin_plain),
        cmocka_unit_test_setup(test_two_devices, begin_plain),
        cmocka_unit_test_setup(test_two_devices_in_graphs, begin_plain),
        cmocka_unit_test_setup(test_three_devices_in_graphs, begin_plain),
        cmocka_unit_test_setup(test_all_devices, begin_plain),
        cmocka_unit_test_setup(test_failing_tasks, begin_plain),
        cmocka_unit_test_setup(test_declared_memory, begin_plain),
        cmocka_unit_test_setup(test_stable_tasks, begin_plain),
        cmocka_unit_test_setup(test_sync_points, begin_plain),
        cmocka_unit_test_setup(test_few_streams, begin_plain),
        cmocka_unit_test_setup(test_shares, begin_plain),
        cmocka_unit_test_setup(test_faults_anywhere, begin_plain),
        cmocka_unit_test_setup(test_kernels_fault_anywhere, begin_plain),
        cmocka_unit_test_setup(test_faults_among_stable_tasks, begin_plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
