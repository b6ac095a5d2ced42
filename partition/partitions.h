/* SPDX-License-Identifier: MIT */
/* The partitions of a context: a plan carried out with green contexts, or one partition that is everything.
 *
 * Life: the partitions are made before anything of the context makes a stream.  They are destroyed after
 * all streams in them are gone and before the CUDA context is given back.  Any other order leaks streams or
 * crashes in some drivers.  Another plan is made beside the one in force, and takes its place at once
 * (dispatcher/loop/replan.h). */
#ifndef PARTITION_PARTITIONS_H
#define PARTITION_PARTITIONS_H

#include "driver/context.h"

#include <gantry/partition.h>

struct gy_partitions;

struct gantry_partition {
    struct gy_partitions *owner; /* immutable */
    CUgreenCtx green;            /* immutable; NULL: the partition has all SMs */
    CUgreenCtx wide;             /* immutable; has also the SMs that the partition may borrow; NULL: none */
    struct gantry_partition *lender; /* immutable; the partition whose SMs `wide` also has */
    gantry_partition_info info;      /* immutable */
    gantry_share share;              /* immutable; percent 0: no bound */
};

/* What a plan divides: the SMs of the device, or those of a green context of the application. */
struct gy_parent {
    CUgreenCtx green;  /* NULL: the device */
    CUdevResource sms; /* valid with a plan on a driver with green contexts */
};

struct gy_partitions {
    struct gy_context *context;     /* immutable */
    gantry_context *owner;          /* immutable */
    uint32_t count;                 /* immutable; at least 1 */
    uint32_t default_index;         /* immutable */
    bool is_planned;                /* immutable */
    struct gy_parent parent;        /* immutable; set with a plan */
    struct gy_partitions *next;     /* guarded by the list's lock, see parent.c */
    bool is_listed;                 /* likewise; it is in the list of plans */
    gantry_sm_topology topology;    /* immutable; set with a plan */
    gantry_partition_layout layout; /* immutable; set with a plan */
    struct gantry_partition partitions[GANTRY_PARTITIONS_MAX];
};

/* Make partitions, which are not in force yet.  `options` NULL: one partition, "default", of the whole
 * device.  `before`: the context's partitions whose place they will take; NULL: they are its first.
 * @retval GANTRY_ERR_INVALID_ARGUMENT  a bad plan
 * @retval GANTRY_ERR_STATE             another plan of this process divides the same parent
 * @retval GANTRY_ERR_UNSUPPORTED       no green contexts and no fallback, a context that is not the primary
 *                                      one, or fewer SMs granted than planned
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY, GANTRY_ERR_DRIVER */
GANTRY_MUST_CHECK gantry_status gy_partitions_make(struct gy_context *context, gantry_context *owner,
                                                   const gantry_partition_options *options,
                                                   const struct gy_partitions *before,
                                                   struct gy_partitions **out);
/* Make partitions that are in force at once: a context's first. */
GANTRY_MUST_CHECK gantry_status gy_partitions_create(struct gy_context *context, gantry_context *owner,
                                                     const gantry_partition_options *options,
                                                     struct gy_partitions **out);
/* They are in force from now on: context->home is one of them, and their handles are good. */
void gy_partitions_enter(struct gy_partitions *partitions);
/* Destroy partitions that were never in force. */
void gy_partitions_drop(struct gy_partitions *partitions);
/* Destroy the partitions; all streams in them are gone.  NULL is ignored. */
void gy_partitions_destroy(struct gy_partitions *partitions);
/* Wait until all work is done that was put on any stream of their green contexts.  The context is current. */
GANTRY_MUST_CHECK gantry_status gy_partitions_await(const struct gy_partitions *partitions);

/* ---- what is divided (parent.c) ---- */

bool gy_parent_is_named(const gantry_partition_options *options);
/* Has the driver all that a plan is carried out with? */
bool gy_green_contexts_exist(const struct gy_driver *driver);
/* The green context of a stream, which may be under capture; NULL: it has none.  The context is current. */
GANTRY_MUST_CHECK gantry_status gy_stream_green(struct gy_context *context, CUstream stream, CUgreenCtx *out);
/* Find what `options` (NULL: the device) say shall be divided.  The context is current.
 * @retval GANTRY_ERR_INVALID_ARGUMENT  two parents
 * @retval GANTRY_ERR_UNSUPPORTED       the driver has no green contexts
 * @retval GANTRY_ERR_DRIVER            no such green context or stream */
GANTRY_MUST_CHECK gantry_status gy_parent_find(struct gy_context *context,
                                               const gantry_partition_options *options,
                                               struct gy_parent *out);
/* The plan is about to be carried out: enter it in the list of plans of the process.  `before`: as above.
 * @retval GANTRY_ERR_STATE  a plan is there already that divides the same green context */
GANTRY_MUST_CHECK gantry_status gy_parents_enter(struct gy_partitions *partitions,
                                                 const struct gy_partitions *before);
/* It is no longer in force.  Does nothing for one that was not entered. */
void gy_parents_leave(struct gy_partitions *partitions);
/* GANTRY_ERR_STATE when a plan divides one of these partitions, which is named. */
GANTRY_MUST_CHECK gantry_status gy_parents_check_childless(const struct gy_partitions *partitions);

/* Read how the parent can be divided; the context is current. */
GANTRY_MUST_CHECK gantry_status gy_topology_read(struct gy_context *context, const struct gy_parent *parent,
                                                 gantry_sm_topology *out);

/* The scope of a configuration of work queues. */
gantry_workqueue_scope gy_workqueue_scope(const CUdevResource *config);

/* Make a non-blocking stream of the partition; the context is current.  `wide`: it also has the SMs that the
 * partition may borrow. */
GANTRY_MUST_CHECK gantry_status gy_partition_stream(const struct gantry_partition *partition, bool wide,
                                                    CUstream *out);

/* Find the partition of a stream; NULL: none.  The context is current. */
GANTRY_MUST_CHECK gantry_status gy_partition_of(struct gy_partitions *partitions, CUstream stream,
                                                struct gantry_partition **out);

/* Fill in what is known of any stream, which may be under capture.  The context is current. */
GANTRY_MUST_CHECK gantry_status gy_stream_read_info(struct gy_partitions *partitions, CUstream stream,
                                                    gantry_stream_info *out);

/* gantry_partition_audit() with good arguments; the context is current. */
GANTRY_MUST_CHECK gantry_status gy_partition_audit(struct gantry_partition *partition, gantry_audit_way way,
                                                   gantry_sm_set *out);

/* The partition has no green context and is alone: it is the whole context. */
bool gy_partition_is_whole(const struct gantry_partition *partition);

/* Record the event; the context is current.  GANTRY_ERR_UNSUPPORTED without a green context, unless the
 * partition is the whole context and the driver has events of whole contexts. */
GANTRY_MUST_CHECK gantry_status gy_partition_record(struct gantry_partition *partition, CUevent event);
GANTRY_MUST_CHECK gantry_status gy_partition_wait(struct gantry_partition *partition, CUevent event);

#endif
