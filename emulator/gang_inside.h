/* SPDX-License-Identifier: MIT */
/* What a gang is, for the two files that are about gangs: gang.c, which the engine calls, and gang_run.c,
 * which calls the engine. */
#ifndef EMULATOR_GANG_INSIDE_H
#define EMULATOR_GANG_INSIDE_H

#include "emulator/gang.h"

#include "base/thread.h"

/* A place where blocks wait for each other. */
struct meeting {
    uint32_t members, arrived, ended;
    uint32_t generation; /* how often all have met */
};

/* What a block is told of the cluster that its own has taken over. */
struct told {
    uint32_t words[4];
    uint32_t generation; /* of the cluster's meeting, when it was told */
    bool is_there, is_heard;
};

/* What a block keeps here. */
struct member {
    void *shared; /* its dynamic shared memory */
    struct told told[2];
    bool has_ended;
};

/* `gy_emu_gang_lock` guards all that changes. */
struct gy_emu_gang {
    const struct gy_emu_grid *grid;
    uint64_t first_cluster;
    uint32_t count, cluster_blocks; /* blocks in all, and of a cluster */
    uint32_t running;               /* blocks on helpers */
    uint32_t ended, asleep;         /* blocks that have ended; that wait at a meeting */
    struct meeting all;             /* the grid's */
    struct meeting *clusters;
    struct member *members;
    CUresult result;
    char why[320];
    gy_cond changed;
};

extern gy_mutex gy_emu_gang_lock;

/* The block of this member has ended: well, or as `result` and `why` say. */
void gy_emu_gang_end(struct gy_emu_gang *gang, uint32_t member, CUresult result, const char *why);

#endif
