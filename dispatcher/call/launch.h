/* SPDX-License-Identifier: MIT */
/* What those functions have in common that a launch callback may call. */
#ifndef DISPATCHER_CALL_LAUNCH_H
#define DISPATCHER_CALL_LAUNCH_H

#include "dispatcher/internal.h"
#include "dispatcher/loop/current.h"
#include "driver/extra.h"

struct gy_cta_request;

GY_COLD gantry_status gy_launch_refuse_scope(const gantry_launch *launch, const char *what);

/* For a call that gives memory back: it is what an abort for want of memory waits for. */
GANTRY_MUST_CHECK gantry_status gy_launch_check_giving(const gantry_launch *launch, const char *what);

/* Launch-scope calls belong to the callback's own thread, and do nothing on a lost context. */
GANTRY_MUST_CHECK static inline gantry_status gy_launch_check_scope(const gantry_launch *launch,
                                                                    const char *what)
{
    bool is_usual = launch != NULL && gy_gd_current == launch->dispatcher &&
                    !gy_context_is_stopped(launch->dispatcher->config.context);
    return __builtin_expect(is_usual, 1) ? GANTRY_OK : gy_launch_refuse_scope(launch, what);
}

/* Is there a kernel, and no zero in its size? */
static inline bool gy_launch_size_is_good(const gantry_kernel *kernel, const struct gy_launch_size *size)
{
    const gantry_dim3 grid = size->grid, block = size->block;
    return kernel != NULL && grid.x != 0 && grid.y != 0 && grid.z != 0 && block.x != 0 && block.y != 0 &&
           block.z != 0 && size->shared_bytes <= UINT32_MAX;
}

/* Report the error; `what` is the name of the function. */
GY_COLD gantry_status gy_launch_refuse_size(const char *what, const gantry_kernel *kernel,
                                            const struct gy_launch_size *size);

/* The kernel was launched, or noted: count it, and note it for the checks; `extra` NULL: nothing. */
void gy_launch_took_kernel(gantry_launch *launch, const gantry_kernel *kernel,
                           const struct gy_launch_size *size, const struct gy_launch_extra *extra,
                           void *const *args);

/* The lane of a call whose kernels will be nodes of a graph; NULL: it may launch them itself. */
static inline struct gy_lane *gy_launch_slot_lane(const gantry_launch *launch)
{
    return launch->mode == GY_MODE_BATCH ? launch->lane : NULL;
}

/* The part of a request for block records that the callback's task decides; the kernel and the number of
 * blocks come later. */
struct gy_cta_request gy_launch_cta_request(const gantry_launch *launch);

#endif
