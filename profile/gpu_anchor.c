/* SPDX-License-Identifier: MIT */
#include "profile/gpu_anchor.h"

#include "base/clock.h"
#include "base/thread.h"

#include <sched.h>

#define ANCHOR_PATIENCE_NS 2000000u /* the time for all tries */
#define ANCHOR_YIELD_NS 20000u

bool gy_gpu_create_event(struct gy_context *context, CUevent *event)
{
    return *event != NULL || GY_CALL(context, cuEventCreate(event, CU_EVENT_DEFAULT)) == GANTRY_OK;
}

void gy_gpu_destroy_event(struct gy_context *context, CUevent event)
{
    if (event != NULL) {
        (void)GY_CALL(context, cuEventDestroy(event));
    }
}

/* Record the trial event and see it complete.  Sets the width of the bracket and its middle. */
static bool try_anchor(struct gy_gpu_anchor *anchor, struct gy_context *context, CUstream stream,
                       uint64_t deadline, uint64_t *width, uint64_t *middle)
{
    uint64_t before = gy_clock_ns(), after;
    if (GY_CALL(context, cuEventRecord(anchor->trial, stream)) != GANTRY_OK) {
        return false;
    }
    CUresult result;
    for (;;) {
        result = context->driver->cuEventQuery(anchor->trial);
        after = gy_clock_ns();
        if (result != CUDA_ERROR_NOT_READY || after >= deadline) {
            break;
        }
        if (after - before > ANCHOR_YIELD_NS) {
            sched_yield();
        } else {
            gy_cpu_relax();
        }
    }
    if (result == CUDA_ERROR_NOT_READY ||
        gy_context_check(context, result, "cuEventQuery(anchor)", __FILE__, __LINE__) != GANTRY_OK) {
        return false;
    }
    *width = after - before;
    *middle = before + *width / 2;
    return true;
}

bool gy_gpu_anchor_take(struct gy_gpu_anchor *anchor, struct gy_context *context, CUstream stream,
                        uint64_t generation, unsigned tries)
{
    uint64_t deadline = gy_clock_ns() + ANCHOR_PATIENCE_NS;
    uint64_t best = UINT64_MAX, width, middle;
    for (unsigned i = 0; i < tries && try_anchor(anchor, context, stream, deadline, &width, &middle); i++) {
        if (width >= best) {
            continue;
        }
        best = width;
        CUevent event = anchor->event;
        anchor->event = anchor->trial;
        anchor->trial = event;
        anchor->host_ns = middle;
        anchor->bound_ns = width / 2 + 1;
        anchor->rough = false;
        anchor->generation = generation;
    }
    return best != UINT64_MAX;
}

bool gy_gpu_elapsed(struct gy_context *context, CUevent from, CUevent to, int64_t *ns)
{
    float milliseconds;
    if (GY_CALL(context, cuEventElapsedTime(&milliseconds, from, to)) != GANTRY_OK) {
        return false;
    }
    double exact = (double)milliseconds * 1e6;
    *ns = (int64_t)(exact < 0 ? exact - 0.5 : exact + 0.5);
    return true;
}
