/* SPDX-License-Identifier: MIT */
#include "partition/nvml.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* POSIX lets dlsym()'s void * be a function's address; ISO C requires a copy. */
static bool bind(void *library, const char *symbol, void *out, size_t bytes)
{
    void *address = dlsym(library, symbol);
    memcpy(out, &address, bytes);
    return address != NULL;
}

enum { UUID_TEXT = 48 };

/* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" */
static void uuid_text(const uint8_t b[16], char out[UUID_TEXT])
{
    snprintf(out, UUID_TEXT, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
             b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

/* NVML counts cores, of which a multiprocessor has a number that the compute capability tells. */
static unsigned cores_per_sm(int major, int minor)
{
    const bool has_64 = major == 7 || ((major == 6 || major == 8) && minor == 0);
    return major < 5 || major > 12 ? 0 : has_64 ? 64 : 128;
}

typedef struct nvml_device_st *nvml_device;

/* Functions of NVML; each returns 0 or an error number. */
struct counter {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_uuid)(const char *uuid, nvml_device *out);
    int (*cores)(nvml_device device, unsigned *out);
};

static bool bind_counter(struct counter *c)
{
    return bind(c->library, "nvmlInit_v2", &c->init, sizeof(c->init)) &&
           bind(c->library, "nvmlShutdown", &c->shutdown, sizeof(c->shutdown)) &&
           bind(c->library, "nvmlDeviceGetHandleByUUID", &c->by_uuid, sizeof(c->by_uuid)) &&
           bind(c->library, "nvmlDeviceGetNumGpuCores", &c->cores, sizeof(c->cores));
}

uint32_t gy_nvml_count_sms(const uint8_t uuid[16], int compute_major, int compute_minor)
{
    struct counter c = {.library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)};
    const unsigned per_sm = cores_per_sm(compute_major, compute_minor);
    unsigned cores = 0;
    if (c.library == NULL) {
        return 0;
    }
    if (bind_counter(&c) && c.init() == 0) {
        char text[UUID_TEXT];
        nvml_device device;
        uuid_text(uuid, text);
        if (c.by_uuid(text, &device) != 0 || c.cores(device, &cores) != 0) {
            cores = 0;
        }
        (void)c.shutdown();
    }
    dlclose(c.library);
    return per_sm != 0 ? cores / per_sm : 0;
}
