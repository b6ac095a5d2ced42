/* SPDX-License-Identifier: MIT */
/* Calls on all streams of a partition, or of the context, at once.
 *
 * Events of all of them break the capture of any stream that they cover, so such a call waits for the
 * dispatcher's capture to be launched and keeps the next one from beginning.  Nothing may block in between: a
 * caller that waits for the GPU records an event there and waits for that event afterwards.
 *
 * Synchronising the whole context breaks no capture: the dispatcher's streams are waited for by an event, and
 * what the application has enqueued by gy_whole_wait().  driver/whole.h has the rule for captures of others.
 */
#include "context/context.h"

#include "base/handle.h"
#include "base/proof.h"
#include "dispatcher/internal.h"
#include "dispatcher/loop/current.h"
#include "driver/whole.h"

/* The extent of a call; `partition` NULL: the whole context. */
struct whole {
    gantry_context *context;
    gantry_partition *partition;
    const char *call; /* the public function, for messages */
};

typedef gantry_status (*whole_fn)(const struct whole *whole, CUevent event);

static gantry_status record(const struct whole *w, CUevent event)
{
    struct gy_context *cuda = w->context->cuda;
    return w->partition != NULL ? gy_partition_record(w->partition, event) : gy_whole_record(cuda, event);
}

/* `into` comes after what `event` stands for, and after the stream.  It is made when it is NULL. */
static gantry_status join(const struct whole *w, CUstream stream, CUstream *into, CUevent event)
{
    struct gy_context *cuda = w->context->cuda;
    gantry_status status = GANTRY_OK;
    if (*into == NULL) {
        status = gy_context_create_stream(cuda, NULL, 0, into);
        status = status == GANTRY_OK ? GY_CALL(cuda, cuStreamWaitEvent(*into, event, 0)) : status;
    }
    status = status == GANTRY_OK ? GY_CALL(cuda, cuEventRecord(event, stream)) : status;
    return status == GANTRY_OK ? GY_CALL(cuda, cuStreamWaitEvent(*into, event, 0)) : status;
}

typedef gantry_status (*stream_fn)(const struct whole *w, CUstream stream, CUstream *into, CUevent event);

/* Calls `call` for each stream with work that the dispatcher launches on, of the partition or of all
 * partitions.  Graphs are included, see dispatcher/order/batch_order.h. */
static gantry_status for_each_busy(const struct whole *w, stream_fn call, CUstream *into, CUevent event)
{
    struct gy_streams *streams = &w->context->dispatcher->streams;
    const struct gy_driver *driver = w->context->cuda->driver;
    gantry_status status = GANTRY_OK;
    uint32_t count = atomic_load_explicit(&streams->created, memory_order_acquire);
    for (uint32_t i = 0; i < count && status == GANTRY_OK; i++) {
        const struct gy_stream *stream = &streams->streams[i];
        bool is_part = w->partition == NULL || w->partition->info.index == GY_STREAM_PARTITION(stream);
        if (is_part && driver->cuStreamQuery(stream->native) != CUDA_SUCCESS) {
            status = call(w, stream->native, into, event);
        }
    }
    return status;
}

/* The work that the dispatcher has launched. */
static gantry_status record_ours(const struct whole *w, CUevent event)
{
    struct gy_context *cuda = w->context->cuda;
    CUstream into = NULL;
    gantry_status status = for_each_busy(w, join, &into, event);
    if (into != NULL) {
        status = status == GANTRY_OK ? GY_CALL(cuda, cuEventRecord(event, into)) : status;
        (void)GY_CALL(cuda, cuStreamDestroy(into)); /* the work on the stream is done all the same */
    }
    return status;
}

/* A driver's function on all work of a context, or of a green context, leaves out kernels of other green
 * contexts in a graph (seen on driver 580).  Such a graph is a batch that reaches into several partitions, or
 * the application's own that a callback has launched.  So the streams that the dispatcher launches on are
 * asked one by one, too. */
static gantry_status record_all(const struct whole *w, CUevent event)
{
    gantry_status status = record(w, event);
    return status == GANTRY_OK ? record_ours(w, event) : status;
}

static gantry_status wait(const struct whole *w, CUevent event)
{
    const struct gy_proof_ops *proof = gy_proof();
    if (proof != NULL) {
        proof->calls_driver(true);
    }
    const gantry_status status = gy_partition_wait(w->partition, event);
    if (proof != NULL) {
        proof->calls_driver(false);
    }
    return status;
}

static gantry_status check_outside(const struct whole *w)
{
    if (gy_gd_current != w->context->dispatcher) {
        return GANTRY_OK;
    }
    return w->partition != NULL
               ? GY_FAIL(GANTRY_ERR_STATE, "%s: a launch callback asks for all streams of partition '%s'",
                         w->call, w->partition->info.name)
               : GY_FAIL(GANTRY_ERR_STATE, "%s: a launch callback asks for all streams of its context",
                         w->call);
}

/* Make the call.  The context is current. */
static gantry_status call_whole(const struct whole *w, whole_fn call, CUevent event)
{
    struct gy_graphs *graphs = &w->context->dispatcher->graphs;
    gy_launch_gate_pause(&graphs->gate);
    gantry_status status = call(w, event);
    gy_launch_gate_resume(&graphs->gate);
    if (status == GANTRY_ERR_STATE) { /* something of the application's is captured */
        gy_error_put_before("%s", w->call);
    }
    return status;
}

/* The call begins: until leave() the context is current, and its partitions stay. */
static gantry_status begin(const struct whole *w)
{
    gantry_status status = check_outside(w);
    if (status == GANTRY_OK) {
        status = gy_replan_call_begin(w->context->dispatcher, w->call);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_context_enter(w->context->cuda);
    if (status != GANTRY_OK) {
        gy_replan_call_end(w->context->dispatcher);
    }
    return status;
}

static void leave(const struct whole *w)
{
    (void)gy_context_pop(w->context->cuda);
    gy_replan_call_end(w->context->dispatcher);
}

static gantry_status enter(const struct whole *w, whole_fn call, CUevent event)
{
    gantry_status status = begin(w);
    if (status != GANTRY_OK) {
        return status;
    }
    status = call_whole(w, call, event);
    leave(w);
    return status;
}

/* Wait for the event.  The context is current. */
static gantry_status wait_for_event(const struct whole *w, whole_fn call)
{
    struct gy_context *cuda = w->context->cuda;
    CUevent event;
    gantry_status status =
        GY_CALL(cuda, cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC));
    if (status != GANTRY_OK) {
        return status;
    }
    status = call_whole(w, call, event);
    if (status == GANTRY_OK) {
        status = GY_CALL(cuda, cuEventSynchronize(event));
    }
    (void)GY_CALL(cuda, cuEventDestroy(event));
    return status;
}

static gantry_status synchronize(const struct whole *w)
{
    gantry_status status = begin(w);
    if (status != GANTRY_OK) {
        return status;
    }
    struct gy_context *cuda = w->context->cuda;
    const bool is_whole = w->partition == NULL || gy_partition_is_whole(w->partition);
    const bool is_part = cuda->sms != cuda->info.total_sms; /* of an adopted green context */
    if (is_whole && (!is_part || !gy_context_has_events(cuda))) {
        status = wait_for_event(w, record_ours);
        status = status == GANTRY_OK ? gy_whole_wait(cuda) : status;
    } else {
        status = wait_for_event(w, record_all);
    }
    leave(w);
    if (status == GANTRY_OK && gy_proof() != NULL) {
        gy_proof()->synchronized();
    }
    return status;
}

gantry_status gantry_context_synchronize(gantry_context *context)
{
    GY_NEED(CONTEXT, context);
    return synchronize(&(struct whole){context, NULL, "gantry_context_synchronize"});
}

gantry_status gantry_partition_record_event(gantry_partition *partition, void *event)
{
    static const char name[] = "gantry_partition_record_event";
    GY_ACCEPT(PARTITION, partition);
    if (partition == NULL || event == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: an argument is NULL", name);
    }
    const struct whole whole = {partition->owner->owner, partition, name};
    return enter(&whole, record_all, event);
}

gantry_status gantry_partition_wait_event(gantry_partition *partition, void *event)
{
    static const char name[] = "gantry_partition_wait_event";
    GY_ACCEPT(PARTITION, partition);
    if (partition == NULL || event == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: an argument is NULL", name);
    }
    return enter(&(struct whole){partition->owner->owner, partition, name}, wait, event);
}

gantry_status gantry_partition_synchronize(gantry_partition *partition)
{
    static const char name[] = "gantry_partition_synchronize";
    GY_ACCEPT(PARTITION, partition);
    if (partition == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: partition is NULL", name);
    }
    return synchronize(&(struct whole){partition->owner->owner, partition, name});
}
