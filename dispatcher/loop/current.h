/* Which of a dispatcher's threads the calling one is.  GD is the dispatcher's thread. */
#ifndef DISPATCHER_LOOP_CURRENT_H
#define DISPATCHER_LOOP_CURRENT_H

#include <stdbool.h>

struct gantry_dispatcher;

/* The dispatcher whose GD this thread is; NULL on every other thread.  Read several times per task, hence in
 * the static TLS block. */
extern _Thread_local struct gantry_dispatcher *gy_gd_current __attribute__((tls_model("initial-exec")));

struct gy_gpu_guest;

/* The guest (guest.h) that is in a turn of the loop on this thread; NULL: none is. */
extern _Thread_local struct gy_gpu_guest *gy_guest_current;

/* True on a completion thread. */
extern _Thread_local bool gy_is_completion_thread;

#endif
