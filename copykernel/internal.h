/* Between the copier's own files. */
#ifndef COPYKERNEL_INTERNAL_H
#define COPYKERNEL_INTERNAL_H

#include "copykernel/copier.h"
#include "copykernel/ring.h"

struct gy_context *gy_copier_context(struct gy_copier *copier);

/* gy_copier_launch() with a tuning of its own. */
GANTRY_MUST_CHECK gantry_status gy_copier_launch_tuned(struct gy_copier *copier, CUstream stream,
                                                       const gantry_copy_desc *descs, size_t count,
                                                       const gantry_copy_tuning *tuning);

#endif
