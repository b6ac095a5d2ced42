/* SPDX-License-Identifier: MIT */
/* The run of a launch of an executable graph, and the ends of all operations. */
#include "emulator/program.h"

#include "emulator/condition.h"
#include "emulator/context.h"
#include "emulator/event.h"

#include <assert.h>

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

void gy_emu_op_complete(struct gy_emu_op *op)
{
    if (op->program != NULL) {
        gy_emu_program_node_done(op);
        return;
    }
    struct gy_emu_stream *stream = op->stream;
    assert(stream->head == op);
    stream->head = op->behind;
    gy_emu_work_release(&op->work);
    gy_emu_op_give(op);
    if (stream->head != NULL) {
        gy_emu_op_start_later(stream->head);
        return;
    }
    stream->tail = NULL;
    if (stream->zombie) {
        gy_emu_stream_free(stream);
    }
}
