/* Names of instrumented kernels by their numbers, for the life of the process. */
#ifndef PROFILE_KERNEL_NAMES_H
#define PROFILE_KERNEL_NAMES_H

#include <stdbool.h>
#include <stdint.h>

/* Any thread.  Never NULL: an unknown number has a name too. */
const char *gy_kernel_name(uint32_t kernel);
/* Any thread.  Has any kernel been registered? */
bool gy_kernel_names_exist(void);

#endif
