/* What the gates of a fleet's devices keep of one task manager: its bound on GPU time, and the memory that
 * its tasks declare.  Each device has its own, and only that is asked there. */
#ifndef FLEET_FLEET_GATES_H
#define FLEET_FLEET_GATES_H

#include "taskman/gpu_ops.h"

/* The table's functions, see taskman/gpu_ops.h.  `self` is a struct gy_fleet. */
GANTRY_MUST_CHECK gantry_status gy_fleet_share_open(gantry_dispatcher *self, const gantry_share *share,
                                                    struct gy_gpu_share **out);
void gy_fleet_share_close(struct gy_gpu_share *share);
void gy_fleet_share_usage(struct gy_gpu_share *share, gantry_share_usage *out);

struct gy_gpu_memory *gy_fleet_memory_open(gantry_dispatcher *self, gantry_taskman *manager,
                                           const uint64_t *bytes);
void gy_fleet_memory_close(gantry_dispatcher *self, struct gy_gpu_memory *memory);
void gy_fleet_memory_begin(gantry_dispatcher *self, struct gy_gpu_memory *memory, const gantry_task *task);
void gy_fleet_memory_end(gantry_dispatcher *self, struct gy_gpu_memory *memory, const gantry_task *task);
void gy_fleet_memory_quiet(gantry_dispatcher *self);

#endif
