/* SPDX-License-Identifier: MIT */
#include "proof/meetings.h"

#include "base/alloc.h"
#include "proof/before.h"
#include "proof/numbers.h"

enum { SLOT_BITS = 10 };
static struct gy_meeting *meetings[GY_MEETING_KINDS][1 << SLOT_BITS]; /* guarded by the lock of order.c */

/* Where it is linked, or would be. */
static struct gy_meeting **place_of(enum gy_meeting_kind kind, const void *at)
{
    const uint64_t hash = ((uint64_t)(uintptr_t)at >> 4) * UINT64_C(0x9e3779b97f4a7c15);
    struct gy_meeting **place = &meetings[kind][hash >> (64 - SLOT_BITS)];
    while (*place != NULL && (*place)->at != at) {
        place = &(*place)->next;
    }
    return place;
}

struct gy_meeting *gy_meeting_at(enum gy_meeting_kind kind, const void *at)
{
    struct gy_meeting **place = place_of(kind, at);
    if (*place == NULL) {
        *place = gy_zalloc(sizeof(**place));
        if (*place == NULL) {
            gy_number_spend("memory");
            return NULL;
        }
        (*place)->at = at;
    }
    return *place;
}

struct gy_meeting *gy_meeting_find(enum gy_meeting_kind kind, const void *at)
{
    return *place_of(kind, at);
}

void gy_meeting_drop(enum gy_meeting_kind kind, const void *at)
{
    struct gy_meeting **place = place_of(kind, at), *one = *place;
    if (one != NULL) {
        *place = one->next;
        gy_before_drop(&one->parts);
        gy_before_drop(&one->beside);
        gy_free(one);
    }
}
