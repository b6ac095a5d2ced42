#include "taskman/checks.h"

#include "taskman/gpu_ops.h"
#include "taskman/manager.h"

/* Bit h: a warning was given for what hashes to h. */
static _Atomic(uint64_t) told[64]; /* atomic */

static bool is_first(const void *a, const void *b)
{
    uint64_t hash =
        ((uint64_t)(uintptr_t)a * 31 + (uint64_t)(uintptr_t)b) * UINT64_C(0x9e3779b97f4a7c15) >> 52;
    uint64_t bit = UINT64_C(1) << (hash % 64);
    return (atomic_fetch_or_explicit(&told[hash / 64], bit, memory_order_relaxed) & bit) == 0;
}

void gy_task_check_completions(const gantry_task *task)
{
    gantry_dispatcher *gpu = task->manager->gpu;
    const struct gy_gpu_ops *ops = task->manager->gpu_ops;
    uint64_t trail = atomic_load_explicit(&task->gpu.trail, memory_order_acquire);
    if (trail == 0 || gpu == NULL || ops->is_unawaited == NULL || !ops->is_unawaited(gpu, trail)) {
        return;
    }
    const char *label = gantry_task_label(task);
    if (is_first((const void *)(uintptr_t)task->body.run, label)) {
        gy_log(
            GANTRY_LOG_WARNING,
            "task '%s' runs while the GPU may still work on what it comes after, as nothing waited for that: "
            "gantry_task_start_after_done(), or gantry_launch_add_completion() in the GPU task's callback",
            label);
    }
}
