/* SPDX-License-Identifier: MIT */
/* Reads back what profile/pftrace.c writes: not any trace, but every trace of ours.
 *
 * Our writer puts the end of a slice right behind its begin on the same sequence, and gives tracks small
 * numbers; the reader relies on both and says so when a file is different.  So a slice is known as a whole as
 * soon as its end is read, and blocks, of which there are many, need not be kept. */
#include "cli/trace.h"

#include "cli/messages.h"
#include "cli/names.h"
#include "cli/trace_file.h"
#include "cli/trace_stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TRACKS (1u << 20)
#define MOST_SEQUENCES (1u << 20)
#define QUEUE_IIDS 65536u /* numbers of queues are larger, those of stages smaller */
#define QUEUES 8192u

enum { EVENT_BEGIN = 1, EVENT_END = 2, EVENT_INSTANT = 3, EVENT_COUNT = 4 };

/* Numbers of strings on one sequence, as indices into trace.names. */
struct table {
    uint32_t *at;
    size_t room;
};

struct sequence {
    uint64_t now_ns;
    uint32_t track; /* index */
    bool incremental, is_open;
    struct trace_slice open; /* begun, not ended */
    uint64_t open_block;
    struct table events, categories, arguments, stages;
};

/* A stream of a GPU. */
struct queue {
    const char *name, *gpu; /* NULL: not declared */
    uint32_t first_lane, lane_count;
};

/* One of a queue's tracks. */
struct lane {
    uint32_t track;
    uint32_t next; /* index into lanes; 0: none */
    uint64_t end_ns;
};

struct trace_reader {
    struct trace *trace;
    trace_block_fn block;
    void *user;
    struct sequence *sequences;
    size_t sequence_count;
    size_t track_room, slice_room, mark_room, detail_room, flow_room, count_room;
    uint32_t *index; /* by uuid: of its track */
    size_t index_room;
    struct queue queues[QUEUES];
    struct lane *lanes; /* 0 is unused */
    size_t lane_count, lane_room;
    uint32_t gpu_category;
    bool is_ours; /* the process that our writer declares before anything else has been read */
    struct names names;
    const char *wrong;
};

/* ---- growing arrays ---------------------------------------------------------------------------- */

/* Room for `count` + 1 items, new ones zeroed; NULL and `wrong` when out of memory. */
static void *grown(struct trace_reader *r, void *array, size_t count, size_t *room, size_t bytes)
{
    if (count < *room) {
        return array;
    }
    size_t more = *room == 0 ? 64 : *room * 2;
    while (more <= count) {
        more *= 2;
    }
    void *bigger = realloc(array, more * bytes);
    if (bigger == NULL) {
        r->wrong = "out of memory";
        return NULL;
    }
    memset((char *)bigger + *room * bytes, 0, (more - *room) * bytes);
    *room = more;
    return bigger;
}

#define GROW(r, array, count, room)                                              \
    do {                                                                         \
        void *bigger_ = grown((r), (array), (count), &(room), sizeof(*(array))); \
        (array) = bigger_ != NULL ? bigger_ : (array);                           \
    } while (0)

/* The index of a name among all of the trace. */
static uint32_t name_index(struct trace_reader *r, struct span text)
{
    uint32_t index = 0;
    if (r->wrong == NULL && !cli_names_add(&r->names, text, &index)) {
        r->wrong = r->names.count >= MOST_NAMES ? "too many names" : "out of memory";
    }
    r->trace->names = r->names.at;
    r->trace->name_count = r->names.count;
    return index;
}

static void table_set(struct trace_reader *r, struct table *table, uint64_t iid, uint32_t index)
{
    if (iid >= MOST_NAMES) {
        r->wrong = "the number of a string is too large";
        return;
    }
    GROW(r, table->at, (size_t)iid, table->room);
    if (r->wrong == NULL) {
        table->at[iid] = index;
    }
}

static uint32_t table_get(const struct table *table, uint64_t iid)
{
    return iid < table->room ? table->at[iid] : 0;
}

/* ---- what is declared -------------------------------------------------------------------------- */

struct packet {
    uint64_t timestamp, sequence;
    struct span event, stage, interned, track, defaults, snapshot;
};

static struct sequence *sequence_of(struct trace_reader *r, uint64_t id)
{
    if (id < r->sequence_count) {
        return &r->sequences[id];
    }
    if (id >= MOST_SEQUENCES) {
        r->wrong = "too many sequences";
        return NULL;
    }
    GROW(r, r->sequences, (size_t)id, r->sequence_count);
    return r->wrong == NULL ? &r->sequences[id] : NULL;
}

static void read_queue(struct trace_reader *r, uint64_t iid, struct span name, struct span gpu)
{
    if (iid - QUEUE_IIDS >= QUEUES) {
        r->wrong = "the number of a queue is too large";
        return;
    }
    uint32_t index = name_index(r, name), gpu_index = name_index(r, gpu);
    if (r->wrong == NULL) {
        r->queues[iid - QUEUE_IIDS].name = r->trace->names[index];
        r->queues[iid - QUEUE_IIDS].gpu = r->trace->names[gpu_index];
    }
}

static void read_interned(struct trace_reader *r, struct sequence *sequence, struct span span)
{
    struct field list, field;
    while (cli_next_field(&span, &list)) {
        uint64_t iid = 0;
        struct span text = {(const uint8_t *)"", (const uint8_t *)""}, description = text;
        struct span entry = list.bytes;
        while (cli_next_field(&entry, &field)) {
            iid = field.number == 1 ? field.value : iid;
            text = field.number == 2 ? field.bytes : text;
            description = field.number == 3 ? field.bytes : description;
        }
        struct table *table = list.number == 1    ? &sequence->categories
                              : list.number == 2  ? &sequence->events
                              : list.number == 3  ? &sequence->arguments
                              : list.number == 24 ? &sequence->stages
                                                  : NULL;
        if (list.number == 24 && iid >= QUEUE_IIDS) {
            read_queue(r, iid, text, description);
        } else if (table != NULL) {
            table_set(r, table, iid, name_index(r, text));
        }
    }
}

static uint32_t add_track(struct trace_reader *r, const struct trace_track *track)
{
    GROW(r, r->trace->tracks, r->trace->track_count, r->track_room);
    if (r->wrong != NULL || r->trace->track_count >= MOST_TRACKS) {
        r->wrong = r->wrong != NULL ? r->wrong : "too many tracks";
        return 0;
    }
    r->trace->tracks[r->trace->track_count] = *track;
    return (uint32_t)r->trace->track_count++;
}

static uint32_t track_of(const struct trace_reader *r, uint64_t uuid)
{
    return uuid < r->index_room ? r->index[uuid] : 0;
}

static void read_defaults(struct trace_reader *r, struct sequence *sequence, struct span span)
{
    struct field field, inner;
    while (cli_next_field(&span, &field)) {
        if (field.number == 58) {
            sequence->incremental = field.value == 64;
        } else if (field.number == 11) {
            while (cli_next_field(&field.bytes, &inner)) {
                sequence->track = inner.number == 11 ? track_of(r, inner.value) : sequence->track;
            }
            r->trace->tracks[sequence->track].kind = TRACE_BLOCKS;
        }
    }
}

static void read_snapshot(struct sequence *sequence, struct span span)
{
    struct field field, inner;
    while (cli_next_field(&span, &field)) {
        uint64_t id = 0, time = 0;
        while (field.number == 1 && cli_next_field(&field.bytes, &inner)) {
            id = inner.number == 1 ? inner.value : id;
            time = inner.number == 2 ? inner.value : time;
        }
        sequence->now_ns = id == 3 ? time : sequence->now_ns;
    }
}

/* Our writer's process is called so, whatever the program is, and has the first track. */
static bool is_our_process(uint64_t uuid, struct span name)
{
    static const char ours[] = "gantry";
    return uuid == 1 && (size_t)(name.end - name.at) == sizeof(ours) - 1 &&
           memcmp(name.at, ours, sizeof(ours) - 1) == 0;
}

static void read_track(struct trace_reader *r, struct span span)
{
    struct trace_track track = {.name = ""};
    uint64_t uuid = 0;
    struct field field, inner;
    while (cli_next_field(&span, &field) && r->wrong == NULL) {
        if (field.number == 1) {
            uuid = field.value;
        } else if (field.number == 5) {
            track.parent = track_of(r, field.value);
        } else if (field.number == 12) {
            track.rank = (int32_t)field.value;
        } else if (field.number == 2) {
            track.name = r->trace->names[name_index(r, field.bytes)];
        } else if (field.number == 8) {
            track.kind = TRACE_COUNTER;
        } else if (field.number == 3 || field.number == 4) {
            track.kind = field.number == 4 ? TRACE_THREAD : track.kind;
            while (cli_next_field(&field.bytes, &inner)) {
                if (inner.number == (field.number == 3 ? 6u : 5u)) {
                    track.name = r->trace->names[name_index(r, inner.bytes)];
                    r->is_ours |= field.number == 3 && is_our_process(uuid, inner.bytes);
                }
            }
        }
    }
    if (uuid == 0 || uuid >= MOST_TRACKS) {
        r->wrong = "a track's number is not one of ours";
        return;
    }
    GROW(r, r->index, (size_t)uuid, r->index_room);
    if (r->wrong == NULL) {
        r->index[uuid] = add_track(r, &track);
    }
}

/* ---- what happened ----------------------------------------------------------------------------- */

static void read_argument(struct trace_reader *r, const struct sequence *sequence, struct span span,
                          struct trace_details *details)
{
    uint64_t iid = 0, value = 0;
    struct field field;
    while (cli_next_field(&span, &field)) {
        iid = field.number == 1 ? field.value : iid;
        value = field.number == 3 ? field.value : value;
    }
    enum trace_argument a = cli_argument_called(r->trace->names[table_get(&sequence->arguments, iid)]);
    if (a < TRACE_ARGUMENTS) {
        details->arguments[a] = value;
        details->present |= 1u << a;
    }
}

static uint32_t add_details(struct trace_reader *r, const struct trace_details *details)
{
    struct trace *trace = r->trace;
    if (details->present == 0 && details->flow_count == 0) {
        return 0;
    }
    GROW(r, trace->details, trace->detail_count, r->detail_room);
    if (r->wrong != NULL || trace->detail_count > UINT32_MAX - 1) {
        return 0;
    }
    trace->details[trace->detail_count] = *details;
    return (uint32_t)trace->detail_count++;
}

static void add_flow(struct trace_reader *r, struct trace_details *details, uint64_t flow)
{
    struct trace *trace = r->trace;
    GROW(r, trace->flows, trace->flow_count, r->flow_room);
    if (r->wrong == NULL) {
        details->first_flow = details->flow_count == 0 ? (uint32_t)trace->flow_count : details->first_flow;
        details->flow_count++;
        trace->flows[trace->flow_count++] = flow;
    }
}

static void add_slice(struct trace_reader *r, const struct trace_slice *slice)
{
    GROW(r, r->trace->slices, r->trace->slice_count, r->slice_room);
    if (r->wrong == NULL) {
        r->trace->slices[r->trace->slice_count++] = *slice;
    }
}

static void add_mark(struct trace_reader *r, const struct trace_slice *mark)
{
    GROW(r, r->trace->marks, r->trace->mark_count, r->mark_room);
    if (r->wrong == NULL) {
        r->trace->marks[r->trace->mark_count++] = *mark;
    }
}

static void add_count(struct trace_reader *r, uint32_t track, uint64_t time_ns, uint64_t value)
{
    GROW(r, r->trace->counts, r->trace->count_count, r->count_room);
    if (r->wrong == NULL) {
        r->trace->counts[r->trace->count_count++] = (struct trace_count){time_ns, value, track};
    }
}

static void end_slice(struct trace_reader *r, struct sequence *sequence, uint32_t track, uint64_t time)
{
    if (!sequence->is_open || sequence->open.track != track) {
        r->wrong = "an end without a begin right before it: not a trace of Gantry's";
        return;
    }
    if (time < sequence->open.begin_ns) {
        r->wrong = "a slice ends before it begins";
        return;
    }
    sequence->is_open = false;
    sequence->open.end_ns = time;
    if (r->trace->tracks[track].kind != TRACE_BLOCKS) {
        add_slice(r, &sequence->open);
        return;
    }
    r->trace->block_count++;
    if (r->block != NULL) {
        r->block(r->user, r->trace, &sequence->open, sequence->open_block);
    }
}

struct event {
    uint64_t type, name, category, count;
    uint32_t track;
    struct trace_details details;
};

static struct event read_event_fields(struct trace_reader *r, const struct sequence *sequence,
                                      struct span span)
{
    struct event event = {.track = sequence->track};
    struct field field;
    while (cli_next_field(&span, &field)) {
        switch (field.number) {
        case 3:
            event.category = field.value;
            break;
        case 4:
            read_argument(r, sequence, field.bytes, &event.details);
            break;
        case 9:
            event.type = field.value;
            break;
        case 10:
            event.name = field.value;
            break;
        case 11:
            event.track = track_of(r, field.value);
            break;
        case 30:
            event.count = field.value;
            break;
        case 47:
            add_flow(r, &event.details, field.value);
            break;
        default:
            break;
        }
    }
    return event;
}

static void read_event(struct trace_reader *r, struct sequence *sequence, uint64_t time, struct span span)
{
    struct event event = read_event_fields(r, sequence, span);
    if (event.track == 0 || r->wrong != NULL) {
        r->wrong = r->wrong != NULL ? r->wrong : "an event lies on no track";
        return;
    }
    if (event.type == EVENT_END) {
        end_slice(r, sequence, event.track, time);
        return;
    }
    if (event.type == EVENT_COUNT) {
        add_count(r, event.track, time, event.count);
        return;
    }
    struct trace_slice slice = {.begin_ns = time,
                                .end_ns = time,
                                .track = event.track,
                                .name = table_get(&sequence->events, event.name),
                                .category = table_get(&sequence->categories, event.category)};
    bool is_block = r->trace->tracks[event.track].kind == TRACE_BLOCKS;
    slice.details = is_block ? 0 : add_details(r, &event.details);
    if (event.type == EVENT_INSTANT) {
        add_mark(r, &slice);
    } else if (event.type == EVENT_BEGIN) {
        sequence->is_open = true;
        sequence->open = slice;
        sequence->open_block = (event.details.present >> TRACE_BLOCK & 1) != 0
                                   ? event.details.arguments[TRACE_BLOCK]
                                   : UINT64_MAX;
    }
}

/* ---- GPU tasks --------------------------------------------------------------------------------- */

static uint32_t add_lane(struct trace_reader *r, const struct queue *queue, uint32_t rank)
{
    uint32_t parent = 1;
    while (parent < r->trace->track_count && strcmp(r->trace->tracks[parent].name, queue->gpu) != 0) {
        parent++;
    }
    if (parent == r->trace->track_count) {
        struct trace_track gpu = {.name = queue->gpu, .parent = 1};
        parent = add_track(r, &gpu);
    }
    struct trace_track track = {
        .name = queue->name, .parent = parent, .rank = (int32_t)rank, .kind = TRACE_QUEUE};
    GROW(r, r->lanes, r->lane_count, r->lane_room);
    uint32_t number = add_track(r, &track);
    if (r->wrong != NULL) {
        return 0;
    }
    r->lanes[r->lane_count] = (struct lane){.track = number};
    return (uint32_t)r->lane_count++;
}

/* The first of the queue's tracks that is free at `begin_ns`; tasks of one queue come in the order of their
 * ends. */
static struct lane *lane_of(struct trace_reader *r, uint64_t queue_index, uint64_t begin_ns)
{
    struct queue *queue = &r->queues[queue_index];
    uint32_t last = 0;
    for (uint32_t i = queue->first_lane; i != 0; i = r->lanes[i].next) {
        if (r->lanes[i].end_ns <= begin_ns) {
            return &r->lanes[i];
        }
        last = i;
    }
    uint32_t added = add_lane(r, queue, (uint32_t)queue_index % 64);
    if (added == 0) {
        return NULL;
    }
    if (last != 0) {
        r->lanes[last].next = added;
    } else {
        queue->first_lane = added;
    }
    return &r->lanes[added];
}

static void read_stage(struct trace_reader *r, const struct sequence *sequence, uint64_t time,
                       struct span span)
{
    uint64_t duration = 0, queue = 0, stage = 0;
    struct trace_details details = {.present = 1u << TRACE_ID};
    struct field field;
    while (cli_next_field(&span, &field)) {
        duration = field.number == 2 ? field.value : duration;
        queue = field.number == 13 ? field.value : queue;
        stage = field.number == 14 ? field.value : stage;
        if (field.number == 6) {
            cli_read_stage_data(field.bytes, &details);
        }
    }
    if (queue - QUEUE_IIDS >= QUEUES || r->queues[queue - QUEUE_IIDS].name == NULL) {
        r->wrong = "a GPU task lies on no queue";
        return;
    }
    if (time + duration < time) {
        r->wrong = "a GPU task ends before it begins";
        return;
    }
    struct lane *lane = lane_of(r, queue - QUEUE_IIDS, time);
    if (lane == NULL) {
        return;
    }
    lane->end_ns = time + duration;
    struct trace_slice slice = {.begin_ns = time,
                                .end_ns = time + duration,
                                .track = lane->track,
                                .name = table_get(&sequence->stages, stage),
                                .category = r->gpu_category,
                                .details = add_details(r, &details)};
    add_slice(r, &slice);
}

/* ---- packets ----------------------------------------------------------------------------------- */

static bool read_packet_fields(struct span span, struct packet *p)
{
    struct field field;
    while (cli_next_field(&span, &field)) {
        switch (field.number) {
        case 6:
            p->snapshot = field.bytes;
            break;
        case 8:
            p->timestamp = field.value;
            break;
        case 10:
            p->sequence = field.value;
            break;
        case 11:
            p->event = field.bytes;
            break;
        case 12:
            p->interned = field.bytes;
            break;
        case 53:
            p->stage = field.bytes;
            break;
        case 59:
            p->defaults = field.bytes;
            break;
        case 60:
            p->track = field.bytes;
            break;
        default:
            break;
        }
    }
    return span.at != NULL;
}

static bool read_packet(void *user, struct span span)
{
    struct trace_reader *r = user;
    struct packet p = {0};
    struct sequence *sequence = read_packet_fields(span, &p) ? sequence_of(r, p.sequence) : NULL;
    if (sequence == NULL) {
        r->wrong = r->wrong != NULL ? r->wrong : "a packet that cannot be decoded";
        return false;
    }
    if (p.defaults.at != NULL) {
        read_defaults(r, sequence, p.defaults);
    }
    if (p.interned.at != NULL) {
        read_interned(r, sequence, p.interned);
    }
    if (p.snapshot.at != NULL) {
        read_snapshot(sequence, p.snapshot);
    }
    if (p.track.at != NULL) {
        read_track(r, p.track);
    }
    if ((p.event.at != NULL || p.stage.at != NULL) && r->wrong == NULL && !r->is_ours) {
        r->wrong = "another program wrote it";
    }
    if (p.event.at != NULL && r->wrong == NULL) {
        uint64_t time = p.timestamp;
        if (sequence->incremental) {
            time = sequence->now_ns += p.timestamp;
        }
        read_event(r, sequence, time, p.event);
    }
    if (p.stage.at != NULL && r->wrong == NULL) {
        read_stage(r, sequence, p.timestamp, p.stage);
    }
    return r->wrong == NULL;
}

/* ---- life -------------------------------------------------------------------------------------- */

/* The entries that exist before the file is read: the name "", no track, no details, no lane. */
static void begin(struct trace_reader *r, struct trace *out)
{
    static const char gpu[] = "gpu";
    (void)name_index(r, (struct span){(const uint8_t *)gpu, (const uint8_t *)gpu}); /* "" is the first */
    GROW(r, out->details, 0, r->detail_room);
    GROW(r, out->tracks, 0, r->track_room);
    GROW(r, r->lanes, 0, r->lane_room);
    r->lane_count = 1;
    if (r->wrong == NULL) {
        out->tracks[0].name = "";
        r->gpu_category = name_index(r, (struct span){(const uint8_t *)gpu, (const uint8_t *)gpu + 3});
    }
}

/* Our writer's last word is the mark "end". */
static void note_the_end(const char *path, struct trace *trace)
{
    bool ended = false;
    for (size_t i = 0; i < trace->mark_count && !ended; i++) {
        ended = strcmp(trace->names[trace->marks[i].name], "end") == 0 &&
                strcmp(trace->tracks[trace->marks[i].track].name, "recording") == 0;
    }
    trace->is_complete = ended && trace->cut_bytes == 0 && trace->unread_bytes == 0;
    if (trace->unread_bytes != 0) {
        cli_warning("%s: interrupted; this is about what was read, the last %.1f MB of the file are missing",
                    path, (double)trace->unread_bytes / 1e6);
        return;
    }
    if (!ended) {
        cli_warning("%s: the recording was not ended: its program was killed, or still runs; what was "
                    "recorded in the last second may be missing",
                    path);
    }
    if (trace->cut_bytes != 0) {
        cli_warning("%s: the file ends within a packet, %llu bytes are not read", path,
                    (unsigned long long)trace->cut_bytes);
    }
}

bool cli_trace_load(const char *path, trace_block_fn block, void *user, struct trace *out)
{
    *out = (struct trace){.detail_count = 1, .track_count = 1};
    struct trace_reader *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        cli_error("out of memory");
        return false;
    }
    r->trace = out;
    r->block = block;
    r->user = user;
    out->reader = r;
    begin(r, out);
    struct trace_rest rest = {0, 0};
    const char *wrong = r->wrong == NULL ? cli_trace_file_read(path, read_packet, r, &rest) : NULL;
    out->cut_bytes = rest.cut_bytes;
    out->unread_bytes = rest.unread_bytes;
    if (wrong == NULL && r->wrong == NULL && !r->is_ours && rest.unread_bytes == 0) {
        r->wrong = "another program wrote it";
    }
    wrong = r->wrong != NULL ? r->wrong : wrong;
    if (wrong != NULL) {
        cli_error("%s: %s%s", path, wrong == r->wrong && !r->is_ours ? "no Gantry recording: " : "", wrong);
        cli_trace_free(out);
        return false;
    }
    note_the_end(path, out);
    return true;
}

void cli_trace_free(struct trace *trace)
{
    struct trace_reader *r = trace->reader;
    for (size_t i = 0; i < r->sequence_count; i++) {
        free(r->sequences[i].events.at);
        free(r->sequences[i].categories.at);
        free(r->sequences[i].arguments.at);
        free(r->sequences[i].stages.at);
    }
    cli_names_free(&r->names);
    free(r->sequences);
    free(r->index);
    free(r->lanes);
    free(r);
    free(trace->tracks);
    free(trace->slices);
    free(trace->marks);
    free(trace->details);
    free(trace->flows);
    free(trace->counts);
}

bool cli_trace_is(const struct trace *trace, const struct trace_slice *slice, const char *category)
{
    return strcmp(trace->names[slice->category], category) == 0;
}

uint64_t cli_trace_argument(const struct trace *trace, const struct trace_slice *slice,
                            enum trace_argument argument, uint64_t otherwise)
{
    const struct trace_details *details = &trace->details[slice->details];
    return slice->details != 0 && (details->present >> argument & 1) != 0 ? details->arguments[argument]
                                                                          : otherwise;
}
