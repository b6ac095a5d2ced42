/* SPDX-License-Identifier: MIT */
/* Batched copies on a stream; there is one copier per context. */
#ifndef COPYKERNEL_COPIER_H
#define COPYKERNEL_COPIER_H

#include "driver/driver.h"

#include <gantry/copy.h>
#include <gantry/heap.h>

struct gy_context;
struct gy_copier;
struct gy_copy_chunk;
struct gy_cta;
struct gy_cta_request;
struct gy_lane;

GANTRY_MUST_CHECK gantry_status gy_copier_create(struct gy_context *context, gantry_heap *heap,
                                                 struct gy_copier **out);
/* Destroy the copier; the GPU is done with everything that was launched.  NULL is ignored. */
void gy_copier_destroy(struct gy_copier *copier);

/* The place where a batch goes. */
struct gy_copy_target {
    CUstream stream;
    struct gy_lane *lane;     /* the lane on which it is noted instead; NULL: it goes to the stream */
    uint32_t multiprocessors; /* of the stream's partition; 0: all of the device */
    struct gy_cta *ctas;      /* of recordings; NULL: the batch is not recorded */
    const struct gy_cta_request *request; /* what is known of the launch; set with `ctas` */
    struct gy_copy_went *went;            /* what goes between devices is added up here; NULL: nobody asks */
};

/* Which way copies went: for those between devices, how many and how many bytes. */
enum gy_copy_by { GY_COPY_BY_ENGINE, GY_COPY_BY_KERNEL, GY_COPY_BY_HOST, GY_COPY_WAYS };
struct gy_copy_went {
    uint64_t copies[GY_COPY_WAYS], bytes[GY_COPY_WAYS];
    uint64_t kernels; /* how many were launched for copies of all kinds */
};

/* Dispatcher thread, context current; `options` may be NULL.  Statuses as gantry_copy_launch_with(). */
GANTRY_MUST_CHECK gantry_status gy_copier_launch(struct gy_copier *copier,
                                                 const struct gy_copy_target *target,
                                                 const gantry_copy_desc *descs, size_t count,
                                                 const gantry_copy_options *options);
/* Launch the queued copies in order; statuses, and the copies that stay queued, as
 * gantry_copy_queue_flush_with(). */
GANTRY_MUST_CHECK gantry_status gy_copier_flush(struct gy_copier *copier, const struct gy_copy_target *target,
                                                gantry_copy_queue *queue, const gantry_copy_options *options);

/* ---- capture: dispatcher thread ---- */

/* Batches that follow become part of a graph.  From here to its launch, the copier makes no driver call that
 * a capture forbids (memory is taken in relaxed capture mode, for this thread only). */
void gy_copier_begin_capture(struct gy_copier *copier);
/* The graph was launched, once, on `stream`: memory that its copies read is used again when the stream has
 * passed.  For another launch of the same batches, capture them again. */
gantry_status gy_copier_capture_launched(struct gy_copier *copier, CUstream stream);
/* The graph was launched, and may be launched again: the memory that its copies read and write is added to
 * *kept, an empty list at first, and stays the graph's. */
GANTRY_MUST_CHECK gantry_status gy_copier_capture_kept(struct gy_copier *copier, CUstream stream,
                                                       struct gy_copy_chunk **kept);
/* A kept graph was launched again.  Where the driver cannot tell when it is done, nobody else uses the memory
 * any more. */
void gy_copier_kept_launched(struct gy_copy_chunk *kept, CUstream stream);
/* A kept graph will not be launched again: once the GPU has passed it, its memory is used for others.  Any
 * thread; *kept is empty then. */
void gy_copier_kept_dropped(struct gy_copier *copier, struct gy_copy_chunk **kept);
/* The captured graph will never be launched. */
void gy_copier_capture_dropped(struct gy_copier *copier);

/* ---- tuning: any thread ---- */

gantry_copy_tuning gy_copier_tuning(struct gy_copier *copier);
/* Statuses as gantry_copy_set_tuning(). */
GANTRY_MUST_CHECK gantry_status gy_copier_set_tuning(struct gy_copier *copier,
                                                     const gantry_copy_tuning *tuning);
/* How copies to and from the device with ordinal `peer`, below GY_COPY_PEERS, go. */
#define GY_COPY_PEERS 64
gantry_copy_peer_tuning gy_copier_peer_tuning(struct gy_copier *copier, uint32_t peer);
void gy_copier_set_peer_tuning(struct gy_copier *copier, uint32_t peer,
                               const gantry_copy_peer_tuning *tuning);
/* Does the kernel do a single copy to (or from) it?  This is on the submit path: one load. */
bool gy_copier_takes_one(const struct gy_copier *copier, uint32_t peer, bool is_pull, uint64_t bytes);
/* Dispatcher thread, context current.  Statuses as gantry_copy_calibrate(). */
GANTRY_MUST_CHECK gantry_status gy_copier_calibrate(struct gy_copier *copier, uint64_t most_bytes);

#endif
