/* SPDX-License-Identifier: MIT */
/* The struct behind gantry_context. */
#ifndef CONTEXT_CONTEXT_H
#define CONTEXT_CONTEXT_H

#include "copykernel/copier.h"
#include "dispatcher/dispatcher.h"
#include "heap/heap.h"
#include "partition/partitions.h"
#include "profile/gpu_time.h"

#include <gantry/context.h>

/* Calls to a room above, made by who hangs something on a context; NULL: nothing hangs there. */
struct gy_context_above {
    /* Another plan of partitions is to come: refuse what cannot live with it. */
    gantry_status (*check_replan)(const gantry_context *context, const char *call);
    /* The context ends, its threads still run. */
    void (*abandon)(const gantry_context *context);
    /* The context ends, the GPU is done or lost; the context is current if the driver permits that. */
    void (*give_back)(gantry_context *context);
};

struct gantry_context {
    struct gy_context *cuda;          /* immutable */
    struct gy_partitions *partitions; /* written under lock, and while no call looks at them: see replan.h */
    gantry_heap *heap;                /* immutable */
    struct gy_copier *copier;         /* immutable */
    struct gy_gpu_time *time;         /* immutable */
    gantry_dispatcher *dispatcher;    /* immutable */
    bool is_of_fleet;                 /* immutable until the fleet goes; it destroys the context */
    gy_mutex lock;                    /* rank CONTEXT */
    struct gantry_module *modules; /* guarded by lock: the modules that were loaded through the public API */
    struct gy_context_above above; /* guarded by lock */
    struct gantry_shared_memory *shared_memory; /* guarded by lock: imports that were not given back yet */
};

static inline struct gy_context_above gy_context_above(gantry_context *context)
{
    gy_mutex_lock(&context->lock);
    struct gy_context_above above = context->above;
    gy_mutex_unlock(&context->lock);
    return above;
}

#endif
