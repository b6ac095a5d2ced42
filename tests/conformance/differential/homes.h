/* SPDX-License-Identifier: MIT */
/* Contexts A and B: what is in them, and which one is B in a sequence. */
#ifndef TESTS_CONFORMANCE_DIFFERENTIAL_HOMES_H
#define TESTS_CONFORMANCE_DIFFERENTIAL_HOMES_H

#include "tests/conformance/differential/world.h"

#define MUST(call) df_must(cu->call, #call)

/* What stays in a context. */
struct df_home {
    CUcontext context; /* NULL: none of this process's sequences has needed it */
    CUdeviceptr arena;
    CUstream own; /* for looking at memory, which no operation uses */
    CUmodule module;
    CUfunction add, look, cluster;
};

/* A call that is no part of a sequence must succeed; else the process ends. */
void df_must(CUresult result, const char *what);
/* Once per process: context A, and the memory of the host. */
void df_homes_open(void);
/* Which context is B, which is made by the first sequence that has it.  Without one, A's objects take its
 * place. */
void df_homes_choose(uint32_t sequence);
/* A sequence is over: no access between the devices stays. */
void df_homes_leave(void);
/* The stream for looking at memory of a device. */
CUstream df_own_stream(bool of_second);

#endif
