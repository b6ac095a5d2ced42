/* SPDX-License-Identifier: MIT */
#include "taskman/phase.h"

#include "base/thread.h"
#include "taskman/checks.h"
#include "taskman/cpu/pool.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

const char *gy_taskman_phase_name(enum gy_phase phase)
{
    return phase == GY_BUILDING ? "building" : phase == GY_RUNNING ? "running" : "stopped";
}

/* A step is told as a range of the process: it may end on another thread than the one it began on. */
static void tell_of_step(gantry_taskman *manager, enum gy_phase next) GY_REQUIRES(manager->lock)
{
    if (next == GY_RUNNING) {
        const struct gy_span_ranges *ranges = atomic_load_explicit(&gy_span_ranges, memory_order_acquire);
        if (__builtin_expect(ranges != NULL, 0)) {
            char name[32];
            snprintf(name, sizeof(name), "step %" PRIu64, manager->gpu_facts.run);
            manager->told.ranges = ranges;
            manager->told.range = ranges->start(GY_RANGE_STEP, name);
        }
    } else if (__builtin_expect(manager->told.ranges != NULL, 0)) {
        manager->told.ranges->end(manager->told.range);
        manager->told.ranges = NULL;
    }
}

void gy_taskman_enter_phase(gantry_taskman *manager, enum gy_phase next)
{
    static _Atomic(uint64_t) runs;
    if (next == GY_RUNNING) {
        manager->gpu_facts.previous_run = manager->gpu_facts.run;
        manager->gpu_facts.run = atomic_fetch_add_explicit(&runs, 1, memory_order_relaxed) + 1;
        if (__builtin_expect(gy_proof_listens() != 0, 0)) {
            gy_taskman_hear_all_locked(manager);
        }
    }
    tell_of_step(manager, next);
    enum gy_phase now = gy_taskman_phase(manager);
    if (next == GY_RUNNING || now == GY_RUNNING) {
        gy_pool_count_running(manager->as_owner.pool, next == GY_RUNNING);
    }
    assert(next == GY_BUILDING ? now != GY_RUNNING : now + 1 == next || manager->frozen);
    assert(gy_frozen_is_valid(&manager->frozen_graph));
    atomic_store_explicit(&manager->phase, (uint8_t)next, memory_order_release);
}

/* GPU tasks that are submitted to such a step later fail like those of a step that has lost its device. */
static bool needs_no_gpu(gantry_taskman *manager)
{
    gy_fast_lock_take(&manager->lock);
    const bool needs_none = manager->counts.submitted != 0 && gy_taskman_gpu_tasks(manager) == 0 &&
                            manager->loops == NULL && manager->memory.count == 0;
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    return needs_none;
}

gantry_status gy_taskman_begin_gpu(gantry_taskman *manager, bool is_helped, bool *without_gpu)
{
    if (manager->gpu.dispatcher == NULL) {
        return GANTRY_OK;
    }
    const gantry_status status = manager->gpu.ops->step_begin(manager->gpu.dispatcher, is_helped);
    *without_gpu = status != GANTRY_OK && status != GANTRY_ERR_STATE && needs_no_gpu(manager);
    return *without_gpu ? GANTRY_OK : status;
}

gantry_status gy_taskman_check_owner(gantry_taskman *manager, const char *call)
{
    if (manager == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: task manager is NULL", call);
    }
    if (manager->forks < gy_thread_forks()) {
        return GY_FAIL(GANTRY_ERR_STATE,
                       "%s: this process was forked; the threads for its tasks are elsewhere", call);
    }
    return gy_pool_check_outside(call);
}
