/* SPDX-License-Identifier: MIT */
#include "base/retired.h"

#include "base/environment.h"
#include "base/status.h"

#include <stdatomic.h>

static const struct {
    const char *name;
    const char *instead;
} retired[] = {
    {"GANTRY_EMU_NOOP", "a test calls gantry_emu_set_noop()"},
    {"GANTRY_HANDLE_CHECK", "say GANTRY_CHECK=handles"},
    {"GANTRY_HEAP_CHECK", "say GANTRY_CHECK=frees"},
    {"GANTRY_NVML", "NVML is libnvidia-ml.so.1, where the system looks for libraries"},
    {"GANTRY_NVTX_ALWAYS",
     "spans are told to a tool that is injected ($NVTX_INJECTION64_PATH), recorded or not"},
    {"GANTRY_QUOTA_CONTROLLER", "shares of GPU time keep CUDA_DEVICE_SM_LIMIT"},
};

void gy_retired_tell(void)
{
    static atomic_bool was_called;
    if (atomic_exchange(&was_called, true)) {
        return;
    }
    for (size_t i = 0; i < sizeof(retired) / sizeof(retired[0]); i++) {
        if (gy_environment(retired[i].name) != NULL) {
            gy_note("$%s is not read any more: %s", retired[i].name, retired[i].instead);
        }
    }
}
