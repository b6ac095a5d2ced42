/* SPDX-License-Identifier: MIT */
/* The counter "resident CTAs" of a GPU: the number of blocks, averaged over buckets of 20 us.
 *
 * Several threads add blocks of one batch or of several.  Before a batch, the writer's thread says which
 * buckets it will need, and it writes the buckets that can no longer change.  Sums do not depend on the
 * order, so neither does the file.
 *
 * For each batch: floor = gy_residents_begin(); blocks are added; when it and all batches before it are
 * finished, gy_residents_write(floor). */
#ifndef PROFILE_RESIDENTS_H
#define PROFILE_RESIDENTS_H

#include "profile/pftrace.h"

#include <stdatomic.h>

#define GY_BUCKET_NS 20000u
#define GY_BUCKETS 65536u /* 1.3 s */

struct gy_residents {
    /* The writer's thread alone: */
    gy_pftrace_track counter; /* 0: nothing was added yet */
    uint64_t floor;           /* the lowest bucket of the latest batch: no block is added below it any more */
    uint64_t first;           /* the bucket that is written next */
    uint64_t last;            /* the highest bucket used */
    uint64_t written;         /* the latest value in the trace */
    int64_t full;             /* the blocks that cover the bucket `first`, as far as is known */
    /* By bucket, modulo: */
    atomic_int_fast64_t partial_ns[GY_BUCKETS]; /* atomic: the time of blocks that do not cover it */
    atomic_int_fast64_t change[GY_BUCKETS];     /* atomic: the change of `full` from the bucket before */
};

/* Is there room for buckets up to that of `end_ns`, before those of open batches are written? */
bool gy_residents_have_room(const struct gy_residents *residents, uint64_t end_ns);
/* Begin a batch within these times, for which there is room.  Returns the lowest bucket that counts. */
uint64_t gy_residents_begin(struct gy_residents *residents, struct gy_pftrace *trace, gy_pftrace_track gpu,
                            uint64_t begin_ns, uint64_t end_ns);
/* Write the buckets below `end`. */
void gy_residents_write(struct gy_residents *residents, struct gy_pftrace *trace, uint64_t end);
/* Write all buckets. */
void gy_residents_finish(struct gy_residents *residents, struct gy_pftrace *trace);

/* The sums that one thread adds for a batch; most of them stay in here until flush. */
#define GY_RESIDENT_SUMS 256u
struct gy_resident_sums {
    struct gy_residents *residents;
    uint64_t floor;
    uint64_t base;             /* the bucket of the first of the sums */
    uint64_t begin_ns, end_ns; /* the times of the bucket whose sum is `sum` */
    int64_t *sum;
    uint32_t used;
    int64_t partial_ns[GY_RESIDENT_SUMS], change[GY_RESIDENT_SUMS];
};

/* `begin_ns`: no block of the batch begins earlier. */
void gy_resident_sums_init(struct gy_resident_sums *sums, struct gy_residents *residents, uint64_t floor,
                           uint64_t begin_ns);
void gy_resident_sums_add_far(struct gy_resident_sums *sums, uint64_t begin_ns, uint64_t end_ns);
void gy_resident_sums_flush(struct gy_resident_sums *sums);

static inline void gy_resident_sums_add(struct gy_resident_sums *sums, uint64_t begin_ns, uint64_t end_ns)
{
    if (begin_ns >= sums->begin_ns && end_ns < sums->end_ns) {
        *sums->sum += (int64_t)(end_ns - begin_ns);
    } else {
        gy_resident_sums_add_far(sums, begin_ns, end_ns);
    }
}

#endif
