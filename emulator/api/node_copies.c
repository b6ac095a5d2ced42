/* SPDX-License-Identifier: MIT */
/* The parameters of copy and fill nodes, as the application sees and changes them. */
#include "base/alloc.h"
#include "emulator/context.h"
#include "emulator/graph.h"
#include "emulator/image.h"
#include "emulator/memory.h"

#include <string.h>

static CUmemorytype side_of(const void *address)
{
    bool is_host = gy_emu_memory_check(GY_EMU_SIDE_HOST, (uintptr_t)address, 1) == CUDA_SUCCESS;
    return is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

static bool is_pageable(const void *address)
{
    return gy_emu_memory_is_pageable((uintptr_t)address);
}

bool gy_emu_copies_alike(const struct gy_emu_work *one, const struct gy_emu_work *two)
{
    return one->kind == two->kind && is_pageable(one->copy.to) == is_pageable(two->copy.to) &&
           is_pageable(one->copy.from) == is_pageable(two->copy.from);
}

/* An array's rows are told by the place in the array, other rows by their addresses. */
static CUmemorytype tell_rows(CUarray handle, const char *first, const void **host, CUdeviceptr *device,
                              size_t *x, size_t *y)
{
    const struct gy_emu_array *array = handle != NULL ? gy_emu_array_find(handle) : NULL;
    if (array != NULL) {
        const size_t offset = (size_t)(first - array->bytes);
        *x = offset % array->pitch;
        *y = offset / array->pitch;
        return CU_MEMORYTYPE_ARRAY;
    }
    const CUmemorytype side = side_of(first);
    if (side == CU_MEMORYTYPE_HOST) {
        *host = first;
    } else {
        *device = (uintptr_t)first;
    }
    return side;
}

static void get_rows_params(const struct gy_emu_work *work, CUDA_MEMCPY3D *params)
{
    const void *to_host = NULL;
    params->srcArray = work->copy_rows.from_array;
    params->srcMemoryType = tell_rows(work->copy_rows.from_array, work->copy_rows.from, &params->srcHost,
                                      &params->srcDevice, &params->srcXInBytes, &params->srcY);
    params->dstArray = work->copy_rows.to_array;
    params->dstMemoryType = tell_rows(work->copy_rows.to_array, work->copy_rows.to, &to_host,
                                      &params->dstDevice, &params->dstXInBytes, &params->dstY);
    params->dstHost = (void *)(uintptr_t)to_host;
    params->srcPitch = work->copy_rows.from_pitch;
    params->dstPitch = work->copy_rows.to_pitch;
    params->WidthInBytes = work->copy_rows.width;
    params->Height = work->copy_rows.height;
    params->Depth = 1;
}

static CUresult get_copy_params(CUgraphNode handle, CUDA_MEMCPY3D *params)
{
    const struct gy_emu_node *node = gy_emu_handle_find(GY_EMU_NODE, handle);
    if (node == NULL || params == NULL ||
        (node->work.kind != GY_EMU_WORK_COPY && node->work.kind != GY_EMU_WORK_COPY_ROWS)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memset(params, 0, sizeof(*params));
    if (node->work.kind == GY_EMU_WORK_COPY_ROWS) {
        get_rows_params(&node->work, params);
        return CUDA_SUCCESS;
    }
    const char *to = node->work.copy.to, *from = node->work.copy.from;
    params->srcMemoryType = side_of(from);
    params->dstMemoryType = side_of(to);
    if (params->srcMemoryType == CU_MEMORYTYPE_HOST) {
        params->srcHost = from;
    } else {
        params->srcDevice = (uintptr_t)from;
    }
    if (params->dstMemoryType == CU_MEMORYTYPE_HOST) {
        params->dstHost = node->work.copy.to;
    } else {
        params->dstDevice = (uintptr_t)to;
    }
    params->WidthInBytes = node->work.copy.bytes;
    params->Height = params->Depth = 1;
    return CUDA_SUCCESS;
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *params)
{
    return GY_EMU_CALL(cuGraphMemcpyNodeGetParams, get_copy_params(node, params));
}

/* The operand of one side, one row; it must be of the kind that the node was made with, which is `before`
 * (NULL: the node is made now). */
static CUresult import_side(CUmemorytype type, const void *host, CUdeviceptr device, const void *before,
                            size_t bytes, CUdeviceptr *out)
{
    const bool is_host = type == CU_MEMORYTYPE_HOST;
    if (!is_host && type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = is_host ? (CUdeviceptr)(uintptr_t)host : device;
    const CUresult result = gy_emu_memory_check(is_host ? GY_EMU_SIDE_HOST : GY_EMU_SIDE_ANY, *out, bytes);
    return result == CUDA_SUCCESS && before != NULL &&
                   (side_of((const void *)(uintptr_t)*out) != side_of(before) ||
                    gy_emu_memory_is_pageable(*out) != is_pageable(before))
               ? CUDA_ERROR_INVALID_VALUE
               : result;
}

CUresult gy_emu_copy_params_import(const CUDA_MEMCPY3D *params, const struct gy_emu_work *before,
                                   struct gy_emu_work *work)
{
    if (params == NULL || params->Height != 1 || params->Depth != 1 || params->WidthInBytes == 0 ||
        params->srcXInBytes != 0 || params->dstXInBytes != 0 || params->srcY != 0 || params->dstY != 0 ||
        params->srcZ != 0 || params->dstZ != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const size_t bytes = params->WidthInBytes;
    if ((params->srcPitch != 0 && params->srcPitch < bytes) ||
        (params->dstPitch != 0 && params->dstPitch < bytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUdeviceptr to = 0, from = 0;
    CUresult result = import_side(params->dstMemoryType, params->dstHost, params->dstDevice,
                                  before != NULL ? before->copy.to : NULL, bytes, &to);
    if (result == CUDA_SUCCESS) {
        result = import_side(params->srcMemoryType, params->srcHost, params->srcDevice,
                             before != NULL ? before->copy.from : NULL, bytes, &from);
    }
    if (result == CUDA_SUCCESS && (!gy_emu_memory_is_granted(work->context, to, bytes) ||
                                   !gy_emu_memory_is_granted(work->context, from, bytes))) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    work->copy.to = (char *)(uintptr_t)to;
    work->copy.from = (const char *)(uintptr_t)from;
    work->copy.bytes = bytes;
    return result;
}

CUresult gy_emu_fill_params_import(const CUDA_MEMSET_NODE_PARAMS *params, struct gy_emu_work *work)
{
    if (params == NULL || params->height != 1 || params->width == 0 ||
        (params->elementSize != 1 && params->elementSize != 2 && params->elementSize != 4) ||
        params->dst % params->elementSize != 0 || params->width > SIZE_MAX / params->elementSize) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const size_t bytes = params->width * params->elementSize;
    work->fill.to = (char *)(uintptr_t)params->dst;
    work->fill.count = params->width;
    work->fill.value = params->value;
    work->fill.width = params->elementSize;
    const CUresult result = gy_emu_memory_check(GY_EMU_SIDE_DEVICE, params->dst, bytes);
    return result == CUDA_SUCCESS && !gy_emu_memory_is_granted(work->context, params->dst, bytes)
               ? CUDA_ERROR_INVALID_VALUE
               : result;
}

/* ---- nodes that are made without a capture ----------------------------------------------------- */

/* The place of a new node, and the context of its operands. */
struct new_node {
    CUgraphNode *out;
    CUgraph graph;
    const CUgraphNode *dependencies;
    size_t count;
    CUcontext context;
};

/* One of these is given. */
static CUresult add(const struct new_node *n, const CUDA_MEMCPY3D *copy, const CUDA_MEMSET_NODE_PARAMS *fill)
{
    struct gy_emu_graph *graph = gy_emu_handle_find(GY_EMU_GRAPH, n->graph);
    struct gy_emu_work work = {.kind = copy != NULL ? GY_EMU_WORK_COPY : GY_EMU_WORK_FILL};
    CUresult result = gy_emu_context_find(n->context, &work.context);
    if (result != CUDA_SUCCESS || graph == NULL || graph->is_broken || n->out == NULL ||
        (copy == NULL && fill == NULL)) {
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_node **nodes = gy_emu_graph_find_nodes(graph, n->dependencies, n->count, &result);
    struct gy_emu_node *node;
    if (result == CUDA_SUCCESS) {
        result = copy != NULL ? gy_emu_copy_params_import(copy, NULL, &work)
                              : gy_emu_fill_params_import(fill, &work);
    }
    if (result == CUDA_SUCCESS) {
        result = gy_emu_graph_add(graph, &work, nodes, (uint32_t)n->count, &node);
    }
    if (result == CUDA_SUCCESS) {
        *n->out = (CUgraphNode)node->object.handle;
    }
    gy_free(nodes);
    return result;
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                              const CUDA_MEMCPY3D *params, CUcontext context)
{
    const struct new_node n = {node, graph, dependencies, count, context};
    return GY_EMU_CALL(cuGraphAddMemcpyNode, add(&n, params, NULL));
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
    const struct new_node n = {node, graph, dependencies, count, context};
    return GY_EMU_CALL(cuGraphAddMemsetNode, add(&n, NULL, params));
}
