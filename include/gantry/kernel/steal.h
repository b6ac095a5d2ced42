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
 * Devices of compute capability 10.0 and later steal.  On older ones, and on the emulated driver, every
 * request is refused, so that each block does its own unit: the same results by the same rules.
 */
#ifndef GANTRY_KERNEL_STEAL_H
#define GANTRY_KERNEL_STEAL_H

#ifdef __cplusplus

#include <gantry/kernel.h>

#if defined(__CUDACC__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000

/** The stealing of one block. */
struct gantry_steal {
    uint32_t answer;  /* shared-memory address of the 16-byte answer */
    uint32_t barrier; /* and of the barrier that it completes */
    uint32_t phase;
};

#define GANTRY_STEAL(name)                                        \
    __shared__ __align__(16) unsigned long long name##_answer[2]; \
    __shared__ unsigned long long name##_barrier;                 \
    gantry_steal name;                                            \
    gantry_steal_begin(&name, name##_answer, &name##_barrier)

static __device__ __forceinline__ void gantry_steal_begin(gantry_steal *steal, void *answer, void *barrier)
{
    steal->answer = (uint32_t)__cvta_generic_to_shared(answer);
    steal->barrier = (uint32_t)__cvta_generic_to_shared(barrier);
    steal->phase = 0;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(steal->barrier) : "memory");
    }
}

/** Ask for a block.  Never again after a refusal. */
static __device__ __forceinline__ void gantry_steal_request(gantry_steal *steal)
{
    __syncthreads(); /* the barrier is initialised, and everybody has read the answer before */
    if (threadIdx.x == 0) {
        asm volatile("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;" ::
                         : "memory");
        asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 "
                     "[%0], [%1];" ::"r"(steal->answer),
                     "r"(steal->barrier)
                     : "memory");
        asm volatile(
            "mbarrier.arrive.expect_tx.relaxed.cta.shared::cta.b64 _, [%0], 16;" ::"r"(steal->barrier)
            : "memory");
    }
}

/** Wait for the answer: true and the block to do next, or false: end. */
static __device__ __forceinline__ bool gantry_steal_take(gantry_steal *steal, uint32_t *block)
{
    uint32_t done = 0;
    while (!done) {
        asm volatile("{\n\t"
                     ".reg .pred p;\n\t"
                     "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, p;\n\t"
                     "}"
                     : "=r"(done)
                     : "r"(steal->barrier), "r"(steal->phase)
                     : "memory");
    }
    steal->phase ^= 1;
    uint32_t success, first;
    asm volatile("{\n\t"
                 ".reg .pred p;\n\t"
                 ".reg .b128 answer;\n\t"
                 "ld.shared.b128 answer, [%2];\n\t"
                 "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, answer;\n\t"
                 "selp.u32 %0, 1, 0, p;\n\t"
                 "mov.u32 %1, 0;\n\t"
                 "@p clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %1, answer;\n\t"
                 "}"
                 : "=r"(success), "=r"(first)
                 : "r"(steal->answer)
                 : "memory");
    if (!success) {
        return false;
    }
    *block = first;
    asm volatile("fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;" ::: "memory");
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
