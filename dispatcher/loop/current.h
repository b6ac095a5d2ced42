/* SPDX-License-Identifier: MIT */
/* Which of a dispatcher's threads the calling one is.  GD is the dispatcher's thread. */
#ifndef DISPATCHER_LOOP_CURRENT_H
#define DISPATCHER_LOOP_CURRENT_H

#include "base/hints.h"

#include <stdbool.h>

struct gantry_dispatcher;

/* The dispatcher whose GD this thread is; NULL on every other thread.  Read several times per task, hence in
 * the static TLS block. */
extern _Thread_local struct gantry_dispatcher *gy_gd_current GY_TLS_HOT;

struct gy_gpu_guest;

/* The guest (guest.h) that is in a turn of the loop on this thread; NULL: none is. */
extern _Thread_local struct gy_gpu_guest *gy_guest_current GY_TLS_HOT;

/* True on a completion thread. */
extern _Thread_local bool gy_is_completion_thread GY_TLS_HOT;

#endif
