#include "tests/conformance/differential/world.h"

#include "driver/module.h"

#include "conformance_kernels.kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEGACY ((CUstream)(uintptr_t)1)
#define PER_THREAD ((CUstream)(uintptr_t)2)

/* A function's attribute that Gantry does not use. */
#define PREFERRED_CARVEOUT ((CUfunction_attribute)9)

struct df_world w;

static void must(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "differential: %s: %s (%d)\n", what, gy_driver_result_name(cu, result), (int)result);
        df_line("lost %s L%d", what, (int)result);
        _exit(4);
    }
}
#define MUST(call) must(cu->call, #call)

/* ---- once per process ------------------------------------------------------------------------ */

/* What is loaded in a context. */
struct kernels {
    CUmodule module;
    CUfunction add, look, cluster;
};
static struct kernels kernels[2]; /* of A and B */

static void open_kernels(struct kernels *out, CUcontext context, CUdeviceptr data)
{
    uint32_t count = 0, value = 0;
    void *params[] = {&data, &count, &value}, *look[] = {&data, &data};
    MUST(cuCtxSetCurrent(context));
    MUST(cuModuleLoadDataEx(&out->module, w.image, 0, NULL, NULL));
    MUST(cuModuleGetFunction(&out->add, out->module, "cf_add"));
    MUST(cuModuleGetFunction(&out->look, out->module, "cf_look"));
    MUST(cuModuleGetFunction(&out->cluster, out->module, "cf_cluster"));
    MUST(cuLaunchKernel(out->add, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    MUST(cuLaunchKernel(out->look, 1, 1, 1, 1, 1, 1, 0, NULL, look, NULL));
    MUST(cuCtxSynchronize());
}

/* Context B and what is in it; without it, A's in its place. */
static void choose_other(bool has_other)
{
    w.has_other = has_other;
    if (has_other && w.other == NULL) {
        MUST(cuCtxCreate(&w.other, 0, w.device));
        MUST(cuMemAlloc(&w.arena_of_b, 2 * DF_ARENA));
        w.arena_of_b += DF_ARENA / 2;
        open_kernels(&kernels[1], w.other, w.arena_of_b);
    }
    const struct kernels *chosen[] = {&kernels[0], &kernels[has_other ? 1 : 0]};
    w.cluster = kernels[0].cluster;
    for (int i = 0; i < 2; i++) {
        w.modules[i] = chosen[i]->module;
        w.add[i] = chosen[i]->add;
        w.look[i] = chosen[i]->look;
    }
    w.arena[DF_ARENA_B] = has_other ? w.arena_of_b : w.arena_of_a;
    MUST(cuCtxSetCurrent(w.primary));
}

static void open_memory(void)
{
    uint32_t words[128];
    MUST(cuCtxSetCurrent(w.primary));
    MUST(cuMemAlloc(&w.arena_of_a, 2 * DF_ARENA));
    w.arena_of_a += DF_ARENA / 2;
    MUST(cuMemAlloc(&w.arena[DF_ARENA_A], 2 * DF_ARENA));
    MUST(cuMemHostAlloc(&w.pinned, 2 * DF_ARENA, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    MUST(cuMemHostGetDevicePointer(&w.arena[DF_ARENA_PINNED], w.pinned, 0));
    w.arena[DF_ARENA_A] += DF_ARENA / 2; /* whatever goes beyond a block misses what is hashed */
    w.arena[DF_ARENA_PINNED] += DF_ARENA / 2;
    w.pinned = (char *)w.pinned + DF_ARENA / 2;
    w.pageable = calloc(1, 2 * DF_ARENA);
    w.pages = aligned_alloc(DF_PAGE, (size_t)DF_PAGES * DF_PAGE);
    memset(w.pages, 0, (size_t)DF_PAGES * DF_PAGE);
    for (uint32_t i = 0; i < 128; i++) {
        words[i] = i + 1;
    }
    MUST(cuMemAlloc(&w.waits, sizeof(words)));
    MUST(cuMemcpyHtoD(w.waits, words, sizeof(words)));
    w.waits += sizeof(words) / 2; /* as above */
    MUST(cuStreamCreate(&w.own, CU_STREAM_NON_BLOCKING));
}

void df_world_open(const char *driver)
{
    const gantry_driver_choice choice =
        strcmp(driver, "cuda") == 0 ? GANTRY_DRIVER_CUDA : GANTRY_DRIVER_EMULATED;
    if (gy_driver_open(choice, &cu) != GANTRY_OK) {
        fprintf(stderr, "differential: %s\n", gantry_last_error());
        _exit(4);
    }
    const gantry_module_image *image = &gantry_image_conformance_kernels;
    w.image = cu->emulated ? image->host : image->fatbin != NULL ? image->fatbin : (const void *)image->ptx;
    MUST(cuDeviceGet(&w.device, 0));
    MUST(cuDevicePrimaryCtxRetain(&w.primary, w.device));
    open_memory();
    open_kernels(&kernels[0], w.primary, w.arena[DF_ARENA_A]);
}

/* ---- calls that are no part of a sequence ---------------------------------------------------- */

static _Thread_local CUstreamCaptureMode mode_before;

void df_aside_begin(void)
{
    mode_before = CU_STREAM_CAPTURE_MODE_RELAXED;
    MUST(cuCtxPushCurrent(w.primary));
    MUST(cuThreadExchangeStreamCaptureMode(&mode_before));
}

void df_aside_end(void)
{
    CUcontext popped;
    MUST(cuThreadExchangeStreamCaptureMode(&mode_before));
    MUST(cuCtxPopCurrent(&popped));
}

bool df_is_capturing(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = cu->cuStreamIsCapturing(stream, &status);
    return result != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void df_settle(void)
{
    CUstream busy = w.busy;
    w.busy = NULL;
    if (busy == NULL) {
        return;
    }
    df_aside_begin();
    CUresult result = cu->cuStreamSynchronize(busy);
    if (gy_driver_result_is_sticky(result)) {
        df_lost(result);
    }
    df_aside_end();
    if (result != CUDA_SUCCESS) {
        df_line("settle . %d", (int)result);
    }
}

void df_fill(CUdeviceptr address, size_t bytes)
{
    df_settle();
    df_aside_begin();
    MUST(cuMemsetD8Async(address, 0x5a, bytes, w.own));
    MUST(cuStreamSynchronize(w.own));
    df_aside_end();
}

static unsigned hash_of(const unsigned char *bytes)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < DF_ARENA; i++) {
        hash = (hash ^ bytes[i]) * 16777619u;
    }
    return (hash ^ hash >> 16) & 0xffffu;
}

void df_look(void)
{
    static unsigned char copy[2][DF_ARENA];
    df_settle();
    df_aside_begin();
    for (int i = 0; i < 2; i++) {
        MUST(cuMemcpyDtoHAsync(copy[i], w.arena[i], DF_ARENA, w.own));
    }
    MUST(cuStreamSynchronize(w.own));
    df_aside_end();
    if (w.is_racy) {
        return;
    }
    df_note("%04x%04x%04x%04x", hash_of(copy[0]), hash_of(copy[1]), hash_of(w.pinned), hash_of(w.pageable));
}

char df_context_letter(CUcontext context)
{
    return context == NULL ? '0' : context == w.primary ? 'a' : context == w.other ? 'b' : '?';
}

/* ---- before and behind each call ------------------------------------------------------------- */

/* It does nothing but put something in a stream. */
static bool only_enqueues(enum df_entry entry)
{
    switch (entry) {
    case DF_cuMemsetD8Async:
    case DF_cuMemsetD16Async:
    case DF_cuMemsetD32Async:
    case DF_cuMemcpyAsync:
    case DF_cuMemcpyHtoDAsync:
    case DF_cuMemcpyDtoHAsync:
    case DF_cuMemcpyDtoDAsync:
    case DF_cuMemcpyPeerAsync:
    case DF_cuMemcpyBatchAsync:
    case DF_cuMemcpy2DAsync:
    case DF_cuLaunchKernel:
    case DF_cuLaunchKernelEx:
    case DF_cuLaunchHostFunc:
    case DF_cuStreamWriteValue32:
    case DF_cuStreamWaitValue32:
    case DF_cuGraphLaunch:
    case DF_cuEventRecord:
    case DF_cuEventRecordWithFlags:
    case DF_cuMemAllocAsync:
    case DF_cuMemFreeAsync:
        return true;
    default:
        return false;
    }
}

void df_world_before(enum df_entry entry)
{
    if (w.busy != NULL && !(only_enqueues(entry) && w.picks_stream && w.picked == w.busy)) {
        df_settle();
    }
}

void df_world_after(enum df_entry entry, CUresult result)
{
    if (result != CUDA_SUCCESS || !w.picks_stream || !only_enqueues(entry) || df_is_capturing(w.picked)) {
        return;
    }
    if (w.picked != NULL && w.picked != LEGACY && w.picked != PER_THREAD) {
        w.busy = w.picked;
        return;
    }
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    MUST(cuThreadExchangeStreamCaptureMode(&mode));
    result = cu->cuStreamSynchronize(w.picked); /* what it means depends on thread and context */
    MUST(cuThreadExchangeStreamCaptureMode(&mode));
    if (gy_driver_result_is_sticky(result)) {
        df_lost(result);
    }
}

bool df_world_statuses(char statuses[DF_STREAMS + 2])
{
    bool any = false;
    for (int i = 0; i < DF_STREAMS; i++) {
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
        statuses[i] = '0';
        if (w.streams[i] != NULL) {
            CUresult result = cu->cuStreamIsCapturing(w.streams[i], &status);
            statuses[i] = result != CUDA_SUCCESS ? '.' : (char)('0' + (int)status);
        }
        any |= statuses[i] != '0';
    }
    statuses[DF_STREAMS] = '\0';
    return any;
}

/* ---- for each sequence ------------------------------------------------------------------------ */

static void fill_arenas(void)
{
    static unsigned char pattern[DF_ARENA];
    for (size_t i = 0; i < DF_ARENA; i++) {
        pattern[i] = (unsigned char)(i * 7 + (i >> 8));
    }
    for (int i = 0; i < 2; i++) {
        MUST(cuMemcpyHtoDAsync(w.arena[i], pattern, DF_ARENA, w.own));
    }
    MUST(cuStreamSynchronize(w.own));
    memcpy(w.pinned, pattern, DF_ARENA);
    memcpy(w.pageable, pattern, DF_ARENA);
    memset(w.pages, 0, (size_t)DF_PAGES * DF_PAGE);
}

/* fill -> add, and an empty one; the first is executable, too. */
static void make_graphs(void)
{
    CUgraphNode fill_node, add_node;
    uint32_t count = 16, value = 3;
    void *params[] = {&w.arena[DF_ARENA_A], &count, &value};
    CUDA_MEMSET_NODE_PARAMS fill = {
        .dst = w.arena[DF_ARENA_A], .value = 5, .elementSize = 4, .width = 20, .height = 1};
    CUDA_KERNEL_NODE_PARAMS_v2 add = {.func = w.add[0],
                                      .gridDimX = 1,
                                      .gridDimY = 1,
                                      .gridDimZ = 1,
                                      .blockDimX = 32,
                                      .blockDimY = 1,
                                      .blockDimZ = 1,
                                      .kernelParams = params};
    MUST(cuGraphCreate(&w.graphs[0].graph, 0));
    MUST(cuGraphCreate(&w.graphs[1].graph, 0));
    MUST(cuGraphAddMemsetNode(&fill_node, w.graphs[0].graph, NULL, 0, &fill, w.primary));
    MUST(cuGraphAddKernelNode(&add_node, w.graphs[0].graph, &fill_node, 1, &add));
    MUST(cuGraphInstantiateWithFlags(&w.execs[0], w.graphs[0].graph, 0));
    df_put_node(0, fill_node);
    df_put_node(0, add_node);
    w.is_unordered[0] = false;
}

/* A range with memory behind its first granule. */
static void make_range(void)
{
    struct df_range *range = &w.ranges[0];
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    MUST(cuMemAddressReserve(&range->address, (size_t)DF_RANGE_GRANULES * DF_GRANULE, 0, 0, 0));
    MUST(cuMemCreate(&w.handles[0], DF_GRANULE, &prop, 0));
    MUST(cuMemMap(range->address, DF_GRANULE, 0, w.handles[0], 0));
    MUST(cuMemSetAccess(range->address, DF_GRANULE, &access, 1));
    range->is_mapped[0] = range->is_usable[0] = true;
    df_fill(range->address, DF_GRANULE);
}

void df_world_begin(uint32_t sequence, bool has_graphs, bool has_ranges)
{
    w.has_graphs = w.picks_stream = w.is_racy = false;
    w.turn = 0;
    w.busy = NULL;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    MUST(cuThreadExchangeStreamCaptureMode(&mode));
    choose_other(sequence % 4 == 0);
    fill_arenas();
    CUfunction functions[] = {w.add[0], w.add[1], w.look[0], w.look[1], w.cluster};
    for (int i = 0; i < 5; i++) {
        MUST(cuFuncSetAttribute(functions[i], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 49152));
        MUST(cuFuncSetAttribute(functions[i], PREFERRED_CARVEOUT, -1));
        MUST(cuFuncSetAttribute(functions[i], CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 0));
    }
    MUST(cuCtxSetCurrent(w.has_other ? w.other : w.primary));
    MUST(cuStreamCreate(&w.streams[2], CU_STREAM_NON_BLOCKING));
    MUST(cuEventCreate(&w.events[2], CU_EVENT_DEFAULT));
    MUST(cuCtxSetCurrent(w.primary));
    MUST(cuStreamCreate(&w.streams[0], CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&w.streams[1], CU_STREAM_DEFAULT));
    MUST(cuStreamCreateWithPriority(&w.streams[3], CU_STREAM_NON_BLOCKING, -1));
    MUST(cuEventCreate(&w.events[0], CU_EVENT_DEFAULT));
    MUST(cuEventCreate(&w.events[1], CU_EVENT_DISABLE_TIMING));
    MUST(cuEventCreate(&w.events[3], CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC));
    if (has_graphs) {
        make_graphs();
    }
    if (has_ranges) {
        make_range();
    }
    mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    MUST(cuThreadExchangeStreamCaptureMode(&mode));
}

/* Destroying objects goes on whatever fails: what is lost is seen by the next MUST(). */
static void close_objects(void)
{
    for (int i = 0; i < DF_EXECS; i++) {
        w.execs[i] != NULL ? (void)cu->cuGraphExecDestroy(w.execs[i]) : (void)0;
        w.execs[i] = NULL;
    }
    for (int i = 0; i < DF_GRAPHS; i++) {
        if (w.graphs[i].captured != NULL && df_is_capturing(w.graphs[i].captured)) {
            w.graphs[i].graph = NULL; /* the capture has it */
        }
        w.graphs[i].captured = NULL;
        df_put_graph(i, NULL);
    }
    for (int i = 0; i < DF_STREAMS; i++) {
        w.streams[i] != NULL ? (void)cu->cuStreamDestroy(w.streams[i]) : (void)0;
        w.streams[i] = NULL;
    }
    for (int i = 0; i < DF_EVENTS; i++) {
        w.events[i] != NULL ? (void)cu->cuEventDestroy(w.events[i]) : (void)0;
        w.events[i] = NULL;
    }
}

static void close_ranges(void)
{
    for (int i = 0; i < DF_RANGES; i++) {
        struct df_range *range = &w.ranges[i];
        for (int k = 0; k < DF_RANGE_GRANULES; k++) {
            if (range->is_mapped[k]) {
                (void)cu->cuMemUnmap(range->address + (CUdeviceptr)k * DF_GRANULE, DF_GRANULE);
            }
        }
        if (range->address != 0) {
            (void)cu->cuMemAddressFree(range->address, (size_t)DF_RANGE_GRANULES * DF_GRANULE);
        }
        *range = (struct df_range){.address = 0};
    }
    for (int i = 0; i < DF_HANDLES; i++) {
        w.handles[i] != 0 ? (void)cu->cuMemRelease(w.handles[i]) : (void)0;
        w.handles[i] = 0;
    }
}

static void close_memory(void)
{
    for (int i = 0; i < DF_BLOCKS; i++) {
        if (w.blocks[i].address != 0) {
            w.blocks[i].is_of_pool ? (void)cu->cuMemFreeAsync(w.blocks[i].address, w.own)
                                   : (void)cu->cuMemFree(w.blocks[i].address);
        }
        w.blocks[i] = (struct df_block){.address = 0};
    }
    for (int i = 0; i < DF_REGIONS; i++) {
        w.regions[i] != NULL ? (void)cu->cuMemFreeHost(w.regions[i]) : (void)0;
        w.regions[i] = NULL;
    }
    for (int i = 0; i < DF_PAGES; i++) {
        w.is_registered[i] ? (void)cu->cuMemHostUnregister(w.pages + (size_t)i * DF_PAGE) : (void)0;
        w.is_registered[i] = false;
    }
    close_ranges();
    CUresult result = cu->cuCtxSynchronize();
    if (gy_driver_result_is_sticky(result)) {
        df_lost(result);
    }
    if (result != CUDA_SUCCESS) {
        df_line("close . %d", (int)result);
    }
}

static void end_capture(CUstream stream)
{
    CUgraph graph = NULL;
    bool is_ours = false;
    if (stream == NULL || !df_is_capturing(stream) ||
        cu->cuStreamEndCapture(stream, &graph) != CUDA_SUCCESS) {
        return;
    }
    for (int i = 0; i < DF_GRAPHS; i++) {
        is_ours |= w.graphs[i].graph == graph;
    }
    is_ours ? (void)0 : (void)cu->cuGraphDestroy(graph);
}

/* End what this thread captures, and leave it with the capture mode and the context it began with. */
void df_world_leave_thread(bool is_last)
{
    CUcontext popped = NULL;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    for (int i = 0; i < 64 && cu->cuCtxPopCurrent(&popped) == CUDA_SUCCESS && popped != NULL; i++) {
    }
    if (w.has_other) {
        MUST(cuCtxSetCurrent(w.other));
        end_capture(PER_THREAD);
    }
    MUST(cuCtxSetCurrent(w.primary));
    end_capture(PER_THREAD);
    for (int i = 0; i < 2 * DF_STREAMS; i++) { /* one may end only behind another */
        end_capture(w.streams[i % DF_STREAMS]);
    }
    MUST(cuThreadExchangeStreamCaptureMode(&mode));
    if (is_last) {
        close_objects();
        close_memory();
    }
}

void df_forget_nodes(int graph)
{
    w.graphs[graph].last = NULL;
    for (int i = 0; i < DF_NODES; i++) {
        if (w.nodes[i].graph == graph) {
            w.nodes[i] = (struct df_node){.node = NULL};
        }
    }
}

void df_put_graph(int slot, CUgraph graph)
{
    df_forget_nodes(slot);
    if (w.graphs[slot].graph != NULL && w.graphs[slot].graph != graph) {
        (void)cu->cuGraphDestroy(w.graphs[slot].graph);
    }
    w.graphs[slot] = (struct df_graph){.graph = graph, .captured = w.graphs[slot].captured};
}

bool df_is_unordered(const struct df_graph *graph)
{
    enum { MANY = 16 };
    CUgraphNode nodes[MANY], from[MANY], to[MANY];
    CUgraphNodeType type;
    size_t count = MANY, edges = MANY;
    bool any = cu->cuGraphGetNodes(graph->graph, nodes, &count) != CUDA_SUCCESS || count >= MANY ||
               cu->cuGraphGetEdges(graph->graph, from, to, &edges) != CUDA_SUCCESS || edges >= MANY ||
               edges + 1 < count;
    for (size_t i = 0; i < edges && !any; i++) {
        for (size_t k = 0; k < i; k++) {
            any |= from[i] == from[k] || to[i] == to[k];
        }
    }
    for (size_t i = 0; i < count && !any; i++) {
        any |= graph->has_any_child && cu->cuGraphNodeGetType(nodes[i], &type) == CUDA_SUCCESS &&
               type == CU_GRAPH_NODE_TYPE_GRAPH;
    }
    return any;
}

void df_put_node(int graph, CUgraphNode node)
{
    int slot = -1;
    for (int i = 0; i < DF_NODES; i++) {
        slot = w.nodes[i].node == NULL ? i : slot;
    }
    slot = slot >= 0 ? slot : (int)(w.turn++ % DF_NODES);
    w.nodes[slot] = (struct df_node){.node = node, .graph = graph};
    w.graphs[graph].last = node;
}
