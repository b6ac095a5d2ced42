/* SPDX-License-Identifier: MIT */
/* Pipelines that have nothing to do with each other, of which each step has others, in any order: their
 * graphs are kept by pieces. */
#include "context/context.h"
#include "dispatcher/internal.h"
#include "dispatcher/order/batch_order.h"
#include "order_kernels.kernels.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A batch of 256 tasks is cut, so each has several kernels. */
enum { CHAINS = 12, LONGEST = 24, USUAL = 12, EACH = 3, STEPS = 24, LEARNT = 8, FEWEST_OF_A_STEP = 4 };
enum { OTHERS = 3 }; /* nodes of a chain beside its kernels: two copies and the event of its completion */

/* Of pipelines with branches; each branch has cells of its own. */
enum { PIPES = 8, BRANCHES = 3, BRANCHED_STEPS = 60, CELLS = PIPES * BRANCHES };
_Static_assert((int)CHAINS <= (int)CELLS, "each chain has cells of its own");

/* What its kernels and copies leave.  The n-th kernel reads 2n from the clock, and 2n + 1 at its end. */
struct cells {
    uint32_t clock, begin[LONGEST * EACH], end[LONGEST * EACH], in, out;
};

struct chain;

struct job {
    struct chain *chain;
    uint32_t index;
};

struct chain {
    uint32_t length, number;
    uint32_t steps;      /* that it was in since its cells were cleared */
    gantry_task *landed; /* behind its last copy; the CPU task that reads `out` */
    uint32_t read;       /* by it */
    struct job jobs[LONGEST];
};

static struct {
    struct gpu_fixture gpu;
    gantry_module *module;
    gantry_kernel *stamp;
    struct cells *cells, *on_device; /* CELLS, pinned */
    uint32_t *between;               /* CHAINS, on the device: where the copies meet */
    struct chain chains[CHAINS];
    uint64_t seed;
    uint32_t step;
    bool is_silent; /* no completions: steps end before the device has begun */
    struct gantry_emu_control emu;
    bool is_watched; /* by the thread that launches: */
    uint64_t batch, launches;
    CUstream home;
    uint32_t by_pieces, unjoined;
} s;

static uint32_t draw(uint32_t below)
{
    s.seed = s.seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(s.seed >> 33) % below;
}

static void open_scene(gantry_submission submission, uint32_t length, uint64_t seed)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    void *cells, *on_device, *between;
    memset(&s, 0, sizeof(s));
    s.seed = seed;
    options.driver = gpu_fixture_driver();
    options.submission = submission;
    gpu_fixture_open_with(&s.gpu, 1, &options);
    gantry_heap *heap = gantry_context_heap(s.gpu.context);
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_PINNED, CELLS * sizeof(*s.cells), 0,
                                GANTRY_ALLOC_SITE("cells"), &cells));
    assert_ok(gantry_heap_alloc(heap, GANTRY_MEMORY_DEVICE, CHAINS * sizeof(*s.between), 0,
                                GANTRY_ALLOC_SITE("between"), &between));
    assert_ok(gantry_heap_device_address(heap, cells, &on_device));
    s.cells = cells;
    s.on_device = on_device;
    s.between = between;
    assert_ok(gantry_module_load(s.gpu.context, &gantry_image_order_kernels, &s.module));
    assert_ok(gantry_module_get_kernel(s.module, "stamp", &s.stamp));
    for (uint32_t c = 0; c < CHAINS; c++) {
        s.chains[c].length = length;
        s.chains[c].number = c;
        for (uint32_t i = 0; i < LONGEST; i++) {
            s.chains[c].jobs[i] = (struct job){&s.chains[c], i};
        }
    }
}

static void close_scene(void)
{
    assert_ok(gantry_context_synchronize(s.gpu.context));
    assert_ok(gantry_heap_free(gantry_context_heap(s.gpu.context), s.between));
    assert_ok(gantry_heap_free(gantry_context_heap(s.gpu.context), s.cells));
    gpu_fixture_close(&s.gpu);
}

/* ---- a step ------------------------------------------------------------------------------------ */

static bool launch_stamp(gantry_launch *launch, struct cells *cells, uint32_t index)
{
    void *clock = &cells->clock, *begin = &cells->begin[index], *end = &cells->end[index];
    uint32_t spins = 1;
    void *args[] = {&clock, &begin, &end, &spins};
    const gantry_dim3 one = {1, 1, 1};
    return gantry_launch_kernel(launch, s.stamp, one, one, 0, args) == GANTRY_OK;
}

/* With the first callback of a batch: the home stream of the batch before comes after all that it has
 * launched, in one graph or several. */
static void watch_batch(const gantry_launch *launch)
{
    const struct gantry_dispatcher *d = launch->dispatcher;
    const uint64_t launches = atomic_load(&d->graphs.counts.launches);
    void *other;
    if (d->graphs.kept.batch == s.batch) {
        return;
    }
    if (s.home != NULL) {
        s.unjoined += s.emu.watch_end(s.home, &other);
        s.by_pieces += launches > s.launches + 1;
    }
    s.batch = d->graphs.kept.batch;
    s.launches = launches;
    s.home = gy_batch_home(&d->streams);
    s.emu.watch_begin();
}

static gantry_launch_result launch_job(gantry_launch *launch, void *arg)
{
    const struct job *job = arg;
    const uint32_t c = job->chain->number;
    bool good = true;
    if (s.is_watched) {
        watch_batch(launch);
    }
    if (job->index == 0) {
        good = gantry_launch_copy_htod(launch, &s.between[c], &s.cells[c].in, sizeof(uint32_t)) == GANTRY_OK;
    }
    for (uint32_t i = 0; i < EACH && good; i++) {
        good = launch_stamp(launch, &s.on_device[c], job->index * EACH + i);
    }
    if (job->index == job->chain->length - 1) {
        good = good &&
               gantry_launch_copy_dtoh(launch, &s.cells[c].out, &s.between[c], sizeof(uint32_t)) == GANTRY_OK;
        good = good && (s.is_silent || gantry_launch_add_completion(launch, job->chain->landed) == GANTRY_OK);
    }
    return good ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_status read_out(gantry_task *task, void *arg)
{
    (void)task;
    struct chain *chain = arg;
    chain->read = __atomic_load_n(&s.cells[chain->number].out, __ATOMIC_ACQUIRE);
    return GANTRY_OK;
}

static void submit_chain(struct chain *chain)
{
    gantry_task *before = NULL;
    chain->landed = s.is_silent ? NULL : gpu_fixture_cpu(&s.gpu, "landed", read_out, chain);
    for (uint32_t i = 0; i < chain->length; i++) {
        gantry_task *task = gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "stamp", launch_job, &chain->jobs[i]);
        if (before != NULL) {
            gpu_fixture_after(task, before);
        }
        before = task;
    }
    if (chain->landed != NULL) {
        gpu_fixture_after(chain->landed, before);
    }
}

static void clear(void)
{
    memset(s.cells, 0, CELLS * sizeof(*s.cells));
    for (uint32_t c = 0; c < CHAINS; c++) {
        s.chains[c].steps = s.chains[c].read = 0;
        s.cells[c].in = 1 + 100 * s.step + c;
    }
    s.step++;
}

static void submit_chains(uint32_t count)
{
    uint32_t order[CHAINS];
    for (uint32_t c = 0; c < CHAINS; c++) {
        order[c] = c;
    }
    for (uint32_t n = 0; n < count; n++) {
        const uint32_t other = n + draw(CHAINS - n), c = order[other];
        order[other] = order[n];
        order[n] = c;
        s.chains[c].steps++;
        submit_chain(&s.chains[c]);
    }
}

static void submit_step(void)
{
    submit_chains(FEWEST_OF_A_STEP + draw(CHAINS - FEWEST_OF_A_STEP));
}

/* Steps come one after the other. */
static void check(void)
{
    assert_ok(gantry_context_synchronize(s.gpu.context));
    for (uint32_t c = 0; c < CHAINS; c++) {
        const struct cells *cells = &s.cells[c];
        const struct chain *chain = &s.chains[c];
        const uint32_t ticks = 2 * EACH * chain->length,
                       from = chain->steps != 0 ? ticks * (chain->steps - 1) : 0;
        assert_int_equal(cells->clock, ticks * chain->steps);
        for (uint32_t i = 0; i < EACH * chain->length && chain->steps != 0; i++) {
            if (cells->begin[i] != from + 2 * i || cells->end[i] != from + 2 * i + 1) {
                fail_msg("chain %u, kernel %u: from %u to %u", c, i, cells->begin[i], cells->end[i]);
            }
        }
        assert_int_equal(cells->out, chain->steps != 0 ? cells->in : 0);
        assert_int_equal(chain->read, s.is_silent ? 0 : cells->out);
    }
}

static gantry_dispatcher_stats run_step(void)
{
    clear();
    submit_step();
    assert_ok(gpu_fixture_step(&s.gpu));
    check();
    return gpu_fixture_stats(&s.gpu);
}

/* ---- what is kept ------------------------------------------------------------------------------ */

/* In auto the first step is made, the next ones are played until their pieces have come again. */
static void test_other_pipelines_in_each_step_are_kept(void **state)
{
    (void)state;
    for (int mode = GANTRY_SUBMISSION_GRAPHS; mode <= GANTRY_SUBMISSION_AUTO; mode++) {
        gantry_dispatcher_stats before = {0}, after = {0};
        open_scene((gantry_submission)mode, USUAL, 1);
        for (uint32_t step = 0; step < STEPS; step++) {
            before = step == LEARNT ? after : before;
            after = run_step();
        }
        const uint64_t nodes = after.graph_nodes - before.graph_nodes,
                       kept = after.graph_nodes_kept - before.graph_nodes_kept;
        print_message("%s: %.1f %% of %u nodes were kept, %u graphs are\n",
                      mode == GANTRY_SUBMISSION_AUTO ? "auto" : "graphs",
                      100.0 * (double)kept / (double)nodes, (unsigned)nodes, (unsigned)after.graphs_kept);
        assert_true(nodes >= (STEPS - LEARNT) * FEWEST_OF_A_STEP * (USUAL * EACH + OTHERS));
        assert_true(kept * 20 >= nodes * 19);
        assert_int_equal(after.graph_plays, before.graph_plays);
        close_scene();
    }
}

/* A step that repeats is one graph. */
static void test_what_repeats_is_no_piece(void **state)
{
    (void)state;
    open_scene(GANTRY_SUBMISSION_GRAPHS, USUAL, 2);
    for (uint32_t step = 0; step < 4; step++) {
        const gantry_dispatcher_stats before = gpu_fixture_stats(&s.gpu);
        s.seed = 2;
        const gantry_dispatcher_stats after = run_step();
        assert_int_equal(after.graph_instantiations - before.graph_instantiations, step == 0);
        assert_int_equal(after.graph_launches - before.graph_launches, 1);
    }
    close_scene();
}

/* Nor are a few nodes. */
static void test_small_pieces_stay_together(void **state)
{
    (void)state;
    open_scene(GANTRY_SUBMISSION_GRAPHS, (GY_KEPT_PIECE - OTHERS) / EACH - 1, 3);
    for (uint32_t step = 0; step < LEARNT; step++) {
        const uint64_t before = gpu_fixture_stats(&s.gpu).graph_launches;
        assert_in_range(run_step().graph_launches - before, 1, 2); /* or its beginning has come before */
    }
    close_scene();
}

/* ---- branches ------------------------------------------------------------------------------------ */

/* A pipeline begins with a task of all of its branches, which have as many tasks as these say, and ends with
 * another task of all. */
static const uint32_t branch_tasks[BRANCHES] = {4, 6, 8};

struct branch_job {
    uint32_t pipe, branch, index; /* branch BRANCHES: of all */
};

static struct branch_job branch_jobs[PIPES][BRANCHES + 1][10];

static gantry_launch_result launch_branch(gantry_launch *launch, void *arg)
{
    const struct branch_job *job = arg;
    bool good = true;
    for (uint32_t b = 0; b < BRANCHES; b++) {
        const uint32_t at = job->branch < BRANCHES ? 1 + job->index : job->index * (branch_tasks[b] + 1);
        const bool has_part = job->branch == BRANCHES || job->branch == b;
        for (uint32_t i = 0; i < EACH && has_part && good; i++) {
            good = launch_stamp(launch, &s.on_device[job->pipe * BRANCHES + b], at * EACH + i);
        }
    }
    return good ? GANTRY_LAUNCH_DONE : GANTRY_LAUNCH_FAILED;
}

static gantry_task *add_job(uint32_t pipe, uint32_t branch, uint32_t index)
{
    struct branch_job *job = &branch_jobs[pipe][branch][index];
    *job = (struct branch_job){pipe, branch, index};
    return gpu_fixture_gpu(&s.gpu, GANTRY_TASK_KERNEL, "branch", launch_branch, job);
}

/* The branches begin in any order. */
static void submit_pipe(uint32_t pipe)
{
    gantry_task *tasks[BRANCHES][10], *begin = add_job(pipe, BRANCHES, 0);
    uint32_t order[BRANCHES] = {0, 1, 2};
    for (uint32_t b = 0; b < BRANCHES; b++) {
        for (uint32_t i = 0; i < branch_tasks[b]; i++) {
            tasks[b][i] = add_job(pipe, b, i);
        }
    }
    gantry_task *end = add_job(pipe, BRANCHES, 1);
    for (uint32_t n = 0; n < BRANCHES; n++) {
        const uint32_t other = n + draw(BRANCHES - n), b = order[other];
        order[other] = order[n];
        gpu_fixture_after(tasks[b][0], begin);
    }
    for (uint32_t b = 0; b < BRANCHES; b++) {
        for (uint32_t i = 1; i < branch_tasks[b]; i++) {
            gpu_fixture_after(tasks[b][i], tasks[b][i - 1]);
        }
        gpu_fixture_after(end, tasks[b][branch_tasks[b] - 1]);
    }
}

static gantry_status do_nothing(gantry_task *task, void *arg)
{
    (void)task, (void)arg;
    return GANTRY_OK;
}

/* As many tasks as a pipeline has: those behind them keep their numbers in the step, and so their names. */
static void submit_no_pipe(void)
{
    for (uint32_t i = 0; i < 2 + branch_tasks[0] + branch_tasks[1] + branch_tasks[2]; i++) {
        (void)gpu_fixture_cpu(&s.gpu, "none", do_nothing, NULL);
    }
}

static void check_branches(const bool *is_there)
{
    assert_ok(gantry_context_synchronize(s.gpu.context));
    for (uint32_t cell = 0; cell < CELLS; cell++) {
        const struct cells *c = &s.cells[cell];
        const uint32_t kernels = is_there[cell / BRANCHES] ? EACH * (branch_tasks[cell % BRANCHES] + 2) : 0;
        assert_int_equal(c->clock, 2 * kernels);
        for (uint32_t i = 0; i < kernels; i++) {
            if (c->begin[i] != 2 * i || c->end[i] != 2 * i + 1) {
                fail_msg("branch %u, kernel %u: from %u to %u", cell, i, c->begin[i], c->end[i]);
            }
        }
    }
}

/* Several pieces of one batch are found by the names of their tasks, each in another order. */
static void test_pieces_are_paired_each_by_itself(void **state)
{
    (void)state;
    open_scene(GANTRY_SUBMISSION_GRAPHS, USUAL, 11);
    for (uint32_t step = 0; step < BRANCHED_STEPS; step++) {
        bool is_there[PIPES];
        clear();
        for (uint32_t p = 0; p < PIPES; p++) {
            is_there[p] = draw(2) != 0 || p < 2;
            if (is_there[p]) {
                submit_pipe(p);
            } else {
                submit_no_pipe();
            }
        }
        assert_ok(gpu_fixture_step(&s.gpu));
        check_branches(is_there);
    }
    const gantry_dispatcher_stats stats = gpu_fixture_stats(&s.gpu);
    print_message("branches: %u graphs, %u of %u nodes were kept\n", (unsigned)stats.graph_launches,
                  (unsigned)stats.graph_nodes_kept, (unsigned)stats.graph_nodes);
    close_scene();
}

/* ---- together with others ------------------------------------------------------------------------ */

static void test_pieces_are_recorded(void **state)
{
    (void)state;
    char path[] = "/tmp/gantry-pieces-XXXXXX";
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    gantry_profile_stats stats = {.struct_size = sizeof(stats)};
    gantry_profile *profile;
    const int file = mkstemp(path);
    assert_true(file >= 0);
    (void)close(file);
    open_scene(GANTRY_SUBMISSION_GRAPHS, USUAL, 4);
    for (uint32_t step = 0; step < LEARNT; step++) {
        (void)run_step();
    }
    options.path = path;
    assert_ok(gantry_profile_start(&options, &profile));
    gantry_dispatcher_stats before = {0}, after = {0};
    for (uint32_t step = 0; step < STEPS; step++) {
        before = step == LEARNT ? after : before;
        after = run_step();
    }
    assert_ok(gantry_profile_stop(profile, &stats));
    assert_int_equal(stats.lost, 0);
    assert_true((after.graph_nodes_kept - before.graph_nodes_kept) * 10 >=
                (after.graph_nodes - before.graph_nodes) * 9);
    (void)run_step();
    close_scene();
    (void)remove(path);
}

/* None of the steps has begun on the device when the last one is launched. */
static void test_steps_in_flight_have_pieces_of_their_own(void **state)
{
    (void)state;
    enum { HELD = 6 };
    open_scene(GANTRY_SUBMISSION_GRAPHS, USUAL, 5);
    const bool holds = gpu_fixture_controls(&s.emu);
    s.is_silent = true;
    for (uint32_t round = 0; round < LEARNT; round++) {
        clear();
        if (holds) {
            s.emu.hold();
        }
        for (uint32_t step = 0; step < HELD; step++) {
            submit_step();
            assert_ok(gpu_fixture_step(&s.gpu));
        }
        if (holds) {
            s.emu.release();
        }
        check();
    }
    const uint64_t kept = gpu_fixture_stats(&s.gpu).graphs_kept;
    assert_in_range(kept, CHAINS, GY_KEPT_MOST);
    close_scene();
}

/* What comes next waits for the home stream, and that waits for each piece, the first and the last. */
static void test_the_home_stream_comes_after_each_piece(void **state)
{
    (void)state;
    enum { MOST_PIECES = 6 };
    open_scene(GANTRY_SUBMISSION_GRAPHS, USUAL, 8);
    if (!gpu_fixture_controls(&s.emu)) { /* a device does not say what waits for what */
        close_scene();
        skip();
    }
    gpu_fixture_use_threads_only(&s.gpu);
    s.is_watched = s.is_silent = true;
    for (uint32_t round = 0; round < STEPS; round++) {
        clear();
        s.emu.hold(); /* so that the host does not come after anything */
        for (uint32_t step = 0; step < 3; step++) {
            submit_chains(2 + draw(MOST_PIECES - 1));
            assert_ok(gpu_fixture_step(&s.gpu));
        }
        s.emu.release();
        check();
    }
    assert_true(s.by_pieces >= STEPS / 3);
    assert_int_equal(s.unjoined, 0);
    close_scene();
}

/* A piece of which the driver makes no graph is enqueued on streams, and nothing is lost. */
static void test_pieces_that_are_refused_are_played(void **state)
{
    (void)state;
    static const char *const calls[] = {"cuGraphCreate", "cuGraphAddKernelNode",
                                        "cuGraphInstantiateWithFlags", "cuGraphLaunch"};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        open_scene(GANTRY_SUBMISSION_GRAPHS, USUAL, 6 + i);
        if (!gpu_fixture_controls(&s.emu)) {
            close_scene();
            skip();
        }
        for (uint32_t step = 0; step < LEARNT; step++) {
            const uint32_t nth = 1 + draw(3);
            assert_int_equal((s.emu.fail)(calls[i], nth, CUDA_ERROR_OUT_OF_MEMORY, GANTRY_EMU_ALWAYS), 0);
            (void)run_step();
            s.emu.clear_faults();
            s.chains[draw(CHAINS)].length = USUAL + 1 + step; /* another shape */
        }
        assert_true(gpu_fixture_stats(&s.gpu).graph_plays != 0);
        close_scene();
    }
}

/* ---- the pieces of nodes ----------------------------------------------------------------------- */

enum { NODES = 300, LANES = 24, TRIALS = 60 };

/* Is there a way from one to the other, along edges in either direction? */
static void spread(const struct gy_nodes *n, uint32_t *of, uint32_t from)
{
    for (bool has_changed = true; has_changed;) {
        has_changed = false;
        for (uint32_t i = 0; i < n->count; i++) {
            for (uint32_t b = 0; b < n->list[i].before.count; b++) {
                const uint32_t k = n->before[n->list[i].before.first + b];
                if ((of[i] == from) != (of[k] == from)) {
                    of[i] = of[k] = from;
                    has_changed = true;
                }
            }
        }
    }
}

/* Number the pieces by their first nodes; returns their number. */
static uint32_t number_pieces(const struct gy_nodes *n, uint32_t *of)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n->count; i++) {
        of[i] = UINT32_MAX;
    }
    for (uint32_t i = 0; i < n->count; i++) {
        if (of[i] == UINT32_MAX) {
            of[i] = count;
            spread(n, of, count++);
        }
    }
    return count;
}

static void check_node(const struct gy_nodes *n, uint32_t i, const struct gy_nodes *piece, uint32_t at,
                       const uint32_t *place)
{
    const struct gy_node *x = &n->list[i], *y = &piece->list[at];
    assert_int_equal(x->id, y->id);
    assert_int_equal(x->kind, y->kind);
    assert_int_equal(x->form, y->form);
    assert_ptr_equal(n->streams[i], piece->streams[at]);
    assert_int_equal(x->before.count, y->before.count);
    for (uint32_t b = 0; b < x->before.count; b++) {
        assert_int_equal(place[n->before[x->before.first + b]], piece->before[y->before.first + b]);
    }
    if (x->kind == GY_NODE_KERNEL) {
        assert_memory_equal(n->bytes + x->kernel.at, piece->bytes + y->kernel.at, x->kernel.room);
    } else if (x->kind == GY_NODE_EVENT) {
        assert_ptr_equal(n->events[x->event].event, piece->events[y->event].event);
        assert_int_equal(piece->events[y->event].node, at);
    } else {
        assert_int_equal(x->fill.at, y->fill.at);
    }
}

static void check_pieces(const struct gy_pieces *pieces, const struct gy_nodes *n)
{
    uint32_t of[NODES], place[NODES], sizes[NODES] = {0};
    const uint32_t count = number_pieces(n, of);
    if (count < 2 || count > GY_PIECES_MOST) {
        assert_int_equal(pieces->count, 0);
        return;
    }
    assert_int_equal(pieces->count, count);
    for (uint32_t i = 0; i < n->count; i++) {
        place[i] = sizes[of[i]]++;
    }
    for (uint32_t i = 0; i < n->count; i++) {
        check_node(n, i, &pieces->of[of[i]], place[i], place);
    }
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(pieces->of[i].count, sizes[i]);
    }
}

/* Nodes of all kinds by chance, on lanes that wait for each other now and then. */
static void note_by_chance(struct gy_lane *lanes, uint32_t count, uint32_t waits, CUevent event)
{
    for (uint32_t i = 0; i < count; i++) {
        struct gy_lane *lane = &lanes[draw(LANES)], *other = &lanes[draw(LANES)];
        void *clock = &s.on_device[0].clock, *begin = clock, *end = clock;
        uint32_t spins = i;
        void *args[] = {&clock, &begin, &end, &spins};
        const struct gy_launch_size size = {.grid = {1, 1, 1}, .block = {1, 1, 1}};
        if (draw(1000) < waits && other->last.count != 0) {
            assert_ok(gy_lane_wait(lane, other->last));
        }
        gy_nodes_name(lane->nodes, 1000 + 10 * (uint64_t)i);
        switch (draw(4)) {
        case 0:
            assert_ok(gy_lane_fill(lane, gy_fill_of(i, 0, 4, 1)));
            break;
        case 1:
            assert_ok(gy_lane_event(lane, event));
            break;
        default:
            assert_ok(gy_lane_kernel(lane, s.stamp, &size, args, NULL));
            break;
        }
    }
}

static void test_pieces_are_what_edges_join(void **state)
{
    (void)state;
    static struct gy_pieces pieces;
    struct gy_nodes nodes;
    struct gy_lane lanes[LANES];
    CUstream streams[LANES];
    CUevent event;
    open_scene(GANTRY_SUBMISSION_STREAMS, 1, 7);
    struct gy_context *context = s.gpu.context->cuda;
    assert_ok(gy_context_enter(context));
    assert_int_equal(context->driver->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    gy_nodes_init(&nodes, context);
    gy_pieces_init(&pieces, context);
    for (uint32_t i = 0; i < LANES; i++) {
        assert_ok(gy_context_create_stream(context, NULL, 0, &streams[i]));
    }
    for (uint32_t trial = 0; trial < TRIALS; trial++) {
        gy_nodes_clear(&nodes);
        for (uint32_t i = 0; i < LANES; i++) {
            lanes[i] = gy_lane_of(streams[i], 0);
            lanes[i].nodes = &nodes;
        }
        note_by_chance(lanes, 2 + draw(NODES - 2), draw(60), event);
        (void)gy_pieces_find(&pieces, &nodes, 1);
        check_pieces(&pieces, &nodes);
        assert_int_equal(gy_pieces_find(&pieces, &nodes, NODES), 0); /* they are smaller */
    }
    gy_pieces_fini(&pieces);
    gy_nodes_fini(&nodes);
    for (uint32_t i = 0; i < LANES; i++) {
        gy_context_drop_stream(context, &streams[i]);
    }
    (void)context->driver->cuEventDestroy(event);
    assert_ok(gy_context_pop(context));
    close_scene();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_pipelines_in_each_step_are_kept),
        cmocka_unit_test(test_what_repeats_is_no_piece),
        cmocka_unit_test(test_small_pieces_stay_together),
        cmocka_unit_test(test_pieces_are_paired_each_by_itself),
        cmocka_unit_test(test_pieces_are_recorded),
        cmocka_unit_test(test_steps_in_flight_have_pieces_of_their_own),
        cmocka_unit_test(test_the_home_stream_comes_after_each_piece),
        cmocka_unit_test(test_pieces_that_are_refused_are_played),
        cmocka_unit_test(test_pieces_are_what_edges_join),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
