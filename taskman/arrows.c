/* SPDX-License-Identifier: MIT */
#include "taskman/arrows.h"

#include "base/span.h"
#include "taskman/gpu_task.h"
#include "taskman/manager.h"

uint64_t gy_task_flow(const gantry_task *task)
{
    /* Unlike any other task's in this run of its manager: addresses are not. */
    uint64_t flow = ((uintptr_t)task >> 4) * UINT64_C(0x9e3779b97f4a7c15) + gy_task_facts(task)->run;
    flow = (flow ^ flow >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return (flow ^ flow >> 32) | 1;
}

void gy_worker_emit_body(struct gy_worker *self, gantry_task *task, bool submits)
{
    uint64_t begin_ns = self->span.begin_ns;
    self->span.begin_ns = 0;
    bool expected = atomic_load_explicit(&task->expected, memory_order_relaxed) != 0;
    if (expected) {
        atomic_store_explicit(&task->expected, 0, memory_order_relaxed); /* it may run again */
    }
    if (expected || submits) {
        self->span.flow = gy_task_flow(task);
        gy_span_add_flow(self->span.flow);
    }
    gy_span_emit(GY_SPAN_TASK, gantry_task_label(task), begin_ns, self->span.end_ns, task->context_id);
}

uint64_t gy_task_expect_flow(gantry_task *task)
{
    if (gy_task_is_gpu(task)) {
        return gy_task_flow(task);
    }
    if (gy_task_kind(task) != GANTRY_TASK_CPU || task->body.run == NULL) {
        return 0;
    }
    atomic_store_explicit(&task->expected, 1, memory_order_relaxed);
    return gy_task_flow(task);
}

uint64_t gy_task_releasing_flow(void)
{
    const struct gy_worker *self = gy_worker_current;
    return self != NULL && self->activity == GY_WORKER_RELEASING ? self->span.flow : 0;
}
