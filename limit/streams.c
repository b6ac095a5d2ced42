/* SPDX-License-Identifier: MIT */
/* The contexts, streams and events of the meter: found out once each, without the lock, and kept until they
 * are destroyed. */
#include "limit/meter_inside.h"

#include "limit/pace.h"
#include "limit/real.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BUCKETS = 1024 };

static struct gy_meter_stream *streams[BUCKETS];
static struct gy_meter_context *contexts;
static uint64_t numbers; /* of streams, given away so far */

uint64_t gy_meter_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

bool gy_meter_push(CUcontext context)
{
    CUcontext current = NULL;
    if (gy_cu.cuCtxGetCurrent(&current) != CUDA_SUCCESS || current == context) {
        return false;
    }
    return gy_cu.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
}

void gy_meter_pop(bool pushed)
{
    CUcontext popped;
    if (pushed) {
        (void)gy_cu.cuCtxPopCurrent_v2(&popped);
    }
}

/* ---- contexts -------------------------------------------------------------------------------- */

struct gy_meter_context *gy_meter_contexts(void)
{
    return contexts;
}

/* The UUID as a number, which is the same in every process. */
static uint64_t id_of(CUdevice device)
{
    CUuuid uuid;
    uint64_t id = UINT64_C(1469598103934665603);
    memset(&uuid, 0, sizeof(uuid));
    bool has = gy_cu.cuDeviceGetUuid_v2 != NULL && gy_cu.cuDeviceGetUuid_v2(&uuid, device) == CUDA_SUCCESS;
    has = has || (gy_cu.cuDeviceGetUuid != NULL && gy_cu.cuDeviceGetUuid(&uuid, device) == CUDA_SUCCESS);
    if (!has) {
        return (uint64_t)device + 1;
    }
    for (size_t i = 0; i < sizeof(uuid.bytes); i++) {
        id = (id ^ (unsigned char)uuid.bytes[i]) * UINT64_C(1099511628211);
    }
    return id != 0 ? id : 1;
}

static bool is_chosen(const struct gy_region *region, CUdevice device)
{
    for (int ordinal = 0; ordinal < 32; ordinal++) {
        CUdevice found;
        if ((region->settings.devices >> ordinal & 1) != 0 &&
            gy_cu.cuDeviceGet(&found, ordinal) == CUDA_SUCCESS && found == device) {
            return true;
        }
    }
    return false;
}

struct description {
    CUcontext context;
    CUdevice ordinal;
    int device, common;
    bool is_blocking;
};

static bool describe(const struct gy_meter_stream_key *key, struct gy_region *region, struct description *out)
{
    const bool is_special = (uintptr_t)key->handle <= 2;
    unsigned flags = 0;
    *out = (struct description){.context = key->context, .device = -1, .common = -1, .is_blocking = true};
    if (!is_special && (gy_cu.cuStreamGetCtx(key->handle, &out->context) != CUDA_SUCCESS)) {
        if (gy_cu.cuCtxGetCurrent(&out->context) != CUDA_SUCCESS) {
            return false;
        }
    }
    if (out->context == NULL) {
        return false;
    }
    if (!is_special && gy_cu.cuStreamGetFlags != NULL &&
        gy_cu.cuStreamGetFlags(key->handle, &flags) == CUDA_SUCCESS) {
        out->is_blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
    }
    const bool pushed = gy_meter_push(out->context);
    const bool has_device = gy_cu.cuCtxGetDevice(&out->ordinal) == CUDA_SUCCESS;
    gy_meter_pop(pushed);
    if (has_device && is_chosen(region, out->ordinal)) {
        const uint64_t id = id_of(out->ordinal), now = gy_meter_now();
        out->device = gy_region_device(region, id, now);
        out->common = gy_meter.common != NULL ? gy_region_device(gy_meter.common->region, id, now) : -1;
    }
    return has_device;
}

static struct gy_meter_context *find_context(const struct description *d)
{
    struct gy_meter_context *context = contexts;
    while (context != NULL && context->handle != d->context) {
        context = context->next;
    }
    if (context == NULL && (context = calloc(1, sizeof(*context))) != NULL) {
        context->handle = d->context;
        context->ordinal = d->ordinal;
        context->device = d->device;
        context->common = d->common;
        context->next = contexts;
        contexts = context;
    }
    return context;
}

void gy_meter_unref(struct gy_meter_context *context)
{
    if (--context->groups == 0 && context->is_dead) {
        free(context->spare);
        free(context);
    }
}

void gy_meter_bury(struct gy_meter_context *context)
{
    for (int b = 0; b < BUCKETS; b++) {
        struct gy_meter_stream **link = &streams[b];
        while (*link != NULL) {
            struct gy_meter_stream *stream = *link;
            if (stream->context == context) {
                *link = stream->next;
                free(stream);
            } else {
                link = &stream->next;
            }
        }
    }
    struct gy_meter_context **link = &contexts;
    while (*link != context) {
        link = &(*link)->next;
    }
    *link = context->next;
    context->is_dead = true;
    context->groups++;
    gy_meter_unref(context);
}

/* In a forked child nothing is left of what the parent had; its memory is let go of, since others may have
 * held it. */
void gy_meter_forget_everything(void)
{
    memset(streams, 0, sizeof(streams));
    contexts = NULL;
}

/* ---- streams --------------------------------------------------------------------------------- */

struct gy_meter_stream_key gy_meter_key_of(CUstream handle)
{
    struct gy_meter_stream_key key = {.handle = (uintptr_t)handle == 1 ? NULL : handle};
    if ((uintptr_t)handle <= 2) {
        if (gy_cu.cuCtxGetCurrent(&key.context) != CUDA_SUCCESS) {
            key.context = NULL;
        }
        key.thread = (uintptr_t)handle == 2 ? pthread_self() : 0;
    }
    return key;
}

static struct gy_meter_stream **bucket_of(const struct gy_meter_stream_key *key)
{
    const uint64_t sum =
        (uint64_t)(uintptr_t)key->handle ^ (uint64_t)(uintptr_t)key->context ^ (uint64_t)key->thread;
    return &streams[(sum * UINT64_C(0x9e3779b97f4a7c15)) >> 54];
}

static bool is_same(const struct gy_meter_stream_key *a, const struct gy_meter_stream_key *b)
{
    return a->handle == b->handle && a->context == b->context && a->thread == b->thread;
}

struct gy_meter_stream *gy_meter_find_stream(const struct gy_meter_stream_key *key)
{
    struct gy_meter_stream *stream = *bucket_of(key);
    while (stream != NULL && !is_same(&stream->key, key)) {
        stream = stream->next;
    }
    return stream;
}

struct gy_meter_stream *gy_meter_add_stream(const struct gy_meter_stream_key *key, struct gy_region *region)
{
    struct description d;
    pthread_mutex_unlock(&gy_meter_lock);
    const bool is_known = describe(key, region, &d);
    pthread_mutex_lock(&gy_meter_lock);
    struct gy_meter_stream *stream = gy_meter_find_stream(key);
    if (stream != NULL || !is_known) {
        return stream;
    }
    struct gy_meter_context *context = find_context(&d);
    stream = context != NULL ? calloc(1, sizeof(*stream)) : NULL;
    if (stream == NULL) {
        return NULL;
    }
    stream->key = *key;
    stream->number = ++numbers;
    stream->context = context;
    stream->is_blocking = key->handle != NULL && d.is_blocking;
    stream->next = *bucket_of(key);
    *bucket_of(key) = stream;
    return stream;
}

void gy_meter_remove_stream(struct gy_meter_stream *stream)
{
    struct gy_meter_stream **link = bucket_of(&stream->key);
    while (*link != stream) {
        link = &(*link)->next;
    }
    *link = stream->next;
    free(stream);
}

/* ---- events ---------------------------------------------------------------------------------- */

CUevent gy_meter_take_event(struct gy_meter_context *context)
{
    CUevent event = NULL;
    pthread_mutex_lock(&gy_meter_lock);
    if (context->spare_count > 0) {
        event = context->spare[--context->spare_count];
    }
    const bool is_dead = context->is_dead;
    pthread_mutex_unlock(&gy_meter_lock);
    if (event == NULL && !is_dead) {
        const bool pushed = gy_meter_push(context->handle);
        if (gy_cu.cuEventCreate(&event, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
            event = NULL;
        }
        gy_meter_pop(pushed);
    }
    return event;
}

void gy_meter_keep_event(struct gy_meter_context *context, CUevent event)
{
    if (event == NULL || context->is_dead) {
        return;
    }
    if (context->spare_count == context->spare_room) {
        const uint32_t room = context->spare_room + 64;
        CUevent *spare = realloc(context->spare, room * sizeof(CUevent));
        if (spare == NULL) {
            return; /* it lives as long as the context */
        }
        context->spare = spare;
        context->spare_room = room;
    }
    context->spare[context->spare_count++] = event;
}
