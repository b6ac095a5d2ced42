/* SPDX-License-Identifier: MIT */
#include "dispatcher/order/placed.h"

#include "taskman/manager.h"

gantry_status gy_placed_enter_step(const struct gy_streams *streams, const struct gy_placed *work,
                                   enum gy_step_bound_of bound, uint32_t stream)
{
    const bool is_all = gy_taskman_has_no_more(gy_task_manager(work->task), work->tasks);
    return gy_step_order_enter(gy_placed_order_of(streams, work->task), gy_task_run(work->task), bound,
                               stream, is_all);
}

gantry_status gy_placed_join(struct gy_streams *streams, uint64_t wait_set, uint32_t partition,
                             uint32_t dependents, uint32_t hosts, uint32_t *stream, uint64_t *out_point)
{
    const struct gy_placed nobody = {.partition = partition};
    *out_point = GY_WAIT_SET_NONE;
    gantry_status status = gy_placed_assign(streams, &nobody, wait_set, GY_BOUND_NONE, stream);
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_placed_order(streams, &nobody, wait_set, GY_BOUND_NONE, *stream);
    const gantry_status closed =
        gy_placed_close(streams, &nobody, *stream, &streams->streams[*stream], dependents, hosts, out_point);
    return status != GANTRY_OK ? status : closed;
}
