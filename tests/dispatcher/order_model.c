/* SPDX-License-Identifier: MIT */
#include "tests/dispatcher/order_model.h"

#include "dispatcher/internal.h"
#include "tests/support/cmocka_c11.h"
#include "tests/support/gpu_fixture.h"

#include <stdatomic.h>
#include <string.h>

#define SLOTS 8192u /* a power of 2, more than all streams and events of a dispatcher */
#define MAX_WAITS 64u

/* The set of nodes of a stream or an event, which is found by its handle. */
struct slot {
    _Atomic(void *) handle; /* the dispatcher's thread sets it once */
    _Atomic(uint64_t) nodes;
    /* Streams: one thread at a time uses these, since a callback is called after its waits were made. */
    uint32_t began;        /* nodes that have begun since the reset */
    uint64_t before_waits; /* nodes before the first of `waits` */
    uint64_t waits[MAX_WAITS];
    uint32_t wait_count;
};

#define MAX_NOTED 4096u /* nodes of a batch's graph */

/* A node that begins in a graph: the nodes that it needs and that the graph does not contain, which the
 * graph has to come after. */
#define MAX_DEFERRED 128u

static struct {
    struct gy_context *held;  /* it keeps the driver loaded */
    struct gy_driver *driver; /* its table, which all contexts share */
    CUresult (*record)(CUevent event, CUstream stream);
    CUresult (*wait)(CUstream stream, CUevent event, unsigned int flags);
    CUresult (*query)(CUevent event);
    CUresult (*synchronize)(CUevent event);
    CUresult (*launch)(CUgraphExec exec, CUstream stream);
    CUresult (*kernel)(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                       unsigned int block_x, unsigned int block_y, unsigned int block_z,
                       unsigned int shared_bytes, CUstream stream, void **args, void **extra);
    struct slot slots[SLOTS];
    uint64_t deferred[MAX_DEFERRED]; /* of the graph that is being noted, used by its thread only */
    uint32_t deferred_count;
    uint64_t noted[MAX_NOTED];    /* the set of nodes that each of its nodes comes after, and is itself */
    uint64_t needs[MAX_NOTED];    /* nodes outside of the graph that each of its nodes needs */
    bool begins;                  /* the call is the first of a node */
    uint64_t own[MAX_NOTED];      /* nodes that end with each of its nodes */
    uint32_t played;              /* so many of its nodes were enqueued on streams */
    uint64_t captured;            /* nodes that ended in the graph */
    const struct gy_nodes *nodes; /* of the graph; NULL: it was launched */
    _Atomic(uint64_t) passed;     /* nodes that the host knows to be done */
    bool exact;                   /* waits are judged */
    _Atomic(uint64_t) unordered, redundant, misplaced, waits; /* the counts of struct order_faults */
} model;

static struct slot *slot_of(void *handle)
{
    uint64_t hash = (uint64_t)(uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15);
    for (uint32_t i = (uint32_t)(hash >> 51);; i++) {
        struct slot *slot = &model.slots[i % SLOTS];
        void *there = atomic_load(&slot->handle);
        if (there == NULL) {
            atomic_compare_exchange_strong(&slot->handle, &there, handle);
            there = atomic_load(&slot->handle);
        }
        if (there == handle) {
            return slot;
        }
    }
}

/* The set of nodes that some nodes of the graph being noted come after in it, and are themselves. */
static uint64_t noted_of(const struct gy_nodes *nodes, struct gy_node_set set)
{
    uint64_t noted = 0;
    for (uint32_t i = 0; i < set.count; i++) {
        noted |= model.noted[nodes->before[set.first + i]];
    }
    return noted;
}

/* Nodes that no call has noted: ends, and waits for events that were recorded before. */
static void note_events(const struct gy_nodes *nodes)
{
    for (uint32_t i = 0; i < nodes->event_count; i++) {
        const struct gy_node *node = &nodes->list[nodes->events[i].node];
        assert_true(nodes->events[i].node < MAX_NOTED);
        model.noted[nodes->events[i].node] =
            noted_of(nodes, node->before) |
            (node->kind == GY_NODE_WAIT ? atomic_load(&slot_of(nodes->events[i].event)->nodes) : 0);
    }
}

/* The launch records the events of the graph, which has all nodes still.  Returns what its waits bring. */
static uint64_t record_inside(uint64_t before)
{
    const struct gy_nodes *nodes = model.nodes;
    uint64_t brought = 0;
    if (nodes != NULL) {
        note_events(nodes);
    }
    for (uint32_t i = 0; nodes != NULL && i < nodes->event_count; i++) {
        const struct gy_node_event *e = &nodes->events[i];
        if (nodes->list[e->node].kind == GY_NODE_WAIT) {
            brought |= model.noted[e->node];
            continue;
        }
        atomic_store(&slot_of(e->event)->nodes, before | noted_of(nodes, nodes->list[e->node].before));
    }
    model.nodes = NULL;
    return brought;
}

/* All nodes that the graph needs are before it, and all its nodes are before the work behind it. */
static CUresult launch_graph(CUgraphExec exec, CUstream stream)
{
    struct slot *home = slot_of(stream);
    for (uint32_t i = 0; i < model.deferred_count; i++) {
        bool is_missing =
            (model.deferred[i] & ~(atomic_load(&home->nodes) | atomic_load(&model.passed))) != 0;
        atomic_fetch_add(&model.unordered, is_missing);
    }
    atomic_fetch_or(&home->nodes, record_inside(atomic_load(&home->nodes)) | model.captured);
    model.deferred_count = 0;
    model.captured = 0;
    return model.launch(exec, stream);
}

static uint32_t next_kernel(const struct gy_nodes *nodes, uint32_t from)
{
    while (from < nodes->count && nodes->list[from].kind != GY_NODE_KERNEL) {
        from++;
    }
    return from;
}

/* The next kernel of the batch is enqueued on a stream, which must be behind everything that it needs. */
static void play(CUstream stream)
{
    const struct gy_nodes *nodes = model.nodes;
    struct slot *own = slot_of(stream);
    const uint32_t i = next_kernel(nodes, model.played);
    assert_true(i < nodes->count && i < MAX_NOTED);
    const uint64_t needed = model.needs[i] | noted_of(nodes, nodes->list[i].before);
    atomic_fetch_add(&model.unordered,
                     (needed & ~(atomic_load(&own->nodes) | atomic_load(&model.passed))) != 0);
    atomic_fetch_or(&own->nodes, model.own[i]);
    model.played = i + 1;
    if (next_kernel(nodes, model.played) == nodes->count) {
        model.deferred_count = model.played = 0;
        model.captured = 0;
        model.nodes = NULL;
    }
}

/* While a batch is noted no callback launches on a stream. */
static CUresult launch_kernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                              unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                              unsigned int block_z, unsigned int shared_bytes, CUstream stream, void **args,
                              void **extra)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (model.nodes != NULL && model.driver->cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
        status == CU_STREAM_CAPTURE_STATUS_NONE) { /* else it is tried */
        play(stream);
    }
    return model.kernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
                        args, extra);
}

static CUresult record(CUevent event, CUstream stream)
{
    atomic_store(&slot_of(event)->nodes, atomic_load(&slot_of(stream)->nodes));
    return model.record(event, stream);
}

static CUresult wait(CUstream stream, CUevent event, unsigned int flags)
{
    struct slot *own = slot_of(stream);
    uint64_t before = atomic_load(&own->nodes);
    uint64_t brings = atomic_load(&slot_of(event)->nodes);
    atomic_fetch_add(&model.waits, 1);
    atomic_fetch_or(&own->nodes, brings);
    if (!model.exact) {
        return model.wait(stream, event, flags);
    }
    if (own->wait_count == 0) {
        own->before_waits = before;
    }
    if (own->wait_count == MAX_WAITS) {
        atomic_fetch_add(&model.misplaced, 1);
    } else {
        own->waits[own->wait_count++] = brings;
    }
    return model.wait(stream, event, flags);
}

static CUresult passed(CUevent event, CUresult result)
{
    if (result == CUDA_SUCCESS) {
        atomic_fetch_or(&model.passed, atomic_load(&slot_of(event)->nodes));
    }
    return result;
}

static CUresult query(CUevent event)
{
    return passed(event, model.query(event));
}

static CUresult synchronize(CUevent event)
{
    return passed(event, model.synchronize(event));
}

void order_model_attach(bool exact)
{
    gantry_context_options options = GANTRY_CONTEXT_OPTIONS_INIT;
    options.driver = gpu_fixture_driver();
    memset(&model, 0, sizeof(model));
    assert_ok(gy_context_open(&options, &model.held));
    model.driver = (struct gy_driver *)(uintptr_t)model.held->driver; /* no other thread reads it now */
    model.exact = exact;
    model.record = model.driver->cuEventRecord;
    model.wait = model.driver->cuStreamWaitEvent;
    model.query = model.driver->cuEventQuery;
    model.synchronize = model.driver->cuEventSynchronize;
    model.launch = model.driver->cuGraphLaunch;
    model.kernel = model.driver->cuLaunchKernel;
    model.driver->cuEventRecord = record;
    model.driver->cuStreamWaitEvent = wait;
    model.driver->cuEventQuery = query;
    model.driver->cuEventSynchronize = synchronize;
    model.driver->cuGraphLaunch = launch_graph;
    model.driver->cuLaunchKernel = launch_kernel;
}

void order_model_detach(void)
{
    model.driver->cuEventRecord = model.record;
    model.driver->cuStreamWaitEvent = model.wait;
    model.driver->cuEventQuery = model.query;
    model.driver->cuEventSynchronize = model.synchronize;
    model.driver->cuGraphLaunch = model.launch;
    model.driver->cuLaunchKernel = model.kernel;
    gy_context_close(model.held);
}

void order_model_reset(void)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        atomic_store(&model.slots[i].nodes, 0);
        model.slots[i].began = 0;
        if (model.slots[i].wait_count != 0) { /* no node behind them has begun */
            atomic_fetch_add(&model.misplaced, 1);
            model.slots[i].wait_count = 0;
        }
    }
    atomic_store(&model.passed, 0);
}

void order_model_begin(gantry_launch *launch, uint64_t before)
{
    struct slot *own = slot_of(launch->stream);
    own->began++;
    if (launch->lane != NULL) {
        model.nodes = launch->lane->nodes;
        note_events(model.nodes);
        const uint64_t inside = noted_of(launch->lane->nodes, launch->lane->last);
        const bool has_work = gy_nodes_count_work(launch->lane->nodes, launch->nodes) != 0;
        model.deferred_count = has_work ? model.deferred_count : 0; /* for graphs without nodes */
        assert_true(model.deferred_count < MAX_DEFERRED);
        model.deferred[model.deferred_count++] = before & ~inside;
        assert_true(model.nodes->count < MAX_NOTED);
        model.needs[model.nodes->count] = before & ~inside;
        model.begins = true;
        return;
    }
    if (model.nodes != NULL) { /* a batch without work has ended without a launch */
        model.nodes = NULL;
        model.played = 0;
    }
    if ((before & ~(atomic_load(&own->nodes) | atomic_load(&model.passed))) != 0) {
        atomic_fetch_add(&model.unordered, 1);
    }
    for (uint32_t i = 0; i < own->wait_count; i++) {
        uint64_t others = own->before_waits;
        for (uint32_t j = 0; j < own->wait_count; j++) {
            others |= j == i ? 0 : own->waits[j];
        }
        atomic_fetch_add(&model.redundant, (before & ~others) == 0);
    }
    own->wait_count = 0;
}

void order_model_called(gantry_launch *launch, uint64_t ends)
{
    if (launch->lane == NULL) {
        atomic_fetch_or(&slot_of(launch->stream)->nodes, ends);
        return;
    }
    const struct gy_nodes *nodes = launch->lane->nodes;
    model.nodes = nodes;
    model.captured |= ends;
    note_events(nodes);
    for (uint32_t i = launch->nodes; i < nodes->count; i++) {
        assert_true(i < MAX_NOTED);
        model.noted[i] = noted_of(nodes, nodes->list[i].before) | ends;
        model.own[i] = ends;
        model.needs[i] = i == launch->nodes && model.begins ? model.needs[i] : 0;
    }
    model.begins = false;
}

struct order_faults order_model_faults(void)
{
    return (struct order_faults){.unordered = atomic_load(&model.unordered),
                                 .redundant = atomic_load(&model.redundant),
                                 .misplaced = atomic_load(&model.misplaced),
                                 .waits = atomic_load(&model.waits)};
}

uint32_t order_model_streams(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < SLOTS; i++) {
        count += model.slots[i].began != 0;
    }
    return count;
}
