/* SPDX-License-Identifier: MIT */
/* The writer thread of a recording: it empties the rings and the batches of blocks into the file. */
#include "profile/recording.h"

#define FLUSH_NS 1000000000u /* recorded spans are in the file after this time */

/* This takes at most one full ring: a thread that emits without end must not keep the writer from the other
 * rings. */
static void drain(gantry_profile *profile, struct gy_ring *ring)
{
    const struct gy_ring_span *span;
    for (uint64_t n = 0; n <= ring->mask && (span = gy_ring_peek(ring)) != NULL; n++) {
        /* A span with a gpu number comes after gy_profile_add_gpu() gave it out, on the same thread or
         * handed over by a lock: the name is complete. */
        const char *gpu_name = span->gpu != 0 ? profile->gpus.names[span->gpu - 1] : NULL;
        const char *partition =
            span->gpu != 0 ? profile->gpus.partitions[span->gpu - 1][span->stream % GY_PFTRACE_STREAMS]
                           : NULL;
        bool added = gy_tracks_add(profile->output.tracks, ring, span, gpu_name, partition);
        profile->output.written += added && span->category < GY_RING_FLOWS;
        profile->output.dropped += !added;
        gy_ring_pop(ring);
    }
}

/* Take the batches that have come; the caller holds the lock. */
static struct gy_cta_batch *take_batches(gantry_profile *profile) GY_REQUIRES(profile->lock)
{
    struct gy_cta_batch *first = profile->batches;
    profile->batches = NULL;
    profile->last_batch = NULL;
    return first;
}

static void write_batches(gantry_profile *profile, struct gy_cta_batch *batch)
{
    while (batch != NULL) {
        struct gy_cta_batch *next = batch->next; /* done() gives the batch away */
        gy_pftrace_track gpu =
            gy_tracks_gpu(profile->output.tracks, batch->gpu, profile->gpus.names[batch->gpu - 1]);
        gy_cta_tracks_add(profile->output.cta_tracks, gpu, batch);
        gy_cta_tracks_name(profile->output.cta_tracks, gpu,
                           (const char(*)[GY_CTA_PARTITION_BYTES])profile->gpus.partitions[batch->gpu - 1]);
        batch->done(batch);
        batch = next;
    }
}

/* Wait for work.  False: the recording ends. */
static bool wait_for_work(gantry_profile *profile, uint64_t until_ns) GY_REQUIRES(profile->lock)
{
    while (!atomic_load_explicit(&profile->wanted, memory_order_relaxed) && !profile->stopping &&
           gy_clock_ns() < until_ns) {
        gy_cond_wait_until(&profile->work, &profile->lock, until_ns);
    }
    return !profile->stopping;
}

void gy_profile_write(void *arg)
{
    gantry_profile *profile = arg;
    uint64_t flush_ns = 0; /* flush at once: readers recognize a file only when it is not empty */
    bool last;
    do {
        if (gy_clock_ns() >= flush_ns) {
            gy_cta_tracks_finish(profile->output.cta_tracks);
            gy_pftrace_flush(profile->output.trace);
            flush_ns = gy_clock_ns() + FLUSH_NS;
        }
        gy_mutex_lock(&profile->lock);
        last = !wait_for_work(profile, flush_ns);
        atomic_store_explicit(&profile->wanted, false, memory_order_relaxed);
        struct gy_ring *ring = profile->rings;
        struct gy_cta_batch *batches = take_batches(profile);
        gy_mutex_unlock(&profile->lock);
        write_batches(profile, batches);
        for (; ring != NULL; ring = ring->next) {
            drain(profile, ring);
        }
    } while (!last);
    gy_cta_tracks_finish(profile->output.cta_tracks);
    gy_pftrace_flush(profile->output.trace);
}
