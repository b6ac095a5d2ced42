/* SPDX-License-Identifier: MIT */
/* Events: the markers that records have left in them. */
#include "emulator/event.h"

#include "base/alloc.h"
#include "emulator/proof.h"

bool gy_emu_event_keeps_time(const struct gy_emu_event *event)
{
    return (event->flags & CU_EVENT_DISABLE_TIMING) == 0;
}

void gy_emu_event_forget_capture(struct gy_emu_event *event)
{
    event->capture_id = 0;
    event->capture_node_count = 0;
}

void gy_emu_event_attach(struct gy_emu_event *event, struct gy_emu_marker *marker)
{
    gy_emu_marker_unref(event->marker);
    marker->refs++;
    event->marker = marker;
    event->recorded = true;
    gy_emu_event_forget_capture(event);
}

static bool late_events; /* guarded by the emulator's lock */

void gy_emu_set_late_events(bool late)
{
    late_events = late;
}

bool gy_emu_has_late_events(void)
{
    return late_events;
}

void gy_emu_event_reach(CUevent handle, struct gy_emu_marker *marker)
{
    struct gy_emu_event *event = late_events ? gy_emu_handle_find(GY_EMU_EVENT, handle) : NULL;
    if (event != NULL) {
        gy_emu_event_attach(event, marker);
    }
}

struct gy_emu_marker *gy_emu_event_marker(CUevent handle)
{
    const struct gy_emu_event *event = gy_emu_handle_find(GY_EMU_EVENT, handle);
    return event != NULL ? event->marker : NULL;
}

void gy_emu_event_close(struct gy_emu_event *event)
{
    gy_emu_handle_close(&event->object);
    GY_EMU_PROVE(gone, (event));
    gy_emu_marker_unref(event->marker);
    gy_free(event->capture_nodes);
    gy_free(event);
}
