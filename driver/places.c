#include "driver/places.h"

#include "base/alloc.h"

static gy_mutex list_lock = {PTHREAD_MUTEX_INITIALIZER, GY_RANK_LEAF};
static struct gy_places *list; /* guarded by list_lock */

struct gy_places *gy_places_join(CUcontext native)
{
    gy_mutex_lock(&list_lock);
    struct gy_places *places = list;
    while (places != NULL && places->native != native) {
        places = places->next;
    }
    if (places == NULL && (places = gy_zalloc(sizeof(*places))) != NULL) {
        places->native = native;
        places->next = list;
        list = places;
    }
    if (places != NULL) {
        places->users++;
    }
    gy_mutex_unlock(&list_lock);
    return places;
}

void gy_places_leave(struct gy_places *places)
{
    gy_mutex_lock(&list_lock);
    if (--places->users == 0) {
        struct gy_places **at = &list;
        while (*at != places) {
            at = &(*at)->next;
        }
        *at = places->next;
        gy_free(places);
    }
    gy_mutex_unlock(&list_lock);
}

/* ---- ahead ----------------------------------------------------------------------------------- */

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
