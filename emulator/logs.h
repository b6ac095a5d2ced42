/* SPDX-License-Identifier: MIT */
/* The driver's log: the messages of failing calls on their own thread, since CUDA 12.9.
 *
 * Lines that explain a failure are noted while the call runs, and a call that tells the failure of a kernel
 * says what that was; when it ends with an error (NOT_READY is none) they go to the registered callbacks and
 * to $CUDA_LOG_FILE, and behind them "Returning 900 (CUDA_ERROR_…) from cuSomething".  Why a kernel failed is
 * told on stderr, once, where there is neither. */
#ifndef EMULATOR_LOGS_H
#define EMULATOR_LOGS_H

#include "emulator/emu.h"

/* In a call that is about to fail: note a line that says why. */
void gy_emu_explain(const char *format, ...) GANTRY_PRINTF(1, 2);

/* A call begins, under the lock. */
void gy_emu_logs_begin(enum gy_emu_fn fn);
/* The call ends: shall somebody get its lines?  The lock is held. */
bool gy_emu_logs_want(CUresult result);
/* Give the lines to the callbacks and the file.  The lock is not held. */
void gy_emu_logs_tell(CUresult result);

CUresult gy_emu_logs_register(CUlogsCallback callback, void *user, CUlogsCallbackHandle *handle);
/* When this returns, the callback is not called any more.  The lock is given up meanwhile. */
CUresult gy_emu_logs_unregister(CUlogsCallbackHandle handle);

#endif
