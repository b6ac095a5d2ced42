/* Between the copier's own files. */
#ifndef COPYKERNEL_INTERNAL_H
#define COPYKERNEL_INTERNAL_H

#include "copykernel/copier.h"
#include "copykernel/ring.h"

struct gy_context *gy_copier_context(struct gy_copier *copier);

/* How a batch is performed: what the context's tuning, the call's options and the partition come to. */
struct gy_copy_way {
    CUstream stream;
    gantry_copy_tuning tuning;
    uint32_t multiprocessors; /* that the kernel may run on */
    bool low_priority;
    struct gy_cta *ctas; /* as in struct gy_copy_target, both */
    const struct gy_cta_request *request;
};

/* gy_copier_launch() in a way of its own. */
GANTRY_MUST_CHECK gantry_status gy_copier_launch_way(struct gy_copier *copier, const gantry_copy_desc *descs,
                                                     size_t count, const struct gy_copy_way *way);

#endif
