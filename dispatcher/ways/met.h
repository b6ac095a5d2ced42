/* Launch functions that were met on a CUDA context: a call of each has returned there that left enqueueing to
 * the library.
 *
 * The first call of a function may do what later ones do not: make handles of libraries, allocate.  So the
 * auto mode makes it on the plain stream, where all of that is permitted, and what follows may be noted.
 * All contexts of this library that use one CUDA context (the primary one of a device, most often) know what
 * one of them has met there, and others do not: what a call makes is of a CUDA context.
 *
 * Any thread; nothing is ever taken out.  Where there is no room for a function it is met again. */
#ifndef DISPATCHER_WAYS_MET_H
#define DISPATCHER_WAYS_MET_H

#include "driver/cuda_abi.h"

#include <gantry/dispatcher.h>

#define GY_MET_MOST 1024u

void gy_met_add(gantry_launch_fn function, CUcontext context);
bool gy_met_has(gantry_launch_fn function, CUcontext context);

#endif
