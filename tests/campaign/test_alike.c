/* SPDX-License-Identifier: MIT */
/* Random steps that are nearly alike: each is the one before with some change, and is built anew.
 *
 *   test_campaign_alike [--seeds N] [--first SEED]
 *
 * A seed is a context with a way of submission, maybe partitions or a recording, and a sequence of steps.
 * What a step may change is a row: arguments, sizes, functions, edges and kinds of nodes at any place, nodes
 * that are added or are gone, work that leaves the graph or is foreign to it in the middle, another order of
 * release, and steps that are submitted while earlier ones are in flight.  All cells are compared with a
 * sequential run. Without options each row and each two rows must have met in a step that was a graph, and
 * diverged at each place, a number of times; and of steps that change no shape 90 % of the nodes must have
 * been patched. */
#include "context/context.h"
#include "driver/places.h"
#include "tests/campaign/workload.h"
#include "tests/support/emu_controls.h"
#include "tests/support/gpu_fixture.h"

#include "alike_kernels.kernels.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    NODES = 64,
    ROOM = 2 * NODES, /* of a step that has grown */
    LANES = 6,
    STEPS = 16,
    NONE = UINT16_MAX,
    SKIPPED = 77,
    PAUSE_NS = 400000,
    SEEDS = 480,
    LEAST = 100,       /* steps of a row */
    LEAST_PAIR = 5,    /* steps of two rows */
    LEAST_PLACE = 100, /* steps that diverge in a third, or at an end */
};

enum row {
    ROW_ONE_ARGUMENT,
    ROW_MANY_ARGUMENTS,
    ROW_SIZES,
    ROW_FUNCTION,
    ROW_OPTIONS, /* of a launch */
    ROW_EDGE,
    ROW_KIND,
    ROW_LONGER,
    ROW_SHORTER,
    ROW_RAW,    /* a callback enqueues on its stream */
    ROW_LEAVES, /* a callback leaves the graph */
    ROW_WAITS,  /* a callback waits for the context, which the guard refuses */
    ROW_ORDER,  /* of release */
    ROW_FLIGHT, /* an earlier step is in flight */
    ROWS
};
static const char *const row_names[ROWS] = {
    "one argument", "many arguments", "sizes",      "function", "options", "edge",  "kind",
    "longer",       "shorter",        "raw stream", "leaves",   "waits",   "order", "in flight"};

enum place { PLACE_FIRST, PLACE_LAST, PLACE_BEGIN, PLACE_MIDDLE, PLACE_END, PLACES };
static const char *const place_names[PLACES] = {"first node", "last node", "first third", "second third",
                                                "last third"};

enum kind { KIND_GROW, KIND_TURN, KIND_COPY, KIND_FILL, KINDS };
enum call { CALL_OURS, CALL_RAW, CALL_LEAVES, CALL_WAITS };

struct alike {
    uint32_t code, pause_ns;
    uint16_t in, after; /* after: NONE, or one more node that it comes after */
    uint8_t kind, call, blocks, threads, options;
};

struct met {
    uint32_t rows[ROWS], pairs[ROWS][ROWS], places[PLACES];
    uint64_t patched, patchable, as_streams, as_graphs; /* the last two: steps in AUTO */
};

static struct {
    uint64_t seed;
    struct rng rng;
    char options[96];
    gantry_submission submission;
    bool holds, is_recorded, is_calm; /* calm: no step changes the shape, or its edges alone */
    gantry_context *context;
    gantry_taskman *manager;
    gantry_kernel *kernels[2];
    uint32_t *cells, *on_device, expected[ROOM + 1]; /* of each node; and one that all read */
    struct alike nodes[ROOM];
    uint32_t count, step;
    uint32_t rows;   /* bits: what this step changes */
    uint32_t places; /* bits: where */
} s;

static struct met met[GANTRY_SUBMISSION_AUTO + 1];
static struct gantry_emu_control emu;

/* ---- failures ---------------------------------------------------------------------------------- */

static void broken(const char *format, ...) GANTRY_PRINTF(1, 2);
static void broken(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "seed %llu (%s), step %u, changes:", (unsigned long long)s.seed, s.options, s.step);
    for (uint32_t row = 0; row < ROWS; row++) {
        if ((s.rows >> row & 1) != 0) {
            fprintf(stderr, " %s,", row_names[row]);
        }
    }
    (void)vfprintf(stderr, format, args);
    fprintf(stderr, "\nrepeat with --first %llu --seeds 1\n", (unsigned long long)s.seed);
    va_end(args);
    _exit(1);
}

static void must(gantry_status status, const char *what)
{
    if (status != GANTRY_OK) {
        broken(" %s: %s: %s", what, gantry_status_name(status), gantry_last_error());
    }
}

static void refuse_message(void *user, gantry_log_level level, const char *line)
{
    (void)user;
    (void)level;
    broken(" the log says %s", line);
}

/* ---- callbacks --------------------------------------------------------------------------------- */

static uint32_t blocks_of(const struct alike *n)
{
    return n->options == 1 ? 2u * n->blocks : n->blocks; /* clusters of two */
}

static void launch_kernel(gantry_launch *launch, const struct alike *n)
{
    gantry_launch_options options = GANTRY_LAUNCH_OPTIONS_INIT;
    const gantry_dim3 grid = {blocks_of(n), 1, 1}, block = {n->threads, 1, 1};
    void *out = &s.on_device[n - s.nodes], *in = &s.on_device[n->in];
    uint32_t code = n->code, pause_ns = n->pause_ns;
    void *args[] = {&out, &in, &code, &pause_ns};
    options.cluster.x = n->options == 1 ? 2 : 0;
    options.cluster.y = options.cluster.z = n->options == 1 ? 1 : 0;
    options.has_priority = n->options == 2;
    options.memory_domain = n->options == 3 ? GANTRY_MEMORY_DOMAIN_REMOTE : GANTRY_MEMORY_DOMAIN_DEFAULT;
    must(gantry_launch_kernel_with(launch, s.kernels[n->kind], grid, block, 0, args,
                                   n->options != 0 ? &options : NULL),
         "kernel");
}

static gantry_launch_result launch_ours(gantry_launch *launch, void *arg)
{
    const struct alike *n = arg;
    uint32_t *out = &s.on_device[n - s.nodes];
    if (n->kind == KIND_COPY) {
        must(gantry_launch_copy_dtod(launch, out, &s.on_device[n->in], 4), "copy");
    } else if (n->kind == KIND_FILL) {
        must(gantry_launch_fill(launch, out, n->code, 4, 1), "fill");
    } else {
        launch_kernel(launch, n);
    }
    return GANTRY_LAUNCH_DONE;
}

static gantry_launch_result launch_raw(gantry_launch *launch, void *arg)
{
    const struct alike *n = arg;
    const CUdeviceptr out = (CUdeviceptr)(uintptr_t)&s.on_device[n - s.nodes];
    const CUstream stream = gantry_launch_stream(launch);
    const CUresult result = s.context->cuda->driver->cuMemsetD32Async(out, n->code, 1, stream);
    if (stream == NULL || result != CUDA_SUCCESS) {
        broken(" a fill on the raw stream: %d", (int)result);
    }
    return GANTRY_LAUNCH_DONE;
}

static gantry_launch_result launch_leaving(gantry_launch *launch, void *arg)
{
    must(gantry_launch_leave_graph(launch), "leaving the graph");
    return launch_ours(launch, arg);
}

static gantry_launch_result launch_waiting(gantry_launch *launch, void *arg)
{
    (void)s.context->cuda->driver->cuCtxSynchronize(); /* a refusal makes the library call once more */
    return launch_ours(launch, arg);
}

/* ---- the sequential run ------------------------------------------------------------------------ */

static uint32_t result_of(const struct alike *n, uint32_t own, uint32_t in)
{
    if (n->call == CALL_RAW || n->kind == KIND_FILL) {
        return n->code;
    }
    switch (n->kind) {
    case KIND_GROW:
        return (own * 16777619u ^ n->code) + in + 31u * blocks_of(n) + n->threads;
    case KIND_TURN:
        return ((own >> 7 | own << 25) + n->code) ^ (in + 17u * blocks_of(n) + n->threads);
    default:
        return in;
    }
}

static void expect_step(void)
{
    for (uint32_t i = 0; i < s.count; i++) {
        const struct alike *n = &s.nodes[i];
        s.expected[i] = result_of(n, s.expected[i], s.expected[n->in]);
    }
}

static void check(void)
{
    must(gantry_context_synchronize(s.context), "synchronise");
    for (uint32_t i = 0; i <= ROOM; i++) {
        if (s.cells[i] != s.expected[i]) {
            broken(" cell %u has %x, not %x", i, s.cells[i], s.expected[i]);
        }
    }
}

/* ---- changes ----------------------------------------------------------------------------------- */

/* A node reads the cell of one that comes before it; the first ones read a cell that nobody writes. */
static void draw_edges(uint32_t i)
{
    struct alike *n = &s.nodes[i];
    n->in = (uint16_t)(i < LANES ? ROOM : draw(&s.rng, i));
    n->after = (uint16_t)(i < LANES || draw(&s.rng, 3) != 0 ? NONE : draw(&s.rng, i));
}

static void draw_node(uint32_t i)
{
    s.nodes[i] =
        (struct alike){.code = draw(&s.rng, UINT32_MAX),
                       .kind = (uint8_t)(draw(&s.rng, 4) != 0 ? draw(&s.rng, 2) : draw(&s.rng, KINDS)),
                       .blocks = 1,
                       .threads = 1};
    draw_edges(i);
}

static uint32_t draw_place(void)
{
    const uint32_t at = draw(&s.rng, 6), i = at == 0 ? 0 : at == 1 ? s.count - 1 : draw(&s.rng, s.count);
    s.places |= (i == 0 ? 1u << PLACE_FIRST : 0) | (i + 1 == s.count ? 1u << PLACE_LAST : 0) |
                1u << (PLACE_BEGIN + 3 * i / s.count);
    return i;
}

/* A node that is a kernel of ours, at any place or the next one behind it; NULL: there is none. */
static struct alike *draw_kernel(void)
{
    const uint32_t first = draw(&s.rng, s.count);
    for (uint32_t k = 0; k < s.count; k++) {
        struct alike *n = &s.nodes[(first + k) % s.count];
        if (n->kind <= KIND_TURN && n->call == CALL_OURS) {
            return n;
        }
    }
    return NULL;
}

static void change_kernel(enum row row)
{
    struct alike *n = draw_kernel();
    if (n == NULL) {
        s.rows &= ~(1u << row);
    } else if (row == ROW_SIZES) {
        n->blocks = (uint8_t)(1 + n->blocks % 5);
        n->threads = (uint8_t)(1 + draw(&s.rng, 64));
    } else if (row == ROW_FUNCTION) {
        n->kind = n->kind == KIND_GROW ? KIND_TURN : KIND_GROW;
    } else {
        n->options = (uint8_t)((n->options + 1 + draw(&s.rng, 3)) % 4);
    }
}

static void change_arguments(uint32_t count)
{
    for (uint32_t k = 0; k < count; k++) {
        struct alike *n = &s.nodes[draw(&s.rng, s.count)];
        n->code = n->code * 5 + 1;
    }
}

static void change_call(enum call call)
{
    s.nodes[draw_place()].call = (uint8_t)call;
}

static void change(enum row row)
{
    switch (row) {
    case ROW_ONE_ARGUMENT:
        change_arguments(1);
        break;
    case ROW_MANY_ARGUMENTS:
        change_arguments(s.count);
        break;
    case ROW_SIZES:
    case ROW_FUNCTION:
    case ROW_OPTIONS:
        change_kernel(row);
        break;
    case ROW_EDGE: {
        const uint32_t i = draw_place();
        s.nodes[i].in = (uint16_t)(i < LANES ? ROOM : draw(&s.rng, i));
        s.nodes[s.nodes[i].in % ROOM].pause_ns = PAUSE_NS; /* who reads it early reads an old word */
        break;
    }
    case ROW_KIND: {
        struct alike *n = &s.nodes[draw_place()];
        n->kind = (uint8_t)((n->kind + 2) % KINDS);
        break;
    }
    case ROW_LONGER:
        for (uint32_t more = 1 + draw(&s.rng, 4); more > 0 && s.count < ROOM; more--) {
            draw_node(s.count++);
        }
        break;
    case ROW_SHORTER:
        s.count -= s.count > NODES / 2 ? 1 + draw(&s.rng, 4) : 0;
        break;
    case ROW_RAW:
    case ROW_LEAVES:
    case ROW_WAITS:
        change_call((enum call)(CALL_RAW + (row - ROW_RAW)));
        break;
    case ROW_ORDER:
    case ROW_FLIGHT:
    case ROWS:
        break;
    }
}

/* What is foreign to graphs, or has options, in one step is mostly gone in the next. */
static void settle(void)
{
    const bool stays = draw(&s.rng, 4) == 0;
    for (uint32_t i = 0; i < s.count && !stays; i++) {
        s.nodes[i].call = CALL_OURS;
        s.nodes[i].pause_ns = 0;
    }
    for (uint32_t i = 0; i < s.count && draw(&s.rng, 3) == 0; i++) {
        s.nodes[i].options = 0;
    }
}

static uint32_t draw_row(void)
{
    const bool has_edges = s.is_calm && s.seed % 2 == 0;
    return has_edges && draw(&s.rng, 2) == 0 ? ROW_EDGE : draw(&s.rng, s.is_calm ? ROW_OPTIONS : ROW_FLIGHT);
}

static void draw_step(uint32_t in_flight)
{
    s.rows = s.places = 0;
    settle();
    for (uint32_t k = draw(&s.rng, 4); k > 0; k--) {
        const uint32_t row = draw_row();
        if (row == ROW_WAITS && s.holds) {
            continue; /* nothing would ever end that wait */
        }
        s.rows |= 1u << row;
        change((enum row)row);
    }
    s.rows |= in_flight != 0 ? 1u << ROW_FLIGHT : 0;
}

/* ---- a step ------------------------------------------------------------------------------------ */

static void submit(gantry_task **tasks, uint32_t i)
{
    static const gantry_launch_fn functions[] = {launch_ours, launch_raw, launch_leaving, launch_waiting};
    struct alike *n = &s.nodes[i];
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = GANTRY_TASK_KERNEL;
    desc.launch = functions[n->call];
    desc.arg = n;
    desc.label = "alike";
    must(gantry_taskman_submit(s.manager, &desc, &tasks[i]), "submit");
    const uint32_t before[] = {i >= LANES ? i - LANES : NONE, n->in != ROOM ? n->in : NONE, n->after};
    for (uint32_t b = 0; b < 3; b++) {
        if (before[b] != NONE) {
            must(gantry_task_start_after(tasks[i], tasks[before[b]]), "edge");
        }
    }
}

/* Give back the references that hold the tasks, in any order, while the dispatcher looks at none of them. */
static void release_any(gantry_task *const *tasks)
{
    gantry_dispatcher *d = gantry_context_dispatcher(s.context);
    uint32_t order[ROOM];
    gantry_dispatcher_start_group(d);
    for (uint32_t i = 0; i < s.count; i++) {
        const uint32_t at = draw(&s.rng, i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    for (uint32_t i = 0; i < s.count; i++) {
        must(gantry_task_remove_reference(tasks[order[i]]), "release");
    }
    gantry_dispatcher_finish_group(d);
}

static void run_step(void)
{
    gantry_task *tasks[ROOM];
    const bool is_held = (s.rows >> ROW_ORDER & 1) != 0;
    expect_step();
    for (uint32_t i = 0; i < s.count; i++) {
        submit(tasks, i);
        if (is_held) {
            must(gantry_task_add_reference(tasks[i]), "reference");
        }
    }
    must(gantry_taskman_start(s.manager), "start");
    if (is_held) {
        release_any(tasks);
    }
    must(gantry_taskman_stop(s.manager), "stop");
    must(gantry_taskman_reset(s.manager), "reset");
}

/* ---- counts ------------------------------------------------------------------------------------ */

static gantry_dispatcher_stats stats_now(void)
{
    gantry_dispatcher_stats stats = {.struct_size = sizeof(stats)};
    must(gantry_dispatcher_get_stats(gantry_context_dispatcher(s.context), &stats), "statistics");
    return stats;
}

static const uint32_t no_shape =
    1u << ROW_ONE_ARGUMENT | 1u << ROW_MANY_ARGUMENTS | 1u << ROW_SIZES | 1u << ROW_FUNCTION;

static bool is_patchable(void)
{
    bool is = (s.rows & ~no_shape) == 0 && s.step > 2 && !s.is_recorded;
    for (uint32_t i = 0; i < s.count && is; i++) {
        is = s.nodes[i].call == CALL_OURS;
    }
    return is;
}

/* A step that was no graph has not met anything: there was nothing for it to differ from. */
static void count_step(const gantry_dispatcher_stats *before)
{
    static bool was_patchable;
    static uint64_t seed;
    const gantry_dispatcher_stats after = stats_now();
    struct met *m = &met[s.submission];
    const bool is_graph = after.graph_launches != before->graph_launches, is = is_patchable();
    m->as_graphs += is_graph;
    m->as_streams += !is_graph;
    if (s.submission == GANTRY_SUBMISSION_GRAPHS && is && was_patchable && seed == s.seed) {
        m->patched += after.graph_nodes_kept - before->graph_nodes_kept;
        m->patchable += after.graph_nodes - before->graph_nodes;
    }
    was_patchable = is;
    seed = s.seed;
    if (!is_graph && s.submission == GANTRY_SUBMISSION_GRAPHS) {
        broken(" no graph was launched");
    }
    for (uint32_t a = 0; a < ROWS && is_graph; a++) {
        m->rows[a] += s.rows >> a & 1;
        for (uint32_t b = 0; b < ROWS; b++) {
            m->pairs[a][b] += s.rows >> a & s.rows >> b & 1;
        }
    }
    for (uint32_t place = 0; place < PLACES && is_graph; place++) {
        m->places[place] += s.places >> place & 1;
    }
}

static bool may_pair(uint32_t a, uint32_t b)
{
    return a != b && !(a == ROW_WAITS && b == ROW_FLIGHT) && !(a == ROW_FLIGHT && b == ROW_WAITS);
}

static uint32_t print_missing(const struct met *m, const char *way)
{
    uint32_t missing = 0;
    printf("%s:", way);
    for (uint32_t a = 0; a < ROWS; a++) {
        printf(" %s %u,", row_names[a], m->rows[a]);
        missing += m->rows[a] < LEAST;
    }
    for (uint32_t place = 0; place < PLACES; place++) {
        printf(" %s %u%s", place_names[place], m->places[place], place + 1 < PLACES ? "," : "");
        missing += m->places[place] < LEAST_PLACE;
    }
    uint32_t least = UINT32_MAX;
    for (uint32_t a = 0; a < ROWS; a++) {
        for (uint32_t b = 0; b < ROWS; b++) {
            if (may_pair(a, b) && m->pairs[a][b] < LEAST_PAIR) {
                printf("\n  %s and %s met in %u steps", row_names[a], row_names[b], m->pairs[a][b]);
                missing++;
            }
            least = may_pair(a, b) && m->pairs[a][b] < least ? m->pairs[a][b] : least;
        }
    }
    printf("; any two rows: %u or more\n", least);
    return missing;
}

/* ---- a seed ------------------------------------------------------------------------------------ */

static void open_context(void)
{
    static const gantry_submission submissions[] = {GANTRY_SUBMISSION_STREAMS, GANTRY_SUBMISSION_GRAPHS,
                                                    GANTRY_SUBMISSION_GRAPHS, GANTRY_SUBMISSION_AUTO};
    gantry_partition_request requests[2] = {
        {.struct_size = sizeof(requests[0]),
         .name = "own",
         .size = GANTRY_PARTITION_AT_LEAST,
         .sm_count = 16},
        {.struct_size = sizeof(requests[0]), .name = "rest", .size = GANTRY_PARTITION_REST}};
    gantry_partition_options plan = GANTRY_PARTITION_OPTIONS_INIT;
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    gantry_module *module = NULL;
    const bool has_plan = draw(&s.rng, 4) == 0;
    s.submission = submissions[draw(&s.rng, 4)];
    s.is_recorded = draw(&s.rng, 5) == 0;
    s.holds = !s.is_recorded && emu.hold != NULL && draw(&s.rng, 2) == 0;
    s.is_calm = draw(&s.rng, 3) == 0;
    plan.requests = requests;
    plan.count = 2;
    options.driver = gpu_fixture_driver();
    options.submission = s.submission;
    options.mode = GANTRY_CONTEXT_PRIMARY;
    options.partitions = has_plan ? &plan : NULL;
    (void)snprintf(s.options, sizeof(s.options), "submission %d%s%s%s%s", s.submission,
                   has_plan ? ", partitions" : "", s.is_recorded ? ", recorded" : "", s.holds ? ", held" : "",
                   s.is_calm ? ", calm" : "");
    must(gantry_context_create(&options, &s.context), "context");
    gy_places_reserve(s.context->cuda, 4096); /* nothing is played for want of places */
    must(gantry_module_load(s.context, &gantry_image_alike_kernels, &module), "module");
    must(gantry_module_get_kernel(module, "grow", &s.kernels[KIND_GROW]), "kernel");
    must(gantry_module_get_kernel(module, "turn", &s.kernels[KIND_TURN]), "kernel");
}

static void open_cells(void)
{
    gantry_heap *heap = gantry_context_heap(s.context);
    void *cells = NULL, *on_device = NULL;
    must(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, sizeof(s.expected), 0, GANTRY_ALLOC_SITE("cells"),
                           &cells),
         "cells");
    must(gantry_heap_device_address(heap, cells, &on_device), "device address");
    s.cells = cells;
    s.on_device = on_device;
    memset(s.cells, 0, sizeof(s.expected));
    memset(s.expected, 0, sizeof(s.expected));
}

static gantry_profile *start_recording(void)
{
    gantry_profile *profile = NULL;
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = "/dev/null";
    options.spans_per_thread = 1024;
    must(gantry_profile_start(&options, &profile), "recording");
    return profile;
}

/* Steps that are submitted while the device does nothing, then all are done and looked at. */
static void run_group(uint32_t *left)
{
    const uint32_t count = s.holds ? 2 + draw(&s.rng, 5) : 1;
    if (s.holds) {
        emu.hold();
    }
    for (uint32_t k = 0; k < count && *left != 0; k++, --*left, s.step++) {
        const gantry_dispatcher_stats before = stats_now();
        draw_step(k);
        run_step();
        count_step(&before);
    }
    if (s.holds) {
        emu.release();
    }
    check();
}

static void run_seed(void)
{
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    gantry_set_log(refuse_message, NULL, GANTRY_LOG_ERROR);
    open_context();
    open_cells();
    options.gpu_dispatcher = gantry_context_dispatcher(s.context);
    must(gantry_taskman_create(&options, &s.manager), "manager");
    gantry_profile *profile = s.is_recorded ? start_recording() : NULL;
    /* AUTO goes to streams with small steps that are new. */
    const bool is_small = s.submission == GANTRY_SUBMISSION_AUTO && draw(&s.rng, 2) == 0;
    s.count = is_small ? NODES / 8 + draw(&s.rng, 3 * NODES / 8) : NODES - draw(&s.rng, NODES / 4);
    for (uint32_t i = 0; i < s.count; i++) {
        draw_node(i);
    }
    for (uint32_t left = STEPS; left != 0;) {
        run_group(&left);
    }
    if (profile != NULL) {
        must(gantry_profile_stop(profile, NULL), "end of the recording");
    }
    gantry_taskman_destroy(s.manager);
    must(gantry_heap_free(gantry_context_heap(s.context), s.cells), "free");
    gantry_context_destroy(s.context);
    gantry_set_log(NULL, NULL, GANTRY_LOG_ERROR);
}

static uint32_t judge(void)
{
    const struct met *graphs = &met[GANTRY_SUBMISSION_GRAPHS], *both = &met[GANTRY_SUBMISSION_AUTO];
    uint32_t missing = print_missing(graphs, "graphs");
    printf("AUTO: %llu steps as graphs, %llu on streams\n", (unsigned long long)both->as_graphs,
           (unsigned long long)both->as_streams);
    missing += both->as_graphs < LEAST || both->as_streams < LEAST;
    printf("nodes of steps that change no shape: %llu of %llu were patched\n",
           (unsigned long long)graphs->patched, (unsigned long long)graphs->patchable);
    return missing + (10 * graphs->patched < 9 * graphs->patchable || graphs->patchable == 0);
}

int main(int argc, char **argv)
{
    uint64_t seeds = 0, first = 1;
    bool understood = argc % 2 == 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        char *end = NULL;
        uint64_t *to = strcmp(argv[i], "--seeds") == 0   ? &seeds
                       : strcmp(argv[i], "--first") == 0 ? &first
                                                         : NULL;
        understood = understood && to != NULL && (*to = strtoull(argv[i + 1], &end, 10), *end == '\0');
    }
    if (!understood) {
        fprintf(stderr, "usage: %s [--seeds N] [--first SEED]\n", argv[0]);
        return 2;
    }
    if (gpu_fixture_driver() == GANTRY_DRIVER_EMULATED && !emu_controls_open(&emu)) {
        return SKIPPED;
    }
    const bool whole = seeds == 0 && getenv("GANTRY_TEST_LIGHT") == NULL;
    const uint64_t count = seeds != 0 ? seeds : whole ? SEEDS : SEEDS / 8;
    for (uint64_t seed = first; seed < first + count; seed++) {
        memset(&s, 0, sizeof(s));
        s.seed = seed;
        s.rng.state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
        run_seed();
    }
    const uint32_t missing = judge();
    printf("%llu seeds of %d steps\n", (unsigned long long)count, STEPS);
    return whole && missing != 0 ? 1 : 0;
}
