/* SPDX-License-Identifier: MIT */
/* The driver's messages about calls that fail, on the thread that makes them.  They come from
 * cuLogsRegisterCallback(), since CUDA 12.9; older drivers have none.  A failing call ends with the line
 * "Returning 900 (CUDA_ERROR_…) from cuSomething"; the lines before it say why.
 *
 * The driver may call us with locks of its own held, so the callback takes no lock of ours, calls neither
 * CUDA nor the log, and only writes into a buffer of its thread. */
#ifndef DRIVER_TOLD_H
#define DRIVER_TOLD_H

#include "driver/driver.h"

/* Listen to a driver that was just loaded: driver->log says whether that works. */
void gy_told_open(struct gy_driver *driver);
void gy_told_close(const struct gy_driver *driver);

/* The number of calls of this thread, since it began, that have failed with a result that says that something
 * is being captured (900 to 908).  With a driver that reports nothing, the number does not change. */
uint32_t gy_told_refusals(void);
/* The place of this number of the calling thread, valid as long as the thread lives.  Where a call of the
 * library's own was refused, that puts the number back. */
uint32_t *gy_told_refusals_at(void);

#define GY_TOLD_BYTES 320

/* Take the lines that belong to this thread's latest failed call, if that was `result`: "a; b", else "".
 * Each line is given once. */
void gy_told_take(CUresult result, char text[GY_TOLD_BYTES]);

#endif
