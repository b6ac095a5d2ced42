/* SPDX-License-Identifier: MIT */
/* Places are taken ahead, by streams that are made and destroyed again. */
#include "base/alloc.h"
#include "driver/places.h"

/* The driver keeps the memory of streams that were destroyed for others.  Returns how many it made. */
static uint32_t make_and_destroy(struct gy_context *context, CUstream *streams, uint32_t count)
{
    uint32_t made = 0;
    while (made < count &&
           GY_CALL(context, cuStreamCreate(&streams[made], CU_STREAM_NON_BLOCKING)) == GANTRY_OK) {
        made++;
    }
    for (uint32_t i = 0; i < made; i++) {
        (void)GY_CALL(context, cuStreamDestroy(streams[i]));
    }
    return made;
}

void gy_places_reserve(struct gy_context *context, uint32_t count)
{
    struct gy_places *places = context->places;
    const uint32_t used = atomic_load(&places->used);
    uint32_t room = atomic_load(&places->room), made = 0;
    CUstream *streams = NULL;
    if (room >= used + count) {
        return;
    }
    if (gy_context_push(context) == GANTRY_OK) {
        streams = gy_zalloc_array(count, sizeof(*streams));
        made = streams != NULL ? make_and_destroy(context, streams, count) : 0;
        (void)gy_context_pop(context);
    }
    gy_free(streams);
    while (room < used + made && !atomic_compare_exchange_weak(&places->room, &room, used + made)) {
    }
    if (made < count) {
        gy_log(GANTRY_LOG_INFO, "places of %u streams were taken ahead, not of %u", made, count);
    }
}
