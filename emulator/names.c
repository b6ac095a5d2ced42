/* SPDX-License-Identifier: MIT */
/* The names of the driver's functions and results. */
#include "emulator/emu.h"

#include <string.h>

static const struct {
    const char *member, *symbol;
} names[GY_EMU_FN_COUNT] = {
#define F(need, member, symbol, prototype) {#member, #symbol},
    GY_DRIVER_FUNCS(F)
#undef F
};

const char *gy_emu_fn_member(enum gy_emu_fn fn)
{
    return names[fn].member;
}

const char *gy_emu_fn_symbol(enum gy_emu_fn fn)
{
    return names[fn].symbol;
}

enum gy_emu_fn gy_emu_fn_find(const char *name)
{
    for (enum gy_emu_fn fn = (enum gy_emu_fn)0; fn < GY_EMU_FN_COUNT; fn++) {
        if (strcmp(name, names[fn].member) == 0 || strcmp(name, names[fn].symbol) == 0) {
            return fn;
        }
    }
    return GY_EMU_FN_COUNT;
}

static const struct {
    CUresult result;
    const char *name, *text;
} results[] = {
#define X(name, value, text) {CUDA_##name, "CUDA_" #name, text},
    GY_CUDA_RESULTS(X)
#undef X
};

CUresult gy_emu_result_describe(CUresult result, const char **name, const char **text)
{
    if (name == NULL && text == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        if (results[i].result == result) {
            if (name != NULL) {
                *name = results[i].name;
            }
            if (text != NULL) {
                *text = results[i].text;
            }
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

const char *gy_emu_result_name(CUresult result)
{
    const char *name = "CUDA_ERROR_?";
    (void)gy_emu_result_describe(result, &name, NULL);
    return name;
}
