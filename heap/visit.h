/* SPDX-License-Identifier: MIT */
/* Driver calls about memory and events from any thread.  A visit makes the context current and relaxes the
 * thread's capture mode, so that the calls may be made while some thread captures a graph. */
#ifndef HEAP_VISIT_H
#define HEAP_VISIT_H

#include "driver/context.h"

/* What gy_visit_begin() has changed on this thread. */
struct gy_visit {
    bool pushed;
    struct gy_relaxed relaxed;
};

/* gy_visit_end() follows in any case.  If the capture mode cannot be changed, a call may be refused, and
 * nothing worse happens. */
gantry_status gy_visit_begin(struct gy_context *context, struct gy_visit *visit);
void gy_visit_end(struct gy_context *context, struct gy_visit *visit);

/* The driver does not take what it was given, and neither is memory short nor the context lost.  Which code
 * it answers with differs by what it was given. */
static inline bool gy_visit_is_refusal(const struct gy_context *context, CUresult result)
{
    return result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY &&
           !gy_driver_result_is_sticky(result) && !gy_context_is_lost(context);
}

#endif
