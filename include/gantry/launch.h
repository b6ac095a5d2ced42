/* SPDX-License-Identifier: MIT */
/**
 * @file launch.h
 * Kernel launches that ask for more than a grid: clusters, grids whose blocks all run at once, an early
 * start, a priority, a memory domain; and what fits on a partition's multiprocessors.
 *
 * The device side of all that is <gantry/kernel/launch.h>, which <gantry/kernel.h> includes.
 *
 * Threading: gantry_launch_kernel_with() and gantry_launch_kernel_sized() have launch scope (see
 * dispatcher.h); the others: any thread.
 */
#ifndef GANTRY_LAUNCH_H
#define GANTRY_LAUNCH_H

#include <gantry/partition.h>

GANTRY_BEGIN_DECLS

/** When a kernel may start. */
typedef enum gantry_kernel_start {
    GANTRY_KERNEL_START_BEHIND = 0, /* when all that it comes after has ended */
    GANTRY_KERNEL_START_EARLY = 1,  /* as soon as the kernel launched right before it on the same stream has
                                     * called gantry_let_next_start() in each block.  Only for kernels made
                                     * with GANTRY_KERNEL_EARLY(), which wait for earlier work themselves; what
                                     * comes between two kernels (a copy, an event, work of another stream),
                                     * and code older than compute capability 9.0, make it BEHIND */
    GANTRY_KERNEL_START_EARLY_TRUSTED =
        2, /* EARLY for a kernel that is not Gantry's, whose author promises that
            * each block executes griddepcontrol.wait: nothing checks it */
} gantry_kernel_start;

/** Whose writes a fence in the kernel waits for. */
typedef enum gantry_memory_domain {
    GANTRY_MEMORY_DOMAIN_DEFAULT = 0, /* those of all kernels of the default domain */
    GANTRY_MEMORY_DOMAIN_REMOTE = 1, /* those of the remote domain: for kernels that talk to other devices, so
                                      * that their fences do not slow down, nor wait for, the rest */
} gantry_memory_domain;

/** How a kernel is launched.  Zero fields: as gantry_launch_kernel() does it. */
typedef struct gantry_launch_options {
    size_t struct_size;
    gantry_dim3
        cluster; /* blocks that run at once on neighbouring multiprocessors and reach each other's shared
                  * memory; each number divides the grid's, at most 16 blocks in all.  0, 0, 0: none */
    gantry_dim3 preferred_cluster; /* where it fits, in place of `cluster`: a multiple of it with the same z
                                    * that divides the grid.  0, 0, 0: none.  Needs a driver of CUDA 12.8 */
    uint32_t cooperative;          /* 1: all blocks run at once, so they may wait for each other */
    gantry_kernel_start start;     /* when it may start */
    gantry_memory_domain memory_domain; /* needs compute capability 9.0 and a driver of CUDA 12.0 */
    uint32_t has_priority;              /* 1: `priority` counts, else that of the stream */
    int32_t priority;                   /* a lower number is more urgent; see cuCtxGetStreamPriorityRange() */
    uint32_t reserved;                  /* 0 */
} gantry_launch_options;
#define GANTRY_LAUNCH_OPTIONS_INIT                                                          \
    {                                                                                       \
        sizeof(gantry_launch_options), {0, 0, 0}, {0, 0, 0}, 0, GANTRY_KERNEL_START_BEHIND, \
            GANTRY_MEMORY_DOMAIN_DEFAULT, 0, 0, 0                                           \
    }

/** gantry_launch_kernel() with options; `options` NULL: none.  What cannot fit the task's partition is
 * refused here, before anything is launched, also where the launch becomes a node of a graph.  The options
 * belong to the shape of a batch: with others a graph is made anew.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  what gantry_launch_kernel() refuses, struct_size too small, an
 * unknown start or domain, a cluster of more than 16 blocks or one that does not divide the grid, an early
 * start of a kernel that is not GANTRY_KERNEL_EARLY()
 *  @retval GANTRY_ERR_UNSUPPORTED       the partition can never run it: no such cluster fits, or not all
 * blocks of the cooperative grid (the message has the numbers); clusters, and the kernel's code is older than
 * compute capability 9.0; the driver is older than CUDA 11.8, or a field is set that this version does not
 * know
 *  @retval GANTRY_ERR_STATE             not in a launch callback
 *  @retval GANTRY_ERR_DRIVER            the driver refused the launch
 *  @retval GANTRY_ERR_DEVICE_LOST       the context has failed; nothing was launched */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_launch_kernel_with(gantry_launch *launch,
                                                                     gantry_kernel *kernel, gantry_dim3 grid,
                                                                     gantry_dim3 block, size_t shared_bytes,
                                                                     void **args,
                                                                     const gantry_launch_options *options);

/** gantry_launch_kernel(), or with `options` gantry_launch_kernel_with(), for a caller that knows what `args`
 * has: `arg_count` values of these sizes.  With GANTRY_CHECK=arguments in the environment they are compared
 * with the kernel's parameters, and a launch that does not fit them is refused before anything is enqueued;
 * else they are not looked at.  The functions of gantry.hpp call it.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  the number of arguments or a size is not the kernel's (the message
 *                                       names the argument and both sizes); what those functions refuse
 *  @retval GANTRY_ERR_UNSUPPORTED, GANTRY_ERR_STATE, GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST,
 *          GANTRY_ERR_OUT_OF_HOST_MEMORY  as those functions */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_launch_kernel_sized(
    gantry_launch *launch, gantry_kernel *kernel, gantry_dim3 grid, gantry_dim3 block, size_t shared_bytes,
    void **args, const uint32_t *arg_bytes, uint32_t arg_count, const gantry_launch_options *options);

/** Launch an executable graph of the application's (a CUgraphExec) on the task's stream: it comes after what
 * the callback has enqueued before, and before what it enqueues then.  Where the batch is to be a graph, the
 * task leaves it, since a graph cannot contain an executable one: as gantry_launch_leave_graph().  A stable
 * task that calls it is called in every run.  The graph must not be destroyed before the GPU has passed;
 * launches of one executable graph run one after the other.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL
 *  @retval GANTRY_ERR_STATE             not in a launch callback
 *  @retval GANTRY_ERR_DRIVER            no executable graph, or of another context; also what
 *                                       gantry_launch_leave_graph() says
 *  @retval GANTRY_ERR_DEVICE_LOST       the context has failed; nothing was launched */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_launch_graph(gantry_launch *launch, void *graph_exec);

/** What the multiprocessors of a partition or a stream run of a kernel at once, when nothing else runs there.
 */
typedef struct gantry_occupancy {
    size_t struct_size;       /* in: sizeof of the caller */
    uint32_t granted_sms;     /* of the partition or stream */
    uint32_t blocks_per_sm;   /* at once */
    uint32_t blocks;          /* in all: the largest cooperative grid; with clusters, blocks in them */
    uint32_t clusters;        /* of options->cluster; 0: none fits, or none was asked for */
    uint32_t largest_cluster; /* blocks of the largest cluster that fits; 0: none was asked for */
    uint32_t reserved;
} gantry_occupancy;

/** Ask what fits.  Of `options` (NULL: none) only `cluster` counts.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, a kernel of another context, a block of no threads, a
 * struct_size too small, a cluster of more than 16 blocks
 *  @retval GANTRY_ERR_UNSUPPORTED       clusters, and the kernel's code is older than compute capability 9.0,
 * or the driver than CUDA 11.8
 *  @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_partition_get_occupancy(
    gantry_partition *partition, gantry_kernel *kernel, gantry_dim3 block, size_t shared_bytes,
    const gantry_launch_options *options, gantry_occupancy *out);

/** The same for any CUstream of the context, also one that the application or another library has made: its
 * SMs are those that gantry_stream_get_info() tells.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  as above
 *  @retval GANTRY_ERR_UNSUPPORTED       as above
 *  @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_stream_get_occupancy(gantry_context *context, void *stream,
                                                                       gantry_kernel *kernel,
                                                                       gantry_dim3 block, size_t shared_bytes,
                                                                       const gantry_launch_options *options,
                                                                       gantry_occupancy *out);

GANTRY_END_DECLS

#endif
