/* SPDX-License-Identifier: MIT */
/* Events.  A record leaves a marker in the stream; a wait takes a reference to the marker that is there at
 * the time of the call, so later records do not move it. */
#include "emulator/event.h"

#include "base/alloc.h"
#include "emulator/capture.h"
#include "emulator/clock.h"
#include "emulator/context.h"
#include "emulator/proof.h"
#include "emulator/watch.h"

#define FOR_OTHER_PROCESSES 4u /* it is accepted; nobody can import one here */
#define ALL_EVENT_FLAGS (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | FOR_OTHER_PROCESSES)
#define NS_PER_MS 1e6

static bool is_done(const struct gy_emu_event *event)
{
    return event->marker == NULL || atomic_load_explicit(&event->marker->done, memory_order_relaxed);
}

static CUresult create(CUevent *out, unsigned int flags)
{
    struct gy_emu_context *context;
    CUresult result = gy_emu_context_current(&context);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    const bool keeps_time = (flags & CU_EVENT_DISABLE_TIMING) == 0;
    if (out == NULL || (flags & ~(unsigned int)ALL_EVENT_FLAGS) != 0 ||
        (keeps_time && (flags & FOR_OTHER_PROCESSES) != 0)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_event *event = gy_zalloc(sizeof(*event));
    if (event == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    event->flags = flags;
    event->object.context = context->root;
    result = gy_emu_handle_open(GY_EMU_EVENT, &event->object);
    if (result != CUDA_SUCCESS) {
        gy_free(event);
        return result;
    }
    *out = (CUevent)event->object.handle;
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    return GY_EMU_CALL(cuEventCreate, create(event, flags));
}

static CUresult destroy(CUevent handle)
{
    struct gy_emu_event *event = gy_emu_handle_find(GY_EMU_EVENT, handle);
    if (event == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    CUresult result = gy_emu_context_health(event->object.context);
    gy_emu_event_close(event);
    return result;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    return GY_EMU_CALL(cuEventDestroy, destroy(event));
}

/* ---- recording ------------------------------------------------------------------------------- */

/* Nothing is ahead of the record: it is done at once and needs no marker. */
static CUresult record_now(struct gy_emu_event *event)
{
    gy_emu_marker_unref(event->marker);
    event->marker = NULL;
    event->recorded = true;
    event->time_ns = gy_emu_event_keeps_time(event) ? gy_emu_clock_ns() : 0;
    gy_emu_event_forget_capture(event);
    return CUDA_SUCCESS;
}

static CUresult record_in_stream(struct gy_emu_event *event, struct gy_emu_stream *stream)
{
    if (gy_emu_stream_is_idle(stream)) {
        return record_now(event);
    }
    struct gy_emu_marker *marker = gy_emu_marker_create(gy_emu_event_keeps_time(event));
    if (marker == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct gy_emu_work work = {.kind = GY_EMU_WORK_MARK, .context = stream->object.context, .marker = marker};
    marker->refs++;
    CUresult result = gy_emu_stream_push(stream, &work);
    if (result == CUDA_SUCCESS) {
        gy_emu_event_attach(event, marker);
    }
    gy_emu_marker_unref(marker);
    return result;
}

static CUresult record(CUevent event_handle, CUstream stream_handle, unsigned int flags)
{
    struct gy_emu_event *event = gy_emu_handle_find(GY_EMU_EVENT, event_handle);
    struct gy_emu_stream *stream;
    CUresult result = gy_emu_stream_find_for_work(stream_handle, &stream);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    const bool is_node = stream->capture != NULL && flags == CU_EVENT_RECORD_EXTERNAL; /* of any context */
    if (event == NULL || (!is_node && event->object.context != stream->root)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (flags > CU_EVENT_RECORD_EXTERNAL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (stream->capture == NULL) {
        result = flags == 0 ? record_in_stream(event, stream) : CUDA_ERROR_ILLEGAL_STATE;
        GY_EMU_WATCH(see_record, (stream, event_handle)); /* the null stream has waited for others now */
        gy_emu_proof_record(event, stream);
        return result;
    }
    if (flags == CU_EVENT_RECORD_EXTERNAL) {
        struct gy_emu_work work = {.kind = GY_EMU_WORK_EVENT_RECORD, .context = stream->object.context};
        work.event = event_handle;
        return gy_emu_capture_add(stream, &work);
    }
    return gy_emu_capture_record(stream, event);
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    return GY_EMU_CALL(cuEventRecord, record(event, stream, 0));
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
    return GY_EMU_CALL(cuEventRecordWithFlags, record(event, stream, flags));
}

/* ---- waiting --------------------------------------------------------------------------------- */

static CUresult wait_in_stream(struct gy_emu_stream *stream, struct gy_emu_event *event)
{
    if (is_done(event) && (event->marker == NULL || event->marker->lost == CUDA_SUCCESS)) {
        return CUDA_SUCCESS;
    }
    struct gy_emu_work work = {
        .kind = GY_EMU_WORK_WAIT, .context = stream->object.context, .marker = event->marker};
    event->marker->refs++;
    return gy_emu_stream_push(stream, &work);
}

static CUresult stream_wait(CUstream stream_handle, CUevent event_handle, unsigned int flags)
{
    struct gy_emu_event *event = gy_emu_handle_find(GY_EMU_EVENT, event_handle);
    struct gy_emu_stream *stream;
    CUresult result = gy_emu_stream_find_for_work(stream_handle, &stream);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (flags > CU_EVENT_WAIT_EXTERNAL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (event == NULL || gy_emu_capture_has_lost(event)) {
        result = event == NULL ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
        return stream->capture != NULL ? gy_emu_capture_refuse(stream, result) : result;
    }
    if (flags == CU_EVENT_WAIT_EXTERNAL) {
        if (stream->capture == NULL) {
            return CUDA_ERROR_ILLEGAL_STATE;
        }
        struct gy_emu_work work = {.kind = GY_EMU_WORK_EVENT_WAIT, .context = stream->object.context};
        work.event = event_handle;
        return gy_emu_capture_add(stream, &work);
    }
    if (stream->capture != NULL || event->capture_id != 0) {
        return gy_emu_capture_wait(stream, event);
    }
    GY_EMU_WATCH(see_wait, (stream, event_handle));
    GY_EMU_PROVE(follow, (stream, event));
    return wait_in_stream(stream, event);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    return GY_EMU_CALL(cuStreamWaitEvent, stream_wait(stream, event, flags));
}

static CUresult find_to_ask(CUevent handle, struct gy_emu_event **out)
{
    struct gy_emu_event *event = gy_emu_handle_find(GY_EMU_EVENT, handle);
    if (event == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    *out = event;
    CUresult result = gy_emu_context_health(event->object.context);
    if (result == CUDA_SUCCESS) {
        result = gy_emu_capture_forbids_event(event);
    }
    return result;
}

static CUresult query(CUevent handle)
{
    struct gy_emu_event *event;
    CUresult result = find_to_ask(handle, &event);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (!is_done(event)) {
        return CUDA_ERROR_NOT_READY;
    }
    GY_EMU_WATCH(see_event_done, (handle));
    GY_EMU_PROVE(done, (event));
    return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event)
{
    return GY_EMU_CALL(cuEventQuery, query(event));
}

static CUresult synchronize(CUevent handle)
{
    struct gy_emu_event *event;
    CUresult result = find_to_ask(handle, &event);
    if (result == CUDA_SUCCESS) {
        GY_EMU_WATCH(see_event_done, (handle));
        GY_EMU_PROVE(done, (event));
    }
    if (result != CUDA_SUCCESS || is_done(event)) {
        return result;
    }
    CUcontext context = (CUcontext)event->object.context->object.handle;
    gy_emu_marker_wait(event->marker, (event->flags & CU_EVENT_BLOCKING_SYNC) == 0);
    struct gy_emu_context *unused;
    return gy_emu_context_find(context, &unused); /* the context may have failed meanwhile */
}

CUresult cuEventSynchronize(CUevent event)
{
    return GY_EMU_CALL(cuEventSynchronize, synchronize(event));
}

static uint64_t time_of(const struct gy_emu_event *event)
{
    return event->marker != NULL ? event->marker->time_ns : event->time_ns;
}

static CUresult elapsed(float *out, CUevent start_handle, CUevent end_handle)
{
    struct gy_emu_event *start = gy_emu_handle_find(GY_EMU_EVENT, start_handle),
                        *end = gy_emu_handle_find(GY_EMU_EVENT, end_handle);
    if (start == NULL || end == NULL || !start->recorded || !end->recorded ||
        !gy_emu_event_keeps_time(start) || !gy_emu_event_keeps_time(end)) {
        return CUDA_ERROR_INVALID_HANDLE; /* this comes before a capture is in the way */
    }
    CUresult result = gy_emu_context_health(start->object.context);
    result = result == CUDA_SUCCESS ? gy_emu_context_health(end->object.context) : result;
    if (result == CUDA_SUCCESS && (start->capture_id != 0 || end->capture_id != 0)) {
        result = CUDA_ERROR_CAPTURED_EVENT;
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (start->object.context != end->object.context) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!is_done(start) || !is_done(end)) {
        return CUDA_ERROR_NOT_READY;
    }
    *out = (float)((double)(int64_t)(time_of(end) - time_of(start)) / NS_PER_MS);
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    return GY_EMU_CALL(cuEventElapsedTime, elapsed(milliseconds, start, end));
}
