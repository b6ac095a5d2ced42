/* SPDX-License-Identifier: MIT */
/* The calls about the driver's log. */
#include "emulator/logs.h"

CUresult cuLogsRegisterCallback(CUlogsCallback callback, void *user, CUlogsCallbackHandle *handle)
{
    return GY_EMU_CALL(cuLogsRegisterCallback, gy_emu_logs_register(callback, user, handle));
}

CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle handle)
{
    return GY_EMU_CALL(cuLogsUnregisterCallback, gy_emu_logs_unregister(handle));
}
