/* SPDX-License-Identifier: MIT */
/* Modules, functions, occupancy and launches. */
#include "tests/conformance/differential/ops.h"

#include <string.h>

static void op_module(void)
{
    static const char garbage[4096] = "this is no module";
    CUmodule module = NULL;
    CUfunction function = NULL;
    static const char *const names[] = {"cf_add", "cf_look", "no_such_kernel", "", NULL};
    const void *images[] = {w.image, garbage, garbage + 64, NULL};
    uint32_t name = df_choice("name", 5), image = df_below(8);
    image = image < 4 ? image : 3; /* loading takes long */
    df_shape("image%u", image);
    if (ask(cuModuleLoadDataEx, df_or_null(&module), images[image], 0, NULL, NULL) != CUDA_SUCCESS ||
        module == NULL) {
        return;
    }
    ask(cuModuleGetFunction, df_or_null(&function), module, names[name]);
    ask(cuModuleUnload, module);
}

static void op_function(void)
{
    CUfunction function = NULL;
    static const char *const names[] = {"cf_add", "cf_look", "no_such_kernel", "", NULL};
    uint32_t name = df_choice("name", 5), which = df_choice("m", 2);
    if (ask(cuModuleGetFunction, df_or_null(&function), w.modules[which], names[name]) == CUDA_SUCCESS) {
        df_note("%d", function == w.add[which] || function == w.look[which]);
    }
}

static CUfunction function_of_slot(void)
{
    uint32_t which = df_choice("f", 6);
    return which < 2 ? w.add[which] : which < 4 ? w.look[which - 2] : which == 4 ? w.cluster : NULL;
}

static void op_get_attribute(void)
{
    static const int attributes[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 14, 15, 16, 99, -1};
    int attribute = attributes[df_below(16)], value = -7;
    df_shape("a%d", attribute);
    CUfunction function = function_of_slot();
    CUresult result = ask(cuFuncGetAttribute, df_or_null(&value), (CUfunction_attribute)attribute, function);
    if (result == CUDA_SUCCESS && (attribute == 0 || attribute == 1 || attribute == 8 || attribute == 14)) {
        df_note("%d", value);
    }
}

static void op_set_attribute(void)
{
    static const int values[] = {0, 1, -1, 1024, 49152, 49153, 65536, 232448, 232449, 1 << 30, 2};
    static const int attributes[] = {8, 8, 8, 14, 0, 1, 4, 9, 99, 8};
    int attribute = attributes[df_below(10)];
    df_shape("a%d", attribute);
    int value = values[df_choice("v", 11)];
    CUfunction function = function_of_slot();
    ask(cuFuncSetAttribute, function, (CUfunction_attribute)attribute, value);
}

static void op_param_info(void)
{
    size_t offset = 77, bytes = 77;
    size_t index = DF_PICK("i", 0, 1, 2, 3, 4, ~0ull);
    CUfunction function = function_of_slot();
    if (ask(cuFuncGetParamInfo, function, index, df_or_null(&offset), df_or_null(&bytes)) == CUDA_SUCCESS) {
        df_note("%zu.%zu", offset, bytes);
    }
}

static void op_blocks(void)
{
    int blocks = -7, sizes[] = {1, 32, 256, 1024, 1025, 0, -1};
    int size = sizes[df_choice("block", 7)];
    size_t shared = DF_PICK("shared", 0, 0, 1024, 49152, 49153, 232448, 232449, ~0ull);
    CUfunction function = function_of_slot();
    ask(cuOccupancyMaxActiveBlocksPerMultiprocessor, df_or_null(&blocks), function, size, shared);
    df_note("%d", blocks);
}

/* Grids whose threads may be many, but not too many for a host that takes them one by one. */
static bool draw_grid(unsigned grid[3], unsigned block[3])
{
    static const unsigned grids[][3] = {{1, 1, 1}, {2, 1, 1},     {7, 1, 1},     {16, 1, 1},
                                        {2, 2, 2}, {1, 3, 1},     {0, 1, 1},     {1, 0, 1},
                                        {1, 1, 0}, {1, 65536, 1}, {1, 1, 65536}, {0x80000000u, 1, 1},
                                        {1, 1, 3}, {1, 300, 1},   {3, 1, 1}};
    static const unsigned blocks[][3] = {{1, 1, 1},    {32, 1, 1},  {64, 1, 1},   {100, 1, 1},
                                         {128, 1, 1},  {4, 4, 1},   {2, 2, 2},    {0, 1, 1},
                                         {1, 0, 1},    {1, 1, 0},   {1025, 1, 1}, {1, 1, 65},
                                         {1, 1025, 1}, {32, 32, 2}, {1, 1, 64},   {1024, 1, 1}};
    uint32_t g = df_below(80), b = df_below(80);
    g = g < 15 ? g : g % 4;
    b = b < 16 ? b : b % 5;
    df_shape("g%u,b%u", g, b);
    memcpy(grid, grids[g], sizeof(grids[g]));
    memcpy(block, blocks[b], sizeof(blocks[b]));
    return grid[1] <= 1 && grid[2] <= 1 && block[1] <= 1 && block[2] <= 1;
}

static unsigned draw_shared(void)
{
    static const unsigned sizes[] = {49152, 49153, 65536, 232448, 232449, 0xffffffffu};
    uint32_t number = df_below(60);
    if (number >= 6) {
        return number < 50 ? 0 : 1024;
    }
    df_shape("sh%u", number);
    return sizes[number];
}

static void op_launch(void)
{
    unsigned grid[3], block[3];
    void *params[3];
    CUstream stream = df_stream();
    bool is_plain = draw_grid(grid, block);
    CUfunction function = df_function(params, is_plain);
    unsigned shared = draw_shared();
    if (df_one_in(40)) {
        df_shape("none");
        function = NULL;
    }
    if (!df_stream_is_there()) {
        df_skip(DF_cuLaunchKernel);
        return;
    }
    ask(cuLaunchKernel, function, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, stream,
        df_or_null(params), NULL);
}

static unsigned draw_attributes(CUlaunchAttribute attributes[3])
{
    static const unsigned dims[][3] = {{1, 1, 1}, {2, 1, 1}, {4, 1, 1}, {8, 1, 1},  {16, 1, 1},
                                       {3, 1, 1}, {0, 1, 1}, {1, 2, 1}, {17, 1, 1}, {1, 1, 9}};
    static const int ids[] = {4, 4, 2, 8, 6, 10, 11, 0, 1, 99};
    unsigned count = df_choice("n", 3);
    memset(attributes, 0, 3 * sizeof(*attributes));
    for (unsigned i = 0; i < count; i++) {
        int id = ids[df_below(10)];
        uint32_t value = df_below(10);
        df_shape("id%d=%u", id, value);
        attributes[i].id = (CUlaunchAttributeID)id;
        switch (id) {
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
            attributes[i].value.clusterDim.x = dims[value][0];
            attributes[i].value.clusterDim.y = dims[value][1];
            attributes[i].value.clusterDim.z = dims[value][2];
            break;
        case CU_LAUNCH_ATTRIBUTE_PRIORITY:
            attributes[i].value.priority = (int)value - 7;
            break;
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: /* these kernels never wait for the
                                                                       earlier */
        case 0:
        case 1:
        case 99:
            break;
        default:
            attributes[i].value.cooperative = value < 6 ? (int)value % 2 : (int)value - 7;
        }
    }
    return count;
}

/* The draws are made one after the other: the order in which a list of initialisers is evaluated is open. */
static CUlaunchConfig draw_config(const unsigned grid[3], const unsigned block[3],
                                  CUlaunchAttribute *attributes)
{
    CUlaunchConfig config = {.gridDimX = grid[0],
                             .gridDimY = grid[1],
                             .gridDimZ = grid[2],
                             .blockDimX = block[0],
                             .blockDimY = block[1],
                             .blockDimZ = block[2],
                             .attrs = attributes};
    config.sharedMemBytes = draw_shared();
    config.numAttrs = draw_attributes(attributes);
    return config;
}

static void op_launch_ex(void)
{
    unsigned grid[3], block[3];
    void *params[3];
    CUlaunchAttribute attributes[3];
    CUstream stream = df_stream();
    bool is_plain = draw_grid(grid, block);
    CUfunction function = df_function(params, is_plain);
    CUlaunchConfig config = draw_config(grid, block, attributes);
    config.hStream = stream;
    if (!df_stream_is_there()) {
        df_skip(DF_cuLaunchKernelEx);
        return;
    }
    ask(cuLaunchKernelEx, df_or_null(&config), function, params, NULL);
}

static void op_clusters(void)
{
    unsigned grid[3], block[3];
    int number = -7;
    CUlaunchAttribute attributes[3];
    bool is_size = df_choice("size", 2) == 0;
    (void)draw_grid(grid, block);
    CUlaunchConfig config = draw_config(grid, block, attributes);
    CUfunction function = function_of_slot();
    if (is_size) {
        ask(cuOccupancyMaxPotentialClusterSize, df_or_null(&number), function, df_or_null(&config));
    } else {
        ask(cuOccupancyMaxActiveClusters, df_or_null(&number), function, df_or_null(&config));
    }
    df_note("%d", number);
}

static void count_up(void *user)
{
    *(uint32_t *)user += 1;
}

static void op_host(void)
{
    CUstream stream = df_stream();
    bool has_function = !df_one_in(16);
    df_shape("f%d", has_function);
    if (!df_stream_is_there()) {
        df_skip(DF_cuLaunchHostFunc);
        return;
    }
    ask(cuLaunchHostFunc, stream, has_function ? count_up : NULL, (char *)w.pageable + 4);
}

const struct df_op df_ops_launch[] = {{1, op_module},        {2, op_function},   {3, op_get_attribute},
                                      {3, op_set_attribute}, {2, op_param_info}, {2, op_blocks},
                                      {12, op_launch},       {8, op_launch_ex},  {3, op_clusters},
                                      {4, op_host},          {0, NULL}};
