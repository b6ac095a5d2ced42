/* Contexts: their lifetime, each thread's stack of current contexts, and the effects of a failure.
 *
 * A root context is the primary one of a device or one made by cuCtxCreate().  The context of a green
 * context has a root, too: the primary one, which owns all objects and carries the sticky error. */
#include "emulator/context.h"

#include "base/alloc.h"
#include "emulator/capture.h"
#include "emulator/event.h"
#include "emulator/graph.h"
#include "emulator/green.h"
#include "emulator/image.h"
#include "emulator/memory.h"
#include "emulator/module.h"
#include "emulator/places.h"
#include "emulator/semaphore.h"
#include "emulator/worker.h"

#include <string.h>

#define STACK_DEPTH 64
#define GREATEST_PRIORITY (-5)
#define ALL_CTX_FLAGS 0xffu

/* The stack has handles, so that a destroyed context on it is harmless. */
static _Thread_local CUcontext stack[STACK_DEPTH];
static _Thread_local int depth;

static CUresult process_failure; /* what ended all GPU work of the process; SUCCESS: nothing has */
static bool spread_is_held;      /* other devices do not notice it yet */

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

CUresult gy_emu_context_open(struct gy_emu_device *device, struct gy_emu_context *root, const uint16_t *sms,
                             uint32_t sm_count, struct gy_emu_context **out)
{
    CUresult result = process_failure != CUDA_SUCCESS ? process_failure : gy_emu_crews_start(device->ordinal);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct gy_emu_context *context = gy_zalloc(sizeof(*context));
    if (context == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    context->device = device;
    context->root = root != NULL ? root : context;
    context->object.context = context;
    context->sm_count = sms != NULL ? sm_count : device->profile->sm_count;
    for (uint32_t i = 0; i < context->sm_count; i++) {
        context->sms[i] = sms != NULL ? sms[i] : (uint16_t)i;
    }
    context->places_room = GY_EMU_PLACES_FIRST;
    result = gy_emu_handle_open(GY_EMU_CONTEXT, &context->object);
    if (result != CUDA_SUCCESS) {
        goto free_context;
    }
    result = gy_emu_stream_open(context, CU_STREAM_DEFAULT, 0, &context->null_stream);
    if (result != CUDA_SUCCESS) {
        goto close_handle;
    }
    gy_emu_handle_close(&context->null_stream->object); /* it is known as 0, never by a handle */
    context->null_stream->is_null = true;
    *out = context;
    return CUDA_SUCCESS;
close_handle:
    gy_emu_handle_close(&context->object);
free_context:
    gy_free(context);
    return result;
}

static bool is_idle(const struct gy_emu_context *root)
{
    for (const struct gy_emu_stream *s = root->streams; s != NULL; s = s->next_in_root) {
        if (s->head != NULL) {
            return false;
        }
    }
    return true;
}

/* Close everything of `kind` that belongs to `root`. */
static void close_objects(struct gy_emu_context *root, enum gy_emu_kind kind)
{
    uint32_t cursor = 0;
    struct gy_emu_object *object;
    while ((object = gy_emu_handle_next(kind, &cursor)) != NULL) {
        if (object->context == NULL || object->context->root != root) {
            continue;
        }
        if (kind == GY_EMU_EVENT) {
            gy_emu_event_close((struct gy_emu_event *)(void *)object);
        } else if (kind == GY_EMU_MODULE) {
            gy_emu_module_close((struct gy_emu_module *)(void *)object);
        } else if (kind == GY_EMU_GREEN) {
            gy_emu_green_close((struct gy_emu_green *)(void *)object);
        }
    }
}

void gy_emu_context_close(struct gy_emu_context *context)
{
    gy_emu_handle_close(&context->object);
    if ((gy_emu_held() >> context->device->ordinal & 1) != 0 || process_failure != CUDA_SUCCESS ||
        spread_is_held) {
        gy_emu_root_discard(context);
    }
    while (!is_idle(context)) {
        gy_emu_root_drain(context, NULL);
    }
    gy_emu_graphs_forget(context);
    close_objects(context, GY_EMU_EVENT);
    close_objects(context, GY_EMU_MODULE);
    struct gy_emu_stream *stream;
    while ((stream = context->streams) != NULL) {
        gy_emu_capture_abandon(stream);
        if (stream->object.handle != 0) {
            gy_emu_handle_close(&stream->object);
        }
        gy_emu_stream_free(stream);
    }
    close_objects(context, GY_EMU_GREEN);
    while (context->graveyard != NULL) {
        struct gy_emu_context *dead = context->graveyard;
        context->graveyard = dead->graveyard;
        gy_free(dead);
    }
    gy_emu_images_close_all(context);
    gy_emu_external_close_all(context);
    gy_emu_semaphores_close_all(context);
    gy_emu_memory_free_all(context);
    gy_free(context);
}

CUresult gy_emu_context_health(const struct gy_emu_context *context)
{
    return context->destroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : context->root->sticky;
}

static CUresult find(CUcontext handle, struct gy_emu_context **out)
{
    struct gy_emu_context *context = gy_emu_handle_find(GY_EMU_CONTEXT, handle);
    if (context == NULL) {
        return gy_emu_handle_is_stale(GY_EMU_CONTEXT, handle) ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                                              : CUDA_ERROR_INVALID_CONTEXT;
    }
    *out = context;
    return CUDA_SUCCESS;
}

static CUresult find_current(struct gy_emu_context **out)
{
    return depth > 0 ? find(stack[depth - 1], out) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult gy_emu_context_find(CUcontext handle, struct gy_emu_context **out)
{
    CUresult result = handle != NULL ? find(handle, out) : find_current(out);
    return result == CUDA_SUCCESS ? gy_emu_context_health(*out) : result;
}

CUresult gy_emu_context_current(struct gy_emu_context **out)
{
    return gy_emu_context_find(NULL, out);
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

void gy_emu_failed_work_end(void)
{
    uint32_t cursor = 0;
    struct gy_emu_object *object;
    while ((object = gy_emu_handle_next(GY_EMU_CONTEXT, &cursor)) != NULL) {
        struct gy_emu_context *root = ((struct gy_emu_context *)(void *)object)->root;
        if (root->sticky != CUDA_SUCCESS && !is_idle(root)) {
            (void)gy_emu_root_drain(root, NULL);
            cursor = 0; /* the lock was given up, so look again */
        }
    }
}

/* ---- making and destroying ------------------------------------------------------------------- */

static CUresult push(CUcontext handle)
{
    if (depth == STACK_DEPTH) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    stack[depth++] = handle;
    return CUDA_SUCCESS;
}

static CUresult create(CUcontext *out, unsigned int flags, CUdevice device)
{
    struct gy_emu_device *d = gy_emu_device_find(device);
    if (d == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (out == NULL || (flags & ~ALL_CTX_FLAGS) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (depth == STACK_DEPTH) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct gy_emu_context *context;
    CUresult result = gy_emu_context_open(d, NULL, NULL, 0, &context);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    context->flags = flags;
    *out = (CUcontext)context->object.handle;
    return push(*out);
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
    return GY_EMU_CALL(cuCtxCreate, create(context, flags, device));
}

/* This works on a failed context, too, since it is the way out. */
static CUresult destroy(CUcontext handle)
{
    struct gy_emu_context *context;
    CUresult result = find(handle, &context);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (context->root != context || context->device->primary == context) {
        return CUDA_ERROR_INVALID_CONTEXT; /* cuCtxCreate() has not made it */
    }
    if (depth > 0 && stack[depth - 1] == handle) {
        depth--;
    }
    gy_emu_context_close(context);
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
    return GY_EMU_CALL(cuCtxDestroy, destroy(context));
}

CUresult gy_emu_primary_retain(struct gy_emu_device *device, struct gy_emu_context **out)
{
    if (device->primary == NULL) {
        CUresult result = gy_emu_context_open(device, NULL, NULL, 0, &device->primary);
        if (result != CUDA_SUCCESS) {
            return result;
        }
        device->primary->flags = device->primary_flags;
    }
    device->primary_refs++;
    *out = device->primary;
    return CUDA_SUCCESS;
}

void gy_emu_primary_release(struct gy_emu_device *device)
{
    if (--device->primary_refs == 0) {
        struct gy_emu_context *primary = device->primary;
        device->primary = NULL;
        gy_emu_context_close(primary);
    }
}

static CUresult retain(CUcontext *out, CUdevice device)
{
    struct gy_emu_device *d = gy_emu_device_find(device);
    if (d == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_context *context;
    CUresult result = gy_emu_primary_retain(d, &context);
    if (result == CUDA_SUCCESS) {
        *out = (CUcontext)context->object.handle;
    }
    return result;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    return GY_EMU_CALL(cuDevicePrimaryCtxRetain, retain(context, device));
}

static CUresult release(CUdevice device)
{
    struct gy_emu_device *d = gy_emu_device_find(device);
    if (d == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (d->primary == NULL) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    gy_emu_primary_release(d);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    return GY_EMU_CALL(cuDevicePrimaryCtxRelease, release(device));
}

static CUresult get_state(CUdevice device, unsigned int *flags, int *active)
{
    const struct gy_emu_device *d = gy_emu_device_find(device);
    if (d == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (flags == NULL || active == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *flags = d->primary_flags;
    *active = d->primary != NULL;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    return GY_EMU_CALL(cuDevicePrimaryCtxGetState, get_state(device, flags, active));
}

/* ---- the current context --------------------------------------------------------------------- */

static CUresult push_checked(CUcontext handle)
{
    struct gy_emu_context *context;
    CUresult result = find(handle, &context);
    return result == CUDA_SUCCESS ? push(handle) : result;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    return GY_EMU_CALL(cuCtxPushCurrent, push_checked(context));
}

static CUresult pop(CUcontext *out)
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

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    return GY_EMU_CALL(cuCtxPopCurrent, pop(context));
}

static CUresult get_current(CUcontext *out)
{
    if (out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = depth > 0 ? stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    return GY_EMU_CALL(cuCtxGetCurrent, get_current(context));
}

/* Replace the top of the stack; NULL pops it. */
static CUresult set_current(CUcontext handle)
{
    if (handle == NULL) {
        depth -= depth > 0;
        return CUDA_SUCCESS;
    }
    struct gy_emu_context *context;
    CUresult result = find(handle, &context);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    depth -= depth > 0;
    return push(handle);
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    return GY_EMU_CALL(cuCtxSetCurrent, set_current(context));
}

static CUresult get_context_device(CUdevice *device)
{
    struct gy_emu_context *context;
    CUresult result = find_current(&context);
    if (result == CUDA_SUCCESS && device == NULL) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        *device = context->device->ordinal;
    }
    return result;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    return GY_EMU_CALL(cuCtxGetDevice, get_context_device(device));
}

/* No two contexts of a process have the same id: handles are not used again. */
static CUresult get_id(CUcontext handle, unsigned long long *id)
{
    struct gy_emu_context *context;
    CUresult result = gy_emu_context_find(handle, &context);
    if (result == CUDA_SUCCESS && id == NULL) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        *id = (unsigned long long)(uintptr_t)handle;
    }
    return result;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long *id)
{
    return GY_EMU_CALL(cuCtxGetId, get_id(context, id));
}

/* Synchronize a context.  For a root this covers its green contexts as well, except for some kernels of
 * graphs. */
static CUresult synchronize(void)
{
    struct gy_emu_context *context;
    CUresult result = gy_emu_context_current(&context);
    if (result == CUDA_SUCCESS) {
        result = gy_emu_capture_forbids_context(context);
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    CUcontext handle = (CUcontext)context->object.handle;
    result = gy_emu_context_drain(context);
    return result == CUDA_SUCCESS ? gy_emu_context_find(handle, &context) : result;
}

CUresult cuCtxSynchronize(void)
{
    return GY_EMU_CALL(cuCtxSynchronize, synchronize());
}

static CUresult get_priorities(int *least, int *greatest)
{
    struct gy_emu_context *context;
    CUresult result = gy_emu_context_current(&context);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (least != NULL) {
        *least = 0;
    }
    if (greatest != NULL) {
        *greatest = GREATEST_PRIORITY;
    }
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    return GY_EMU_CALL(cuCtxGetStreamPriorityRange, get_priorities(least, greatest));
}
