/* The part of NVML, the driver's management library, that we use; declared here in our own words.  NVML is
 * opened at run time: $GANTRY_NVML, else libnvidia-ml.so.1. */
#ifndef PARTITION_NVML_H
#define PARTITION_NVML_H

#include "base/status.h"

#include <stdint.h>

enum { GY_NVML_SUCCESS = 0, GY_NVML_NOT_FOUND = 6, GY_NVML_INSUFFICIENT_SIZE = 7 };

typedef struct gy_nvml_device_st *gy_nvml_device;

/* One sample of one process: the percentage of the sample's time in which it used the unit. */
struct gy_nvml_sample {
    unsigned pid;
    unsigned long long time_us;
    unsigned sm, memory, encoder, decoder;
};

/* Such samples of the whole device. */
struct gy_nvml_rates {
    unsigned gpu, memory;
};

/* X(member, symbol, parameters); each returns 0 or an error number. */
#define GY_NVML_FUNCS(X)                                                                                  \
    X(init, nvmlInit_v2, (void))                                                                          \
    X(shutdown, nvmlShutdown, (void))                                                                     \
    X(by_uuid, nvmlDeviceGetHandleByUUID, (const char *uuid, gy_nvml_device *out))                        \
    X(samples, nvmlDeviceGetProcessUtilization,                                                           \
      (gy_nvml_device device, struct gy_nvml_sample * out, unsigned *count, unsigned long long since_us)) \
    X(rates, nvmlDeviceGetUtilizationRates, (gy_nvml_device device, struct gy_nvml_rates * out))

struct gy_nvml {
    void *library;
#define X(member, symbol, parameters) int(*member) parameters;
    GY_NVML_FUNCS(X)
#undef X
};

/* @retval GANTRY_ERR_UNSUPPORTED  there is no such library, it lacks a function (which is named), or it does
 * not start */
GANTRY_MUST_CHECK gantry_status gy_nvml_open(struct gy_nvml *out);
void gy_nvml_close(struct gy_nvml *nvml);

enum { GY_UUID_TEXT = 48 };
/* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" */
void gy_uuid_text(const uint8_t uuid[16], char out[GY_UUID_TEXT]);

/* Count the multiprocessors of the whole GPU, of which a client of MPS may see a part; 0: NVML is not there,
 * or does not say.  It is opened and closed again. */
uint32_t gy_nvml_count_sms(const uint8_t uuid[16], int compute_major, int compute_minor);

#endif
