/* SPDX-License-Identifier: MIT */
/* What is destroyed: streams, contexts and primary contexts.  What the meter has of them is settled first,
 * and nobody asks the driver about them meanwhile. */
#include "limit/meter_inside.h"

#include "limit/costs.h"
#include "limit/real.h"

#include <sched.h>
#include <stdlib.h>

static void lock(void)
{
    pthread_mutex_lock(&gy_meter_lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&gy_meter_lock);
}

static void let_others_record(void)
{
    unlock();
    sched_yield();
    lock();
}

struct gy_meter_stream *gy_meter_find_unused(const struct gy_meter_stream_key *key)
{
    struct gy_meter_stream *stream = gy_meter_find_stream(key);
    while (stream != NULL && stream->recording > 0) {
        let_others_record();
        stream = gy_meter_find_stream(key);
    }
    return stream;
}

void gy_meter_forget_stream(CUstream handle)
{
    if (atomic_load(&gy_meter.state) != GY_METER_RUNNING || (uintptr_t)handle <= 2) {
        return;
    }
    gy_meter_close_stream(handle);
    const struct gy_meter_stream_key key = {.handle = handle};
    lock();
    struct gy_meter_stream *stream = gy_meter_find_unused(&key);
    if (stream != NULL && stream->open == NULL) {
        gy_meter_remove_stream(stream);
    }
    unlock();
}

/* Groups in which something is launched just now end with that launch. */
static void drop_open(const struct gy_meter_context *context)
{
    struct gy_meter_group *next;
    for (struct gy_meter_group *group = gy_meter.open; group != NULL; group = next) {
        next = group->next;
        if (group->context == context && group->launching == 0) {
            gy_meter_detach(group);
            gy_meter_settle_unmeasured(group);
        } else if (group->context == context) {
            group->home = NULL;
        }
    }
}

static void forget(struct gy_meter_context *context)
{
    drop_open(context);
    struct gy_meter_group **link = &gy_meter.flying;
    while (*link != NULL) {
        struct gy_meter_group *group = *link;
        if (group->context == context) {
            *link = group->next;
            atomic_fetch_sub(&gy_meter.flying_groups, 1);
            gy_meter_settle_unmeasured(group);
        } else {
            link = &group->next;
        }
    }
    gy_meter.flying_end = link;
    gy_meter_bury(context);
}

/* The context, or one of the device where it is NULL, when nobody records in it any more
 * (gy_meter_find_unused()). */
static struct gy_meter_context *find_context(CUcontext handle, CUdevice ordinal)
{
    for (;;) {
        struct gy_meter_context *context = gy_meter_contexts();
        while (context != NULL &&
               (handle != NULL ? context->handle != handle : context->ordinal != ordinal)) {
            context = context->next;
        }
        if (context == NULL || context->recording == 0) {
            return context;
        }
        let_others_record();
    }
}

/* Whoever polls asks about events of all contexts.  False: nothing is measured. */
static bool stop_polling(void)
{
    if (atomic_load(&gy_meter.state) != GY_METER_RUNNING) {
        return false;
    }
    gy_meter_close_all();
    gy_meter_poll();
    while (atomic_exchange(&gy_meter.is_polling, true)) {
        sched_yield();
    }
    return true;
}

/* Forget a context while nobody polls; whether there was one.  If it has gone, its events have, too. */
static bool forget_one(CUcontext handle, CUdevice ordinal, bool has_gone)
{
    CUevent *events = NULL;
    uint32_t count = 0;
    lock();
    struct gy_meter_context *context = find_context(handle, ordinal);
    if (context != NULL) {
        gy_meter_keep_event(context, context->reference);
        events = context->spare;
        count = has_gone ? 0 : context->spare_count;
        context->spare = NULL;
        context->spare_count = context->spare_room = 0;
        forget(context);
    }
    gy_costs_forget_all(); /* functions may have the same addresses afterwards */
    unlock();
    const CUstreamCaptureMode mode = gy_meter_relax();
    for (uint32_t i = 0; i < count && gy_cu.cuEventDestroy_v2 != NULL; i++) {
        (void)gy_cu.cuEventDestroy_v2(events[i]);
    }
    gy_meter_restore(mode);
    free(events);
    return context != NULL;
}

void gy_meter_forget_context(CUcontext context)
{
    if (context != NULL && stop_polling()) {
        (void)forget_one(context, 0, false);
        atomic_store(&gy_meter.is_polling, false);
    }
}

/* ---- primary contexts ----------------------------------------------------------------------------- */

enum { MOST_PRIMARIES = 64 };
static _Atomic(CUcontext) primaries[MOST_PRIMARIES]; /* by ordinal, as they were retained last */

void gy_meter_note_primary(CUdevice device, CUcontext context)
{
    if (device >= 0 && device < MOST_PRIMARIES) {
        atomic_store(&primaries[device], context);
    }
}

static CUcontext primary_of(CUdevice device)
{
    return device >= 0 && device < MOST_PRIMARIES ? atomic_load(&primaries[device]) : NULL;
}

bool gy_meter_primary_leaves(CUdevice device)
{
    const bool is_stopped = stop_polling();
    if (is_stopped) {
        lock();
        (void)find_context(primary_of(device), device);
        unlock();
    }
    return is_stopped;
}

void gy_meter_primary_left(bool is_stopped, CUdevice device, CUresult result)
{
    unsigned flags = 0;
    int is_active = 0;
    if (!is_stopped) {
        return;
    }
    if (result == CUDA_SUCCESS && gy_cu.cuDevicePrimaryCtxGetState != NULL &&
        gy_cu.cuDevicePrimaryCtxGetState(device, &flags, &is_active) != CUDA_SUCCESS) {
        is_active = 0;
    }
    if (result == CUDA_SUCCESS && is_active == 0) {
        const CUcontext handle = primary_of(device); /* NULL: any of the device may be it */
        while (forget_one(handle, device, true) && handle == NULL) {
        }
        gy_meter_note_primary(device, NULL);
    }
    atomic_store(&gy_meter.is_polling, false);
}
