/* SPDX-License-Identifier: MIT */
/* The end of a task that the dispatcher's thread does not launch. */
#ifndef DISPATCHER_LOOP_RELEASE_H
#define DISPATCHER_LOOP_RELEASE_H

#include "base/hints.h"

#include <gantry/dispatcher.h>

/* Release a task that will not be launched (any more). */
GY_COLD void gy_gd_release_failed(struct gantry_dispatcher *d, gantry_task *task, gantry_status why);

#endif
