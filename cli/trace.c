/* Reads back what profile/pftrace.c writes: not any trace, but every trace of ours.
 *
 * Our writer puts the end of a slice right behind its begin on the same track, and gives tracks small
 * numbers; the reader relies on both and says so when a file is different. */
#include "cli/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_TRACKS (1u << 20)
#define MOST_NAMES (1u << 20)
#define MOST_SEQUENCES (1u << 20)

/* Numbers of strings on one sequence, as indices into trace.names. */
struct table {
    uint32_t *at;
    size_t room;
};

struct sequence {
    uint64_t now_ns;
    uint32_t track;
    bool incremental;
    struct table events, categories, arguments;
};

struct trace_reader {
    struct trace *trace;
    const char *path;
    const uint8_t *data;
    size_t bytes;
    struct sequence *sequences;
    size_t sequence_count;
    size_t track_room, slice_room, detail_room, count_room, name_room;
    size_t *open; /* by track: its latest slice + 1 */
    size_t open_room;
    uint32_t *hash; /* of names: index; 0: empty */
    size_t hash_room;
    char **owned; /* the names' memory */
    size_t owned_count, owned_room;
    const char *wrong;
};

struct span {
    const uint8_t *at, *end;
};

struct field {
    uint32_t number;
    uint64_t value;
    struct span bytes;
};

/* ---- the wire ---------------------------------------------------------------------------------- */

static bool read_varint(struct span *span, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && span->at < span->end; shift += 7) {
        uint8_t byte = *span->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = value;
            return true;
        }
    }
    return false;
}

/* The next field; false at the end, or when the rest makes no sense (span->at is NULL then). */
static bool next_field(struct span *span, struct field *field)
{
    uint64_t key, length;
    if (span->at == NULL || span->at >= span->end) {
        return false;
    }
    if (!read_varint(span, &key)) {
        span->at = NULL;
        return false;
    }
    field->number = (uint32_t)(key >> 3);
    field->bytes = (struct span){NULL, NULL};
    field->value = 0;
    size_t left = (size_t)(span->end - span->at);
    switch (key & 7) {
    case 0:
        if (read_varint(span, &field->value)) {
            return true;
        }
        break;
    case 1:
        if (left >= 8) {
            for (unsigned i = 0; i < 8; i++) {
                field->value |= (uint64_t)span->at[i] << 8 * i;
            }
            span->at += 8;
            return true;
        }
        break;
    case 2:
        if (read_varint(span, &length) && length <= (uint64_t)(span->end - span->at)) {
            field->bytes = (struct span){span->at, span->at + length};
            span->at += length;
            return true;
        }
        break;
    default:
        break;
    }
    span->at = NULL;
    return false;
}

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

static uint64_t hash_of(const char *text, size_t bytes)
{
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
    }
    return hash;
}

static void rehash(struct trace_reader *r)
{
    size_t room = r->hash_room == 0 ? 1024 : r->hash_room * 2;
    uint32_t *hash = calloc(room, sizeof(*hash));
    if (hash == NULL) {
        r->wrong = "out of memory";
        return;
    }
    for (uint32_t i = 1; i < r->trace->name_count; i++) {
        const char *name = r->trace->names[i];
        size_t slot = hash_of(name, strlen(name)) & (room - 1);
        while (hash[slot] != 0) {
            slot = (slot + 1) & (room - 1);
        }
        hash[slot] = i;
    }
    free(r->hash);
    r->hash = hash;
    r->hash_room = room;
}

/* The index of a name among all of the trace. */
static uint32_t name_index(struct trace_reader *r, struct span text)
{
    struct trace *trace = r->trace;
    size_t bytes = (size_t)(text.end - text.at);
    if (trace->name_count * 2 >= r->hash_room) {
        rehash(r);
    }
    GROW(r, trace->names, trace->name_count, r->name_room);
    GROW(r, r->owned, r->owned_count, r->owned_room);
    if (r->wrong != NULL || trace->name_count == MOST_NAMES) {
        r->wrong = r->wrong != NULL ? r->wrong : "too many names";
        return 0;
    }
    size_t slot = hash_of((const char *)text.at, bytes) & (r->hash_room - 1);
    for (; r->hash[slot] != 0; slot = (slot + 1) & (r->hash_room - 1)) {
        const char *name = trace->names[r->hash[slot]];
        if (strncmp(name, (const char *)text.at, bytes) == 0 && name[bytes] == '\0') {
            return r->hash[slot];
        }
    }
    char *name = strndup((const char *)text.at, bytes);
    if (name == NULL) {
        r->wrong = "out of memory";
        return 0;
    }
    r->owned[r->owned_count++] = name;
    trace->names[trace->name_count] = name;
    r->hash[slot] = (uint32_t)trace->name_count;
    return (uint32_t)trace->name_count++;
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

/* ---- packets ----------------------------------------------------------------------------------- */

struct packet {
    uint64_t timestamp, sequence;
    struct span event, interned, track, defaults, snapshot;
};

static struct sequence *sequence_of(struct trace_reader *r, uint64_t id)
{
    if (id >= MOST_SEQUENCES) {
        r->wrong = "too many sequences";
        return NULL;
    }
    GROW(r, r->sequences, (size_t)id, r->sequence_count);
    return r->wrong == NULL ? &r->sequences[id] : NULL;
}

static void read_interned(struct trace_reader *r, struct sequence *sequence, struct span span)
{
    struct field list, field;
    while (next_field(&span, &list)) {
        uint64_t iid = 0;
        struct span text = {(const uint8_t *)"", (const uint8_t *)""};
        struct span entry = list.bytes;
        while (next_field(&entry, &field)) {
            iid = field.number == 1 ? field.value : iid;
            text = field.number == 2 ? field.bytes : text;
        }
        struct table *table = list.number == 1   ? &sequence->categories
                              : list.number == 2 ? &sequence->events
                              : list.number == 3 ? &sequence->arguments
                                                 : NULL;
        if (table != NULL) {
            table_set(r, table, iid, name_index(r, text));
        }
    }
}

static void read_defaults(struct trace_reader *r, struct sequence *sequence, struct span span)
{
    struct field field, inner;
    while (next_field(&span, &field)) {
        if (field.number == 58) {
            sequence->incremental = field.value == 64;
        } else if (field.number == 11) {
            while (next_field(&field.bytes, &inner)) {
                sequence->track = inner.number == 11 ? (uint32_t)inner.value : sequence->track;
            }
            if (sequence->track < r->trace->track_count) {
                r->trace->tracks[sequence->track].is_block = true;
            }
        }
    }
}

static void read_snapshot(struct sequence *sequence, struct span span)
{
    struct field field, inner;
    while (next_field(&span, &field)) {
        uint64_t id = 0, time = 0;
        while (field.number == 1 && next_field(&field.bytes, &inner)) {
            id = inner.number == 1 ? inner.value : id;
            time = inner.number == 2 ? inner.value : time;
        }
        sequence->now_ns = id == 3 ? time : sequence->now_ns;
    }
}

static void read_track(struct trace_reader *r, struct span span)
{
    struct trace_track track = {.name = ""};
    uint64_t uuid = 0;
    struct field field, inner;
    while (next_field(&span, &field)) {
        if (field.number == 1) {
            uuid = field.value;
        } else if (field.number == 5) {
            track.parent = (uint32_t)field.value;
        } else if (field.number == 12) {
            track.rank = (int32_t)field.value;
        } else if (field.number == 2) {
            track.name = r->trace->names[name_index(r, field.bytes)];
        } else if (field.number == 8) {
            track.is_counter = true;
        } else if (field.number == 3 || field.number == 4) {
            track.is_thread = field.number == 4;
            while (next_field(&field.bytes, &inner)) {
                if (inner.number == (field.number == 3 ? 6u : 5u)) {
                    track.name = r->trace->names[name_index(r, inner.bytes)];
                }
            }
        }
    }
    if (uuid == 0 || uuid >= MOST_TRACKS || track.parent >= MOST_TRACKS) {
        r->wrong = "a track's number is not one of ours";
        return;
    }
    GROW(r, r->trace->tracks, (size_t)uuid, r->track_room);
    if (r->wrong == NULL) {
        r->trace->tracks[uuid] = track;
        r->trace->track_count = uuid >= r->trace->track_count ? (size_t)uuid + 1 : r->trace->track_count;
    }
}

static enum trace_argument argument_called(const char *name)
{
    static const char *const names[TRACE_ARGUMENTS] = {[TRACE_ID] = "id",
                                                       [TRACE_STREAM] = "stream",
                                                       [TRACE_CTAS] = "ctas",
                                                       [TRACE_LOST] = "lost",
                                                       [TRACE_ALIGNMENT] = "alignment_ns",
                                                       [TRACE_TICK] = "tick_ns",
                                                       [TRACE_SHIFT] = "shift_ns",
                                                       [TRACE_BLOCK] = "block",
                                                       [TRACE_BATCH] = "batch"};
    enum trace_argument a = TRACE_ID;
    while (a < TRACE_ARGUMENTS && strcmp(names[a], name) != 0) {
        a++;
    }
    return a;
}

static void read_argument(struct trace_reader *r, const struct sequence *sequence, struct span span,
                          struct trace_details *details)
{
    uint64_t iid = 0, value = 0;
    struct field field;
    while (next_field(&span, &field)) {
        iid = field.number == 1 ? field.value : iid;
        value = field.number == 3 ? field.value : value;
    }
    enum trace_argument a = argument_called(r->trace->names[table_get(&sequence->arguments, iid)]);
    if (a < TRACE_ARGUMENTS) {
        details->arguments[a] = value;
        details->present |= 1u << a;
    }
}

static uint32_t add_details(struct trace_reader *r, const struct trace_details *details)
{
    struct trace *trace = r->trace;
    if (details->present == 0 && details->flow == 0) {
        return 0;
    }
    GROW(r, trace->details, trace->detail_count, r->detail_room);
    if (r->wrong != NULL || trace->detail_count > UINT32_MAX - 1) {
        return 0;
    }
    trace->details[trace->detail_count] = *details;
    return (uint32_t)trace->detail_count++;
}

static void read_event(struct trace_reader *r, const struct sequence *sequence, uint64_t time,
                       struct span span)
{
    struct trace *trace = r->trace;
    struct trace_details details = {0};
    uint64_t type = 0, track = sequence->track, name = 0, category = 0, count = 0;
    struct field field;
    while (next_field(&span, &field)) {
        switch (field.number) {
        case 3:
            category = field.value;
            break;
        case 4:
            read_argument(r, sequence, field.bytes, &details);
            break;
        case 9:
            type = field.value;
            break;
        case 10:
            name = field.value;
            break;
        case 11:
            track = field.value;
            break;
        case 30:
            count = field.value;
            break;
        case 47:
            details.flow = field.value;
            break;
        default:
            break;
        }
    }
    if (track == 0 || track >= trace->track_count) {
        r->wrong = "an event lies on no track";
        return;
    }
    GROW(r, r->open, (size_t)track, r->open_room);
    GROW(r, trace->slices, trace->slice_count, r->slice_room);
    GROW(r, trace->counts, trace->count_count, r->count_room);
    if (r->wrong != NULL) {
        return;
    }
    if (type == 1) {
        trace->slices[trace->slice_count++] =
            (struct trace_slice){.begin_ns = time,
                                 .track = (uint32_t)track,
                                 .name = table_get(&sequence->events, name),
                                 .details = add_details(r, &details),
                                 .category = table_get(&sequence->categories, category)};
        r->open[track] = trace->slice_count;
    } else if (type == 2 && r->open[track] != 0) {
        trace->slices[r->open[track] - 1].end_ns = time;
        r->open[track] = 0;
    } else if (type == 2) {
        r->wrong = "an end without a begin right before it: not a trace of Gantry's";
    } else if (type == 4) {
        trace->counts[trace->count_count++] = (struct trace_count){time, count, (uint32_t)track};
    }
}

static void read_packet(struct trace_reader *r, struct span span)
{
    struct packet p = {0};
    struct field field;
    while (next_field(&span, &field)) {
        switch (field.number) {
        case 6:
            p.snapshot = field.bytes;
            break;
        case 8:
            p.timestamp = field.value;
            break;
        case 10:
            p.sequence = field.value;
            break;
        case 11:
            p.event = field.bytes;
            break;
        case 12:
            p.interned = field.bytes;
            break;
        case 59:
            p.defaults = field.bytes;
            break;
        case 60:
            p.track = field.bytes;
            break;
        default:
            break;
        }
    }
    struct sequence *sequence = span.at != NULL ? sequence_of(r, p.sequence) : NULL;
    if (sequence == NULL) {
        r->wrong = r->wrong != NULL ? r->wrong : "a packet that cannot be decoded";
        return;
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
    if (p.event.at != NULL && r->wrong == NULL) {
        uint64_t time = p.timestamp;
        if (sequence->incremental) {
            time = sequence->now_ns += p.timestamp;
        }
        read_event(r, sequence, time, p.event);
    }
}

/* ---- files ------------------------------------------------------------------------------------- */

static bool map_file(struct trace_reader *r)
{
    int fd = open(r->path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0 || info.st_size == 0) {
        fprintf(stderr, "gantry: %s: %s\n", r->path, fd >= 0 && errno == 0 ? "empty" : strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return false;
    }
    r->bytes = (size_t)info.st_size;
    void *data = mmap(NULL, r->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (data == MAP_FAILED) {
        fprintf(stderr, "gantry: %s: %s\n", r->path, strerror(errno));
        return false;
    }
    r->data = data;
    return true;
}

bool cli_trace_load(const char *path, struct trace *out)
{
    *out = (struct trace){.name_count = 1, .detail_count = 1};
    struct trace_reader *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        fprintf(stderr, "gantry: out of memory\n");
        return false;
    }
    r->trace = out;
    r->path = path;
    out->reader = r;
    errno = 0;
    if (!map_file(r)) {
        cli_trace_free(out);
        return false;
    }
    GROW(r, out->names, 1, r->name_room);
    GROW(r, out->details, 1, r->detail_room);
    if (r->wrong == NULL) {
        out->names[0] = "";
    }
    struct span file = {r->data, r->data + r->bytes};
    struct field field;
    while (r->wrong == NULL && next_field(&file, &field)) {
        if (field.number != 1 || field.bytes.at == NULL) {
            r->wrong = "not a Perfetto trace";
        } else {
            read_packet(r, field.bytes);
        }
    }
    if (file.at == NULL && r->wrong == NULL) {
        r->wrong = "the file ends within a packet";
    }
    if (r->wrong != NULL) {
        fprintf(stderr, "gantry: %s: %s\n", path, r->wrong);
        cli_trace_free(out);
        return false;
    }
    for (size_t i = 0; i < out->track_count; i++) {
        out->tracks[i].name = out->tracks[i].name != NULL ? out->tracks[i].name : "";
    }
    return true;
}

void cli_trace_free(struct trace *trace)
{
    struct trace_reader *r = trace->reader;
    for (size_t i = 0; i < r->sequence_count; i++) {
        free(r->sequences[i].events.at);
        free(r->sequences[i].categories.at);
        free(r->sequences[i].arguments.at);
    }
    for (size_t i = 0; i < r->owned_count; i++) {
        free(r->owned[i]);
    }
    if (r->data != NULL) {
        munmap((void *)(uintptr_t)r->data, r->bytes);
    }
    free(r->sequences);
    free(r->owned);
    free(r->open);
    free(r->hash);
    free(r);
    free(trace->tracks);
    free(trace->slices);
    free(trace->details);
    free(trace->counts);
    free(trace->names);
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
