/* SPDX-License-Identifier: MIT */
#include "dispatcher/submit/round.h"

#include "base/clock.h"
#include "base/span.h"
#include "dispatcher/call/capture.h"
#include "profile/cta.h"
#include "profile/gpu_time.h"

#include <assert.h>
#include <stdio.h>

bool gy_round_is_valid(const struct gy_round *round)
{
    const struct gy_recording *recording = round->recording;
    return gy_bins_are_valid(&round->bins) && gy_bins_are_valid(&round->key.later) &&
           (round->key.is_set || (gy_bins_are_empty(&round->key.later) && round->key.ahead.first == NULL)) &&
           gy_gpu_list_is_valid(&round->key.ahead) && (unsigned)round->phase < GD_PHASES &&
           (recording == NULL ||
            (recording->unit != NULL && recording->finished <= recording->unit->members &&
             recording->unit->stage != GY_UNIT_LAUNCHED && gy_gpu_list_is_valid(&recording->others)));
}

void gy_gd_count_phase(struct gantry_dispatcher *d, struct gy_round *round)
{
    uint64_t now = gy_clock_ns();
    gy_gd_count(&d->counters.phase_ns[round->phase], now - round->phase_since_ns);
    round->phase_since_ns = now;
}

/* While recording, have the completion thread look at every stream with work, which reads its GPU times. */
static void watch_streams(struct gantry_dispatcher *d)
{
    gantry_status status = GANTRY_OK;
    for (uint32_t i = 0; i < d->streams.count && status == GANTRY_OK; i++) {
        struct gy_stream *s = &d->streams.streams[i];
        if (d->watch.recorded[i] < s->tail &&
            atomic_load_explicit(&s->completed, memory_order_relaxed) < s->tail) {
            d->watch.recorded[i] = s->tail;                    /* once: a round may come back many times */
            status = gy_rings_add(&d->completion, i, NULL, 0); /* fails only on a lost context */
        }
    }
}

/* Have the completion thread look at the streams that blocks wait for. */
static void watch_deferred(struct gantry_dispatcher *d)
{
    uint64_t deferred = atomic_load_explicit(&d->deferred.deferred, memory_order_relaxed);
    if (deferred == d->watch.deferred) {
        return;
    }
    bool all_seen = true;
    gantry_status status = GANTRY_OK;
    for (uint32_t i = 0; i < d->streams.count && status == GANTRY_OK; i++) {
        if (gy_deferred_watch(&d->deferred, i, d->streams.streams[i].tail, &all_seen)) {
            status = gy_rings_add(&d->completion, i, NULL, 0); /* fails only on a lost context */
        }
    }
    d->watch.deferred = all_seen ? deferred : d->watch.deferred;
}

void gy_gd_watch_memory(struct gantry_dispatcher *d)
{
    gantry_status status = GANTRY_OK;
    uint64_t streams = gy_admission_is_busy(&d->admission) ? gy_admission_streams(&d->admission) : 0;
    for (; streams != 0 && status == GANTRY_OK; streams &= streams - 1) {
        uint32_t stream = (uint32_t)__builtin_ctzll(streams);
        status = gy_rings_add(&d->completion, stream, NULL, 0); /* fails only on a lost context */
    }
}

void gy_gd_count_heap(const struct gantry_dispatcher *d)
{
    static const struct {
        gantry_memory_kind kind;
        const char *name;
    } kinds[] = {{GANTRY_MEMORY_DEVICE, "Heap device bytes"},
                 {GANTRY_MEMORY_PINNED, "Heap page-locked bytes"}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        gantry_heap_stats stats = {.struct_size = sizeof(stats)};
        if (gantry_heap_get_stats(d->config.heap, kinds[i].kind, &stats) == GANTRY_OK) {
            gy_profile_count(gy_profile_generation(), kinds[i].name, stats.used_bytes);
        }
    }
}

/* While recording: count the bytes that went between devices. */
static void count_between(const struct gantry_dispatcher *d)
{
    static const char *const ways[GY_COPY_WAYS] = {
        [GY_COPY_BY_ENGINE] = "engines", [GY_COPY_BY_KERNEL] = "kernels", [GY_COPY_BY_HOST] = "the host"};
    for (int by = 0; by < GY_COPY_WAYS; by++) {
        char name[64];
        const uint64_t bytes =
            atomic_load_explicit(&d->counters.works[GD_BETWEEN_BYTES + by], memory_order_relaxed);
        if (bytes != 0) {
            snprintf(name, sizeof(name), "GPU %d: bytes between GPUs by %s", d->config.context->info.ordinal,
                     ways[by]);
            gy_profile_count(gy_profile_generation(), name, bytes);
        }
    }
}

void gy_gd_publish_shares(struct gantry_dispatcher *d, bool all)
{
    assert(gy_graphs_are_valid(&d->graphs));
    uint64_t streams;
    /* A failure is in the context, or costs the measure of an interval. */
    (void)gy_shares_publish(&d->shares, all, &streams);
    gantry_status status = GANTRY_OK;
    for (; streams != 0 && status == GANTRY_OK; streams &= streams - 1) {
        status = gy_rings_watch(&d->completion, (uint32_t)__builtin_ctzll(streams));
    }
    assert(d->shares.unpublished == 0 && gy_shares_are_valid(&d->shares));
}

void gy_gd_flush_completions(struct gantry_dispatcher *d)
{
    if (gy_rings_is_pending(&d->completion)) {
        gy_gd_count(&d->counters.flushes, 1); /* before any thread can see that it was */
        (void)gy_rings_flush(&d->completion); /* a failure is in the context: seen by the caller */
    }
}

/* The buffers of the batch's block records go back when its work has ended; those of captured work go with
 * its graph. */
static void end_ctas(struct gantry_dispatcher *d)
{
    struct gy_cta *ctas = gy_gpu_time_ctas(d->config.time);
    for (uint64_t left = gy_cta_streams(ctas); left != 0; left &= left - 1) {
        uint32_t stream = (uint32_t)__builtin_ctzll(left);
        CUstream end;
        if (gy_streams_end_of(&d->streams, stream, &end) == GANTRY_OK) { /* fails only on a lost context */
            gy_cta_set_end(ctas, stream, end);
        }
    }
    gy_cta_end_batch(ctas);
}

void gy_gd_flush(struct gantry_dispatcher *d)
{
    assert(gy_graphs_are_valid(&d->graphs));
    (void)gy_capture_end(d);              /* a failure is in the context: seen below */
    gy_gpu_time_launched(d->config.time); /* whatever has ended the capture */
    gy_gpu_time_end_batch(d->config.time);
    if (d->member.visitors.first != NULL) {
        d->member.calls->let_go(d);
    }
    watch_deferred(d);
    gy_gd_watch_memory(d);
    if (gy_shares_any(&d->shares)) {
        gy_gd_publish_shares(d, true);
    }
    end_ctas(d);
    if (gy_span_on()) {
        gy_gd_count_heap(d);
        count_between(d);
        gy_shares_count(&d->shares, gy_profile_generation());
        watch_streams(d);
    }
    gy_gd_flush_completions(d);
    gy_gpu_debt_settle(&d->loop.debt); /* which may wake up a thread: the GPU has its events by then */
    gy_graphs_sweep(&d->graphs);
    assert(!gy_batch_is_open(&d->streams.batch) && gy_streams_are_valid(&d->streams));
}
