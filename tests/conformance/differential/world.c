/* SPDX-License-Identifier: MIT */
#include "tests/conformance/differential/homes.h"

#include "driver/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEGACY ((CUstream)(uintptr_t)1)
#define PER_THREAD ((CUstream)(uintptr_t)2)

/* A function's attribute that Gantry does not use. */
#define PREFERRED_CARVEOUT ((CUfunction_attribute)9)

struct df_world w;

void df_world_open(const char *driver)
{
    const gantry_driver_choice choice =
        strcmp(driver, "cuda") == 0 ? GANTRY_DRIVER_CUDA : GANTRY_DRIVER_EMULATED;
    if (gy_driver_open(choice, &cu) != GANTRY_OK) {
        fprintf(stderr, "differential: %s\n", gantry_last_error());
        _exit(4);
    }
    df_homes_open();
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

bool df_has_context(void)
{
    CUcontext current = NULL;
    return cu->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != NULL;
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

void df_fill(CUdeviceptr address, size_t bytes, bool is_of_second)
{
    CUstream own = df_own_stream(is_of_second);
    df_settle();
    df_aside_begin();
    MUST(cuMemsetD8Async(address, 0x5a, bytes, own));
    MUST(cuStreamSynchronize(own));
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
        CUstream own = df_own_stream(i == DF_ARENA_B && w.has_second);
        MUST(cuMemcpyDtoHAsync(copy[i], w.arena[i], DF_ARENA, own));
        MUST(cuStreamSynchronize(own));
    }
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
    /* What comes first in a batch may be copied, although the batch fails. */
    const bool may_run = result == CUDA_SUCCESS || entry == DF_cuMemcpyBatchAsync;
    if (!may_run || !w.picks_stream || !only_enqueues(entry) || df_is_capturing(w.picked)) {
        return;
    }
    if (w.picked != NULL && w.picked != LEGACY && w.picked != PER_THREAD) {
        w.busy = w.picked;
    } else if (result == CUDA_SUCCESS ||
               w.picked == PER_THREAD) { /* batches are never begun on the null stream */
        df_wait_for(w.picked);
    }
}

void df_wait_for(CUstream stream)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    MUST(cuThreadExchangeStreamCaptureMode(&mode));
    CUresult result = cu->cuStreamSynchronize(stream);
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
        CUstream own = df_own_stream(i == DF_ARENA_B && w.has_second);
        MUST(cuMemcpyHtoDAsync(w.arena[i], pattern, DF_ARENA, own));
        MUST(cuStreamSynchronize(own));
    }
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
    df_fill(range->address, DF_GRANULE, false);
}

/* A and B have two streams and two events each on two devices; else B has one of each. */
static void open_objects(void)
{
    MUST(cuCtxSetCurrent(w.has_other ? w.other : w.primary));
    MUST(cuStreamCreate(&w.streams[2], CU_STREAM_NON_BLOCKING));
    MUST(cuEventCreate(&w.events[2], CU_EVENT_DEFAULT));
    MUST(cuCtxSetCurrent(w.has_second ? w.other : w.primary));
    MUST(cuStreamCreateWithPriority(&w.streams[3], CU_STREAM_NON_BLOCKING, -1));
    MUST(cuEventCreate(&w.events[3], CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC));
    MUST(cuCtxSetCurrent(w.primary));
    MUST(cuStreamCreate(&w.streams[0], CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&w.streams[1], CU_STREAM_DEFAULT));
    MUST(cuEventCreate(&w.events[0], CU_EVENT_DEFAULT));
    MUST(cuEventCreate(&w.events[1], CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < DF_STREAMS; i++) {
        w.is_of_second[i] = w.has_second && i >= 2;
    }
}

void df_world_begin(uint32_t sequence, bool has_graphs, bool has_ranges)
{
    w.has_graphs = w.picks_stream = w.is_racy = w.has_foreign_fill = false;
    w.turn = 0;
    w.busy = NULL;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    MUST(cuThreadExchangeStreamCaptureMode(&mode));
    df_homes_choose(sequence);
    fill_arenas();
    CUfunction functions[] = {w.add[0], w.add[1], w.look[0], w.look[1], w.cluster};
    for (int i = 0; i < 5; i++) {
        MUST(cuFuncSetAttribute(functions[i], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 49152));
        MUST(cuFuncSetAttribute(functions[i], PREFERRED_CARVEOUT, -1));
        MUST(cuFuncSetAttribute(functions[i], CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 0));
    }
    open_objects();
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

static void end_all_work_of(CUcontext context)
{
    MUST(cuCtxSetCurrent(context));
    CUresult result = cu->cuCtxSynchronize();
    if (gy_driver_result_is_sticky(result)) {
        df_lost(result);
    }
    if (result != CUDA_SUCCESS) {
        df_line("close . %d", (int)result);
    }
}

void df_put_block(int slot, struct df_block block)
{
    const struct df_block *old = &w.blocks[slot];
    if (old->address != 0) {
        old->is_of_pool ? (void)cu->cuMemFreeAsync(old->address, df_own_stream(old->is_of_second))
                        : (void)cu->cuMemFree(old->address);
    }
    w.blocks[slot] = block;
}

static void close_memory(void)
{
    for (int i = 0; i < DF_BLOCKS; i++) {
        df_put_block(i, (struct df_block){.address = 0});
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
    df_homes_leave();
    if (w.has_second) {
        end_all_work_of(w.other);
    }
    end_all_work_of(w.primary);
}

void df_forget_captured(CUstream stream, CUgraph graph, bool is_good)
{
    for (int i = 0; i < DF_GRAPHS; i++) {
        if (w.graphs[i].captured == stream || (graph != NULL && w.graphs[i].graph == graph)) {
            w.graphs[i].graph = is_good || w.graphs[i].captured == NULL ? w.graphs[i].graph : NULL;
            w.graphs[i].captured = NULL;
            df_forget_nodes(i);
        }
    }
}

static void end_capture(CUstream stream)
{
    CUgraph graph = NULL;
    bool is_ours = false;
    if (stream == NULL || !df_is_capturing(stream)) {
        return;
    }
    const bool is_good = cu->cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS;
    for (int i = 0; i < DF_GRAPHS; i++) {
        is_ours |= graph != NULL && w.graphs[i].graph == graph;
    }
    if (graph != NULL && !is_ours) {
        (void)cu->cuGraphDestroy(graph);
    }
    if (!df_is_capturing(stream)) {
        df_forget_captured(stream, graph, is_good);
    }
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
