/* SPDX-License-Identifier: MIT */
/**
 * @file links.h
 * What lies between two devices of the machine: whether one reaches the other's memory, and how fast.
 * `gantry info --links` prints it for all pairs.
 *
 * Threading: any thread.
 */
#ifndef GANTRY_LINKS_H
#define GANTRY_LINKS_H

#include <gantry/context.h>

GANTRY_BEGIN_DECLS

/** A link, in one direction. */
typedef struct gantry_link {
    size_t struct_size; /* in: sizeof of the caller */
    int from;           /* ordinal of the device that reaches: its kernels and copy engines do the work */
    int to;             /* ordinal of the device whose memory is reached */
    uint32_t access;    /* 1: kernels of `from` can use memory of `to`; 0: copies go through the host */
    uint32_t atomics;   /* 1: atomic operations work across the link, too */
    int32_t rank;       /* the driver's performance rank, 0 is the best; -1: no access */
    uint32_t measured;  /* 1: the two fields below were measured; else they are 0 */
    double gb_per_s;    /* 10^9 bytes per second of one large copy from `from` to `to` */
    double copy_us;     /* microseconds of one copy of 4 KiB among many, on the device */
} gantry_link;

/** What the driver says about the link between two devices.  Opens no context.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  NULL, a struct_size too small, an unknown driver choice, or `from`
 *                                       is `to`
 *  @retval GANTRY_ERR_NO_DEVICE         there is no such ordinal
 *  @retval GANTRY_ERR_UNSUPPORTED       the driver lacks the functions
 *  @retval GANTRY_ERR_NO_DRIVER, GANTRY_ERR_DRIVER */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_link_get(gantry_driver_choice driver, int from, int to,
                                                           gantry_link *out);

/** As gantry_link_get(), and measure it with copies of `bytes`, of which both devices need as much memory for
 *  a while.  Opens the primary contexts of both devices and waits for the copies: for start-up, while the
 *  devices are idle.
 *  @retval GANTRY_OK
 *  @retval GANTRY_ERR_INVALID_ARGUMENT  as gantry_link_get(), or less than 64 KiB
 *  @retval GANTRY_ERR_NO_DEVICE         as gantry_link_get()
 *  @retval GANTRY_ERR_UNSUPPORTED       as gantry_link_get()
 *  @retval GANTRY_ERR_NO_DRIVER         as gantry_link_get()
 *  @retval GANTRY_ERR_DRIVER            as gantry_link_get()
 *  @retval GANTRY_ERR_OUT_OF_DEVICE_MEMORY  there is no room for the copies
 *  @retval GANTRY_ERR_OUT_OF_HOST_MEMORY    memory of the host is out
 *  @retval GANTRY_ERR_DEVICE_LOST           a context was lost by an earlier fault */
GANTRY_API GANTRY_MUST_CHECK gantry_status gantry_link_measure(gantry_driver_choice driver, int from, int to,
                                                               uint64_t bytes, gantry_link *out);

GANTRY_END_DECLS

#endif
