/* SPDX-License-Identifier: MIT */
/* The functions of NVML that are used, with the utilisation that a test sets. */
#include "bench/quota_tokens.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define NOT_FOUND 6
#define EXPORT __attribute__((visibility("default")))

struct quota_device_st {
    int unused;
};

static struct quota_device_st device;
static _Atomic(int) process = -1, whole = -1, started = 0;

/* Percent; below 0: NVML does not report it. */
EXPORT void fake_nvml_use(int of_process, int of_device);
void fake_nvml_use(int of_process, int of_device)
{
    atomic_store(&process, of_process);
    atomic_store(&whole, of_device);
}

/* How often it was started and not shut down. */
EXPORT int fake_nvml_started(void);
int fake_nvml_started(void)
{
    return atomic_load(&started);
}

EXPORT int nvmlInit_v2(void);
int nvmlInit_v2(void)
{
    atomic_fetch_add(&started, 1);
    return 0;
}

EXPORT int nvmlShutdown(void);
int nvmlShutdown(void)
{
    atomic_fetch_sub(&started, 1);
    return 0;
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, quota_device *out);
int nvmlDeviceGetHandleByUUID(const char *uuid, quota_device *out)
{
    *out = &device;
    return strncmp(uuid, "GPU-", 4) == 0 && strlen(uuid) == 40 ? 0 : NOT_FOUND;
}

static _Atomic(unsigned) cores = 132 * 128;

/* 0: NVML does not say. */
EXPORT void fake_nvml_have_cores(unsigned count);
void fake_nvml_have_cores(unsigned count)
{
    atomic_store(&cores, count);
}

EXPORT int nvmlDeviceGetNumGpuCores(quota_device which, unsigned *out);
int nvmlDeviceGetNumGpuCores(quota_device which, unsigned *out)
{
    *out = atomic_load(&cores);
    return which == &device && *out != 0 ? 0 : NOT_FOUND;
}

EXPORT int nvmlDeviceGetProcessUtilization(quota_device which, struct quota_sample *out, unsigned *count,
                                           unsigned long long since_us);
int nvmlDeviceGetProcessUtilization(quota_device which, struct quota_sample *out, unsigned *count,
                                    unsigned long long since_us)
{
    int use = atomic_load(&process);
    if (which != &device || *count < 2 || use < 0) {
        *count = 0;
        return NOT_FOUND;
    }
    out[0] = (struct quota_sample){.pid = (unsigned)getpid() + 1, .time_us = since_us + 1, .sm = 100};
    out[1] = (struct quota_sample){.pid = (unsigned)getpid(), .time_us = since_us + 2, .sm = (unsigned)use};
    *count = 2;
    return 0;
}

EXPORT int nvmlDeviceGetUtilizationRates(quota_device which, struct quota_rates *out);
int nvmlDeviceGetUtilizationRates(quota_device which, struct quota_rates *out)
{
    int use = atomic_load(&whole);
    if (which != &device || use < 0) {
        return NOT_FOUND;
    }
    *out = (struct quota_rates){(unsigned)use, 0};
    return 0;
}
