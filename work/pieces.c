/* SPDX-License-Identifier: MIT */
#include "work/pieces.h"

#include "base/alloc.h"

#include <assert.h>
#include <string.h>

void gy_pieces_init(struct gy_pieces *p, struct gy_context *context)
{
    *p = (struct gy_pieces){.count = 0};
    gy_nodes_init(&p->all, context);
    for (uint32_t i = 0; i < GY_PIECES_MOST; i++) {
        gy_nodes_init(&p->of[i], context);
    }
}

/* The piece has no nodes any more, and nothing that lies in `all`. */
static void leave(struct gy_nodes *piece)
{
    const struct gy_nodes was = *piece;
    gy_nodes_init(piece, was.context);
    piece->making = was.making;
}

void gy_pieces_fini(struct gy_pieces *p)
{
    for (uint32_t i = 0; i < GY_PIECES_MOST; i++) {
        leave(&p->of[i]);
        gy_nodes_fini(&p->of[i]);
    }
    gy_nodes_fini(&p->all);
    gy_free(p->piece_of);
    gy_free(p->place_of);
    gy_free(p->order);
}

/* ---- finding ----------------------------------------------------------------------------------- */

/* The first node of the piece, as far as it is known (Tarjan, "Efficiency of a good but not linear set union
 * algorithm", 1975, with halved paths). */
static uint32_t root_of(uint32_t *of, uint32_t node)
{
    while (of[node] != node) {
        of[node] = of[of[node]];
        node = of[node];
    }
    return node;
}

static void join_nodes(uint32_t *of, const struct gy_nodes *n)
{
    for (uint32_t i = 0; i < n->count; i++) {
        of[i] = i;
        for (uint32_t b = 0; b < n->list[i].before.count; b++) {
            const uint32_t x = root_of(of, i), y = root_of(of, n->before[n->list[i].before.first + b]);
            of[x < y ? y : x] = x < y ? x : y;
        }
    }
}

/* Number the pieces by their first nodes, and the nodes in each.  Returns the number of pieces; 0: too many.
 */
static uint32_t number_nodes(struct gy_pieces *p, uint32_t nodes)
{
    uint32_t count = 0, *of = p->piece_of;
    uint32_t sizes[GY_PIECES_MOST] = {0};
    for (uint32_t i = 0; i < nodes; i++) {
        const uint32_t root = root_of(of, i); /* roots come first, and stay roots until all were asked */
        if (root == i && count == GY_PIECES_MOST) {
            return 0;
        }
        p->place_of[i] = root == i ? count++ : p->place_of[root];
    }
    for (uint32_t i = 0; i < nodes; i++) {
        of[i] = p->place_of[i];
        p->place_of[i] = sizes[of[i]]++;
    }
    p->first[0] = 0;
    for (uint32_t i = 0; i < count; i++) {
        p->first[i + 1] = p->first[i] + sizes[i];
    }
    return count;
}

/* ---- sorting ----------------------------------------------------------------------------------- */

/* What of `all` is used so far, and by the pieces before this one. */
struct cursor {
    uint32_t before, events, slots;
    size_t bytes;
};

static bool has_room(struct gy_pieces *p, const struct gy_nodes *n, size_t before)
{
    struct gy_nodes *all = &p->all;
    struct gy_slot_args *slots = &all->slot_args;
    return gy_grow_array(&all->list, &all->room, n->count, sizeof(*all->list)) &&
           gy_grow_array(&all->streams, &all->streams_room, n->count, sizeof(*all->streams)) &&
           gy_grow_array(&all->made, &all->made_room, n->count, sizeof(*all->made)) &&
           gy_grow_array(&all->before, &all->before_room, before + 1, sizeof(*all->before)) &&
           gy_grow_array(&all->bytes, &all->bytes_room, n->bytes_used + 1, 1) &&
           gy_grow_array(&all->events, &all->events_room, n->event_count + (size_t)1, sizeof(*all->events)) &&
           gy_grow_array(&slots->list, &slots->room, n->slot_args.placed + (size_t)1, sizeof(*slots->list));
}

/* What node `i` comes after has numbers of the same piece. */
static void take_before(struct gy_pieces *p, const struct gy_nodes *n, const struct gy_node *from,
                        struct gy_node *to, uint32_t base, struct cursor *at)
{
    to->before.first = at->before - base;
    for (uint32_t b = 0; b < from->before.count; b++) {
        p->all.before[at->before++] = p->place_of[n->before[from->before.first + b]];
    }
}

/* The kernel's parameters, and the slot that one of them may have. */
static void take_kernel(struct gy_pieces *p, const struct gy_nodes *n, uint32_t i, struct gy_node *to,
                        const struct cursor *base, struct cursor *at)
{
    const struct gy_node_kernel *k = &n->list[i].kernel;
    const struct gy_slot_arg *slot = n->slot_args.placed != 0 ? gy_slot_args_of(&n->slot_args, i) : NULL;
    to->kernel.at = at->bytes - base->bytes;
    memcpy(p->all.bytes + at->bytes, n->bytes + k->at, k->room);
    if (slot != NULL) {
        struct gy_slot_arg *one = &p->all.slot_args.list[at->slots++];
        *one = *slot;
        one->node = p->place_of[i];
        one->at = slot->at - k->at + to->kernel.at;
    }
    at->bytes += k->room;
}

static void take_node(struct gy_pieces *p, const struct gy_nodes *n, uint32_t i, const struct cursor *base,
                      struct cursor *at)
{
    const struct gy_node *from = &n->list[i];
    const uint32_t number = p->first[p->piece_of[i]] + p->place_of[i];
    struct gy_node *to = &p->all.list[number];
    *to = *from;
    p->all.streams[number] = n->streams[i];
    take_before(p, n, from, to, base->before, at);
    if (from->kind == GY_NODE_KERNEL) {
        take_kernel(p, n, i, to, base, at);
    } else if (from->kind == GY_NODE_EVENT || from->kind == GY_NODE_WAIT) {
        to->event = at->events - base->events;
        p->all.events[at->events] = n->events[from->event];
        p->all.events[at->events++].node = p->place_of[i];
    }
}

/* The piece as a batch of what lies in `all` between the two. */
static void open_piece(struct gy_pieces *p, const struct gy_nodes *n, uint32_t number,
                       const struct cursor *from, const struct cursor *to)
{
    struct gy_nodes *piece = &p->of[number], *all = &p->all;
    const uint32_t first = p->first[number];
    piece->count = p->first[number + 1] - first;
    piece->list = all->list + first;
    piece->streams = all->streams + first;
    piece->made = all->made + first;
    piece->room = piece->streams_room = piece->made_room = piece->count;
    piece->before = all->before + from->before;
    piece->before_count = to->before - from->before;
    piece->before_room = piece->before_count;
    piece->bytes = all->bytes + from->bytes;
    piece->bytes_used = piece->bytes_room = to->bytes - from->bytes;
    piece->events = all->events + from->events;
    piece->event_count = to->events - from->events;
    piece->events_room = piece->event_count;
    piece->extras = n->extras; /* those of all */
    piece->extra_count = n->extra_count;
    piece->extras_room = n->extra_count;
    piece->slot_args = n->slot_args;
    piece->slot_args.list = all->slot_args.list + from->slots;
    piece->slot_args.room = piece->slot_args.count = piece->slot_args.placed = to->slots - from->slots;
}

/* Nodes of one piece keep their order. */
static void sort_nodes(struct gy_pieces *p, const struct gy_nodes *n)
{
    struct cursor at = {0, 0, 0, 0};
    for (uint32_t i = 0; i < n->count; i++) {
        p->order[p->first[p->piece_of[i]] + p->place_of[i]] = i;
    }
    for (uint32_t number = 0; number < p->count; number++) {
        const struct cursor base = at;
        for (uint32_t i = p->first[number]; i < p->first[number + 1]; i++) {
            take_node(p, n, p->order[i], &base, &at);
        }
        open_piece(p, n, number, &base, &at);
    }
}

static bool find_room(struct gy_pieces *p, size_t count)
{
    return gy_grow_array(&p->piece_of, &p->piece_room, count, sizeof(*p->piece_of)) &&
           gy_grow_array(&p->place_of, &p->place_room, count, sizeof(*p->place_of)) &&
           gy_grow_array(&p->order, &p->order_room, count, sizeof(*p->order));
}

uint32_t gy_pieces_find(struct gy_pieces *p, const struct gy_nodes *n, uint32_t fewest)
{
    assert(n->graphs == 0 && n->slot_args.placed == n->slot_args.count);
    for (uint32_t i = 0; i < p->count; i++) {
        leave(&p->of[i]);
    }
    p->count = 0;
    if (n->count / 2 < fewest || !find_room(p, n->count)) {
        return 0;
    }
    join_nodes(p->piece_of, n);
    const uint32_t count = number_nodes(p, n->count);
    if (count < 2 || n->count / fewest < count || !has_room(p, n, gy_nodes_count_before(n))) {
        return 0;
    }
    p->count = count;
    sort_nodes(p, n);
    assert(gy_pieces_are_valid(p));
    return count;
}

bool gy_pieces_are_valid(const struct gy_pieces *p)
{
    bool are = p->count <= GY_PIECES_MOST && p->count != 1;
    for (uint32_t i = 0; i < p->count && are; i++) {
        are = p->of[i].count != 0 && p->of[i].count == p->first[i + 1] - p->first[i] &&
              gy_nodes_are_valid(&p->of[i]);
    }
    return are;
}
