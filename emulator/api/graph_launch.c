/* SPDX-License-Identifier: MIT */
/* The launch of an executable graph. */
#include "emulator/program.h"

#include "base/alloc.h"
#include "emulator/capture.h"
#include "emulator/event.h"

static struct gy_emu_event *event_of(const struct gy_emu_program_node *node)
{
    return gy_emu_handle_find(GY_EMU_EVENT, node->op.work.event);
}

/* One marker per event record node: from the launch on, the event is pending. */
static CUresult make_marks(const struct gy_emu_program *program, struct gy_emu_marker **out)
{
    struct gy_emu_marker *first = NULL, **tail = &first;
    for (uint32_t i = 0; i < program->count; i++) {
        if (program->nodes[i].op.work.kind != GY_EMU_WORK_EVENT_RECORD) {
            continue;
        }
        const struct gy_emu_event *event = event_of(&program->nodes[i]);
        *tail = gy_emu_marker_create(event != NULL && gy_emu_event_keeps_time(event));
        if (*tail == NULL) {
            break;
        }
        tail = &(*tail)->next;
    }
    uint32_t made = 0;
    for (struct gy_emu_marker *m = first; m != NULL; m = m->next) {
        made++;
    }
    *out = first;
    return made == program->event_count ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void attach_marks(const struct gy_emu_program *program, struct gy_emu_marker *marks)
{
    for (uint32_t i = 0; i < program->count && marks != NULL; i++) {
        if (program->nodes[i].op.work.kind == GY_EMU_WORK_EVENT_RECORD) {
            struct gy_emu_event *event = event_of(&program->nodes[i]);
            if (event != NULL) {
                gy_emu_event_attach(event, marks);
            }
            marks = marks->next;
        }
    }
}

/* A wait is for the record that is there at the call of the launch, as cuStreamWaitEvent() does it. */
static CUresult sample_waits(const struct gy_emu_program *program, struct gy_emu_marker ***out)
{
    *out = NULL;
    if (program->wait_count == 0) {
        return CUDA_SUCCESS;
    }
    struct gy_emu_marker **waits = gy_zalloc_array(program->wait_count, sizeof(*waits));
    if (waits == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < program->count; i++) {
        if (program->nodes[i].op.work.kind == GY_EMU_WORK_EVENT_WAIT) {
            struct gy_emu_marker *marker = gy_emu_event_marker(program->nodes[i].op.work.event);
            if (marker != NULL) {
                marker->refs++;
            }
            waits[count++] = marker;
        }
    }
    *out = waits;
    return CUDA_SUCCESS;
}

static CUresult launch(CUgraphExec exec_handle, CUstream stream_handle)
{
    struct gy_emu_exec *exec = gy_emu_handle_find(GY_EMU_GRAPH_EXEC, exec_handle);
    if (exec == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_stream *stream;
    CUresult result = gy_emu_stream_find_uncaptured(stream_handle, &stream);
    struct gy_emu_program *program = exec->program;
    if (program->event_count + program->wait_count < program->count) {
        gy_emu_tally_launch();
    }
    if (result == CUDA_SUCCESS && program->is_dead) {
        result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    if (result == CUDA_SUCCESS && stream->capture != NULL) {
        result = gy_emu_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    if (result != CUDA_SUCCESS || (gy_emu_stream_is_noop(stream) && !program->has_effects)) {
        return result;
    }
    struct gy_emu_work work = {.kind = GY_EMU_WORK_GRAPH, .context = stream->object.context};
    program->refs++;
    work.graph.program = program;
    result = make_marks(program, &work.graph.marks);
    if (result == CUDA_SUCCESS) {
        result = sample_waits(program, &work.graph.waits);
    }
    if (result != CUDA_SUCCESS) {
        gy_emu_work_release(&work);
        return result;
    }
    struct gy_emu_marker *marks = work.graph.marks;
    result = gy_emu_stream_push(stream, &work);
    if (result == CUDA_SUCCESS && !gy_emu_has_late_events()) {
        attach_marks(program, marks);
    }
    return result;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    return GY_EMU_CALL(cuGraphLaunch, launch(exec, stream));
}

/* There is nothing that a launch would have to bring to the device. */
static CUresult upload(CUgraphExec exec_handle, CUstream stream_handle)
{
    const struct gy_emu_exec *exec = gy_emu_handle_find(GY_EMU_GRAPH_EXEC, exec_handle);
    struct gy_emu_stream *stream;
    if (exec == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const CUresult result = gy_emu_stream_find_uncaptured(stream_handle, &stream);
    if (result == CUDA_SUCCESS && exec->program->is_dead) {
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    return result == CUDA_SUCCESS && stream->capture != NULL
               ? gy_emu_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
               : result;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    return GY_EMU_CALL(cuGraphUpload, upload(exec, stream));
}
