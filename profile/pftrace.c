/* SPDX-License-Identifier: MIT */
/* Perfetto's native format: a file is a sequence of TracePackets, so it is written front to back and is
 * whole after every packet.  The field numbers below are Perfetto's; messages are encoded by hand
 * (profile/wire.h), the inner one first, since its length precedes it.
 *
 * Almost everything is in one packet sequence.  Its incremental state is the table of interned strings and
 * the clock: all times are CLOCK_MONOTONIC nanoseconds, which a ClockSnapshot at the front declares to be the
 * time of the trace. When the table of names is full, a packet that clears the incremental state starts a new
 * one: memory is bounded whatever the names are.
 *
 * Work on the GPU's streams is written as Perfetto's GPU render stage events.  The streams are hardware
 * queues and the tasks' names are stages; both are interned.  Such events carry their duration and may
 * overlap.
 *
 * Packets are collected in a chunk, which goes into the file when it is full, behind all packets that were
 * given a place there before (profile/outlet.h).  So other threads may bring packets of sequences of their
 * own. */
#include "profile/pftrace.h"

#include "base/alloc.h"
#include "profile/packets.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SEQUENCE_ID 1
#define PACKET_ROOM 1024 /* the most bytes of a packet */
#define QUEUE_IIDS 65536 /* numbers of queues, behind those of names */
#define NAMES 2048
#define NAME_SLOTS (NAMES * 2) /* a power of two */

static const char *const category_names[GY_PFTRACE_CATEGORIES] = {
    [GY_SPAN_TASK] = "task",        [GY_SPAN_PHASE] = "phase",
    [GY_SPAN_LAUNCH] = "launch",    [GY_SPAN_BATCH] = "batch",
    [GY_SPAN_WAIT] = "wait",        [GY_SPAN_SUBMIT] = "submit",
    [GY_SPAN_MEMORY] = "memory",    [GY_SPAN_APPLICATION] = "application",
    [GY_SPAN_ACROSS] = "across",    [GY_PFTRACE_GPU] = "gpu",
    [GY_PFTRACE_KERNEL] = "kernel", [GY_PFTRACE_CTAS] = "ctas",
    [GY_PFTRACE_RANGE] = "range",   [GY_PFTRACE_BATCH] = "gpu_batch",
    [GY_SPAN_SHARE] = "share",      [GY_SPAN_EXCHANGE] = "exchange",
};

const char *const gy_argument_names[GY_ARGUMENTS] = {
    [GY_ARGUMENT_ID] = "id",
    [GY_ARGUMENT_STREAM] = "stream",
    [GY_ARGUMENT_CTAS] = "ctas",
    [GY_ARGUMENT_LOST] = "lost",
    [GY_ARGUMENT_ALIGNMENT_NS] = "alignment_ns",
    [GY_ARGUMENT_SM_ALIGNMENT_NS] = "sm_alignment_ns",
    [GY_ARGUMENT_TICK_NS] = "tick_ns",
    [GY_ARGUMENT_SHIFT_NS] = "shift_ns",
    [GY_ARGUMENT_BLOCK] = "block",
    [GY_ARGUMENT_BATCH] = "batch",
    [GY_ARGUMENT_CTAS_LOST] = "ctas_lost",
    [GY_ARGUMENT_RANGES_LOST] = "ranges_lost",
    [GY_ARGUMENT_UNFINISHED] = "gpu_unfinished",
    [GY_ARGUMENT_COPIES] = "copies",
    [GY_ARGUMENT_BYTES_TO_DEVICE] = "bytes_to_device",
    [GY_ARGUMENT_BYTES_TO_HOST] = "bytes_to_host",
    [GY_ARGUMENT_BYTES_ON_DEVICE] = "bytes_on_device",
    [GY_ARGUMENT_CTAS_TAKEN] = "ctas_taken",
    [GY_ARGUMENT_TASKS] = "tasks",
    [GY_ARGUMENT_SM] = "sm",
};

struct name {
    bool is_stage; /* it is declared as a stage, too */
    uint32_t hash;
    uint32_t bytes;
    char text[GY_PFTRACE_NAME_BYTES];
};

struct gy_pftrace {
    struct gy_outlet outlet;
    struct gy_outlet_chunk *chunk; /* packets that are not handed over yet */
    int32_t pid;
    uint64_t tracks; /* the number of tracks made so far, which is the last uuid */
    uint64_t stages; /* the number of events written so far, which is the last event's id */
    uint64_t queues[GY_PFTRACE_GPUS + 1]; /* bit s of [g]: stream s of GPU g is declared */
    uint32_t sequences;                   /* the number made so far, which is the last id */
    uint32_t name_count;                  /* of names; the iid of names[i] is i + 1 */
    uint16_t slots[NAME_SLOTS];           /* index into names + 1; 0: empty */
    struct name names[NAMES];
};

size_t gy_packet_name_bytes(const char *text, size_t room)
{
    size_t bytes = strnlen(text, room);
    if (bytes < room) {
        return bytes;
    }
    bytes = room - 1;
    while (bytes > 0 && ((unsigned char)text[bytes] & 0xC0) == 0x80) {
        bytes--;
    }
    return bytes;
}

uint8_t *gy_pftrace_room(struct gy_pftrace *trace, size_t bytes)
{
    if (sizeof(trace->chunk->bytes) - trace->chunk->used < bytes) {
        gy_pftrace_flush(trace);
    }
    return trace->chunk->bytes + trace->chunk->used;
}

void gy_pftrace_used(struct gy_pftrace *trace, const uint8_t *end)
{
    trace->chunk->used = (size_t)(end - trace->chunk->bytes);
}

static void put_packet(struct gy_pftrace *trace, const uint8_t *packet, const uint8_t *end)
{
    uint8_t *at = gy_pftrace_room(trace, PACKET_ROOM + 16);
    gy_pftrace_used(trace, gy_wire_bytes(at, PACKET, packet, (size_t)(end - packet)));
}

static uint64_t read_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint8_t *put_clock(uint8_t *at, uint32_t number, clockid_t clock)
{
    uint8_t inner[32], *end = inner;
    end = gy_wire_uint(end, CLOCK_ID, number);
    end = gy_wire_uint(end, CLOCK_TIMESTAMP, read_clock(clock));
    return gy_wire_bytes(at, SNAPSHOT_CLOCK, inner, (size_t)(end - inner));
}

static void put_snapshot(struct gy_pftrace *trace)
{
    uint8_t snapshot[128], *s = snapshot;
    s = put_clock(s, CLOCK_MONOTONIC_NR, CLOCK_MONOTONIC);
    s = put_clock(s, CLOCK_BOOTTIME_NR, CLOCK_BOOTTIME);
    s = put_clock(s, CLOCK_REALTIME_NR, CLOCK_REALTIME);
    s = gy_wire_uint(s, SNAPSHOT_PRIMARY, CLOCK_MONOTONIC_NR);
    uint8_t packet[PACKET_ROOM], *p = packet;
    p = gy_wire_bytes(p, PACKET_CLOCK_SNAPSHOT, snapshot, (size_t)(s - snapshot));
    p = gy_wire_uint(p, PACKET_SEQUENCE, SEQUENCE_ID);
    put_packet(trace, packet, p);
}

uint8_t *gy_packet_put_entry(uint8_t *at, uint32_t field, uint64_t iid, const char *text, size_t bytes)
{
    uint8_t entry[GY_PFTRACE_NAME_BYTES + 32], *e = entry;
    e = gy_wire_uint(e, ENTRY_IID, iid);
    e = gy_wire_bytes(e, ENTRY_NAME, text, bytes);
    return gy_wire_bytes(at, field, entry, (size_t)(e - entry));
}

/* Start an incremental state: packets that follow may use the clock and the categories, and no name yet. */
static void put_state(struct gy_pftrace *trace, bool first)
{
    memset(trace->slots, 0, sizeof(trace->slots));
    memset(trace->queues, 0, sizeof(trace->queues));
    trace->name_count = 0;
    uint8_t interned[768], *i = interned;
    for (unsigned c = 0; c < GY_PFTRACE_CATEGORIES; c++) {
        i = gy_packet_put_entry(i, INTERNED_CATEGORY, c + 1, category_names[c], strlen(category_names[c]));
    }
    for (unsigned a = 0; a < GY_ARGUMENTS; a++) {
        i = gy_packet_put_entry(i, INTERNED_ANNOTATION_NAME, a + 1, gy_argument_names[a],
                                strlen(gy_argument_names[a]));
    }
    uint8_t defaults[16], *d = defaults;
    d = gy_wire_uint(d, DEFAULTS_CLOCK, CLOCK_MONOTONIC_NR);
    uint8_t packet[PACKET_ROOM], *p = packet;
    p = gy_wire_uint(p, PACKET_SEQUENCE, SEQUENCE_ID);
    p = gy_wire_uint(p, PACKET_FLAGS, FLAG_CLEARED);
    p = gy_wire_bytes(p, PACKET_DEFAULTS, defaults, (size_t)(d - defaults));
    p = gy_wire_bytes(p, PACKET_INTERNED, interned, (size_t)(i - interned));
    if (first) {
        p = gy_wire_uint(p, PACKET_FIRST, 1);
    }
    put_packet(trace, packet, p);
}

static void put_track(struct gy_pftrace *trace, const uint8_t *track, const uint8_t *end)
{
    uint8_t packet[PACKET_ROOM], *p = packet;
    p = gy_wire_uint(p, PACKET_SEQUENCE, SEQUENCE_ID);
    p = gy_wire_bytes(p, PACKET_TRACK, track, (size_t)(end - track));
    put_packet(trace, packet, p);
}

static void put_process(struct gy_pftrace *trace)
{
    uint8_t process[64], *p = process;
    p = gy_wire_uint(p, PROCESS_PID, (uint64_t)trace->pid);
    p = gy_wire_string(p, PROCESS_NAME, "gantry");
    uint8_t track[128], *t = track;
    t = gy_wire_uint(t, TRACK_UUID, ++trace->tracks);
    t = gy_wire_bytes(t, TRACK_PROCESS, process, (size_t)(p - process));
    put_track(trace, track, t);
}

gantry_status gy_pftrace_open(const char *path, bool compress, uint32_t chunks, struct gy_pftrace **out)
{
    struct gy_pftrace *trace = gy_zalloc(sizeof(*trace));
    if (trace == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "profile: no memory for a trace writer");
    }
    gantry_status status = gy_outlet_open(&trace->outlet, path, compress, chunks);
    if (status != GANTRY_OK) {
        gy_free(trace);
        return status;
    }
    trace->chunk = gy_outlet_take(&trace->outlet, GY_OUTLET_NO_TICKET);
    trace->pid = (int32_t)getpid();
    trace->sequences = SEQUENCE_ID;
    put_state(trace, true);
    put_snapshot(trace);
    put_process(trace);
    *out = trace;
    return GANTRY_OK;
}

struct gy_outlet *gy_pftrace_outlet(struct gy_pftrace *trace)
{
    return &trace->outlet;
}

gy_pftrace_track gy_pftrace_reserve_tracks(struct gy_pftrace *trace, uint32_t count)
{
    trace->tracks += count;
    return trace->tracks - count + 1;
}

uint32_t gy_pftrace_reserve_sequences(struct gy_pftrace *trace, uint32_t count)
{
    trace->sequences += count;
    return trace->sequences - count + 1;
}

gy_pftrace_track gy_pftrace_process_track(const struct gy_pftrace *trace)
{
    (void)trace;
    return 1; /* put_process() has made the first one */
}

gy_pftrace_track gy_pftrace_add_thread(struct gy_pftrace *trace, int32_t tid, const char *name)
{
    size_t bytes = gy_packet_name_bytes(name, GY_PFTRACE_NAME_BYTES);
    uint8_t thread[GY_PFTRACE_NAME_BYTES + 64], *h = thread;
    h = gy_wire_uint(h, THREAD_PID, (uint64_t)trace->pid);
    h = gy_wire_uint(h, THREAD_TID, (uint64_t)tid);
    h = gy_wire_bytes(h, THREAD_NAME, name, bytes);
    uint8_t track[sizeof(thread) + 64], *t = track;
    t = gy_wire_uint(t, TRACK_UUID, ++trace->tracks);
    t = gy_wire_uint(t, TRACK_PARENT, gy_pftrace_process_track(trace));
    t = gy_wire_bytes(t, TRACK_THREAD, thread, (size_t)(h - thread));
    put_track(trace, track, t);
    return trace->tracks;
}

gy_pftrace_track gy_pftrace_add_track(struct gy_pftrace *trace, gy_pftrace_track parent, const char *name,
                                      uint32_t rank)
{
    uint8_t track[GY_PFTRACE_NAME_BYTES + 64], *t = track;
    t = gy_wire_uint(t, TRACK_UUID, ++trace->tracks);
    t = gy_wire_uint(t, TRACK_PARENT, parent);
    t = gy_wire_bytes(t, TRACK_NAME, name, gy_packet_name_bytes(name, GY_PFTRACE_NAME_BYTES));
    t = gy_wire_uint(t, TRACK_CHILD_ORDERING, ORDERING_EXPLICIT);
    t = gy_wire_uint(t, TRACK_RANK, rank);
    put_track(trace, track, t);
    return trace->tracks;
}

static uint32_t hash_of(const char *text, size_t bytes)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    }
    return hash;
}

/* The iid of a name.  `interned` is moved behind the entry that declares it, if it is new. */
static uint32_t intern(struct gy_pftrace *trace, const char *text, uint8_t **interned)
{
    size_t bytes = gy_packet_name_bytes(text, GY_PFTRACE_NAME_BYTES);
    uint32_t hash = hash_of(text, bytes);
    uint32_t slot = hash & (NAME_SLOTS - 1);
    for (; trace->slots[slot] != 0; slot = (slot + 1) & (NAME_SLOTS - 1)) {
        const struct name *name = &trace->names[trace->slots[slot] - 1];
        if (name->hash == hash && name->bytes == bytes && memcmp(name->text, text, bytes) == 0) {
            return trace->slots[slot];
        }
    }
    if (trace->name_count == NAMES) {
        put_state(trace, false);
        slot = hash & (NAME_SLOTS - 1);
    }
    struct name *name = &trace->names[trace->name_count++];
    name->hash = hash;
    name->is_stage = false;
    name->bytes = (uint32_t)bytes;
    memcpy(name->text, text, bytes);
    trace->slots[slot] = (uint16_t)trace->name_count;
    *interned = gy_packet_put_entry(*interned, INTERNED_NAME, trace->name_count, text, bytes);
    return trace->name_count;
}

/* A packet of the first sequence with the message `event` as its field `field`. */
static void put_packet_of(struct gy_pftrace *trace, uint64_t time, uint32_t field, const uint8_t *event,
                          const uint8_t *event_end, const uint8_t *interned, const uint8_t *interned_end)
{
    uint8_t packet[PACKET_ROOM], *p = packet;
    p = gy_wire_uint(p, PACKET_TIMESTAMP, time);
    p = gy_wire_uint(p, PACKET_SEQUENCE, SEQUENCE_ID);
    p = gy_wire_uint(p, PACKET_FLAGS, FLAG_NEEDED);
    if (interned_end != interned) {
        p = gy_wire_bytes(p, PACKET_INTERNED, interned, (size_t)(interned_end - interned));
    }
    p = gy_wire_bytes(p, field, event, (size_t)(event_end - event));
    put_packet(trace, packet, p);
}

static void put_event(struct gy_pftrace *trace, uint64_t time, const uint8_t *event, const uint8_t *event_end,
                      const uint8_t *interned, const uint8_t *interned_end)
{
    put_packet_of(trace, time, PACKET_TRACK_EVENT, event, event_end, interned, interned_end);
}

void gy_pftrace_add_slice(struct gy_pftrace *trace, const struct gy_pftrace_slice *slice)
{
    uint8_t interned[GY_PFTRACE_NAME_BYTES + 64], *i = interned;
    uint32_t iid = intern(trace, slice->name, &i);
    uint8_t event[64 + 32 * GY_PFTRACE_SLICE_ARGUMENTS + 10 * GY_PFTRACE_FLOWS], *e = event;
    e = gy_wire_uint(e, EVENT_TYPE, slice->instant ? TYPE_INSTANT : TYPE_SLICE_BEGIN);
    e = gy_wire_uint(e, EVENT_TRACK, slice->track);
    e = gy_wire_uint(e, EVENT_CATEGORY, slice->category + 1);
    e = gy_wire_uint(e, EVENT_NAME, iid);
    for (uint32_t a = 0; a < slice->argument_count; a++) {
        e = gy_packet_put_argument(e, slice->arguments[a].name, slice->arguments[a].value);
    }
    for (uint32_t f = 0; f < slice->flow_count && f < GY_PFTRACE_FLOWS; f++) {
        e = gy_wire_fixed64(e, EVENT_FLOW, slice->flows[f]);
    }
    put_event(trace, slice->begin_ns, event, e, interned, i);
    if (slice->instant) {
        return;
    }
    e = event;
    e = gy_wire_uint(e, EVENT_TYPE, TYPE_SLICE_END);
    e = gy_wire_uint(e, EVENT_TRACK, slice->track);
    put_event(trace, slice->end_ns, event, e, NULL, NULL);
}

gy_pftrace_track gy_pftrace_add_counter_track(struct gy_pftrace *trace, gy_pftrace_track parent,
                                              const char *name)
{
    uint8_t track[GY_PFTRACE_NAME_BYTES + 128], *t = track;
    t = gy_wire_uint(t, TRACK_UUID, ++trace->tracks);
    t = gy_wire_uint(t, TRACK_PARENT, parent);
    t = gy_wire_bytes(t, TRACK_NAME, name, gy_packet_name_bytes(name, GY_PFTRACE_NAME_BYTES));
    t = gy_wire_bytes(t, TRACK_COUNTER, "", 0); /* an empty CounterDescriptor */
    put_track(trace, track, t);
    return trace->tracks;
}

void gy_pftrace_add_count(struct gy_pftrace *trace, gy_pftrace_track counter, uint64_t time_ns,
                          uint64_t value)
{
    uint8_t event[64], *e = event;
    e = gy_wire_uint(e, EVENT_TYPE, TYPE_COUNTER);
    e = gy_wire_uint(e, EVENT_TRACK, counter);
    e = gy_wire_uint(e, EVENT_COUNT, value);
    put_event(trace, time_ns, event, e, NULL, NULL);
}

/* ---- streams of GPUs --------------------------------------------------------------------------- */

static uint8_t *put_specification(uint8_t *at, uint64_t iid, const char *name, const char *description)
{
    uint8_t entry[2 * GY_PFTRACE_NAME_BYTES + 32], *e = entry;
    e = gy_wire_uint(e, ENTRY_IID, iid);
    e = gy_wire_bytes(e, ENTRY_NAME, name, gy_packet_name_bytes(name, GY_PFTRACE_NAME_BYTES));
    if (description != NULL) {
        e = gy_wire_bytes(e, SPECIFICATION_DESCRIPTION, description,
                          gy_packet_name_bytes(description, GY_PFTRACE_NAME_BYTES));
    }
    e = gy_wire_uint(e, SPECIFICATION_CATEGORY, CATEGORY_COMPUTE);
    return gy_wire_bytes(at, INTERNED_SPECIFICATION, entry, (size_t)(e - entry));
}

/* Declare the event's queue, context and stage if this state does not know them.  The name was interned. */
static uint8_t *declare_stage(struct gy_pftrace *trace, const struct gy_pftrace_stage *stage, uint32_t iid,
                              uint8_t *interned)
{
    uint64_t *queues = &trace->queues[stage->gpu];
    if (*queues == 0) {
        uint8_t context[32], *c = context;
        c = gy_wire_uint(c, ENTRY_IID, stage->gpu);
        c = gy_wire_uint(c, CONTEXT_PID, (uint64_t)trace->pid);
        c = gy_wire_uint(c, CONTEXT_API, API_CUDA);
        interned = gy_wire_bytes(interned, INTERNED_CONTEXT, context, (size_t)(c - context));
    }
    if ((*queues >> stage->stream & 1) == 0) {
        char name[64];
        snprintf(name, sizeof(name), "%s%sstream %u", stage->partition,
                 stage->partition[0] != '\0' ? " / " : "", stage->stream);
        *queues |= UINT64_C(1) << stage->stream;
        interned = put_specification(interned, QUEUE_IIDS + stage->gpu * GY_PFTRACE_STREAMS + stage->stream,
                                     name, stage->gpu_name);
    }
    struct name *name = &trace->names[iid - 1];
    if (!name->is_stage) {
        name->is_stage = true;
        interned = put_specification(interned, iid, stage->name, NULL);
    }
    return interned;
}

/* The devices that the work waits for, as "0, 2". */
static uint8_t *put_after(uint8_t *at, uint64_t after)
{
    char list[64 * 4];
    size_t used = 0;
    for (; after != 0; after &= after - 1) {
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%d", used != 0 ? ", " : "",
                                 __builtin_ctzll(after));
    }
    uint8_t data[sizeof(list) + 32], *d = data;
    d = gy_wire_string(d, DATA_NAME, "after_gpus");
    d = gy_wire_string(d, DATA_VALUE, list);
    return gy_wire_bytes(at, STAGE_DATA, data, (size_t)(d - data));
}

static uint8_t *put_number(uint8_t *at, const char *name, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    uint8_t data[64], *d = data;
    d = gy_wire_string(d, DATA_NAME, name);
    d = gy_wire_string(d, DATA_VALUE, text);
    return gy_wire_bytes(at, STAGE_DATA, data, (size_t)(d - data));
}

void gy_pftrace_add_stage(struct gy_pftrace *trace, const struct gy_pftrace_stage *stage)
{
    uint8_t interned[6 * GY_PFTRACE_NAME_BYTES], *i = interned;
    uint32_t iid = intern(trace, stage->name, &i);
    i = declare_stage(trace, stage, iid, i);
    uint8_t event[512], *e = event;
    e = gy_wire_uint(e, STAGE_EVENT, ++trace->stages);
    e = gy_wire_uint(e, STAGE_DURATION, stage->end_ns - stage->begin_ns);
    e = gy_wire_uint(e, STAGE_CONTEXT, stage->gpu);
    e = put_number(e, "id", stage->id);
    if (stage->manager != 0) {
        e = put_number(e, "manager", stage->manager);
    }
    if (stage->after != 0) {
        e = put_after(e, stage->after);
    }
    e = gy_wire_uint(e, STAGE_GPU, stage->gpu - 1);
    e = gy_wire_uint(e, STAGE_QUEUE, QUEUE_IIDS + stage->gpu * GY_PFTRACE_STREAMS + stage->stream);
    e = gy_wire_uint(e, STAGE_STAGE, iid);
    put_packet_of(trace, stage->begin_ns, PACKET_STAGE, event, e, interned, i);
}

/* ---- the file ---------------------------------------------------------------------------------- */

void gy_pftrace_flush(struct gy_pftrace *trace)
{
    if (trace->chunk->used != 0) {
        gy_outlet_put(&trace->outlet, gy_outlet_ticket(&trace->outlet), trace->chunk, true);
        trace->chunk = gy_outlet_take(&trace->outlet, GY_OUTLET_NO_TICKET);
    }
}

gantry_status gy_pftrace_close(struct gy_pftrace *trace, uint64_t *bytes)
{
    gy_pftrace_flush(trace);
    gantry_status status = gy_outlet_close(&trace->outlet, trace->chunk, bytes);
    gy_free(trace);
    return status;
}
