/* SPDX-License-Identifier: MIT */
/**
 * @file ranges.h
 * Ranges inside a block: what its groups of warps do, and when (loading, computing, storing, …).  Included by
 * <gantry/profile_kernel.h>; everything works in all three forms of the dialect.
 *
 *     enum { LOAD, COMPUTE, STORE };
 *     GANTRY_KERNEL(tiles, (const float *in, float *out, void *profile, uint32_t id))
 *     {
 *         GANTRY_KERNEL_START(profile, id);
 *         GANTRY_KERNEL_RANGES(ranges, profile, 128); // groups of 128 threads, each with ranges of its own
 *         for (…) {
 *             GANTRY_KERNEL_RANGE(ranges, LOAD); // until the end of the scope
 *             …
 *         }
 *         GANTRY_KERNEL_RANGE_BEGIN(ranges, COMPUTE);
 *         …
 *         GANTRY_KERNEL_RANGE_END(ranges, COMPUTE);
 *         GANTRY_KERNEL_STOP(profile, id);
 *     }
 *
 * `profile` is what gantry_launch_profile_ranges() gave; with NULL, or what gantry_launch_profile() gave, no
 * range is recorded.  A range's id is a number below 65536, constant or not; gantry_profile_name_ranges()
 * gives the ids of a kernel their names.
 *
 * The groups of a block are equal parts of its threads, in the order of their index: of 128 threads each, or
 * as many as the macro says; 0 stands for the whole block.  Of each group the first thread records, so it is
 * to pass the macros; all threads of the group may.  A block's room is shared out equally among its groups,
 * of which at most 256 record anything, and no more than the block has room for ranges.
 * There are no atomics, no shared memory and no barrier: each group writes 16 bytes per range into a place of
 * its own, in the order in which the ranges end.  A group whose room is used up keeps its first ranges and
 * counts the others; the recording says how many were lost, and the name of the first.
 *
 * `ranges` is an object of the type gantry_ranges: a device function takes it as `gantry_ranges &`.
 *
 * Cost while a range is recorded: two readings of the clock, and in the first thread of the group one store
 * of 16 bytes with some ten instructions beside it; docs/guides/profiling.md has the counts.  With
 * GANTRY_CTA_PROFILING defined as 0 the macros are empty, and the object too.
 */
#ifndef GANTRY_KERNEL_RANGES_H
#define GANTRY_KERNEL_RANGES_H

/** What a range leaves behind. */
typedef struct gantry_range_record gantry_range_record;
/** What a range leaves behind.  All zero: nothing was written here. */
struct gantry_range_record {
    uint64_t start_ns;    /* as of a gantry_cta_record; of a note: how many ranges of the group were lost */
    uint32_t duration_ns; /* until its end; 0xffffffff: that or longer */
    uint32_t what;        /* the id in bits 0 to 15, the group in bits 16 to 23, the flags below */
};
#define GANTRY_RANGE_IDS 65536u        /* how many ids of ranges there are */
#define GANTRY_RANGE_IS_ONE (1u << 30) /* flag of gantry_range_record.what: a range was written here */
#define GANTRY_RANGE_IS_NOTE \
    (1u << 31) /* flag: ranges were lost, and the id is that of the first without room */
#define GANTRY_RANGES_UNIT \
    16u /* the room of a block for ranges is so many records times the upper bits of \
         * `profile` (GANTRY_RANGES_SHIFT) */
#define GANTRY_RANGES_MOST (127u * GANTRY_RANGES_UNIT) /* the most ranges that a block has room for */

#ifdef __cplusplus
#if GANTRY_CTA_PROFILING

/** The ranges of this thread's group. */
struct gantry_ranges {
    uint4 *at, *end; /* where the next record goes, and where the room ends; both NULL: this thread does not
                        write */
    const void *records; /* says which clock is read */
    uint32_t group;      /* in the bits of gantry_range_record.what */
    uint32_t lost;       /* ranges that had no room */
    uint32_t first_lost; /* the id of the first of them */

    /** Find this group's room; `threads` of the block belong to a group, 0: all. */
    __device__ inline gantry_ranges(const void *profile, uint32_t threads)
        : at(nullptr), end(nullptr), records(gantry_cta_find(profile)), group(0), lost(0), first_lost(0)
    {
        const uint32_t room =
            (uint32_t)((uint64_t)(uintptr_t)records >> GANTRY_RANGES_SHIFT) * GANTRY_RANGES_UNIT;
        if (room == 0) {
            return;
        }
        const uint32_t all = blockDim.x * blockDim.y * blockDim.z;
        const uint32_t each = threads == 0 || threads > all ? all : threads;
        const uint32_t thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
        if (thread % each != 0) {
            return;
        }
        const uint32_t number = thread / each, groups = (all + each - 1) / each;
        const uint32_t share = groups > room ? 1 : room / groups;
        if (number >= room || number > 255) {
            return;
        }
        const uint32_t block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        const uint64_t blocks = (uint64_t)gridDim.x * gridDim.y * gridDim.z;
        group = number << 16 | GANTRY_RANGE_IS_ONE;
        at = (uint4 *)gantry_cta_address(records) + blocks + (uint64_t)block * room + number * share;
        end = at + share;
    }

    /** Say how many were lost, in the last place of the room. */
    __device__ inline ~gantry_ranges()
    {
        if (lost != 0) {
            const uint4 note =
                make_uint4(lost + 1, 0, 0, first_lost | GANTRY_RANGE_IS_NOTE | (group & 0xff0000u));
            __stcs(end - 1, note);
        }
    }
    gantry_ranges(const gantry_ranges &) = delete;
    gantry_ranges &operator=(const gantry_ranges &) = delete;

    /** What the clock shows; 0 when this thread does not write. */
    __device__ inline uint64_t now() const
    {
        return at != nullptr ? gantry_cta_now(records) : 0;
    }

    /** The range `id`, which began when now() said `begun`, ends. */
    __device__ inline void add(uint32_t id, uint64_t begun)
    {
        if (at == nullptr) {
            return;
        }
        if (at == end) {
            first_lost = lost == 0 ? id & (GANTRY_RANGE_IDS - 1) : first_lost;
            lost++;
            return;
        }
        const uint64_t duration = gantry_cta_now(records) - begun;
        const uint4 record = make_uint4((uint32_t)begun, (uint32_t)(begun >> 32),
                                        duration >> 32 == 0 ? (uint32_t)duration : 0xffffffffu,
                                        (id & (GANTRY_RANGE_IDS - 1)) | group);
        __stcs(at, record);
        at++;
    }
};

/** A range that lasts as long as the object. */
struct gantry_range {
    gantry_ranges &ranges; /* where it is recorded */
    const uint32_t id;     /* the range's */
    const uint64_t begun;  /* the clock at its begin */

    /** The range begins. */
    __device__ inline gantry_range(gantry_ranges &in, uint32_t number)
        : ranges(in), id(number), begun(in.now())
    {
    }
    /** The range ends. */
    __device__ inline ~gantry_range()
    {
        ranges.add(id, begun);
    }
    gantry_range(const gantry_range &) = delete;
    gantry_range &operator=(const gantry_range &) = delete;
};

/** Behind GANTRY_KERNEL_START, once: declares `buffer`, which takes the ranges of this thread's group of
 * `threads` threads, 0: of the whole block. */
#define GANTRY_KERNEL_RANGES(buffer, records, threads) gantry_ranges buffer((records), (threads))
#define GANTRY_KERNEL_RANGE_JOIN(a, b) a##b
#define GANTRY_KERNEL_RANGE_AT(buffer, id, line) \
    const gantry_range GANTRY_KERNEL_RANGE_JOIN(gantry_range_of_line_, line)((buffer), (id))
/** The range `id` begins here and ends with the scope. */
#define GANTRY_KERNEL_RANGE(buffer, id) GANTRY_KERNEL_RANGE_AT(buffer, id, __LINE__)
/** The range `id` begins here; it ends in the same scope or one within.  `id` is a name or a number. */
#define GANTRY_KERNEL_RANGE_BEGIN(buffer, id) const uint64_t gantry_range_begun_##id = (buffer).now()
/** The range `id` ends here. */
#define GANTRY_KERNEL_RANGE_END(buffer, id) (buffer).add((id), gantry_range_begun_##id)

#else

struct gantry_ranges {
};
#define GANTRY_KERNEL_RANGES(buffer, records, threads) \
    gantry_ranges buffer;                              \
    (void)(buffer), (void)(records), (void)(threads)
#define GANTRY_KERNEL_RANGE(buffer, id) ((void)(buffer), (void)(id))
#define GANTRY_KERNEL_RANGE_BEGIN(buffer, id) ((void)(buffer), (void)(id))
#define GANTRY_KERNEL_RANGE_END(buffer, id) ((void)(buffer), (void)(id))

#endif
#endif

#endif
