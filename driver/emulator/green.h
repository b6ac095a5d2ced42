/* Green contexts: sets of SMs. */
#ifndef DRIVER_EMULATOR_GREEN_H
#define DRIVER_EMULATOR_GREEN_H

#include "driver/emulator/context.h"

struct gy_emu_green {
    struct gy_emu_object object;             /* of the primary context */
    struct gy_emu_context *context;          /* what cuCtxFromGreenCtx() gives */
    CUdevWorkqueueConfigResource workqueues; /* limit 0: no wish */
};

/* As part of closing the primary context, when no stream is left. */
void gy_emu_green_close(struct gy_emu_green *green);

#endif
