/* The partitions of a context: a plan carried out with green contexts, or one partition that is everything.
 *
 * Life: the partitions are created before anything of the context makes a stream.  They are destroyed after
 * all its streams are gone and before the CUDA context is given back.  Any other order leaks streams or
 * crashes in some drivers. */
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

struct gy_partitions {
    struct gy_context *context;     /* immutable */
    gantry_context *owner;          /* immutable */
    uint32_t count;                 /* immutable; at least 1 */
    uint32_t default_index;         /* immutable */
    bool is_planned;                /* immutable */
    gantry_sm_topology topology;    /* immutable; set with a plan */
    gantry_partition_layout layout; /* immutable; set with a plan */
    struct gantry_partition partitions[GANTRY_PARTITIONS_MAX];
};

/* `options` NULL: one partition, "default", of the whole device.  Sets context->home.
 * @retval GANTRY_ERR_INVALID_ARGUMENT  a bad plan
 * @retval GANTRY_ERR_UNSUPPORTED       no green contexts and no fallback, a context that is not the primary
 *                                      one, or fewer SMs granted than planned
 * @retval GANTRY_ERR_OUT_OF_HOST_MEMORY, GANTRY_ERR_DRIVER */
GANTRY_MUST_CHECK gantry_status gy_partitions_create(struct gy_context *context, gantry_context *owner,
                                                     const gantry_partition_options *options,
                                                     struct gy_partitions **out);
/* Destroy the partitions; all streams of the context are gone.  NULL is ignored. */
void gy_partitions_destroy(struct gy_partitions *partitions);

/* Read what the device offers; GANTRY_ERR_UNSUPPORTED without green contexts. */
GANTRY_MUST_CHECK gantry_status gy_topology_read(struct gy_context *context, gantry_sm_topology *out);

/* The scope of a configuration of work queues. */
gantry_workqueue_scope gy_workqueue_scope(const CUdevResource *config);

/* Make a non-blocking stream of the partition; the context is current.  `wide`: it also has the SMs that the
 * partition may borrow. */
GANTRY_MUST_CHECK gantry_status gy_partition_stream(const struct gantry_partition *partition, bool wide,
                                                    CUstream *out);

/* Find the partition of a stream; NULL: none.  The context is current. */
GANTRY_MUST_CHECK gantry_status gy_partition_of(struct gy_partitions *partitions, CUstream stream,
                                                struct gantry_partition **out);

/* Fill in what is known of any stream; `what` is the function that asks.  The context is current.
 * GANTRY_ERR_STATE: the stream is being captured. */
GANTRY_MUST_CHECK gantry_status gy_stream_read_info(struct gy_partitions *partitions, CUstream stream,
                                                    gantry_stream_info *out);

/* The partition has no green context and is alone: it is the whole context. */
bool gy_partition_is_whole(const struct gantry_partition *partition);

/* Record the event; the context is current.  GANTRY_ERR_UNSUPPORTED without a green context, unless the
 * partition is the whole context and the driver has events of whole contexts. */
GANTRY_MUST_CHECK gantry_status gy_partition_record(struct gantry_partition *partition, CUevent event);
GANTRY_MUST_CHECK gantry_status gy_partition_wait(struct gantry_partition *partition, CUevent event);

#endif
