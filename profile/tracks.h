/* SPDX-License-Identifier: MIT */
/* The tracks of threads and GPUs in a trace.  A track is made when its first span comes, and a span goes to
 * the first lane of its track that can take it.
 *
 * Threading: the writer's thread alone. */
#ifndef PROFILE_TRACKS_H
#define PROFILE_TRACKS_H

#include "profile/pftrace.h"
#include "profile/ring.h"

#define GY_TRACKS_GPUS GY_PFTRACE_GPUS /* GPUs (contexts) of one recording */
#define GY_TRACKS_COUNTERS 192

struct gy_tracks;

/* NULL: out of memory.  The trace must outlive it. */
struct gy_tracks *gy_tracks_create(struct gy_pftrace *trace);
/* NULL is ignored. */
void gy_tracks_destroy(struct gy_tracks *tracks);

/* Write one span of `ring`.  `gpu_name` names the GPU of a span with a gpu number, `partition` the partition
 * of its stream ("": none).  False: memory for a track ran out, and the span is lost. */
bool gy_tracks_add(struct gy_tracks *tracks, struct gy_ring *ring, const struct gy_ring_span *span,
                   const char *gpu_name, const char *partition);

/* The GPU's times are within `bound_ns` of the host's; 0: it has none.  A mark on `track` says so. */
void gy_tracks_note_clock(struct gy_tracks *tracks, gy_pftrace_track track, const char *gpu_name,
                          uint64_t bound_ns);

/* The track of a GPU by its number in the recording; it is made if need be. */
gy_pftrace_track gy_tracks_gpu(struct gy_tracks *tracks, uint32_t gpu, const char *name);

#endif
