/* SPDX-License-Identifier: MIT */
#include "dispatcher/call/aside.h"

#include "base/alloc.h"
#include "dispatcher/call/capture.h"
#include "dispatcher/call/unjoined.h"
#include "dispatcher/loop/current.h"
#include "dispatcher/submit/policy.h"
#include "driver/spent.h"

#include <assert.h>

gantry_status gy_aside_open(struct gantry_launch *launch)
{
    struct gantry_dispatcher *d = launch->dispatcher;
    assert(launch->lane != NULL && gy_launch_is_valid(launch));
    gantry_status status =
        GY_CALL(d->config.context, cuStreamBeginCapture(launch->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    if (status == GANTRY_OK) {
        launch->lane = NULL;
    }
    return status;
}

/* ---- what must not be in a batch ---------------------------------------------------------------- */

/* Is this memory pageable?  A graph reads such memory only when it runs. */
static bool is_pageable(const struct gy_driver *driver, CUmemorytype type, const void *host,
                        CUdeviceptr address)
{
    if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_UNIFIED) {
        return false;
    }
    unsigned kind = 0;
    address = type == CU_MEMORYTYPE_HOST ? (CUdeviceptr)(uintptr_t)host : address;
    return driver->cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS ||
           kind == 0;
}

static const char *find_fault_of_copy(const struct gy_driver *driver, CUgraphNode node)
{
    CUDA_MEMCPY3D copy;
    if (driver->cuGraphMemcpyNodeGetParams(node, &copy) != CUDA_SUCCESS) {
        return "it makes a copy of an unknown kind";
    }
    bool pageable = is_pageable(driver, copy.srcMemoryType, copy.srcHost, copy.srcDevice) ||
                    is_pageable(driver, copy.dstMemoryType, copy.dstHost, copy.dstDevice);
    return pageable ? "it copies from or to pageable memory" : NULL;
}

/* Find out why a node cannot be in a graph; NULL: it can.  What waits for the host or for others, or may do
 * so, would hold up in a batch whatever comes after the graph as a whole; in a unit it does so anyhow. */
static const char *find_fault_of_node(const struct gy_driver *driver, CUgraphNode node, bool in_batch)
{
    CUgraphNodeType type;
    if (driver->cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) {
        return "it makes a node of an unknown kind";
    }
    switch ((int)type) {
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return find_fault_of_copy(driver, node);
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return NULL;
    case CU_GRAPH_NODE_TYPE_HOST:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return in_batch ? "it may wait for the host, and so would all that comes after the graph" : NULL;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return "it allocates or frees memory in stream order";
    default:
        return "it makes a node of a kind that we do not take";
    }
}

static const char *find_fault(struct gy_graphs *g, CUgraph graph, bool in_batch, size_t *count)
{
    const struct gy_driver *driver = g->context->driver;
    *count = 0;
    if (driver->cuGraphGetNodes(graph, NULL, count) != CUDA_SUCCESS ||
        !gy_grow_array(&g->nodes, &g->nodes_room, *count, sizeof(*g->nodes)) ||
        (*count != 0 && driver->cuGraphGetNodes(graph, g->nodes, count) != CUDA_SUCCESS)) {
        return "its graph cannot be looked at";
    }
    const char *fault = NULL;
    for (size_t i = 0; i < *count && fault == NULL; i++) {
        fault = find_fault_of_node(driver, g->nodes[i], in_batch);
    }
    return fault;
}

/* ---- ends -------------------------------------------------------------------------------------- */

const char gy_aside_forbidden[] = "it makes a call that a capture forbids";

static const char *reason_of(CUresult result)
{
    return result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED ? "it forks to a stream that it does not join"
                                                        : gy_aside_forbidden;
}

bool gy_aside_close(struct gantry_launch *launch, bool keep)
{
    struct gantry_dispatcher *d = launch->dispatcher;
    const struct gy_driver *driver = d->config.context->driver;
    assert(gy_launch_is_aside(launch));
    CUgraph child = NULL;
    size_t nodes = 0;
    CUresult result = gy_stream_end_capture(driver, launch->stream, &child);
    launch->lane = launch->home;
    const char *fault = result != CUDA_SUCCESS ? reason_of(result) : NULL;
    if (result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED) {
        gy_unjoined_tell_capture(launch);
    }
    if (fault == NULL && keep) {
        fault = find_fault(&d->graphs, child, launch->mode == GY_MODE_TRIAL, &nodes);
    }
    if (fault == NULL && keep && nodes != 0) {
        fault = gy_lane_graph(launch->lane, child) != GANTRY_OK ? "there is no memory for it" : NULL;
        gy_trusts_tell_child(&d->graphs.trusts, gy_task_launch_fn(launch->task), gy_task_label(launch->task));
    } else if (result == CUDA_SUCCESS) {
        gy_graph_spend(d->config.context, child);
    }
    launch->spoilt = fault != NULL ? fault : launch->spoilt;
    return fault == NULL;
}

gantry_status gy_aside_settle(struct gantry_launch *launch)
{
    assert(gy_launch_is_valid(launch));
    const bool is_well = launch->spoilt == NULL || !gy_mode_is_noted(launch);
    if (is_well && (!gy_launch_is_aside(launch) || gy_aside_close(launch, true))) {
        return GANTRY_OK;
    }
    /* Work that it enqueues on its stream in spite of that is not done twice. */
    gantry_status status = gy_launch_is_aside(launch) ? GANTRY_OK : gy_aside_open(launch);
    return status != GANTRY_OK
               ? status
               : GY_FAIL(GANTRY_ERR_DRIVER, "what task '%s' has enqueued cannot be captured: %s",
                         gantry_task_label(launch->task), launch->spoilt);
}

bool gy_aside_may(const struct gantry_launch *launch, bool plainly)
{
    return gy_mode_notes(launch->round->way->modes[gy_launch_shows(plainly)]);
}

CUstream gy_aside_ask(struct gantry_launch *launch, bool plainly)
{
    assert(gy_launch_is_valid(launch));
    struct gantry_dispatcher *d = launch->dispatcher;
    const bool may_be_captured = gy_aside_may(launch, plainly);
    if (gy_gd_current != d && !(gy_launch_is_aside(launch) && may_be_captured)) {
        (void)GY_FAIL(GANTRY_ERR_STATE, "%s: called by another thread than that of the callback of '%s'",
                      plainly ? "gantry_launch_stream" : "gantry_launch_capture_stream",
                      gantry_task_label(launch->task));
        launch->spoilt = "another thread asks for its stream";
        return NULL;
    }
    assert(may_be_captured);
    gy_launch_note_ask(launch, plainly);
    if (!gy_launch_is_aside(launch) && gy_aside_open(launch) != GANTRY_OK) {
        launch->spoilt = "its stream cannot be captured";
        return NULL;
    }
    return launch->stream;
}
