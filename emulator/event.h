/* SPDX-License-Identifier: MIT */
/* Events: the last point in a stream that was recorded into them. */
#ifndef EMULATOR_EVENT_H
#define EMULATOR_EVENT_H

#include "emulator/queue.h"

struct gy_emu_event {
    struct gy_emu_object object;
    unsigned int flags;
    bool recorded;    /* it was ever recorded */
    uint64_t time_ns; /* of the last record, when `marker` is NULL */
    struct gy_emu_marker
        *marker;         /* the marker of the last record; NULL: there is none, or it was done at once */
    uint64_t capture_id; /* the capture in which it was last recorded; 0: none */
    struct gy_emu_node **capture_nodes; /* the nodes that were at the end of the stream then */
    uint32_t capture_node_count, capture_node_room;
};

/* Get the marker that a graph's wait node waits for; NULL: there is nothing to wait for. */
struct gy_emu_marker *gy_emu_event_marker(CUevent event);
/* Make `marker` (a reference is added) the event's last record. */
void gy_emu_event_attach(struct gy_emu_event *event, struct gy_emu_marker *marker);
/* See gantry_emu_late_events(). */
void gy_emu_set_late_events(bool late);
bool gy_emu_has_late_events(void);
/* The device has come to a graph's node that records the event. */
void gy_emu_event_reach(CUevent event, struct gy_emu_marker *marker);
/* It was not recorded in a capture, as far as later calls are concerned. */
void gy_emu_event_forget_capture(struct gy_emu_event *event);
bool gy_emu_event_keeps_time(const struct gy_emu_event *event);
void gy_emu_event_close(struct gy_emu_event *event);

#endif
