/* SPDX-License-Identifier: MIT */
/**
 * @file record.h
 * Where the records lie that the blocks of a launch leave behind, and the mark of one that another block did.
 * Included by <gantry/profile_kernel.h> and <gantry/kernel/steal.h>; applications do not use it directly.
 */
#ifndef GANTRY_KERNEL_RECORD_H
#define GANTRY_KERNEL_RECORD_H

#include <stdint.h>

#define GANTRY_CTA_SLOT \
    4u /* bit of `profile`: it is the address of a slot, besides this bit and those below */

#define GANTRY_CTA_TAKEN 0xffffffffu /* duration_ns of a block that another one did in its place */

#define GANTRY_RANGES_SHIFT 57 /* bits of `profile` from here on: the room of a block for ranges … */

#ifdef __cplusplus

/** Whether the blocks of this launch leave records. */
static __device__ inline bool gantry_cta_records(const void *records)
{
    return (uint32_t)(uintptr_t)records != 0;
}

/** Where the records of the launch lie: without what `records` says besides. */
static __device__ inline void *gantry_cta_address(const void *records)
{
    return (void *)((uintptr_t)records & (((uintptr_t)1 << GANTRY_RANGES_SHIFT) - 4));
}

#endif
#endif
