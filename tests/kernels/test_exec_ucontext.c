/* SPDX-License-Identifier: MIT */
/* The engine's portable way to switch stacks passes the same tests; this is built with GY_EMU_UCONTEXT. */
#include "tests/kernels/test_exec.c"
