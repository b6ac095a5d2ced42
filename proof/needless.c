/* SPDX-License-Identifier: MIT */
/* A need is met without an edge if a path is left.  So for each part that something has to come after, the
 * nodes made since are walked once in the order of their numbers, for 64 pairs of labels at a time: a bit of
 * a node says that the part is reached on a path without an edge of that pair.
 *
 * What an edge costs is modelled: each part begins when all that its past has are over, and takes as long as
 * its works took in this run. */
#include "proof/needless.h"

#include "base/alloc.h"
#include "proof/order.h"
#include "proof/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PAIRS = 1024, BATCH = 64, CHAIN = 6 };
#define MOST_VISITS (UINT64_C(1) << 31)

/* All edges from a task of one label to a task of another. */
struct pair {
    const char *from, *to; /* as gy_name_keep() gives them */
    uint32_t count;
    bool waits;
    bool is_needed; /* or it cannot be told */
};

struct judging {
    const struct gy_trails *trails;
    uint32_t nodes, edges, needs; /* so many there were when it began */
    struct pair *pairs;           /* [pair_count] */
    uint32_t pair_count;
    uint32_t *pair_of;            /* [edges]; MOST_PAIRS: of none */
    uint64_t *reached;            /* [nodes]; scratch */
    struct gy_trail_need *sorted; /* [needs], by part */
    uint64_t visits;
};

/* When what is after a node can begin, in ns. */
struct schedule {
    uint64_t *ready;  /* [nodes] */
    uint32_t *latest; /* [nodes]; the part that it waits for; 0: none */
    uint64_t length;  /* of the longest chain */
};

/* ---- pairs of labels ------------------------------------------------------------------------------ */

static uint32_t pair_of_labels(struct judging *j, const char *from, const char *to)
{
    uint32_t i = 0;
    while (i < j->pair_count && (j->pairs[i].from != from || j->pairs[i].to != to)) {
        i++;
    }
    if (i == j->pair_count && i < MOST_PAIRS) {
        j->pairs[j->pair_count++] = (struct pair){from, to, 0, false, false};
    }
    return i;
}

/* Of a task that has touched nothing it is not known what it does. */
static void make_pairs(struct judging *j)
{
    const struct gy_trails *trails = j->trails;
    for (uint32_t i = 1; i < j->edges; i++) {
        const struct gy_trail_edge *edge = &trails->edges[i];
        j->pair_of[i] = MOST_PAIRS;
        if (edge->to == 0) {
            continue;
        }
        const uint32_t at = pair_of_labels(j, gy_part_of(edge->from)->label, gy_part_of(edge->to)->label);
        j->pair_of[i] = at;
        if (at < MOST_PAIRS) {
            j->pairs[at].count++;
            j->pairs[at].waits |= edge->waits;
            j->pairs[at].is_needed |= !atomic_load(&trails->parts[edge->from].has_touched) ||
                                      !atomic_load(&trails->parts[edge->to].has_touched);
        }
    }
}

/* ---- what is needed ------------------------------------------------------------------------------- */

static int compare_needs(const void *a, const void *b)
{
    const struct gy_trail_need *x = a, *y = b;
    return x->part != y->part ? (x->part < y->part ? -1 : 1) : (x->after > y->after) - (x->after < y->after);
}

/* The bits that a node has of one that it is made of. */
static uint64_t bits_of(const struct judging *j, uint32_t node, uint32_t first)
{
    return node >= first ? j->reached[node] : 0;
}

/* Up to the node `end`: on paths without which of the pairs from `batch` on is the part reached? */
static void walk(struct judging *j, uint32_t part, uint32_t batch, uint32_t end)
{
    const uint32_t first = j->trails->parts[part].first_node;
    for (uint32_t i = first; i <= end; i++) {
        const struct gy_trail_node *node = &j->trails->nodes[i];
        const uint32_t pair = node->edge != 0 ? j->pair_of[node->edge] - batch : BATCH;
        const uint64_t kept = pair < BATCH ? ~(UINT64_C(1) << pair) : ~UINT64_C(0);
        j->reached[i] = node->part == part
                            ? ~UINT64_C(0)
                            : bits_of(j, node->first, first) | (bits_of(j, node->second, first) & kept);
    }
    j->visits += end >= first ? end - first + 1 : 0;
}

/* The pairs of the batch of which none is needed so far. */
static uint64_t open_pairs(const struct judging *j, uint32_t batch)
{
    uint64_t open = 0;
    for (uint32_t i = batch; i < j->pair_count && i < batch + BATCH; i++) {
        open |= j->pairs[i].is_needed ? 0 : UINT64_C(1) << (i - batch);
    }
    return open;
}

static void judge_batch(struct judging *j, uint32_t batch)
{
    uint64_t open = open_pairs(j, batch);
    for (uint32_t i = 0; i < j->needs && open != 0 && j->visits < MOST_VISITS;) {
        uint32_t end = i + 1;
        while (end < j->needs && j->sorted[end].part == j->sorted[i].part) {
            end++;
        }
        walk(j, j->sorted[i].part, batch, j->sorted[end - 1].after);
        for (; i < end; i++) {
            open &= bits_of(j, j->sorted[i].after, j->trails->parts[j->sorted[i].part].first_node);
        }
    }
    if (j->visits >= MOST_VISITS) {
        open = 0; /* there is no time for more: nothing is claimed */
    }
    for (uint32_t i = batch; i < j->pair_count && i < batch + BATCH; i++) {
        j->pairs[i].is_needed = (open >> (i - batch) & 1) == 0;
    }
}

/* ---- what it costs -------------------------------------------------------------------------------- */

/* The schedule without the edges of one pair; MOST_PAIRS: with all. */
static void plan(const struct judging *j, struct schedule *s, uint32_t without)
{
    s->length = 0;
    for (uint32_t i = 1; i < j->nodes; i++) {
        const struct gy_trail_node *node = &j->trails->nodes[i];
        s->ready[i] = s->ready[node->first];
        s->latest[i] = s->latest[node->first];
        const bool is_cut = node->edge != 0 && without != MOST_PAIRS && j->pair_of[node->edge] == without;
        if (!is_cut && s->ready[node->second] > s->ready[i]) {
            s->ready[i] = s->ready[node->second];
            s->latest[i] = s->latest[node->second];
        }
        const struct gy_trail_part *part = &j->trails->parts[node->part];
        const uint64_t end = s->ready[part->begins] + atomic_load_explicit(&part->ns, memory_order_relaxed);
        if (node->part != 0 && part->begins < i && end > s->ready[i]) {
            s->ready[i] = end;
            s->latest[i] = node->part;
        }
        s->length = s->ready[i] > s->length ? s->ready[i] : s->length;
    }
}

/* When the last part of an edge's second task begins. */
static uint32_t node_behind(const struct judging *j, uint32_t edge)
{
    const struct gy_trail_part *parts = j->trails->parts;
    return parts[parts[j->trails->edges[edge].to].last].begins;
}

/* The edge of the pair that holds its second task back the most. */
static uint32_t worst_edge(const struct judging *j, uint32_t pair, const struct schedule *with,
                           const struct schedule *without)
{
    uint32_t worst = 0;
    uint64_t most = 0;
    for (uint32_t i = 1; i < j->edges; i++) {
        const uint32_t node = j->pair_of[i] == pair ? node_behind(j, i) : 0;
        const uint64_t gain = node != 0 ? with->ready[node] - without->ready[node] : 0;
        if (node != 0 && (worst == 0 || gain > most)) {
            worst = i;
            most = gain;
        }
    }
    return worst;
}

/* The labels of the chain that ends with a part, the last ones. */
static void print_chain(char *text, size_t room, const struct judging *j, const struct schedule *s,
                        uint32_t part)
{
    const char *labels[CHAIN];
    int count = 0;
    bool is_cut = false;
    while (part != 0 && !is_cut) {
        const char *label = gy_part_of(part)->label;
        if (count == 0 || labels[count - 1] != label) {
            is_cut = count == CHAIN;
            if (!is_cut) {
                labels[count++] = label;
            }
        }
        part = s->latest[j->trails->parts[part].begins];
    }
    size_t used = 0;
    text[0] = '\0';
    while (count-- > 0 && used < room) {
        used += (size_t)snprintf(text + used, room - used, "%s'%.40s'",
                                 used == 0 ? (is_cut ? "... > " : "") : " > ", labels[count]);
    }
}

static void tell_pair(const struct judging *j, uint32_t at, const struct schedule *with,
                      const struct schedule *without)
{
    const struct pair *pair = &j->pairs[at];
    const uint32_t edge = worst_edge(j, at, with, without);
    const uint32_t node = node_behind(j, edge);
    const bool is_same = pair->from == pair->to;
    const double ms = 1e-6;
    char chain[400], cost[800], line[1400], key[200];
    print_chain(chain, sizeof(chain), j, with, j->trails->parts[j->trails->edges[edge].to].last);
    if (with->ready[node] > without->ready[node]) {
        snprintf(cost, sizeof(cost),
                 "without it '%.80s' begins up to %.3f ms earlier, beside '%.80s', and is out of the chain "
                 "%s; the "
                 "longest chain then takes %.3f ms, not %.3f ms (modelled from this run's times)",
                 pair->to, (double)(with->ready[node] - without->ready[node]) * ms, pair->from, chain,
                 (double)without->length * ms, (double)with->length * ms);
    } else {
        snprintf(cost, sizeof(cost), "it costs no overlap, since '%.80s' begins no earlier without it",
                 pair->to);
    }
    snprintf(line, sizeof(line),
             "no bytes need the edge from %s '%.80s' to %s '%.80s' (%" PRIu32
             " in this run): take out gantry_task_start_after%s(%.80s, %.80s); %s",
             is_same ? "one task" : "task", pair->from, is_same ? "another" : "task", pair->to, pair->count,
             pair->waits ? "_done" : "", pair->to, pair->from, cost);
    snprintf(key, sizeof(key), "%.80s > %.80s", pair->from, pair->to);
    gy_report_extra(GY_REPORT_NEEDLESS, key, line);
}

/* Two schedules; false: no memory. */
static bool make_schedules(struct schedule s[2], uint32_t nodes)
{
    bool is_made = true;
    for (int i = 0; i < 2; i++) {
        s[i].ready = gy_zalloc(nodes * sizeof(*s[i].ready));
        s[i].latest = gy_zalloc(nodes * sizeof(*s[i].latest));
        is_made &= s[i].ready != NULL && s[i].latest != NULL;
    }
    return is_made;
}

static void tell_all(const struct judging *j)
{
    struct schedule s[2] = {{NULL, NULL, 0}, {NULL, NULL, 0}};
    if (make_schedules(s, j->nodes)) {
        plan(j, &s[0], MOST_PAIRS);
        for (uint32_t i = 0; i < j->pair_count; i++) {
            if (!j->pairs[i].is_needed) {
                plan(j, &s[1], i);
                tell_pair(j, i, &s[0], &s[1]);
            }
        }
    }
    for (int i = 0; i < 2; i++) {
        gy_free(s[i].ready);
        gy_free(s[i].latest);
    }
}

void gy_needless_tell(struct gy_trails *trails)
{
    if (gy_report_has_unseen()) {
        return;
    }
    struct judging j = {.trails = trails, .needs = atomic_load(&trails->need_count)};
    j.edges = atomic_load(&trails->edge_count);
    j.nodes = atomic_load(&trails->node_count); /* last: needs are after nodes that were there */
    j.pairs = gy_zalloc(MOST_PAIRS * sizeof(*j.pairs));
    j.pair_of = gy_zalloc(j.edges * sizeof(*j.pair_of));
    j.reached = gy_zalloc(j.nodes * sizeof(*j.reached));
    j.sorted = gy_zalloc((j.needs + 1) * sizeof(*j.sorted));
    if (j.pairs != NULL && j.pair_of != NULL && j.reached != NULL && j.sorted != NULL) {
        memcpy(j.sorted, trails->needs, j.needs * sizeof(*j.sorted));
        qsort(j.sorted, j.needs, sizeof(*j.sorted), compare_needs);
        make_pairs(&j);
        for (uint32_t batch = 0; batch < j.pair_count; batch += BATCH) {
            judge_batch(&j, batch);
        }
        tell_all(&j);
    }
    gy_free(j.pairs);
    gy_free(j.pair_of);
    gy_free(j.reached);
    gy_free(j.sorted);
}
