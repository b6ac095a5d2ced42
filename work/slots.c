/* SPDX-License-Identifier: MIT */
#include "work/slots.h"

#include "base/status.h"
#include "work/slot_args.h"

#include <assert.h>
#include <string.h>

#define BYTES ((size_t)GY_SLOTS_UNITS * GY_SLOTS_UNIT * sizeof(uint64_t))

_Static_assert(GY_SLOT_STAND_INS <= GY_SLOTS_UNIT, "stand-ins are in the first unit");

static void drop_memory(struct gy_slots *s, struct gy_context *context)
{
    if (s->device != 0) {
        (void)context->driver->cuMemFree(s->device);
    }
    if (s->host != NULL) {
        (void)context->driver->cuMemFreeHost(s->host);
    }
    s->device = 0;
    s->host = NULL;
}

/* No stream of the context's is asked: this one is there for a moment. */
static gantry_status clear(const struct gy_slots *s, struct gy_context *context)
{
    CUstream stream;
    gantry_status status = gy_context_create_stream(context, NULL, 0, &stream);
    if (status != GANTRY_OK) {
        return status;
    }
    status = GY_CALL(context, cuMemsetD8Async(s->device, 0, BYTES, stream));
    status = status == GANTRY_OK ? GY_CALL(context, cuStreamSynchronize(stream)) : status;
    (void)GY_CALL(context, cuStreamDestroy(stream));
    return status;
}

static gantry_status get_memory(struct gy_slots *s, struct gy_context *context)
{
    void *host = NULL;
    gantry_status status = GY_CALL(context, cuMemAlloc(&s->device, BYTES));
    status = status == GANTRY_OK ? GY_CALL(context, cuMemHostAlloc(&host, BYTES, 0)) : status;
    s->host = host;
    return status == GANTRY_OK ? clear(s, context) : status;
}

void gy_slots_make(struct gy_slots *s, struct gy_context *context)
{
    if (s->device != 0 || s->was_refused || gy_context_is_lost(context)) {
        return;
    }
    const struct gy_relaxed relaxed = gy_relaxed_begin(context);
    const gantry_status status = relaxed.status == GANTRY_OK ? get_memory(s, context) : relaxed.status;
    if (status != GANTRY_OK) {
        s->was_refused = true;
        drop_memory(s, context);
        gy_log(GANTRY_LOG_WARNING,
               "profile: no memory for slots: recorded graphs are changed at each launch");
    } else {
        s->is_taken[0] = 1;
    }
    (void)gy_relaxed_end(context, &relaxed); /* a failure is in the context */
    assert(gy_slots_are_valid(s));
}

void gy_slots_fini(struct gy_slots *s, struct gy_context *context)
{
    for (uint32_t i = 0; i < s->retired_count; i++) {
        (void)context->driver->cuEventDestroy(s->retired[i].passed);
    }
    drop_memory(s, context);
    *s = (struct gy_slots){.device = 0};
}

/* The first of `units` free ones that lie together; 0: there are none. */
static uint32_t find_free(const struct gy_slots *s, uint32_t units)
{
    uint32_t together = 0;
    for (uint32_t i = 1; i < GY_SLOTS_UNITS; i++) {
        together = s->is_taken[i] ? 0 : together + 1;
        if (together == units) {
            return i + 1 - units;
        }
    }
    return 0;
}

struct gy_slots_part gy_slots_take(struct gy_slots *s, uint32_t count)
{
    const uint32_t units = (count + GY_SLOTS_UNIT - 1) / GY_SLOTS_UNIT;
    const uint32_t first = s->device != 0 && units != 0 ? find_free(s, units) : 0;
    if (first == 0) {
        return (struct gy_slots_part){0, 0};
    }
    memset(s->is_taken + first, 1, units);
    return (struct gy_slots_part){first, units};
}

void gy_slots_put(struct gy_slots *s, struct gy_slots_part part)
{
    memset(s->is_taken + part.first, 0, part.count);
}

bool gy_slots_retire(struct gy_slots *s, struct gy_slots_part part, CUevent passed)
{
    if (s->retired_count == GY_SLOTS_RETIRED) {
        return false;
    }
    s->retired[s->retired_count++] = (struct gy_slots_retired){part, passed};
    return true;
}

bool gy_slots_are_valid(const struct gy_slots *s)
{
    return (s->device == 0) == (s->host == NULL) && (s->device == 0 || s->is_taken[0]) &&
           s->retired_count <= GY_SLOTS_RETIRED;
}
