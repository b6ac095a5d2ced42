/* SPDX-License-Identifier: MIT */
#include "tests/campaign/workload.h"

enum { LONGEST_PAUSE_NS = 1500000 };

/* ---- nodes and cells ------------------------------------------------------------------------- */

bool node_set_has(const struct node_set *set, uint32_t node)
{
    return (set->words[node / 64] >> node % 64 & 1) != 0;
}

void node_set_add(struct node_set *set, uint32_t node)
{
    set->words[node / 64] |= UINT64_C(1) << node % 64;
}

static uint32_t add_cell(struct workload *w, bool on_device)
{
    if (w->cell_count == WORKLOAD_CELLS) {
        workload_broken(w, "too many cells");
    }
    struct cell *cell = &w->cells[w->cell_count];
    cell->on_device = on_device;
    cell->writer = -1;
    for (uint32_t i = 0; i < MIX_WORDS; i++) {
        cell->expected[i] = w->cell_count * 7919u;
    }
    return w->cell_count++;
}

static bool one_in(struct workload *w, uint32_t chances)
{
    return draw(&w->rng, chances) == 0;
}

static void choose_flags(struct workload *w, struct node *node)
{
    switch (node->kind) {
    case NODE_CPU:
        node->flags |= one_in(w, 8) ? NODE_SPAWNS : 0;
        node->flags |= one_in(w, 8) ? NODE_PARALLEL : 0;
        break;
    case NODE_KERNEL:
        node->calls = one_in(w, 6) ? 1 + draw(&w->rng, 4) : 1;
        node->flags |= one_in(w, 12) ? NODE_SCRATCH : 0;
        node->pause_ns = one_in(w, 8) ? draw(&w->rng, LONGEST_PAUSE_NS) : 0;
        node->flags |= one_in(w, w->ask_chances) ? NODE_ASKS : 0;
        node->flags |= one_in(w, 40) ? NODE_LEAVES_GRAPH : 0;
        break;
    case NODE_END:
        break;
    default:
        node->flags |= one_in(w, 2) ? NODE_BATCHED : 0;
        break;
    }
}

static struct node *add_node(struct workload *w, enum node_kind kind, uint32_t out, uint32_t ins,
                             const uint32_t *in)
{
    if (w->node_count == WORKLOAD_NODES) {
        workload_broken(w, "too many nodes");
    }
    struct node *node = &w->nodes[w->node_count++];
    node->load = w;
    node->kind = kind;
    node->code = draw(&w->rng, UINT32_MAX);
    node->calls = 1;
    node->partition = -1;
    node->out[0] = out;
    node->outs = kind != NODE_END ? 1 : 0;
    for (uint32_t i = 0; i < ins && i < MIX_INPUTS; i++) {
        node->in[node->ins++] = in[i];
    }
    choose_flags(w, node);
    if (w->round->partition_count != 0 && one_in(w, 2)) {
        node->partition = (int32_t)draw(&w->rng, w->round->partition_count);
    }
    return node;
}

/* Make the node a kernel, or a CPU task where that can reach the cells. */
static struct node *add_work(struct workload *w, uint32_t out, uint32_t ins, const uint32_t *in)
{
    bool on_device = w->cells[out].on_device;
    for (uint32_t i = 0; i < ins && i < MIX_INPUTS; i++) {
        on_device = on_device || w->cells[in[i]].on_device;
    }
    return add_node(w, w->mixed && !on_device && one_in(w, 3) ? NODE_CPU : NODE_KERNEL, out, ins, in);
}

static void add_work_on_one(struct workload *w, uint32_t out, uint32_t in)
{
    (void)add_work(w, out, 1, &in);
}

static void add_work_on_two(struct workload *w, uint32_t out, uint32_t first, uint32_t second)
{
    (void)add_work(w, out, 2, (const uint32_t[]){first, second});
}

static void also_writes(struct workload *w, struct node *node, uint32_t cell)
{
    node->out[node->outs++] = cell;
    if (w->cells[cell].on_device) {
        node->kind = NODE_KERNEL;
    }
}

/* ---- Task Bench (Slaughter et al. 2020) ------------------------------------------------------ */

/* Does node `i` of row `row` depend on node `j` of the row before? */
static bool row_depends(struct workload *w, uint32_t row, uint32_t row_bits, uint32_t i, uint32_t j)
{
    uint32_t stride = 1u << row % row_bits;
    switch (w->pattern) {
    case PATTERN_STENCIL:
        return j <= i + 1 && i <= j + 1;
    case PATTERN_FFT:
        return j == i || j == i + stride || i == j + stride;
    case PATTERN_TREE:
        return j == i / 2;
    case PATTERN_RANDOM_ROWS:
        return one_in(w, 3);
    case PATTERN_DOM:
        return j == i || j + 1 == i;
    default:
        return w->pattern == PATTERN_ALL_TO_ALL;
    }
}

/* Rows take turns with two rows of cells, so that a node must also wait for the readers of the cell that it
 * writes. */
static void add_rows(struct workload *w)
{
    uint32_t width = 2 + draw(&w->rng, 14), rows = 3 + draw(&w->rng, 10), bits = 1;
    while (1u << bits < width) {
        bits++;
    }
    for (uint32_t i = 0; i < 2 * width; i++) {
        (void)add_cell(w, !w->mixed);
    }
    for (uint32_t row = 0; row < rows; row++) {
        for (uint32_t i = 0; i < width; i++) {
            uint32_t in[MIX_INPUTS], ins = 0;
            for (uint32_t j = 0; row > 0 && j < width; j++) {
                if (row_depends(w, row, bits, i, j)) {
                    in[ins++] = (row + 1) % 2 * width + j;
                }
            }
            (void)add_work(w, row % 2 * width + i, ins, in);
        }
    }
}

/* ---- tiled matrices -------------------------------------------------------------------------- */

/* The work of step k of a factorisation right of and below tile (k, k) of n x n; tile (i, j) is cell i * n +
 * j. */
static void cholesky_step(struct workload *w, uint32_t n, uint32_t k)
{
    for (uint32_t i = k + 1; i < n; i++) {
        add_work_on_one(w, i * n + k, k * n + k);
    }
    for (uint32_t i = k + 1; i < n; i++) {
        for (uint32_t j = k + 1; j < i; j++) {
            add_work_on_two(w, i * n + j, i * n + k, j * n + k);
        }
        add_work_on_one(w, i * n + i, i * n + k);
    }
}

static void lu_step(struct workload *w, uint32_t n, uint32_t k)
{
    for (uint32_t i = k + 1; i < n; i++) {
        add_work_on_one(w, i * n + k, k * n + k);
        add_work_on_one(w, k * n + i, k * n + k);
    }
    for (uint32_t i = k + 1; i < n; i++) {
        for (uint32_t j = k + 1; j < n; j++) {
            add_work_on_two(w, i * n + j, i * n + k, k * n + j);
        }
    }
}

static void qr_step(struct workload *w, uint32_t n, uint32_t k)
{
    for (uint32_t j = k + 1; j < n; j++) {
        add_work_on_one(w, k * n + j, k * n + k);
    }
    for (uint32_t i = k + 1; i < n; i++) {
        also_writes(w, add_work(w, k * n + k, 0, NULL), i * n + k);
        for (uint32_t j = k + 1; j < n; j++) {
            uint32_t reflector = i * n + k;
            also_writes(w, add_work(w, k * n + j, 1, &reflector), i * n + j);
        }
    }
}

static void add_factorisation(struct workload *w, void (*step)(struct workload *w, uint32_t n, uint32_t k))
{
    uint32_t n = 2 + draw(&w->rng, 5);
    for (uint32_t i = 0; i < n * n; i++) {
        (void)add_cell(w, !w->mixed || one_in(w, 2));
    }
    for (uint32_t k = 0; k < n; k++) {
        (void)add_work(w, k * n + k, 0, NULL);
        step(w, n, k);
    }
}

static void add_wavefront(struct workload *w)
{
    uint32_t n = 3 + draw(&w->rng, 8);
    for (uint32_t i = 0; i < n * n; i++) {
        (void)add_cell(w, !w->mixed || one_in(w, 3));
    }
    for (uint32_t i = 0; i < n * n; i++) {
        uint32_t in[2], ins = 0;
        if (i >= n) {
            in[ins++] = i - n;
        }
        if (i % n != 0) {
            in[ins++] = i - 1;
        }
        (void)add_work(w, i, ins, in);
    }
}

/* ---- the host and the device by turns -------------------------------------------------------- */

static void add_map_reduce(struct workload *w)
{
    uint32_t parts = 2 + draw(&w->rng, 14);
    for (uint32_t i = 0; i < parts; i++) {
        uint32_t from = add_cell(w, false), there = add_cell(w, true), to = add_cell(w, false);
        (void)add_node(w, NODE_CPU, from, 1, &to);
        (void)add_node(w, NODE_HTOD, there, 1, &from);
        for (uint32_t kernels = 1 + draw(&w->rng, 2); kernels > 0; kernels--) {
            (void)add_node(w, NODE_KERNEL, there, 0, NULL);
        }
        (void)add_node(w, NODE_DTOH, to, 1, &there);
    }
    for (uint32_t apart = 1; apart < parts; apart *= 2) {
        for (uint32_t i = 0; i + apart < parts; i += 2 * apart) {
            add_work_on_one(w, 3 * i + 2, 3 * (i + apart) + 2);
        }
    }
}

static void add_ping_pong(struct workload *w)
{
    uint32_t host = add_cell(w, false), device = add_cell(w, true);
    bool in_place = one_in(w, 2);
    for (uint32_t turns = 3 + draw(&w->rng, 20); turns > 0; turns--) {
        if (in_place) {
            (void)add_node(w, NODE_KERNEL, host, 0, NULL);
        } else {
            (void)add_node(w, NODE_HTOD, device, 1, &host);
            (void)add_node(w, NODE_KERNEL, device, 0, NULL);
            (void)add_node(w, NODE_DTOH, host, 1, &device);
        }
        (void)add_node(w, NODE_CPU, host, 0, NULL);
    }
}

static uint32_t other_cell(struct workload *w, uint32_t cell)
{
    return (cell + 1 + draw(&w->rng, w->cell_count - 1)) % w->cell_count;
}

static void add_random_copy_or_work(struct workload *w, uint32_t out)
{
    uint32_t from = other_cell(w, out), in[4], ins = draw(&w->rng, 4);
    bool to_device = w->cells[out].on_device, from_device = w->cells[from].on_device;
    if (one_in(w, 3) && (to_device || from_device)) {
        enum node_kind kind = !to_device ? NODE_DTOH : from_device ? NODE_DTOD : NODE_HTOD;
        (void)add_node(w, kind, out, 1, &from);
        return;
    }
    for (uint32_t i = 0; i < ins; i++) {
        in[i] = other_cell(w, out);
    }
    (void)add_work(w, out, ins, in);
}

static void add_random_graph(struct workload *w)
{
    uint32_t cells = 2 + draw(&w->rng, 20);
    for (uint32_t i = 0; i < cells; i++) {
        (void)add_cell(w, i == 1 || (i > 1 && one_in(w, 2)));
    }
    for (uint32_t nodes = 5 + draw(&w->rng, 120); nodes > 0; nodes--) {
        add_random_copy_or_work(w, draw(&w->rng, cells));
    }
}

/* ---- edges ----------------------------------------------------------------------------------- */

static void add_pattern(struct workload *w)
{
    switch (w->pattern) {
    case PATTERN_CHOLESKY:
        add_factorisation(w, cholesky_step);
        break;
    case PATTERN_LU:
        add_factorisation(w, lu_step);
        break;
    case PATTERN_QR:
        add_factorisation(w, qr_step);
        break;
    case PATTERN_WAVEFRONT:
        add_wavefront(w);
        break;
    case PATTERN_MAP_REDUCE:
        add_map_reduce(w);
        break;
    case PATTERN_PING_PONG:
        add_ping_pong(w);
        break;
    case PATTERN_RANDOM_GRAPH:
        add_random_graph(w);
        break;
    default:
        add_rows(w);
        break;
    }
}

static void add_edge(struct workload *w, uint32_t before, uint32_t after)
{
    struct node *first = &w->nodes[before], *second = &w->nodes[after];
    node_set_add(&second->before, before);
    first->has_successor = true;
    if (first->kind != NODE_CPU && (second->kind == NODE_CPU || second->kind == NODE_END)) {
        node_set_add(&first->tells, after);
    }
}

/* A reader comes after the writer; a writer comes after the writer before it and all readers in between. */
static void add_edges_of(struct workload *w, uint32_t index)
{
    const struct node *node = &w->nodes[index];
    for (uint32_t i = 0; i < node->ins; i++) {
        struct cell *cell = &w->cells[node->in[i]];
        if (cell->writer >= 0) {
            add_edge(w, (uint32_t)cell->writer, index);
        }
        node_set_add(&cell->readers, index);
    }
    for (uint32_t i = 0; i < node->outs; i++) {
        struct cell *cell = &w->cells[node->out[i]];
        if (cell->writer >= 0) {
            add_edge(w, (uint32_t)cell->writer, index);
        }
        for (uint32_t k = 0; k < index; k++) {
            if (node_set_has(&cell->readers, k)) {
                add_edge(w, k, index);
            }
        }
        cell->readers = (struct node_set){{0}};
        cell->writer = (int32_t)index;
    }
}

void workload_plan(struct workload *load)
{
    add_pattern(load);
    for (uint32_t cell = 0, cells = load->cell_count; cell < cells; cell++) {
        if (load->cells[cell].on_device) { /* the host compares a copy */
            (void)add_node(load, NODE_DTOH, add_cell(load, false), 1, &cell);
        }
    }
    for (uint32_t i = 0; i < load->node_count; i++) {
        add_edges_of(load, i);
    }
    load->end = load->node_count;
    (void)add_node(load, NODE_END, 0, 0, NULL);
    for (uint32_t i = 0; i < load->end; i++) {
        if (!load->nodes[i].has_successor) {
            add_edge(load, i, load->end);
        }
    }
}
