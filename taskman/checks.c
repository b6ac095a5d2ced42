#include "taskman/checks.h"

#include "base/checking.h"
#include "base/proof.h"
#include "taskman/gpu_ops.h"
#include "taskman/manager.h"

static void check_completions(const gantry_task *task)
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

void gy_task_check_body(const gantry_task *task)
{
    const struct gy_proof_ops *proof = gy_proof();
    if (gy_check_is_on(GY_CHECK_COMPLETIONS)) {
        check_completions(task);
    }
    if (proof != NULL) { /* its end is told where its dependents are notified */
        const struct gy_proof_task about = gy_task_for_proof(task);
        proof->body_begin(&about);
    }
}

struct gy_proof_task gy_task_for_proof(const gantry_task *task)
{
    return (struct gy_proof_task){.manager = gy_task_manager(task),
                                  .task = task,
                                  .label = gy_task_label(task),
                                  .index = gy_task_has(task, GY_TASK_LIGHT) ? UINT32_MAX : task->index,
                                  .is_independent =
                                      gy_task_manager(task)->gpu_order == NULL ||
                                      (gy_task_is_gpu(task) && (task->traits & GY_TRAIT_INDEPENDENT) != 0)};
}

/* Before the first task is handed out; another thread may be submitting by now. */
void gy_taskman_prove_start(gantry_taskman *manager, const struct gy_proof_ops *proof)
{
    gy_fast_lock_take(&manager->lock);
    const uint32_t made = manager->graph.tasks;
    gy_fast_lock_give(&manager->lock);
    proof->step_begin(manager, made);
}
