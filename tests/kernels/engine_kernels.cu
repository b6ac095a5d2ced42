/* SPDX-License-Identifier: MIT */
/* Kernels that exercise every part of the dialect; test_exec.c runs them. */
#include "tests/kernels/engine_kernels.h"

#include <gantry/kernel.h>
#include <gantry/kernel/groups.h>

static __device__ inline uint32_t block_thread(void)
{
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

GANTRY_KERNEL(no_parameters, ())
{
}

GANTRY_KERNEL(parameters, (struct parameters_seen *out, char c, short s, int i, long long l, float f, double d,
                           struct triple t, struct bulky b, const uint32_t *p))
{
    out->c = c;
    out->s = s;
    out->i = i;
    out->l = l;
    out->f = f;
    out->d = d;
    out->t = t;
    out->b = b;
    out->p = p;
}

GANTRY_KERNEL(indices, (struct place *out))
{
    uint32_t block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    struct place *p = &out[block * blockDim.x * blockDim.y * blockDim.z + block_thread()];
    p->thread[0] = threadIdx.x;
    p->thread[1] = threadIdx.y;
    p->thread[2] = threadIdx.z;
    p->block[0] = blockIdx.x;
    p->block[1] = blockIdx.y;
    p->block[2] = blockIdx.z;
    p->sm = gantry_smid();
    p->lane = gantry_lane();
}

GANTRY_KERNEL_BOUNDS(reduce_shared, 1024, (const uint32_t *in, uint32_t *out))
{
    __shared__ uint32_t part[1024];
    uint32_t i = threadIdx.x;
    part[i] = in[blockIdx.x * blockDim.x + i];
    __syncthreads();
    for (uint32_t half = blockDim.x / 2; half != 0; half /= 2) {
        if (i < half) {
            part[i] += part[i + half];
        }
        __syncthreads();
    }
    if (i == 0) {
        out[blockIdx.x] = part[0];
    }
}

/* In every round each thread takes its neighbour's value; the sum is wrong unless both barriers hold all
 * threads. */
GANTRY_KERNEL(rotate, (uint32_t *data, uint32_t rounds))
{
    uint32_t i = threadIdx.x;
    for (uint32_t r = 0; r < rounds; r++) {
        uint32_t neighbour = data[(i + 1) % blockDim.x];
        __syncthreads();
        data[i] = neighbour;
        __syncthreads();
    }
}

GANTRY_KERNEL(reverse_dynamic, (uint32_t *data))
{
    GANTRY_DYNAMIC_SHARED(uint32_t, tile);
    uint32_t i = threadIdx.x;
    tile[i] = data[i];
    __syncthreads();
    data[i] = tile[blockDim.x - 1 - i];
}

GANTRY_KERNEL(shuffles, (uint64_t *out, uint32_t kind, uint32_t mask, int operand, int width))
{
    uint32_t i = block_thread();
    uint32_t lane = i % 32;
    if ((mask >> lane & 1) == 0) {
        return;
    }
    unsigned long long wide = 0x1000000010000ull * (i + 1);
    int narrow = (int)i + 1;
    float real = 0.5f * (float)i;
    if (kind == 0) {
        wide = __shfl_sync(mask, wide, operand, width);
        narrow = __shfl_sync(mask, narrow, operand, width);
        real = __shfl_sync(mask, real, operand, width);
    } else if (kind == 1) {
        wide = __shfl_up_sync(mask, wide, (unsigned)operand, width);
        narrow = __shfl_up_sync(mask, narrow, (unsigned)operand, width);
        real = __shfl_up_sync(mask, real, (unsigned)operand, width);
    } else if (kind == 2) {
        wide = __shfl_down_sync(mask, wide, (unsigned)operand, width);
        narrow = __shfl_down_sync(mask, narrow, (unsigned)operand, width);
        real = __shfl_down_sync(mask, real, (unsigned)operand, width);
    } else {
        wide = __shfl_xor_sync(mask, wide, operand, width);
        narrow = __shfl_xor_sync(mask, narrow, operand, width);
        real = __shfl_xor_sync(mask, real, operand, width);
    }
    /* the number of the source lane in the block, if the three exchanges agree on it */
    uint64_t source = wide / 0x1000000010000ull - 1;
    out[i] = (uint64_t)narrow == source + 1 && real == 0.5f * (float)source ? source : ~(uint64_t)0;
}

/* Two halves of a warp, each in its own branch with its own mask, and then the whole warp. */
GANTRY_KERNEL(halves, (uint32_t *out))
{
    uint32_t lane = threadIdx.x % 32;
    uint32_t sum = lane;
    if (lane < 16) {
        for (int d = 8; d != 0; d /= 2) {
            sum += __shfl_xor_sync(0x0000ffffu, sum, d);
        }
    } else {
        sum *= 2;
        for (int d = 1; d != 16; d *= 2) {
            sum += __shfl_xor_sync(0xffff0000u, sum, d);
        }
    }
    __syncwarp();
    out[threadIdx.x] = sum + __shfl_xor_sync(0xffffffffu, sum, 16);
}

GANTRY_KERNEL(ballots, (uint32_t *out))
{
    uint32_t i = threadIdx.x;
    if (i % 32 == 5) {
        return; /* nobody waits for exited lanes, and they do not vote */
    }
    uint32_t odd = __ballot_sync(0xffffffffu, (int)(i & 1));
    int any = __any_sync(0xffffffffu, i == 3);
    int all = __all_sync(0xffffffffu, i != 3);
    out[i] = odd ^ (any ? 0x40000000u : 0) ^ (all ? 0x10000000u : 0);
}

GANTRY_KERNEL(atomics, (struct atomics_seen *a))
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&a->sum_int, (int)(i % 7) - 3);
    atomicAdd(&a->sum_unsigned, i);
    atomicAdd(&a->sum_wide, 0x100000001ull);
    atomicAdd(&a->sum_float, 0.25f);
    atomicAdd(&a->sum_double, 1.0 / 4294967296.0);
    atomicSub(&a->sub_int, 2);
    atomicMax(&a->max_int, (int)i - 100);
    atomicMin(&a->min_int, 100 - (int)i);
    atomicMax(&a->max_unsigned, i);
    atomicMin(&a->min_unsigned, 0xffffffffu - i);
    atomicMax(&a->max_wide, 0x100000000ull * i);
    atomicMin(&a->min_wide, ~0ull - i);
    atomicOr(&a->bits_or, 1u << (i % 32));
    atomicAnd(&a->bits_and, ~(1u << (i % 16)));
    atomicXor(&a->bits_xor, i);
    unsigned seen = 0; /* a wrong guess: the first exchange shows it */
    for (;;) {
        unsigned found = atomicCAS(&a->cas, seen, seen + 3);
        if (found == seen) {
            break;
        }
        seen = found;
    }
    /* all values that were taken out, and those that are left, are each number once */
    atomicAdd(&a->exchanged, (unsigned long long)atomicExch(&a->exchange, i + 1));
}

/* Of every 32 threads only the first `stay` come to the barriers. */
GANTRY_KERNEL(early_exit, (uint32_t *out, uint32_t stay))
{
    __shared__ uint32_t count;
    if (threadIdx.x == 0) {
        count = 0;
    }
    if (threadIdx.x % 32 >= stay) {
        out[threadIdx.x] = 1000;
        return;
    }
    __syncthreads();
    atomicAdd(&count, 1u);
    __syncthreads();
    out[threadIdx.x] = count;
}

GANTRY_KERNEL(stuck_warp, (uint32_t *out))
{
    if (threadIdx.x < 8) {
        __syncwarp(0x000000ffu);
    } else {
        __syncwarp(0xffffffffu); /* this waits for the first eight, which wait at a barrier below */
    }
    __syncthreads();
    out[threadIdx.x] = 1;
}

GANTRY_KERNEL(outside_mask, (uint32_t *out))
{
    out[threadIdx.x] = __ballot_sync(0x0000fffeu, 1);
}

GANTRY_KERNEL(arithmetic, (struct arithmetic_seen *out, float x, int i))
{
    out->root = sqrtf(x);
    out->inverse_root = rsqrtf(x);
    out->absolute = fabsf(-x);
    out->floor = floorf(-x);
    out->ceiling = ceilf(-x);
    out->nearest = rintf(x + 0.5f);
    out->fused = __fmaf_rn(x, x, 1.0f);
    out->sum = __fadd_rn(__fmul_rn(x, x), 1.0f);
    out->rounded = __float2int_rn(-2.5f * x);
    out->truncated = __float2int_rz(-1.75f * x);
    out->least = min(i, 3);
    out->most = max((unsigned)i, 3u);
    out->ones = __popc((unsigned)i);
    out->leading = __clz(i);
    out->first = __ffs(i);
    out->shifted = __funnelshift_r(0x89abcdefu, 0x01234567u, 8);
    uint4 v = make_uint4(1, 2, 3, 4);
    out->vector = v.x + 10 * v.y + 100 * v.z + 1000 * v.w;
    out->float_int = __float_as_int(-x);
    out->float_uint = __float_as_uint(-x);
    out->int_float = __int_as_float(0x3fc00000);
    out->uint_float = __uint_as_float(0xbfc00000u);
    out->double_wide = __double_as_longlong(-(double)x);
    out->wide_double = __longlong_as_double(0x3ff8000000000000ll);
    out->timer_runs = gantry_global_timer() != 0;
}

/* Reverses each block's threads in shared memory, by the names of cooperative groups. */
GANTRY_KERNEL(groups, (struct place *out, uint32_t *sizes))
{
    __shared__ struct place tile[256];
    const cooperative_groups::thread_block block = cooperative_groups::this_thread_block();
    const dim3 thread = block.thread_index(), group = block.group_index(), size = block.dim_threads();
    struct place *to = out + group.x * block.num_threads();
    tile[block.thread_rank()] = place{{thread.x, thread.y, thread.z}, {group.x, group.y, group.z}, 0, 0};
    block.sync();
    to[block.thread_rank()] = tile[block.size() - 1 - block.thread_rank()];
    cooperative_groups::sync(block);
    if (block.thread_rank() == 0) {
        sizes[group.x] = size.x * 10000 + size.y * 100 + block.group_dim().z;
    }
}
