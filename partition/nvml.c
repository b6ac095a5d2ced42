#include "partition/nvml.h"

#include "base/environment.h"

#include <dlfcn.h>
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
        const char *why = dlerror();
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED, "quota_controller \"nvml\": %s",
                       why != NULL ? why : "the library cannot be loaded");
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
