/* SPDX-License-Identifier: MIT */
/* Launch functions that were met on a CUDA context: a call of each has returned there that left enqueueing to
 * the library.
 *
 * The first call of a function may do what later ones do not: make handles of libraries, allocate.  So the
 * auto mode makes it on the plain stream, where all of that is permitted, and what follows may be noted.
 * All contexts of this library that use one CUDA context (the primary one of a device, most often) know what
 * one of them has met there, and others do not: what a call makes is of a CUDA context.
 *
 * Any thread; nothing is ever taken out.  Where there is no room for a function it is met again. */
#ifndef DISPATCHER_CALL_MET_H
#define DISPATCHER_CALL_MET_H

#include "driver/context.h"

#include <gantry/dispatcher.h>

#include <stdbool.h>
#include <stdint.h>

#define GY_MET_MOST 1024u

/* What `context` of the functions below is: no other CUDA context of the process has or had it.  Where the
 * driver does not tell, no other context of this library has. */
uint64_t gy_met_context(const struct gy_context *context);
void gy_met_add(gantry_launch_fn function, uint64_t context);
bool gy_met_has(gantry_launch_fn function, uint64_t context);

#endif
