/* SPDX-License-Identifier: MIT */
/* Tasks that wait until the GPU has done something: gantry_task_start_after_done(). */
#include "dispatcher/done/when_done.h"

#include "base/span.h"
#include "dispatcher/call/capture.h"
#include "dispatcher/loop/current.h"
#include "dispatcher/submit/round.h"

#include <assert.h>

/* Returns the streams with timeline points in `clock` (NULL: all streams) that the host has not seen pass
 * these. */
static uint64_t streams_ahead(const struct gantry_dispatcher *d, const struct gy_clock *clock)
{
    uint64_t ahead = 0;
    for (uint32_t i = 0; i < d->streams.count; i++) {
        const struct gy_stream *s = &d->streams.streams[i];
        bool is_meant = clock == NULL || (clock->streams >> i & 1u) != 0;
        uint64_t seq = clock == NULL ? s->tail : clock->seq[i];
        if (is_meant && atomic_load_explicit(&s->completed, memory_order_acquire) < seq) {
            ahead |= UINT64_C(1) << i;
        }
    }
    return ahead;
}

/* We give our reference on `task` back when the GPU has passed the work on `stream`. */
static void complete(struct gantry_dispatcher *d, uint32_t stream, gantry_task *task, uint64_t flow)
{
    gantry_status status = GANTRY_OK;
    if (gy_rings_is_full(&d->completion, stream)) {
        status = gy_capture_cut(d); /* it will be flushed, which needs events behind the graph */
    }
    if (status == GANTRY_OK) {
        status = gy_rings_add(&d->completion, stream, task, flow);
    }
    if (status == GANTRY_OK) {
        gy_gd_count(&d->counters.completions, 1);
    } else {
        gy_task_remove_reference_failed(task, status);
    }
}

bool gy_when_done(struct gantry_dispatcher *d, const gantry_task *predecessor, uint64_t wait_set,
                  gantry_task *successor)
{
    assert(gy_gd_current == d);
    struct gy_clock room;
    uint64_t ahead = streams_ahead(d, gy_wait_set_read(wait_set, &room));
    if (ahead == 0) {
        return false;
    }
    uint64_t flow = gy_span_on() ? gy_task_flow(predecessor) : 0;
    for (uint64_t more = ahead & (ahead - 1); more != 0; more &= more - 1) {
        gantry_status status = gantry_task_add_reference(successor);
        assert(status == GANTRY_OK && "a task that is held can be held once more");
        (void)status;
    }
    for (; ahead != 0; ahead &= ahead - 1) {
        complete(d, (uint32_t)__builtin_ctzll(ahead), successor, flow);
    }
    return true;
}

void gy_gd_note_ends(struct gantry_dispatcher *d, const struct gy_round *round, uint32_t stream)
{
    struct gy_stream *s = &d->streams.streams[stream];
    if (s->running != 0 || round->recording != NULL) {
        return;
    }
    const bool may_note = s->state != GY_STREAM_MEMBER || gy_ends_are_told(&d->graphs.ends);
    s->dependents.told = !may_note                      ? 0
                         : s->state == GY_STREAM_MEMBER ? gy_rings_note(&d->completion, stream)
                                                        : gy_rings_record(&d->completion, stream);
    s->dependents.told_seq = s->tail;
}

void gy_gd_note_all_ends(struct gantry_dispatcher *d, const struct gy_round *round)
{
    for (uint32_t i = 0; i < d->streams.count; i++) {
        if (gy_rings_is_unnoted(&d->completion, i)) {
            gy_gd_note_ends(d, round, i);
        }
    }
}

bool gy_is_unawaited(gantry_dispatcher *self, uint64_t wait_set)
{
    struct gy_clock room;
    const struct gy_clock *clock = gy_wait_set_read(wait_set, &room);
    if (clock == NULL || gy_context_is_stopped(self->config.context)) {
        return false; /* after everything; or nothing will be waited for any more */
    }
    for (uint64_t left = clock->streams; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        if (atomic_load_explicit(&self->streams.streams[i].completed, memory_order_acquire) >=
            clock->seq[i]) {
            return false;
        }
    }
    return clock->streams != 0;
}
