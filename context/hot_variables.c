/* SPDX-License-Identifier: MIT */
/* A thread's variables that hot paths read, all of them: libgantry-thread.so.
 *
 * Code finds them at a fixed distance from the thread's own address, which takes one instruction; but glibc
 * gives libraries that are opened at run time less than 2000 bytes of such a place, and the variables of a
 * library go there together or not at all.  So these few are a library of their own, and those of
 * libgantry.so, some 6 KiB with jemalloc's, are found by a call. */
#include "base/outside.h"
#include "copykernel/queue.h"
#include "dispatcher/loop/current.h"
#include "driver/context.h"
#include "taskman/callbacks.h"
#include "taskman/cpu/worker.h"

_Thread_local unsigned char gy_place;
_Thread_local const char *gy_context_subject;
_Thread_local struct gy_callbacks gy_callbacks;
_Thread_local struct gy_worker *gy_worker_current;
_Thread_local struct gantry_dispatcher *gy_gd_current;
_Thread_local struct gy_gpu_guest *gy_guest_current;
_Thread_local bool gy_is_completion_thread;
_Thread_local struct gy_copy_call gy_copy_call;
