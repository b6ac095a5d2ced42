/* What the driver tells about calls that fail, on the thread that makes them: cuLogsRegisterCallback(), since
 * CUDA 12.9; older drivers tell nothing.  A failing call ends with the line "Returning 900 (CUDA_ERROR_…)
 * from cuSomething"; lines before that say why.
 *
 * The driver may call us with locks of its own held, so the callback takes no lock of ours, calls neither
 * CUDA nor the log, and only writes into a buffer of its thread. */
#ifndef DRIVER_TOLD_H
#define DRIVER_TOLD_H

#include "driver/driver.h"

/* Listen to a driver that was just loaded: driver->log says whether that works. */
void gy_told_open(struct gy_driver *driver);
void gy_told_close(const struct gy_driver *driver);

/* How many calls of this thread have failed, since it began, with a result that says that something is being
 * captured (900 to 908).  Stays as it is with a driver that tells nothing. */
uint32_t gy_told_refusals(void);
/* Where that number of the calling thread is, as long as it lives. */
const uint32_t *gy_told_refusals_at(void);

#define GY_TOLD_BYTES 320

/* The lines that belong to this thread's latest failed call, if that was `result`: "a; b", else "".  They are
 * told once. */
void gy_told_take(CUresult result, char text[GY_TOLD_BYTES]);

#endif
