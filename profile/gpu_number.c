/* SPDX-License-Identifier: MIT */
/* The number under which a recording has a context's GPU work. */
#include "driver/context.h"
#include "profile/ring.h"
#include "profile/session.h"

#include <stdio.h>

uint32_t gy_profile_gpu_of_context(uint64_t generation, const struct gy_context *context)
{
    char name[GY_RING_TRACK_BYTES + 32], plan[24] = "";
    const void *owner = context;
    if (context->plans > 1) {
        owner = (const void *)(uintptr_t)context->plan_id; /* no address of an object */
        snprintf(plan, sizeof(plan), ", plan %u", context->plans);
    }
    snprintf(name, sizeof(name), "GPU %d: %.40s%s", context->info.ordinal, context->info.name, plan);
    return gy_profile_gpu_of(generation, owner, name);
}
