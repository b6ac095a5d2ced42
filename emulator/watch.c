/* SPDX-License-Identifier: MIT */
/* Each stream has a number: of the operations that the thread has enqueued on it.  For each other stream, it
 * also has the number of that stream's operations that it comes after.  An event has the numbers that its
 * stream had when it was recorded. */
#include "emulator/watch.h"

#include <string.h>

#define STREAMS 16
#define EVENTS 64
#define HOST 0 /* the operations that the host knows to be done, in the place of a stream */

/* The number of operations of each stream after which something comes. */
struct past {
    uint32_t counts[STREAMS];
};

struct gy_emu_watch {
    uint32_t streams, events;
    bool blind; /* there are too many streams or events, or they are ordered in other ways */
    uint64_t ids[STREAMS];
    CUstream handles[STREAMS];
    struct past pasts[STREAMS];
    const void *event[EVENTS];
    struct past event_pasts[EVENTS];
};

_Thread_local struct gy_emu_watch *gy_emu_watch;
static _Thread_local struct gy_emu_watch own;

static uint32_t find(struct gy_emu_watch *w, const struct gy_emu_stream *stream)
{
    for (uint32_t i = HOST + 1; i < w->streams; i++) {
        if (w->ids[i] == stream->id) {
            return i;
        }
    }
    if (w->streams == STREAMS) {
        w->blind = true;
        return STREAMS - 1;
    }
    w->ids[w->streams] = stream->id;
    w->handles[w->streams] = (CUstream)stream->object.handle;
    return w->streams++;
}

static void merge(struct past *into, const struct past *from)
{
    for (uint32_t i = 0; i < STREAMS; i++) {
        into->counts[i] = into->counts[i] < from->counts[i] ? from->counts[i] : into->counts[i];
    }
}

static struct past *find_event(struct gy_emu_watch *w, const void *event)
{
    for (uint32_t i = 0; i < w->events; i++) {
        if (w->event[i] == event) {
            return &w->event_pasts[i];
        }
    }
    return NULL;
}

void gy_emu_watch_see_work(const struct gy_emu_stream *stream, const struct gy_emu_work *work)
{
    const enum gy_emu_work_kind kind = work->kind;
    struct gy_emu_watch *w = gy_emu_watch;
    uint32_t at = find(w, stream);
    w->blind |= kind == GY_EMU_WORK_WAIT_VALUE || kind == GY_EMU_WORK_WAIT_SEMAPHORE ||
                (kind == GY_EMU_WORK_GRAPH && work->graph.marks != NULL);
    if (kind == GY_EMU_WORK_KERNEL || kind == GY_EMU_WORK_COPY || kind == GY_EMU_WORK_COPY_ROWS ||
        kind == GY_EMU_WORK_FILL || kind == GY_EMU_WORK_HOST || kind == GY_EMU_WORK_WRITE_VALUE ||
        kind == GY_EMU_WORK_SIGNAL_SEMAPHORE || kind == GY_EMU_WORK_GRAPH) {
        w->pasts[at].counts[at]++;
    }
}

void gy_emu_watch_see_record(const struct gy_emu_stream *stream, const void *event)
{
    struct gy_emu_watch *w = gy_emu_watch;
    struct past *past = find_event(w, event);
    if (past == NULL && w->events == EVENTS) {
        w->blind = true;
        return;
    }
    if (past == NULL) {
        w->event[w->events] = event;
        past = &w->event_pasts[w->events++];
    }
    *past = w->pasts[find(w, stream)];
}

void gy_emu_watch_see_wait(const struct gy_emu_stream *stream, const void *event)
{
    const struct past *past = find_event(gy_emu_watch, event);
    if (past != NULL) { /* else it was recorded before, and nothing that is watched comes before it */
        merge(&gy_emu_watch->pasts[find(gy_emu_watch, stream)], past);
    }
}

void gy_emu_watch_see_join(const struct gy_emu_stream *later, const struct gy_emu_stream *earlier)
{
    struct gy_emu_watch *w = gy_emu_watch;
    uint32_t from = find(w, earlier);
    merge(&w->pasts[find(w, later)], &w->pasts[from]);
}

void gy_emu_watch_see_done(const struct gy_emu_stream *stream)
{
    struct gy_emu_watch *w = gy_emu_watch;
    merge(&w->pasts[HOST], &w->pasts[find(w, stream)]);
}

void gy_emu_watch_see_event_done(const void *event)
{
    const struct past *past = find_event(gy_emu_watch, event);
    if (past != NULL) {
        merge(&gy_emu_watch->pasts[HOST], past);
    }
}

void gy_emu_watch_see_all_done(void)
{
    struct gy_emu_watch *w = gy_emu_watch;
    for (uint32_t i = HOST + 1; i < w->streams; i++) {
        merge(&w->pasts[HOST], &w->pasts[i]);
    }
}

void gy_emu_watch_begin(void)
{
    memset(&own, 0, sizeof(own));
    own.streams = HOST + 1;
    gy_emu_watch = &own;
}

uint32_t gy_emu_watch_end(const struct gy_emu_stream *stream, CUstream *other)
{
    struct gy_emu_watch *w = gy_emu_watch;
    uint32_t left = 0;
    gy_emu_watch = NULL;
    if (w == NULL || stream == NULL) {
        return 0;
    }
    const uint32_t own_stream = find(w, stream);
    struct past known = w->pasts[own_stream];
    merge(&known, &w->pasts[HOST]);
    for (uint32_t i = HOST + 1; i < w->streams && !w->blind; i++) {
        if (i != own_stream && w->pasts[i].counts[i] > known.counts[i]) {
            left += w->pasts[i].counts[i] - known.counts[i];
            *other = w->handles[i];
        }
    }
    return left;
}
