/* SPDX-License-Identifier: MIT */
/* Green contexts: sets of SMs. */
#ifndef EMULATOR_GREEN_H
#define EMULATOR_GREEN_H

#include "emulator/resource.h"

struct gy_emu_green {
    struct gy_emu_object object;     /* belongs to the primary context */
    struct gy_emu_context *context;  /* the result of cuCtxFromGreenCtx() */
    struct gy_emu_queues workqueues; /* limit 0: no wish, so those that all share */
};

/* It cannot be found any more, nor can its context. */
void gy_emu_green_close_handles(struct gy_emu_green *green);
/* To be called while the primary context is closed, when no stream is left. */
void gy_emu_green_close(struct gy_emu_green *green);

#endif
