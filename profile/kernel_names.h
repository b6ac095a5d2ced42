/* Names of instrumented kernels by their numbers, for the life of the process. */
#ifndef PROFILE_KERNEL_NAMES_H
#define PROFILE_KERNEL_NAMES_H

#include <gantry/base.h>

#include <stdbool.h>
#include <stdint.h>

/* The library's own number, "batched copies". */
#define GY_KERNEL_COPIES 0u

/* Any thread.  Never NULL: an unknown number has a name too. */
const char *gy_kernel_name(uint32_t kernel);
/* Any thread.  Has any kernel been registered? */
bool gy_kernel_names_exist(void);

/* Any thread.  Is its name that of kernels in loaded modules whose file was compiled without the macros of
 * profile_kernel.h, and of no others?  Their blocks leave no records. */
bool gy_kernel_is_silent(uint32_t kernel);
/* Any thread.  A module with these kernels is loaded (NULL-terminated, valid until it is removed), or no
 * longer loaded.  As often as it is loaded into contexts. */
GANTRY_MUST_CHECK gantry_status gy_kernel_names_add_module(const char *const *names, bool is_silent);
void gy_kernel_names_remove_module(const char *const *names);

#endif
