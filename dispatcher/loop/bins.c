/* SPDX-License-Identifier: MIT */
#include "dispatcher/loop/bins.h"

enum { MOST_LOOKED_AT = 32 }; /* tasks of a bin: a check costs the same however many are ready */

/* The tasks of the bin are of the phase and have a stream, and `last` is the last one. */
static bool bin_is_valid(const struct gy_gpu_list *bin, enum gd_phase phase)
{
    const gantry_task *last = NULL;
    uint32_t left = MOST_LOOKED_AT;
    for (gantry_task *task = bin->first; task != NULL; task = task->next) {
        if (left-- == 0) {
            return gy_gpu_list_is_valid(bin);
        }
        if (gd_phase_of(task) != phase || task->stream == 0) {
            return false;
        }
        last = task;
    }
    return last == bin->last;
}

bool gy_bins_are_valid(const struct gy_bins *bins)
{
    return bin_is_valid(&bins->of[GD_HTOD], GD_HTOD) && bin_is_valid(&bins->of[GD_KERNEL], GD_KERNEL) &&
           bin_is_valid(&bins->of[GD_DTOH], GD_DTOH);
}
