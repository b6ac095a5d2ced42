/* SPDX-License-Identifier: MIT */
/* The kernels of the proof pipeline: the number-theoretic transform stage by stage, and what is done between a
 * forward and a backward one.  Vectors have n elements, a power of two; `roots` are the first n / 2 powers of
 * an n-th root of unity.  One thread per butterfly, element or bucket, in a line; the grid's y counts vectors
 * that lie one behind the other. */
#include <gantry/kernel.h>

#define FIELD_FN static __device__ inline
#include "samples/proof_pipeline/field.h"

static __device__ inline uint32_t line_index(void)
{
    return blockIdx.x * blockDim.x + threadIdx.x;
}

/* Forward, natural order to bit-reversed: `half` = n / 2, n / 4, ... 1. */
GANTRY_KERNEL(proof_forward, (uint32_t * vectors, const uint32_t *roots, uint32_t n, uint32_t half))
{
    uint32_t i = line_index();
    if (i >= n / 2) {
        return;
    }
    uint32_t j = i % half, *low = vectors + (size_t)blockIdx.y * n + (i - j) * 2 + j, *high = low + half;
    uint32_t u = *low, v = *high;
    *low = field_add(u, v);
    *high = field_mul(field_sub(u, v), roots[j * (n / 2 / half)]);
}

/* Backward, bit-reversed order to natural: `half` = 1, 2, ... n / 2; times n in all. */
GANTRY_KERNEL(proof_backward, (uint32_t * vectors, const uint32_t *roots, uint32_t n, uint32_t half))
{
    uint32_t i = line_index();
    if (i >= n / 2) {
        return;
    }
    uint32_t j = i % half, *low = vectors + (size_t)blockIdx.y * n + (i - j) * 2 + j, *high = low + half;
    uint32_t power = j * (n / 2 / half); /* the inverse of root^k is -root^(n / 2 - k) */
    uint32_t inverse = power == 0 ? 1 : FIELD_PRIME - roots[n / 2 - power];
    uint32_t u = *low, v = field_mul(*high, inverse);
    *low = field_add(u, v);
    *high = field_sub(u, v);
}

GANTRY_KERNEL(proof_scale, (uint32_t * vectors, uint32_t n, uint32_t factor))
{
    uint32_t i = line_index();
    if (i < n) {
        uint32_t *element = vectors + (size_t)blockIdx.y * n + i;
        *element = field_mul(*element, factor);
    }
}

/* The first of three vectors becomes first * second - third. */
GANTRY_KERNEL(proof_combine, (uint32_t * vectors, uint32_t n))
{
    uint32_t i = line_index();
    if (i < n) {
        uint32_t product = field_mul(vectors[i], vectors[(size_t)n + i]);
        vectors[i] = field_sub(product, vectors[2 * (size_t)n + i]);
    }
}

/* The sum of each bucket's elements, which `order` lists from starts[bucket] on. */
GANTRY_KERNEL(proof_bucket_sums, (const uint32_t *vector, const uint32_t *order, const uint32_t *starts,
                                  uint32_t buckets, uint32_t *sums))
{
    uint32_t bucket = line_index();
    if (bucket >= buckets) {
        return;
    }
    uint32_t sum = 0;
    for (uint32_t i = starts[bucket]; i < starts[bucket + 1]; i++) {
        sum = field_add(sum, vector[order[i]]);
    }
    sums[bucket] = sum;
}
