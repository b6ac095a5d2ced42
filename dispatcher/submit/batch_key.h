/* SPDX-License-Identifier: MIT */
/* The key of a batch: its graph holds the work of one manager in one partition, and what an edge joins to
 * it.
 *
 * A round in graphs mode walks the phases for one key.  Ready tasks of other keys are kept (`later`) and have
 * rounds of their own behind it, so their graphs are others, which run beside this one.  A task of another
 * key that comes after work in the graph that is being built becomes part of it: an edge within a graph costs
 * nothing, and its manager has to wait for both anyhow.
 *
 *     bins ── of the key, or behind work in the graph ──► called
 *          ── of another key ──► later ── the round ends, or a part of it ──► bins, in front
 *
 * The key is that of a partition with the greatest priority; but tasks that have waited for a round come
 * first, and before all a manager to whose share the turn was promised. */
#ifndef DISPATCHER_SUBMIT_BATCH_KEY_H
#define DISPATCHER_SUBMIT_BATCH_KEY_H

#include "dispatcher/internal.h"
#include "dispatcher/submit/round.h"

#include <assert.h>

/* The round begins, as a graph: its key is that of a task in the bins, which are not empty. */
void gy_key_begin(const struct gantry_dispatcher *d, struct gy_round *round);
/* The key's round ends: the tasks that were kept are in the bins again. */
void gy_key_end(struct gy_round *round);

static inline bool gy_key_is_of(const struct gantry_dispatcher *d, const struct gy_batch_key *key,
                                const gantry_task *task)
{
    return key->manager == gy_task_manager(task) &&
           (key->number == gy_task_partition(task) || key->partition == gy_gd_partition_index(d, task));
}

/* May the task be called in this round, which has a key?  Else it is kept. */
GY_RARE bool gy_key_admits_other(const struct gantry_dispatcher *d, struct gy_round *round,
                                 gantry_task *task);
static inline bool gy_key_admits(const struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task)
{
    assert(round->key.is_set);
    return gy_key_is_of(d, &round->key, task) || gy_key_admits_other(d, round, task);
}

/* The part of the batch that was noted is large enough to be launched, and others have waited for that; or
 * one that waits has a greater priority. */
static inline bool gy_key_is_over(const struct gantry_dispatcher *d, const struct gy_round *round)
{
    return round->key.is_set && (gy_graphs_is_large(&d->graphs) || round->key.is_hurried) &&
           !gy_bins_are_empty(&round->key.later);
}

#endif
