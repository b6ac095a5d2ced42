/* The engine's portable switch passes the same tests; built with GY_EMU_UCONTEXT. */
#include "tests/kernels/test_exec.c"
