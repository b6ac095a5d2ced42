/* SPDX-License-Identifier: MIT */
/* A thread that waits for a manager and does GPU work for it meanwhile: see dispatcher/loop/guest.h. */
#ifndef TASKMAN_GPU_GUEST_H
#define TASKMAN_GPU_GUEST_H

#include "taskman/cpu/wait.h"
#include "taskman/manager.h"

/* The calling thread is about to wait for the manager.  May it be a guest of its GPU dispatcher?  It has to
 * have a stack for callbacks: 256 KiB. */
void gy_gpu_guest_init(struct gy_gpu_guest *guest, gantry_taskman *manager);

/* The guest's step has begun: see struct gy_gpu_guest_ops. */
void gy_gpu_guest_enter(struct gy_gpu_guest *guest);

/* See struct gy_wait.  Only if it may help. */
bool gy_gpu_guest_help(struct gy_gpu_guest *guest);
void gy_gpu_guest_stop_helping(struct gy_gpu_guest *guest);

#endif
