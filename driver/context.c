/* SPDX-License-Identifier: MIT */
/* A CUDA context, and how it is lost.
 *
 * Loss: the first sticky result on a context, or gy_context_lose(), keeps its cause and sets `lost`, in this
 * order under cause_lock, so that a thread that sees `lost` may read the cause without the lock.  From then
 * on every failing call on the context reports the first cause: what the driver answers after a sticky error
 * says nothing new. */
#include "driver/context.h"

#include "base/alloc.h"
#include "driver/device.h"
#include "driver/inside.h"
#include "driver/places.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- opening -------------------------------------------------------------------------------- */

static gantry_status check_options(const gantry_context_options *options)
{
    if ((unsigned)options->mode > GANTRY_CONTEXT_ADOPT) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "unknown context mode %d", (int)options->mode);
    }
    if ((unsigned)options->completion_wait > GANTRY_WAIT_ADAPTIVE) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "unknown wait mode %d", (int)options->completion_wait);
    }
    if ((options->mode == GANTRY_CONTEXT_ADOPT) != (options->adopted != NULL)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "a context to adopt goes together with GANTRY_CONTEXT_ADOPT");
    }
    return GANTRY_OK;
}

/* The flags for how the driver's own blocking calls wait in a context that we create. */
static unsigned int schedule_flags(gantry_wait_mode wait)
{
    switch (wait) {
    case GANTRY_WAIT_BLOCK:
        return CU_CTX_SCHED_BLOCKING_SYNC;
    case GANTRY_WAIT_YIELD:
        return CU_CTX_SCHED_YIELD;
    case GANTRY_WAIT_SPIN:
        return CU_CTX_SCHED_SPIN;
    case GANTRY_WAIT_DEFAULT:
    case GANTRY_WAIT_HYBRID:
    case GANTRY_WAIT_ADAPTIVE:
        break;
    }
    return CU_CTX_SCHED_AUTO;
}

static gantry_status device_of(const struct gy_driver *driver, CUcontext native, CUdevice *out)
{
    CUcontext popped;
    gantry_status status = GY_DRIVER_CALL(driver, cuCtxPushCurrent(native));
    if (status != GANTRY_OK) {
        return status;
    }
    status = GY_DRIVER_CALL(driver, cuCtxGetDevice(out));
    gantry_status pop = GY_DRIVER_CALL(driver, cuCtxPopCurrent(&popped));
    return status != GANTRY_OK ? status : pop;
}

/* The driver has refused the context to adopt: say why, as far as it is known. */
static void explain_refused(const struct gy_driver *driver)
{
    char copy[200];
    if (gy_error_last()->native != CUDA_ERROR_INVALID_CONTEXT) {
        return;
    }
    if (gy_driver_has_copy(driver, copy, sizeof(copy))) {
        gy_error_put_before(
            "the %s driver does not know the context to adopt: another copy of it is loaded, %s, "
            "which may have made it%s",
            driver->name, copy, driver->emulated ? " (see $GANTRY_EMULATOR)" : "");
    } else {
        gy_error_put_before("the %s driver does not know the context to adopt", driver->name);
    }
}

static gantry_status adopt(const struct gy_driver *driver, const gantry_context_options *options,
                           CUdevice *device, CUcontext *native)
{
    CUdevice named;
    CUcontext adopted = options->adopted, current = NULL;
    gantry_status status = device_of(driver, adopted, device);
    if (status != GANTRY_OK) {
        explain_refused(driver);
    }
    if (status == GANTRY_OK && options->device != NULL) {
        status = gy_device_find(driver, options->device, &named);
        if (status == GANTRY_OK && named != *device) {
            status = GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "the context to adopt is not on device \"%s\"",
                             options->device);
        }
    }
    if (status == GANTRY_OK) {
        status = GY_DRIVER_CALL(driver, cuCtxGetCurrent(&current));
    }
    if (status == GANTRY_OK) {
        if (current == adopted) { /* either is fine: ours is pushed and popped, and the current one stays */
            gy_log(GANTRY_LOG_INFO,
                   "the adopted context is current on the thread that hands it over; it stays so");
        }
        *native = adopted;
    }
    return status;
}

static gantry_status create_own(const struct gy_driver *driver, const gantry_context_options *options,
                                CUdevice device, CUcontext *native)
{
    CUcontext created, popped;
    unsigned int flags = schedule_flags(options->completion_wait) | CU_CTX_MAP_HOST;
    gantry_status status = GY_DRIVER_CALL(driver, cuCtxCreate(&created, flags, device));
    if (status != GANTRY_OK) {
        return status;
    }
    /* The context is current now; ours shall be current only while it is pushed. */
    status = GY_DRIVER_CALL(driver, cuCtxPopCurrent(&popped));
    if (status != GANTRY_OK) {
        (void)GY_DRIVER_CALL(driver, cuCtxDestroy(created));
        return status;
    }
    *native = created;
    return GANTRY_OK;
}

static gantry_status get_native(const struct gy_driver *driver, const gantry_context_options *options,
                                CUdevice *device, CUcontext *native)
{
    if (options->mode == GANTRY_CONTEXT_ADOPT) {
        return adopt(driver, options, device, native);
    }
    gantry_status status = gy_device_find(driver, options->device, device);
    if (status != GANTRY_OK) {
        return status;
    }
    if (options->mode == GANTRY_CONTEXT_OWN) {
        return create_own(driver, options, *device, native);
    }
    return GY_DRIVER_CALL(driver, cuDevicePrimaryCtxRetain(native, *device));
}

static CUresult give_native_back(const struct gy_context *context)
{
    switch (context->mode) {
    case GANTRY_CONTEXT_PRIMARY:
        return context->driver->cuDevicePrimaryCtxRelease(context->device);
    case GANTRY_CONTEXT_OWN:
        return context->driver->cuCtxDestroy(context->native);
    case GANTRY_CONTEXT_ADOPT:
        break;
    }
    return CUDA_SUCCESS;
}

/* An adopted context may be a green one, with a part of the device: then the number of its SMs counts. */
static void read_sms(struct gy_context *context)
{
    const struct gy_driver *driver = context->driver;
    CUdevResource resource;
    context->sms = context->info.total_sms;
    if (context->mode != GANTRY_CONTEXT_ADOPT || driver->version < 12040 ||
        driver->cuCtxGetDevResource == NULL) {
        return;
    }
    memset(&resource, 0, sizeof(resource));
    CUresult result = driver->cuCtxGetDevResource(context->native, &resource, CU_DEV_RESOURCE_TYPE_SM);
    if (result != CUDA_SUCCESS) {
        gy_log(GANTRY_LOG_WARNING, "the adopted context does not tell its SMs (%s): it counts as all %u",
               gy_driver_result_name(driver, result), context->sms);
    } else if (resource.sm.smCount != 0 && resource.sm.smCount < context->sms) {
        context->sms = resource.sm.smCount;
    }
}

gantry_status gy_context_open(const gantry_context_options *options, struct gy_context **out)
{
    gantry_status status = check_options(options);
    if (status != GANTRY_OK) {
        return status;
    }
    struct gy_context *context = gy_zalloc(sizeof(*context));
    if (context == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "cannot create a context");
    }
    context->mode = options->mode;
    status = gy_driver_open(options->driver, &context->driver);
    if (status != GANTRY_OK) {
        goto free_context;
    }
    const CUstreamCaptureMode mode = gy_relaxed_enter(context->driver);
    status = get_native(context->driver, options, &context->device, &context->native);
    if (status != GANTRY_OK) {
        goto leave_relaxed;
    }
    status = gy_device_read_info(context->driver, context->device, &context->info);
    if (status != GANTRY_OK) {
        goto give_back;
    }
    context->places = gy_places_join(context->native);
    if (context->places == NULL) {
        status = GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "cannot create a context");
        goto give_back;
    }
    read_sms(context);
    gy_relaxed_leave(context->driver, mode);
    atomic_init(&context->stop, 0);
    context->aborts_on_out_of_memory = options->abort_on_out_of_memory != 0;
    gy_mutex_init(&context->cause_lock, GY_RANK_LEAF);
    context->self = context;
    *out = context;
    return GANTRY_OK;

give_back:
    (void)give_native_back(context); /* a failure was reported already */
leave_relaxed:
    gy_relaxed_leave(context->driver, mode);
    gy_driver_close(context->driver);
free_context:
    gy_free(context);
    return status;
}

/* The context goes, and with the last its group. */
static void part(struct gy_context *context)
{
    struct gy_context_group *group = context->group;
    gy_mutex_lock(&group->lock);
    for (uint32_t i = 0; i < group->count; i++) {
        group->members[i] = group->members[i] != context ? group->members[i] : NULL;
    }
    bool is_last = --group->left == 0;
    gy_mutex_unlock(&group->lock);
    context->group = NULL;
    if (is_last) {
        gy_mutex_fini(&group->lock);
        gy_free(group);
    }
}

void gy_context_close(struct gy_context *context)
{
    if (context == NULL) {
        return;
    }
    assert(context->self == context);
    context->self = NULL;
    if (context->group != NULL) {
        part(context);
    }
    const CUstreamCaptureMode mode = gy_relaxed_enter(context->driver);
    CUresult result = give_native_back(context);
    gy_relaxed_leave(context->driver, mode);
    if (!gy_context_is_lost(context)) { /* a lost context only repeats its error */
        (void)gy_driver_check(context->driver, result, "giving the context back", __FILE__, __LINE__);
    }
    gy_places_leave(context->places);
    gy_driver_close(context->driver);
    gy_leftovers_free(gy_context_take_leftovers(context));
    gy_mutex_fini(&context->cause_lock);
    gy_free(context);
}

/* ---- what unloaded modules leave behind ------------------------------------------------------- */

void gy_context_leave(struct gy_context *context, struct gy_leftover *one)
{
    atomic_store_explicit(&one->is_gone, true, memory_order_relaxed);
    one->next = atomic_load_explicit(&context->leftovers, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&context->leftovers, &one->next, one, memory_order_release,
                                                  memory_order_relaxed)) {
    }
}

struct gy_leftover *gy_context_take_leftovers(struct gy_context *context)
{
    return atomic_exchange_explicit(&context->leftovers, NULL, memory_order_acquire);
}

void gy_leftovers_free(struct gy_leftover *list)
{
    while (list != NULL) {
        struct gy_leftover *next = list->next;
        gy_free(list);
        list = next;
    }
}

/* ---- streams -------------------------------------------------------------------------------- */

/* Before CUDA 12.5, a stream of a green context is made by making that context current for a moment. */
static gantry_status create_stream_current(struct gy_context *context, CUgreenCtx green, int priority,
                                           CUstream *out)
{
    CUcontext view, popped;
    gantry_status status = GY_CALL(context, cuCtxFromGreenCtx(&view, green));
    if (status == GANTRY_OK) {
        status = GY_CALL(context, cuCtxPushCurrent(view));
    }
    if (status != GANTRY_OK) {
        return status;
    }
    status = GY_CALL(context, cuStreamCreateWithPriority(out, CU_STREAM_NON_BLOCKING, priority));
    gantry_status pop = GY_CALL(context, cuCtxPopCurrent(&popped));
    return status != GANTRY_OK ? status : pop;
}

gantry_status gy_context_create_stream(struct gy_context *context, CUgreenCtx green, int priority,
                                       CUstream *out)
{
    green = green != NULL ? green : context->home;
    if (green == NULL) {
        return priority == 0
                   ? GY_CALL(context, cuStreamCreate(out, CU_STREAM_NON_BLOCKING))
                   : GY_CALL(context, cuStreamCreateWithPriority(out, CU_STREAM_NON_BLOCKING, priority));
    }
    if (context->driver->version < 12050 || context->driver->cuGreenCtxStreamCreate == NULL) {
        return create_stream_current(context, green, priority, out);
    }
    return GY_CALL(context, cuGreenCtxStreamCreate(out, green, CU_STREAM_NON_BLOCKING, priority));
}

void gy_context_drop_stream(struct gy_context *context, CUstream *stream)
{
    if (*stream != NULL) {
        (void)GY_CALL(context, cuStreamSynchronize(*stream));
        (void)GY_CALL(context, cuStreamDestroy(*stream));
        *stream = NULL;
    }
}

/* ---- copies that concern nobody else's capture ------------------------------------------------ */

/* A stream for one copy.  Nothing runs there, so it need not be in the context's home. */
static gantry_status begin_copy(struct gy_context *context, CUstream *out)
{
    return GY_CALL(context, cuStreamCreate(out, CU_STREAM_NON_BLOCKING));
}

/* Wait for the copy and destroy its stream; a call that fails is made once more, as nobody else knows the
 * stream. */
static gantry_status end_copy(struct gy_context *context, CUstream stream, gantry_status status)
{
    status = status == GANTRY_OK ? GY_CALL(context, cuStreamSynchronize(stream)) : status;
    if (GY_CALL(context, cuStreamDestroy(stream)) != GANTRY_OK) {
        (void)context->driver->cuStreamDestroy(stream);
    }
    return status;
}

gantry_status gy_context_copy_in(struct gy_context *context, CUdeviceptr to, const void *from, size_t bytes)
{
    CUstream stream = NULL;
    const gantry_status status = begin_copy(context, &stream);
    return status == GANTRY_OK
               ? end_copy(context, stream, GY_CALL(context, cuMemcpyHtoDAsync(to, from, bytes, stream)))
               : status;
}

gantry_status gy_context_copy_out(struct gy_context *context, void *to, CUdeviceptr from, size_t bytes)
{
    CUstream stream = NULL;
    const gantry_status status = begin_copy(context, &stream);
    return status == GANTRY_OK
               ? end_copy(context, stream, GY_CALL(context, cuMemcpyDtoHAsync(to, from, bytes, stream)))
               : status;
}

/* ---- loss ----------------------------------------------------------------------------------- */

static void lose_one(struct gy_context *context, const struct gy_error *cause)
{
    if (!gy_context_is_lost(context)) {
        context->cause = *cause;
        context->cause.status = GANTRY_ERR_DEVICE_LOST;
        atomic_fetch_or_explicit(&context->stop, GY_STOP_LOST, memory_order_release);
    }
}

/* The text of a cause names the device, which it does not where there is but one. */
static void lose_group(struct gy_context *context, const struct gy_error *cause)
{
    struct gy_context_group *group = context->group;
    struct gy_error named = *cause;
    (void)snprintf(named.text, sizeof(named.text), "device %d: %.*s", context->info.ordinal,
                   (int)sizeof(named.text) - 32, cause->text);
    gy_mutex_lock(&group->lock);
    if (!gy_context_is_lost(context)) {
        for (uint32_t i = 0; i < group->count; i++) {
            if (group->members[i] != NULL && group->members[i] != context) {
                lose_one(group->members[i], &named);
            }
        }
        lose_one(context, &named);
    }
    gy_mutex_unlock(&group->lock);
}

void gy_context_lose(struct gy_context *context, const struct gy_error *cause)
{
    if (context->group != NULL) {
        lose_group(context, cause);
        return;
    }
    gy_mutex_lock(&context->cause_lock);
    lose_one(context, cause);
    gy_mutex_unlock(&context->cause_lock);
}

gantry_status gy_contexts_join(struct gy_context *const *contexts, uint32_t count)
{
    assert(count <= GY_CONTEXTS_IN_GROUP);
    struct gy_context_group *group = gy_zalloc(sizeof(*group));
    if (group == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for a group of contexts");
    }
    gy_mutex_init(&group->lock, GY_RANK_LEAF);
    group->count = group->left = count;
    for (uint32_t i = 0; i < count; i++) {
        assert(contexts[i]->group == NULL);
        group->members[i] = contexts[i];
        contexts[i]->group = group;
    }
    return GANTRY_OK;
}

gantry_status gy_context_adopt_loss(struct gy_context *context)
{
    assert(gy_context_is_lost(context));
    /* The cause is written once, before GY_STOP_LOST, so no lock is needed to read it. */
    return gy_error_adopt(&context->cause);
}

void gy_context_note_out_of_memory(struct gy_context *context, const struct gy_error *cause)
{
    if (!context->aborts_on_out_of_memory) {
        return;
    }
    gy_mutex_lock(&context->cause_lock);
    bool is_first = !gy_context_is_aborted(context);
    if (is_first) {
        context->abort_cause = *cause;
        context->abort_cause.status = GANTRY_ERR_OUT_OF_DEVICE_MEMORY;
        atomic_fetch_or_explicit(&context->stop, GY_STOP_ABORTED, memory_order_release);
    }
    gy_mutex_unlock(&context->cause_lock);
    if (is_first) {
        gy_log(GANTRY_LOG_ERROR, "no GPU work is launched until the abort is cleared: %s", cause->text);
    }
}

void gy_context_clear_abort(struct gy_context *context)
{
    gy_mutex_lock(&context->cause_lock);
    atomic_fetch_and_explicit(&context->stop, ~(unsigned)GY_STOP_ABORTED, memory_order_release);
    gy_mutex_unlock(&context->cause_lock);
}

gantry_status gy_context_adopt_stop(struct gy_context *context)
{
    if (gy_context_is_lost(context)) {
        return gy_context_adopt_loss(context);
    }
    struct gy_error cause = {.status = GANTRY_OK};
    gy_mutex_lock(&context->cause_lock);
    if (gy_context_is_aborted(context)) {
        cause = context->abort_cause;
    }
    gy_mutex_unlock(&context->cause_lock);
    return cause.status == GANTRY_OK ? GANTRY_OK : gy_error_adopt(&cause);
}

gantry_status gy_context_failed(struct gy_context *context, CUresult result, const char *call,
                                const char *file, int line)
{
    if (result == CUDA_SUCCESS) {
        return GANTRY_OK;
    }
    if (gy_context_is_lost(context)) {
        return gy_context_adopt_loss(context);
    }
    char text[320];
    if (gy_context_subject != NULL) {
        snprintf(text, sizeof(text), "%.230s for task '%.60s'", call, gy_context_subject);
        call = text;
    }
    gantry_status status = gy_driver_failed(context->driver, result, call, file, line);
    if (!gy_driver_result_is_sticky(result)) {
        return status;
    }
    gy_context_lose(context, gy_error_last());
    return gy_context_adopt_loss(context);
}
