/* SPDX-License-Identifier: MIT */
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
 * In a launch with clusters the device hands out whole clusters: one request answers for all blocks of a
 * cluster, and each of them does the unit at its own place in the cluster that was taken over.  So there all
 * threads of all blocks of a cluster make the calls together, and each call of gantry_steal_take() is a
 * barrier of the cluster as gantry_cluster_sync() is.  The launch must not state a `preferred_cluster`: no
 * answer says which of the two sizes the cluster has that it names.
 *
 * Devices of compute capability 10.0 and later steal, emulated ones too.  On older ones every request is
 * refused, so that each block does its own unit: the same results by the same rules.  In a cooperative launch
 * all blocks have begun, and there is nothing to take.
 *
 * The loop and its rules are the same for both; only what lies under them differs: instructions of the
 * device, or calls of the emulator, which ends the launch as failed when one of the rules is broken.
 */
#ifndef GANTRY_KERNEL_STEAL_H
#define GANTRY_KERNEL_STEAL_H

#ifdef __cplusplus

#include <gantry/kernel.h>
/* after kernel.h */
#include <gantry/kernel/record.h>

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

/* The block's place in its cluster. */
static __device__ __forceinline__ void gantry_steal_own_place(uint32_t place[3])
{
    asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(place[0]));
    asm("mov.u32 %0, %%cluster_ctaid.y;" : "=r"(place[1]));
    asm("mov.u32 %0, %%cluster_ctaid.z;" : "=r"(place[2]));
}

/* Leave four words in a place of the cluster's block of that rank, who hears them behind the next barrier of
 * the cluster.  The form of the request that tells all blocks by itself (.multicast::cluster::all) is not for
 * every device that steals: sm_100 has it only as sm_100a and sm_100f. */
static __device__ __forceinline__ void gantry_steal_tell(gantry_steal_place told, uint32_t slot,
                                                         uint32_t rank, const uint32_t words[4])
{
    asm volatile("{\n\t"
                 ".reg .b32 there;\n\t"
                 "mapa.shared::cluster.u32 there, %0, %1;\n\t"
                 "st.shared::cluster.v4.u32 [there], {%2, %3, %4, %5};\n\t"
                 "}" ::"r"(told + 16 * slot),
                 "r"(rank), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
}

static __device__ __forceinline__ void gantry_steal_hear(gantry_steal_place told, uint32_t slot,
                                                         uint32_t words[4])
{
    asm volatile("ld.shared::cta.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(told + 16 * slot)
                 : "memory");
}

#elif GANTRY_STEAL_FORM == 2

typedef void *gantry_steal_place;

GANTRY_KERNEL_FUNCTION gantry_steal_place gantry_steal_place_of(void *shared)
{
    return shared;
}

GANTRY_KERNEL_FUNCTION bool gantry_steal_possible(void)
{
    return gantry_self->can_steal != 0 || gantry_self->can_steal_clusters != 0;
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

GANTRY_KERNEL_FUNCTION void gantry_steal_own_place(uint32_t place[3])
{
    for (int i = 0; i < 3; i++) {
        place[i] = gantry_self->block_index[i] % gantry_self->cluster_size[i];
    }
}

/* The emulator keeps the words: shared memory of a fixed size is not seen by other blocks there. */
GANTRY_KERNEL_FUNCTION void gantry_steal_tell(gantry_steal_place told, uint32_t slot, uint32_t rank,
                                              const uint32_t words[4])
{
    (void)told;
    gantry_self->ops->steal_tell(gantry_self, slot, rank, words);
}

GANTRY_KERNEL_FUNCTION void gantry_steal_hear(gantry_steal_place told, uint32_t slot, uint32_t words[4])
{
    (void)told;
    gantry_self->ops->steal_hear(gantry_self, slot, words);
}

#endif

#if GANTRY_STEAL_FORM != 0

/* Where the records of the launch lie is what a kernel calls gantry_cta_found behind GANTRY_KERNEL_START; one
 * without that macro finds this function by the name, and leaves no records. */
static __device__ inline void *gantry_cta_found(void)
{
    return nullptr;
}

static __device__ inline void *gantry_steal_records(void *(*)(void))
{
    return nullptr;
}

static __device__ inline void *gantry_steal_records(void *records)
{
    return records;
}

/** The stealing of one block. */
struct gantry_steal {
    gantry_steal_place answer;  /* of 16 bytes */
    gantry_steal_place barrier; /* that its arrival completes */
    gantry_steal_place told;    /* in clusters: what the first block says of the answer, in two turns */
    void *records;              /* of this launch's blocks, see profile_kernel.h */
    uint32_t phase;
    uint32_t blocks; /* of the cluster */
    bool possible;   /* the same for all threads of the grid */
    bool asks;       /* the thread that makes the requests: one of each cluster */
};

#define GANTRY_STEAL(name) GANTRY_STEAL_IN(name, gridDim.y == 1 && gridDim.z == 1)
#define GANTRY_STEAL_3D(name) GANTRY_STEAL_IN(name, true)
#define GANTRY_STEAL_IN(name, wanted)                             \
    __shared__ __align__(16) unsigned long long name##_answer[6]; \
    __shared__ unsigned long long name##_barrier;                 \
    gantry_steal name;                                            \
    gantry_steal_begin(&name, name##_answer, &name##_barrier, gantry_steal_records(gantry_cta_found), wanted)

static __device__ __forceinline__ void gantry_steal_begin(gantry_steal *steal, void *answer, void *barrier,
                                                          void *records, bool wanted)
{
    steal->answer = gantry_steal_place_of(answer);
    steal->barrier = gantry_steal_place_of(barrier);
    steal->told = gantry_steal_place_of(static_cast<unsigned long long *>(answer) + 2);
    steal->records = records;
    steal->phase = 0;
    steal->blocks = gantry_cluster_blocks();
    steal->possible = wanted && gantry_steal_possible();
    steal->asks = threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0 &&
                  (steal->blocks == 1 || gantry_cluster_rank() == 0);
    if (steal->possible && steal->asks) {
        gantry_steal_init(steal->barrier);
    }
    if (steal->possible && steal->blocks != 1) {
        gantry_cluster_sync(); /* all have begun, so that they can be told */
    }
}

/* The block is done here, and not lost, although it leaves no record: its place says so. */
static __device__ __forceinline__ void gantry_steal_note(const gantry_steal *steal, const uint32_t block[3])
{
    if (gantry_cta_records(steal->records) && threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
        const uint32_t number = block[0] + gridDim.x * (block[1] + gridDim.y * block[2]);
        __stcs((uint4 *)gantry_cta_address(steal->records) + number, make_uint4(0, 0, GANTRY_CTA_TAKEN, 0));
    }
}

/** Ask for a block.  Never again after a refusal. */
static __device__ __forceinline__ void gantry_steal_request(gantry_steal *steal)
{
    if (!steal->possible) {
        return;
    }
    if (steal->blocks == 1) {
        __syncthreads(); /* the barrier is initialised, and everybody has read the answer before */
    }
    if (steal->asks) {
        gantry_steal_send(steal->answer, steal->barrier);
    }
}

/* Wait for the answer, in a cluster: the thread that asked tells all blocks which cluster it got, and each
 * finds its own block there.  What is told in one turn is read before the barrier of the next one, and
 * written over behind that. */
static __device__ __forceinline__ bool gantry_steal_take_cluster(gantry_steal *steal, uint32_t block[3])
{
    uint32_t words[4] = {0, 0, 0, 0};
    if (steal->asks) {
        gantry_steal_wait(steal->barrier, steal->phase);
        if (gantry_steal_granted(steal->answer)) {
            gantry_steal_block(steal->answer, words);
            words[3] = 1;
        }
        for (uint32_t rank = 0; rank < steal->blocks; rank++) {
            gantry_steal_tell(steal->told, steal->phase, rank, words);
        }
    }
    gantry_cluster_sync();
    gantry_steal_hear(steal->told, steal->phase, words);
    steal->phase ^= 1;
    if (words[3] == 0) {
        return false;
    }
    uint32_t place[3];
    gantry_steal_own_place(place);
    for (int i = 0; i < 3; i++) {
        block[i] = words[i] + place[i];
    }
    return true;
}

static __device__ __forceinline__ bool gantry_steal_take_block(gantry_steal *steal, uint32_t block[3])
{
    gantry_steal_wait(steal->barrier, steal->phase);
    steal->phase ^= 1;
    if (!gantry_steal_granted(steal->answer)) {
        return false;
    }
    gantry_steal_block(steal->answer, block);
    return true;
}

/** Wait for the answer: true and the block to do next (x, y, z), or false: end. */
static __device__ __forceinline__ bool gantry_steal_take_3d(gantry_steal *steal, uint32_t block[3])
{
    if (!steal->possible) {
        return false;
    }
    const bool any =
        steal->blocks != 1 ? gantry_steal_take_cluster(steal, block) : gantry_steal_take_block(steal, block);
    if (any) {
        gantry_steal_note(steal, block);
    }
    return any;
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
