/* The work of profile_kernels_bench.cu in kernels that can be told to read their SM's clock, on any device. */
#define GANTRY_CTA_SM_CLOCK 1
#include "bench/profile_work.h"

#include <gantry/profile_kernel.h>

#define KERNELS(shift)                                                                                                 \
    GANTRY_KERNEL(own_clock_work_##shift, (uint32_t steps, const uint32_t *data, uint32_t *counters, uint32_t *sink,   \
                                           void *profile, uint32_t id))                                                \
    {                                                                                                                  \
        GANTRY_KERNEL_START(profile, id);                                                                              \
        (void)data;                                                                                                    \
        finish(arithmetic(steps, shifted<shift>()), counters, sink);                                                   \
        GANTRY_KERNEL_STOP(profile, id);                                                                               \
    }

KERNELS(0)
KERNELS(1)
KERNELS(2)
KERNELS(3)
KERNELS(4)
KERNELS(5)
KERNELS(6)
KERNELS(7)
