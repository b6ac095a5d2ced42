/* SPDX-License-Identifier: MIT */
/* Kernels with parameters of several sizes. */
#include "tests/dispatcher/argument_kernels.h"

#include <gantry/kernel.h>

GANTRY_KERNEL(mixed, (uint32_t * out, uint64_t large, uint16_t small, struct argument_pair pair))
{
    if (threadIdx.x == 0) {
        out[0] = (uint32_t)large + small + pair.first + pair.second;
    }
}

GANTRY_KERNEL(bare, ())
{
}
