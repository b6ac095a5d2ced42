/* SPDX-License-Identifier: MIT */
#include "work/kept.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "driver/spent.h"
#include "work/kept_find.h"
#include "work/kept_look.h"

#include <assert.h>
#include <string.h>

static void count(_Atomic(uint64_t) *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static uint64_t read(const _Atomic(uint64_t) *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* ---- entries ----------------------------------------------------------------------------------- */

gantry_status gy_kept_init(struct gy_kept_set *set, struct gy_context *context, struct gy_side_streams *sides)
{
    set->context = context;
    set->sides = sides;
    set->piece_nodes = GY_KEPT_PIECE;
    gy_pieces_init(&set->pieces, context);
    return gy_maker_init(&set->maker, context);
}

/* Take back what graphs have had that were dropped in flight. */
static void sweep_slots(struct gy_kept_set *set)
{
    struct gy_slots *slots = &set->slots;
    for (uint32_t i = slots->retired_count; i-- > 0;) {
        const struct gy_slots_retired one = slots->retired[i];
        if (!gy_kept_is_done(set, one.passed)) {
            continue;
        }
        for (uint32_t p = 0; p < GANTRY_PARTITIONS_MAX; p++) {
            set->running[p].nodes = set->running[p].done == one.passed ? 0 : set->running[p].nodes;
        }
        gy_slots_put(slots, one.part);
        (void)set->context->driver->cuEventDestroy(one.passed);
        slots->retired[i] = slots->retired[--slots->retired_count];
    }
}

/* Slots for the nodes, if a kernel among them has one.  There may be none: then such kernels get the
 * addresses themselves. */
static struct gy_slots_part find_slots(struct gy_kept_set *set, struct gy_nodes *nodes)
{
    struct gy_slots_part part = {0, 0};
    if (nodes->slot_args.placed != 0 && gy_slot_args_count(&nodes->slot_args, nodes->count) != 0) {
        sweep_slots(set);
        part = gy_slots_take(&set->slots, nodes->count);
        if (part.count == 0) {
            gy_slot_args_settle(nodes, nodes->count);
        }
    }
    return part;
}

/* The entry has them from now on; nobody has cleared them. */
static void give_slots(const struct gy_kept_set *set, struct gy_kept *kept, struct gy_slots_part part)
{
    kept->slots = part;
    kept->has_values = part.count != 0;
    kept->nodes.table = part.count != 0 ? gy_slots_on_device(&set->slots, part) : 0;
}

/* Write what its slots shall be at the next launch, of which the nodes are. */
static void write_slots(const struct gy_kept_set *set, struct gy_kept *kept, const struct gy_nodes *nodes,
                        const uint32_t *of)
{
    const struct gy_slot_args *args = &nodes->slot_args;
    if (kept->slots.count == 0 || (args->placed == 0 && !kept->has_values)) {
        return;
    }
    uint64_t *slots = gy_slots_on_host(&set->slots, kept->slots), all = 0;
    memset(slots, 0, nodes->count * sizeof(*slots));
    for (uint32_t i = 0; i < args->placed && args->list[i].node < nodes->count; i++) {
        const struct gy_slot_arg *arg = &args->list[i];
        slots[of != NULL ? of[arg->node] : arg->node] = arg->value;
        all |= arg->value;
    }
    kept->is_written = all != 0 || kept->has_values;
    kept->has_values = all != 0;
}

/* Make the graph of the nodes, whose kernels have slots of the part. */
static gantry_status make_graph(const struct gy_kept_set *set, struct gy_nodes *nodes,
                                struct gy_slots_part part, CUgraph *out)
{
    if (part.count == 0) {
        return gy_nodes_make(nodes, out);
    }
    gy_slot_args_point(nodes, nodes->count, gy_slots_on_device(&set->slots, part));
    const gantry_status status = gy_nodes_make(nodes, out);
    gy_slot_args_unpoint(nodes, nodes->count);
    return status;
}

/* Give its slots back, once the GPU has passed its latest launch. */
static void drop_slots(struct gy_kept_set *set, struct gy_kept *kept)
{
    const struct gy_slots_part part = kept->slots;
    kept->slots = (struct gy_slots_part){0, 0};
    if (part.count == 0) {
        return;
    }
    if (kept->used == 0 || gy_kept_is_done(set, kept->done)) {
        gy_slots_put(&set->slots, part);
    } else if (gy_slots_retire(&set->slots, part, kept->done)) {
        kept->done = NULL;
    }
}

static void drop(struct gy_kept_set *set, struct gy_kept *kept)
{
    assert(kept->exec.native != NULL);
    drop_slots(set, kept);
    gy_exec_drop(set->context, &kept->exec);
    count(&set->counts.count, UINT64_MAX);
    count(&set->counts.node_count, -(uint64_t)kept->nodes.count);
    gy_nodes_fini(&kept->nodes);
    *kept = (struct gy_kept){.done = kept->done};
    assert(gy_kept_is_valid(set));
}

void gy_kept_fini(struct gy_kept_set *set)
{
    const struct gy_driver *driver = set->context->driver;
    gy_maker_fini(&set->maker);
    gy_pieces_fini(&set->pieces);
    gy_kept_drop_refreshed(set);
    for (uint32_t i = 0; i < GY_KEPT_MOST; i++) {
        if (set->of[i].exec.native != NULL) {
            drop(set, &set->of[i]);
        }
        if (set->of[i].done != NULL) {
            (void)driver->cuEventDestroy(set->of[i].done);
        }
    }
    gy_slots_fini(&set->slots, set->context);
    gy_pairing_fini(&set->pairing);
}

/* Drop the entries of which `is_over` holds.  That batches have come before stays true, but not that there
 * are executable graphs for their beginnings. */
static bool drop_where(struct gy_kept_set *set, bool (*is_over)(const struct gy_kept *kept))
{
    bool has_dropped = false;
    for (uint32_t i = 0; i < GY_KEPT_MOST; i++) {
        if (set->of[i].exec.native != NULL && is_over(&set->of[i])) {
            drop(set, &set->of[i]);
            has_dropped = true;
        }
    }
    if (has_dropped) {
        set->seen.strangers = 0;
        memset(set->seen.beginnings, 0, sizeof(set->seen.beginnings));
    }
    return has_dropped;
}

static bool is_any(const struct gy_kept *kept)
{
    return kept->exec.native != NULL;
}

/* Is a kernel of it of a module that was unloaded?  Its function may mean another one now. */
static bool has_gone(const struct gy_kept *kept)
{
    for (uint32_t i = 0; i < kept->nodes.count; i++) {
        const struct gy_node *node = &kept->nodes.list[i];
        if (node->kind == GY_NODE_KERNEL &&
            atomic_load_explicit(&node->kernel.layout->gone.is_gone, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

/* Modules were unloaded: drop what has kernels of them.  True: something was dropped. */
static GY_COLD bool drop_gone(struct gy_kept_set *set, uint64_t generation)
{
    struct gy_leftover *gone = gy_context_take_leftovers(set->context);
    set->generation = generation;
    const bool has_dropped = gone != NULL && drop_where(set, has_gone);
    gy_leftovers_free(gone);
    return has_dropped;
}

bool gy_kept_follow_modules(struct gy_kept_set *set)
{
    const uint64_t now = atomic_load_explicit(&set->context->generation, memory_order_acquire);
    return __builtin_expect(set->generation != now, 0) && drop_gone(set, now);
}

void gy_kept_drop_all(struct gy_kept_set *set)
{
    gy_kept_forget(set); /* this waits for the maker */
    gy_maker_move(&set->maker);
    (void)drop_where(set, is_any);
    gy_kept_drop_refreshed(set);
    sweep_slots(set);
    memset(set->running, 0, sizeof(set->running));
    for (uint32_t i = 0; i < GY_KEPT_MOST; i++) {
        if (set->of[i].done != NULL) {
            (void)set->context->driver->cuEventDestroy(set->of[i].done);
            set->of[i].done = NULL;
        }
    }
}

/* ---- making ------------------------------------------------------------------------------------ */

/* A free entry, and room for so many nodes: the least recently used make it. */
static struct gy_kept *make_room(struct gy_kept_set *set, uint32_t nodes)
{
    struct gy_kept *found;
    do {
        struct gy_kept *oldest = NULL;
        found = NULL;
        for (uint32_t i = 0; i < GY_KEPT_MOST; i++) {
            struct gy_kept *kept = &set->of[i];
            if (kept->exec.native == NULL) {
                found = kept;
            } else if (!kept->is_claimed && (oldest == NULL || kept->used < oldest->used)) {
                oldest = kept;
            }
        }
        if (oldest != NULL && (found == NULL || read(&set->counts.node_count) + nodes > GY_KEPT_NODES)) {
            drop(set, oldest);
            found = NULL;
        }
    } while (found == NULL);
    return found;
}

/* Take what the maker was asked for. */
static void collect(struct gy_kept_set *set)
{
    struct gy_exec made[GY_MAKER_MOST];
    if (set->asked_count == 0) {
        return;
    }
    gy_maker_take(&set->maker, made);
    for (uint32_t i = 0; i < set->asked_count; i++) {
        set->asked[i]->exec = made[i];
    }
    set->asked_count = 0;
}

/* Make the graph of the nodes, and an executable graph of that: the maker may have it.  *part: its slots,
 * also on failure. */
static gantry_status instantiate(struct gy_kept_set *set, struct gy_kept_want *want, struct gy_nodes *nodes,
                                 struct gy_exec *exec, struct gy_slots_part *part)
{
    gantry_status status;
    if (want->exec.graph != NULL) {
        collect(set);
        *exec = want->exec;
        *part = want->slots;
        *want = (struct gy_kept_want){.found = want->found};
        status = exec->native != NULL ? GANTRY_OK : gy_error_adopt(&set->maker.cause);
    } else {
        *part = find_slots(set, nodes);
        exec->shape = gy_exec_shape_of(nodes);
        status = make_graph(set, nodes, *part, &exec->graph);
        status = status == GANTRY_OK ? gy_exec_make(set->context, exec, GY_EXEC_OF_NODES) : status;
    }
    return status;
}

static gantry_status fill_entry(struct gy_kept_set *set, struct gy_kept_want *want, struct gy_nodes *nodes,
                                struct gy_kept *kept)
{
    struct gy_exec exec = {.native = NULL};
    struct gy_slots_part part = {0, 0};
    gantry_status status = GANTRY_OK;
    if (kept->done == NULL) {
        status = GY_CALL(set->context, cuEventCreate(&kept->done, CU_EVENT_DISABLE_TIMING));
    }
    status = status == GANTRY_OK ? instantiate(set, want, nodes, &exec, &part) : status;
    status = status == GANTRY_OK ? gy_nodes_copy(&kept->nodes, nodes) : status;
    if (status != GANTRY_OK) {
        gy_exec_drop(set->context, &exec);
        gy_slots_put(&set->slots, part);
        return status;
    }
    kept->exec = exec;
    give_slots(set, kept, part);
    write_slots(set, kept, nodes, NULL);
    return GANTRY_OK;
}

static gantry_status make(struct gy_kept_set *set, struct gy_kept_want *want, struct gy_nodes *nodes,
                          struct gy_kept **out)
{
    struct gy_kept *kept = make_room(set, nodes->count);
    gantry_status status = fill_entry(set, want, nodes, kept);
    if (status != GANTRY_OK) {
        return status;
    }
    kept->names = gy_nodes_names(nodes);
    gy_kept_note_made(set);
    count(&set->counts.count, 1);
    count(&set->counts.node_count, nodes->count);
    assert(gy_kept_is_valid(set));
    *out = kept;
    return GANTRY_OK;
}

/* Make the graph of the nodes, and update the executable graph by that.  The driver still knows its nodes by
 * those of the graph that it was made of, which stays. */
static CUresult update(struct gy_kept_set *set, struct gy_kept *kept, struct gy_nodes *nodes,
                       uint64_t *changed)
{
    CUgraph graph;
    struct gy_nodes copy = {.context = NULL};
    if (make_graph(set, nodes, kept->slots, &graph) != GANTRY_OK) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = gy_exec_update(set->context, &kept->exec, graph, gy_exec_shape_of(nodes));
    if (result == CUDA_SUCCESS && gy_nodes_copy(&copy, nodes) != GANTRY_OK) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    gy_graph_destroy(set->context, graph);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    memcpy(copy.made, kept->nodes.made, nodes->count * sizeof(*copy.made));
    copy.table = kept->nodes.table;
    gy_nodes_fini(&kept->nodes);
    kept->nodes = copy;
    *changed = nodes->count;
    return CUDA_SUCCESS;
}

/* Set what differs.  False: the driver refuses, and it is dropped. */
static bool patch(struct gy_kept_set *set, const struct gy_kept_found *found, struct gy_nodes *nodes)
{
    struct gy_kept *kept = found->kept;
    uint64_t changed = 0;
    /* Since then another piece may have been paired. */
    if (found->is_paired && set->looked.is_by_pieces && !gy_nodes_pair(&set->pairing, &kept->nodes, nodes)) {
        return false;
    }
    const uint32_t *of = found->is_paired ? set->pairing.of : NULL;
    if (kept->slots.count == 0 && nodes->slot_args.placed != 0) {
        give_slots(set, kept, find_slots(set, nodes));
    }
    CUresult result = found->is_equal ? gy_nodes_patch_equal(&kept->nodes, kept->exec.native, nodes, &changed)
                                      : gy_nodes_patch(&kept->nodes, kept->exec.native, nodes, of, &changed);
    /* Drivers may refuse it in partitions, and of launches with options.  Nodes in another order would not be
     * updated by their partners, whose handles they take over. */
    if (result != CUDA_SUCCESS && of == NULL &&
        (nodes->list[0].form >= GY_FORM_LANE(0) || nodes->extra_count != 0)) {
        result = update(set, kept, nodes, &changed);
    }
    if (result != CUDA_SUCCESS) {
        gy_log(GANTRY_LOG_DEBUG, "an executable graph of %u nodes takes no more changes (%d): it is dropped",
               kept->nodes.count, (int)result);
        drop(set, kept);
        /* A graph of nodes in another order is no update. */
        set->refusals += result != CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
        if (result != CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE && set->refusals == GY_KEPT_REFUSALS) {
            gy_log(GANTRY_LOG_WARNING, "the driver refuses most changes of executable graphs: none are kept");
        }
        return false;
    }
    set->refusals -= set->refusals != 0;
    write_slots(set, kept, nodes, of);
    kept->names = found->names != 0 ? found->names : kept->names;
    count(&set->counts.hits, 1);
    count(&set->counts.nodes_hit, gy_nodes_count_work(nodes, nodes->count));
    set->seen.patches_due -= nodes->count < set->seen.patches_due ? nodes->count : set->seen.patches_due;
    count(&set->counts.nodes_set, changed);
    return true;
}

/* An executable graph that has the work of the nodes; NULL and GANTRY_OK: there are enough in flight. */
static gantry_status take(struct gy_kept_set *set, struct gy_kept_want *want, struct gy_nodes *nodes,
                          struct gy_kept_rule rule, struct gy_kept **out)
{
    const struct gy_kept_found *found = &want->found;
    if (found->kept != NULL && patch(set, found, nodes)) {
        *out = found->kept;
        return GANTRY_OK;
    }
    uint32_t places;
    if (found->kept == NULL &&
        (found->is_enough || (want->exec.graph == NULL && gy_exec_lacks_places(nodes, &places)))) {
        return GANTRY_OK;
    }
    const bool has_come = rule.plays == GY_PLAYS_STRANGE; /* or it begins as others; else it is played */
    set->strange += found->is_strange && !has_come ? nodes->count - found->familiar : 0;
    return make(set, want, nodes, out);
}

static bool may_keep(const struct gy_kept_set *set, const struct gy_nodes *nodes)
{
    return nodes->count <= GY_KEPT_NODES && set->refusals < GY_KEPT_REFUSALS;
}

/* Look what there is for the batch, unless that was done. */
static void look(struct gy_kept_set *set, struct gy_nodes *nodes, struct gy_kept_rule rule)
{
    if (gy_kept_follow_modules(set) || set->looked.nodes != nodes->count) {
        gy_kept_forget(set); /* nodes were taken back, or what was found is gone */
        gy_kept_look(set, nodes, rule);
    }
}

static void forget_want(struct gy_kept_set *set, struct gy_kept_want *want)
{
    gy_exec_drop(set->context, &want->exec);
    gy_slots_put(&set->slots, want->slots);
    *want = (struct gy_kept_want){.slots.count = 0};
}

void gy_kept_forget_any(struct gy_kept_set *set)
{
    collect(set);
    forget_want(set, &set->whole);
    for (uint32_t i = 0; i < set->pieces.count; i++) {
        forget_want(set, &set->of_pieces[i]);
    }
    for (uint32_t i = 0; i < GY_KEPT_MOST && set->looked.is_by_pieces; i++) {
        set->of[i].is_claimed = false;
    }
    set->looked.is_by_pieces = false;
    set->looked.nodes = 0;
}

void gy_kept_make_slots(struct gy_kept_set *set, struct gy_nodes *nodes)
{
    gy_slots_make(&set->slots, set->context);
    nodes->slot_args.stand_ins = set->slots.device;
}

/* If an executable graph has to be made, make the graph for the maker.  A failure is met again when the nodes
 * are launched, which tells why. */
static void make_for(struct gy_kept_set *set, struct gy_kept_want *want, struct gy_nodes *nodes)
{
    uint32_t places;
    if (want->found.kept != NULL || want->found.is_enough || want->found.is_played ||
        gy_exec_lacks_places(nodes, &places)) {
        return;
    }
    CUgraph graph;
    const struct gy_relaxed relaxed = gy_relaxed_begin(set->context);
    const struct gy_slots_part part = find_slots(set, nodes);
    const gantry_status status =
        relaxed.status == GANTRY_OK ? make_graph(set, nodes, part, &graph) : relaxed.status;
    (void)gy_relaxed_end(set->context, &relaxed); /* a failure is in the context */
    if (status != GANTRY_OK) {
        gy_slots_put(&set->slots, part);
        return;
    }
    /* Else pieces that are patched meanwhile might exchange them. */
    gy_nodes_give_events(nodes, nodes->count);
    want->exec = (struct gy_exec){.graph = graph, .shape = gy_exec_shape_of(nodes)};
    want->slots = part;
    set->asked[set->asked_count++] = want;
}

/* Ask the maker for those of which there is a graph. */
static void ask(struct gy_kept_set *set)
{
    struct gy_exec execs[GY_MAKER_MOST];
    for (uint32_t i = 0; i < set->asked_count; i++) {
        execs[i] = set->asked[i]->exec;
    }
    if (set->asked_count == 0 || gy_maker_ask(&set->maker, execs, set->asked_count)) {
        return;
    }
    for (uint32_t i = 0; i < set->asked_count; i++) { /* there is no thread */
        const struct gy_kept_found found = set->asked[i]->found;
        forget_want(set, set->asked[i]);
        set->asked[i]->found = found;
    }
    set->asked_count = 0;
}

void gy_kept_prepare(struct gy_kept_set *set, struct gy_nodes *nodes, struct gy_kept_rule rule)
{
    if (!may_keep(set, nodes) || gy_context_is_lost(set->context)) {
        return;
    }
    gy_slot_args_place(nodes);
    look(set, nodes, rule);
    if (set->asked_count == 0 && set->looked.is_by_pieces) {
        for (uint32_t i = 0; i < set->pieces.count; i++) {
            make_for(set, &set->of_pieces[i], &set->pieces.of[i]);
        }
        ask(set);
    } else if (set->asked_count == 0) {
        const uint32_t whole = nodes->count;
        nodes->count = set->looked.first;
        make_for(set, &set->whole, nodes);
        nodes->count = whole;
        ask(set);
    }
}

gantry_status gy_kept_take(struct gy_kept_set *set, struct gy_nodes *nodes, struct gy_kept_rule rule,
                           uint32_t *first, struct gy_kept **out, bool *is_played)
{
    assert(*first == nodes->count && gy_kept_is_valid(set));
    const uint32_t whole = nodes->count;
    gantry_status status = GANTRY_OK;
    *out = NULL;
    *is_played = false;
    if (!may_keep(set, nodes)) {
        return GANTRY_OK;
    }
    look(set, nodes, rule);
    *first = nodes->count = set->looked.first;
    *is_played = set->whole.found.is_played;
    if (!*is_played) {
        status = take(set, &set->whole, nodes, rule, out);
    }
    nodes->count = whole;
    gy_kept_forget(set);
    return status;
}

uint32_t gy_kept_pieces(struct gy_kept_set *set, struct gy_nodes *nodes, struct gy_kept_rule rule)
{
    if (!may_keep(set, nodes)) {
        return 0;
    }
    look(set, nodes, rule);
    return set->looked.is_by_pieces ? set->pieces.count : 0;
}

gantry_status gy_kept_take_piece(struct gy_kept_set *set, uint32_t piece, struct gy_kept_rule rule,
                                 struct gy_kept **out)
{
    assert(set->looked.is_by_pieces && piece < set->pieces.count);
    *out = NULL;
    return take(set, &set->of_pieces[piece], &set->pieces.of[piece], rule, out);
}

/* Its latest launch was seen done: nothing reads them now. */
static GY_COLD gantry_status send_slots(const struct gy_kept_set *set, struct gy_kept *kept, CUstream home)
{
    kept->is_written = false;
    return GY_CALL(set->context, cuMemcpyHtoDAsync(gy_slots_on_device(&set->slots, kept->slots),
                                                   gy_slots_on_host(&set->slots, kept->slots),
                                                   kept->nodes.count * sizeof(uint64_t), home));
}

gantry_status gy_kept_launch(struct gy_kept_set *set, struct gy_kept *kept, CUstream home, uint32_t partition,
                             const struct gy_few_points *ends)
{
    gantry_status status = kept->is_written ? send_slots(set, kept, home) : GANTRY_OK;
    status = status == GANTRY_OK ? GY_CALL(set->context, cuGraphLaunch(kept->exec.native, home)) : status;
    if (status != GANTRY_OK) {
        return status;
    }
    kept->used = ++set->launches;
    kept->ends = *ends;
    if (gy_kept_is_large(&kept->nodes)) {
        set->running[partition] = (struct gy_kept_running){kept->done, gy_clock_ns(), kept->nodes.count};
    }
    status = GY_CALL(set->context, cuEventRecord(kept->done, home));
    if (status != GANTRY_OK) { /* nobody could tell when it may be set or launched again */
        gy_context_lose(set->context, gy_error_last());
        return gy_context_adopt_loss(set->context);
    }
    return GANTRY_OK;
}

enum {
    NODE_NS = 300,
    LAUNCH_NS = 20000 /* a device takes about 200 ns to begin a short kernel of a graph */
};

bool gy_kept_is_queued(struct gy_kept_set *set, uint32_t partition)
{
    struct gy_kept_running *running = &set->running[partition];
    if (running->nodes == 0) {
        return false;
    }
    const bool is_over =
        gy_clock_ns() >= running->since_ns + LAUNCH_NS + (uint64_t)running->nodes * NODE_NS ||
        gy_kept_is_done(set, running->done);
    running->nodes = is_over ? 0 : running->nodes;
    return !is_over;
}

void gy_kept_drop_first(struct gy_kept_set *set, struct gy_nodes *nodes, uint32_t first)
{
    gy_nodes_drop_first(&set->pairing, nodes, first);
}

bool gy_kept_is_valid(const struct gy_kept_set *set)
{
    return read(&set->counts.count) <= GY_KEPT_MOST && read(&set->counts.node_count) <= GY_KEPT_NODES &&
           read(&set->counts.nodes_set) <= read(&set->counts.nodes_hit) &&
           (read(&set->counts.count) != 0 || read(&set->counts.node_count) == 0);
}
