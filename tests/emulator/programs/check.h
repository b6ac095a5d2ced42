/* SPDX-License-Identifier: MIT */
/* A call that fails ends the program with its name and reason. */
#ifndef TESTS_EMULATOR_PROGRAMS_CHECK_H
#define TESTS_EMULATOR_PROGRAMS_CHECK_H

#include "tests/emulator/programs/cuda.h"

#include <stdio.h>
#include <stdlib.h>

#define CHECK(call) check((call), #call)

static inline void check(CUresult result, const char *call)
{
    const char *name = "?";
    if (result != CUDA_SUCCESS) {
        (void)cuGetErrorName(result, &name);
        fprintf(stderr, "%s: %s (%d)\n", call, name, (int)result);
        exit(1);
    }
}

#endif
