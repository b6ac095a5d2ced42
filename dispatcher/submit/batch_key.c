/* SPDX-License-Identifier: MIT */
#include "dispatcher/submit/batch_key.h"

#include "dispatcher/call/metered.h"
#include "dispatcher/gates/quota.h"
#include "dispatcher/order/batch_order.h"

#include <assert.h>
#include <limits.h>

static int priority_of(const struct gantry_dispatcher *d, const gantry_task *task)
{
    return gy_gd_partition(d, task)->info.priority;
}

/* Was the turn promised to the share of this task's manager?  Work that others launch now would be held
 * then. */
static bool is_promised(const struct gantry_dispatcher *d, const gantry_task *task)
{
    const struct gy_meter *meter = gy_shares_any(&d->shares) ? gy_gd_meter(d, task) : NULL;
    return meter != NULL && d->shares.turns[meter->partition].next == meter;
}

/* A task that has waited comes first, whatever the priority of others: they may poll for its work. */
static bool is_before(const struct gantry_dispatcher *d, const struct gy_batch_key *last,
                      const gantry_task *task, const gantry_task *found)
{
    if (is_promised(d, task) != is_promised(d, found)) {
        return is_promised(d, task);
    }
    return last->had_others ? gy_key_is_of(d, last, found) && !gy_key_is_of(d, last, task)
                            : priority_of(d, task) < priority_of(d, found);
}

/* The first one of those that come before all others. */
static const gantry_task *most_urgent(const struct gantry_dispatcher *d, const struct gy_bins *bins,
                                      const struct gy_batch_key *last)
{
    const gantry_task *found = NULL;
    for (int phase = 0; phase < GD_PHASES; phase++) {
        for (const gantry_task *task = bins->of[phase].first; task != NULL; task = task->next) {
            if (found == NULL || is_before(d, last, task, found)) {
                found = task;
            }
        }
    }
    return found;
}

void gy_key_begin(const struct gantry_dispatcher *d, struct gy_round *round)
{
    assert(!gy_bins_are_empty(&round->bins) && gy_bins_are_empty(&round->key.later));
    const bool may_differ =
        d->config.partitions->is_planned || round->key.had_others || gy_shares_any(&d->shares);
    const gantry_task *task =
        may_differ ? most_urgent(d, &round->bins, &round->key) : gy_bins_first(&round->bins);
    round->key.is_set = true;
    round->key.manager = gy_task_manager(task);
    round->key.number = gy_task_partition(task);
    round->key.partition = gy_gd_partition_index(d, task);
}

void gy_key_end(struct gy_round *round)
{
    struct gy_batch_key *key = &round->key;
    for (gantry_task *task; (task = gy_gpu_list_pop(&key->ahead)) != NULL;) {
        gy_gpu_list_append(&key->later.of[gd_phase_of(task)], task, task);
    }
    key->is_hurried = false;
    key->had_others = !gy_bins_are_empty(&key->later);
    for (enum gd_phase phase = GD_HTOD; phase < GD_PHASES; phase++) {
        gy_bins_prepend(&round->bins, phase, key->later.of[phase]);
        key->later.of[phase] = (struct gy_gpu_list){NULL, NULL};
    }
    key->is_set = false;
    assert(gy_round_is_valid(round));
}

bool gy_key_admits_other(const struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task)
{
    uint64_t wait_set = atomic_load_explicit(&task->wait_set, memory_order_acquire);
    if (task->launch_index == 0 && gy_batch_reaches(&d->streams, wait_set)) {
        return true;
    }
    gy_gpu_list_append(&round->key.later.of[gd_phase_of(task)], task, task);
    return false;
}
