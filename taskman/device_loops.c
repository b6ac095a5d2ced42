/* SPDX-License-Identifier: MIT */
#include "taskman/device_loops.h"

void gy_taskman_cancel_loops(gantry_taskman *manager)
{
    for (struct gy_gpu_loop *loop = manager->loops; loop != NULL; loop = loop->next) {
        if (loop->cancel(loop, manager->gpu_facts.run)) {
            atomic_store(&manager->as_owner.cancelled, GY_CANCELLED_LOOP);
        }
    }
}

void gy_taskman_end_loops(gantry_taskman *manager)
{
    for (struct gy_gpu_loop *loop = manager->loops; loop != NULL; loop = loop->next) {
        loop->end_run(loop);
    }
}

struct gy_gpu_loop *gy_taskman_take_loops(gantry_taskman *manager)
{
    struct gy_gpu_loop *loops = manager->loops;
    manager->loops = NULL;
    return loops;
}

void gy_taskman_drop_loops(struct gy_gpu_loop *first)
{
    for (struct gy_gpu_loop *loop = first, *next; loop != NULL; loop = next) {
        next = loop->next;
        loop->drop(loop);
    }
}

/* ---- for the GPU dispatcher ------------------------------------------------------------------ */

struct gy_gpu_loop *gy_taskman_loops(const gantry_taskman *manager) GY_NO_ANALYSIS
{
    return manager->loops;
}

bool gy_taskman_has_conditions(const gantry_taskman *manager) GY_NO_ANALYSIS
{
    return manager->counts.conditions != 0;
}
