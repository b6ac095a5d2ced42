/* SPDX-License-Identifier: MIT */
/* What programs for CUDA's driver are linked with, as the toolkit's stub of that library: it has the names
 * alone, and every call fails. */
#include "driver/funcs.h"
#include "emulator/others.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define STUB(symbol, prototype)         \
    CUresult symbol prototype;          \
    CUresult symbol prototype           \
    {                                   \
        return CUDA_ERROR_STUB_LIBRARY; \
    }
#define F(need, member, symbol, prototype) STUB(symbol, prototype)
GY_DRIVER_FUNCS(F)
#undef F
#define F(member, symbol, prototype) STUB(symbol, prototype)
GY_EMU_OTHERS(F)
#undef F
