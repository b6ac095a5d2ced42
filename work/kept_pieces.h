/* SPDX-License-Identifier: MIT */
/* Whether a batch is launched by pieces (work/pieces.h), each by an executable graph of its own.
 *
 * Seen from outside it is one graph: the pieces begin behind what the home comes after, and the home comes
 * after all of them.
 *
 *      home      ──●──[ piece 0 ]────────┬──►     ● an event; a stream that waits for one: ┬
 *                  └─[ piece 1 ]──●──────┘        the other streams: work/side_streams.h
 *
 * Pieces of one shape in one batch need an executable graph each.  One that was found for a piece is
 * *claimed* until the batch is launched or forgotten: it is given to no other one, and does not make room.
 *
 * Of the dispatcher's thread (GD). */
#ifndef WORK_KEPT_PIECES_H
#define WORK_KEPT_PIECES_H

#include "work/kept.h"

/* Nothing is like the batch, and all of it can be patched.  Find its pieces, and what there is for each.
 * True: it is launched by pieces, since there are executable graphs for most of it; or since such pieces, not
 * being new, will come again, unless the batch begins as others, which is cut.  False: nothing is claimed. */
bool gy_kept_find_pieces(struct gy_kept_set *set, struct gy_kept_rule rule, const struct gy_nodes *nodes,
                         bool begins_as_others);

/* The batch is not launched by pieces, but they are known when they come again. */
void gy_kept_note_pieces(struct gy_kept_set *set, const struct gy_nodes *nodes);

#endif
