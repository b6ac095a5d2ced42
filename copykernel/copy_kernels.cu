/* SPDX-License-Identifier: MIT */
/* The copy kernel: any number of copies and fills at once, byte-exact, for any alignment.
 *
 * The host has cut the batch into units of about equal cost (format.h); a warp does one at a time.  It
 * fetches 32 pieces at a time, one per lane, so that pieces in host memory cost one trip over the link per
 * 32.  Then teams of lanes do a piece each (moves.h): eight lanes when all 32 are small, otherwise the whole
 * warp.
 *
 * Who does which unit: blocks for host memory are few, some for each direction, and draw units from a counter.  The others do one
 * unit per warp and the hardware hands them out; from compute capability 10.0 on a block takes over blocks
 * that have not started (steal.h).  If their number is limited too, they also draw from a counter. */
#include "copykernel/format.h"
#include "copykernel/list_check_kernels.h"
#include "copykernel/list_moves.h"
#include "copykernel/moves.h"

#include <gantry/kernel.h>
/* after kernel.h */
#include <gantry/kernel/steal.h>
#include <gantry/profile_kernel.h>

/* A block that does a unit with all its warps shares pieces from this size on among them. */
#define SHARED_BYTES 16384u

static __device__ __forceinline__ uint4 job_pattern(const job &work, const uint64_t *words)
{
    uint32_t word = (uint32_t)work.source;
    if (work.kind != 3) {
        return make_uint4(word, word, word, word);
    }
    uint64_t low = words[word], high = words[word + 1];
    return make_uint4((uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32));
}

/* Make a job of bytes [from, to) of a piece. */
static __device__ __forceinline__ job make_job(uint64_t word0, uint64_t word1, uint32_t from, uint32_t to)
{
    job work;
    work.kind = (uint32_t)(word1 >> GY_COPY_LONG_BIT);
    work.dest = (word0 >> 48 | (word1 & 0xffffffffu) << 16) + from;
    work.source = (word0 & ((1ull << GY_COPY_ADDRESS_BITS) - 1)) + (work.kind != 0 ? 0 : from);
    work.bytes = to - from;
    return work;
}

/* Get the job of lane `lane`; jobs of lanes that have none are empty. */
static __device__ __forceinline__ job job_of(const job &mine, uint32_t lane)
{
    job work;
    work.dest = __shfl_sync(FULL, mine.dest, (int)lane);
    work.source = __shfl_sync(FULL, mine.source, (int)lane);
    work.bytes = __shfl_sync(FULL, mine.bytes, (int)lane);
    work.kind = __shfl_sync(FULL, mine.kind, (int)lane);
    return work;
}

/* What lane by lane the first of the warps that share a unit has, for all of them: one trip over the link
 * instead of one for each.  `shared` has 32 places. */
static __device__ __forceinline__ uint4 share_out(uint4 mine, share of, uint4 *shared)
{
    if (of.parts == 1) {
        return mine;
    }
    __syncthreads(); /* all warps have read what was there */
    if (of.part == 0) {
        shared[gantry_lane()] = mine;
    }
    __syncthreads();
    return shared[gantry_lane()];
}

/* All lanes: where the unit begins, and where the next one does. */
static __device__ __forceinline__ uint4 load_bounds(const uint64_t *words, const gy_copy_shape &shape,
                                                    uint32_t unit, share of, uint4 *shared)
{
    uint4 bounds = {0, 0, 0, 0};
    if (of.part == 0) {
        const uint64_t begin = words[shape.starts + unit], end = words[shape.starts + unit + 1];
        bounds = make_uint4((uint32_t)begin, (uint32_t)(begin >> 32), (uint32_t)end, (uint32_t)(end >> 32));
    }
    return share_out(bounds, of, shared);
}

/* Each lane a piece: number `place`, while that is below `stop`. */
static __device__ __forceinline__ uint4 load_piece(const uint64_t *words, uint32_t place, uint32_t stop, share of,
                                                   uint4 *shared)
{
    uint4 piece = {0, 0, 0, 0};
    if (of.part == 0 && place < stop) {
        piece = *(const uint4 *)(words + 2 * (size_t)place);
    }
    return share_out(piece, of, shared);
}

static __device__ __forceinline__ void do_unit(const uint64_t *words, const gy_copy_shape &shape,
                                               uint32_t unit, share of, uint4 *shared)
{
    const uint4 bounds = load_bounds(words, shape, unit, of, shared);
    const uint32_t first = bounds.x, last = bounds.z; /* `last` only up to byte bounds.w */
    const uint32_t stop = last + (bounds.w != 0 ? 1 : 0);
    const uint32_t lane = gantry_lane();
    for (uint32_t base = first; base < stop; base += 32) {
        uint32_t place = base + lane;
        uint4 piece = load_piece(words, place, stop, of, shared);
        job mine = {0, 0, 0, 0};
        if (place < stop) {
            uint64_t word0 = piece.x | (uint64_t)piece.y << 32, word1 = piece.z | (uint64_t)piece.w << 32;
            uint32_t bytes = piece.w & ((1u << 30) - 1);
            mine = make_job(word0, word1, place == first ? bounds.y : 0, place == last ? bounds.w : bytes);
        }
        uint32_t count = min(stop - base, 32u);
        if (count > 1 && !__any_sync(FULL, mine.bytes > SMALL_BYTES)) {
            const uint32_t teams = 32 / SMALL_TEAM;
            for (uint32_t k = of.part * teams; k < count; k += of.parts * teams) {
                job work = job_of(mine, k + lane / SMALL_TEAM);
                do_job<SMALL_TEAM>(work, job_pattern(work, words));
            }
        } else {
            for (uint32_t k = 0; k < count; k++) {
                job work = job_of(mine, k);
                const bool together = work.bytes >= SHARED_BYTES;
                if (together || k % of.parts == of.part) {
                    do_job<32>(work, job_pattern(work, words), together ? of : share{0, 1});
                }
            }
        }
    }
}

/* The units of a warp. */
struct source_of_units {
    bool draws;          /* from the counter of the group; false: it has one unit for each block it gets */
    uint32_t group;      /* GY_COPY_FROM_HOST, ... */
    uint32_t first, end; /* units */
    uint32_t warps;      /* the warps that draw together */
    share of;            /* the part of its units that the warp does */
    uint32_t unit;       /* the unit to do now; from `end` on: none */
};

static __device__ __forceinline__ source_of_units find_units(const gy_copy_shape &shape, uint32_t block)
{
    const uint32_t warps = blockDim.x / 32, warp = threadIdx.x / 32;
    const uint32_t from_host = shape.blocks[GY_COPY_FROM_HOST], to_host = shape.blocks[GY_COPY_TO_HOST];
    source_of_units s = {};
    uint32_t blocks;
    if (block < from_host) {
        s.group = GY_COPY_FROM_HOST;
        s.end = shape.ends[GY_COPY_FROM_HOST];
        blocks = from_host;
    } else if (block - from_host < to_host) {
        block -= from_host;
        s.group = GY_COPY_TO_HOST;
        s.first = shape.ends[GY_COPY_FROM_HOST];
        s.end = shape.ends[GY_COPY_TO_HOST];
        blocks = to_host;
    } else {
        block -= from_host + to_host;
        s.group = GY_COPY_WITHIN;
        s.first = shape.ends[GY_COPY_TO_HOST];
        s.end = shape.ends[GY_COPY_WITHIN];
        blocks = shape.blocks[GY_COPY_WITHIN];
    }
    s.draws = blocks != 0;
    s.warps = warps * blocks;
    s.unit = s.first + block * warps + warp;
    s.of = {0, 1};
    if (shape.wide != 0) {
        s.unit = block;
        s.of = {warp, warps};
    }
    return s;
}

/* The next unit: without counters every so-manieth. */
static __device__ __forceinline__ void draw_unit(source_of_units &s, gy_copy_counters *counters)
{
    uint32_t next = s.unit + s.warps;
    if (counters != nullptr) {
        next = gantry_lane() == 0 ? s.first + s.warps + atomicAdd(&counters->next[s.group], 1u) : 0;
        next = __shfl_sync(FULL, next, 0);
    }
    s.unit = next;
}

/* The last warp has seen all others finish drawing, so no warp touches the counters any more. */
static __device__ __forceinline__ void leave_counters(const source_of_units &s, gy_copy_counters *counters)
{
    if (counters != nullptr && gantry_lane() == 0 && atomicAdd(&counters->gone[s.group], 1u) == s.warps - 1) {
        /* Atomic, since no fence orders them behind the others' draws. */
        (void)atomicExch(&counters->next[s.group], 0u);
        (void)atomicExch(&counters->gone[s.group], 0u);
    }
}

static __device__ __forceinline__ void do_batch(const uint64_t *words, const gy_copy_shape &shape,
                                                gy_copy_counters *counters)
{
    __shared__ uint4 shared[32];
    uint32_t block = blockIdx.x;
    GANTRY_STEAL(steal);
    source_of_units s = find_units(shape, block);
    for (;;) {
        if (!s.draws) {
            gantry_steal_request(&steal);
        }
        if (s.unit < s.end) {
            do_unit(words, shape, s.unit, s.of, shared);
        }
        if (!s.draws) {
            if (!gantry_steal_take(&steal, &block)) {
                return;
            }
            s = find_units(shape, block); /* a block that draws does not steal any more */
        } else if (s.unit < s.end) {
            draw_unit(s, counters);
        } else {
            leave_counters(s, counters);
            return;
        }
    }
}

/* The same for recordings, where each block is to leave a record of its own: none takes over another. */
static __device__ __forceinline__ void do_batch_seen(const uint64_t *words, const gy_copy_shape &shape,
                                                     gy_copy_counters *counters)
{
    __shared__ uint4 shared[32];
    source_of_units s = find_units(shape, blockIdx.x);
    if (!s.draws && s.unit < s.end) {
        do_unit(words, shape, s.unit, s.of, shared);
    }
    while (s.draws && s.unit < s.end) {
        do_unit(words, shape, s.unit, s.of, shared);
        draw_unit(s, counters);
    }
    if (s.draws) {
        leave_counters(s, counters);
    }
}

#if GANTRY_KERNEL_FORM_DEVICE && defined(__clang__)
/* clang has no __grid_constant__, so every thread would copy all parameters to index them. */
#define DO_INLINE(batch, most, how)                                                                \
    __shared__ __attribute__((aligned(16))) uint64_t words[most];                                  \
    for (uint32_t i = threadIdx.x; i <= batch.shape.starts + batch.shape.ends[GY_COPY_WITHIN]; i += blockDim.x) { \
        words[i] = batch.words[i];                                                                 \
    }                                                                                              \
    __syncthreads();                                                                               \
    how(words, batch.shape, nullptr)
#else
#define DO_INLINE(batch, most, how) how(batch.words, batch.shape, nullptr)
#endif

/* A kernel and its twin for recordings, gantry_copy_..._seen. */
#define INLINE_KERNELS(name, type, most)                                                                 \
    GANTRY_KERNEL_BOUNDS(name, GY_COPY_BIG_BLOCK, (const GANTRY_GRID_CONSTANT type batch))               \
    {                                                                                                    \
        DO_INLINE(batch, most, do_batch);                                                                \
    }                                                                                                    \
    GANTRY_KERNEL_BOUNDS(name##_seen, GY_COPY_BIG_BLOCK,                                                 \
                         (const GANTRY_GRID_CONSTANT type batch, void *records, uint32_t id))            \
    {                                                                                                    \
        GANTRY_KERNEL_START(records, id);                                                                \
        DO_INLINE(batch, most, do_batch_seen);                                                           \
        GANTRY_KERNEL_STOP(records, id);                                                                 \
    }

#define TABLE_KERNELS(name, threads)                                                                     \
    GANTRY_KERNEL_BOUNDS(name, threads,                                                                  \
                         (const uint64_t *words, gy_copy_shape shape, gy_copy_counters *counters))       \
    {                                                                                                    \
        do_batch(words, shape, counters);                                                                \
    }                                                                                                    \
    GANTRY_KERNEL_BOUNDS(name##_seen, threads,                                                           \
                         (const uint64_t *words, gy_copy_shape shape, gy_copy_counters *counters,        \
                          void *records, uint32_t id))                                                   \
    {                                                                                                    \
        GANTRY_KERNEL_START(records, id);                                                                \
        do_batch_seen(words, shape, counters);                                                           \
        GANTRY_KERNEL_STOP(records, id);                                                                 \
    }

/* The batch is in the parameters. */
INLINE_KERNELS(gantry_copy_few, gy_copy_few, GY_COPY_FEW_WORDS)
INLINE_KERNELS(gantry_copy_inline, gy_copy_inline, GY_COPY_INLINE_WORDS)

/* Only nvcc's form takes this many parameters; the other forms are never launched. */
#if GANTRY_KERNEL_FORM_DEVICE && !defined(__clang__)
typedef gy_copy_many many_parameters;
#else
typedef gy_copy_few many_parameters;
#endif
INLINE_KERNELS(gantry_copy_many, many_parameters, GY_COPY_FEW_WORDS)

/* The batch is in memory that the device can read; `counters` may be NULL.  For blocks of the usual size,
 * which may have more registers, and for big ones. */
TABLE_KERNELS(gantry_copy_plain, GY_COPY_BLOCK)
TABLE_KERNELS(gantry_copy_table, GY_COPY_BIG_BLOCK)

/* Lists that the device reads (list_moves.h), of three arrays or of descriptors: all but the large copies; then
 * those.  `warps` are the first kernel's. */
#define LIST_KERNELS(name, form)                                                                           \
    GANTRY_KERNEL_BOUNDS(name, GY_COPY_BLOCK, (gy_copy_list_view list))                                  \
    {                                                                                                    \
        do_list<form>(list);                                                                            \
    }                                                                                                    \
    GANTRY_KERNEL_BOUNDS(name##_seen, GY_COPY_BLOCK, (gy_copy_list_view list, void *records, uint32_t id)) \
    {                                                                                                    \
        GANTRY_KERNEL_START(records, id);                                                                \
        do_list<form>(list);                                                                            \
        GANTRY_KERNEL_STOP(records, id);                                                                 \
    }                                                                                                    \
    GANTRY_KERNEL_BOUNDS(name##_large, GY_COPY_BLOCK, (gy_copy_list_view list, uint32_t warps))          \
    {                                                                                                    \
        do_large<form>(list, warps);                                                                    \
    }                                                                                                    \
    GANTRY_KERNEL_BOUNDS(name##_large_seen, GY_COPY_BLOCK,                                               \
                         (gy_copy_list_view list, uint32_t warps, void *records, uint32_t id))           \
    {                                                                                                    \
        GANTRY_KERNEL_START(records, id);                                                                \
        do_large<form>(list, warps);                                                                    \
        GANTRY_KERNEL_STOP(records, id);                                                                 \
    }
LIST_KERNELS(gantry_copy_arrays, LIST_OF_ARRAYS)
LIST_KERNELS(gantry_copy_descs, LIST_OF_DESCS)

/* Such lists before they are done, with GANTRY_CHECK (list_check_kernels.h). */
GANTRY_KERNEL_BOUNDS(gantry_copy_check_arrays, GY_COPY_BLOCK, (gy_copy_list_view list, gy_copy_checking checking))
{
    check_entries<LIST_OF_ARRAYS>(list, checking);
}
GANTRY_KERNEL_BOUNDS(gantry_copy_check_descs, GY_COPY_BLOCK, (gy_copy_list_view list, gy_copy_checking checking))
{
    check_entries<LIST_OF_DESCS>(list, checking);
}
GANTRY_KERNEL_BOUNDS(gantry_copy_sort_dests, GY_COPY_BLOCK, (gy_copy_checking checking, uint32_t run, uint32_t step))
{
    sort_step(checking, run, step);
}
GANTRY_KERNEL_BOUNDS(gantry_copy_find_overlaps, GY_COPY_BLOCK, (gy_copy_checking checking, uint32_t copies))
{
    find_overlaps(checking, copies);
}

/* One large copy: a tile for each block, whose warps work side by side.  Grids of small blocks that the hardware
 * hands out are faster here than blocks that stay. */
static __device__ __forceinline__ void do_one(uint64_t dest, uint64_t source, uint64_t bytes)
{
    const uint64_t odd = dest & 127, number = blockIdx.x;
    const uint64_t from = number == 0 ? 0 : number * GY_COPY_TILE - odd;
    const uint64_t to = min((number + 1) * GY_COPY_TILE - odd, bytes);
    const job work = {dest + from, source + from, (uint32_t)(to - from), 0};
    do_job<32>(work, make_uint4(0, 0, 0, 0), share{threadIdx.x / 32, blockDim.x / 32});
}
GANTRY_KERNEL_BOUNDS(gantry_copy_one, GY_COPY_BLOCK, (uint64_t dest, uint64_t source, uint64_t bytes))
{
    do_one(dest, source, bytes);
}
GANTRY_KERNEL_BOUNDS(gantry_copy_one_seen, GY_COPY_BLOCK,
                     (uint64_t dest, uint64_t source, uint64_t bytes, void *records, uint32_t id))
{
    GANTRY_KERNEL_START(records, id);
    do_one(dest, source, bytes);
    GANTRY_KERNEL_STOP(records, id);
}

/* The kernel for rows at even distances; it reads no list. */
GANTRY_KERNEL_BOUNDS(gantry_copy_rows, GY_COPY_BLOCK, (gy_copy_list_view list))
{
    do_list<LIST_OF_ROWS>(list);
}
GANTRY_KERNEL_BOUNDS(gantry_copy_rows_seen, GY_COPY_BLOCK, (gy_copy_list_view list, void *records, uint32_t id))
{
    GANTRY_KERNEL_START(records, id);
    do_list<LIST_OF_ROWS>(list);
    GANTRY_KERNEL_STOP(records, id);
}
