/* SPDX-License-Identifier: MIT */
/* The calls that begin and end captures of streams, and ask about them. */
#include "emulator/capture.h"

#include "base/alloc.h"
#include "emulator/context.h"
#include "emulator/graph.h"

/* The stream on which a capture shall begin, whatever may be captured on it. */
static CUresult find_to_begin(CUstream handle, CUstreamCaptureMode mode, struct gy_emu_stream **out)
{
    if ((unsigned int)mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = gy_emu_stream_find(handle, out);
    return result == CUDA_SUCCESS && (*out)->is_null ? gy_emu_capture_forbids_null(*out) : result;
}

static CUresult begin(CUstream handle, CUstreamCaptureMode mode)
{
    struct gy_emu_stream *stream;
    CUresult result = find_to_begin(handle, mode, &stream);
    return result == CUDA_SUCCESS ? gy_emu_capture_begin(stream, NULL, mode) : result;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    return GY_EMU_CALL(cuStreamBeginCapture, begin(stream, mode));
}

/* Begin a capture into a graph; the first captured node comes after `dependencies`. */
static CUresult begin_to_graph(CUstream handle, CUgraph graph_handle, const CUgraphNode *dependencies,
                               size_t count, CUstreamCaptureMode mode)
{
    struct gy_emu_stream *stream;
    struct gy_emu_graph *graph = gy_emu_handle_find(GY_EMU_GRAPH, graph_handle);
    CUresult result = find_to_begin(handle, mode, &stream);
    if (result == CUDA_SUCCESS && (graph == NULL || graph->capturing || graph->is_broken)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct gy_emu_node **nodes = gy_emu_graph_find_nodes(graph, dependencies, count, &result);
    if (result == CUDA_SUCCESS) {
        result = gy_emu_capture_begin(stream, graph, mode);
    }
    if (result == CUDA_SUCCESS && !gy_emu_capture_extend(stream, nodes, (uint32_t)count)) {
        result = gy_emu_capture_refuse(stream, CUDA_ERROR_OUT_OF_MEMORY);
    }
    gy_free(nodes);
    return result;
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
                                     const CUgraphEdgeData *dependency_data, size_t count,
                                     CUstreamCaptureMode mode)
{
    (void)dependency_data; /* this is for edges with ports, which do not exist here */
    return GY_EMU_CALL(cuStreamBeginCaptureToGraph, begin_to_graph(stream, graph, dependencies, count, mode));
}

static CUresult end(CUstream handle, CUgraph *out)
{
    struct gy_emu_stream *stream;
    CUresult result = gy_emu_stream_find(handle, &stream);
    if (result == CUDA_SUCCESS && stream->is_null) {
        result = gy_emu_capture_forbids_null(stream);
    }
    const bool is_given = result == CUDA_SUCCESS && stream->capture != NULL && stream->capture->is_given;
    CUgraph unwanted = NULL;
    result = result == CUDA_SUCCESS ? gy_emu_capture_end(stream, out != NULL ? out : &unwanted) : result;
    struct gy_emu_graph *graph = is_given ? NULL : gy_emu_handle_find(GY_EMU_GRAPH, unwanted);
    if (graph != NULL) {
        gy_emu_graph_close(graph);
    }
    return result;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    return GY_EMU_CALL(cuStreamEndCapture, end(stream, graph));
}

static CUstreamCaptureStatus status_of(const struct gy_emu_stream *stream)
{
    if (stream->capture == NULL) {
        return CU_STREAM_CAPTURE_STATUS_NONE;
    }
    return stream->capture->is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/* The null stream never captures, and says so while others do, whose captures go on. */
static CUresult find_to_look(CUstream handle, struct gy_emu_stream **out)
{
    CUresult result = gy_emu_stream_find(handle, out);
    return result == CUDA_SUCCESS && (*out)->is_null && (*out)->object.context->capturing > 0
               ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
               : result;
}

static CUresult is_capturing(CUstream handle, CUstreamCaptureStatus *status)
{
    struct gy_emu_stream *stream;
    if (status == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = find_to_look(handle, &stream);
    if (result == CUDA_SUCCESS) {
        *status = status_of(stream);
    }
    return result;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    return GY_EMU_CALL(cuStreamIsCapturing, is_capturing(stream, status));
}

/* Get the handles of a stream's tail, which are valid until something else is captured on it. */
static CUgraphNode *tail_handles(struct gy_emu_stream *stream)
{
    CUgraphNode *handles = gy_zalloc_array(stream->capture_tail_count + 1, sizeof(CUgraphNode));
    for (uint32_t i = 0; handles != NULL && i < stream->capture_tail_count; i++) {
        handles[i] = (CUgraphNode)stream->capture_tail[i]->object.handle;
    }
    if (handles != NULL) {
        gy_free(stream->capture_handles);
        stream->capture_handles = handles;
    }
    return handles;
}

struct capture_info {
    cuuint64_t *id;
    CUgraph *graph;
    const CUgraphNode **dependencies;
    size_t *count;
};

static CUresult get_info(CUstream handle, CUstreamCaptureStatus *status, const struct capture_info *out)
{
    struct gy_emu_stream *stream;
    CUresult result = find_to_look(handle, &stream);
    if (result == CUDA_SUCCESS && status == NULL) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    CUstreamCaptureStatus now = status_of(stream);
    if (now == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        if (out->dependencies != NULL) {
            const CUgraphNode *handles = tail_handles(stream);
            if (handles == NULL) {
                return CUDA_ERROR_OUT_OF_MEMORY;
            }
            *out->dependencies = handles;
        }
        if (out->id != NULL) {
            *out->id = stream->capture->id;
        }
        if (out->graph != NULL) {
            *out->graph = (CUgraph)stream->capture->graph->object.handle;
        }
        if (out->count != NULL) {
            *out->count = stream->capture_tail_count;
        }
    }
    *status = now;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                   CUgraph *graph, const CUgraphNode **dependencies, size_t *count)
{
    const struct capture_info out = {id, graph, dependencies, count};
    return GY_EMU_CALL(cuStreamGetCaptureInfo, get_info(stream, status, &out));
}

static CUresult update_dependencies(CUstream handle, const CUgraphNode *dependencies, size_t count,
                                    unsigned int flags)
{
    struct gy_emu_stream *stream;
    CUresult result = gy_emu_stream_find(handle, &stream);
    result = result == CUDA_SUCCESS && stream->is_null ? gy_emu_capture_forbids_null(stream) : result;
    if (result == CUDA_SUCCESS && stream->capture == NULL) {
        result = CUDA_ERROR_ILLEGAL_STATE;
    }
    if (result == CUDA_SUCCESS && stream->capture->is_invalid) {
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (result == CUDA_SUCCESS && flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct gy_emu_node **nodes =
        gy_emu_graph_find_nodes(stream->capture->graph, dependencies, count, &result);
    if (result == CUDA_SUCCESS) {
        stream->capture_tail_count *= flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES;
        result =
            gy_emu_capture_extend(stream, nodes, (uint32_t)count) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    gy_free(nodes);
    return result;
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *dependencies, size_t count,
                                           unsigned int flags)
{
    return GY_EMU_CALL(cuStreamUpdateCaptureDependencies,
                       update_dependencies(stream, dependencies, count, flags));
}

static CUresult exchange_mode(CUstreamCaptureMode *mode)
{
    if (mode == NULL) { /* any mode is taken, as by a device's driver */
        return CUDA_ERROR_INVALID_VALUE;
    }
    *mode = gy_emu_capture_exchange_mode(*mode);
    return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    return GY_EMU_CALL(cuThreadExchangeStreamCaptureMode, exchange_mode(mode));
}
