/* SPDX-License-Identifier: MIT */
/* The states of a completion's slot. */
#include "dispatcher/done/completion_thread.h"

#include <assert.h>

bool gy_completion_slot_is_valid(const struct gy_completion_slot *slot, enum gy_slot_state state)
{
    bool is_watch = slot->kind != GY_SLOT_POINT;
    return slot->state == state && slot->stream < GY_STREAMS_MAX && (!is_watch || slot->task == NULL) &&
           (!is_watch || (slot->seq == 0 && slot->flow == 0)) &&
           (state != GY_SLOT_WRITTEN || slot->is_noted || (slot->event == NULL && slot->block == NULL)) &&
           (!slot->is_noted || !is_watch) && (slot->block == NULL || slot->event != NULL);
}

void gy_completion_slot_enter(struct gy_completion_slot *slot, enum gy_slot_state next)
{
    assert(next == (enum gy_slot_state)((slot->state + 1) % (GY_SLOT_LISTED + 1)));
    slot->state = next;
    assert(gy_completion_slot_is_valid(slot, next));
}
