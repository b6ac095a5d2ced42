/* SPDX-License-Identifier: MIT */
/* The names of instrumented kernels by their numbers, for the life of the process. */
#ifndef PROFILE_KERNEL_NAMES_H
#define PROFILE_KERNEL_NAMES_H

#include <gantry/base.h>

#include <stdbool.h>
#include <stdint.h>

/* The library's own number, "batched copies". */
#define GY_KERNEL_COPIES 0u

/* Any thread.  The name is never NULL: an unknown number has one, too. */
const char *gy_kernel_name(uint32_t kernel);
/* Any thread.  Is it the number of a kernel that an application has registered? */
bool gy_kernel_is_registered(uint32_t kernel);
/* Any thread.  Has any kernel been registered? */
bool gy_kernel_names_exist(void);

/* What the files of a kernel were compiled with. */
enum gy_kernel_macros {
    GY_KERNEL_UNKNOWN, /* nothing is known, or files differ: it may have the macros of an earlier version */
    GY_KERNEL_SILENT,  /* without the macros of profile_kernel.h: its blocks leave no records */
    GY_KERNEL_SLOTS    /* with macros that know slots: see work/slot_args.h */
};

/* Any thread.  What holds for all kernels of this name in loaded modules. */
enum gy_kernel_macros gy_kernel_macros_of(uint32_t kernel);
/* Any thread.  A module with these kernels (NULL-terminated, valid until it is removed) is loaded, or no
 * longer loaded.  To be called as often as it is loaded into contexts. */
GANTRY_MUST_CHECK gantry_status gy_kernel_names_add_module(const char *const *names,
                                                           enum gy_kernel_macros macros);
void gy_kernel_names_remove_module(const char *const *names);

/* Log that a launch's records take more places than a buffer has, or that a block has no room for so many
 * ranges. */
void gy_kernel_tell_too_large(uint32_t kernel, uint64_t ctas, uint32_t ranges, uint64_t records,
                              uint32_t places);

#endif
