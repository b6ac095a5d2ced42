/* SPDX-License-Identifier: MIT */
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
