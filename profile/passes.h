/* SPDX-License-Identifier: MIT */
/* When the GPU was seen to have passed what its streams held: the latest moments of each stream, which bound
 * the ends of its launches. */
#ifndef PROFILE_PASSES_H
#define PROFILE_PASSES_H

#include <stdint.h>

#define GY_PASSES_STREAMS 64u
#define GY_PASSES_KEPT 8u /* of a stream */

/* At `seen_ns` the GPU had passed the work that a stream held at `recorded_ns`. */
struct gy_pass {
    uint64_t recorded_ns, seen_ns;
};

/* All 0 at first.  The owner's lock guards it. */
struct gy_passes {
    struct gy_pass at[GY_PASSES_STREAMS][GY_PASSES_KEPT];
    uint32_t next[GY_PASSES_STREAMS];
};

void gy_passes_note(struct gy_passes *passes, uint32_t stream, uint64_t recorded_ns, uint64_t seen_ns);
/* When a launch was first known to have ended; `seen_ns` where no pass says so earlier. */
uint64_t gy_passes_end(const struct gy_passes *passes, uint32_t stream, uint64_t launched_ns,
                       uint64_t seen_ns);

#endif
