/* One launch callback on the task's stream, and the end of a GPU task. */
#ifndef DISPATCHER_STEP_H
#define DISPATCHER_STEP_H

#include "dispatcher/round.h"

struct gy_turn;

/* Call the launch callback of `task`, which is in no bin now, once. True when the task has ended and was
 * released. */
bool gy_gd_step(struct gantry_dispatcher *d, struct gy_round *round, gantry_task *task);

/* gy_gd_step() in two parts, for callbacks that several threads call at the same time (ways/launchers.h):
 * fill an empty turn; end it when it has been called. */
void gy_gd_open_turn(struct gantry_dispatcher *d, struct gy_round *round, struct gy_turn *turn,
                     gantry_task *task);
bool gy_gd_close_turn(struct gantry_dispatcher *d, struct gy_round *round, struct gy_turn *turn);

#endif
