/* SPDX-License-Identifier: MIT */
/* The numbers of Perfetto's messages and fields that we write, and the functions that several writers of them
 * share. */
#ifndef PROFILE_PACKETS_H
#define PROFILE_PACKETS_H

#include "profile/pftrace.h"
#include "profile/wire.h"

enum { /* TracePacket */
       PACKET = 1,
       PACKET_CLOCK_SNAPSHOT = 6,
       PACKET_TIMESTAMP = 8,
       PACKET_SEQUENCE = 10,
       PACKET_TRACK_EVENT = 11,
       PACKET_INTERNED = 12,
       PACKET_FLAGS = 13,
       PACKET_COMPRESSED = 50,
       PACKET_STAGE = 53,
       PACKET_DEFAULTS = 59,
       PACKET_TRACK = 60,
       PACKET_FIRST = 87,
};
enum { /* ClockSnapshot, its Clock, TracePacketDefaults */
       SNAPSHOT_CLOCK = 1,
       SNAPSHOT_PRIMARY = 2,
       CLOCK_ID = 1,
       CLOCK_TIMESTAMP = 2,
       CLOCK_INCREMENTAL = 3,
       DEFAULTS_TRACK_EVENT = 11,
       DEFAULTS_CLOCK = 58,
};
enum { /* builtin clock numbers */
       CLOCK_REALTIME_NR = 1,
       CLOCK_MONOTONIC_NR = 3,
       CLOCK_BOOTTIME_NR = 6,
       CLOCK_OF_SEQUENCE_NR = 64,
};
enum { /* TrackDescriptor, ProcessDescriptor, ThreadDescriptor */
       TRACK_UUID = 1,
       TRACK_NAME = 2,
       TRACK_PROCESS = 3,
       TRACK_THREAD = 4,
       TRACK_PARENT = 5,
       TRACK_COUNTER = 8,
       TRACK_CHILD_ORDERING = 11,
       TRACK_RANK = 12,
       ORDERING_EXPLICIT = 3,
       PROCESS_PID = 1,
       PROCESS_NAME = 6,
       THREAD_PID = 1,
       THREAD_TID = 2,
       THREAD_NAME = 5,
};
enum { /* TrackEvent, DebugAnnotation */
       EVENT_CATEGORY = 3,
       EVENT_ANNOTATION = 4,
       EVENT_TYPE = 9,
       EVENT_NAME = 10,
       EVENT_TRACK = 11,
       EVENT_COUNT = 30,
       EVENT_FLOW = 47,
       TYPE_SLICE_BEGIN = 1,
       TYPE_SLICE_END = 2,
       TYPE_INSTANT = 3,
       TYPE_COUNTER = 4,
       ANNOTATION_NAME = 1,
       ANNOTATION_UINT = 3,
};
enum { /* InternedData and its entries */
       INTERNED_CATEGORY = 1,
       INTERNED_NAME = 2,
       INTERNED_ANNOTATION_NAME = 3,
       INTERNED_CONTEXT = 23,
       INTERNED_SPECIFICATION = 24,
       CONTEXT_PID = 2,
       CONTEXT_API = 3,
       API_CUDA = 4,
       SPECIFICATION_DESCRIPTION = 3,
       SPECIFICATION_CATEGORY = 4,
       CATEGORY_COMPUTE = 2,
       ENTRY_IID = 1,
       ENTRY_NAME = 2,
};
enum { /* GpuRenderStageEvent */
       STAGE_EVENT = 1,
       STAGE_DURATION = 2,
       STAGE_CONTEXT = 5,
       STAGE_DATA = 6,
       STAGE_GPU = 11,
       STAGE_QUEUE = 13,
       STAGE_STAGE = 14,
       DATA_NAME = 1,
       DATA_VALUE = 2,
};
enum { FLAG_CLEARED = 1, FLAG_NEEDED = 2 };

extern const char *const gy_argument_names[GY_ARGUMENTS];

/* The bytes of `text` that fit a name of `room` bytes; a UTF-8 character is never cut. */
size_t gy_packet_name_bytes(const char *text, size_t room);

/* Put an interned string: up to GY_PFTRACE_NAME_BYTES + 32 bytes. */
uint8_t *gy_packet_put_entry(uint8_t *at, uint32_t field, uint64_t iid, const char *text, size_t bytes);

/* Put an argument of an event. */
static inline uint8_t *gy_packet_put_argument(uint8_t *at, enum gy_pftrace_argument name, uint64_t value)
{
    uint8_t annotation[32], *a = annotation;
    a = gy_wire_uint(a, ANNOTATION_NAME, (uint64_t)name + 1);
    a = gy_wire_uint(a, ANNOTATION_UINT, value);
    return gy_wire_bytes(at, EVENT_ANNOTATION, annotation, (size_t)(a - annotation));
}

#endif
