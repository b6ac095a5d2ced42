/* SPDX-License-Identifier: MIT */
/* Contexts: how they are found, and each thread's stack of current ones.
 *
 * A root context is the primary one of a device or one made by cuCtxCreate().  The context of a green
 * context has a root, too: the primary one, which owns all objects and carries the sticky error. */
#include "emulator/context.h"

#define STACK_DEPTH 64

/* The stack has handles, so that a destroyed context on it is harmless. */
static _Thread_local CUcontext stack[STACK_DEPTH];
static _Thread_local int depth;

CUresult gy_emu_context_health(const struct gy_emu_context *context)
{
    return context->destroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : context->root->sticky;
}

CUresult gy_emu_context_look(CUcontext handle, struct gy_emu_context **out)
{
    struct gy_emu_context *context = gy_emu_handle_find(GY_EMU_CONTEXT, handle);
    if (context == NULL) {
        return gy_emu_handle_is_stale(GY_EMU_CONTEXT, handle) ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                                              : CUDA_ERROR_INVALID_CONTEXT;
    }
    *out = context;
    return CUDA_SUCCESS;
}

CUresult gy_emu_context_look_current(struct gy_emu_context **out)
{
    return depth > 0 ? gy_emu_context_look(stack[depth - 1], out) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult gy_emu_context_find(CUcontext handle, struct gy_emu_context **out)
{
    CUresult result = handle != NULL ? gy_emu_context_look(handle, out) : gy_emu_context_look_current(out);
    return result == CUDA_SUCCESS ? gy_emu_context_health(*out) : result;
}

CUresult gy_emu_context_current(struct gy_emu_context **out)
{
    return gy_emu_context_find(NULL, out);
}

uint32_t gy_emu_peer_find(const struct gy_emu_context *root, uintptr_t handle)
{
    uint32_t i = 0;
    while (i < root->peer_count && root->peers[i] != handle) {
        i++;
    }
    return i;
}

bool gy_emu_peer_is_enabled(const struct gy_emu_context *context, const struct gy_emu_context *owner)
{
    const struct gy_emu_context *root = context->root;
    return gy_emu_peer_find(root, owner->object.handle) < root->peer_count;
}

CUresult gy_emu_current_push(CUcontext handle)
{
    if (depth == STACK_DEPTH) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    stack[depth++] = handle;
    return CUDA_SUCCESS;
}

bool gy_emu_current_is_full(void)
{
    return depth == STACK_DEPTH;
}

CUcontext gy_emu_current_top(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

CUresult gy_emu_current_pop(CUcontext *out)
{
    if (depth == 0) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    depth--;
    if (out != NULL) {
        *out = stack[depth];
    }
    return CUDA_SUCCESS;
}

CUresult gy_emu_current_set(CUcontext handle)
{
    if (handle == NULL) {
        depth -= depth > 0;
        return CUDA_SUCCESS;
    }
    struct gy_emu_context *context;
    CUresult result = gy_emu_context_look(handle, &context);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    depth -= depth > 0;
    return gy_emu_current_push(handle);
}
