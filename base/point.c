/* SPDX-License-Identifier: MIT */
#include "base/point.h"

#include <stdatomic.h>
#include <stddef.h>

static gy_point_fn *_Atomic hooked; /* atomic */

void gy_point_hook(gy_point_fn *hook)
{
    atomic_store(&hooked, hook);
}

void gy_point(enum gy_point point, const void *at)
{
    gy_point_fn *hook = atomic_load_explicit(&hooked, memory_order_acquire);
    if (hook != NULL) {
        hook(point, at);
    }
}
