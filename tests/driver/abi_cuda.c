/* SPDX-License-Identifier: MIT */
/* The toolkit's side of the proof: cuda.h in place of driver/cuda_abi.h. */
#define __CUDA_API_VERSION_INTERNAL \
    1 /* without renaming, every exported symbol is declared under its own name \ */
#include <cuda.h>

#define DRIVER_CUDA_ABI_H /* driver/funcs.h shall use cuda.h's types */
#include "driver/cuda_results.h"
#include "driver/funcs.h"

#include "tests/driver/abi_facts_table.h"

const struct abi_fact abi_cuda[] = {
#include "tests/driver/abi_facts.h"
};
const size_t abi_cuda_count = sizeof(abi_cuda) / sizeof(abi_cuda[0]);
const int abi_cuda_version = CUDA_VERSION;

#define F(need, member, symbol, prototype)                                                   \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), CUresult(*) prototype), \
                   "driver/funcs.h: the prototype of " #symbol " is not the toolkit's");
GY_DRIVER_FUNCS(F)
#undef F
