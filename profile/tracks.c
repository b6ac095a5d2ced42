/* SPDX-License-Identifier: MIT */
/* A thread's track is a chain of lanes, each a track of its own in the file: the first is the one a reader
 * looks for, the others exist only where slices overlap without nesting and are called "<thread>:
 * overlapping".  GPU tasks go to queues instead, where slices may overlap. */
#include "profile/tracks.h"

#include "base/alloc.h"
#include "profile/track_row.h"

#include <stdio.h>
#include <string.h>

struct lane {
    struct lane *next;
    gy_pftrace_track number;
    struct gy_track_row slices;
};

struct track {
    struct track *next; /* link of gy_tracks.all */
    struct lane *lanes;
    gy_pftrace_track parent; /* the parent of lanes behind the first */
    char name[GY_RING_TRACK_BYTES + 16];
};

struct gy_tracks {
    struct gy_pftrace *trace;
    struct track *all;
    uint32_t counter_count;
    struct {
        gy_pftrace_track number;
        char name[GY_RING_NAME_BYTES];
    } counters[GY_TRACKS_COUNTERS];
    struct track *batches[GY_TRACKS_GPUS + 1]; /* by the GPU's number; NULL: none has come yet */
    gy_pftrace_track gpus[GY_TRACKS_GPUS + 1]; /* by the GPU's number; 0: it is not made yet */
};

struct gy_tracks *gy_tracks_create(struct gy_pftrace *trace)
{
    struct gy_tracks *tracks = gy_zalloc(sizeof(*tracks));
    if (tracks != NULL) {
        tracks->trace = trace;
    }
    return tracks;
}

static void track_destroy(struct track *track)
{
    while (track->lanes != NULL) {
        struct lane *next = track->lanes->next;
        gy_track_row_fini(&track->lanes->slices);
        gy_free(track->lanes);
        track->lanes = next;
    }
    gy_free(track);
}

void gy_tracks_destroy(struct gy_tracks *tracks)
{
    if (tracks == NULL) {
        return;
    }
    while (tracks->all != NULL) {
        struct track *next = tracks->all->next;
        track_destroy(tracks->all);
        tracks->all = next;
    }
    gy_free(tracks);
}

/* Make a track with its first lane; NULL: out of memory. */
static struct track *track_create(struct gy_tracks *tracks)
{
    struct track *track = gy_zalloc(sizeof(*track));
    struct lane *lane = gy_zalloc(sizeof(*lane));
    if (track == NULL || lane == NULL) {
        gy_free(track);
        gy_free(lane);
        return NULL;
    }
    track->lanes = lane;
    track->next = tracks->all;
    tracks->all = track;
    return track;
}

static struct track *thread_track(struct gy_tracks *tracks, struct gy_ring *ring)
{
    if (ring->track_of_writer != NULL) {
        return ring->track_of_writer;
    }
    struct track *track = track_create(tracks);
    if (track == NULL) {
        return NULL;
    }
    track->lanes->number = gy_pftrace_add_thread(tracks->trace, ring->tid, ring->track);
    track->parent = track->lanes->number;
    snprintf(track->name, sizeof(track->name), "%s: overlapping", ring->track);
    ring->track_of_writer = track;
    return track;
}

gy_pftrace_track gy_tracks_gpu(struct gy_tracks *tracks, uint32_t gpu, const char *name)
{
    if (tracks->gpus[gpu] == 0) {
        tracks->gpus[gpu] =
            gy_pftrace_add_track(tracks->trace, gy_pftrace_process_track(tracks->trace), name, gpu);
    }
    return tracks->gpus[gpu];
}

void gy_tracks_note_clock(struct gy_tracks *tracks, gy_pftrace_track track, const char *gpu_name,
                          uint64_t bound_ns)
{
    if (bound_ns != 0) {
        struct gy_pftrace_slice mark = {.track = track,
                                        .category = GY_PFTRACE_CTAS,
                                        .instant = true,
                                        .name = gpu_name,
                                        .begin_ns = gy_clock_ns(),
                                        .argument_count = 1,
                                        .arguments = {{GY_ARGUMENT_ALIGNMENT_NS, bound_ns}}};
        gy_pftrace_add_slice(tracks->trace, &mark);
    }
}

/* Find the lane that takes the span, or make one; NULL: out of memory. */
static struct lane *lane_for(struct gy_tracks *tracks, struct track *track, const struct gy_ring_span *span)
{
    struct lane **link = &track->lanes;
    for (; *link != NULL; link = &(*link)->next) {
        if (gy_track_row_take(&(*link)->slices, span->begin_ns, span->end_ns)) {
            return *link;
        }
    }
    struct lane *lane = gy_zalloc(sizeof(*lane));
    if (lane == NULL || !gy_track_row_take(&lane->slices, span->begin_ns, span->end_ns)) {
        gy_free(lane);
        return NULL;
    }
    lane->number = gy_pftrace_add_track(tracks->trace, track->parent, track->name, 0);
    *link = lane;
    return lane;
}

/* Add a counter's value.  False: there are too many counters. */
static bool add_count(struct gy_tracks *tracks, const struct gy_ring_span *span)
{
    uint32_t i = 0;
    while (i < tracks->counter_count && strcmp(tracks->counters[i].name, span->name) != 0) {
        i++;
    }
    if (i == GY_TRACKS_COUNTERS) {
        return false;
    }
    if (i == tracks->counter_count) {
        gy_ring_copy_name(tracks->counters[i].name, span->name);
        tracks->counters[i].number =
            gy_pftrace_add_counter_track(tracks->trace, gy_pftrace_process_track(tracks->trace), span->name);
        tracks->counter_count++;
    }
    gy_pftrace_add_count(tracks->trace, tracks->counters[i].number, span->begin_ns, span->id);
    return true;
}

static void add_task(struct gy_tracks *tracks, const struct gy_ring_span *span, const char *gpu_name,
                     const char *partition)
{
    struct gy_pftrace_stage stage = {.gpu = span->gpu,
                                     .gpu_name = gpu_name,
                                     .partition = partition,
                                     .stream = span->stream,
                                     .name = span->name,
                                     .begin_ns = span->begin_ns,
                                     .end_ns = span->end_ns,
                                     .id = span->id,
                                     .after = span->flow,
                                     .manager = span->manager};
    gy_pftrace_add_stage(tracks->trace, &stage);
}

/* Batches of a GPU may overlap: the track has as many lines as they need.  False: out of memory. */
static bool add_batch(struct gy_tracks *tracks, const struct gy_ring_span *span, const char *gpu_name)
{
    struct track *track = tracks->batches[span->gpu];
    if (track == NULL) {
        track = tracks->batches[span->gpu] = track_create(tracks);
        if (track == NULL) {
            return false;
        }
        track->parent = gy_tracks_gpu(tracks, span->gpu, gpu_name);
        snprintf(track->name, sizeof(track->name), "batches");
        track->lanes->number = gy_pftrace_add_track(tracks->trace, track->parent, track->name, 0);
    }
    const struct lane *lane = lane_for(tracks, track, span);
    if (lane == NULL) {
        return false;
    }
    const struct gy_pftrace_slice slice = {
        .track = lane->number,
        .category = GY_PFTRACE_BATCH,
        .name = span->name,
        .begin_ns = span->begin_ns,
        .end_ns = span->end_ns,
        .argument_count = 2,
        .arguments = {{GY_ARGUMENT_BATCH, span->id}, {GY_ARGUMENT_TASKS, span->flow}}};
    gy_pftrace_add_slice(tracks->trace, &slice);
    return true;
}

static void keep_flows(struct gy_ring *ring, const struct gy_ring_span *span)
{
    for (uint64_t i = 0; i < span->id && ring->flow_count < GY_RING_FLOWS_KEPT; i++) {
        memcpy(&ring->flows[ring->flow_count++], span->name + i * sizeof(ring->flows[0]),
               sizeof(ring->flows[0]));
    }
}

bool gy_tracks_add(struct gy_tracks *tracks, struct gy_ring *ring, const struct gy_ring_span *span,
                   const char *gpu_name, const char *partition)
{
    if (span->category == GY_RING_COUNT) {
        return add_count(tracks, span);
    }
    if (span->category == GY_RING_FLOWS) {
        keep_flows(ring, span);
        return true;
    }
    if (span->category == GY_PFTRACE_BATCH) {
        return add_batch(tracks, span, gpu_name);
    }
    if (span->gpu != 0) {
        add_task(tracks, span, gpu_name, partition);
        return true;
    }
    struct track *track = thread_track(tracks, ring);
    struct lane *lane = track != NULL ? lane_for(tracks, track, span) : NULL;
    if (span->flow != 0 && ring->flow_count < GY_RING_FLOWS_KEPT) {
        ring->flows[ring->flow_count++] = span->flow;
    }
    if (lane != NULL) {
        struct gy_pftrace_slice slice = {.track = lane->number,
                                         .category = span->category,
                                         .name = span->name,
                                         .begin_ns = span->begin_ns,
                                         .end_ns = span->end_ns,
                                         .flow_count = ring->flow_count,
                                         .flows = ring->flows,
                                         .argument_count = 1,
                                         .arguments = {{GY_ARGUMENT_ID, span->id}}};
        gy_pftrace_add_slice(tracks->trace, &slice);
    }
    ring->flow_count = 0;
    return lane != NULL;
}
