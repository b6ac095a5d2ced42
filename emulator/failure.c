/* SPDX-License-Identifier: MIT */
/* How contexts fail, and what is queued on a context that has failed or dies. */
#include "emulator/context.h"
#include "emulator/graph.h"

#include <stdio.h>

static CUresult process_failure; /* what ended all GPU work of the process; SUCCESS: nothing has */
static bool spread_is_held;      /* other devices do not notice it yet */
struct gy_emu_failure gy_emu_failure;

bool gy_emu_result_is_sticky(CUresult result)
{
    switch ((int)result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
        return true;
    default:
        return false;
    }
}

static void discard_waiting(struct gy_emu_op *op)
{
    if (op->state == GY_EMU_OP_STALLED || op->state == GY_EMU_OP_BLOCKED || op->state == GY_EMU_OP_READY) {
        gy_emu_list_remove(op);
        gy_emu_op_start_later(op);
    } else if (op->state == GY_EMU_OP_RUNNING && op->work.kind == GY_EMU_WORK_GRAPH) {
        gy_emu_program_for_each(op->work.graph.program, discard_waiting);
    } else if (op->state == GY_EMU_OP_RUNNING && op->work.kind == GY_EMU_WORK_LOOP) {
        gy_emu_program_for_each_in_loop(op, discard_waiting);
    }
}

void gy_emu_root_discard(struct gy_emu_context *root)
{
    root->discarding = true;
    for (struct gy_emu_stream *s = root->streams; s != NULL; s = s->next_in_root) {
        if (s->head != NULL) {
            discard_waiting(s->head);
        }
    }
}

void gy_emu_context_fail(struct gy_emu_context *context, CUresult result)
{
    struct gy_emu_context *root = context->root;
    if (root->sticky == CUDA_SUCCESS) {
        root->sticky = result;
        gy_emu_root_discard(root);
    }
}

static bool is_of_one_device(CUresult result)
{
    return result == CUDA_ERROR_ECC_UNCORRECTABLE || result == CUDA_ERROR_NVLINK_UNCORRECTABLE ||
           result == CUDA_ERROR_CONTAINED;
}

/* Fail every context of the process; `device` not NULL: those of this device alone. */
static void fail_all(const struct gy_emu_device *device)
{
    uint32_t cursor = 0;
    struct gy_emu_object *object;
    while ((object = gy_emu_handle_next(GY_EMU_CONTEXT, &cursor)) != NULL) {
        struct gy_emu_context *context = (struct gy_emu_context *)(void *)object;
        if (device == NULL || context->device == device) {
            gy_emu_context_fail(context, process_failure);
        }
    }
}

void gy_emu_execution_fail(struct gy_emu_context *context, CUresult result)
{
    if (!gy_emu_result_is_sticky(result) || is_of_one_device(result)) {
        gy_emu_context_fail(context, result);
        return;
    }
    if (process_failure == CUDA_SUCCESS) {
        process_failure = result;
    }
    fail_all(spread_is_held ? context->device : NULL);
}

CUresult gy_emu_process_failure(void)
{
    return process_failure;
}

void gy_emu_process_begin_anew(void)
{
    process_failure = CUDA_SUCCESS;
}

void gy_emu_spread_hold(bool hold)
{
    spread_is_held = hold;
    if (!hold && process_failure != CUDA_SUCCESS) {
        fail_all(NULL);
    }
    if (!hold) {
        gy_emu_lost_notice();
    }
}

bool gy_emu_spread_is_held(void)
{
    return spread_is_held;
}

void gy_emu_failure_set(CUresult result)
{
    gy_emu_failure.result = result;
    gy_emu_failure.is_told = false;
}

const char *gy_emu_failure_of(CUresult result, bool *is_new)
{
    if (result == CUDA_SUCCESS || result != gy_emu_failure.result) {
        return NULL;
    }
    *is_new = !gy_emu_failure.is_told;
    gy_emu_failure.is_told = true;
    return gy_emu_failure.text;
}

size_t gy_emu_last_failure(char *text, size_t room)
{
    int length = snprintf(text, room, "%s", gy_emu_failure.text);
    return length > 0 ? (size_t)length : 0;
}
