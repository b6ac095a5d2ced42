/* SPDX-License-Identifier: MIT */
/* Batches in GPU time: from the begin of the first task of a batch to the end of its last, on whatever
 * streams they ran.  A batch is held by the marks of its tasks, and by the dispatcher while it adds some; who
 * lets go of it last writes its slice. */
#ifndef PROFILE_GPU_BATCH_H
#define PROFILE_GPU_BATCH_H

#include "base/thread.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define GY_GPU_BATCHES 1024u /* of one context that the GPU has not passed yet */

struct gy_gpu_batch {
    struct gy_gpu_batch *next; /* link of the free list; its lock guards it */
    uint64_t
        generation;   /* immutable while it is held, changed under its lock: the recording; 0: it is free */
    uint64_t number;  /* immutable while it is held */
    atomic_uint held; /* atomic; marks that hold it, and 1 for the dispatcher */
    atomic_uint resting; /* atomic; of these marks, those whose tasks' calls are held back */
    /* Written by the collecting thread alone, which holds it by a mark meanwhile; read by who lets go last:
     */
    uint32_t gpu;
    uint64_t tasks;
    uint64_t begin_ns, end_ns;
};

struct gy_gpu_batches {
    gy_mutex lock;             /* rank LEAF */
    struct gy_gpu_batch *free; /* guarded by lock */
    struct gy_gpu_batch *all;  /* guarded by lock; the dispatcher thread alone writes it; NULL: no recording
                                * yet */
    struct gy_gpu_batch *current; /* the dispatcher thread alone; that which marks are added to; NULL: none */
};

void gy_gpu_batches_init(struct gy_gpu_batches *batches);
/* No mark holds a batch any more. */
void gy_gpu_batches_fini(struct gy_gpu_batches *batches);

/* Dispatcher thread.  A batch begins; the one before has ended.  Without memory, or with too many batches
 * that the GPU has not passed, it has none, which counts as a lost slice. */
void gy_gpu_batches_begin(struct gy_gpu_batches *batches, uint64_t generation, uint64_t number);
/* Dispatcher thread.  The batch, if there is one, gets no more marks. */
void gy_gpu_batches_end(struct gy_gpu_batches *batches);
/* Dispatcher thread.  The batch for another mark, which holds it from now on; NULL: there is none. */
struct gy_gpu_batch *gy_gpu_batches_hold(const struct gy_gpu_batches *batches, uint64_t generation);

/* Collecting thread.  A task of it has run then, on that GPU of the recording; NULL is ignored. */
void gy_gpu_batch_add(struct gy_gpu_batch *batch, uint32_t gpu, uint64_t begin_ns, uint64_t end_ns);
/* Collecting thread.  The batches of the recording of which a task has been added, and whose slices are not
 * written yet. */
uint32_t gy_gpu_batches_begun(struct gy_gpu_batches *batches, uint64_t generation);
/* Collecting thread.  Is a slice not written yet for another reason than that calls are held back? */
bool gy_gpu_batches_are_awaited(struct gy_gpu_batches *batches, uint64_t generation);
/* A mark that holds it rests, or does not any longer; NULL is ignored. */
void gy_gpu_batch_rest(struct gy_gpu_batch *batch, bool rests);
/* Any thread.  A mark holds it no longer; NULL is ignored. */
void gy_gpu_batch_leave(struct gy_gpu_batches *batches, struct gy_gpu_batch *batch);

#endif
