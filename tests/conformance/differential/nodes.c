/* SPDX-License-Identifier: MIT */
#include "tests/conformance/differential/nodes.h"

#include <string.h>

const struct df_node *df_node(void)
{
    const struct df_node *node = &w.nodes[df_slot("n", DF_NODES)];
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    if (node->node == NULL || cu->cuGraphNodeGetType(node->node, &type) != CUDA_SUCCESS) {
        return NULL;
    }
    df_shape("t%d", (int)type);
    return node;
}

CUDA_MEMSET_NODE_PARAMS df_draw_fill(void)
{
    size_t room = 0;
    CUDA_MEMSET_NODE_PARAMS fill;
    memset(&fill, 0, sizeof(fill));
    fill.dst = df_place(&room);
    fill.elementSize = (unsigned)DF_PICK("size", 1, 2, 4, 1, 2, 4, 4, 0, 3, 8);
    fill.value = (unsigned)DF_PICK("v", 0, 1, 0xab, 0x1234, 0xdeadbeef, 0xffffffff, 0x100, 0x10000);
    fill.height = (size_t)DF_PICK("rows", 1, 1, 1, 1, 2, 3, 0);
    fill.pitch = (size_t)DF_PICK("pitch", 0, 16, 64, 100, 1);
    size_t most = fill.elementSize != 0 ? room / fill.elementSize : room;
    fill.width = (size_t)DF_PICK("width", 1, 2, 16, 8, 0, 100, 3);
    if (df_below(2) == 0) {
        df_shape("plain");
        fill.height = 1;
        fill.elementSize = fill.elementSize == 2 ? 2 : 4;
        fill.dst &= ~(CUdeviceptr)3;
        fill.width = fill.width != 0 ? fill.width : 5;
    }
    fill.width = fill.width <= most ? fill.width : most;
    size_t widest = fill.width * (fill.elementSize != 0 ? fill.elementSize : 1);
    size_t pitch = fill.pitch > widest ? fill.pitch : widest;
    if (fill.height > 1 && fill.height * pitch > room) {
        fill.height = 1;
        df_shape("one");
    }
    return fill;
}

void df_has_foreign_fill(CUresult result, const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext context)
{
    w.has_foreign_fill |=
        result == CUDA_SUCCESS && df_is_foreign(context == w.primary ? 'a' : 'b', fill->dst);
}

CUDA_MEMCPY3D df_draw_copy(void)
{
    CUDA_MEMCPY3D copy;
    memset(&copy, 0, sizeof(copy));
    bool is_plain = df_below(2) == 0;
    uint32_t from = df_below(DF_ARENAS), to = (from + 1 + df_below(DF_ARENAS - 1)) % DF_ARENAS;
    df_shape("%c%c", "abp"[from], "abp"[to]);
    copy.srcDevice = w.arena[from];
    copy.dstDevice = w.arena[to];
    copy.srcHost = w.pageable + DF_ARENA / 2;
    copy.dstHost = w.pageable;
    if (is_plain) {
        copy.srcMemoryType = (CUmemorytype)DF_PICK("from", 2, 2, 2, 1, 4);
        copy.dstMemoryType = (CUmemorytype)DF_PICK("to", 2, 2, 2, 1, 4);
        copy.WidthInBytes = (size_t)DF_PICK("w", 1, 4, 64, 16, 100);
        copy.Height = copy.Depth = 1;
        return copy;
    }
    copy.srcMemoryType = (CUmemorytype)DF_PICK("from", 2, 2, 2, 2, 1, 4, 0, 5);
    copy.dstMemoryType = (CUmemorytype)DF_PICK("to", 2, 2, 2, 2, 1, 4, 0, 5);
    copy.srcXInBytes = (size_t)DF_PICK("x", 0, 0, 0, 4, 1);
    copy.WidthInBytes = (size_t)DF_PICK("w", 1, 4, 64, 16, 100, 0);
    copy.Height = (size_t)DF_PICK("h", 1, 1, 1, 1, 2, 4, 0);
    copy.Depth = (size_t)DF_PICK("d", 1, 1, 1, 1, 1, 2, 0);
    copy.srcPitch = (size_t)DF_PICK("sp", 0, 128, 104, 64, 8);
    copy.dstPitch = (size_t)DF_PICK("dp", 0, 128, 104, 64, 8);
    copy.srcHeight = (size_t)DF_PICK("sh", 0, 4, 2, 1);
    copy.dstHeight = (size_t)DF_PICK("dh", 0, 4, 2, 1);
    return copy;
}

CUDA_KERNEL_NODE_PARAMS_v2 df_draw_kernel(void *params[3])
{
    static const unsigned grids[][3] = {{1, 1, 1}, {2, 1, 1},     {7, 1, 1}, {16, 1, 1},
                                        {0, 1, 1}, {1, 65536, 1}, {1, 2, 3}};
    static const unsigned blocks[][3] = {{1, 1, 1}, {32, 1, 1},   {64, 1, 1}, {128, 1, 1},
                                         {0, 1, 1}, {1025, 1, 1}, {2, 2, 2}};
    CUDA_KERNEL_NODE_PARAMS_v2 kernel;
    memset(&kernel, 0, sizeof(kernel));
    uint32_t g = df_below(20), b = df_below(20);
    g = g < 7 ? g : g % 4;
    b = b < 7 ? b : b % 4;
    df_shape("g%u,b%u", g, b);
    kernel.func = df_function(params, g < 6 && b < 6);
    kernel.gridDimX = grids[g][0];
    kernel.gridDimY = grids[g][1];
    kernel.gridDimZ = grids[g][2];
    kernel.blockDimX = blocks[b][0];
    kernel.blockDimY = blocks[b][1];
    kernel.blockDimZ = blocks[b][2];
    kernel.sharedMemBytes = (unsigned)DF_PICK("sh", 0, 0, 0, 0, 0, 1024, 49152, 49153, 232449);
    kernel.kernelParams = params;
    if (df_one_in(40)) {
        df_shape("none");
        kernel.func = NULL;
    }
    return kernel;
}
