/* The functions of NVML that are used, with the utilisation that a test sets. */
#include "partition/nvml.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

struct gy_nvml_device_st {
    int unused;
};

static struct gy_nvml_device_st device;
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
    return GY_NVML_SUCCESS;
}

EXPORT int nvmlShutdown(void);
int nvmlShutdown(void)
{
    atomic_fetch_sub(&started, 1);
    return GY_NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, gy_nvml_device *out);
int nvmlDeviceGetHandleByUUID(const char *uuid, gy_nvml_device *out)
{
    *out = &device;
    return strncmp(uuid, "GPU-", 4) == 0 && strlen(uuid) == 40 ? GY_NVML_SUCCESS : GY_NVML_NOT_FOUND;
}

static _Atomic(unsigned) cores = 132 * 128;

/* 0: NVML does not say. */
EXPORT void fake_nvml_have_cores(unsigned count);
void fake_nvml_have_cores(unsigned count)
{
    atomic_store(&cores, count);
}

EXPORT int nvmlDeviceGetNumGpuCores(gy_nvml_device which, unsigned *out);
int nvmlDeviceGetNumGpuCores(gy_nvml_device which, unsigned *out)
{
    *out = atomic_load(&cores);
    return which == &device && *out != 0 ? GY_NVML_SUCCESS : GY_NVML_NOT_FOUND;
}

EXPORT int nvmlDeviceGetProcessUtilization(gy_nvml_device which, struct gy_nvml_sample *out, unsigned *count,
                                           unsigned long long since_us);
int nvmlDeviceGetProcessUtilization(gy_nvml_device which, struct gy_nvml_sample *out, unsigned *count,
                                    unsigned long long since_us)
{
    int use = atomic_load(&process);
    if (which != &device || *count < 2 || use < 0) {
        *count = 0;
        return GY_NVML_NOT_FOUND;
    }
    out[0] = (struct gy_nvml_sample){.pid = (unsigned)getpid() + 1, .time_us = since_us + 1, .sm = 100};
    out[1] = (struct gy_nvml_sample){.pid = (unsigned)getpid(), .time_us = since_us + 2, .sm = (unsigned)use};
    *count = 2;
    return GY_NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetUtilizationRates(gy_nvml_device which, struct gy_nvml_rates *out);
int nvmlDeviceGetUtilizationRates(gy_nvml_device which, struct gy_nvml_rates *out)
{
    int use = atomic_load(&whole);
    if (which != &device || use < 0) {
        return GY_NVML_NOT_FOUND;
    }
    *out = (struct gy_nvml_rates){(unsigned)use, 0};
    return GY_NVML_SUCCESS;
}
