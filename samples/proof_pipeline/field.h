/* SPDX-License-Identifier: MIT */
/* Integers modulo the prime 15 * 2^27 + 1, for the program and its kernels alike.  Values are below the
 * prime. */
#ifndef PROOF_PIPELINE_FIELD_H
#define PROOF_PIPELINE_FIELD_H

#ifndef FIELD_FN /* proof_kernels.cu says what a device function is */
#include <stdint.h>
#define FIELD_FN static inline
#endif

#define FIELD_PRIME 2013265921u
#define FIELD_GENERATOR 31u /* of the multiplicative group */

FIELD_FN uint32_t field_add(uint32_t a, uint32_t b)
{
    uint32_t sum = a + b;
    return sum >= FIELD_PRIME ? sum - FIELD_PRIME : sum;
}

FIELD_FN uint32_t field_sub(uint32_t a, uint32_t b)
{
    return a >= b ? a - b : a + FIELD_PRIME - b;
}

FIELD_FN uint32_t field_mul(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b % FIELD_PRIME);
}

#endif
