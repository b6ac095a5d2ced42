/* SPDX-License-Identifier: MIT */
/* Makes a program from a seed.  Every choice is a hash of the seed and of its subject, so that a program
 * from which something was removed stays the same otherwise. */
#include "tests/campaign/crossing.h"

#include <string.h>

enum about { /* the subject of a choice; subjects about one feature have its number above these */
             ABOUT_NODES,
             ABOUT_KIND,
             ABOUT_PREDS,
             ABOUT_PRED,
             ABOUT_READS = ABOUT_PRED + PREDS_MOST,
             ABOUT_PAUSE,
             ABOUT_CALLS,
             ABOUT_TELLS,
             ABOUT_LIGHT,
             ABOUT_FLAGS,
             ABOUT_PART,
             ABOUT_MEMORY = ABOUT_PART + 3,
             ABOUT_STEPS,
             ABOUT_POLL,
             ABOUT_REFERENCE,
             ABOUT_SIZE,
             ABOUT_SECOND,
             ABOUT_DEVICE,
             ABOUT_FEATURE = 1000
};

/* Neighbouring seeds must not begin alike: this is splitmix64, after Steele, Lea and Flood (2014). */
static uint64_t scatter(uint64_t seed)
{
    uint64_t z = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint32_t cross_pick(const struct cross_program *program, uint32_t about, uint32_t node, uint32_t below)
{
    return (uint32_t)(scatter(scatter(program->seed) ^ ((uint64_t)about << 32 | node)) % below);
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool value_fits(const struct cross_program *program, int value, int features)
{
    if (cross_not_yet(value, value) != NULL) {
        return false;
    }
    for (int f = 0; f < features; f++) {
        if (f != cross_values[value].feature && !cross_may_meet(value, program->value[f])) {
            return false;
        }
    }
    for (int f = 0; f < FEATURES; f++) { /* further values are printed, too */
        for (int k = 0; k < MORE && program->more[f][k] != NO_VALUE; k++) {
            if (f != cross_values[value].feature && !cross_may_meet(value, program->more[f][k])) {
                return false;
            }
        }
    }
    return true;
}

static int draw_value(const struct cross_program *program, int feature, const bool *fixed, uint32_t attempt)
{
    const struct cross_feature *f = &cross_features[feature];
    uint32_t sum = 0, fits = 0;
    for (int v = f->first; v < f->first + f->count; v++) {
        bool may = value_fits(program, v, feature);
        for (int other = feature + 1; other < FEATURES && may; other++) {
            may = !fixed[other] || cross_may_meet(v, program->value[other]);
        }
        fits |= may ? 1U << (v - f->first) : 0;
        sum += may ? cross_values[v].weight : 0;
    }
    if (sum == 0) {
        return f->first;
    }
    uint32_t drawn = cross_pick(program, ABOUT_FEATURE + (uint32_t)feature, attempt, sum);
    for (int v = f->first; v < f->first + f->count; v++) {
        if ((fits & 1U << (v - f->first)) != 0) {
            if (drawn < cross_values[v].weight) {
                return v;
            }
            drawn -= cross_values[v].weight;
        }
    }
    return f->first;
}

static bool values_fit(const struct cross_program *p)
{
    for (int f = 0; f < FEATURES; f++) {
        if (!value_fits(p, p->value[f], f)) {
            return false;
        }
    }
    return true;
}

/* Where two features do not go together, the forced value stays, else the earlier one.  The last features
 * may have no value left: then all are drawn again. */
static bool draw_values(struct cross_program *p, const struct cross_choice *choice)
{
    bool fixed[FEATURES] = {false};
    for (int f = 0; f < FEATURES; f++) {
        for (int k = 0; k < MORE; k++) {
            p->more[f][k] = (uint8_t)(choice->more[f][k] >= 0 ? choice->more[f][k] : NO_VALUE);
        }
    }
    for (uint32_t attempt = 0; attempt < 20; attempt++) {
        for (int f = 0; f < FEATURES; f++) {
            fixed[f] = choice->forced[f] >= 0;
            p->value[f] = (uint8_t)(fixed[f] ? choice->forced[f] : cross_features[f].first);
        }
        for (int f = 0; f < FEATURES; f++) {
            if (!fixed[f]) {
                p->value[f] = (uint8_t)draw_value(p, f, fixed, attempt);
            }
        }
        if (values_fit(p)) {
            return true;
        }
    }
    return false;
}

bool cross_choice_fits(uint64_t seed, const struct cross_choice *choice)
{
    struct cross_program p = {.seed = seed};
    return draw_values(&p, choice);
}

/* ---- the graph of tasks ---------------------------------------------------------------------- */

/* The first nodes of a manager are those that most features need: a kernel, a CPU task after it, a kernel
 * after that, and a CPU task by itself. */
enum { PATTERN = 4, ALONE_IN_PATTERN = 3 };

static bool is_pattern(const struct cross_program *p, uint32_t i, uint32_t first)
{
    return i - first < PATTERN && cross_pick(p, ABOUT_KIND, 1000 + first, 5) != 0;
}

static void draw_pattern(const struct cross_program *p, struct cross_node *node, uint32_t i, uint32_t at)
{
    node->kind = at % 2 == 0 ? KIND_KERNEL : KIND_CPU;
    if (at != 0 && at != ALONE_IN_PATTERN && !p->nodes[i - 1].dropped) {
        node->preds[node->pred_count++] = (uint8_t)(i - 1);
        node->ancestors = p->nodes[i - 1].ancestors | UINT64_C(1) << (i - 1);
    }
}

static void draw_kind(const struct cross_program *p, struct cross_node *node, uint32_t i)
{
    static const uint8_t kinds[] = {KIND_KERNEL, KIND_KERNEL, KIND_KERNEL, KIND_KERNEL,
                                    KIND_KERNEL, KIND_HTOD,   KIND_DTOH,   KIND_DTOH,
                                    KIND_CPU,    KIND_CPU,    KIND_CPU,    KIND_SYNC};
    node->kind = kinds[cross_pick(p, ABOUT_KIND, i, sizeof(kinds))];
}

static void draw_preds(const struct cross_program *p, struct cross_node *node, uint32_t i, uint32_t first)
{
    static const uint8_t counts[] = {0, 1, 1, 1, 1, 1, 2, 2, 3};
    uint32_t before = i - first, wanted = counts[cross_pick(p, ABOUT_PREDS, i, sizeof(counts))];
    for (uint32_t k = 0; k < wanted && before > 0; k++) {
        uint32_t reach = cross_pick(p, ABOUT_PREDS, i + 100 + k, 3) == 0 || before < 4 ? before : 4;
        uint32_t pred = i - 1 - cross_pick(p, ABOUT_PRED + k, i, reach);
        bool alone = pred == first + ALONE_IN_PATTERN && is_pattern(p, pred, first);
        if (!p->nodes[pred].dropped && !alone && (node->ancestors & UINT64_C(1) << pred) == 0) {
            node->preds[node->pred_count++] = (uint8_t)pred;
            node->ancestors |= p->nodes[pred].ancestors | UINT64_C(1) << pred;
        }
    }
}

static bool is_dear(const struct cross_program *p)
{
    return cross_has(p, VALUE_GPU_SPIN) || cross_has(p, VALUE_CPU_SPIN);
}

/* Programs that are expensive are small.  Most others are, too; some are as large as possible. */
static uint32_t draw_count(const struct cross_program *p, uint32_t manager)
{
    static const uint8_t spinning[] = {0, 3, 1, 0}, small[] = {0, 12, 6, 4}, large[] = {0, 36, 18, 11};
    bool spins = is_dear(p);
    bool is_large = cross_pick(p, ABOUT_SIZE, 0, 12) == 0;
    const uint8_t *most = spins ? spinning : is_large ? large : small;
    return PATTERN + cross_pick(p, ABOUT_NODES, manager, 1U + most[p->manager_count]);
}

static void draw_nodes(struct cross_program *p, uint64_t dropped)
{
    uint32_t first = 0;
    p->manager_count = cross_has(p, VALUE_ALONE) ? 1 : cross_has(p, VALUE_TWO_MANAGERS) ? 2 : 3;
    for (uint32_t m = 0; m < p->manager_count; m++) {
        uint32_t count = draw_count(p, m);
        for (uint32_t i = first; i < first + count; i++) {
            struct cross_node *node = &p->nodes[i];
            memset(node, 0, sizeof(*node));
            node->manager = (uint8_t)m;
            node->dropped = (dropped & UINT64_C(1) << i) != 0;
            node->foreign = VALUE_NO_FOREIGN;
            node->copies = VALUE_NO_COPY;
            node->heap = VALUE_NO_HEAP;
            node->light_value = VALUE_NO_LIGHT;
            node->tell_value = VALUE_NO_COMPLETION;
            node->poll = node->tells = node->lets_go = node->group = node->continuation = NOBODY;
            if (is_pattern(p, i, first)) {
                draw_pattern(p, node, i, i - first);
            } else {
                draw_kind(p, node, i);
                draw_preds(p, node, i, first);
            }
        }
        first += count;
    }
    p->node_count = first;
    for (uint32_t i = 0; i < first; i++) {
        for (uint32_t a = 0; a < i; a++) {
            p->nodes[a].offspring |= (p->nodes[i].ancestors >> a & 1) != 0 ? UINT64_C(1) << i : 0;
        }
    }
}

/* Half of the tasks that a kernel reads come before it; the others come behind it, so that it must find
 * their data of the step before. */
static void draw_reads(const struct cross_program *p, struct cross_node *node, uint32_t i)
{
    for (uint32_t k = 0; k < 3 * CROSS_READS && node->read_count < CROSS_READS; k++) {
        uint32_t other =
            k < node->pred_count ? node->preds[k] : cross_pick(p, ABOUT_READS, i * 100 + k, p->node_count);
        uint64_t bit = UINT64_C(1) << other;
        bool before = (node->ancestors & bit) != 0, behind = (node->offspring & bit) != 0, twice = false;
        for (uint32_t r = 0; r < node->read_count; r++) {
            twice = twice || node->reads[r] == other;
        }
        if ((!before && !behind) || twice || p->nodes[other].dropped || p->nodes[other].kind == KIND_SYNC ||
            (behind && !cross_is_gpu(&p->nodes[other]))) {
            continue;
        }
        node->relations[node->read_count] = before ? READ_BEFORE : READ_BEHIND;
        node->reads[node->read_count++] = (uint8_t)other;
    }
}

bool cross_stays_plain(const struct cross_program *p, uint32_t node)
{
    bool plain = cross_has(p, VALUE_REPLAYED);
    for (uint32_t i = 0; i < node; i++) {
        plain = plain && ((p->nodes[node].ancestors >> i & 1) == 0 || cross_is_gpu(&p->nodes[i]));
    }
    return plain;
}

/* ---- what the nodes do ----------------------------------------------------------------------- */

/* The value that the feature has at the next node that has one: they take turns, so that each is used. */
static uint8_t one_of(const struct cross_program *p, int feature, uint32_t turn)
{
    uint32_t count = cross_value_count(p, feature),
             k = (cross_pick(p, ABOUT_SECOND, (uint32_t)feature, count) + turn) % count;
    return k == 0 ? p->value[feature] : p->more[feature][k - 1];
}

static uint8_t next_of(struct cross_program *p, int feature)
{
    return one_of(p, feature, p->drawn[feature]++);
}

static void draw_calls(struct cross_program *p, struct cross_node *node, uint32_t i)
{
    node->calls = 1;
    if (cross_pick(p, ABOUT_CALLS, i, 2) != 0) {
        return;
    }
    uint8_t value = next_of(p, FEATURE_CALLS);
    if (value == VALUE_CALLS) {
        node->calls = (uint8_t)(2 + cross_pick(p, ABOUT_CALLS, i + 100, CALLS_MOST - 1));
    }
    if (value == VALUE_AGAIN) {
        node->idle = (uint8_t)(1 + cross_pick(p, ABOUT_CALLS, i + 200, 30));
    }
}

/* While the GPU does nothing, threads that do not sleep use the processors' time. */
static bool burns(const struct cross_program *p)
{
    return is_dear(p) || cross_has(p, VALUE_GPU_YIELD) || cross_has(p, VALUE_CPU_YIELD);
}

static void draw_gpu(struct cross_program *p, struct cross_node *node, uint32_t i)
{
    static const uint32_t pauses_us[] = {0, 0, 0, 0, 0, 0, 10, 40, 150, 800};
    node->pause_ns = 1000 * pauses_us[cross_pick(p, ABOUT_PAUSE, i, burns(p) ? 8 : 10)];
    node->pause_ns = cross_has(p, VALUE_CANCEL_DEBT) ? 0 : node->pause_ns; /* nothing is owed before */
    bool plain = cross_stays_plain(p, i);
    if (!plain) {
        draw_calls(p, node, i);
    }
    node->stable = !cross_has(p, VALUE_UNSTABLE) &&
                   (cross_has(p, VALUE_REPLAYED) || cross_pick(p, ABOUT_FLAGS, i, 4) != 0);
    uint32_t one_in = cross_has(p, VALUE_REPLAYED) ? 2 : 3; /* there fewer are asked */
    bool copies = cross_pick(p, ABOUT_FLAGS, i + 100, 2) == 0,
         has_block = !plain && cross_pick(p, ABOUT_FLAGS, i + 300, one_in) == 0;
    uint8_t foreign = VALUE_NO_FOREIGN;
    if (cross_pick(p, ABOUT_FLAGS, i + 200, cross_value_count(p, FEATURE_FOREIGN) > 1 ? 2 : one_in) == 0) {
        foreign = next_of(p, FEATURE_FOREIGN);
    }
    bool leaves = foreign == VALUE_UNJOINED || foreign == VALUE_RAW_BATCH || foreign == VALUE_RAW_ALLOC ||
                  foreign == VALUE_LEAVE || foreign == VALUE_OWN_GRAPH;
    bool calls = foreign != VALUE_NO_FOREIGN && !(plain && leaves);
    node->foreign = calls ? foreign : VALUE_NO_FOREIGN;
    node->heap = has_block ? next_of(p, FEATURE_HEAP) : VALUE_NO_HEAP;
    node->copies = copies && !calls ? next_of(p, FEATURE_COPY) : VALUE_NO_COPY;
    node->asks = cross_has(p, VALUE_SYNC_POINT) && !plain && cross_pick(p, ABOUT_FLAGS, i + 400, one_in) == 0;
    node->apart = (node->heap != VALUE_NO_HEAP || node->asks || (calls && leaves)) &&
                  (cross_has(p, VALUE_REPLAYED) || cross_pick(p, ABOUT_FLAGS, 99, 2) == 0);
    node->partition = cross_has(p, VALUE_WHOLE) ? 0 : (uint8_t)cross_pick(p, ABOUT_FLAGS, i + 500, 4);
    node->device =
        cross_has(p, VALUE_TWO_DEVICES) ? (uint8_t)cross_pick(p, ABOUT_DEVICE, i, DEVICES_MOST) : 0;
    node->independent = cross_has(p, VALUE_FREE_STEPS) ||
                        (cross_has(p, VALUE_FREE_TASKS) && cross_pick(p, ABOUT_FLAGS, i + 700, 3) == 0);
}

/* The node that a completion is for: one that comes directly after (so it fails with the task), or one that
 * waits for nothing else, a witness. */
static void draw_tells_so(struct cross_program *p, uint32_t i, uint8_t value)
{
    struct cross_node *node = &p->nodes[i];
    bool witness = value == VALUE_WITNESS || value == VALUE_ACROSS;
    bool plain = value == VALUE_ACROSS && cross_stays_plain(p, i);
    if (cross_has(p, VALUE_NO_COMPLETION) || node->dropped || !cross_is_gpu(node) || plain) {
        return;
    }
    for (uint32_t k = 0; k < 24 && node->tells == NOBODY; k++) {
        uint32_t other = witness ? cross_pick(p, ABOUT_TELLS, i * 100 + k, p->node_count) : i + 1 + k;
        if (other >= p->node_count || p->nodes[other].dropped || p->nodes[other].kind != KIND_CPU) {
            continue;
        }
        struct cross_node *told = &p->nodes[other];
        bool is_pred = false;
        for (uint32_t q = 0; q < told->pred_count; q++) {
            is_pred = is_pred || told->preds[q] == i;
        }
        if (witness) {
            bool across = value == VALUE_ACROSS;
            if ((told->manager == node->manager) == across || (across && told->manager > node->manager) ||
                (node->ancestors >> other & 1) != 0 || told->held != 0 || told->offspring != 0) {
                continue;
            }
            told->held++;
            node->lets_go = (uint8_t)other;
        } else if (!is_pred) {
            continue;
        }
        node->tells = (uint8_t)other;
        node->tell_value = value;
        node->tell_call =
            (uint8_t)(value == VALUE_COMPLETION          ? node->calls - 1U
                      : value == VALUE_COMPLETION_MIDDLE ? 0
                                                         : cross_pick(p, ABOUT_TELLS, i + 50, node->calls));
    }
}

/* Use the way whose turn it is, else another one. */
static void draw_tells(struct cross_program *p, uint32_t i)
{
    uint32_t count = cross_value_count(p, FEATURE_COMPLETION), turn = p->drawn[FEATURE_COMPLETION];
    for (uint32_t k = 0; k < count && p->nodes[i].tells == NOBODY; k++) {
        draw_tells_so(p, i, one_of(p, FEATURE_COMPLETION, turn + k));
    }
    if (p->nodes[i].tells != NOBODY) {
        p->drawn[FEATURE_COMPLETION]++;
    }
}

static void draw_cpu(struct cross_program *p, uint32_t i)
{
    struct cross_node *node = &p->nodes[i];
    if (cross_has(p, VALUE_NO_LIGHT) || node->kind != KIND_CPU || cross_pick(p, ABOUT_LIGHT, i, 4) == 0) {
        return;
    }
    for (uint32_t other = i + 1; other < p->node_count; other++) {
        const struct cross_node *next = &p->nodes[other];
        for (uint32_t k = 0; k < next->pred_count && !next->dropped; k++) {
            if (next->preds[k] == i) {
                node->light_value = next_of(p, FEATURE_LIGHT);
                node->light = 1 + (uint8_t)cross_pick(p, ABOUT_LIGHT, i + 100, 3);
                node->continuation = (uint8_t)other;
                return;
            }
        }
    }
}

static void draw_references(struct cross_program *p)
{
    for (uint32_t i = 0; i < p->node_count; i++) {
        struct cross_node *node = &p->nodes[i];
        if (node->dropped || cross_has(p, VALUE_NO_REFERENCE) || cross_pick(p, ABOUT_REFERENCE, i, 4) != 0) {
            continue;
        }
        if (cross_has(p, VALUE_REFERENCE_THREAD) || cross_has(p, VALUE_REFERENCE_FAILED)) {
            node->held++; /* a node beside those that a witness waits for */
            node->thread_lets_go = true;
            continue;
        }
        for (uint32_t k = 0; k < 6 && node->held == 0;
             k++) { /* the release of a node of another line gives it back */
            uint32_t other = cross_pick(p, ABOUT_REFERENCE, i * 100 + k, p->node_count);
            struct cross_node *from = &p->nodes[other];
            if (other < i && !from->dropped && from->manager == node->manager && from->lets_go == NOBODY &&
                from->held == 0) {
                from->lets_go = (uint8_t)i;
                node->held++;
                break;
            }
        }
    }
}

/* The nodes that a node's release needs: all that come before it, in whatever way. */
static uint64_t needs(const struct cross_program *p, uint32_t node)
{
    uint64_t set = UINT64_C(1) << node, before = 0;
    while (set != before) {
        before = set;
        for (uint32_t i = 0; i < p->node_count; i++) {
            const struct cross_node *n = &p->nodes[i];
            if ((n->lets_go != NOBODY && (set >> n->lets_go & 1) != 0) ||
                (n->tells != NOBODY && (set >> n->tells & 1) != 0)) {
                set |= UINT64_C(1) << i;
            }
            set |= (set >> i & 1) != 0 ? n->ancestors : 0;
        }
    }
    return set;
}

/* One GPU task asks again and again until a node that does not need it was released. */
static void draw_poll(struct cross_program *p)
{
    for (uint32_t k = 0; k < 60 && cross_has(p, VALUE_POLL); k++) {
        uint32_t i = cross_pick(p, ABOUT_POLL, k, p->node_count),
                 other = cross_pick(p, ABOUT_POLL, k + 100, p->node_count);
        struct cross_node *node = &p->nodes[i];
        uint64_t set = needs(p, other);
        bool grouped = node->group != NOBODY;
        for (uint32_t n = 0; n < p->node_count; n++) {
            grouped = grouped || ((set >> n & 1) != 0 && p->nodes[n].group != NOBODY);
        }
        bool other_manager = p->nodes[other].manager != node->manager;
        bool later = p->nodes[other].manager > node->manager && !cross_has(p, VALUE_RUNS);
        /* run() may have another manager in an earlier step, which needs all of its tasks */
        later = later || (other_manager && cross_has(p, VALUE_RUNS) && !cross_has(p, VALUE_NO_MEMORY));
        if (cross_is_gpu(node) && !cross_stays_plain(p, i) && !node->dropped && !p->nodes[other].dropped &&
            (set >> i & 1) == 0 && !grouped && !later) {
            node->poll = (uint8_t)other;
            node->stable = false;
            node->calls = 1;
            node->idle = 0;
            node->tell_call = 0;
            return;
        }
    }
}

/* Jobs that need each other while the application holds references may wait for ever, as the manual says
 * (docs/guides/heap.md): there each job is a single task, which holds memory only while it runs. */
static void draw_memory(struct cross_program *p)
{
    bool outside =
        cross_has(p, VALUE_WITNESS) || cross_has(p, VALUE_ACROSS) || cross_has(p, VALUE_REFERENCE_RELEASE);
    bool fits = cross_has(p, VALUE_MEMORY_FITS);
    uint32_t taken[MANAGERS_MOST] = {0};
    if (cross_has(p, VALUE_NO_MEMORY)) {
        return;
    }
    p->group_count = fits ? 2 : GROUPS_MOST;
    for (uint32_t g = 0; g < p->group_count; g++) {
        p->group_bytes[g] = (fits ? UINT64_C(2) : UINT64_C(36)) << 20;
    }
    for (uint32_t i = 0; i < p->node_count; i++) {
        struct cross_node *node = &p->nodes[i];
        /* a task that polls has none */
        if (cross_pick(p, ABOUT_MEMORY, i, cross_has(p, VALUE_POLL) ? 3 : 2) != 0) {
            continue;
        }
        if (outside && !fits) {
            bool free = cross_is_gpu(node) && taken[node->manager] < p->group_count;
            node->group = free ? (uint8_t)taken[node->manager]++ : NOBODY;
        } else if (cross_is_gpu(node) || node->kind == KIND_CPU) {
            node->group = (uint8_t)cross_pick(p, ABOUT_MEMORY, i / 3 + 100, p->group_count);
        }
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

static uint64_t nodes_of(const struct cross_program *p, uint32_t manager)
{
    uint64_t set = 0;
    for (uint32_t i = 0; i < p->node_count; i++) {
        set |= p->nodes[i].manager == manager && !p->nodes[i].dropped ? UINT64_C(1) << i : 0;
    }
    return set;
}

static uint64_t reach(const struct cross_program *p, uint32_t root)
{
    uint64_t set = UINT64_C(1) << root;
    for (uint32_t i = root + 1; i < p->node_count; i++) {
        for (uint32_t k = 0; k < p->nodes[i].pred_count; k++) {
            set |= (set >> p->nodes[i].preds[k] & 1) != 0 && !p->nodes[i].dropped ? UINT64_C(1) << i : 0;
        }
    }
    return set;
}

static uint32_t pick_root(const struct cross_program *p, uint32_t about, uint64_t all)
{
    uint32_t root = 0;
    for (uint32_t k = 0; k < 8; k++) {
        root = cross_pick(p, ABOUT_PART, about + 1000 * k, p->node_count);
        if ((all >> root & 1) != 0) {
            break;
        }
    }
    return root;
}

static void draw_steps(struct cross_program *p)
{
    p->steps = cross_has(p, VALUE_ONE_STEP) ? 1 : 2 + cross_pick(p, ABOUT_STEPS, 0, STEPS_MOST - 3);
    bool slow =
        is_dear(p) || cross_has(p, VALUE_CANCEL_DEBT); /* where each kernel is paid for a hundredfold */
    uint32_t troubles = cross_trouble_steps(p, p->manager_count > 1 && slow);
    if (cross_has(p, VALUE_REPLAYED)) { /* automatic submission tries the other way, too */
        p->steps = cross_has(p, VALUE_AUTO) || troubles > 4 ? STEPS_MOST : 2 + (troubles > 2 ? troubles : 2);
    } else if (troubles > 0) {
        p->steps = troubles > 1 ? troubles : 2;
    } else if (p->steps > 2 && slow) {
        p->steps = 2;
    }
    for (uint32_t s = 0; s < p->steps; s++) {
        for (uint32_t m = 0; m < p->manager_count; m++) {
            uint64_t all = nodes_of(p, m);
            bool last = s + 1 == p->steps, debt = last && cross_has(p, VALUE_CANCEL_DEBT);
            /* the part that runs again is the graph */
            bool whole = debt || (cross_has(p, VALUE_REPLAYED) && s != 0 && !last);
            uint32_t root = pick_root(p, s * 10 + m, all);
            p->roots[s][m] = NOBODY;
            if (cross_has(p, VALUE_PARTS) && !whole && (all >> root & 1) != 0 &&
                cross_pick(p, ABOUT_PART, s + 100, 3) != 0) {
                p->roots[s][m] = (uint8_t)root;
                all = reach(p, root);
            }
            p->part[s] |= all;
        }
    }
}

void cross_program_draw(struct cross_program *program, uint64_t seed, const struct cross_choice *choice)
{
    memset(program, 0, sizeof(*program));
    program->seed = seed;
    program->has_stamps = choice->has_stamps;
    program->stamp_off = choice->stamp_off;
    (void)draw_values(program, choice);
    draw_nodes(program, choice->dropped);
    for (uint32_t i = 0; i < program->node_count; i++) {
        struct cross_node *node = &program->nodes[i];
        draw_reads(program, node, i);
        node->calls = 1;
        if (cross_is_gpu(node)) {
            draw_gpu(program, node, i);
        }
        node->named = !cross_has(program, VALUE_UNNAMED) && cross_pick(program, ABOUT_FLAGS, i + 600, 2) == 0;
    }
    draw_memory(program);
    for (uint32_t i = 0; i < program->node_count; i++) {
        draw_tells(program, i);
        draw_cpu(program, i);
    }
    draw_references(program);
    draw_poll(program);
    draw_steps(program);
    cross_draw_trouble(program);
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_node(const struct cross_program *p, uint32_t i, FILE *file)
{
    static const char *const kinds[] = {"CPU", "sync", "HtoD", "kernel", "DtoH"};
    const struct cross_node *node = &p->nodes[i];
    fprintf(file, "  %2u %-6s manager %u after", i, kinds[node->kind], node->manager);
    for (uint32_t k = 0; k < node->pred_count; k++) {
        fprintf(file, " %u", node->preds[k]);
    }
    fprintf(file, "; reads");
    for (uint32_t k = 0; k < node->read_count; k++) {
        fprintf(file, " %u", node->reads[k]);
    }
    if (cross_is_gpu(node)) {
        fprintf(file, "; calls %u+%u, pause %u us%s%s%s%s%s%s%s", node->idle, node->calls,
                node->pause_ns / 1000, node->stable ? ", stable" : "",
                node->copies != VALUE_NO_COPY ? ", copies" : "",
                node->foreign != VALUE_NO_FOREIGN ? ", " : "",
                node->foreign != VALUE_NO_FOREIGN ? cross_values[node->foreign].name : "",
                node->heap != VALUE_NO_HEAP ? ", heap" : "", node->asks ? ", sync point" : "",
                node->independent ? ", independent" : "");
        fprintf(file, "%s", node->device != 0 ? ", device 1" : "");
    }
    if (node->tells != NOBODY) {
        fprintf(file, ", tells %u in call %u (%s)", node->tells, node->tell_call,
                cross_values[node->tell_value].name);
    }
    if (node->lets_go != NOBODY) {
        fprintf(file, ", lets go %u", node->lets_go);
    }
    if (node->poll != NOBODY) {
        fprintf(file, ", polls for %u", node->poll);
    }
    if (node->group != NOBODY) {
        fprintf(file, ", memory %u", node->group);
    }
    fprintf(file, "%s%s\n", node->held != 0 ? ", held" : "", node->light != 0 ? ", light tasks" : "");
}

void cross_program_print(const struct cross_program *program, FILE *file)
{
    fprintf(file, "plan of seed %llu:", (unsigned long long)program->seed);
    for (int f = 0; f < FEATURES; f++) {
        if (program->value[f] != cross_features[f].first) {
            fprintf(file, " %s=%s", cross_features[f].name, cross_values[program->value[f]].name);
        }
        for (int k = 0; k < MORE && program->more[f][k] != NO_VALUE; k++) {
            fprintf(file, " %s=%s", cross_features[f].name, cross_values[program->more[f][k]].name);
        }
    }
    fprintf(file, "\n");
    for (uint32_t i = 0; i < program->node_count; i++) {
        if (!program->nodes[i].dropped) {
            print_node(program, i, file);
        }
    }
    for (uint32_t s = 0; s < program->steps; s++) {
        fprintf(file, "  step %u runs %012llx\n", s, (unsigned long long)program->part[s]);
    }
    cross_print_trouble(program, file);
}
