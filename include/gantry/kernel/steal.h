/**
 * @file steal.h
 * Work stealing between the thread blocks of one launch (Cluster Launch Control), for kernels written in
 * the dialect of <gantry/kernel.h>.
 *
 * The grid has one block per unit of work.  A block that is done with its unit takes over a block that has
 * not started yet instead of ending, which saves what starting a block costs and keeps the balance:
 *
 *     uint32_t block = blockIdx.x;
 *     GANTRY_STEAL(steal);
 *     do {
 *         gantry_steal_request(&steal);       before the work: the answer arrives meanwhile
 *         ... the work of `block`; threads must not leave the loop ...
 *     } while (gantry_steal_take(&steal, &block));
 *
 * All threads of a block make the calls together.  A request may be refused: when no block is left, or when a
 * kernel of higher priority wants the multiprocessor.  Then the block ends and the hardware starts what
 * remains; that is all there is to it.
 *
 * This form tells x alone, so in a grid with more than one row (gridDim.y or gridDim.z above 1) every request
 * is refused: right, but nothing is gained.  Such grids use the form with three numbers:
 *
 *     uint32_t block[3] = {blockIdx.x, blockIdx.y, blockIdx.z};
 *     GANTRY_STEAL_3D(steal);
 *     do {
 *         gantry_steal_request(&steal);
 *         ... the work of `block`, never of blockIdx ...
 *     } while (gantry_steal_take_3d(&steal, block));
 *
 * Devices of compute capability 10.0 and later steal, emulated ones too.  On older ones every request is
 * refused, so that each block does its own unit: the same results by the same rules.
 *
 * The loop and its rules are the same for both; only what lies under them differs: instructions of the
 * device, or calls of the emulator, which ends the launch as failed when one of the rules is broken.
 */
#ifndef GANTRY_KERNEL_STEAL_H
#define GANTRY_KERNEL_STEAL_H

#ifdef __cplusplus

#include <gantry/kernel.h>

#if defined(__CUDACC__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
#define GANTRY_STEAL_FORM 1 /* instructions */
#elif !GANTRY_KERNEL_FORM_DEVICE
#define GANTRY_STEAL_FORM 2 /* calls of the emulator */
#else
#define GANTRY_STEAL_FORM 0 /* no device of this kind steals */
#endif

#if GANTRY_STEAL_FORM == 1

typedef uint32_t gantry_steal_place; /* address in shared memory */

static __device__ __forceinline__ gantry_steal_place gantry_steal_place_of(void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}

static __device__ __forceinline__ bool gantry_steal_possible(void)
{
    return true;
}

static __device__ __forceinline__ void gantry_steal_init(gantry_steal_place barrier)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
}

/* The fence orders the other threads' reads of the last answer before the new one is written. */
static __device__ __forceinline__ void gantry_steal_send(gantry_steal_place answer,
                                                         gantry_steal_place barrier)
{
    asm volatile("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;" ::: "memory");
    asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 "
                 "[%0], [%1];" ::"r"(answer),
                 "r"(barrier)
                 : "memory");
    asm volatile("mbarrier.arrive.expect_tx.relaxed.cta.shared::cta.b64 _, [%0], 16;" ::"r"(barrier)
                 : "memory");
}

static __device__ __forceinline__ void gantry_steal_wait(gantry_steal_place barrier, uint32_t phase)
{
    uint32_t done = 0;
    while (!done) {
        asm volatile("{\n\t"
                     ".reg .pred p;\n\t"
                     "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, p;\n\t"
                     "}"
                     : "=r"(done)
                     : "r"(barrier), "r"(phase)
                     : "memory");
    }
}

static __device__ __forceinline__ bool gantry_steal_granted(gantry_steal_place answer)
{
    uint32_t granted;
    asm volatile("{\n\t"
                 ".reg .pred p;\n\t"
                 ".reg .b128 answer;\n\t"
                 "ld.shared.b128 answer, [%1];\n\t"
                 "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, answer;\n\t"
                 "selp.u32 %0, 1, 0, p;\n\t"
                 "}"
                 : "=r"(granted)
                 : "r"(answer)
                 : "memory");
    return granted != 0;
}

/* The fence behind the read is the other half of the one before the next request. */
static __device__ __forceinline__ void gantry_steal_block(gantry_steal_place answer, uint32_t block[3])
{
    asm volatile("{\n\t"
                 ".reg .b128 answer;\n\t"
                 "ld.shared.b128 answer, [%3];\n\t"
                 "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %0, answer;\n\t"
                 "clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %1, answer;\n\t"
                 "clusterlaunchcontrol.query_cancel.get_first_ctaid::z.b32.b128 %2, answer;\n\t"
                 "}"
                 : "=r"(block[0]), "=r"(block[1]), "=r"(block[2])
                 : "r"(answer)
                 : "memory");
    asm volatile("fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;" ::: "memory");
}

#elif GANTRY_STEAL_FORM == 2

typedef void *gantry_steal_place;

GANTRY_KERNEL_FUNCTION gantry_steal_place gantry_steal_place_of(void *shared)
{
    return shared;
}

GANTRY_KERNEL_FUNCTION bool gantry_steal_possible(void)
{
    return gantry_self->can_steal != 0;
}

GANTRY_KERNEL_FUNCTION void gantry_steal_init(gantry_steal_place barrier)
{
    gantry_self->ops->steal_begin(gantry_self, static_cast<uint64_t *>(barrier));
}

GANTRY_KERNEL_FUNCTION void gantry_steal_send(gantry_steal_place answer, gantry_steal_place barrier)
{
    gantry_self->ops->steal_send(gantry_self, answer, static_cast<uint64_t *>(barrier));
}

GANTRY_KERNEL_FUNCTION void gantry_steal_wait(gantry_steal_place barrier, uint32_t phase)
{
    gantry_self->ops->steal_wait(gantry_self, static_cast<uint64_t *>(barrier), phase);
}

GANTRY_KERNEL_FUNCTION bool gantry_steal_granted(gantry_steal_place answer)
{
    return gantry_self->ops->steal_granted(gantry_self, answer) != 0;
}

GANTRY_KERNEL_FUNCTION void gantry_steal_block(gantry_steal_place answer, uint32_t block[3])
{
    const uint32_t number = gantry_self->ops->steal_block(gantry_self, answer);
    block[0] = number % gridDim.x;
    block[1] = number / gridDim.x % gridDim.y;
    block[2] = number / gridDim.x / gridDim.y;
}

#endif

#if GANTRY_STEAL_FORM != 0

/** The stealing of one block. */
struct gantry_steal {
    gantry_steal_place answer;  /* of 16 bytes */
    gantry_steal_place barrier; /* that its arrival completes */
    uint32_t phase;
    bool possible; /* the same for all threads of the grid */
};

#define GANTRY_STEAL(name) GANTRY_STEAL_IN(name, gridDim.y == 1 && gridDim.z == 1)
#define GANTRY_STEAL_3D(name) GANTRY_STEAL_IN(name, true)
#define GANTRY_STEAL_IN(name, wanted)                             \
    __shared__ __align__(16) unsigned long long name##_answer[2]; \
    __shared__ unsigned long long name##_barrier;                 \
    gantry_steal name;                                            \
    gantry_steal_begin(&name, name##_answer, &name##_barrier, wanted)

static __device__ __forceinline__ void gantry_steal_begin(gantry_steal *steal, void *answer, void *barrier,
                                                          bool wanted)
{
    steal->answer = gantry_steal_place_of(answer);
    steal->barrier = gantry_steal_place_of(barrier);
    steal->phase = 0;
    steal->possible = wanted && gantry_steal_possible();
    if (steal->possible && threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
        gantry_steal_init(steal->barrier);
    }
}

/** Ask for a block.  Never again after a refusal. */
static __device__ __forceinline__ void gantry_steal_request(gantry_steal *steal)
{
    if (!steal->possible) {
        return;
    }
    __syncthreads(); /* the barrier is initialised, and everybody has read the answer before */
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
        gantry_steal_send(steal->answer, steal->barrier);
    }
}

/** Wait for the answer: true and the block to do next (x, y, z), or false: end. */
static __device__ __forceinline__ bool gantry_steal_take_3d(gantry_steal *steal, uint32_t block[3])
{
    if (!steal->possible) {
        return false;
    }
    gantry_steal_wait(steal->barrier, steal->phase);
    steal->phase ^= 1;
    if (!gantry_steal_granted(steal->answer)) {
        return false;
    }
    gantry_steal_block(steal->answer, block);
    return true;
}

/** The same in a grid of one row; never true in others. */
static __device__ __forceinline__ bool gantry_steal_take(gantry_steal *steal, uint32_t *block)
{
    uint32_t taken[3];
    bool any = gantry_steal_take_3d(steal, taken);
    if (any) {
        *block = taken[0];
    }
    return any;
}

#else

struct gantry_steal {
    uint32_t unused;
};

#define GANTRY_STEAL(name) gantry_steal name = {0}
#define GANTRY_STEAL_3D(name) gantry_steal name = {0}

static __device__ inline void gantry_steal_request(gantry_steal *steal)
{
    (void)steal;
}

static __device__ inline bool gantry_steal_take(gantry_steal *steal, uint32_t *block)
{
    (void)steal;
    (void)block;
    return false;
}

static __device__ inline bool gantry_steal_take_3d(gantry_steal *steal, uint32_t block[3])
{
    (void)steal;
    (void)block;
    return false;
}

#endif
#endif /* __cplusplus */
#endif
