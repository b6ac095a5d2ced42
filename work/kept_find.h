/* SPDX-License-Identifier: MIT */
/* Finding an executable graph that is kept (kept.h) for a batch; nothing is made or set.  Of the dispatcher's
 * thread (GD). */
#ifndef WORK_KEPT_FIND_H
#define WORK_KEPT_FIND_H

#include "work/kept.h"

/* Has the GPU passed the event?  The driver is asked. */
bool gy_kept_is_done(const struct gy_kept_set *set, CUevent event);

/* Drop those that are updated as a whole. */
void gy_kept_drop_refreshed(struct gy_kept_set *set);

/* What there is for the nodes.  Where none of the same calls is idle, it is noted that these calls have come.
 */
struct gy_kept_found gy_kept_find(struct gy_kept_set *set, const struct gy_nodes *nodes);

/* A batch like which there is none.  Returns the number of its first nodes that go together: all, unless it
 * begins as others have.  *familiar: so many of its first nodes are a beginning of others, and may be cut
 * off, now or later.  *times: so many of the latest such batches were like it. */
uint32_t gy_kept_cut(struct gy_kept_set *set, const struct gy_nodes *nodes, uint32_t *familiar,
                     uint32_t *times);
/* How many of the latest such batches were like it?  It is one of them now. */
uint32_t gy_kept_times(struct gy_kept_set *set, const struct gy_nodes *nodes);
/* The same, and it is not. */
uint32_t gy_kept_count(const struct gy_kept_set *set, const struct gy_nodes *nodes);

#endif
