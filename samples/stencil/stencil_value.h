/* SPDX-License-Identifier: MIT */
/* What the grid of the stencil begins with: the kernels and the reference on the CPU agree on it bit by bit.
 */
#ifndef STENCIL_VALUE_H
#define STENCIL_VALUE_H

#include <stdint.h>

#ifndef STENCIL_FUNCTION
#define STENCIL_FUNCTION static inline
#endif

/* A whole number of 24 bits, which a float holds exactly, times a power of two. */
STENCIL_FUNCTION float stencil_value(uint32_t row, uint32_t column)
{
    uint32_t x = row * 0x9e3779b1u + column * 0x85ebca77u;
    x ^= x >> 15;
    x *= 0x2c1b3c6du;
    x ^= x >> 12;
    return (float)(x >> 8) * (1.0f / 16777216.0f);
}

#endif
