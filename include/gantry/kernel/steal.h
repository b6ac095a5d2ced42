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
 * All threads of a block make the calls together; blocks and grid are one-dimensional (x).  A request may be
 * refused: when no block is left, or when a kernel of higher priority wants the multiprocessor.  Then the
 * block ends and the hardware starts what remains; that is all there is to it.
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
static __device__ __forceinline__ uint32_t gantry_steal_block(gantry_steal_place answer)
{
    uint32_t block;
    asm volatile("{\n\t"
                 ".reg .b128 answer;\n\t"
                 "ld.shared.b128 answer, [%1];\n\t"
                 "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %0, answer;\n\t"
                 "}"
                 : "=r"(block)
                 : "r"(answer)
                 : "memory");
    asm volatile("fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;" ::: "memory");
    return block;
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

GANTRY_KERNEL_FUNCTION uint32_t gantry_steal_block(gantry_steal_place answer)
{
    return gantry_self->ops->steal_block(gantry_self, answer);
}

#endif

#if GANTRY_STEAL_FORM != 0

/** The stealing of one block. */
struct gantry_steal {
    gantry_steal_place answer;  /* of 16 bytes */
    gantry_steal_place barrier; /* that its arrival completes */
    uint32_t phase;
};

#define GANTRY_STEAL(name)                                        \
    __shared__ __align__(16) unsigned long long name##_answer[2]; \
    __shared__ unsigned long long name##_barrier;                 \
    gantry_steal name;                                            \
    gantry_steal_begin(&name, name##_answer, &name##_barrier)

static __device__ __forceinline__ void gantry_steal_begin(gantry_steal *steal, void *answer, void *barrier)
{
    steal->answer = gantry_steal_place_of(answer);
    steal->barrier = gantry_steal_place_of(barrier);
    steal->phase = 0;
    if (gantry_steal_possible() && threadIdx.x == 0) {
        gantry_steal_init(steal->barrier);
    }
}

/** Ask for a block.  Never again after a refusal. */
static __device__ __forceinline__ void gantry_steal_request(gantry_steal *steal)
{
    if (!gantry_steal_possible()) {
        return;
    }
    __syncthreads(); /* the barrier is initialised, and everybody has read the answer before */
    if (threadIdx.x == 0) {
        gantry_steal_send(steal->answer, steal->barrier);
    }
}

/** Wait for the answer: true and the block to do next, or false: end. */
static __device__ __forceinline__ bool gantry_steal_take(gantry_steal *steal, uint32_t *block)
{
    if (!gantry_steal_possible()) {
        return false;
    }
    gantry_steal_wait(steal->barrier, steal->phase);
    steal->phase ^= 1;
    if (!gantry_steal_granted(steal->answer)) {
        return false;
    }
    *block = gantry_steal_block(steal->answer);
    return true;
}

#else

struct gantry_steal {
    uint32_t unused;
};

#define GANTRY_STEAL(name) gantry_steal name = {0}

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

#endif
#endif /* __cplusplus */
#endif
