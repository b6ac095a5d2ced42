/* SPDX-License-Identifier: MIT */
/* The functions of a CUDA driver that Gantry does not call. */
#include "emulator/others.h"

#include "emulator/emu.h"

#include <string.h>

/* What cuGetProcAddress_v2() says of a name. */
enum { FOUND = 0, NOT_FOUND = 1, NOT_SUFFICIENT = 2 };

typedef void (*any_function)(void);

/* Programs name a function as the documentation does, without its ABI version.  Of two with one name the
 * later one is taken, as a driver does for programs of a new toolkit. */
static const struct {
    const char *member, *symbol;
    any_function function;
} functions[] = {
#define F(need, member, symbol, prototype) {#member, #symbol, (any_function)symbol},
    GY_DRIVER_FUNCS(F)
#undef F
#define F(member, symbol, prototype) {#member, #symbol, (any_function)symbol},
        GY_EMU_OTHERS(F)
#undef F
};

CUresult cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags,
                             int *found)
{
    (void)flags; /* of streams: the default one is the legacy one */
    if (name == NULL || function == NULL || version <= 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    int why = NOT_FOUND;
    *function = NULL;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        if (strcmp(name, functions[i].member) != 0 && strcmp(name, functions[i].symbol) != 0) {
            continue;
        }
        why = gy_emu_lacks(functions[i].symbol) ? NOT_SUFFICIENT : FOUND;
        if (why == FOUND) {
            memcpy(function, &functions[i].function, sizeof(*function));
        }
    }
    if (found != NULL) {
        *found = why;
    }
    return *function != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char *name, void **function, int version, unsigned long long flags)
{
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

/* On the legacy stream, and the host does not wait: as a device does with device memory. */
CUresult cuMemsetD8_v2(CUdeviceptr address, unsigned char value, size_t count)
{
    return cuMemsetD8Async(address, value, count, NULL);
}

CUresult cuMemsetD32_v2(CUdeviceptr address, unsigned int value, size_t count)
{
    return cuMemsetD32Async(address, value, count, NULL);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return cuMemcpyDtoDAsync_v2(to, from, bytes, NULL);
}
