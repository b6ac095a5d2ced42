/* SPDX-License-Identifier: MIT */
#include "proof/trail.h"

#include "proof/needless.h"
#include "proof/numbers.h"

#include <time.h>

enum { NEED_SLOTS = 1 << 20 };

_Atomic(bool) gy_trail_is_kept;

static struct gy_trails trails; /* tables: immutable once kept; what is in them: needless.h */

void gy_trail_open(void)
{
    trails = (struct gy_trails){.nodes = gy_number_table(sizeof(*trails.nodes)),
                                .edges = gy_number_table(sizeof(*trails.edges)),
                                .parts = gy_number_table(sizeof(*trails.parts)),
                                .needs = gy_number_table(sizeof(*trails.needs)),
                                .node_count = 1,
                                .edge_count = 1};
    const bool has_room =
        trails.nodes != NULL && trails.edges != NULL && trails.parts != NULL && trails.needs != NULL;
    atomic_store(&gy_trail_is_kept, has_room);
}

/* With fewer nodes than there are, an edge would seem needed by nothing: no more is told then. */
static void give_up(void)
{
    gy_order_lack("trails");
    atomic_store(&gy_trail_is_kept, false);
}

static uint32_t new_node(struct gy_trail_node node)
{
    if (trails.node_count == GY_PROOF_MOST) {
        give_up();
        return 0;
    }
    trails.nodes[trails.node_count] = node;
    return trails.node_count++;
}

uint32_t gy_trail_join(uint32_t past, uint32_t other, uint32_t edge)
{
    if (other == 0 || other == past || !gy_trail_kept()) {
        return past;
    }
    return past == 0 && edge == 0 ? other : new_node((struct gy_trail_node){past, other, edge, 0});
}

uint32_t gy_trail_add(uint32_t past, uint32_t part)
{
    return gy_trail_kept() ? new_node((struct gy_trail_node){past, 0, 0, part}) : 0;
}

uint32_t gy_trail_edge(uint32_t from, bool waits, uint32_t next)
{
    if (from == 0 || !gy_trail_kept()) {
        return 0;
    }
    if (trails.edge_count == GY_PROOF_MOST) {
        give_up();
        return 0;
    }
    trails.edges[trails.edge_count] = (struct gy_trail_edge){from, 0, next, waits};
    return trails.edge_count++;
}

void gy_trail_begin(uint32_t part, uint32_t host, uint32_t past, uint32_t edges)
{
    if (part == 0 || !gy_trail_kept()) {
        return;
    }
    struct gy_trail_part *one = &trails.parts[part];
    one->begins = past;
    one->first_node = trails.node_count;
    one->host = host != 0 ? host : part;
    trails.parts[one->host].last = part;
    while (edges != 0) {
        trails.edges[edges].to = part;
        edges = trails.edges[edges].next;
    }
}

static void note_need(uint32_t part, uint32_t after)
{
    static _Atomic(uint64_t) known[NEED_SLOTS]; /* atomic; the latest ones: most are asked for again */
    const uint64_t need = (uint64_t)part << 32 | after;
    _Atomic(uint64_t) *slot = &known[need * UINT64_C(0x9e3779b97f4a7c15) >> 44];
    if (atomic_exchange_explicit(slot, need, memory_order_relaxed) == need) {
        return;
    }
    const uint32_t at = atomic_fetch_add(&trails.need_count, 1);
    if (at >= GY_PROOF_MOST) {
        give_up();
        return;
    }
    trails.needs[at] = (struct gy_trail_need){part, after};
}

uint32_t gy_trail_wait(uint32_t past, uint32_t part, uint32_t host)
{
    if (gy_trail_kept()) {
        note_need(host, past);
    }
    return gy_trail_add(past, part);
}

/* Locks of the shadow are held. */
void gy_trail_note_need(const struct gy_access *access, uint32_t part)
{
    if (part != access->part) {
        note_need(part, access->past.trail);
    }
}

/* A reader that is left out stands for nothing any more, so the one that comes after it is taken for what
 * needs it: an edge between the two may be needless and is not told. */
bool gy_trail_keeps(const struct gy_access *access, uint32_t work, uint32_t count)
{
    if (!gy_trail_kept() || count < GY_TRAIL_READERS) {
        return gy_trail_kept();
    }
    gy_trail_note_need(access, gy_work_of(work)->part);
    return false;
}

void gy_trail_touches(const struct gy_access *access)
{
    if (gy_trail_kept()) {
        atomic_store_explicit(&trails.parts[trails.parts[access->part].host].has_touched, true,
                              memory_order_relaxed);
    }
}

uint64_t gy_trail_now(void)
{
    struct timespec now = {0, 0};
    if (gy_trail_kept()) {
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
    }
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void gy_trail_took(const struct gy_access *access)
{
    if (access->began != 0 && access->part != 0 && gy_trail_kept()) {
        atomic_fetch_add_explicit(&trails.parts[access->part].ns, gy_trail_now() - access->began,
                                  memory_order_relaxed);
    }
}

void gy_trail_judge(void)
{
    if (gy_trail_kept()) {
        gy_needless_tell(&trails);
    }
}
