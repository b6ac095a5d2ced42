/* SPDX-License-Identifier: MIT */
/* Kernels whose blocks steal others: correctly, and against each of the rules. */
#include "tests/kernels/steal_kernels.h"

#include <gantry/kernel.h>
/* this comes after kernel.h */
#include <gantry/kernel/steal.h>

/* All threads of one block do each of the blocks once; `thieves` counts the blocks that started. */
GANTRY_KERNEL(steal_count, (uint32_t *done, uint32_t *thieves))
{
    uint32_t block = blockIdx.x;
    GANTRY_STEAL(steal);
    if (threadIdx.x == 0) {
        atomicAdd(thieves, 1u);
    }
    do {
        gantry_steal_request(&steal);
        atomicAdd(&done[block], 1u);
    } while (gantry_steal_take(&steal, &block));
}

#define STEAL_UNIT(X, Y, Z) ((X) + gridDim.x * ((Y) + gridDim.y * (Z)))

/* The same in a grid of any shape. */
GANTRY_KERNEL(steal_count_3d, (uint32_t *done, uint32_t *thieves))
{
    uint32_t block[3] = {blockIdx.x, blockIdx.y, blockIdx.z};
    GANTRY_STEAL_3D(steal);
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        atomicAdd(thieves, 1u);
    }
    do {
        gantry_steal_request(&steal);
        atomicAdd(&done[STEAL_UNIT(block[0], block[1], block[2])], 1u);
    } while (gantry_steal_take_3d(&steal, block));
}

/* The loop for grids of one row, in a grid with more: it does not ask for y and z, so it must never be given
 * a block with another y or z. */
GANTRY_KERNEL(steal_count_rows, (uint32_t *done, uint32_t *thieves))
{
    uint32_t x = blockIdx.x;
    GANTRY_STEAL(steal);
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        atomicAdd(thieves, 1u);
    }
    do {
        gantry_steal_request(&steal);
        atomicAdd(&done[STEAL_UNIT(x, blockIdx.y, blockIdx.z)], 1u);
    } while (gantry_steal_take(&steal, &x));
}

/* A cluster does its units together: each block tells its neighbour which unit it does, and counts only if
 * the neighbour's is the one beside it in the same cluster of units. */
GANTRY_KERNEL(steal_count_neighbours, (uint32_t *done, uint32_t *thieves))
{
    uint32_t block[3] = {blockIdx.x, blockIdx.y, blockIdx.z};
    GANTRY_DYNAMIC_SHARED(uint32_t, unit);
    const uint32_t rank = gantry_cluster_rank(), blocks = gantry_cluster_blocks();
    const bool speaks = threadIdx.x == 0 && threadIdx.y == 0;
    GANTRY_STEAL_3D(steal);
    if (speaks) {
        atomicAdd(thieves, 1u);
    }
    do {
        gantry_steal_request(&steal);
        if (speaks) {
            unit[0] = STEAL_UNIT(block[0], block[1], block[2]);
        }
        gantry_cluster_sync();
        const uint32_t next = (rank + 1) % blocks;
        if (*gantry_cluster_shared(unit, next) == unit[0] + next - rank) { /* clusters of one row */
            atomicAdd(&done[unit[0]], 1u);
        }
        gantry_cluster_sync();
    } while (gantry_steal_take_3d(&steal, block));
}

/* Two blocks of one thread, which use the emulator's functions directly. */
GANTRY_KERNEL(steal_break_cluster, (uint32_t rule))
{
#if GANTRY_STEAL_FORM == 2
    __shared__ __align__(16) unsigned long long answer[2];
    __shared__ unsigned long long barrier;
    const bool asks = gantry_cluster_rank() == 0;
    uint32_t words[4] = {0, 0, 0, 0};
    if (asks) {
        gantry_steal_init(&barrier);
    }
    gantry_cluster_sync();
    if (!asks && rule == STEAL_CLUSTER_LEAVES_EARLY) {
        return;
    }
    if (rule == STEAL_CLUSTER_LOOKS_EARLY) {
        gantry_steal_hear(answer, 0, words);
    }
    if (rule == STEAL_CLUSTER_LEAVES_EARLY) {
        gantry_cluster_sync(); /* the other one has ended */
    }
    if (asks) {
        gantry_steal_send(answer, &barrier);
        gantry_steal_wait(&barrier, 0);
        if (gantry_steal_granted(answer)) {
            gantry_steal_block(answer, words);
            words[3] = 1;
        }
        gantry_steal_tell(answer, 0, 0, words);
        gantry_steal_tell(answer, 0, rule == STEAL_CLUSTER_NO_SUCH_BLOCK ? 2 : 1, words);
    }
    gantry_cluster_sync();
    if (asks || rule != STEAL_CLUSTER_LEAVES_LATE) {
        gantry_steal_hear(answer, 0, words);
    }
#else
    (void)rule;
#endif
}

/* One thread, which uses the emulator's functions directly. */
GANTRY_KERNEL(steal_break, (uint32_t rule))
{
#if GANTRY_STEAL_FORM == 2
    __shared__ __align__(16) unsigned long long answers[4];
    __shared__ unsigned long long barriers[2];
    uint32_t stolen[3];
    void *first = answers, *second = answers + 2, *bar = barriers, *other_bar = barriers + 1;
    barriers[0] = 0;
    if (rule != STEAL_NO_BARRIER) {
        gantry_steal_init(bar);
        gantry_steal_init(other_bar);
    }
    if (rule == STEAL_WAIT_FOR_NOTHING) {
        gantry_steal_wait(bar, 0);
    }
    gantry_steal_send(first, bar);
    if (rule == STEAL_READ_EARLY) {
        (void)gantry_steal_granted(first);
    } else if (rule == STEAL_BARRIER_IN_USE) {
        gantry_steal_send(second, bar);
    } else if (rule == STEAL_TWO_IN_FLIGHT) {
        gantry_steal_send(second, other_bar);
        gantry_steal_wait(other_bar, 0);
        if (gantry_steal_granted(second)) {
            gantry_steal_block(second, stolen);
        }
    } else if (rule == STEAL_END_WITHOUT_WAITING) {
        return;
    }
    gantry_steal_wait(bar, 0);
    if (rule == STEAL_END_WITHOUT_LOOKING) {
        return;
    }
    if (rule == STEAL_WRITE_OVER) {
        gantry_steal_send(first, bar);
    }
    bool granted = gantry_steal_granted(first);
    if (granted || rule == STEAL_BLOCK_OF_REFUSAL) {
        gantry_steal_block(first, stolen);
    }
    if (!granted && rule == STEAL_ASK_AFTER_REFUSAL) {
        gantry_steal_send(first, bar);
    }
#else
    (void)rule;
#endif
}
