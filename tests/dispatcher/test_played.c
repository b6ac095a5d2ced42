/* SPDX-License-Identifier: MIT */
/* Batches of which the driver refuses to make or to launch a graph: their work goes to streams, in the order
 * that the graph would have had, and no context is lost.  Random programs, compared with what they come to
 * when their tasks are done one after the other; each with one refused call, or all of a kind. */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "order_kernels.kernels.h"
#include "tests/partition/plan_support.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"
#include "tests/support/log_lines.h"
#include "work/play.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 48, OUT_OF_MEMORY = 2, STEPS = 3 };

enum function { COUNT_UP, STAMP, AWAIT_FLAG, FUNCTIONS };

struct node {
    uint32_t index, from, also, by, spins; /* `from` and `also` come before it; itself: none */
    uint64_t before;                       /* bits of nodes that it comes after directly */
    bool is_raw, counts, asks;
    gantry_task *completes;
};

/* Words on the device, which are page-locked memory. */
struct cells {
    uint32_t clock, begin[MOST], end[MOST], value[MOST], copy[MOST];
};

static struct {
    struct gpu_fixture gpu;
    gantry_partition *partitions[2]; /* NULL: there is no plan */
    gantry_kernel *kernels[FUNCTIONS];
    struct cells *cells, *on_device;
    struct node nodes[MOST];
    uint32_t count;
    bool is_auto;
    uint64_t random;
    _Atomic(uint32_t) ran;
    uint32_t completes;
} s;

static struct gantry_emu_control emu;

/* ---- the scene --------------------------------------------------------------------------------- */

static void open_scene(bool is_planned, gantry_submission submission)
{
    static const char *const names[FUNCTIONS] = {"count_up", "stamp", "await_flag"};
    gantry_partition_request requests[] = {request("critical", GANTRY_PARTITION_AT_LEAST, 8),
                                           request("rest", GANTRY_PARTITION_REST, 0)};
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_module *module;
    void *cells, *on_device;
    memset(&s, 0, sizeof(s));
    s.is_auto = submission == GANTRY_SUBMISSION_AUTO;
    requests[0].priority = -1;
    plan.requests = requests;
    plan.count = 2;
    options.driver = gpu_fixture_driver();
    options.submission = submission;
    options.partitions = is_planned ? &plan : NULL;
    gpu_fixture_open_with(&s.gpu, 1, &options);
    for (uint32_t i = 0; i < 2 && is_planned; i++) {
        assert_ok(gantry_partition_find(s.gpu.context, requests[i].name, &s.partitions[i]));
    }
    gantry_heap *heap = gantry_context_heap(s.gpu.context);
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, sizeof(struct cells), 0,
                                GANTRY_ALLOC_SITE("cells"), &cells));
    assert_ok(gantry_heap_device_address(heap, cells, &on_device));
    s.cells = cells;
    s.on_device = on_device;
    assert_ok(gantry_module_load(s.gpu.context, &gantry_image_order_kernels, &module));
    for (int i = 0; i < FUNCTIONS; i++) {
        assert_ok(gantry_module_get_kernel(module, names[i], &s.kernels[i]));
    }
}

static int close_scene(void **state)
{
    (void)state;
    if (s.gpu.context != NULL) {
        emu.clear_faults();
        assert_ok(gantry_context_synchronize(s.gpu.context));
        assert_ok(gantry_heap_free(gantry_context_heap(s.gpu.context), s.cells));
        gpu_fixture_close(&s.gpu);
        s.gpu.context = NULL;
    }
    return 0;
}

static uint32_t draw(uint32_t below)
{
    s.random = s.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((s.random >> 33) % below);
}

/* ---- a program --------------------------------------------------------------------------------- */

static bool stamp(gantry_launch *launch, const struct node *node)
{
    void *clock = &s.on_device->clock, *begin = &s.on_device->begin[node->index],
         *end = &s.on_device->end[node->index];
    uint32_t spins = node->spins;
    void *args[] = {&clock, &begin, &end, &spins};
    return gantry_launch_kernel(launch, s.kernels[STAMP], (gantry_dim3){1, 1, 1}, (gantry_dim3){1, 1, 1}, 0,
                                args) == GANTRY_OK;
}

static bool count_up(gantry_launch *launch, const struct node *node)
{
    void *value = &s.on_device->value[node->index];
    uint32_t by = node->by;
    void *args[] = {&value, &by};
    return gantry_launch_kernel(launch, s.kernels[COUNT_UP], (gantry_dim3){1, 1, 1}, (gantry_dim3){2, 1, 1},
                                0, args) == GANTRY_OK;
}

/* Its value begins as that of a node before it. */
static bool begin_value(gantry_launch *launch, const struct node *node)
{
    uint32_t *to = &s.on_device->value[node->index], *from = &s.on_device->value[node->from];
    if (node->from == node->index) {
        return gantry_launch_fill(launch, to, node->by, 4, 1) == GANTRY_OK;
    }
    if (node->is_raw) {
        const struct gy_driver *driver = launch->dispatcher->config.context->driver;
        return driver->cuMemcpyDtoDAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, 4,
                                         gantry_launch_stream(launch)) == CUDA_SUCCESS;
    }
    return gantry_launch_copy_dtod(launch, to, from, 4) == GANTRY_OK;
}

static gantry_launch_result launch_node(gantry_launch *launch, void *arg)
{
    const struct node *node = arg;
    bool done = stamp(launch, node) && begin_value(launch, node) && (!node->counts || count_up(launch, node));
    if (done && node->also != node->index) {
        done = gantry_launch_copy_dtod(launch, &s.on_device->copy[node->index],
                                       &s.on_device->value[node->also], 4) == GANTRY_OK;
    }
    if (done && node->completes != NULL) {
        done = gantry_launch_add_completion(launch, node->completes) == GANTRY_OK;
    }
    if (done && node->asks) {
        done = gantry_launch_request_sync_point(launch) == GANTRY_OK;
    }
    return done ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

/* Another function, for which it is learnt by itself that it asks for its stream. */
static gantry_launch_result launch_raw(gantry_launch *launch, void *arg)
{
    return launch_node(launch, arg);
}

static gantry_status run_cpu(gantry_task *task, void *arg)
{
    (void)task;
    (void)arg;
    atomic_fetch_add(&s.ran, 1);
    return GANTRY_OK;
}

static void draw_program(uint64_t seed, bool has_raw)
{
    s.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    s.count = 2 + draw(MOST - 2);
    for (uint32_t i = 0; i < s.count; i++) {
        struct node *node = &s.nodes[i];
        *node = (struct node){.index = i, .from = i, .also = i};
        const uint32_t edges = i == 0 ? 0 : draw(4);
        for (uint32_t e = 0; e < edges; e++) {
            node->from = e == 0 ? draw(i) : node->from;
            node->also = e == 0 ? node->from : draw(i);
            node->before |= UINT64_C(1) << node->from | UINT64_C(1) << node->also;
        }
        node->is_raw = has_raw && draw(6) == 0;
        node->counts = draw(3) != 0;
        node->asks = draw(16) == 0;
        node->spins = draw(4) * 10;
    }
}

static gantry_task *submit_node(struct node *node, bool is_stable)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    gantry_task *task;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.label = "node";
    desc.launch = node->is_raw ? launch_raw : launch_node;
    desc.arg = node;
    desc.is_stable = is_stable;
    desc.partition = s.partitions[node->index % 2];
    assert_ok(gantry_taskman_submit(s.gpu.manager, &desc, &task));
    return task;
}

static void submit_program(bool is_stable)
{
    gantry_task *tasks[MOST];
    s.completes = 0;
    for (uint32_t i = 0; i < s.count; i++) {
        struct node *node = &s.nodes[i];
        node->completes = i % 5 == 4 ? gpu_fixture_cpu(&s.gpu, "told", run_cpu, NULL) : NULL;
        tasks[i] = submit_node(node, is_stable);
        if (node->completes != NULL) {
            gpu_fixture_after(node->completes, tasks[i]);
            s.completes++;
        }
        for (uint32_t p = 0; p < i; p++) {
            if ((node->before >> p & 1) != 0) {
                gpu_fixture_after(tasks[i], tasks[p]);
            }
        }
    }
}

static void begin_step(void)
{
    memset(s.cells, 0, sizeof(*s.cells));
    atomic_store(&s.ran, 0);
    for (uint32_t i = 0; i < s.count; i++) {
        s.nodes[i].by = 1 + draw(1000);
    }
}

static void check_step(const char *what)
{
    uint32_t values[MOST];
    assert_ok(gantry_context_synchronize(s.gpu.context));
    assert_true(gantry_context_is_valid(s.gpu.context));
    assert_int_equal(atomic_load(&s.ran), s.completes);
    for (uint32_t i = 0; i < s.count; i++) {
        const struct node *node = &s.nodes[i];
        values[i] = (node->from == i ? node->by : values[node->from]) + (node->counts ? 2 * node->by : 0);
        const uint32_t copy = node->also == i ? 0 : values[node->also];
        if (s.cells->value[i] != values[i] || s.cells->copy[i] != copy || s.cells->end[i] == 0) {
            fail_msg("%s: node %u has %u, %u, not %u, %u", what, i, s.cells->value[i], s.cells->copy[i],
                     values[i], copy);
        }
        for (uint64_t left = node->before; left != 0; left &= left - 1) {
            const uint32_t p = (uint32_t)__builtin_ctzll(left);
            if (s.cells->end[p] >= s.cells->begin[i]) {
                fail_msg("%s: node %u has begun before the end of node %u", what, i, p);
            }
        }
    }
}

static void run_step(const char *what)
{
    begin_step();
    submit_program(false);
    const gantry_status status = gpu_fixture_step(&s.gpu);
    if (status != GANTRY_OK) {
        fail_msg("%s: %s", what, gantry_last_error());
    }
    check_step(what);
}

static uint64_t plays(void)
{
    return gpu_fixture_stats(&s.gpu).graph_plays;
}

/* ---- refused calls ----------------------------------------------------------------------------- */

struct refused {
    const char *function;
    bool always;  /* it may be refused each time */
    bool plays;   /* then new shapes are played */
    bool has_raw; /* child graphs can still be launched */
};

static const struct refused calls[] = {
    {"cuGraphCreate", true, true, true},
    {"cuGraphAddKernelNode", true, false, true},
    {"cuGraphAddEventRecordNode", true, false, true},
    {"cuGraphAddChildGraphNode", true, false, true},
    {"cuStreamBeginCaptureToGraph", true, false, true},
    {"cuStreamGetCaptureInfo", true, false, true},
    {"cuStreamEndCapture", false, false, true},
    {"cuGraphInstantiateWithFlags", true, true, false},
    {"cuGraphUpload", true, false, true},
    {"cuGraphLaunch", true, true, false},
    {"cuGraphExecUpdate", true, false, true},
    {"cuGraphExecKernelNodeSetParams", true, false, true},
    {"cuGraphExecMemcpyNodeSetParams", true, false, true},
    {"cuGraphExecMemsetNodeSetParams", true, false, true},
    {"cuGraphExecEventRecordNodeSetEvent", true, false, true},
};
enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

static uint32_t programs = 10;

static void check_refused(const struct refused *call, uint64_t seed, uint64_t nth, bool always)
{
    char what[120];
    snprintf(what, sizeof(what), "%s number %u%s, program %u", call->function, (unsigned)nth,
             always ? " and all behind it" : "", (unsigned)seed);
    draw_program(always ? 100 + seed : seed, call->has_raw);
    assert_int_equal(
        (emu.fail)(call->function, nth, OUT_OF_MEMORY, always ? GANTRY_EMU_ALWAYS : GANTRY_EMU_ONCE), 0);
    const uint64_t before = plays();
    for (uint32_t step = 0; step < STEPS; step++) {
        run_step(what);
    }
    if (call->plays && always && nth == 1 && !s.is_auto) { /* its shape is new */
        assert_true(plays() > before);
    }
    emu.clear_faults();
}

static void check_all_refused(bool is_planned, gantry_submission submission)
{
    for (uint32_t c = 0; c < CALLS; c++) {
        open_scene(is_planned, submission);
        for (uint32_t i = 0; i < programs; i++) {
            check_refused(&calls[c], i, 1 + i * i, false);
            if (calls[c].always) {
                check_refused(&calls[c], i, 1 + i, true);
            }
        }
        print_message("%s: %llu batches were played\n", calls[c].function, (unsigned long long)plays());
        (void)close_scene(NULL);
    }
}

static void test_no_work_is_lost_by_a_graph_that_is_refused(void **state)
{
    (void)state;
    check_all_refused(false, GANTRY_SUBMISSION_GRAPHS);
}

static void test_nor_in_partitions(void **state)
{
    (void)state;
    check_all_refused(true, GANTRY_SUBMISSION_GRAPHS);
}

static void test_nor_by_auto(void **state)
{
    (void)state;
    check_all_refused(false, GANTRY_SUBMISSION_AUTO);
}

/* Frozen steps of stable tasks: what could not be recorded is called, and recorded later. */
static void test_stable_tasks_are_called(void **state)
{
    (void)state;
    static const char *const functions[] = {"cuGraphCreate", "cuGraphInstantiateWithFlags", "cuGraphLaunch",
                                            "cuGraphAddKernelNode", "cuGraphExecUpdate"};
    for (uint32_t f = 0; f < sizeof(functions) / sizeof(functions[0]); f++) {
        open_scene(false, GANTRY_SUBMISSION_GRAPHS);
        for (uint32_t nth = 1; nth <= 4; nth++) {
            draw_program(nth, false);
            begin_step();
            submit_program(true);
            assert_ok(gantry_taskman_freeze(s.gpu.manager));
            assert_int_equal((emu.fail)(functions[f], nth, OUT_OF_MEMORY, GANTRY_EMU_ONCE), 0);
            for (uint32_t step = 0; step < 8; step++) {
                memset(s.cells, 0, sizeof(*s.cells));
                atomic_store(&s.ran, 0);
                assert_ok(gantry_taskman_start(s.gpu.manager));
                assert_ok(gantry_taskman_stop(s.gpu.manager));
                check_step(functions[f]);
            }
            emu.clear_faults();
            assert_ok(gantry_taskman_reset(s.gpu.manager));
        }
        (void)close_scene(NULL);
    }
}

/* ---- what it costs ----------------------------------------------------------------------------- */

/* The player's. */
static uint32_t count_events(void)
{
    const struct gy_player *player = &gantry_context_dispatcher(s.gpu.context)->graphs.player;
    uint32_t count = 0;
    for (uint32_t i = 0; i < GY_PLAY_EVENTS; i++) {
        count += player->events[i].native != NULL;
    }
    return count;
}

static void test_nothing_is_made_in_the_steady_state(void **state)
{
    (void)state;
    struct log_lines lines;
    open_scene(false, GANTRY_SUBMISSION_GRAPHS);
    draw_program(3, false);
    log_lines_begin(&lines, "takes no graph");
    assert_int_equal((emu.fail)("cuGraphCreate", 1, OUT_OF_MEMORY, GANTRY_EMU_ALWAYS), 0);
    run_step("first");
    run_step("second");
    const uint32_t events = count_events();
    assert_true(events != 0);
    for (uint32_t step = 0; step < 20; step++) {
        run_step("later");
    }
    assert_int_equal(count_events(), events);
    assert_int_equal(log_lines_end(&lines), 1);
    (void)close_scene(NULL);
}

/* If the streams refuse it as well the context is lost, and nothing hangs. */
static void test_what_streams_refuse_too_is_lost(void **state)
{
    (void)state;
    open_scene(false, GANTRY_SUBMISSION_GRAPHS);
    draw_program(3, false);
    assert_int_equal((emu.fail)("cuGraphCreate", 1, OUT_OF_MEMORY, GANTRY_EMU_ALWAYS), 0);
    assert_int_equal((emu.fail)("cuLaunchKernel", 12, OUT_OF_MEMORY, GANTRY_EMU_ALWAYS), 0);
    begin_step();
    submit_program(false);
    assert_int_equal(gpu_fixture_step(&s.gpu), GANTRY_ERR_DEVICE_LOST);
    assert_false(gantry_context_is_valid(s.gpu.context));
    emu.clear_faults();
    assert_ok(gantry_heap_free(gantry_context_heap(s.gpu.context), s.cells));
    gpu_fixture_close(&s.gpu);
    s.gpu.context = NULL;
}

/* ---- the player -------------------------------------------------------------------------------- */

/* More nodes are waited for than there are events: on three lanes, of which the first begins with a kernel
 * that takes long, each node takes its value from one that was noted long before it on another lane. */
enum { LANES = 3, NODES = 4 * GY_PLAY_EVENTS, BACK = 2 * GY_PLAY_EVENTS + 2 };

static void note_stamp(struct gy_lane *lane, uint32_t index, uint32_t spins)
{
    void *clock = &s.on_device->clock, *begin = &s.on_device->begin[index], *end = &s.on_device->end[index];
    void *args[] = {&clock, &begin, &end, &spins};
    const struct gy_launch_size size = {.grid = {1, 1, 1}, .block = {1, 1, 1}};
    assert_ok(gy_lane_kernel(lane, s.kernels[STAMP], &size, args, NULL));
}

static void note_nodes(struct gy_lane *lanes, const uint32_t *words)
{
    static struct gy_node_set after[NODES];
    note_stamp(&lanes[0], 0, 200000);
    for (uint32_t i = 0; i < NODES; i++) {
        struct gy_lane *lane = &lanes[i % LANES];
        const CUdeviceptr to = (CUdeviceptr)(uintptr_t)(words + i);
        if (i < BACK) {
            assert_ok(gy_lane_fill(lane, gy_fill_of(to, i + 1, 4, 1)));
        } else {
            assert_ok(gy_lane_wait(lane, after[i - BACK]));
            assert_ok(gy_lane_copy(lane, to, to - BACK * sizeof(*words), sizeof(*words), GY_SIDES_ON_DEVICE));
        }
        after[i] = lane->last;
    }
    note_stamp(&lanes[0], 1, 3000000);
}

static uint32_t count_sides(const struct gy_side_streams *sides)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < GY_SIDE_STREAMS; i++) {
        count += sides->of[i].native != NULL;
    }
    return count;
}

/* Not where events would be used again; and what could not be made once is made later. */
static void check_apart(struct gy_context *context, struct gy_nodes *nodes, CUstream home)
{
    static struct gy_player player;
    static struct gy_side_streams sides;
    gy_side_streams_init(&sides, context);
    gy_player_init(&player, context, &sides);
    assert_false(gy_play_apart(&player, nodes, nodes->count, home));
    assert_int_equal((emu.fail)("cuEventCreate", 1, OUT_OF_MEMORY, GANTRY_EMU_ALWAYS), 0);
    for (int i = 0; i < 3; i++) {
        assert_false(gy_play_apart(&player, nodes, BACK, home));
        assert_int_equal(count_sides(&sides), 1);
    }
    emu.clear_faults();
    for (int i = 0; i < 3; i++) {
        assert_true(gy_play_apart(&player, nodes, BACK, home));
        assert_int_equal(count_sides(&sides), LANES);
    }
    gy_player_fini(&player);
    gy_side_streams_fini(&sides);
}

static void play_nodes(struct gy_context *context, struct gy_nodes *nodes, CUstream home)
{
    static struct gy_player player;
    static struct gy_side_streams sides;
    gy_side_streams_init(&sides, context);
    gy_player_init(&player, context, &sides);
    emu.hold(); /* the device begins when all of it is there */
    assert_ok(gy_play_begin(&player, nodes, nodes->count, home));
    for (uint32_t most = 1; gy_play_has_more(&player); most++) {
        assert_ok(gy_play_some(&player, most));
    }
    assert_ok(gy_play_end(&player));
    emu.release();
    assert_int_equal(context->driver->cuStreamSynchronize(home), CUDA_SUCCESS);
    gy_player_fini(&player);
    gy_side_streams_fini(&sides);
}

static void test_events_are_used_again(void **state)
{
    (void)state;
    struct gy_nodes nodes;
    struct gy_lane lanes[LANES];
    CUstream home, streams[LANES];
    void *words, *on_device;
    open_scene(false, GANTRY_SUBMISSION_STREAMS);
    gantry_heap *heap = gantry_context_heap(s.gpu.context);
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, NODES * sizeof(uint32_t), 0,
                                GANTRY_ALLOC_SITE("words"), &words));
    assert_ok(gantry_heap_device_address(heap, words, &on_device));
    struct gy_context *context = s.gpu.context->cuda;
    assert_ok(gy_context_enter(context));
    assert_ok(gy_context_create_stream(context, NULL, 0, &home));
    gy_nodes_init(&nodes, context);
    for (uint32_t i = 0; i < LANES; i++) {
        assert_ok(gy_context_create_stream(context, NULL, 0, &streams[i]));
        lanes[i] = gy_lane_of(streams[i], 0);
        lanes[i].nodes = &nodes;
    }
    memset(s.cells, 0, sizeof(*s.cells));
    note_nodes(lanes, on_device);
    check_apart(context, &nodes, home);
    play_nodes(context, &nodes, home);
    assert_true(s.cells->end[0] != 0 && s.cells->end[1] != 0);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(((uint32_t *)words)[i], 1 + i % BACK);
    }
    for (uint32_t i = 0; i < LANES; i++) {
        gy_context_drop_stream(context, &streams[i]);
    }
    gy_context_drop_stream(context, &home);
    gy_nodes_fini(&nodes);
    assert_ok(gy_context_pop(context));
    assert_ok(gantry_heap_free(heap, words));
    (void)close_scene(NULL);
}

/* Home comes after each lane, the first, the last and the only one, on streams of their own and apart. */
static void check_end_of_lanes(struct gy_context *context, struct gy_lane *lanes, uint32_t count,
                               CUstream home)
{
    static struct gy_player player;
    static struct gy_side_streams sides;
    void *other = NULL;
    gy_side_streams_init(&sides, context);
    gy_player_init(&player, context, &sides);
    for (uint32_t apart = 0; apart < 2; apart++) {
        struct gy_nodes *nodes = lanes[0].nodes;
        gy_nodes_clear(nodes);
        for (uint32_t i = 0; i < count; i++) {
            lanes[i].last.count = 0;
            note_stamp(&lanes[i], 0, i);
        }
        emu.hold(); /* so that the host does not come after anything */
        emu.watch_begin();
        assert_int_equal(apart != 0 && gy_play_apart(&player, nodes, count, home), apart);
        assert_ok(gy_play_begin(&player, nodes, count, home));
        assert_ok(gy_play_some(&player, count));
        assert_ok(gy_play_end(&player));
        assert_int_equal(emu.watch_end(home, &other), 0);
        emu.release();
        assert_int_equal(context->driver->cuStreamSynchronize(home), CUDA_SUCCESS);
    }
    gy_player_fini(&player);
    gy_side_streams_fini(&sides);
}

static void test_home_comes_after_each_lane(void **state)
{
    (void)state;
    enum { MOST_LANES = 6 };
    struct gy_nodes nodes;
    struct gy_lane lanes[MOST_LANES];
    CUstream home, streams[MOST_LANES];
    open_scene(false, GANTRY_SUBMISSION_STREAMS);
    struct gy_context *context = s.gpu.context->cuda;
    assert_ok(gy_context_enter(context));
    assert_ok(gy_context_create_stream(context, NULL, 0, &home));
    gy_nodes_init(&nodes, context);
    for (uint32_t i = 0; i < MOST_LANES; i++) {
        assert_ok(gy_context_create_stream(context, NULL, 0, &streams[i]));
        lanes[i] = gy_lane_of(streams[i], 0);
        lanes[i].nodes = &nodes;
    }
    for (uint32_t count = 1; count <= MOST_LANES; count++) {
        check_end_of_lanes(context, lanes, count, home);
    }
    for (uint32_t i = 0; i < MOST_LANES; i++) {
        gy_context_drop_stream(context, &streams[i]);
    }
    gy_context_drop_stream(context, &home);
    gy_nodes_fini(&nodes);
    assert_ok(gy_context_pop(context));
    (void)close_scene(NULL);
}

/* The kernel goes on when the host has set the first value; the next one says whether it has seen that. */
static void note_await(struct gy_lane *lane)
{
    void *flag = &s.on_device->value[0], *seen = &s.on_device->value[1];
    uint64_t most_ns = UINT64_C(10000000000);
    void *args[] = {&flag, &seen, &most_ns};
    const struct gy_launch_size size = {.grid = {1, 1, 1}, .block = {1, 1, 1}};
    assert_ok(gy_lane_kernel(lane, s.kernels[AWAIT_FLAG], &size, args, NULL));
}

static void play_held_up(struct gy_context *context, struct gy_nodes *nodes, CUstream home, CUevent end)
{
    static struct gy_player player;
    static struct gy_side_streams sides;
    gy_side_streams_init(&sides, context);
    gy_player_init(&player, context, &sides);
    assert_ok(gy_play_begin(&player, nodes, nodes->count, home));
    assert_ok(gy_play_some(&player, nodes->count));
    assert_ok(gy_play_end(&player));
    assert_int_equal(context->driver->cuEventSynchronize(end), CUDA_SUCCESS);
    assert_int_not_equal(s.cells->end[0], 0);
    __atomic_store_n(&s.cells->value[0], 1, __ATOMIC_RELEASE);
    assert_int_equal(context->driver->cuStreamSynchronize(home), CUDA_SUCCESS);
    assert_int_equal(s.cells->value[1], 2);
    gy_player_fini(&player);
    gy_side_streams_fini(&sides);
}

/* An end may be noted when its lane has gone on. */
static void test_an_end_waits_for_its_own_node_only(void **state)
{
    (void)state;
    struct gy_nodes nodes;
    CUstream home;
    CUevent end;
    open_scene(false, GANTRY_SUBMISSION_STREAMS);
    struct gy_context *context = s.gpu.context->cuda;
    assert_ok(gy_context_enter(context));
    assert_ok(gy_context_create_stream(context, NULL, 0, &home));
    assert_int_equal(context->driver->cuEventCreate(&end, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    gy_nodes_init(&nodes, context);
    struct gy_lane lane = gy_lane_of(home, 0);
    lane.nodes = &nodes;
    memset(s.cells, 0, sizeof(*s.cells));
    note_stamp(&lane, 0, 0);
    struct gy_lane before = lane;
    note_await(&lane);
    assert_ok(gy_lane_end(&before, end));
    play_held_up(context, &nodes, home, end);
    assert_int_equal(context->driver->cuEventDestroy(end), CUDA_SUCCESS);
    gy_context_drop_stream(context, &home);
    gy_nodes_fini(&nodes);
    assert_ok(gy_context_pop(context));
    (void)close_scene(NULL);
}

#define TEST(name) cmocka_unit_test_teardown(name, close_scene)

int main(void)
{
    open_scene(false, GANTRY_SUBMISSION_STREAMS); /* the driver is loaded */
    const bool has_emu = gpu_fixture_controls(&emu);
    assert_ok(gantry_heap_free(gantry_context_heap(s.gpu.context), s.cells));
    gpu_fixture_close(&s.gpu);
    s.gpu.context = NULL;
    if (!has_emu) {
        puts("skipped: only the emulated driver refuses calls when it is told to");
        return 77;
    }
    if (getenv("GANTRY_TEST_LIGHT") != NULL) {
        programs = 4;
    }
    const struct CMUnitTest tests[] = {
        TEST(test_no_work_is_lost_by_a_graph_that_is_refused),
        TEST(test_nor_in_partitions),
        TEST(test_nor_by_auto),
        TEST(test_stable_tasks_are_called),
        TEST(test_nothing_is_made_in_the_steady_state),
        TEST(test_what_streams_refuse_too_is_lost),
        TEST(test_events_are_used_again),
        TEST(test_home_comes_after_each_lane),
        TEST(test_an_end_waits_for_its_own_node_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
