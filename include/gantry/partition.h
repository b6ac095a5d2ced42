/**
 * @file partition.h
 * Partitions: named sets of a device's multiprocessors (SMs), each with its own streams, so that what runs in
 * one cannot take the SMs of another; and shares, which bound the GPU time that one may use.
 *
 * A plan is computed by a pure function from what the device offers and what is asked for; a context that is
 * created with it (gantry_context_options.partitions) makes a green context of each partition.  Memory,
 * kernels and events are those of the one CUDA context: only streams belong to a partition.
 *
 * With a plan in force there is always a default partition for everything that names none: streams outside of
 * any partition would use the reserved SMs too.
 *
 * Threading: all functions may be called from any thread.
 */
#ifndef GANTRY_PARTITION_H
#define GANTRY_PARTITION_H

#include <gantry/dispatcher.h>

GANTRY_BEGIN_DECLS

enum {
    GANTRY_PARTITIONS_MAX = 16,      /* in one plan, the default one included */
    GANTRY_PARTITION_NAME_BYTES = 32 /* with the final 0 */
};

typedef struct gantry_partition gantry_partition;

/* ---- what a device offers ------------------------------------------------------------------- */

/** How a device's SMs can be divided.  Read with gantry_partition_read_topology(), or written by hand to plan
 * for a device that is elsewhere. */
typedef struct gantry_sm_topology {
    size_t struct_size;
    uint32_t sm_count;
    uint32_t alignment;     /* SMs that are co-scheduled: the cluster size every unit can run */
    uint32_t unit_sms;      /* smallest group the driver makes */
    uint32_t unit_count;    /* groups of that size it makes of all SMs; what is left over: the remainder */
    uint32_t fine_unit_sms; /* the same when co-scheduling is ignored */
    uint32_t fine_unit_count;
    uint32_t max_cluster;    /* largest cluster size that can be asked for; 0: as `alignment` */
    uint32_t workqueues;     /* streams that never wait for each other's queue; 0: cannot be divided */
    uint32_t is_structured;  /* 1: the driver makes groups of different sizes in one split (CUDA 13.1) */
    uint32_t gpc_count;      /* processing clusters; 0: not known */
    uint8_t gpc_sms[32];     /* SMs in each */
    uint32_t is_mig;         /* 1: these are the SMs of a MIG instance */
    uint32_t mps_percentage; /* 0: no MPS; else CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, 100 when it is not set */
} gantry_sm_topology;

/* ---- what is asked for ---------------------------------------------------------------------- */

typedef enum gantry_partition_size {
    GANTRY_PARTITION_EXACT = 0,    /* `sm_count` SMs, or the plan fails */
    GANTRY_PARTITION_AT_LEAST = 1, /* rounded up to what can be made */
    GANTRY_PARTITION_REST = 2,     /* what no other takes; clusters are not promised */
} gantry_partition_size;

typedef enum gantry_workqueue_scope {
    GANTRY_WORKQUEUE_SHARED = 0,   /* with all other contexts */
    GANTRY_WORKQUEUE_BALANCED = 1, /* the driver tries not to let partitions share any */
} gantry_workqueue_scope;

/** A bound on GPU time: `percent` of the device, where a partition of half its SMs uses half of it. */
typedef struct gantry_share {
    double percent;     /* of GPU time; 0 or ≥ 100: no bound */
    uint64_t burst_ns;  /* GPU time that an idle one may save up; 0: 2 ms */
    uint32_t in_flight; /* measured groups of launches that the GPU may be behind; 0: 4; at most 16 */
    uint32_t reserved;
} gantry_share;

typedef struct gantry_partition_request {
    size_t struct_size;
    const char *name; /* unique; not "" */
    gantry_partition_size size;
    uint32_t sm_count;     /* 0: discovery: all SMs that clusters of `cluster_size` can be made of, once the
                            * others have theirs.  Ignored with REST */
    uint32_t cluster_size; /* SMs that are always co-scheduled; 0: the device's alignment */
    uint32_t preferred_cluster_size; /* a hint; 0: as cluster_size */
    uint32_t backfill;               /* 1: SMs without the promise of clusters may be added */
    uint32_t ignore_coscheduling;    /* 1: no clusters, finer sizes.  Drivers before CUDA 13.1 have one split
                                      * per plan, so there it counts for all partitions */
    const char *overlaps; /* oversubscription: also gets `overlap_sms` SMs of that partition; NULL: none */
    uint32_t overlap_sms; /* of sm_count */
    uint32_t is_default;  /* 1: takes everything that names no partition */
    const char *borrows;  /* may use that partition's SMs while nothing runs there; NULL: none */
    int priority;         /* of its streams: 0 or, greater, a lower number (cuCtxGetStreamPriorityRange) */
    uint32_t workqueue_limit; /* streams expected to run at once; 0: no wish */
    gantry_workqueue_scope workqueue_scope;
    gantry_share share;
} gantry_partition_request;

typedef enum gantry_partition_fallback {
    GANTRY_PARTITION_REQUIRED = 0, /* without green contexts: GANTRY_ERR_UNSUPPORTED */
    GANTRY_PARTITION_PRIORITY_ONLY =
        1, /* streams with the partitions' priorities on all SMs, and a warning */
} gantry_partition_fallback;

typedef enum gantry_partition_shortfall {
    GANTRY_PARTITION_SHORT_IS_ERROR =
        0, /* the driver granted fewer SMs than planned: GANTRY_ERR_UNSUPPORTED */
    GANTRY_PARTITION_SHORT_IS_WARNING = 1,
} gantry_partition_shortfall;

/** A plan as asked for; the arrays and strings are only read during the call they are given to. */
typedef struct gantry_partition_options {
    size_t struct_size;
    const gantry_partition_request *requests; /* each as large as the first one's struct_size says */
    uint32_t count;
    gantry_partition_fallback fallback;
    gantry_partition_shortfall shortfall;
} gantry_partition_options;
#define GANTRY_PARTITION_OPTIONS_INIT                                         \
    {                                                                         \
        sizeof(gantry_partition_options), NULL, 0, GANTRY_PARTITION_REQUIRED, \
            GANTRY_PARTITION_SHORT_IS_ERROR                                   \
    }

/* ---- the plan ------------------------------------------------------------------------------- */

/** One partition of a plan: groups of the one split, and perhaps its remainder. */
typedef struct gantry_partition_slot {
    char name[GANTRY_PARTITION_NAME_BYTES];
    uint32_t request; /* index; UINT32_MAX: added for what names no partition */
    uint32_t sm_count;
    uint32_t shared_sms;   /* of these, also in another partition */
    uint32_t cluster_size; /* promised; 0: none */
    uint32_t takes_remainder;
    uint32_t wide_sms;       /* with what it may borrow; 0: nothing */
    uint32_t wide_remainder; /* the same set as bits: */
    uint32_t reserved;
    uint64_t groups[4]; /* bit g % 64 of word g / 64: group g */
    uint64_t wide_groups[4];
} gantry_partition_slot;

/** A group of a structured split. */
typedef struct gantry_sm_group {
    uint32_t sm_count;      /* planned */
    uint32_t is_discovered; /* 1: left to the driver */
    uint32_t cluster_size, preferred_cluster_size;
    uint32_t backfill;
} gantry_sm_group;

typedef struct gantry_partition_layout {
    size_t struct_size;         /* in: sizeof of the caller */
    uint32_t count;             /* partitions */
    uint32_t default_partition; /* index of the one for everything that names none */
    uint32_t is_structured;     /* 0: equal groups of unit_sms; 1: `groups` */
    uint32_t ignores_coscheduling;
    uint32_t unit_sms;
    uint32_t group_count;
    uint32_t remainder_sms; /* what the split leaves over */
    uint32_t unused_sms;    /* in no partition */
    gantry_sm_group groups[2 * GANTRY_PARTITIONS_MAX];
    gantry_partition_slot partitions[GANTRY_PARTITIONS_MAX];
} gantry_partition_layout;

/** Divide a device's SMs.  Pure: asks no driver.  Requests with a number get their SMs first, in order, then
 *  discoveries, then the rest.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, a bad request (named), or more SMs than there are
 *  @retval GANTRY_ERR_UNSUPPORTED       what this driver's kind of split cannot make (named) */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_partition_plan(const gantry_sm_topology *topology,
                                                                 const gantry_partition_options *options,
                                                                 gantry_partition_layout *out);

GANTRY_END_DECLS

#endif
