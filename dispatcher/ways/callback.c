#include "dispatcher/ways/callback.h"

#include "base/handle.h"
#include "base/span.h"

/* While something is recorded, or handles are checked. */
static GY_COLD gantry_launch_result call_watched(struct gantry_launch *launch, uint64_t span)
{
    gantry_task *task = launch->task;
    const struct gy_span_ranges *ranges = gy_span_push(span, gy_task_label(task));
    bool is_checked = gy_handles_are_checked(); /* decided when the dispatcher was created */
    if (span != 0) {
        launch->flow = gy_task_flow(task);
    }
    if (is_checked) {
        gy_handle_born(GY_HANDLE_LAUNCH, launch, sizeof(*launch), sizeof(*launch));
    }
    gantry_launch_result result = gy_task_launch_fn(task)(launch, gy_task_launch_arg(task));
    if (is_checked) {
        gy_handle_died(launch);
    }
    gy_span_pop(ranges);
    if (span != 0) {
        gy_span_add_flow(launch->flow);
        gy_span_end(GY_SPAN_LAUNCH, gy_task_label(task), span, gantry_task_context_id(task));
    }
    return result;
}

gantry_launch_result gy_callback_call(struct gantry_launch *launch, const struct gy_error *last,
                                      uint64_t span)
{
    if (last->status != GANTRY_OK) {
        gy_error_clear();
    }
    if (__builtin_expect(span != 0, 0) || gy_handles_are_checked()) {
        return call_watched(launch, span);
    }
    return gy_task_launch_fn(launch->task)(launch, gy_task_launch_arg(launch->task));
}

gantry_launch_result gy_callback_call_beside(struct gantry_launch *launch)
{
    gy_context_subject = gy_task_label(launch->task);
    gantry_launch_result result = gy_callback_call(launch, gy_error_last(), 0);
    gy_context_subject = NULL;
    return result;
}
