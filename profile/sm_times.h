/* SPDX-License-Identifier: MIT */
/* The writer's knowledge of the SMs' clocks of one GPU.  The trace shows it as a mark per SM on the track "SM
 * clocks", which is repeated when the error grows.
 *
 * Threading: the writer's thread alone. */
#ifndef PROFILE_SM_TIMES_H
#define PROFILE_SM_TIMES_H

#include "profile/cta_batch.h"
#include "profile/pftrace.h"

struct gy_sm_times;

/* NULL: out of memory. */
struct gy_sm_times *gy_sm_times_create(void);
/* NULL is ignored. */
void gy_sm_times_destroy(struct gy_sm_times *times);

/* Convert the batch's records to %globaltimer; a record for which this is impossible is cleared. */
void gy_sm_times_convert(struct gy_sm_times *times, const struct gy_cta_batch *batch);

/* How far times of one SM of the batch may be off against those of another; 0: it is not known. */
uint64_t gy_sm_times_error(const struct gy_sm_times *times);

/* The error that 99 of 100 SMs of the batch stay below; 0: it is not known. */
uint64_t gy_sm_times_p99(const struct gy_sm_times *times);

/* Write this for each SM, at `time_ns`, under the GPU's track `gpu`. */
void gy_sm_times_state(struct gy_sm_times *times, struct gy_pftrace *trace, gy_pftrace_track gpu,
                       uint64_t time_ns);

#endif
