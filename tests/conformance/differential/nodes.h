/* SPDX-License-Identifier: MIT */
/* What nodes are made of, drawn: for nodes that are added, changed, and changed in an executable graph. */
#ifndef TESTS_CONFORMANCE_DIFFERENTIAL_NODES_H
#define TESTS_CONFORMANCE_DIFFERENTIAL_NODES_H

#include "tests/conformance/differential/ops.h"

CUDA_MEMSET_NODE_PARAMS df_draw_fill(void);
/* A node with it was made or changed: does it fill memory of the other device? */
void df_has_foreign_fill(CUresult result, const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext context);
CUDA_MEMCPY3D df_draw_copy(void);
CUDA_KERNEL_NODE_PARAMS_v2 df_draw_kernel(void *params[3]);
/* A node slot that is full, or NULL. */
const struct df_node *df_node(void);

#endif
