/* SPDX-License-Identifier: MIT */
#include "taskman/checks.h"

#include "base/checking.h"
#include "base/proof.h"
#include "taskman/gpu_ops.h"
#include "taskman/manager.h"

static void check_completions(const gantry_task *task)
{
    gantry_dispatcher *gpu = gy_task_manager(task)->gpu.dispatcher;
    const struct gy_gpu_ops *ops = gy_task_manager(task)->gpu.ops;
    uint64_t wait_set = atomic_load_explicit(&task->wait_set, memory_order_acquire);
    if (wait_set == 0 || gpu == NULL || ops->is_unawaited == NULL || !ops->is_unawaited(gpu, wait_set)) {
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

static enum gy_proof_steps steps_before(const gantry_task *task)
{
    const bool is_independent = gy_task_is_gpu(task) && (task->traits & GY_TRAIT_INDEPENDENT) != 0;
    return gy_task_manager(task)->gpu_facts.order == NULL ? GY_PROOF_NO_STEPS
           : is_independent                               ? GY_PROOF_ALL_BUT_THE_LAST_STEP
                                                          : GY_PROOF_ALL_STEPS;
}

struct gy_proof_task gy_task_for_proof(const gantry_task *task)
{
    return (struct gy_proof_task){.manager = gy_task_manager(task),
                                  .task = task,
                                  .label = gy_task_label(task),
                                  .steps = steps_before(task)};
}

static void end_for_proof(void *user, gantry_task *task)
{
    gy_proof()->end(user, task);
}

void gy_taskman_end_for_proof(gantry_taskman *manager)
{
    struct gy_graph_view view = gy_graph_view(&manager->graph);
    gy_graph_each(&view, end_for_proof, manager);
    gy_proof()->forgets(manager);
}

static void hear(void *user, gantry_task *task)
{
    (void)user;
    gy_task_set(task, GY_TASK_HEARD);
}

void gy_taskman_hear_all_locked(gantry_taskman *manager)
{
    struct gy_graph_view view = gy_graph_view(&manager->graph);
    gy_graph_each(&view, hear, NULL);
}
