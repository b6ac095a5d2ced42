/* Calls of the driver about memory and events from any thread: the context is current and the thread's
 * capture mode relaxed meanwhile, so that they may be made while some thread captures a graph. */
#ifndef HEAP_VISIT_H
#define HEAP_VISIT_H

#include "driver/context.h"

/* What gy_visit_begin() has changed on this thread. */
struct gy_visit {
    bool pushed;
    bool relaxed;
    CUstreamCaptureMode mode; /* when relaxed: the mode before */
};

/* gy_visit_end() follows in any case.  A capture mode that stays as it is costs at most a refused call. */
gantry_status gy_visit_begin(struct gy_context *context, struct gy_visit *visit);
void gy_visit_end(struct gy_context *context, struct gy_visit *visit);

#endif
