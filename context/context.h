/* The struct behind gantry_context. */
#ifndef CONTEXT_CONTEXT_H
#define CONTEXT_CONTEXT_H

#include "copykernel/copier.h"
#include "dispatcher/dispatcher.h"
#include "heap/heap.h"
#include "partition/partitions.h"
#include "profile/gpu_time.h"

#include <gantry/context.h>

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
    struct gantry_shared_memory *shared_memory; /* guarded by lock: imports that were not given back yet */
};

#endif
