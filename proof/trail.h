/* SPDX-License-Identifier: MIT */
/* Where pasts come from, and which edges no data needs: on request (GANTRY_CHECK=needless).
 *
 * A trail is the number of a node.  A node is made of two others, of which the second may have come by an
 * edge that the program has declared, or of another and a part.  So it can be told whether a part would still
 * come before another one without an edge.  Numbers rise: what a node is made of has lower ones. */
#ifndef PROOF_TRAIL_H
#define PROOF_TRAIL_H

#include "proof/access.h"

#include <stdio.h>

/* From now on trails are kept; before there is work. */
void gy_trail_open(void);
extern _Atomic(bool) gy_trail_is_kept; /* atomic */
static inline bool gy_trail_kept(void)
{
    return __builtin_expect(atomic_load_explicit(&gy_trail_is_kept, memory_order_relaxed), 0);
}

/* All of these are nothing, and 0, while no trails are kept.  The lock of order.c is held for the first five.
 * A past gets the other one, by an edge if its number is not 0; or a part. */
uint32_t gy_trail_join(uint32_t past, uint32_t other, uint32_t edge);
uint32_t gy_trail_add(uint32_t past, uint32_t part);
/* A past gets a device part by a wait, which counts only behind the task's host part: so that is needed. */
uint32_t gy_trail_wait(uint32_t past, uint32_t part, uint32_t host);
/* A new edge from the task of a host part to one that has not begun, whose edges so far are `next`. */
uint32_t gy_trail_edge(uint32_t from, bool waits, uint32_t next);
/* The part begins behind what the trail has.  `host`: of its task, if it is a device part; else `edges` lead
 * to the task. */
void gy_trail_begin(uint32_t part, uint32_t host, uint32_t past, uint32_t edges);

/* The access needs that the part comes before. */
void gy_trail_note_need(const struct gy_access *access, uint32_t part);
static inline void gy_trail_needs(const struct gy_access *access, uint32_t part)
{
    if (gy_trail_kept()) {
        gy_trail_note_need(access, part);
    }
}
/* Does a reader that comes before the access stay beside `count` of that kind?  A later write needs both. */
enum { GY_TRAIL_READERS = 16 }; /* so many do, of each chain of readers */
bool gy_trail_keeps(const struct gy_access *access, uint32_t work, uint32_t count);
/* The access's task has touched memory that is watched. */
void gy_trail_touches(const struct gy_access *access);

/* The time, in ns; and the work of the frame has taken so long since `began`. */
uint64_t gy_trail_now(void);
void gy_trail_took(const struct gy_access *access);

/* Tell which edges no data has needed.  No thread has a lock of the proof. */
void gy_trail_judge(void);

#endif
