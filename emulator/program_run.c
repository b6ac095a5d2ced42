/* Executable graphs: launch, and the run of a launch. */
#include "emulator/program.h"

#include "base/alloc.h"
#include "emulator/capture.h"
#include "emulator/condition.h"
#include "emulator/context.h"
#include "emulator/event.h"

/* ---- launching ------------------------------------------------------------------------------- */

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

void gy_emu_program_drop_waits(const struct gy_emu_program *program, struct gy_emu_marker **waits)
{
    for (uint32_t i = 0; waits != NULL && i < program->wait_count; i++) {
        gy_emu_marker_unref(waits[i]);
    }
    gy_free(waits);
}

static CUresult launch(CUgraphExec exec_handle, CUstream stream_handle)
{
    struct gy_emu_exec *exec = gy_emu_handle_find(GY_EMU_GRAPH_EXEC, exec_handle);
    if (exec == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct gy_emu_stream *stream;
    CUresult result = gy_emu_stream_find_for_work(stream_handle, &stream);
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
    const CUresult result = gy_emu_stream_find_for_work(stream_handle, &stream);
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

/* ---- running --------------------------------------------------------------------------------- */

static bool is_left_out(const struct gy_emu_program_node *node, const struct gy_emu_op *launch_op)
{
    const struct gy_emu_context *context = node->op.work.context;
    return node->op.work.kind == GY_EMU_WORK_KERNEL && context->green != NULL &&
           context != launch_op->work.context;
}

bool gy_emu_program_leaves_out(const struct gy_emu_op *launch_op)
{
    const struct gy_emu_program *program = launch_op->work.graph.program;
    for (uint32_t i = 0; i < program->count; i++) {
        if (is_left_out(&program->nodes[i], launch_op)) {
            return true;
        }
    }
    return false;
}

CUresult gy_emu_program_mark_own(struct gy_emu_op *launch_op, struct gy_emu_marker **out)
{
    *out = NULL;
    if (launch_op->state == GY_EMU_OP_RUNNING && launch_op->work.graph.program->own_left == 0) {
        return CUDA_SUCCESS;
    }
    struct gy_emu_marker *marker = gy_emu_marker_create(false);
    if (marker == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    marker->refs++;
    marker->also = launch_op->work.graph.own;
    launch_op->work.graph.own = marker;
    *out = marker;
    return CUDA_SUCCESS;
}

void gy_emu_program_tell_own(struct gy_emu_op *launch_op)
{
    for (struct gy_emu_marker *mark = launch_op->work.graph.own; mark != NULL; mark = mark->also) {
        gy_emu_marker_complete(mark);
    }
}

static void arm(struct gy_emu_program *program, struct gy_emu_op *launch_op)
{
    program->own_left = 0;
    struct gy_emu_marker *mark = launch_op->work.graph.marks;
    uint32_t waits = 0;
    for (uint32_t i = 0; i < program->count; i++) {
        struct gy_emu_program_node *node = &program->nodes[i];
        node->pending = node->dependency_count;
        node->op.state = GY_EMU_OP_QUEUED;
        node->op.priority = program->exec->keeps_priorities ? node->priority : launch_op->priority;
        node->op.list = NULL;
        node->op.failure = CUDA_SUCCESS;
        node->op.log_number = 0;
        node->is_left_out = is_left_out(node, launch_op);
        program->own_left += !node->is_left_out;
        if (node->op.work.kind == GY_EMU_WORK_EVENT_RECORD) {
            node->mark = mark;
            mark = mark->next;
        } else if (node->op.work.kind == GY_EMU_WORK_EVENT_WAIT) {
            node->mark = program->is_body ? gy_emu_event_marker(node->op.work.event)
                                          : launch_op->work.graph.waits[waits++];
        }
    }
    program->left = program->count;
    program->launch = launch_op;
}

static void finish_run(struct gy_emu_op *launch_op, struct gy_emu_exec *exec)
{
    exec->running = NULL;
    if (exec->waiting.head != NULL) {
        gy_emu_op_start_later(gy_emu_list_pop(&exec->waiting));
    }
    gy_emu_op_complete(launch_op); /* may free program and exec */
}

static void start_roots(struct gy_emu_program *program)
{
    for (uint32_t i = 0; i < program->count; i++) {
        if (program->nodes[i].pending == 0) {
            gy_emu_op_start_later(&program->nodes[i].op);
        }
    }
}

void gy_emu_program_start(struct gy_emu_op *launch_op)
{
    struct gy_emu_program *program = launch_op->work.graph.program;
    struct gy_emu_exec *exec = program->exec;
    if (exec->running != NULL) {
        launch_op->state = GY_EMU_OP_BLOCKED;
        gy_emu_list_append(&exec->waiting, launch_op);
        return;
    }
    exec->running = launch_op;
    launch_op->state = GY_EMU_OP_RUNNING;
    arm(program, launch_op);
    if (program->own_left == 0) {
        gy_emu_program_tell_own(launch_op);
    }
    start_roots(program);
    if (program->count == 0) {
        finish_run(launch_op, exec);
    }
}

/* ---- loops ----------------------------------------------------------------------------------- */

static struct gy_emu_program *body_of(struct gy_emu_op *op)
{
    return ((struct gy_emu_program_node *)(void *)op)->body;
}

/* One more turn of the loop, or its end. */
static void turn(struct gy_emu_op *op)
{
    struct gy_emu_program *body = body_of(op);
    if (!gy_emu_condition_holds(op->work.condition) || op->work.context->root->discarding ||
        body->count == 0) {
        gy_emu_op_complete(op);
        return;
    }
    arm(body, op);
    start_roots(body);
}

void gy_emu_program_start_loop(struct gy_emu_op *op)
{
    op->state = GY_EMU_OP_RUNNING;
    gy_emu_condition_begin(op->work.condition);
    turn(op);
}

void gy_emu_program_for_each_in_loop(struct gy_emu_op *op, void (*visit)(struct gy_emu_op *op))
{
    gy_emu_program_for_each(body_of(op), visit);
}

/* ---- ends ------------------------------------------------------------------------------------ */

void gy_emu_program_node_done(struct gy_emu_op *op)
{
    struct gy_emu_program_node *node = (struct gy_emu_program_node *)(void *)op;
    struct gy_emu_program *program = op->program;
    for (uint32_t i = 0; i < node->dependent_count; i++) {
        struct gy_emu_program_node *dependent = &program->nodes[node->dependents[i]];
        if (--dependent->pending == 0) {
            gy_emu_op_start_later(&dependent->op);
        }
    }
    if (!node->is_left_out && --program->own_left == 0 && !program->is_body) {
        gy_emu_program_tell_own(program->launch);
    }
    if (--program->left == 0 && program->is_body) {
        turn(program->launch);
    } else if (program->left == 0) {
        finish_run(program->launch, program->exec);
    }
}

struct gy_emu_marker *gy_emu_program_mark(struct gy_emu_op *op)
{
    return ((struct gy_emu_program_node *)(void *)op)->mark;
}

void gy_emu_program_for_each(struct gy_emu_program *program, void (*visit)(struct gy_emu_op *op))
{
    for (uint32_t i = 0; i < program->count; i++) {
        visit(&program->nodes[i].op);
    }
}
