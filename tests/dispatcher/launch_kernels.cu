/* SPDX-License-Identifier: MIT */
/* Kernels that are launched with options. */
#include <gantry/kernel.h>

/* out[block] = the number of the next block of the cluster, plus 1. */
GANTRY_KERNEL(next_in_cluster, (uint32_t * out))
{
    GANTRY_DYNAMIC_SHARED(uint32_t, shared);
    if (threadIdx.x == 0) {
        shared[0] = blockIdx.x + 1u;
    }
    gantry_cluster_sync();
    if (threadIdx.x == 0) {
        out[blockIdx.x] =
            *gantry_cluster_shared(shared, (gantry_cluster_rank() + 1u) % gantry_cluster_blocks());
    }
    gantry_cluster_sync();
}

/* seen[block] = how many blocks had come when all had come. */
GANTRY_KERNEL(meet_in_grid, (uint32_t * word, uint32_t *count, uint32_t *seen))
{
    if (threadIdx.x == 0) {
        atomicAdd(count, 1u);
    }
    gantry_grid_sync(word);
    if (threadIdx.x == 0) {
        seen[blockIdx.x] = atomicAdd(count, 0u);
    }
}

static __device__ void spin(uint64_t steps)
{
    const uint64_t begin = gantry_sm_clock();
    while (gantry_sm_clock() - begin < steps) {
    }
}

/* data = 3 * data + 1, behind earlier work; as much time passes before that as after it. */
GANTRY_KERNEL_EARLY(early_step, (uint32_t * data, uint64_t steps))
{
    gantry_let_next_start();
    spin(steps);
    gantry_wait_for_earlier();
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        data[0] = 3u * data[0] + 1u;
    }
    spin(steps);
}

/* The same; stamps[2n] and stamps[2n + 1]: when the n-th such kernel has begun, and when it has ended. */
GANTRY_KERNEL_EARLY(early_stamp, (uint32_t * data, uint64_t *stamps, uint64_t steps))
{
    const uint64_t begin = gantry_global_timer();
    gantry_let_next_start();
    spin(steps);
    gantry_wait_for_earlier();
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        const uint32_t number = data[1]++;
        data[0] = 3u * data[0] + 1u;
        spin(steps);
        stamps[2u * number] = begin;
        stamps[2u * number + 1u] = gantry_global_timer();
    }
}

/* This breaks the rule: its second block never waits. */
GANTRY_KERNEL_EARLY(overtaking, (uint32_t * data))
{
    if (blockIdx.x == 0) {
        gantry_wait_for_earlier();
    }
    data[blockIdx.x] = 1u;
}

/* The two blocks of a cluster never meet. */
GANTRY_KERNEL(missing_meeting, (uint32_t * data))
{
    if (blockIdx.x == 0) {
        gantry_grid_sync(data);
    }
}
