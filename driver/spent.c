/* SPDX-License-Identifier: MIT */
#include "driver/spent.h"

#include <string.h>

/* False: the list is full. */
static bool keep(struct gy_context *context, struct gy_spent what)
{
    gy_mutex_lock(&context->cause_lock);
    const uint32_t count = atomic_load_explicit(&context->spent_count, memory_order_relaxed);
    const bool has_room = count < GY_CONTEXT_SPENT;
    if (has_room) {
        context->spent[count] = what;
        atomic_store_explicit(&context->spent_count, count + 1, memory_order_relaxed);
    }
    gy_mutex_unlock(&context->cause_lock);
    return has_room;
}

static void destroy(struct gy_context *context, struct gy_spent what)
{
    const gantry_status status = what.exec != NULL ? GY_CALL(context, cuGraphExecDestroy(what.exec))
                                                   : GY_CALL(context, cuGraphDestroy(what.graph));
    if (status != GANTRY_OK && !gy_context_is_lost(context)) {
        (void)keep(context, what);
    }
}

void gy_graph_destroy(struct gy_context *context, CUgraph graph)
{
    if (graph != NULL) {
        destroy(context, (struct gy_spent){.graph = graph});
    }
}

void gy_graph_exec_destroy(struct gy_context *context, CUgraphExec exec)
{
    destroy(context, (struct gy_spent){.exec = exec});
}

void gy_graph_spend(struct gy_context *context, CUgraph graph)
{
    const struct gy_spent what = {.graph = graph};
    if (!keep(context, what)) {
        gy_spent_sweep_any(context);
        (void)keep(context, what);
    }
}

void gy_spent_sweep_any(struct gy_context *context)
{
    if (!gy_context_is_lost(context)) {
        gy_spent_end(context);
    }
}

void gy_spent_end(struct gy_context *context)
{
    struct gy_spent list[GY_CONTEXT_SPENT];
    gy_mutex_lock(&context->cause_lock);
    const uint32_t count = atomic_load_explicit(&context->spent_count, memory_order_relaxed);
    memcpy(list, context->spent, count * sizeof(list[0]));
    atomic_store_explicit(&context->spent_count, 0, memory_order_relaxed);
    gy_mutex_unlock(&context->cause_lock);
    for (uint32_t i = 0; i < count; i++) {
        destroy(context, list[i]);
    }
}
