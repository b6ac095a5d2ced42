/* SPDX-License-Identifier: MIT */
/* The pieces of a batch: nodes that edges join, in whatever direction, are of one piece, so nothing in one
 * piece comes after anything in another.
 *
 * Work of pipelines that have nothing to do with each other is noted as the callbacks happen to come.  Sorted
 * by pieces, each is a batch of its own, which is the same whatever came in between:
 *
 *      noted     a1  b1  a2  c1  b2  a3  c2          edges a1 -> a2 -> a3, b1 -> b2, c1 -> c2
 *      pieces    a1  a2  a3 | b1  b2 | c1  c2        in the order of their first nodes
 *
 * The nodes that were noted stay as they are: pieces are copies, with numbers of their own.
 *
 * One thread at a time. */
#ifndef WORK_PIECES_H
#define WORK_PIECES_H

#include "work/nodes.h"

#define GY_PIECES_MOST 32u

struct gy_pieces {
    uint32_t count;      /* 0: none were found */
    struct gy_nodes all; /* the arrays in which the pieces lie one after the other */
    uint32_t *piece_of;  /* per node that was noted: its piece; while they are found, a node of its piece */
    uint32_t *place_of;  /* per node that was noted: its number in its piece */
    uint32_t *order;     /* per node of `all`: its number when it was noted */
    size_t piece_room, place_room, order_room;
    uint32_t first[GY_PIECES_MOST + 1]; /* of each, in `all`, and behind the last one the number of nodes */
    struct gy_nodes of[GY_PIECES_MOST]; /* each as a batch; what it has not allocated itself lies in `all` */
};

void gy_pieces_init(struct gy_pieces *pieces, struct gy_context *context);
void gy_pieces_fini(struct gy_pieces *pieces);

/* Find the pieces of the nodes, whose parameters are PLACED (work/slot_args.h).  Returns their number,
 * which is 0 where there are less than two or more than GY_PIECES_MOST, where they have less than `fewest`
 * nodes each on average, or without memory.  They are valid until pieces are found again or the nodes are
 * changed. */
uint32_t gy_pieces_find(struct gy_pieces *pieces, const struct gy_nodes *nodes, uint32_t fewest);

bool gy_pieces_are_valid(const struct gy_pieces *pieces);

#endif
