/* SPDX-License-Identifier: MIT */
/* The pace of a job on one device: a bucket of GPU time in the region that is paid afterwards
 * (partition/bucket.h has the argument why such a bucket keeps a share).  Here it is one word, "paid until",
 * so that any process may change it and none can leave it half changed.  The functions are pure but for the
 * region: the caller passes the time. */
#ifndef LIMIT_PACE_H
#define LIMIT_PACE_H

#include "limit/region.h"

/* The most that an idle job saves, ns of GPU time.  A program that computes for less than this at a time, and
 * uses less than its share, is not held. */
#define GY_PACE_BURST_NS UINT64_C(20000000)
/* When the tokens are used up, so many come together before the next launch goes, so that launches come in
 * groups: the device is not emptied after each.  It is less where they would take longer than
 * GY_PACE_PAUSE_NS. */
#define GY_PACE_RESUME_NS 4000000.0
#define GY_PACE_PAUSE_NS 20000000.0
/* The most time for which a busy job may catch up, and the most debt that is believed, ns. */
#define GY_PACE_CEILING_NS UINT64_C(1000000000)
#define GY_PACE_MOST_DEBT_NS (3600 * UINT64_C(1000000000))

/* Devices of a job wait for each other where kernels do, as NCCL's.  That is seen when work on one is overdue
 * while a launch on another one is held: by so much at first, and by so much where it was seen lately. */
#define GY_PACE_LATE_FIRST_NS UINT64_C(2000000)
#define GY_PACE_LATE_NS UINT64_C(400000)
#define GY_PACE_HOPE_NS UINT64_C(1000000000)    /* what is later does not wait for a launch */
#define GY_PACE_COUPLED_NS UINT64_C(5000000000) /* so long it is remembered, */
#define GY_PACE_LOOK_NS UINT64_C(100000)        /* and so often who is held looks */

/* GO, HOLD: as the budget says.  AWAITED: work on another device waits for it, most likely: it goes, and is
 * paid later.  CREDIT: nothing ends, and somebody may wait for what is held: one launch goes, and is paid
 * later. */
enum gy_pace_verdict { GY_PACE_GO, GY_PACE_HOLD, GY_PACE_AWAITED, GY_PACE_CREDIT };

/* May work begin on device `d`?  HOLD: *ready_ns is when to ask again if nothing ends before. */
enum gy_pace_verdict gy_pace_ask(struct gy_region *region, int d, const struct gy_region_settings *settings,
                                 uint64_t now_ns, uint64_t *ready_ns);
/* A launch goes that takes so much at least, when it waits for nothing. */
void gy_pace_expect(const struct gy_region_place *place, int d, uint64_t ns, uint64_t now_ns);
/* Change what the process has in flight on device `d`. */
void gy_pace_reserve(const struct gy_region_place *place, int d, uint64_t more_ns);
void gy_pace_give_back(const struct gy_region_place *place, int d, uint64_t ns);
/* Work of the process has ended that used so much. */
void gy_pace_charge(const struct gy_region_place *place, int d, uint64_t used_ns, uint64_t now_ns);

/* The largest part of the device that was used in any `bins` bins of the last 12 s, and 0 where less time has
 * passed. */
double gy_pace_worst(const struct gy_region_device *device, uint32_t bins, uint64_t now_ns);

#endif
