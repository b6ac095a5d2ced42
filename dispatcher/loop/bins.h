/* SPDX-License-Identifier: MIT */
/* Bins: the ready tasks that may be launched, by phase, in order of arrival. */
#ifndef DISPATCHER_LOOP_BINS_H
#define DISPATCHER_LOOP_BINS_H

#include "dispatcher/loop/inbox.h"

enum gd_phase { GD_HTOD, GD_KERNEL, GD_DTOH, GD_PHASES };

struct gy_bins {
    struct gy_gpu_list of[GD_PHASES];
};

static inline bool gy_bins_are_empty(const struct gy_bins *bins)
{
    return bins->of[GD_HTOD].first == NULL && bins->of[GD_KERNEL].first == NULL &&
           bins->of[GD_DTOH].first == NULL;
}

/* A task in the bins, which are not empty. */
static inline gantry_task *gy_bins_first(const struct gy_bins *bins)
{
    int phase = 0;
    while (bins->of[phase].first == NULL) {
        phase++;
    }
    return bins->of[phase].first;
}

/* The tasks of `from` go behind those of `bins`. */
static inline void gy_bins_append(struct gy_bins *bins, const struct gy_bins *from)
{
    for (int phase = 0; phase < GD_PHASES; phase++) {
        if (from->of[phase].first != NULL) {
            gy_gpu_list_append(&bins->of[phase], from->of[phase].first, from->of[phase].last);
        }
    }
}

/* The tasks of `held`, which came earlier, go in front of those of a bin. */
static inline void gy_bins_prepend(struct gy_bins *bins, enum gd_phase phase, struct gy_gpu_list held)
{
    struct gy_gpu_list *bin = &bins->of[phase];
    if (held.first != NULL) {
        if (bin->first != NULL) {
            gy_gpu_list_append(&held, bin->first, bin->last);
        }
        *bin = held;
    }
}

static inline enum gd_phase gd_phase_of(const gantry_task *task)
{
    _Static_assert(GANTRY_TASK_KERNEL - GANTRY_TASK_HTOD == GD_KERNEL &&
                       GANTRY_TASK_DTOH - GANTRY_TASK_HTOD == GD_DTOH,
                   "phases come in the order of the kinds");
    return (enum gd_phase)(gy_task_kind(task) - GANTRY_TASK_HTOD);
}

bool gy_bins_are_valid(const struct gy_bins *bins);

#endif
