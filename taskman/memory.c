/* SPDX-License-Identifier: MIT */
/* Memory that tasks declare to need.  The GPU dispatcher gives it its meaning.  Here it is numbered, since a
 * task has two bytes for it, and counted: the dispatcher hears how many tasks that name it are to be
 * released. */
#include "taskman/memory.h"

#include "base/alloc.h"
#include "base/handle.h"
#include "taskman/cpu/client.h"
#include "taskman/cpu/owners.h"

#include <assert.h>
#include <string.h>

enum { FIRST_ROOM = 16, MOST_MEMORIES = UINT16_MAX };

static gantry_status make_room_locked(gantry_taskman *manager) GY_REQUIRES(manager->lock)
{
    if (manager->memory.count == MOST_MEMORIES) {
        return GY_FAIL(GANTRY_ERR_STATE, "task memory: no more than %d declarations until the reset",
                       MOST_MEMORIES);
    }
    if (manager->memory.count < manager->memory.room) {
        return GANTRY_OK;
    }
    uint32_t room = manager->memory.room == 0 ? FIRST_ROOM : 2 * manager->memory.room;
    struct gy_gpu_memory **memories = gy_zalloc_array(room, sizeof(struct gy_gpu_memory *));
    if (memories == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "task memory: no host memory to declare it");
    }
    if (manager->memory.count != 0) {
        memcpy(memories, manager->memory.declared, manager->memory.count * sizeof(struct gy_gpu_memory *));
    }
    gy_free(manager->memory.declared);
    manager->memory.declared = memories;
    manager->memory.room = room;
    return GANTRY_OK;
}

gantry_status gantry_taskman_declare_memory(gantry_taskman *manager,
                                            const uint64_t bytes[GANTRY_MEMORY_KIND_COUNT], uint32_t *out)
{
    GY_ACCEPT(TASKMAN, manager);
    if (manager == NULL || bytes == NULL || out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "task memory: manager, bytes or out is NULL");
    }
    if (manager->gpu.dispatcher == NULL) {
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED, "task memory: the task manager has no GPU dispatcher");
    }
    struct gy_gpu_memory *memory = manager->gpu.ops->memory.open(manager->gpu.dispatcher, manager, bytes);
    if (memory == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "task memory: no host memory to declare it");
    }
    uint32_t number = 0;
    gy_fast_lock_take(&manager->lock);
    gantry_status status = make_room_locked(manager);
    if (status == GANTRY_OK) {
        manager->memory.declared[manager->memory.count++] = memory;
        number = manager->memory.count;
    }
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    if (status != GANTRY_OK) {
        manager->gpu.ops->memory.close(manager->gpu.dispatcher, memory);
        return status;
    }
    *out = number;
    return GANTRY_OK;
}

void gy_taskman_name_memory(gantry_taskman *manager, gantry_task *task, uint32_t number)
{
    task->memory = (uint16_t)number;
    manager->counts.memory++;
    if (gy_taskman_phase(manager) == GY_RUNNING) { /* else the start counts them all */
        gy_taskman_begin_memory(manager, task);
    }
}

void gy_taskman_begin_memory(gantry_taskman *manager, gantry_task *task)
{
    if ((task->traits & GY_TRAIT_MEMORY) != 0) {
        manager->gpu.ops->memory.count(manager->gpu.dispatcher, manager->memory.declared[task->memory - 1],
                                       task, false);
    }
}

/* Our caller has the lock. */
static void begin_memory(void *manager, gantry_task *task) GY_NO_ANALYSIS
{
    gy_taskman_begin_memory(manager, task);
}

void gy_taskman_begin_all_memory(gantry_taskman *manager)
{
    if (manager->counts.memory != 0) {
        struct gy_graph_view view = gy_graph_view(&manager->graph);
        gy_graph_each(&view, begin_memory, manager);
    }
}

void gy_taskman_close_memory(gantry_taskman *manager)
{
    for (uint32_t i = 0; i < manager->memory.count; i++) {
        manager->gpu.ops->memory.close(manager->gpu.dispatcher, manager->memory.declared[i]);
    }
    gy_free(manager->memory.declared);
    manager->memory.declared = NULL;
    manager->memory.count = manager->memory.room = 0;
    manager->counts.memory = 0;
}

/* ---- for the GPU dispatcher ------------------------------------------------------------------ */

struct gy_gpu_memory *gy_task_find_memory(const gantry_task *task)
{
    gantry_taskman *manager = gy_task_manager(task);
    gy_fast_lock_take(&manager->lock); /* the array moves when more is declared */
    struct gy_gpu_memory *memory = manager->memory.declared[task->memory - 1];
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    return memory;
}

void gy_taskman_end_memory(gantry_task *task)
{
    gantry_taskman *manager = gy_task_manager(task);
    manager->gpu.ops->memory.count(manager->gpu.dispatcher, gy_task_find_memory(task), task, true);
}

/* The task is counted before the step may become quiet: the thread that makes it quiet looks there. */
void gy_task_hold_back(gantry_task *task)
{
    gantry_taskman *manager = gy_task_manager(task);
    gy_fast_lock_take(&manager->lock);
    atomic_fetch_add(&manager->stall.held_back, 1);
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    gy_pool_count_held_back(manager->as_owner.pool, true);
    gy_taskman_count_off(manager, GY_WORK_ACTIVE);
}

void gy_task_let_go(gantry_task *task)
{
    gantry_taskman *manager = gy_task_manager(task);
    gy_fast_lock_take(&manager->lock);
    atomic_fetch_add(&manager->as_owner.work, GY_WORK_ACTIVE);
    atomic_fetch_sub(&manager->stall.held_back, 1);
    manager->stall.is_awaited = false;
    assert(gy_taskman_is_valid(manager));
    gy_fast_lock_give(&manager->lock);
    gy_pool_count_held_back(manager->as_owner.pool, false);
}

void gy_owner_fell_quiet(struct gy_task_owner *owner)
{
    gantry_taskman *manager = (gantry_taskman *)(void *)owner;
    if (atomic_load(&manager->stall.held_back) != 0) {
        manager->gpu.ops->tell(manager->gpu.dispatcher, GY_GPU_QUIET);
    }
}
