/* SPDX-License-Identifier: MIT */
/* The matrix: symmetric and positive definite, each element a function of its place.  The kernels and the
 * check on the CPU agree on it bit by bit. */
#ifndef CHOLESKY_MATRIX_H
#define CHOLESKY_MATRIX_H

#include <stdint.h>

#ifndef MATRIX_FUNCTION
#define MATRIX_FUNCTION static inline
#endif

/* Elements beside the diagonal are even in [-0.5, 0.5), so eigenvalues lie within about 0.58 sqrt(n) of the
 * diagonal's value, which is more than 2 sqrt(n): the matrix is well conditioned, and no part of the factor
 * is so small that an error in it would not be seen. */
MATRIX_FUNCTION float matrix_element(uint32_t row, uint32_t column, float diagonal)
{
    uint32_t low = row < column ? row : column, high = row < column ? column : row;
    uint32_t x = low * 0x9e3779b1u + high * 0x85ebca77u;
    x ^= x >> 15;
    x *= 0x2c1b3c6du;
    x ^= x >> 12;
    x *= 0x297a2d39u;
    x ^= x >> 15;
    return row == column ? diagonal : (float)(x >> 8) * (1.0f / 16777216.0f) - 0.5f;
}

#endif
