#include "partition/nvml.h"

#include "base/environment.h"
#include "base/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libnvidia-ml.so.1"

/* POSIX lets dlsym()'s void * be a function's address; ISO C requires a copy. */
static bool bind(void *library, const char *symbol, void *out, size_t bytes)
{
    void *address = dlsym(library, symbol);
    memcpy(out, &address, bytes);
    return address != NULL;
}

gantry_status gy_nvml_open(struct gy_nvml *out)
{
    const char *asked = gy_environment("GANTRY_NVML"), *missing = NULL;
    const char *name = asked != NULL ? asked : LIBRARY;
    struct gy_nvml nvml = {.library = dlopen(name, RTLD_NOW | RTLD_LOCAL)};
    if (nvml.library == NULL) {
        char why[384];
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED, "quota_controller \"nvml\": %s",
                       gy_library_error(why, sizeof(why)));
    }
#define X(member, symbol, parameters)                                      \
    if (!bind(nvml.library, #symbol, &nvml.member, sizeof(nvml.member))) { \
        missing = missing == NULL ? #symbol : missing;                     \
    }
    GY_NVML_FUNCS(X)
#undef X
    int result = missing == NULL ? nvml.init() : 0;
    if (missing == NULL && result == GY_NVML_SUCCESS) {
        *out = nvml;
        return GANTRY_OK;
    }
    gantry_status status =
        missing != NULL
            ? GY_FAIL(GANTRY_ERR_UNSUPPORTED, "quota_controller \"nvml\": %s lacks %s", name, missing)
            : GY_FAIL(GANTRY_ERR_UNSUPPORTED, "quota_controller \"nvml\": nvmlInit_v2 of %s says %d", name,
                      result);
    dlclose(nvml.library);
    return status;
}

void gy_nvml_close(struct gy_nvml *nvml)
{
    (void)nvml->shutdown();
    dlclose(nvml->library);
}

void gy_uuid_text(const uint8_t b[16], char out[GY_UUID_TEXT])
{
    snprintf(out, GY_UUID_TEXT, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
             b[15]);
}

/* NVML counts cores, of which a multiprocessor has a number that the compute capability tells. */
static unsigned cores_per_sm(int major, int minor)
{
    const bool has_64 = major == 7 || ((major == 6 || major == 8) && minor == 0);
    return major < 5 || major > 12 ? 0 : has_64 ? 64 : 128;
}

struct counter {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_uuid)(const char *uuid, gy_nvml_device *out);
    int (*cores)(gy_nvml_device device, unsigned *out);
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
    const char *asked = gy_environment("GANTRY_NVML");
    struct counter c = {.library = dlopen(asked != NULL ? asked : LIBRARY, RTLD_NOW | RTLD_LOCAL)};
    const unsigned per_sm = cores_per_sm(compute_major, compute_minor);
    unsigned cores = 0;
    if (c.library == NULL) {
        return 0;
    }
    if (bind_counter(&c) && c.init() == GY_NVML_SUCCESS) {
        char text[GY_UUID_TEXT];
        gy_nvml_device device;
        gy_uuid_text(uuid, text);
        if (c.by_uuid(text, &device) != GY_NVML_SUCCESS || c.cores(device, &cores) != GY_NVML_SUCCESS) {
            cores = 0;
        }
        (void)c.shutdown();
    }
    dlclose(c.library);
    return per_sm != 0 ? cores / per_sm : 0;
}
