/* SPDX-License-Identifier: MIT */
#include "dispatcher/order/abroad.h"

#include "base/alloc.h"
#include "base/span.h"
#include "dispatcher/order/export.h"
#include "dispatcher/order/waits.h"

#include <stdio.h>
#include <string.h>

/* False: no memory; then it is waited for again next time. */
static bool find_room(struct gy_line *line, uint32_t devices)
{
    if (line->abroad == NULL) {
        line->abroad = gy_zalloc_array(devices, sizeof(*line->abroad));
        line->devices = line->abroad != NULL ? devices : 0;
    }
    return line->abroad != NULL;
}

void gy_abroad_copy(struct gy_line *to, const struct gy_line *from)
{
    if (to->abroad != NULL) {
        memset(to->abroad, 0, to->devices * sizeof(*to->abroad));
    }
    gy_abroad_merge(to, from);
}

static void learn(struct gy_line *line, uint32_t e, const uint64_t *known)
{
    for (uint32_t i = 0; i < GY_STREAMS_MAX; i++) {
        line->abroad[e][i] = line->abroad[e][i] < known[i] ? known[i] : line->abroad[e][i];
    }
}

void gy_abroad_merge(struct gy_line *to, const struct gy_line *from)
{
    for (uint32_t e = 0; e < from->devices && find_room(to, from->devices); e++) {
        learn(to, e, from->abroad[e]);
    }
}

/* Does the line come after everything that the task with `crossing` needs of device `e`? */
static bool is_known(const struct gy_line *line, const struct gy_crossing *crossing, uint32_t e)
{
    const struct gy_clock *clock = &crossing->of[e];
    for (uint64_t left = clock->streams; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        if (line->abroad == NULL || line->abroad[e][i] < clock->seq[i]) {
            return false;
        }
    }
    return true;
}

/* For recordings: which device the next task of the stream waits for. */
static void record_wait(struct gy_stream *stream, const struct gy_crossing *crossing,
                        const struct gy_export *export, uint64_t begin)
{
    char name[32];
    snprintf(name, sizeof(name), "after GPU %d", export->ordinal);
    stream->trace.after |= UINT64_C(1) << (export->ordinal & 63);
    gy_span_add_flow(export->flow);
    gy_span_add_flow(crossing->flow);
    gy_span_end(GY_SPAN_ACROSS, name, begin, export->stream);
}

gantry_status gy_abroad_wait(struct gy_streams *streams, uint32_t stream, const struct gy_crossing *crossing)
{
    struct gy_stream *own = &streams->streams[stream];
    struct gy_stream *on = own->state == GY_STREAM_MEMBER ? &streams->streams[streams->batch.home] : own;
    for (uint32_t e = 0; e < crossing->pool->devices; e++) {
        const struct gy_export *export = crossing->exports[e];
        if (export == NULL) {
            continue;
        }
        if (is_known(own->line, crossing, e) || is_known(&on->plain, crossing, e)) {
            gy_streams_count(&streams->counts.dropped);
            continue;
        }
        const uint64_t begin = gy_span_begin();
        const gantry_status status = gy_stream_await(streams, on, export->event.native);
        if (status != GANTRY_OK) {
            return status;
        }
        if (begin != 0) {
            record_wait(own, crossing, export, begin);
        }
        struct gy_line *const lines[] = {own->line, &on->plain};
        for (int i = 0; i < 2; i++) {
            if (find_room(lines[i], crossing->pool->devices)) {
                learn(lines[i], e, export->event.known);
            }
        }
    }
    return GANTRY_OK;
}
