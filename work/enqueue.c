/* SPDX-License-Identifier: MIT */
/* The work of one node as the driver wants it: described, or enqueued on a stream, where it is captured into
 * a graph, or played. */
#include "work/nodes.h"

#include "base/alloc.h"

gantry_status gy_nodes_describe(struct gy_nodes *n, const struct gy_node *node,
                                CUDA_KERNEL_NODE_PARAMS_v2 *out)
{
    const struct gy_node_kernel *k = &node->kernel;
    const struct gy_kernel_layout *layout = k->layout;
    const struct gy_launch_size *size = &k->size;
    if (layout->count > n->making.pointers_room &&
        !gy_grow_array(&n->making.pointers, &n->making.pointers_room, layout->count,
                       sizeof(*n->making.pointers))) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "out of memory for the nodes of a graph");
    }
    unsigned char *bytes = n->bytes + k->at;
    void **pointers = n->making.pointers;
    for (uint32_t i = 0; i < layout->count; i++) {
        pointers[i] = bytes + layout->of[i].offset;
    }
    *out = (CUDA_KERNEL_NODE_PARAMS_v2){.func = k->function,
                                        .gridDimX = size->grid.x,
                                        .gridDimY = size->grid.y,
                                        .gridDimZ = size->grid.z,
                                        .blockDimX = size->block.x,
                                        .blockDimY = size->block.y,
                                        .blockDimZ = size->block.z,
                                        .sharedMemBytes = (unsigned)size->shared_bytes,
                                        .kernelParams = pointers};
    return GANTRY_OK;
}

static GY_COLD gantry_status launch_with_extra(struct gy_nodes *n, const struct gy_node *node,
                                               CUstream stream, void **args)
{
    const struct gy_node_kernel *k = &node->kernel;
    const struct gy_launch_extra *extra = &n->extras[k->extra - 1];
    return gy_context_check(n->context,
                            gy_launch_with(n->context->driver, k->function, &k->size, extra, stream, args),
                            "cuLaunchKernelEx()", __FILE__, __LINE__);
}

static gantry_status launch_kernel(struct gy_nodes *n, const struct gy_node *node, CUstream stream)
{
    CUDA_KERNEL_NODE_PARAMS_v2 p;
    const gantry_status status = gy_nodes_describe(n, node, &p);
    if (status != GANTRY_OK) {
        return status;
    }
    if (node->kernel.extra != 0) {
        return launch_with_extra(n, node, stream, p.kernelParams);
    }
    return GY_CALL(n->context,
                   cuLaunchKernel(p.func, p.gridDimX, p.gridDimY, p.gridDimZ, p.blockDimX, p.blockDimY,
                                  p.blockDimZ, p.sharedMemBytes, stream, p.kernelParams, NULL));
}

CUDA_MEMSET_NODE_PARAMS gy_fill_describe(const struct gy_fill *fill)
{
    return (CUDA_MEMSET_NODE_PARAMS){.dst = fill->at,
                                     .value = fill->pattern,
                                     .elementSize = fill->pattern_bytes,
                                     .width = fill->count,
                                     .height = 1};
}

gantry_status gy_fill_enqueue(struct gy_context *context, const struct gy_fill *fill, CUstream stream)
{
    switch (fill->pattern_bytes) {
    case 4:
        return GY_CALL(context, cuMemsetD32Async(fill->at, fill->pattern, fill->count, stream));
    case 2:
        return GY_CALL(context,
                       cuMemsetD16Async(fill->at, (unsigned short)fill->pattern, fill->count, stream));
    default:
        return GY_CALL(context, cuMemsetD8Async(fill->at, (unsigned char)fill->pattern, fill->count, stream));
    }
}

gantry_status gy_node_enqueue(struct gy_nodes *n, const struct gy_node *node, CUstream stream)
{
    switch (node->kind) {
    case GY_NODE_KERNEL:
        return launch_kernel(n, node, stream);
    case GY_NODE_COPY:
        return GY_CALL(n->context, cuMemcpyAsync(node->copy.to, node->copy.from, node->copy.bytes, stream));
    case GY_NODE_FILL:
        return gy_fill_enqueue(n->context, &node->fill, stream);
    case GY_NODE_EVENT:
    case GY_NODE_WAIT:
    case GY_NODE_GRAPH:
        break;
    }
    return GANTRY_OK;
}
