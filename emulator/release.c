/* SPDX-License-Identifier: MIT */
/* Letting go of work, graphs, programs and conditions: each refers to others of them, so the last reference
 * to one may end them all. */
#include "emulator/program.h"

#include "base/alloc.h"
#include "emulator/condition.h"
#include "emulator/context.h"
#include "emulator/semaphore.h"

static struct gy_emu_node *free_nodes;

void gy_emu_program_drop_waits(const struct gy_emu_program *program, struct gy_emu_marker **waits)
{
    for (uint32_t i = 0; waits != NULL && i < program->wait_count; i++) {
        gy_emu_marker_unref(waits[i]);
    }
    gy_free(waits);
}

void gy_emu_work_release(struct gy_emu_work *work)
{
    switch (work->kind) {
    case GY_EMU_WORK_KERNEL:
        gy_emu_args_unref(work->kernel.args);
        break;
    case GY_EMU_WORK_COPY:
        gy_free(work->copy.staged);
        break;
    case GY_EMU_WORK_MARK:
    case GY_EMU_WORK_WAIT:
        gy_emu_marker_unref(work->marker);
        break;
    case GY_EMU_WORK_SIGNAL_SEMAPHORE:
    case GY_EMU_WORK_WAIT_SEMAPHORE:
        gy_emu_timeline_unref(work->semaphore.timeline);
        break;
    case GY_EMU_WORK_LOOP:
        gy_emu_condition_unref(work->condition);
        break;
    case GY_EMU_WORK_GRAPH:
        gy_emu_program_drop_waits(work->graph.program, work->graph.waits);
        gy_emu_program_unref(work->graph.program);
        while (work->graph.marks != NULL) {
            struct gy_emu_marker *mark = work->graph.marks;
            work->graph.marks = mark->next;
            gy_emu_marker_unref(mark);
        }
        while (work->graph.own != NULL) {
            struct gy_emu_marker *mark = work->graph.own;
            work->graph.own = mark->also;
            gy_emu_marker_unref(mark);
        }
        break;
    default:
        break;
    }
    work->kind = GY_EMU_WORK_EMPTY;
}

void gy_emu_exec_unref(struct gy_emu_exec *exec)
{
    if (--exec->refs == 0) {
        gy_free(exec);
    }
}

void gy_emu_program_unref(struct gy_emu_program *program)
{
    if (--program->refs > 0) {
        return;
    }
    for (uint32_t i = 0; i < program->count; i++) {
        gy_emu_work_release(&program->nodes[i].op.work);
        if (program->nodes[i].body != NULL) {
            gy_emu_program_unref(program->nodes[i].body);
        }
    }
    gy_emu_exec_unref(program->exec);
    gy_free(program->edges);
    gy_free(program);
}

void gy_emu_condition_unref(struct gy_emu_condition *condition)
{
    if (--condition->refs > 0) {
        return;
    }
    if (condition->body != NULL) {
        gy_emu_graph_close(condition->body);
    }
    gy_emu_handle_close(&condition->object);
    gy_free(condition);
}

void gy_emu_conditions_drop(struct gy_emu_graph *graph)
{
    while (graph->conditions != NULL) {
        struct gy_emu_condition *condition = graph->conditions;
        graph->conditions = condition->next;
        gy_emu_condition_unref(condition);
    }
}

static void close_node(struct gy_emu_node *node)
{
    gy_emu_handle_close(&node->object);
    gy_emu_work_release(&node->work);
    gy_free(node->outer);
    node->outer = NULL;
    node->outer_count = 0;
    node->next = free_nodes;
    free_nodes = node;
}

void gy_emu_graph_close(struct gy_emu_graph *graph)
{
    for (uint32_t i = 0; i < graph->count; i++) {
        close_node(graph->nodes[i]);
    }
    gy_emu_conditions_drop(graph);
    gy_emu_handle_close(&graph->object);
    gy_free(graph->nodes);
    gy_free(graph);
}

struct gy_emu_node *gy_emu_node_take(void)
{
    struct gy_emu_node *node = free_nodes;
    if (node != NULL) {
        free_nodes = node->next;
        return node;
    }
    node = gy_zalloc(sizeof(*node));
    if (node != NULL) {
        node->dependencies = node->inline_dependencies;
        node->dependency_room = GY_EMU_INLINE_DEPENDENCIES;
    }
    return node;
}

void gy_emu_node_put(struct gy_emu_node *node)
{
    node->next = free_nodes;
    free_nodes = node;
}

void gy_emu_graphs_forget(struct gy_emu_context *root)
{
    uint32_t cursor = 0;
    struct gy_emu_object *object;
    while ((object = gy_emu_handle_next(GY_EMU_NODE, &cursor)) != NULL) {
        struct gy_emu_node *node = (struct gy_emu_node *)(void *)object;
        if (node->work.context != NULL && node->work.context->root == root) {
            node->work.context = NULL;
        }
    }
    cursor = 0;
    while ((object = gy_emu_handle_next(GY_EMU_GRAPH_EXEC, &cursor)) != NULL) {
        struct gy_emu_program *program = ((struct gy_emu_exec *)(void *)object)->program;
        for (uint32_t i = 0; i < program->count; i++) {
            if (!program->is_dead && program->nodes[i].op.work.context->root == root) {
                program->is_dead = true;
            }
        }
    }
}
