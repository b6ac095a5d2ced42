/* Checks for things that a program has forgotten (base/checking.h). */
#ifndef TASKMAN_CHECKS_H
#define TASKMAN_CHECKS_H

#include "taskman/graph/state.h"

/* A CPU task is about to run: warn, once for each function and label, when it follows GPU tasks and nothing
 * has waited for any of their work. */
void gy_task_check_completions(const gantry_task *task);

#endif
