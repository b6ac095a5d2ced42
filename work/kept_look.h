/* SPDX-License-Identifier: MIT */
/* What a batch is launched by, of what is kept: one that is like it, its pieces, its beginning, or nothing,
 * and then it is made or played.
 *
 *      like it, idle ──► that      like it, all in flight ──► one more, or updated as a whole
 *
 *      new, and batches vary ──► by pieces, if most of these are there, or will be (kept_pieces.h)
 *      new, begins as others ──► cut there (kept_find.h)
 *      new                   ──► made, or played
 *
 * Of the dispatcher's thread (GD). */
#ifndef WORK_KEPT_LOOK_H
#define WORK_KEPT_LOOK_H

#include "work/kept.h"

/* Look what there is for the batch, of which nothing was found yet: it is in set->whole, or set->of_pieces
 * then. */
void gy_kept_look(struct gy_kept_set *set, struct gy_nodes *nodes, struct gy_kept_rule rule);

#endif
