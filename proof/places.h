/* SPDX-License-Identifier: MIT */
/* Places in the program's code from which memory is touched. */
#ifndef PROOF_PLACES_H
#define PROOF_PLACES_H

#include <stddef.h>
#include <stdint.h>

enum { GY_PLACES = 2048 }; /* numbers, which have 11 bits */

/* The number of a place; 0: NULL, or there are no more. */
uint32_t gy_place_number(const void *place);
const void *gy_place_at(uint32_t number);

/* " at FILE:LINE", or "" where that is not known: it takes debug information, and binutils' addr2line, which
 * is run.  No lock is held. */
const char *gy_place_describe(const void *place);

#endif
