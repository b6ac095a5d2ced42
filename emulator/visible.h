/* SPDX-License-Identifier: MIT */
/* Which devices of the emulated machine the application sees, and in which order: $CUDA_VISIBLE_DEVICES. */
#ifndef EMULATOR_VISIBLE_H
#define EMULATOR_VISIBLE_H

#include "driver/cuda_abi.h"

#include <stdint.h>

/* The UUID of a device, by its number in the machine. */
void gy_emu_uuid(int number, CUuuid *uuid);

/* Read the variable for a machine with so many devices: the number of each visible one goes to numbers[], in
 * the application's order, and how many there are is returned.  It may be 0. */
uint32_t gy_emu_visible_read(uint32_t devices, int *numbers);

#endif
