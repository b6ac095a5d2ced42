/* SPDX-License-Identifier: MIT */
/* Conditional nodes: their value, and which graphs may have them. */
#include "emulator/condition.h"

bool gy_emu_condition_set(uint64_t handle, uint32_t value)
{
    gy_mutex_lock(&gy_emu_lock);
    struct gy_emu_condition *condition =
        gy_emu_handle_find(GY_EMU_CONDITION, (const void *)(uintptr_t)handle);
    if (condition != NULL) {
        atomic_store_explicit(&condition->value, value, memory_order_release);
    }
    gy_mutex_unlock(&gy_emu_lock);
    return condition != NULL;
}

/* As on an H200: an event record node in a body is accepted, and refused when it is instantiated. */
static bool may_repeat(const struct gy_emu_graph *body)
{
    for (uint32_t i = 0; i < body->count; i++) {
        switch (body->nodes[i]->work.kind) {
        case GY_EMU_WORK_EMPTY:
        case GY_EMU_WORK_KERNEL:
        case GY_EMU_WORK_COPY:
        case GY_EMU_WORK_FILL:
            break;
        default:
            return false;
        }
    }
    return true;
}

CUresult gy_emu_conditions_allow(const struct gy_emu_graph *graph)
{
    CUresult result = graph->is_body ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    for (const struct gy_emu_condition *c = graph->conditions; c != NULL && result == CUDA_SUCCESS;
         c = c->next) {
        if (c->body == NULL) {
            result = CUDA_ERROR_INVALID_VALUE; /* no node has it */
        } else if (c->is_used) {
            result = CUDA_ERROR_NOT_SUPPORTED; /* as on an H200 */
        } else if (c->body != NULL && (c->body->capturing || c->body->is_broken || !may_repeat(c->body))) {
            result = CUDA_ERROR_INVALID_VALUE;
        }
    }
    return result;
}

void gy_emu_conditions_use(const struct gy_emu_graph *graph)
{
    for (struct gy_emu_condition *c = graph->conditions; c != NULL; c = c->next) {
        c->is_used = c->body != NULL;
    }
}

void gy_emu_condition_leave(struct gy_emu_condition *condition)
{
    condition->is_used = false;
}
