/* SPDX-License-Identifier: MIT */
/* What a fleet's devices keep of one task manager: the order of its steps, its bound on GPU time, and the
 * memory that its tasks declare.  Each device has its own, and only that is asked there. */
#ifndef FLEET_FLEET_GATES_H
#define FLEET_FLEET_GATES_H

#include "taskman/gpu_ops.h"

struct gy_fleet;

/* The seat of a manager, which has one on each device.
 * @retval as of `attach` in taskman/gpu_ops.h: it has a seat on none */
GANTRY_MUST_CHECK gantry_status gy_fleet_seat_take(struct gy_fleet *fleet, struct gy_gpu_seat *seat);
void gy_fleet_seat_leave(struct gy_fleet *fleet, const struct gy_gpu_seat *seat);

/* The table's functions, see taskman/gpu_ops.h.  `self` is a struct gy_fleet. */
void gy_fleet_share_usage(struct gy_gpu_share *share, gantry_share_usage *out);

struct gy_gpu_memory *gy_fleet_memory_open(gantry_dispatcher *self, gantry_taskman *manager,
                                           const uint64_t *bytes);
void gy_fleet_memory_close(gantry_dispatcher *self, struct gy_gpu_memory *memory);
void gy_fleet_memory_count(gantry_dispatcher *self, struct gy_gpu_memory *memory, const gantry_task *task,
                           bool is_released);

#endif
