#include "taskman/checks.h"

#include "base/checking.h"
#include "taskman/gpu_ops.h"
#include "taskman/manager.h"

void gy_task_check_completions(const gantry_task *task)
{
    gantry_dispatcher *gpu = gy_task_manager(task)->gpu;
    const struct gy_gpu_ops *ops = gy_task_manager(task)->gpu_ops;
    uint64_t wait_set = atomic_load_explicit(&task->wait_set, memory_order_acquire);
    if (wait_set == 0 || gpu == NULL || ops->order.is_unawaited == NULL ||
        !ops->order.is_unawaited(gpu, wait_set)) {
        return;
    }
    const char *label = gantry_task_label(task);
    if (gy_check_is_first((uintptr_t)task->body.run, (uintptr_t)label)) {
        gy_log(
            GANTRY_LOG_WARNING,
            "task '%s' runs while the GPU may still work on what it comes after, as nothing waited for that: "
            "gantry_task_start_after_done(), or gantry_launch_add_completion() in the GPU task's callback",
            label);
    }
}
