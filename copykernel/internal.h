/* Between the copier's own files. */
#ifndef COPYKERNEL_INTERNAL_H
#define COPYKERNEL_INTERNAL_H

#include "copykernel/copier.h"
#include "copykernel/format.h"
#include "copykernel/ring.h"
#include "copykernel/scan.h"

#include <stdatomic.h>

/* Kernels of the copier's module. */
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

struct gy_copier {
    struct gy_context *context;                   /* immutable */
    gantry_heap *heap;                            /* immutable */
    struct gantry_module *module;                 /* immutable */
    struct gantry_kernel *kernels[GY_COPY_FORMS]; /* immutable */
    struct gantry_kernel *seen[GY_COPY_FORMS];    /* immutable: the same for recordings */
    bool takes_many;                              /* immutable; GY_COPY_FORM_MANY can be launched */
    int least_priority;                           /* immutable */
    bool capturing;               /* dispatcher thread only, as all of the following but the tuning */
    struct gy_copy_ring ring;     /* dispatcher thread only */
    struct gy_copy_ring scratch;  /* dispatcher thread only; device memory, for lists */
    struct gy_copy_item *items;   /* dispatcher thread only; `room` of them */
    struct gy_copy_range *ranges; /* dispatcher thread only; twice as many */
    size_t room;                  /* dispatcher thread only */
    struct gy_copy_places places; /* dispatcher thread only */
    _Atomic(struct gy_copy_chunk *) returned; /* atomic: of graphs that are kept no more */
    struct gy_copy_many parameters;           /* dispatcher thread only */
    gy_mutex lock;                            /* rank LEAF */
    gantry_copy_tuning tuning;                /* guarded by lock */
};

/* How a batch is performed: what the context's tuning, the call's options and the partition come to. */
struct gy_copy_way {
    CUstream stream;
    struct gy_lane *lane; /* as in struct gy_copy_target */
    gantry_copy_tuning tuning;
    uint32_t multiprocessors; /* that the kernel may run on */
    bool low_priority;
    struct gy_cta *ctas; /* as in struct gy_copy_target, both */
    const struct gy_cta_request *request;
};

/* gy_copier_launch() in a way of its own. */
GANTRY_MUST_CHECK gantry_status gy_copier_launch_way(struct gy_copier *copier, const gantry_copy_desc *descs,
                                                     size_t count, const struct gy_copy_way *way);

/* The call's options over the context's tuning; no more blocks than the partition has multiprocessors.
 * Statuses as gantry_copy_launch_with(). */
GANTRY_MUST_CHECK gantry_status gy_copier_make_way(struct gy_copier *copier,
                                                   const struct gy_copy_target *target,
                                                   const gantry_copy_options *options,
                                                   struct gy_copy_way *way);

/* A chunk of one of the copier's rings, and what becomes of it when a launch uses it; during a capture too.
 */
GANTRY_MUST_CHECK gantry_status gy_copier_take_chunk(struct gy_copier *copier, struct gy_copy_ring *ring,
                                                     size_t bytes, struct gy_copy_chunk **out);
GANTRY_MUST_CHECK gantry_status gy_copier_chunk_launched(struct gy_copier *copier, struct gy_copy_ring *ring,
                                                         struct gy_copy_chunk *chunk, CUstream stream);

/* A kernel of the copier's in blocks of so many threads.  `arguments` has room for two more than the `count`
 * that there are. */
struct gy_copy_grid {
    enum gy_copy_form form;
    uint32_t blocks, threads;
};
GANTRY_MUST_CHECK gantry_status gy_copier_launch_kernel(struct gy_copier *copier,
                                                        const struct gy_copy_way *way,
                                                        const struct gy_copy_grid *grid, void **arguments,
                                                        uint32_t count);

/* Blocks of 256 threads for so many copies of which each may have a warp while the device runs them at once;
 * then 32 share one. */
uint32_t gy_copier_list_blocks(const struct gy_copier *copier, const struct gy_copy_way *way, uint32_t most);

/* Turn descriptors into copier->items.  Statuses as gantry_copy_launch(). */
GANTRY_MUST_CHECK gantry_status gy_copier_resolve(struct gy_copier *copier, const gantry_copy_desc *descs,
                                                  size_t count, bool any_kind, size_t *used);

#endif
