/* SPDX-License-Identifier: MIT */
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

#include <stdbool.h>

GANTRY_BEGIN_DECLS

enum {
    GANTRY_PARTITIONS_MAX = 16,      /* in one plan, the default one included */
    GANTRY_PARTITION_NAME_BYTES = 32 /* with the final 0 */
};

/* ---- what a device offers ------------------------------------------------------------------- */

/** Whether partitions share the device's work queues. */
typedef enum gantry_workqueue_scope {
    GANTRY_WORKQUEUE_SHARED = 0,   /* with all other contexts */
    GANTRY_WORKQUEUE_BALANCED = 1, /* the driver tries not to let partitions share any */
} gantry_workqueue_scope;

/** How a device's SMs can be divided.  Read with gantry_partition_read_topology(), or written by hand to plan
 * for a device that is elsewhere. */
typedef struct gantry_sm_topology {
    size_t struct_size;
    uint32_t total_sms;       /* SMs in all */
    uint32_t alignment;       /* SMs that are co-scheduled: the cluster size every unit can run */
    uint32_t unit_sms;        /* smallest group the driver makes */
    uint32_t unit_count;      /* groups of that size it makes of all SMs; what is left over: the remainder */
    uint32_t fine_unit_sms;   /* the same when co-scheduling is ignored */
    uint32_t fine_unit_count; /* groups of that size */
    uint32_t max_cluster;     /* largest cluster size that can be asked for; 0: as `alignment` */
    uint32_t workqueues;      /* streams that never wait for each other's queue; 0: cannot be divided */
    uint32_t is_structured;   /* 1: the driver makes groups of different sizes in one split (CUDA 13.1) */
    uint32_t gpc_count;       /* processing clusters; 0: not known */
    uint8_t gpc_sms[32];      /* SMs in each */
    uint32_t is_mig;          /* 1: these are the SMs of a MIG instance */
    uint32_t mps_percentage;  /* 0: no MPS; else CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, 100 when it is not set */
    gantry_workqueue_scope workqueue_scope; /* with whom the context's queues are shared */
    uint32_t has_workqueues;                /* 1: the driver hands on work queues that a context has */
    uint32_t mps_is_static; /* 1: total_sms is a static partition of MPS (CUDA_MPS_SM_PARTITION) */
    uint32_t device_sms;    /* under MPS: SMs of the whole GPU, as NVML says; 0: it does not, or no MPS.  Only
                             * set by gantry_partition_read_topology() */
} gantry_sm_topology;

/* ---- what is asked for ---------------------------------------------------------------------- */

/** What the number of SMs in a request means. */
typedef enum gantry_partition_size {
    GANTRY_PARTITION_EXACT = 0,    /* `sm_count` SMs, or the plan fails */
    GANTRY_PARTITION_AT_LEAST = 1, /* rounded up to what can be made */
    GANTRY_PARTITION_REST = 2,     /* what no other takes; clusters are not promised */
} gantry_partition_size;

/** A bound on GPU time, of a partition or of a task manager (gantry_taskman_options.share): `percent` of the
 * device, where work in a partition of half the SMs uses half of it. */
typedef struct gantry_share {
    size_t struct_size;
    double percent;     /* of GPU time; 0 or ≥ 100: no bound */
    uint64_t burst_ns;  /* GPU time that an idle one may save up; 0: 4 ms */
    uint32_t in_flight; /* measured groups of launches that the GPU may be behind; 0: 4; at most 16 */
    uint32_t group_us;  /* length of such a group, in GPU time; 0: a quarter of the burst, at most 1000 */
} gantry_share;
#define GANTRY_SHARE_INIT                \
    {                                    \
        sizeof(gantry_share), 0, 0, 0, 0 \
    }

/** One partition that is asked for. */
typedef struct gantry_partition_request {
    size_t struct_size;
    const char *name;           /* unique; not "" */
    gantry_partition_size size; /* what `sm_count` means */
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
    int priority;         /* of its streams.  0: normal; negative: more urgent, the lower the more; positive
                           * ones are refused.  The driver takes its lowest (cuCtxGetStreamPriorityRange, -5
                           * on an H200) for what is below that */
    uint32_t workqueue_limit;               /* streams expected to run at once; 0: no wish */
    gantry_workqueue_scope workqueue_scope; /* with whom queues are shared */
    const gantry_share *share;              /* bound on its GPU time; NULL: none */
    const char *workqueues_of; /* its streams use the work queues that this partition has, whose limit and
                             * scope count then; a driver before CUDA 13.1: a warning; NULL: its own wish */
    void *workqueues_green; /* CUgreenCtx of the application or of another library, of the context's device,
                             * that lives while the partition is made: its streams use the work queues that
                             * this one has, as with workqueues_of; NULL: not this; one of the two is NULL */
} gantry_partition_request;

/** What to do on a driver without green contexts. */
typedef enum gantry_partition_fallback {
    GANTRY_PARTITION_REQUIRED = 0, /* without green contexts: GANTRY_ERR_UNSUPPORTED */
    GANTRY_PARTITION_PRIORITY_ONLY =
        1, /* streams with the partitions' priorities on all SMs, and a warning */
} gantry_partition_fallback;

/** What to do when the driver grants fewer SMs than planned. */
typedef enum gantry_partition_shortfall {
    GANTRY_PARTITION_SHORT_IS_ERROR =
        0, /* the driver granted fewer SMs than planned: GANTRY_ERR_UNSUPPORTED */
    GANTRY_PARTITION_SHORT_IS_WARNING = 1, /* the same: a warning, and what was granted */
} gantry_partition_shortfall;

/** A plan as asked for; the arrays and strings are only read during the call they are given to. */
typedef struct gantry_partition_options {
    size_t struct_size;
    const gantry_partition_request *requests; /* each as large as the first one's struct_size says */
    uint32_t count;                           /* of `requests` */
    gantry_partition_fallback fallback;       /* without green contexts */
    gantry_partition_shortfall shortfall;     /* when the driver grants less */
    uint32_t reserved;                        /* 0 */
    void *parent_green;  /* CUgreenCtx of the context's device, which the application keeps for as long as the
                          * plan is in force: the plan divides the SMs of that green context alone, and so
                          * `fallback` does not count.  Another plan of the process that divides it, too, is
                          * refused.  NULL: not this.  gantry_partition_plan() does not look at it */
    void *parent_stream; /* CUstream: the same with the green context of that stream, or with the device when
                          * it has none.  It may be under capture.  NULL: not this; one of the two is NULL */
} gantry_partition_options;
#define GANTRY_PARTITION_OPTIONS_INIT                                         \
    {                                                                         \
        sizeof(gantry_partition_options), NULL, 0, GANTRY_PARTITION_REQUIRED, \
            GANTRY_PARTITION_SHORT_IS_ERROR, 0, NULL, NULL                    \
    }

/* ---- the plan ------------------------------------------------------------------------------- */

/** One partition of a plan: groups of the one split, and perhaps its remainder. */
typedef struct gantry_partition_slot {
    char name[GANTRY_PARTITION_NAME_BYTES]; /* as asked for */
    uint32_t request;                       /* index; UINT32_MAX: added for what names no partition */
    uint32_t planned_sms;                   /* its SMs */
    uint32_t shared_sms;                    /* of these, also in another partition */
    uint32_t cluster_size;                  /* promised; 0: none */
    uint32_t takes_remainder;               /* 1: what the split leaves over, too */
    uint32_t wide_sms;                      /* with what it may borrow; 0: nothing */
    uint32_t wide_remainder;                /* the same set as bits: */
    uint32_t reserved;
    uint64_t groups[4];      /* bit g % 64 of word g / 64: group g */
    uint64_t wide_groups[4]; /* the same for the wide set */
} gantry_partition_slot;

/** A group of a structured split. */
typedef struct gantry_sm_group {
    uint32_t planned_sms;                          /* its SMs */
    uint32_t is_discovered;                        /* 1: left to the driver */
    uint32_t cluster_size, preferred_cluster_size; /* as asked for */
    uint32_t backfill;                             /* 1: SMs without the promise of clusters may be in it */
} gantry_sm_group;

/** A plan: which partition gets which groups of SMs. */
typedef struct gantry_partition_layout {
    size_t struct_size;                                /* in: sizeof of the caller */
    uint32_t count;                                    /* partitions */
    uint32_t default_partition;                        /* index of the one for everything that names none */
    uint32_t is_structured;                            /* 0: equal groups of unit_sms; 1: `groups` */
    uint32_t ignores_coscheduling;                     /* 1: finer groups, no promise of clusters */
    uint32_t unit_sms;                                 /* SMs of each of the equal groups */
    uint32_t group_count;                              /* groups of the split */
    uint32_t remainder_sms;                            /* what the split leaves over */
    uint32_t unused_sms;                               /* in no partition */
    gantry_sm_group groups[2 * GANTRY_PARTITIONS_MAX]; /* with is_structured */
    gantry_partition_slot partitions[GANTRY_PARTITIONS_MAX]; /* in the order of the requests */
} gantry_partition_layout;

/** Divide a device's SMs.  Pure: asks no driver.  Requests with a number get their SMs first, in order, then
 *  discoveries, then the rest.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, a bad request (named), or more SMs than there are
 *  @retval GANTRY_ERR_UNSUPPORTED       what this driver's kind of split cannot make (named) */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_partition_plan(const gantry_sm_topology *topology,
                                                                 const gantry_partition_options *options,
                                                                 gantry_partition_layout *out);

/** Why a context's device can be divided, and into what; with what the driver really makes of it.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL or a struct_size too small
 *  @retval GANTRY_ERR_UNSUPPORTED       the driver has no green contexts (CUDA 12.4)
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY, GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST
 *  Under MPS it opens NVML for a moment, to learn the size of the whole GPU. */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_partition_read_topology(gantry_context *context,
                                                                          gantry_sm_topology *out);

/** As gantry_partition_read_topology(), for what a plan with these options divides: the parent that they
 * name, else the device.  Their requests are not looked at.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, a struct_size too small, or two parents
 *  @retval GANTRY_ERR_UNSUPPORTED       the driver has no green contexts (CUDA 12.4)
 *  @retval GANTRY_ERR_STATE             another thread gives the context another plan
 *  @retval GANTRY_ERR_DRIVER            there is no such green context or stream
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY, GANTRY_ERR_DEVICE_LOST */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_partition_read_parent_topology(
    gantry_context *context, const gantry_partition_options *options, gantry_sm_topology *out);

/* ---- partitions of a context ---------------------------------------------------------------- */

/** A context has one partition at least: without a plan the one called "default", which is all of the device.
 *  Partitions live until their context is destroyed or gets another plan. */
GANTRY_API uint32_t gantry_partition_count(const gantry_context *context);
/** In the order of the plan; NULL: no such index. */
GANTRY_API gantry_partition *gantry_partition_at(gantry_context *context, uint32_t index);
/** The one for everything that names none. */
GANTRY_API gantry_partition *gantry_partition_default(gantry_context *context);
/** The partition of that name.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL
 *  @retval GANTRY_ERR_NOT_FOUND         no partition of that name */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_partition_find(gantry_context *context, const char *name,
                                                                 gantry_partition **out);

/** The plan that is in force.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL or a struct_size too small
 *  @retval GANTRY_ERR_NOT_FOUND         the context has none */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_partition_get_layout(const gantry_context *context,
                                                                       gantry_partition_layout *out);

/** What a partition is, see gantry_partition_get_info(). */
typedef struct gantry_partition_info {
    size_t struct_size;                     /* in: sizeof of the caller */
    uint64_t id;                            /* unique in the process */
    char name[GANTRY_PARTITION_NAME_BYTES]; /* "" without a plan */
    int device;                             /* ordinal */
    uint32_t index;                         /* in the plan */
    uint32_t planned_sms;                   /* what the plan says */
    uint32_t granted_sms;                   /* what the driver gave; without a plan: what the context has */
    uint32_t total_sms;                     /* of the device, or of its MIG instance */
    uint32_t wide_sms;                      /* granted with what it may borrow; 0: nothing */
    uint32_t cluster_size;                  /* promised; 0: none */
    uint32_t workqueue_limit;               /* of its streams' queues; 0: the driver does not tell */
    gantry_workqueue_scope workqueue_scope; /* with whom queues are shared */
    int priority;                           /* that its streams have, after the driver's limit */
    bool is_default;                        /* takes everything that names none */
    bool is_exclusive;                      /* its SMs are its own: a green context, and no overlap */
    bool has_workqueues; /* the driver hands its queues on: see gantry_partition_request.workqueues_of */
    uint8_t reserved[5];
    uint32_t parent_sms; /* that the plan divides: total_sms, or those of the parent that it names */
    uint32_t reserved2;
} gantry_partition_info;

/** What a partition is.  Any thread.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL or a struct_size too small */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_partition_get_info(const gantry_partition *partition,
                                                                     gantry_partition_info *out);

/** What a partition or a task manager with a share has used; times in ns.  `share` is of the whole device's
 * time. */
typedef struct gantry_share_usage {
    size_t struct_size;                      /* in: sizeof of the caller */
    double target;                           /* of GPU time, 0.5 for half */
    double measured;                         /* since its creation */
    uint64_t used_ns;                        /* charged: busy time times the partition's part of the device */
    uint64_t since_ns;                       /* time since then */
    uint64_t throttled_ns;                   /* of that, tasks were held back for want of GPU time */
    uint64_t longest_ns;                     /* charged for one measured group of launches */
    uint64_t groups;                         /* measured */
    double worst_100ms, worst_1s, worst_10s; /* greatest share in any whole window; 0: there was none yet */
} gantry_share_usage;

/** What a partition with a share has used so far.  Any thread.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL or a struct_size too small
 *  @retval GANTRY_ERR_NOT_FOUND         the partition has no share */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_partition_get_usage(gantry_partition *partition,
                                                                      gantry_share_usage *out);

/** The same of a task manager's share.  With a fleet of several devices `used_ns`, `throttled_ns` and
 * `groups` are sums over the devices, `measured` is their mean, the others are the greatest of any device.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL or a struct_size too small
 *  @retval GANTRY_ERR_NOT_FOUND         the manager has no share */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_taskman_get_usage(gantry_taskman *manager,
                                                                    gantry_share_usage *out);

/** A CUstream (non-blocking) of the partition for work of the application's own.  It must be destroyed, with
 *  cuStreamDestroy(), before the context.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL
 *  @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_partition_create_stream(gantry_partition *partition,
                                                                          void **out);

/** Whose a CUstream is: NULL when it is of no partition.  With a plan in force that is also logged as a
 *  warning: such a stream uses the SMs of all partitions.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, or no stream
 *  @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_partition_of_stream(gantry_context *context, void *stream,
                                                                      gantry_partition **out);

/** Where the work of a stream runs. */
typedef enum gantry_stream_place {
    GANTRY_STREAM_OF_CONTEXT = 0,   /* on all SMs of the context, those of all partitions included */
    GANTRY_STREAM_OF_PARTITION = 1, /* in a partition of the context */
    GANTRY_STREAM_OF_WIDE = 2,      /* the same, with the SMs that the partition may borrow */
    GANTRY_STREAM_OF_GREEN = 3,     /* in a green context that is not of this gantry_context */
    GANTRY_STREAM_OF_OTHER = 4,     /* in a CUDA context that is not the one of this gantry_context */
} gantry_stream_place;

/** What a CUstream has, see gantry_stream_get_info(). */
typedef struct gantry_stream_info {
    size_t struct_size;          /* in: sizeof of the caller */
    gantry_partition *partition; /* of OF_PARTITION and OF_WIDE; else NULL */
    gantry_stream_place place;   /* whose SMs they are */
    uint32_t granted_sms;        /* SMs that its kernels may use */
    uint32_t total_sms;          /* of the context's device, or of its MIG instance */
    int priority;                /* 0: normal; negative: more urgent */
} gantry_stream_info;

/** How many SMs any CUstream has, and whose: also one that the application or another library has made, with
 *  or without a green context; NULL is the context's default stream.  Nothing is enqueued, and the stream may
 *  be under capture.  Any thread.
 *  Drivers do not notice a stream that was destroyed before.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, or a struct_size too small
 *  @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_stream_get_info(gantry_context *context, void *stream,
                                                                  gantry_stream_info *out);

/* ---- all streams of a partition at once ----------------------------------------------------- */

/** Record `event` (a CUevent of the context): it is done when everything is that any stream of the partition
 * has been given so far, graphs that the dispatcher has launched and that have work in it included, with what
 * they have in other partitions.  In a context without a plan the one partition is the whole context, the
 * streams of the application included.  Not to be called from a launch callback; waits while a batch is being
 * captured.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, or an event of another context
 *  @retval GANTRY_ERR_STATE             called from a launch callback; or a stream of the partition is being
 *                                       captured.  The capture stays whole if it is that of a blocking
 * stream, or of the calling thread's default stream.  Others cannot be seen, and the driver breaks them
 *  @retval GANTRY_ERR_UNSUPPORTED       one of several partitions without green contexts
 *                                       (GANTRY_PARTITION_PRIORITY_ONLY); without a plan: the driver is older
 *                                       than CUDA 12.5
 *  @retval GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_partition_record_event(gantry_partition *partition,
                                                                         void *event);
/** Whatever any stream of the partition is given from now on comes after `event`.  As above. */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_partition_wait_event(gantry_partition *partition,
                                                                       void *event);
/** Block until everything is done that any stream of the partition has been given so far.  As above, but
 *  without a plan any driver will do, and captures stay whole: see gantry_context_synchronize(). */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_partition_synchronize(gantry_partition *partition);

/* ---- another plan --------------------------------------------------------------------------- */

/** Give the context another plan, in place of the one that it has, or of none; `options` NULL: none, so that
 * one partition is the whole device.  Between steps: no task manager that uses the context, or the fleet that
 * it is of, may be running.  Waits until the GPU has done what earlier steps and the application's streams of
 * the old partitions have enqueued, however long that takes.
 *
 *  On success the old partitions are gone: their handles are refused like any handle that was destroyed.  The
 * application destroys its streams of them (gantry_partition_create_stream()) before, has no capture open on
 * one, and launches no graph any more that was captured there.  Tasks of graphs that are being built or
 * frozen, and task managers, that name a partition are in the new one of that name from now on.  Recorded and
 * kept work is dropped: stable tasks are called again in the next run.  A partition's share begins anew; what
 * a task manager with a share owes, and the process's limit, go on.  Heap, modules, copy tuning and the task
 * managers stay.  In a recording the GPU's later work has tracks of its own, named "… plan 2" and so on.
 *
 *  On failure nothing has changed, and the old plan is in force.  Takes about as long as creating a context
 * with the plan does, without its memory and modules.
 *
 *  Threading: any thread but one that runs a task or a callback of the library.  Meanwhile a step that
 * another thread starts on the context is refused, as are calls about its partitions.  No other thread may
 * submit tasks to its task managers, freeze or reset them, or create one that names a partition.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, or a bad plan (gantry_partition_plan())
 *  @retval GANTRY_ERR_STATE  a task manager is running (named); a task is in a partition that the new plan
 *                            does not have (both named); the context has an exchange, or a call about its
 *                            partitions is under way; a plan of another context divides one of the old
 *                            partitions, or the same parent; another thread changes the plan; a stream that
 *                            the heap knows is captured; called from a task or a callback, or in a forked
 * child
 *  @retval GANTRY_ERR_UNSUPPORTED  as gantry_context_create()
 *  @retval GANTRY_ERR_DRIVER, GANTRY_ERR_OUT_OF_HOST_MEMORY, GANTRY_ERR_DEVICE_LOST */
GANTRY_API GANTRY_MUST_CHECK gantry_status
gantry_context_set_partitions(gantry_context *context, const gantry_partition_options *options);

/* ---- audit ---------------------------------------------------------------------------------- */

enum {
    GANTRY_SM_SET_WORDS = 16 /* of gantry_sm_set, 64 SMs each */
};

/** Which SMs blocks ran on, as they saw it (%smid): SM i is bit i % 64 of word i / 64. */
typedef struct gantry_sm_set {
    size_t struct_size;                  /* in: sizeof of the caller */
    uint64_t words[GANTRY_SM_SET_WORDS]; /* the bits */
    uint32_t seen_sms;                   /* how many are set */
    uint32_t reserved;
} gantry_sm_set;

/** How the kernel of an audit is launched. */
typedef enum gantry_audit_way {
    GANTRY_AUDIT_STREAM = 0, /* a launch on a stream of the partition */
    GANTRY_AUDIT_GRAPH = 1,  /* captured on one, launched as a graph from a stream of no partition */
} gantry_audit_way;

/** Fill the partition with blocks of a kernel that note their SM, until no new ones show up.  Takes
 * milliseconds; blocks of others that occupy an SM all the time can hide it.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, a struct_size too small, or an unknown way
 *  @retval GANTRY_ERR_UNSUPPORTED       there is no kernel image for the device
 *  @retval GANTRY_ERR_OUT_OF_DEVICE_MEMORY, GANTRY_ERR_DRIVER, GANTRY_ERR_DEVICE_LOST */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_partition_audit(gantry_partition *partition,
                                                                  gantry_audit_way way, gantry_sm_set *out);

GANTRY_END_DECLS

#endif
