/* SPDX-License-Identifier: MIT */
#include "work/nodes.h"

#include "base/alloc.h"
#include "driver/apart.h"
#include "driver/spent.h"
#include "driver/told.h"
#include "work/note_kernel.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

bool gy_nodes_are_possible(const struct gy_driver *driver)
{
    return driver->cuFuncGetParamInfo != NULL && driver->cuStreamBeginCaptureToGraph != NULL;
}

void gy_nodes_init(struct gy_nodes *n, struct gy_context *context)
{
    *n = (struct gy_nodes){.context = context};
}

CUresult gy_stream_end_capture(const struct gy_driver *driver, CUstream stream, CUgraph *out)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    uint32_t *refusals = gy_told_refusals_at();
    const uint32_t before = *refusals;
    *out = NULL;
    CUresult result = driver->cuStreamEndCapture(stream, out);
    if (result != CUDA_SUCCESS && driver->cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
        status != CU_STREAM_CAPTURE_STATUS_NONE) {
        result = driver->cuStreamEndCapture(stream, out);
    }
    *refusals = before; /* no callback was refused this */
    return result;
}

void gy_stream_drop_if_captured(const struct gy_driver *driver, CUstream *stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (driver->cuStreamIsCapturing(*stream, &status) != CUDA_SUCCESS ||
        status != CU_STREAM_CAPTURE_STATUS_NONE) {
        (void)driver->cuStreamDestroy(*stream);
        *stream = NULL;
    }
}

void gy_nodes_drop_stream(struct gy_nodes *n)
{
    gy_nodes_clear(n);
    if (n->making.trial != NULL) {
        (void)n->context->driver->cuStreamDestroy(n->making.trial);
        n->making.trial = NULL;
    }
}

void gy_nodes_fini(struct gy_nodes *n)
{
    gy_nodes_drop_stream(n);
    gy_free(n->list);
    gy_free(n->streams);
    gy_free(n->events);
    gy_free(n->slot_args.list);
    gy_free(n->before);
    gy_free(n->bytes);
    gy_free(n->extras);
    gy_free(n->made);
    gy_free(n->making.handles);
    gy_free(n->making.pointers);
}

void gy_nodes_cut(struct gy_nodes *n, uint32_t count)
{
    for (uint32_t i = count; i < n->count && n->graphs != 0; i++) {
        if (n->list[i].kind == GY_NODE_GRAPH) {
            gy_graph_destroy(n->context, n->list[i].graph);
            n->graphs--;
        }
    }
    n->count = count < n->count ? count : n->count;
    while (n->event_count != 0 && n->events[n->event_count - 1].node >= n->count) {
        n->event_count--;
    }
    if (__builtin_expect(n->slot_args.count != 0, 0)) {
        gy_slot_args_cut(&n->slot_args, n->count);
    }
}

void gy_nodes_clear(struct gy_nodes *n)
{
    gy_nodes_cut(n, 0);
    n->before_count = n->extra_count = 0;
    n->bytes_used = 0;
}

/* ---- room ------------------------------------------------------------------------------------- */

static gantry_status out_of_memory(void)
{
    return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "out of memory for the nodes of a graph");
}

/* The arrays grow to the largest batch and keep that size. */
static GY_COLD bool grow_list(struct gy_nodes *n)
{
    if (!gy_grow_array(&n->list, &n->room, n->count + (size_t)1, sizeof(*n->list))) {
        return false;
    }
    const bool has_room = gy_grow_array(&n->streams, &n->streams_room, n->room, sizeof(*n->streams));
    n->room = has_room ? n->room : n->streams_room;
    return has_room;
}

static GY_COLD bool grow_before(struct gy_nodes *n, size_t more)
{
    return gy_grow_array(&n->before, &n->before_room, n->before_count + more, sizeof(*n->before));
}

static inline bool has_room(struct gy_nodes *n, uint32_t before)
{
    return (n->count < n->room || grow_list(n)) &&
           (before <= n->before_room - n->before_count || grow_before(n, before));
}

/* ---- notes ------------------------------------------------------------------------------------ */

/* Open the next node, which comes after the work that the lane comes after; close_node() makes it the lane's
 * last. */
static GY_INLINE struct gy_node *open_node(struct gy_lane *lane, enum gy_node_kind kind, CUstream stream)
{
    struct gy_nodes *n = lane->nodes;
    if (__builtin_expect(!has_room(n, 1), 0)) {
        return NULL;
    }
    struct gy_node *node = &n->list[n->count];
    memset(node, 0, sizeof(*node));
    gy_node_begin(node, lane, kind, stream);
    return node;
}

static GY_INLINE gantry_status close_node(struct gy_lane *lane)
{
    gy_lane_close_node(lane);
    return GANTRY_OK;
}

gantry_status gy_kernel_failed(struct gy_context *context, const struct gantry_kernel *kernel,
                               const struct gy_launch_size *size, CUresult result)
{
    char what[150], call[230];
    gy_kernel_describe_launch(kernel, size, what, sizeof(what));
    snprintf(call, sizeof(call), "cuLaunchKernel(%.60s), %s,", kernel->name, what);
    return gy_context_failed(context, result, call, __FILE__, __LINE__);
}

/* Try a launch in a capture, which hinders nobody: the driver's answer is the same as on a stream. */
static GY_COLD gantry_status try_launch(struct gy_nodes *n, struct gantry_kernel *kernel,
                                        const struct gy_launch_size *size, void *const *args)
{
    struct gy_context *context = n->context;
    const struct gy_driver *driver = context->driver;
    gantry_status status =
        n->making.trial == NULL ? gy_apart_create_stream(context, &n->making.trial) : GANTRY_OK;
    if (status == GANTRY_OK) {
        status = GY_CALL(context, cuStreamBeginCapture(n->making.trial, CU_STREAM_CAPTURE_MODE_RELAXED));
    }
    if (status != GANTRY_OK) {
        return status;
    }
    const CUresult result = driver->cuLaunchKernel(
        kernel->function, size->grid.x, size->grid.y, size->grid.z, size->block.x, size->block.y,
        size->block.z, (unsigned)size->shared_bytes, n->making.trial, (void **)(uintptr_t)args, NULL);
    status = result == CUDA_SUCCESS ? GANTRY_OK : gy_kernel_failed(context, kernel, size, result);
    CUgraph dropped = NULL;
    if (gy_stream_end_capture(driver, n->making.trial, &dropped) == CUDA_SUCCESS) {
        gy_graph_destroy(n->context, dropped);
    } else {
        gy_stream_drop_if_captured(driver,
                                   &n->making.trial); /* a launch that is refused breaks its capture */
    }
    return status;
}

/* The driver's answer depends on the block and the shared memory, and on a grid's y and z above 65535. */
static GY_COLD gantry_status try_kernel(struct gy_nodes *n, struct gantry_kernel *kernel,
                                        const struct gy_launch_size *size, void *const *args)
{
    const struct gy_relaxed relaxed = gy_relaxed_begin(n->context);
    if (relaxed.status != GANTRY_OK) {
        return relaxed.status;
    }
    gantry_status status = kernel->layout != NULL ? GANTRY_OK : gy_kernel_find_layout(kernel);
    if (status == GANTRY_OK) {
        status = try_launch(n, kernel, size, args);
    }
    const gantry_status back = gy_relaxed_end(n->context, &relaxed);
    status = status == GANTRY_OK ? back : status;
    if (status == GANTRY_OK) {
        gy_kernel_note_taken(kernel, size);
    }
    return status;
}

void gy_parameters_copy_from(unsigned char *to, const struct gy_kernel_layout *layout, void *const *args,
                             uint32_t i)
{
    for (; i < layout->count; i++) {
        memcpy(to + layout->of[i].offset, args[i], layout->of[i].bytes);
    }
}

/* An edge between two kernels is all that can let one start early. */
static GY_COLD void keep_extra(struct gy_nodes *n, struct gy_node *node, const struct gy_launch_extra *extra)
{
    struct gy_launch_extra kept = *extra;
    const bool follows_kernel =
        node->before.count == 1 && n->list[n->before[node->before.first]].kind == GY_NODE_KERNEL;
    kept.starts_early = extra->starts_early != 0 && follows_kernel;
    n->extras[n->extra_count++] = kept;
    node->kernel.extra = n->extra_count;
}

/* Note a kernel; there is room for the node, its parameters, its extra, and the set of nodes that it comes
 * after. */
static GY_COLD gantry_status note_kernel(struct gy_lane *lane, const struct gantry_kernel *kernel,
                                         const struct gy_launch_size *size, void *const *args,
                                         const struct gy_launch_extra *extra)
{
    struct gy_nodes *n = lane->nodes;
    struct gy_node *node = &n->list[n->count];
    gy_lane_note_kernel(lane, kernel, size, args);
    if (extra != NULL) {
        node->stream = lane->stream;
        keep_extra(n, node, extra);
    }
    return GANTRY_OK;
}

static GY_COLD gantry_status grow_and_note_kernel(struct gy_lane *lane, const struct gantry_kernel *kernel,
                                                  const struct gy_launch_size *size, void *const *args,
                                                  const struct gy_launch_extra *extra)
{
    struct gy_nodes *n = lane->nodes;
    if (!has_room(n, 1) ||
        !gy_grow_array(&n->bytes, &n->bytes_room, n->bytes_used + kernel->layout->bytes, 1) ||
        (extra != NULL &&
         !gy_grow_array(&n->extras, &n->extras_room, n->extra_count + (size_t)1, sizeof(*n->extras)))) {
        return out_of_memory();
    }
    return note_kernel(lane, kernel, size, args, extra);
}

/* Note the first kernel with such a block, or one without the arguments that it needs. */
static GY_COLD gantry_status note_first_kernel(struct gy_lane *lane, struct gantry_kernel *kernel,
                                               const struct gy_launch_size *size, void *const *args,
                                               const struct gy_launch_extra *extra)
{
    struct gy_nodes *n = lane->nodes;
    gantry_status status = gy_kernel_is_taken(kernel, size) ? GANTRY_OK : try_kernel(n, kernel, size, args);
    if (status == GANTRY_OK && args == NULL && kernel->layout->count != 0) {
        status = gy_kernel_failed(n->context, kernel, size, CUDA_ERROR_INVALID_VALUE);
    }
    return status == GANTRY_OK ? grow_and_note_kernel(lane, kernel, size, args, extra) : status;
}

gantry_status gy_lane_kernel(struct gy_lane *lane, struct gantry_kernel *kernel,
                             const struct gy_launch_size *size, void *const *args,
                             const struct gy_launch_extra *extra)
{
    if (extra == NULL && gy_lane_note_known(lane, kernel, size, args)) {
        return GANTRY_OK;
    }
    const bool is_known = gy_kernel_is_taken(kernel, size) && (args != NULL || kernel->layout->count == 0);
    return is_known ? grow_and_note_kernel(lane, kernel, size, args, extra)
                    : note_first_kernel(lane, kernel, size, args, extra);
}

gantry_status gy_lane_copy(struct gy_lane *lane, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                           enum gy_node_sides sides)
{
    struct gy_node *node = open_node(lane, GY_NODE_COPY, lane->stream);
    if (node == NULL) {
        return out_of_memory();
    }
    node->form |= sides != GY_SIDES_UNKNOWN ? (uint32_t)sides : GY_FORM_FIXED;
    node->copy.to = to;
    node->copy.from = from;
    node->copy.bytes = bytes;
    return close_node(lane);
}

gantry_status gy_lane_fill(struct gy_lane *lane, struct gy_fill fill)
{
    struct gy_node *node = open_node(lane, GY_NODE_FILL, lane->stream);
    if (node == NULL) {
        return out_of_memory();
    }
    node->form |= fill.pattern_bytes;
    node->fill = fill;
    return close_node(lane);
}

/* As open_node(), for an event. */
static struct gy_node *open_event(struct gy_lane *lane, enum gy_node_kind kind, CUevent event, bool is_order)
{
    struct gy_nodes *n = lane->nodes;
    struct gy_node *node =
        gy_grow_array(&n->events, &n->events_room, n->event_count + (size_t)1, sizeof(*n->events))
            ? open_node(lane, kind, NULL)
            : NULL;
    if (node != NULL) {
        node->event = n->event_count;
        n->events[n->event_count++] =
            (struct gy_node_event){.node = n->count, .is_order = is_order, .event = event};
    }
    return node;
}

gantry_status gy_lane_event(struct gy_lane *lane, CUevent event)
{
    return open_event(lane, GY_NODE_EVENT, event, false) != NULL ? close_node(lane) : out_of_memory();
}

gantry_status gy_lane_lent_event(struct gy_lane *lane, struct gy_lent_event **place)
{
    if (open_event(lane, GY_NODE_EVENT, (*place)->event, false) == NULL) {
        return out_of_memory();
    }
    lane->nodes->events[lane->nodes->event_count - 1].place = place;
    gy_lent_event_enter(*place, GY_LENT_NOTED);
    return close_node(lane);
}

gantry_status gy_lane_end(struct gy_lane *lane, CUevent event)
{
    if (open_event(lane, GY_NODE_EVENT, event, true) == NULL) {
        return out_of_memory();
    }
    lane->nodes->count++; /* the lane's last node is still the one before it */
    assert(gy_nodes_are_valid(lane->nodes));
    return GANTRY_OK;
}

bool gy_lanes_may_wait(const struct gy_driver *driver)
{
    return driver->cuGraphAddEventWaitNode != NULL && driver->cuGraphExecEventWaitNodeSetEvent != NULL;
}

gantry_status gy_lane_wait_event(struct gy_lane *lane, CUevent event)
{
    const struct gy_node_set before = lane->last;
    lane->last = (struct gy_node_set){0, 0};
    if (open_event(lane, GY_NODE_WAIT, event, true) == NULL) {
        lane->last = before;
        return out_of_memory();
    }
    gy_lane_close_node(lane);
    return before.count != 0 ? gy_lane_wait(lane, before) : GANTRY_OK;
}

gantry_status gy_lane_graph(struct gy_lane *lane, CUgraph graph)
{
    struct gy_node *node = open_node(lane, GY_NODE_GRAPH, NULL);
    if (node == NULL) {
        gy_graph_destroy(lane->nodes->context, graph);
        return out_of_memory();
    }
    node->form = GY_FORM_FIXED;
    node->graph = graph;
    lane->nodes->graphs++;
    return close_node(lane);
}

uint32_t gy_nodes_count_work(const struct gy_nodes *n, uint32_t count)
{
    uint32_t order = 0;
    for (uint32_t i = 0; i < n->event_count && n->events[i].node < count; i++) {
        order += n->events[i].is_order;
    }
    return count - order;
}

size_t gy_nodes_count_before(const struct gy_nodes *n)
{
    size_t sum = 0;
    for (uint32_t i = 0; i < n->count; i++) {
        sum += n->list[i].before.count;
    }
    return sum;
}

void gy_nodes_give_events(const struct gy_nodes *n, uint32_t count)
{
    for (uint32_t i = 0; i < n->event_count && n->events[i].node < count; i++) {
        const struct gy_node_event *event = &n->events[i];
        if (event->place != NULL && (*event->place)->state == GY_LENT_NOTED) {
            gy_lent_event_enter(*event->place, GY_LENT_GIVEN);
        }
    }
}

static bool contains(const uint32_t *numbers, uint32_t count, uint32_t number)
{
    for (uint32_t i = 0; i < count; i++) {
        if (numbers[i] == number) {
            return true;
        }
    }
    return false;
}

gantry_status gy_lane_wait(struct gy_lane *lane, struct gy_node_set set)
{
    struct gy_nodes *n = lane->nodes;
    if (lane->last.count == 0) {
        lane->last = set;
        return GANTRY_OK;
    }
    const uint32_t most = lane->last.count + set.count;
    if (most > n->before_room - n->before_count && !grow_before(n, most)) {
        return out_of_memory();
    }
    uint32_t *all = n->before + n->before_count, count = lane->last.count;
    memcpy(all, n->before + lane->last.first, count * sizeof(*all));
    for (uint32_t i = 0; i < set.count; i++) {
        const uint32_t number = n->before[set.first + i];
        if (!contains(all, count, number)) {
            all[count++] = number;
        }
    }
    lane->last = (struct gy_node_set){n->before_count, count};
    n->before_count += count;
    return GANTRY_OK;
}

/* The upper bits of a pointer are free for small numbers. */
static inline uint64_t pack(const struct gy_node *node)
{
    return (uint64_t)(uintptr_t)node->stream ^ (uint64_t)node->kind << 60 ^
           (uint64_t)node->before.count << 48;
}

/* Attributes cannot be changed in an executable graph. */
uint64_t gy_node_hash_extra(uint64_t hash, const struct gy_nodes *n, const struct gy_node *node)
{
    uint32_t words[sizeof(*n->extras) / sizeof(uint32_t)];
    memcpy(words, &n->extras[node->kernel.extra - 1], sizeof(words));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        hash = gy_nodes_mix(hash, words[i]);
    }
    return hash;
}

uint64_t gy_nodes_hash(const struct gy_nodes *n, uint64_t seed)
{
    uint64_t hash = gy_nodes_mix(seed, n->count);
    for (uint32_t i = 0; i < n->count; i++) {
        const struct gy_node *node = &n->list[i];
        hash = gy_nodes_mix(hash, pack(node));
        if (__builtin_expect(node->kind == GY_NODE_KERNEL && node->kernel.extra != 0, 0)) {
            hash = gy_node_hash_extra(hash, n, node);
        }
        for (uint32_t b = 0; b < node->before.count; b++) {
            hash = gy_nodes_mix(hash, n->before[node->before.first + b]);
        }
    }
    return hash;
}

/* ---- the graph -------------------------------------------------------------------------------- */

static GY_INLINE gantry_status add_kernel(struct gy_nodes *n, CUgraph graph, const struct gy_node *node,
                                          const CUgraphNode *before, CUgraphNode *out)
{
    CUDA_KERNEL_NODE_PARAMS_v2 params;
    const gantry_status status = gy_nodes_describe(n, node, &params);
    return status == GANTRY_OK
               ? GY_CALL(n->context, cuGraphAddKernelNode(out, graph, before, node->before.count, &params))
               : status;
}

/* What a capture would have made of it: the driver knows of any address what memory it is of. */
static gantry_status add_copy(struct gy_nodes *n, CUgraph graph, const struct gy_node *node,
                              const CUgraphNode *before, CUgraphNode *out)
{
    const CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                                .srcDevice = node->copy.from,
                                .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                                .dstDevice = node->copy.to,
                                .WidthInBytes = node->copy.bytes,
                                .Height = 1,
                                .Depth = 1};
    return GY_CALL(n->context,
                   cuGraphAddMemcpyNode(out, graph, before, node->before.count, &copy, n->context->native));
}

static gantry_status add_fill(struct gy_nodes *n, CUgraph graph, const struct gy_node *node,
                              const CUgraphNode *before, CUgraphNode *out)
{
    const CUDA_MEMSET_NODE_PARAMS fill = gy_fill_describe(&node->fill);
    return GY_CALL(n->context,
                   cuGraphAddMemsetNode(out, graph, before, node->before.count, &fill, n->context->native));
}

/* Find the node that was captured last on the stream. */
static gantry_status find_captured(struct gy_nodes *n, const struct gy_node *node, CUgraphNode *out)
{
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUgraphNode *last = NULL;
    size_t count = 0;
    gantry_status status =
        GY_CALL(n->context, cuStreamGetCaptureInfo(node->stream, &state, NULL, NULL, &last, &count));
    if (status == GANTRY_OK && (state != CU_STREAM_CAPTURE_STATUS_ACTIVE || count != 1)) {
        status = GY_FAIL(GANTRY_ERR_DRIVER, "a call was captured as %zu nodes, not as one", count);
    }
    *out = status == GANTRY_OK ? last[0] : NULL;
    return status;
}

static gantry_status capture(struct gy_nodes *n, CUgraph graph, const struct gy_node *node,
                             const CUgraphNode *before, CUgraphNode *out)
{
    gantry_status status =
        GY_CALL(n->context, cuStreamBeginCaptureToGraph(node->stream, graph, before, NULL, node->before.count,
                                                        CU_STREAM_CAPTURE_MODE_RELAXED));
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_node_enqueue(n, node, node->stream);
    if (status == GANTRY_OK) {
        status = find_captured(n, node, out);
    }
    CUgraph same;
    const CUresult ended = gy_stream_end_capture(n->context->driver, node->stream, &same);
    n->making.is_stuck = ended != CUDA_SUCCESS;
    return status != GANTRY_OK
               ? status
               : gy_context_check(n->context, ended, "cuStreamEndCapture", __FILE__, __LINE__);
}

/* Gather the nodes that the node comes after in n->making.handles.  False: there is no memory for them. */
static GY_RARE bool gather(struct gy_nodes *n, const struct gy_node *node)
{
    const uint32_t count = node->before.count;
    if (!gy_grow_array(&n->making.handles, &n->making.handles_room, count, sizeof(*n->making.handles))) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        n->making.handles[i] = n->made[n->before[node->before.first + i]];
    }
    return true;
}

static GY_RARE gantry_status make_other(struct gy_nodes *n, CUgraph graph, const struct gy_node *node,
                                        const CUgraphNode *before, CUgraphNode *out)
{
    const uint32_t count = node->before.count;
    const bool is_special =
        node->form >= GY_FORM_LANE(0); /* a capture takes what the stream has of its own */
    switch (node->kind) {
    case GY_NODE_GRAPH:
        return GY_CALL(n->context, cuGraphAddChildGraphNode(out, graph, before, count, node->graph));
    case GY_NODE_EVENT:
        return GY_CALL(n->context, cuGraphAddEventRecordNode(out, graph, before, count,
                                                             gy_node_event_of(&n->events[node->event])));
    case GY_NODE_WAIT:
        return GY_CALL(n->context,
                       cuGraphAddEventWaitNode(out, graph, before, count, n->events[node->event].event));
    case GY_NODE_COPY:
        return is_special ? capture(n, graph, node, before, out) : add_copy(n, graph, node, before, out);
    case GY_NODE_FILL:
        return is_special ? capture(n, graph, node, before, out) : add_fill(n, graph, node, before, out);
    case GY_NODE_KERNEL:
        break;
    }
    return capture(n, graph, node, before, out);
}

static GY_INLINE gantry_status make_node(struct gy_nodes *n, CUgraph graph, uint32_t i)
{
    const struct gy_node *node = &n->list[i];
    const CUgraphNode *before = NULL;
    if (node->before.count == 1) { /* this is so for most nodes */
        before = &n->made[n->before[node->before.first]];
    } else if (node->before.count != 0) {
        if (!gather(n, node)) {
            return out_of_memory();
        }
        before = n->making.handles;
    }
    return node->kind == GY_NODE_KERNEL && node->stream == NULL
               ? add_kernel(n, graph, node, before, &n->made[i])
               : make_other(n, graph, node, before, &n->made[i]);
}

gantry_status gy_nodes_make_in(struct gy_nodes *n, CUgraph graph)
{
    if (!gy_grow_array(&n->made, &n->made_room, n->count, sizeof(*n->made))) {
        return out_of_memory();
    }
    gantry_status status = GANTRY_OK;
    n->making.is_stuck = false;
    for (uint32_t i = 0; i < n->count && status == GANTRY_OK; i++) {
        status = make_node(n, graph, i);
    }
    return status;
}

bool gy_nodes_are_released(const struct gy_nodes *n, uint32_t count)
{
    const struct gy_driver *driver = n->context->driver;
    for (uint32_t i = 0; i < count && n->making.is_stuck; i++) {
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
        if (n->list[i].stream != NULL &&
            (driver->cuStreamIsCapturing(n->list[i].stream, &status) != CUDA_SUCCESS ||
             status != CU_STREAM_CAPTURE_STATUS_NONE)) {
            return false;
        }
    }
    return true;
}

/* To a graph that is stuck a capture may still add. */
void gy_nodes_drop(struct gy_nodes *n, CUgraph graph)
{
    (n->making.is_stuck ? gy_graph_spend : gy_graph_destroy)(n->context, graph);
}

gantry_status gy_nodes_make(struct gy_nodes *n, CUgraph *out)
{
    CUgraph graph = NULL;
    gantry_status status = GY_CALL(n->context, cuGraphCreate(&graph, 0));
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_nodes_make_in(n, graph);
    if (status != GANTRY_OK) {
        gy_nodes_drop(n, graph);
        return status;
    }
    *out = graph;
    return GANTRY_OK;
}

/* ---- checks ------------------------------------------------------------------------------------ */

bool gy_nodes_are_valid(const struct gy_nodes *n)
{
    const struct gy_node *last = n->count != 0 ? &n->list[n->count - 1] : NULL;
    if (n->count > n->room || n->before_count > n->before_room || n->bytes_used > n->bytes_room ||
        n->extra_count > n->extras_room || n->event_count > n->events_room) {
        return false;
    }
    for (uint32_t i = 0; last != NULL && i < last->before.count && i < 32; i++) {
        if (last->before.first + i >= n->before_count || n->before[last->before.first + i] >= n->count - 1) {
            return false;
        }
    }
    return true;
}
