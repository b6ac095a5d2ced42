/* SPDX-License-Identifier: MIT */
#include "tests/profile/trace_reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES 4096
#define DEPTH 8

#define SEQUENCES 16384

#define QUEUES 128
#define QUEUE_IIDS 65536 /* queues have larger numbers than stages */

enum { BEGIN = 1, END = 2, INSTANT = 3, COUNT = 4 };

struct event {
    uint64_t time;
    size_t order;
    uint64_t track, count;
    uint64_t flows[READ_FLOWS];
    size_t flow_count;
    int type;
    char name[160];
    char category[32];
    size_t argument_count;
    struct read_argument arguments[8];
};

/* The state of a sequence other than the first. */
struct sequence {
    uint64_t id, now_ns, default_track, default_clock;
    char names[256][64];
    char annotations[32][24];
};

/* The current packet, while its lines are read. */
struct packet {
    struct read_track track;
    struct event event;
    uint64_t clock_id, iid, name_iid, category_iid, argument_iids[8];
    uint64_t flags, snapshot_ns;
    uint64_t sequence;
    bool has_track, has_event, has_stage;
    uint64_t duration, queue, stage, context, event_id;
    int gpu;
};

struct reader {
    struct read_trace *trace;
    struct event *events;
    size_t event_count, event_room, track_room;
    char names[NAMES][160], categories[32][32], annotations[32][24];
    struct sequence *sequences[SEQUENCES];
    char stages[NAMES][160];
    struct read_track queues[QUEUES]; /* by the kinds that follow QUEUE_IIDS, modulo */
    uint64_t queue_iids[QUEUES], contexts, last_event;
    struct read_slice *tasks;
    size_t task_count, task_room;
    struct packet packet;
    const char *wrong;
    char path[256]; /* the path of the current field, "packet.track_event.type" */
};

bool reader_available(void)
{
    if (system("protoc --version > /dev/null 2>&1") == 0) {
        return true;
    }
    fprintf(stderr, "skipped: protoc (Debian: protobuf-compiler) is not installed\n");
    return false;
}

static void unescape(const char *from, char *to, size_t room)
{
    size_t n = 0;
    for (from++; *from != '\0' && *from != '"' && n + 1 < room;) {
        if (*from != '\\') {
            to[n++] = *from++;
        } else if (from[1] >= '0' && from[1] <= '7') {
            to[n++] = (char)strtol((char[]){from[1], from[2], from[3], 0}, NULL, 8);
            from += 4;
        } else {
            to[n++] = from[1] == 'n' ? '\n' : from[1];
            from += 2;
        }
    }
    to[n] = '\0';
}

static void track_field(struct reader *r, const char *field, const char *value)
{
    struct read_track *track = &r->packet.track;
    uint64_t number = strtoull(value, NULL, 10);
    r->packet.has_track = true;
    if (strcmp(field, "uuid") == 0) {
        track->uuid = number;
    } else if (strcmp(field, "parent_uuid") == 0) {
        track->parent = number;
    } else if (strcmp(field, "sibling_order_rank") == 0) {
        track->rank = (int)number;
    } else if (strcmp(field, "counter") == 0) {
        track->counter = true;
    } else if (strcmp(field, "name") == 0) {
        unescape(value, track->name, sizeof(track->name));
    } else if (strcmp(field, "process.process_name") == 0) {
        track->process = true;
        unescape(value, track->name, sizeof(track->name));
    } else if (strcmp(field, "thread.thread_name") == 0) {
        track->thread = true;
        unescape(value, track->name, sizeof(track->name));
    }
}

static void event_field(struct reader *r, const char *field, const char *value)
{
    struct packet *p = &r->packet;
    uint64_t number = strtoull(value, NULL, 10);
    p->has_event = true;
    if (strcmp(field, "type") == 0) {
        p->event.type = (int)number;
    } else if (strcmp(field, "track_uuid") == 0) {
        p->event.track = number;
    } else if (strcmp(field, "name_iid") == 0) {
        p->name_iid = number;
    } else if (strcmp(field, "category_iids") == 0) {
        p->category_iid = number;
    } else if (strcmp(field, "counter_value") == 0) {
        p->event.count = number;
    } else if (strcmp(field, "flow_ids") == 0) {
        r->wrong = p->event.flow_count == READ_FLOWS ? "too many flows" : r->wrong;
        p->event.flows[p->event.flow_count++ % READ_FLOWS] = number;
    } else if (strcmp(field, "debug_annotations.name_iid") == 0 && p->event.argument_count < 8) {
        p->argument_iids[p->event.argument_count] = number;
    } else if (strcmp(field, "debug_annotations.uint_value") == 0 && p->event.argument_count < 8) {
        p->event.arguments[p->event.argument_count++].value = number;
    } else {
        r->wrong = "too many arguments";
    }
}

static void stage_field(struct reader *r, const char *field, const char *value)
{
    struct packet *p = &r->packet;
    uint64_t number = strtoull(value, NULL, 10);
    p->has_stage = true;
    if (strcmp(field, "event_id") == 0) {
        p->event_id = number;
    } else if (strcmp(field, "duration") == 0) {
        p->duration = number;
    } else if (strcmp(field, "context") == 0) {
        p->context = number;
    } else if (strcmp(field, "gpu_id") == 0) {
        p->gpu = (int)number;
    } else if (strcmp(field, "hw_queue_iid") == 0) {
        p->queue = number;
    } else if (strcmp(field, "stage_iid") == 0) {
        p->stage = number;
    } else if (strcmp(field, "extra_data.value") == 0) {
        p->event.arguments[0].value = strtoull(value + 1, NULL, 10);
    }
}

/* A queue or a stage, which a packet declares by number and name. */
static void specification_field(struct reader *r, const char *field, const char *value)
{
    uint64_t iid = r->packet.iid;
    if (strcmp(field, "name") == 0 && iid > QUEUE_IIDS) {
        struct read_track *queue = &r->queues[iid % QUEUES];
        *queue = (struct read_track){.uuid = iid};
        unescape(value, queue->name, sizeof(queue->name));
        r->queue_iids[iid % QUEUES] = iid;
    } else if (strcmp(field, "name") == 0 && iid < NAMES) {
        unescape(value, r->stages[iid], sizeof(r->stages[0]));
    }
}

static struct sequence *sequence_of(struct reader *r)
{
    uint64_t id = r->packet.sequence;
    if (id <= 1) {
        return NULL;
    }
    struct sequence **sequence = &r->sequences[id % SEQUENCES];
    if (*sequence == NULL) {
        *sequence = calloc(1, sizeof(**sequence));
        (*sequence)->id = id;
        r->trace->sequences++;
    }
    r->wrong = (*sequence)->id == id ? r->wrong : "two sequences share a place of this reader";
    return *sequence;
}

static void interned_field(struct reader *r, const char *field, const char *value)
{
    struct sequence *own = sequence_of(r);
    uint64_t iid = r->packet.iid;
    if (strstr(field, ".iid") != NULL) {
        r->packet.iid = strtoull(value, NULL, 10);
    } else if (strncmp(field, "gpu_specifications.", 19) == 0) {
        specification_field(r, field + 19, value);
    } else if (strncmp(field, "graphics_contexts.", 18) == 0) {
        r->contexts |= UINT64_C(1) << iid % 64;
    } else if (strcmp(field, "event_names.name") == 0 && iid < (own != NULL ? 256 : NAMES)) {
        unescape(value, own != NULL ? own->names[iid] : r->names[iid],
                 own != NULL ? sizeof(own->names[0]) : sizeof(r->names[0]));
    } else if (strcmp(field, "event_categories.name") == 0 && iid < 32 && own == NULL) {
        unescape(value, r->categories[iid], sizeof(r->categories[0]));
    } else if (strcmp(field, "debug_annotation_names.name") == 0 && iid < 32) {
        unescape(value, own != NULL ? own->annotations[iid] : r->annotations[iid], sizeof(r->annotations[0]));
    } else {
        r->wrong = "an interned string out of range";
    }
}

static void snapshot_field(struct reader *r, const char *field, const char *value)
{
    uint64_t number = strtoull(value, NULL, 10);
    if (strcmp(field, "clocks.clock_id") == 0) {
        r->packet.clock_id = number;
    } else if (strcmp(field, "primary_trace_clock") == 0) {
        r->trace->primary_clock = (unsigned)number;
    } else if (strcmp(field, "clocks.timestamp") == 0 && r->packet.clock_id == 3) {
        r->packet.snapshot_ns = number;
    } else if (r->packet.clock_id == 1) {
        r->trace->realtime_ns = number;
    }
}

static void packet_field(struct reader *r, const char *field, const char *value)
{
    if (strncmp(field, "track_descriptor.", 17) == 0) {
        track_field(r, field + 17, value);
    } else if (strncmp(field, "track_event.", 12) == 0) {
        event_field(r, field + 12, value);
    } else if (strncmp(field, "gpu_render_stage_event.", 23) == 0) {
        stage_field(r, field + 23, value);
    } else if (strncmp(field, "interned_data.", 14) == 0) {
        interned_field(r, field + 14, value);
    } else if (strncmp(field, "clock_snapshot.", 15) == 0) {
        snapshot_field(r, field + 15, value);
    } else if (strcmp(field, "trace_packet_defaults.timestamp_clock_id") == 0) {
        struct sequence *own = sequence_of(r);
        if (own != NULL) {
            own->default_clock = strtoull(value, NULL, 10);
        } else {
            r->trace->default_clock = (unsigned)strtoul(value, NULL, 10);
        }
    } else if (strcmp(field, "trace_packet_defaults.track_event_defaults.track_uuid") == 0) {
        struct sequence *own = sequence_of(r);
        r->wrong = own != NULL ? r->wrong : "a default track of the first sequence";
        if (own != NULL) {
            own->default_track = strtoull(value, NULL, 10);
        }
    } else if (strcmp(field, "trusted_packet_sequence_id") == 0) {
        r->packet.sequence = strtoull(value, NULL, 10);
    } else if (strcmp(field, "timestamp") == 0) {
        r->packet.event.time = strtoull(value, NULL, 10);
    } else if (strcmp(field, "sequence_flags") == 0) {
        r->packet.flags = strtoull(value, NULL, 10);
        /* this comes before the packet's interned data */
        if (r->packet.flags == 1 && sequence_of(r) == NULL) {
            r->trace->resets++;
            memset(r->names, 0, sizeof(r->names));
            memset(r->stages, 0, sizeof(r->stages));
            memset(r->queue_iids, 0, sizeof(r->queue_iids));
            r->contexts = 0;
        }
    }
}

static void *grown(void *array, size_t count, size_t *room, size_t bytes)
{
    if (count < *room) {
        return array;
    }
    *room = *room == 0 ? 1024 : *room * 2;
    return realloc(array, *room * bytes);
}

/* The times, names and track of an event that lies on a sequence of its own. */
static void resolve_own(struct reader *r, struct sequence *own)
{
    struct packet *p = &r->packet;
    own->now_ns += p->event.time;
    p->event.time = own->now_ns;
    p->event.track = own->default_track;
    if (own->default_clock != 64 ||
        (p->event.type == BEGIN && (p->name_iid >= 256 || own->names[p->name_iid][0] == '\0'))) {
        r->wrong = "a sequence without its clock, or a slice without a known name";
        return;
    }
    memcpy(p->event.name, own->names[p->name_iid % 256], sizeof(own->names[0]));
}

static void resolve_first(struct reader *r)
{
    struct packet *p = &r->packet;
    if ((p->event.type == BEGIN || p->event.type == INSTANT) &&
        (p->name_iid >= NAMES || r->names[p->name_iid][0] == '\0' || p->category_iid >= 32 ||
         r->categories[p->category_iid][0] == '\0')) {
        r->wrong = "a slice without a known name or category";
        return;
    }
    memcpy(p->event.name, r->names[p->name_iid % NAMES], sizeof(p->event.name));
    memcpy(p->event.category, r->categories[p->category_iid % 32], sizeof(p->event.category));
}

static void end_event(struct reader *r)
{
    struct packet *p = &r->packet;
    struct sequence *own = sequence_of(r);
    if (p->flags != 2) {
        r->wrong = "an event that does not need its incremental state";
    }
    if (own != NULL) {
        resolve_own(r, own);
    } else {
        resolve_first(r);
    }
    for (size_t i = 0; i < p->event.argument_count; i++) {
        uint64_t iid = p->argument_iids[i] % 32;
        memcpy(p->event.arguments[i].name, own != NULL ? own->annotations[iid] : r->annotations[iid],
               sizeof(p->event.arguments[i].name));
        r->wrong = p->event.arguments[i].name[0] != '\0' ? r->wrong : "an annotation without a name";
    }
    p->event.order = r->event_count;
    r->events = grown(r->events, r->event_count, &r->event_room, sizeof(*r->events));
    r->events[r->event_count++] = p->event;
}

/* An event of a queue is already a slice. */
static void end_stage(struct reader *r)
{
    struct packet *p = &r->packet;
    if (p->flags != 2 || r->queue_iids[p->queue % QUEUES] != p->queue || p->stage >= NAMES ||
        r->stages[p->stage][0] == '\0' || (r->contexts >> p->context % 64 & 1) == 0 ||
        p->event_id <= r->last_event) {
        r->wrong = "an event of a queue, a stage or a context that is not declared";
        return;
    }
    r->last_event = p->event_id;
    r->tasks = grown(r->tasks, r->task_count, &r->task_room, sizeof(*r->tasks));
    struct read_slice *task = &r->tasks[r->task_count++];
    *task = (struct read_slice){.track = &r->queues[p->queue % QUEUES],
                                .category = "gpu",
                                .begin = p->event.time,
                                .end = p->event.time + p->duration,
                                .gpu = p->gpu,
                                .id = p->event.arguments[0].value};
    memcpy(task->name, r->stages[p->stage], sizeof(task->name));
}

static void end_packet(struct reader *r)
{
    struct packet *p = &r->packet;
    if (p->has_track) {
        r->trace->tracks =
            grown(r->trace->tracks, r->trace->track_count, &r->track_room, sizeof(*r->trace->tracks));
        r->trace->tracks[r->trace->track_count++] = p->track;
    }
    if (p->snapshot_ns != 0 && sequence_of(r) != NULL) {
        sequence_of(r)->now_ns = p->snapshot_ns;
    } else if (p->snapshot_ns != 0) {
        r->trace->monotonic_ns = p->snapshot_ns;
    }
    if (p->has_event) {
        end_event(r);
    }
    if (p->has_stage) {
        end_stage(r);
    }
    memset(p, 0, sizeof(*p));
}

/* One line of protoc's text: "field {", "}", "field: value". */
static void line(struct reader *r, char *text)
{
    text += strspn(text, " ");
    text[strcspn(text, "\n")] = '\0';
    size_t used = strlen(r->path);
    char *colon = strstr(text, ": ");
    if (strcmp(text, "}") == 0) {
        if (strcmp(r->path, "packet") == 0) {
            end_packet(r);
        }
        char *dot = strrchr(r->path, '.');
        *(dot != NULL ? dot : r->path) = '\0';
    } else if (text[0] >= '0' && text[0] <= '9') {
        r->wrong = "a field that the schema does not know";
    } else if (colon == NULL) {
        text[strcspn(text, " ")] = '\0';
        if (strcmp(r->path, "packet.track_descriptor") == 0) {
            track_field(r, text, "0"); /* "counter {" has nothing in it */
        }
        snprintf(r->path + used, sizeof(r->path) - used, "%s%s", used != 0 ? "." : "", text);
    } else {
        *colon = '\0';
        char field[512];
        snprintf(field, sizeof(field), "%s.%s", r->path, text);
        packet_field(r, field + strlen("packet."), colon + 2);
    }
}

static int by_time(const void *left, const void *right)
{
    const struct event *a = left, *b = right;
    if (a->time != b->time) {
        return a->time < b->time ? -1 : 1;
    }
    return a->order < b->order ? -1 : 1;
}

static struct read_track *track_of(struct read_trace *trace, uint64_t uuid)
{
    for (size_t i = 0; i < trace->track_count; i++) {
        if (trace->tracks[i].uuid == uuid) {
            return &trace->tracks[i];
        }
    }
    return NULL;
}

static struct read_slice slice_of(const struct event *begin, const struct read_track *track)
{
    struct read_slice slice = {.track = track,
                               .begin = begin->time,
                               .flow_count = begin->flow_count,
                               .argument_count = begin->argument_count};
    memcpy(slice.flows, begin->flows, sizeof(slice.flows));
    memcpy(slice.arguments, begin->arguments, sizeof(slice.arguments));
    slice.id = reader_argument(&slice, "id");
    memcpy(slice.name, begin->name, sizeof(slice.name));
    memcpy(slice.category, begin->category, sizeof(slice.category));
    return slice;
}

/* Close the innermost open slice of the end's track, as a viewer does. */
static const char *close_slice(struct reader *r, const struct event *end, struct event **open, size_t *depth,
                               struct read_track *track)
{
    size_t index = (size_t)(track - r->trace->tracks);
    if (depth[index] == 0) {
        return "an end without a begin";
    }
    struct read_slice *slice = &r->trace->slices[r->trace->slice_count++];
    *slice = slice_of(&open[index][--depth[index]], track);
    slice->end = end->time;
    return NULL;
}

static const char *replay(struct reader *r)
{
    const char *wrong = NULL;
    size_t tracks = r->trace->track_count;
    struct event **open = calloc(tracks + 1, sizeof(*open));
    size_t *depth = calloc(tracks + 1, sizeof(*depth)), *room = calloc(tracks + 1, sizeof(*room));
    size_t queues = 0;
    r->trace->slices = calloc(r->event_count + r->task_count + 1, sizeof(*r->trace->slices));
    r->trace->tracks = realloc(r->trace->tracks, (tracks + QUEUES + 1) * sizeof(*r->trace->tracks));
    for (size_t i = 0; i < r->task_count; i++) { /* each queue becomes a track, behind the others */
        struct read_slice *task = &r->trace->slices[i];
        *task = r->tasks[i];
        size_t q = 0;
        while (q < queues && r->trace->tracks[tracks + q].uuid != task->track->uuid) {
            q++;
        }
        r->trace->tracks[tracks + q] = *task->track;
        queues = q == queues ? queues + 1 : queues;
        task->track = &r->trace->tracks[tracks + q];
    }
    r->trace->slice_count = r->task_count;
    r->trace->track_count += queues;
    r->trace->marks = calloc(r->event_count + 1, sizeof(*r->trace->marks));
    r->trace->counts = calloc(r->event_count + 1, sizeof(*r->trace->counts));
    if (r->event_count != 0) {
        qsort(r->events, r->event_count, sizeof(*r->events), by_time);
    }
    for (size_t i = 0; i < r->event_count && wrong == NULL; i++) {
        const struct event *event = &r->events[i];
        struct read_track *track = track_of(r->trace, event->track);
        if (track == NULL) {
            wrong = "an event on an unknown track";
        } else if (event->type == END) {
            wrong = close_slice(r, event, open, depth, track);
        } else if (event->type == INSTANT) {
            r->trace->marks[r->trace->mark_count] = slice_of(event, track);
            r->trace->marks[r->trace->mark_count++].end = event->time;
        } else if (event->type == COUNT) {
            wrong = track->counter ? NULL : "a count that is not on a counter";
            r->trace->counts[r->trace->count_count++] =
                (struct read_count){.track = track, .time = event->time, .value = event->count};
        } else {
            size_t index = (size_t)(track - r->trace->tracks);
            open[index] = grown(open[index], depth[index], &room[index], sizeof(**open));
            open[index][depth[index]++] = *event;
        }
    }
    for (size_t i = 0; i < tracks; i++) {
        if (wrong == NULL && depth[i] != 0) {
            wrong = "a slice that never ends";
        }
        free(open[i]);
    }
    free(open);
    free(depth);
    free(room);
    return wrong;
}

const char *reader_load(const char *path, struct read_trace *out)
{
    *out = (struct read_trace){0};
    struct reader *r = calloc(1, sizeof(*r));
    r->trace = out;
    char command[1024];
    snprintf(command, sizeof(command), "protoc -I '%s' --decode=subset.Trace perfetto_subset.proto < '%s'",
             TRACE_SCHEMA_DIR, path);
    FILE *text = popen(command, "r");
    char buffer[1024];
    while (text != NULL && fgets(buffer, sizeof(buffer), text) != NULL) {
        line(r, buffer);
    }
    if (text == NULL || pclose(text) != 0) {
        r->wrong = "protoc cannot decode the file";
    }
    const char *wrong = r->wrong != NULL ? r->wrong : replay(r);
    for (size_t i = 0; i < SEQUENCES; i++) {
        free(r->sequences[i]);
    }
    free(r->events);
    free(r->tasks);
    free(r);
    return wrong;
}

uint64_t reader_argument(const struct read_slice *slice, const char *name)
{
    for (size_t i = 0; i < slice->argument_count; i++) {
        if (strcmp(slice->arguments[i].name, name) == 0) {
            return slice->arguments[i].value;
        }
    }
    return UINT64_MAX;
}

const struct read_slice *reader_mark(const struct read_trace *trace, const char *name)
{
    const struct read_slice *found = NULL;
    for (size_t i = 0; i < trace->mark_count; i++) {
        found = strcmp(trace->marks[i].name, name) == 0 ? &trace->marks[i] : found;
    }
    return found;
}

bool reader_joined(const struct read_slice *a, const struct read_slice *b)
{
    for (size_t i = 0; i < a->flow_count; i++) {
        for (size_t j = 0; j < b->flow_count; j++) {
            if (a->flows[i] == b->flows[j]) {
                return true;
            }
        }
    }
    return false;
}

void reader_free(struct read_trace *trace)
{
    free(trace->tracks);
    free(trace->slices);
    free(trace->counts);
    free(trace->marks);
    *trace = (struct read_trace){0};
}

const struct read_track *reader_track(const struct read_trace *trace, const char *parent, const char *name)
{
    for (size_t i = 0; i < trace->track_count; i++) {
        const struct read_track *track = &trace->tracks[i];
        const struct read_track *above = track_of((struct read_trace *)trace, track->parent);
        if (strcmp(track->name, name) == 0 &&
            (parent == NULL || (above != NULL && strcmp(above->name, parent) == 0))) {
            return track;
        }
    }
    return NULL;
}
