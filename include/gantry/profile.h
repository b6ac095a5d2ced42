/* SPDX-License-Identifier: MIT */
/**
 * @file profile.h
 * Recording what ran when, and writing it as a Perfetto trace.
 *
 * One recording at a time per process.  While it runs, every CPU task is a slice on its worker's track,
 * every phase of a dispatcher one on its GD track, every wait one on the track of its completion thread, and
 * every GPU task one on its stream's track (GPU time, aligned to the host clock).  Kernels that say so
 * themselves (profile_kernel.h) are seen launch by launch and block by block on the SMs.  Off costs one
 * predictable branch per task.
 *
 * Without a line of code: a program that creates a context with $GANTRY_PROFILE set records until its last
 * context is destroyed, into the file that the variable names.
 *
 * Threading: start and stop from any thread, one at a time.
 */
#ifndef GANTRY_PROFILE_H
#define GANTRY_PROFILE_H

#include <gantry/module.h>
#include <gantry/task.h>

GANTRY_BEGIN_DECLS

/** A recording in progress. */
typedef struct gantry_profile gantry_profile;

/** What of the blocks (CTAs) of instrumented kernels goes into the trace. */
typedef enum gantry_profile_ctas {
    GANTRY_PROFILE_CTAS_EACH = 0,    /* one slice per launch, and one per block on its SM */
    GANTRY_PROFILE_CTAS_KERNELS = 1, /* one slice per launch, from its first block's start to the last one's
                                      * stop */
    GANTRY_PROFILE_CTAS_BLOCKS = 2,  /* as EACH, and each block's slice has its number in the grid */
    GANTRY_PROFILE_CTAS_OFF = 3,     /* nothing; gantry_launch_profile() gives NULL */
} gantry_profile_ctas;

/** What clock a block's record is read from. */
typedef enum gantry_profile_clock {
    GANTRY_PROFILE_CLOCK_GLOBAL = 0, /* the one that all SMs share, %globaltimer */
    GANTRY_PROFILE_CLOCK_SM = 1, /* the SM's own, finer where the common one takes steps of a microsecond; two
                                  * kernels per buffer, which occupy every SM, relate it to the common one.
                                  * Kernels built for sm_90 or later read the common one all the same, unless
                                  * they are built with GANTRY_CTA_SM_CLOCK (profile_kernel.h) */
} gantry_profile_clock;

/** What is recorded, and where to. */
typedef struct gantry_profile_options {
    size_t struct_size;
    const char *path;          /* the .pftrace file to write; required; copied */
    uint32_t spans_per_thread; /* ring size per thread, rounded up to a power of two; 0: 65536 */
    gantry_profile_ctas ctas;  /* what of the blocks */
    uint32_t ctas_per_buffer;  /* blocks that one buffer has room for, 16 bytes each; at least those of the
                                * largest launch; 0: 131072 */
    uint32_t buffers;    /* buffers of a context, on the device and page-locked; 0: 8.  Where a buffer has
                          * room for 16384 blocks or more, 15 small ones with a 32nd of its room come
                          * with each, at most 120 in all, for batches of few blocks */
    uint64_t first_step; /* with step_count: the first step recorded, 0 the first since the start */
    uint64_t step_count; /* steps recorded, counted over all managers with a GPU dispatcher; 0: all */
    gantry_profile_clock clock; /* which clock blocks read */
    bool compress;              /* deflate the file; ignored by a library that was built without zlib */
    uint8_t encoders; /* threads that encode the slices of blocks, the writer among them, at most 64; 0: half
                       * as many as CPUs may be used, at least 1 and at most 8.  They start when a batch of
                       * at least 4096 blocks comes */
    uint8_t reserved[2]; /* 0 */
} gantry_profile_options;
#define GANTRY_PROFILE_OPTIONS_INIT                                                    \
    {                                                                                  \
        sizeof(gantry_profile_options), NULL, 0, GANTRY_PROFILE_CTAS_EACH, 0, 0, 0, 0, \
            GANTRY_PROFILE_CLOCK_GLOBAL, false, 0,                                     \
        {                                                                              \
            0                                                                          \
        }                                                                              \
    }

/** Begin recording.  The file is created or emptied at once.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, no path, more than 16777216 spans per thread or CTAs per
 *                                       buffer, more than 64 buffers or encoders, an unknown value of `ctas`
 *                                       or `clock`
 *  @retval GANTRY_ERR_STATE             a recording is running already, perhaps $GANTRY_PROFILE's: the
 * message names its file
 *  @retval GANTRY_ERR_IO                the file cannot be created, or another process records into it
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_profile_start(const gantry_profile_options *options,
                                                                gantry_profile **out);

/** Name `count` kernels; their numbers are *out_first, *out_first + 1, …  Names are copied and kept for the
 *  life of the process.  Every call gives new numbers, also for names known already.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT   NULL, no kernel, a name that is NULL
 *  @retval GANTRY_ERR_UNSUPPORTED        there are not that many numbers left
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_profile_register_kernels(const char *const *names,
                                                                           uint32_t count,
                                                                           uint32_t *out_first);

/** The time on the axis of recordings, in nanoseconds of CLOCK_MONOTONIC; 0 while nothing is recorded, which
 *  costs one load.  Any thread. */
GANTRY_API uint64_t gantry_profile_now(void);

/** A slice from the application, on the track of the calling thread, in the category "application": what a
 *  renderer submits or presents, for instance.
 *
 *      uint64_t begin = gantry_profile_now();
 *      vkQueuePresentKHR(queue, &info);
 *      gantry_profile_span("present", begin, gantry_profile_now(), frame);
 *
 *  `begin_ns` and `end_ns` are times of gantry_profile_now(), or any other times of CLOCK_MONOTONIC (a
 *  renderer's time stamps, calibrated).  Where one of them is 0, or nothing is recorded, nothing happens.
 *  `name` is copied, at most 51 characters of it; `id` is shown as the slice's argument of that name.  Any
 *  thread; this does not block.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  name NULL, or an end before the begin */
GANTRY_API gantry_status gantry_profile_span(const char *name, uint64_t begin_ns, uint64_t end_ns,
                                             uint64_t id);

/** Inside a launch callback: where the blocks of the kernel that is launched next leave their records, to be
 *  passed to it as the `profile` of profile_kernel.h; its grid has `grid` blocks.  Good for one launch, on
 *  the task's stream.
 *
 *  NULL, which is right to pass as well, when nothing is recorded; when the registered name of `kernel` is
 *  that of a kernel in a loaded module whose file was compiled without the macros; or when no buffer has
 *  room: the blocks are counted as lost then, and the first time a warning says so.  In a graph it may be
 *  not NULL then, and the kernel finds that it leaves no records. */
GANTRY_API void *gantry_launch_profile(gantry_launch *launch, uint32_t kernel, gantry_dim3 grid);

/** As gantry_launch_profile(), for a kernel whose blocks also record ranges (<gantry/kernel/ranges.h>): each
 *  block gets room for at least `ranges` of them, 0 to 2032, which its groups of threads share equally.  The
 *  room is rounded up to a multiple of 16; each range takes as much of a buffer as a block does.
 *
 *  NULL, which is right to pass as well, in the same cases; also when `ranges` is larger than that.  The
 *  launch's blocks are counted as lost then, where they are wanted. */
GANTRY_API void *gantry_launch_profile_ranges(gantry_launch *launch, uint32_t kernel, gantry_dim3 grid,
                                              uint32_t ranges);

/** Name the ranges inside blocks of a kernel: range 0 is names[0], and so on; those without a name are shown
 *  as "range 7".  `kernel` is its number, see gantry_profile_register_kernels().  Names are copied and kept
 * for the life of the process; those of a later call hold instead of those of an earlier one.  From any
 * thread.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT   NULL, no name, more than 65536, a name that is NULL
 *  @retval GANTRY_ERR_NOT_FOUND          no kernel has this number
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_profile_name_ranges(uint32_t kernel,
                                                                      const char *const *names,
                                                                      uint32_t count);

/** What a recording has so far, see gantry_profile_stop(). */
typedef struct gantry_profile_stats {
    size_t struct_size;        /* in: sizeof of the caller */
    uint64_t spans;            /* slices written */
    uint64_t lost;             /* slices that are not: a full ring, no memory, no free GPU event */
    uint64_t bytes;            /* size of the file */
    uint64_t gpu_alignment_ns; /* bound on the error between host and GPU times; 0 without GPU slices */
    uint64_t kernels;          /* launches of instrumented kernels in the trace */
    uint64_t ctas;             /* blocks whose records are in them */
    uint64_t ctas_lost;        /* blocks that are not: no room in a buffer (known before the launch), no
                                * memory, no record left, no line of their SM free */
    uint64_t cta_alignment_ns; /* bound on the error between host times and blocks' times; 0 without any */
    uint64_t sm_alignment_ns;  /* how far the clocks of SMs lie apart, as measured: 99 of 100 SMs are within
                                * this of the others; 0 when it could not be measured.  With CLOCK_SM: and what
                                * the  lines from their own clocks to the common one may be off by */
    uint64_t ranges;           /* ranges inside blocks that are in the trace */
    uint64_t ranges_lost;      /* ranges that are not: their block had no room for more, or its own record is
                                * missing.  Those of blocks that are lost as a whole are not counted */
    uint64_t gpu_unfinished;   /* of `lost`: GPU tasks whose work had not ended when the stop no longer waited
                                * for it, or that a stop in a callback could not wait for */
    uint64_t ctas_taken;       /* blocks that did not run by themselves, since others took them over
                                * (<gantry/kernel/steal.h>): neither in `ctas` nor lost */
} gantry_profile_stats;

/** End recording, write the rest of the file, free.  `stats` may be NULL.  NULL profile is ignored.
 *  Waits for the GPU tasks that were launched before, and for the GPU to copy the records of blocks back, on
 *  all devices together for 10 s at most (in exit() 2 s).  What has not ended by then, or is on a device that
 * was lost, is counted in `lost` or `ctas_lost`.  Any thread.  A callback of a GPU task may stop a recording,
 * but it waits for nothing: GPU tasks that have not been recorded by then are counted as lost.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_IO                the file is incomplete; the profile is freed all the same, `stats` is
 *                                       not written
 *  @retval GANTRY_ERR_STATE             in a forked child: the recording is its parent's (nothing is done)
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  not the running recording (nothing is done); or `stats` with a
 *                                       struct_size too small (recording ended, profile freed) */
GANTRY_API gantry_status gantry_profile_stop(gantry_profile *profile, gantry_profile_stats *stats);

GANTRY_END_DECLS

#endif
