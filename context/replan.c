/* SPDX-License-Identifier: MIT */
/* Another plan of partitions for a context that lives on. */
#include "context/context.h"

#include "base/handle.h"
#include "dispatcher/internal.h"
#include "taskman/cpu/pool.h"

static gantry_status make_and_put(gantry_context *c, const gantry_partition_options *options)
{
    struct gy_partitions *before = c->partitions, *next;
    gantry_status status = gy_parents_check_childless(before);
    if (status == GANTRY_OK) {
        status = gy_partitions_make(c->cuda, c, options, before, &next);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_replan_change(c->dispatcher, next);
    if (status != GANTRY_OK) {
        gy_partitions_drop(next);
        return status;
    }
    gy_mutex_lock(&c->lock);
    c->partitions = next;
    gy_mutex_unlock(&c->lock);
    gy_partitions_destroy(before); /* no stream of the library is left in them */
    return GANTRY_OK;
}

static gantry_status change(gantry_context *c, const gantry_partition_options *options, const char *call)
{
    const struct gy_context_above above = gy_context_above(c);
    gantry_status status = above.check_replan != NULL ? above.check_replan(c, call) : GANTRY_OK;
    if (status == GANTRY_OK) {
        status = gy_context_enter(c->cuda);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    status = make_and_put(c, options);
    (void)gy_context_pop(c->cuda);
    return status;
}

gantry_status gantry_context_set_partitions(gantry_context *context, const gantry_partition_options *options)
{
    static const char call[] = "gantry_context_set_partitions";
    GY_NEED(CONTEXT, context);
    gantry_status status = gy_pool_check_outside(call);
    if (status == GANTRY_OK && context->dispatcher->base.forks != gy_thread_forks()) {
        status = GY_FAIL(GANTRY_ERR_STATE,
                         "%s: called in a forked child, which has not the threads of the context", call);
    }
    if (status == GANTRY_OK) {
        status = gy_replan_begin(context->dispatcher, call);
    }
    if (status != GANTRY_OK) {
        return status;
    }
    status = change(context, options, call);
    gy_replan_end(context->dispatcher);
    return status;
}
