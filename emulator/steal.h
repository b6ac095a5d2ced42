/* SPDX-License-Identifier: MIT */
/* Cluster Launch Control of one block: requests for blocks that have not started, and their answers.
 *
 * A request takes a block out of the grid at once, but its answer arrives only when a thread waits for it:
 * until then the place of the answer holds garbage.  These things are undefined on a device and errors here:
 *   - a request after the block has seen a refusal
 *   - reading an answer that has not arrived, or the block of a refusal
 *   - a barrier that was not initialised, or that completes a request already
 *   - ending with an answer that nobody has looked at, or writing over one: the block it grants is lost */
#ifndef EMULATOR_STEAL_H
#define EMULATOR_STEAL_H

#include "emulator/exec.h"

enum { GY_EMU_STEALS = 4 }; /* requests in flight per block */

struct gy_emu_steal_request {
    uint64_t *barrier; /* NULL: the request is not in flight */
    void *answer;
    uint64_t block;
    bool granted;
};

/* Belongs to the thread of its engine. */
struct gy_emu_steal {
    struct gy_emu_steal_request requests[GY_EMU_STEALS];
    const void *unread; /* the latest answer that grants a block and that no thread has read */
    bool refused;       /* a request was refused, and a thread has seen it */
    const char *broken; /* the rule that was broken, as the end of a sentence about the block; NULL: none */
};

void gy_emu_steal_init(uint64_t *barrier);

/* All return false when a rule is broken; steal->broken says which. */
bool gy_emu_steal_send(struct gy_emu_steal *steal, const struct gy_emu_grid *grid, void *answer,
                       uint64_t *barrier);
bool gy_emu_steal_block(struct gy_emu_steal *steal, const void *answer, uint64_t *block);
/* The block has ended. */
bool gy_emu_steal_ended(struct gy_emu_steal *steal);

/* Has the phase of that parity completed, which delivers the answer?  False, too, when a rule is broken. */
bool gy_emu_steal_arrived(struct gy_emu_steal *steal, uint64_t *barrier, uint32_t phase);
/* Was a block granted?  False, too, when a rule is broken. */
bool gy_emu_steal_granted(struct gy_emu_steal *steal, const void *answer);

#endif
