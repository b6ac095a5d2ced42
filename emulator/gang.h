/* SPDX-License-Identifier: MIT */
/* Gangs: blocks that wait for each other, which are those of a cluster, or of a cooperative grid.  Each runs
 * on an OS thread of its own, since shared memory of a fixed size belongs to the thread. */
#ifndef EMULATOR_GANG_H
#define EMULATOR_GANG_H

#include "emulator/exec.h"

enum gy_emu_meeting { GY_EMU_MEET_CLUSTER, GY_EMU_MEET_GRID };

/* Run `clusters` clusters of the grid, from cluster `first` on, at the same time (without clusters: blocks).
 * grid->gang_of says where they run.  CUDA_SUCCESS, or how it failed: then `why` says it. */
CUresult gy_emu_gang_run(const struct gy_emu_grid *grid, uint64_t first, uint32_t clusters, char *why,
                         size_t room);

/* The rest is called by the engine, for member `member`. */

/* All threads of the block have come to this meeting: wait for the other blocks.  NULL, or why it fails. */
const char *gy_emu_gang_meet(struct gy_emu_gang *gang, uint32_t member, enum gy_emu_meeting where);
/* Tell where the block's dynamic shared memory lies. */
void gy_emu_gang_share(struct gy_emu_gang *gang, uint32_t member, void *shared);
/* Find the dynamic shared memory of the block of that rank in its cluster; NULL: no such block, or it need
 * not have begun, since the blocks of the cluster have not met. */
void *gy_emu_gang_shared_of(struct gy_emu_gang *gang, uint32_t member, uint32_t rank);

/* What the thread that steals for its cluster leaves for the cluster's block of that rank.  NULL, or the rule
 * that is broken. */
const char *gy_emu_gang_tell(struct gy_emu_gang *gang, uint32_t member, uint32_t slot, uint32_t rank,
                             const uint32_t words[4]);
/* False: the block was not told, or the cluster's blocks have not met since. */
bool gy_emu_gang_hear(struct gy_emu_gang *gang, uint32_t member, uint32_t slot, uint32_t words[4]);

/* The number of the block of rank `rank` in cluster `cluster` of the grid, x fastest. */
uint64_t gy_emu_gang_block(const struct gy_emu_grid *grid, uint64_t cluster, uint32_t rank);

#endif
