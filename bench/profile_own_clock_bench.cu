/* SPDX-License-Identifier: MIT */
/* The work of profile_kernels_bench.cu in kernels that can be told to read their SM's clock, on any device. */
#define GANTRY_CTA_SM_CLOCK 1
#include "bench/profile_work.h"

#define KERNEL(shift) BENCH_RECORDED(own_clock_work_##shift, arithmetic(steps, shifted<shift>()))

BENCH_EIGHT(KERNEL)
