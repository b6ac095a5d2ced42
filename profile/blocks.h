/* SPDX-License-Identifier: MIT */
/* The slices of blocks: as many threads as the recording wants bring them from the records of batches into
 * the file.
 *
 *   writer --deals a batch out--> jobs, each for some of the SMs --encoders--> chunks --in order--> file
 *
 * The file does not depend on how many threads there are.  A job writes the SMs of one `shard`; the jobs of
 * one shard follow each other, since a batch's blocks come behind those of earlier batches on an SM's lines.
 * Small batches are written by the writer itself.
 *
 * Threading: the functions are for one thread, the writer's. */
#ifndef PROFILE_BLOCKS_H
#define PROFILE_BLOCKS_H

#include "profile/cta_batch.h"
#include "profile/encoders.h"
#include "profile/residents.h"
#include "profile/sm_lanes.h"

#define GY_BLOCK_SHARDS 16u
#define GY_BLOCK_RANK_SMS 2000u /* of the track "SMs" under its GPU */

/* The facts about a GPU.  The struct is zeroed at first, except for `track`. */
struct gy_block_gpu {
    gy_pftrace_track track, sms_track;
    struct gy_sm_lanes *sms[GY_SMS];
    struct gy_turns shards[GY_BLOCK_SHARDS];
    struct gy_residents residents;
};

/* The extent of a launch: the GPU times of its first block's start and its last block's stop. */
struct gy_block_extent {
    uint64_t first_ns, last_ns;
    uint32_t valid; /* blocks that left a record */
    uint32_t taken; /* blocks that others took over */
};

/* The facts about a batch besides its records. */
struct gy_block_info {
    uint64_t number, seen_ns;
    uint64_t begin_ns, end_ns; /* host times of its first block and its last one, moved by shift_ns */
    int64_t shift_ns;
    struct gy_gpu_clock clock;
    uint64_t bound_ns, sm_ns; /* bounds on the errors: of these times, and of SMs against each other */
    uint64_t valid, lost;     /* numbers of blocks */
    uint64_t taken;           /* blocks that others took over */
};

/* Everything of a batch is on its way into the file; `info` says what was lost.  It is called in the order of
 * batches. */
typedef void gy_blocks_finished_fn(void *user, struct gy_block_gpu *gpu, const struct gy_block_info *info);

struct gy_blocks;

/* Create the writer of blocks; NULL: out of memory.  With `numbered`, slices have their block's number.
 * `threads` work beside the writer's. */
struct gy_blocks *gy_blocks_create(struct gy_pftrace *trace, bool numbered, uint32_t threads,
                                   gy_blocks_finished_fn *finished, void *user);
/* Destroy it after gy_blocks_finish().  NULL is ignored. */
void gy_blocks_destroy(struct gy_blocks *blocks);

/* Write a batch in three calls: open it, put its launches one after the other, add it.  It is not needed any
 * more afterwards.  False: there is no memory for it, and nothing is open. */
bool gy_blocks_open(struct gy_blocks *blocks, const struct gy_cta_batch *batch);
/* Put a launch; returns the launch's extent.  `of_sm` counts its blocks, see gy_block_extend(). */
struct gy_block_extent gy_blocks_put(struct gy_blocks *blocks, const struct gy_cta_batch *batch,
                                     const struct gy_cta_launch *launch, uint64_t of_sm[GY_SMS]);
/* Add the batch; `info->valid` is the sum over the extents, and not 0. */
void gy_blocks_add(struct gy_blocks *blocks, struct gy_block_gpu *gpu, const struct gy_block_info *info);
/* Finish all batches that were added. */
void gy_blocks_finish(struct gy_blocks *blocks);

/* After gy_blocks_finish(): write the rest of the GPU's slices, and free it. */
void gy_block_gpu_fini(struct gy_block_gpu *gpu, struct gy_pftrace *trace);

static inline bool gy_block_is_valid(const gantry_cta_record *record, uint32_t kernel)
{
    return record->start_ns != 0 && record->origin >> GANTRY_CTA_SM_BITS == kernel;
}

/* Did another block do this one?  Such a place has nothing else. */
static inline bool gy_block_is_taken(const gantry_cta_record *record)
{
    return record->start_ns == 0 && record->duration_ns == GANTRY_CTA_TAKEN;
}

static inline void gy_block_extend(struct gy_block_extent *extent, const gantry_cta_record *record,
                                   uint64_t of_sm[GY_SMS])
{
    uint64_t stop_ns = record->start_ns + record->duration_ns;
    extent->first_ns = record->start_ns < extent->first_ns ? record->start_ns : extent->first_ns;
    extent->last_ns = stop_ns > extent->last_ns ? stop_ns : extent->last_ns;
    extent->valid++;
    of_sm[record->origin & (GY_SMS - 1)]++;
}

#endif
