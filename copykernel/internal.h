/* SPDX-License-Identifier: MIT */
/* The parts of the copier that its own files share. */
#ifndef COPYKERNEL_INTERNAL_H
#define COPYKERNEL_INTERNAL_H

#include "copykernel/copier.h"
#include "copykernel/format.h"
#include "copykernel/ring.h"
#include "copykernel/scan.h"

#include <stdatomic.h>

/* The kernels of the copier's module. */
enum gy_copy_form {
    GY_COPY_FORM_FEW,
    GY_COPY_FORM_INLINE,
    GY_COPY_FORM_MANY,
    GY_COPY_FORM_PLAIN,
    GY_COPY_FORM_TABLE,
    GY_COPY_FORM_ARRAYS,
    GY_COPY_FORM_ARRAYS_LARGE,
    GY_COPY_FORM_DESCS,
    GY_COPY_FORM_DESCS_LARGE,
    GY_COPY_FORM_ONE,
    GY_COPY_FORM_ROWS,
    GY_COPY_FORMS,
};

/* What the batches of now are for.
 *
 *            gy_copier_begin_capture()
 *     STREAM ────────────────────────► GRAPH
 *        ▲                               │ gy_copier_capture_launched(), .._kept(), .._dropped()
 *        └───────────────────────────────┘
 */
enum gy_copier_use {
    GY_COPIER_FOR_STREAM, /* a chunk is free again when its stream has passed the launch */
    GY_COPIER_FOR_GRAPH, /* chunks belong to a graph that is being made, until it is launched, kept or dropped
                          */
};

struct gy_copier {
    struct gy_context *context;                   /* immutable */
    gantry_heap *heap;                            /* immutable */
    struct gantry_module *module;                 /* immutable */
    struct gantry_kernel *kernels[GY_COPY_FORMS]; /* immutable */
    struct gantry_kernel *seen[GY_COPY_FORMS];    /* immutable: the same kernels for recordings */
    bool takes_many;                              /* immutable; GY_COPY_FORM_MANY can be launched */
    int least_priority;                           /* immutable */
    enum gy_copier_use use;                       /* dispatcher thread only; written by set_use() */
    struct gy_copy_ring ring;                     /* dispatcher thread only */
    struct gy_copy_ring scratch;                  /* dispatcher thread only; device memory for lists */
    struct gy_copy_item *items;                   /* dispatcher thread only; `room` of them */
    struct gy_copy_range *ranges;                 /* dispatcher thread only; twice as many */
    size_t room;                                  /* dispatcher thread only */
    struct gy_copy_places places;                 /* dispatcher thread only */
    _Atomic(struct gy_copy_chunk *) returned;     /* atomic: chunks of graphs that are no longer kept */
    struct gy_copy_many parameters;               /* dispatcher thread only */
    gy_mutex lock;                                /* rank LEAF */
    gantry_copy_tuning tuning;                    /* guarded by lock */
    gantry_copy_peer_tuning peers[GY_COPY_PEERS]; /* guarded by lock; struct_size 0: the defaults */
    _Atomic(uint32_t) takes_one[GY_COPY_PEERS];   /* atomic; written under lock: bit c of size class c, to the
                                                     device; bit 8 + c, from it */
};

/* How a batch is performed: the result of the context's tuning, the call's options and the partition. */
struct gy_copy_way {
    CUstream stream;
    struct gy_lane *lane; /* as in struct gy_copy_target */
    gantry_copy_tuning tuning;
    uint32_t multiprocessors; /* the multiprocessors that the kernel may run on */
    bool low_priority;
    struct gy_cta *ctas; /* both as in struct gy_copy_target */
    const struct gy_cta_request *request;
    const struct gy_cta_copies *copies; /* what a recording says of the batch; NULL: nothing is known */
    struct gy_copy_went *went;          /* as in struct gy_copy_target */
};

/* Launch as gy_copier_launch() does, in the given way. */
GANTRY_MUST_CHECK gantry_status gy_copier_launch_way(struct gy_copier *copier, const gantry_copy_desc *descs,
                                                     size_t count, const struct gy_copy_way *way);

/* Apply the call's options over the context's tuning; there are no more blocks than the partition has
 * multiprocessors.  Statuses as gantry_copy_launch_with(). */
GANTRY_MUST_CHECK gantry_status gy_copier_make_way(struct gy_copier *copier,
                                                   const struct gy_copy_target *target,
                                                   const gantry_copy_options *options,
                                                   struct gy_copy_way *way);

/* Take a chunk of one of the copier's rings, and say that a launch uses it; both also during a capture. */
GANTRY_MUST_CHECK gantry_status gy_copier_take_chunk(struct gy_copier *copier, struct gy_copy_ring *ring,
                                                     size_t bytes, struct gy_copy_chunk **out);
GANTRY_MUST_CHECK gantry_status gy_copier_chunk_launched(struct gy_copier *copier, struct gy_copy_ring *ring,
                                                         struct gy_copy_chunk *chunk, CUstream stream);

/* Sum up what a batch does, for recordings: of items, or of descriptors that all have the same type. */
void gy_copy_sum_items(const struct gy_copy_item *items, size_t count, struct gy_cta_copies *out);
void gy_copy_sum_descs(const gantry_copy_desc *descs, size_t count, struct gy_cta_copies *out);

/* A grid of one of the copier's kernels, with the threads per block.  `arguments` has room for two more than
 * the `count` that there are. */
struct gy_copy_grid {
    enum gy_copy_form form;
    uint32_t blocks, threads;
};
GANTRY_MUST_CHECK gantry_status gy_copier_launch_kernel(struct gy_copier *copier,
                                                        const struct gy_copy_way *way,
                                                        const struct gy_copy_grid *grid, void **arguments,
                                                        uint32_t count);

/* The number of blocks of 256 threads for this many copies: each copy may have a warp while the device runs
 * all of these at once; beyond that, 32 copies share a warp. */
uint32_t gy_copier_list_blocks(const struct gy_copier *copier, const struct gy_copy_way *way, uint32_t most);

/* Find the addresses at which the device sees a list.  Statuses as gantry_copy_launch_list(). */
GANTRY_MUST_CHECK gantry_status gy_copier_find_arrays(struct gy_copier *copier, const gantry_copy_list *list,
                                                      struct gy_copy_list_view *view);

#endif
