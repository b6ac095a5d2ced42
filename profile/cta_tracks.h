/* SPDX-License-Identifier: MIT */
/* The tracks of a trace that show the blocks of instrumented kernels:
 *
 *   GPU ─┬─ CTA records   a slice per buffer, with what is known of its clock and what was lost
 *        ├─ kernels       a slice per launch, from its first block's start to the last one's stop
 *        ├─ resident CTAs a counter
 *        └─ SMs ── SM 000 ── as many lanes as blocks were resident at once
 *
 * Threading: the writer's thread alone. */
#ifndef PROFILE_CTA_TRACKS_H
#define PROFILE_CTA_TRACKS_H

#include "profile/cta_batch.h"
#include "profile/pftrace.h"

#include <gantry/profile.h>

struct gy_cta_tracks;

/* Create the tracks; NULL: out of memory.  The trace must outlive them.  `encoders` threads (at least 1), the
 * caller's among them, encode the slices of blocks. */
struct gy_cta_tracks *gy_cta_tracks_create(struct gy_pftrace *trace, gantry_profile_ctas ctas,
                                           uint32_t encoders);
/* Write the rest, and destroy the tracks.  NULL is ignored. */
void gy_cta_tracks_destroy(struct gy_cta_tracks *tracks);

/* Write a batch, whose GPU has the track `gpu`.  The batch is not needed any more afterwards, although its
 * blocks may come into the file later. */
void gy_cta_tracks_add(struct gy_cta_tracks *tracks, gy_pftrace_track gpu, const struct gy_cta_batch *batch);

/* The partitions of the GPU's streams, "" for those without one; names may come until the tracks are
 * destroyed.  They say at the end how many blocks of each partition ran on which SM. */
#define GY_CTA_PARTITION_BYTES 32
void gy_cta_tracks_name(struct gy_cta_tracks *tracks, gy_pftrace_track gpu,
                        const char (*partitions)[GY_CTA_PARTITION_BYTES]);

/* Make sure that all batches are in the trace. */
void gy_cta_tracks_finish(struct gy_cta_tracks *tracks);

/* Everything is finished: add to kernels, ctas, ctas_lost and ctas_taken, and set cta_alignment_ns. */
void gy_cta_tracks_stats(const struct gy_cta_tracks *tracks, gantry_profile_stats *stats);

#endif
