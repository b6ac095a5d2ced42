/* SPDX-License-Identifier: MIT */
/* Blocked Cholesky factorisation of column-major tiles: element (row, column) is at row + column * ld.  Sides
 * of tiles are multiples of 64, of cholesky_update_128's tiles of 128; all blocks have 256 threads, but those
 * that say otherwise. */
#include <gantry/kernel.h>

#define MATRIX_FUNCTION static __device__ inline
#include "samples/tile_cholesky/matrix.h"

#define BLOCK 64u           /* rows and columns that a thread block solves at once */
#define PITCH (BLOCK + 1u)  /* of its columns in shared memory, so that rows do not meet in one bank */
#define PART 1024u          /* floats of a factor in shared memory at a time: some columns of SIDE rows */
#define STAGE (4u * PART)   /* two parts of both factors: one is read while the next one is written */

/* Sums are in registers only where the loops over them are unrolled. */
#if GANTRY_KERNEL_FORM_DEVICE
#define UNROLLED _Pragma("unroll")
#else
#define UNROLLED
#endif

static __device__ inline float4 *as_four(float *address)
{
    return (float4 *)(void *)address;
}

static __device__ inline float4 load_four(const float *address)
{
    return *(const float4 *)(const void *)address;
}

/* sum[i][j] += the product of `depth` columns of a and of b transposed, SIDE rows of each.  A thread has
 * groups of four rows and columns, 64 apart.  `stage` is shared memory, which all threads have done with at the return. */
template <uint32_t SIDE>
static __device__ inline void multiply(float (&sum)[SIDE / 16][SIDE / 16], const float *a, uint32_t a_pitch,
                                       const float *b, uint32_t b_pitch, uint32_t depth, float *stage)
{
    const uint32_t own = threadIdx.x * 4, own_row = own % SIDE, own_column = own / SIDE, step = PART / SIDE;
    const uint32_t row = threadIdx.x % 16 * 4, column = threadIdx.x / 16 * 4;
    const float *next_a = a + (size_t)own_column * a_pitch + own_row;
    const float *next_b = b + (size_t)own_column * b_pitch + own_row;
    float4 four_a = make_float4(0, 0, 0, 0), four_b = four_a;
    if (depth > 0) {
        four_a = load_four(next_a);
        four_b = load_four(next_b);
    }
    for (uint32_t k = 0, now = 0; k < depth; k += step, now = 1 - now) {
        *as_four(&stage[now * PART + own]) = four_a;
        *as_four(&stage[(2 + now) * PART + own]) = four_b;
        __syncthreads();
        if (k + step < depth) {
            next_a += (size_t)step * a_pitch;
            next_b += (size_t)step * b_pitch;
            four_a = load_four(next_a);
            four_b = load_four(next_b);
        }
        UNROLLED
        for (uint32_t m = 0; m < step; m++) {
            float left[SIDE / 16], right[SIDE / 16];
            UNROLLED
            for (uint32_t g = 0; g < SIDE / 64; g++) {
                float4 x = load_four(&stage[now * PART + m * SIDE + g * 64 + row]);
                float4 y = load_four(&stage[(2 + now) * PART + m * SIDE + g * 64 + column]);
                left[g * 4] = x.x;
                left[g * 4 + 1] = x.y;
                left[g * 4 + 2] = x.z;
                left[g * 4 + 3] = x.w;
                right[g * 4] = y.x;
                right[g * 4 + 1] = y.y;
                right[g * 4 + 2] = y.z;
                right[g * 4 + 3] = y.w;
            }
            UNROLLED
            for (uint32_t i = 0; i < SIDE / 16; i++) {
                UNROLLED
                for (uint32_t j = 0; j < SIDE / 16; j++) {
                    sum[i][j] += left[i] * right[j];
                }
            }
        }
    }
    __syncthreads();
}

/* c -= a b', SIDE x SIDE of it for each thread block.  With `lower`, blocks above the diagonal are left out. */
template <uint32_t SIDE>
static __device__ inline void update(const float *a, uint32_t a_pitch, const float *b, uint32_t b_pitch, float *c,
                                     uint32_t c_pitch, uint32_t depth, uint32_t lower)
{
    if (lower != 0 && blockIdx.x < blockIdx.y) {
        return;
    }
    __shared__ __align__(16) float stage[STAGE];
    float sum[SIDE / 16][SIDE / 16];
    UNROLLED
    for (uint32_t i = 0; i < SIDE / 16; i++) {
        UNROLLED
        for (uint32_t j = 0; j < SIDE / 16; j++) {
            sum[i][j] = 0.0f;
        }
    }
    multiply<SIDE>(sum, a + blockIdx.x * SIDE, a_pitch, b + blockIdx.y * SIDE, b_pitch, depth, stage);
    const uint32_t row = blockIdx.x * SIDE + threadIdx.x % 16 * 4;
    const uint32_t column = blockIdx.y * SIDE + threadIdx.x / 16 * 4;
    UNROLLED
    for (uint32_t j = 0; j < SIDE / 16; j++) {
        float *to = c + (size_t)(column + j / 4 * 64 + j % 4) * c_pitch + row;
        UNROLLED
        for (uint32_t g = 0; g < SIDE / 64; g++) {
            float4 four = load_four(to + g * 64);
            four.x -= sum[g * 4][j];
            four.y -= sum[g * 4 + 1][j];
            four.z -= sum[g * 4 + 2][j];
            four.w -= sum[g * 4 + 3][j];
            *as_four(to + g * 64) = four;
        }
    }
}

GANTRY_KERNEL_BOUNDS(cholesky_update_64, 256,
                     (const float *a, uint32_t a_pitch, const float *b, uint32_t b_pitch, float *c, uint32_t c_pitch,
                      uint32_t depth, uint32_t lower))
{
    update<64>(a, a_pitch, b, b_pitch, c, c_pitch, depth, lower);
}

GANTRY_KERNEL_BOUNDS(cholesky_update_128, 256,
                     (const float *a, uint32_t a_pitch, const float *b, uint32_t b_pitch, float *c, uint32_t c_pitch,
                      uint32_t depth, uint32_t lower))
{
    update<128>(a, a_pitch, b, b_pitch, c, c_pitch, depth, lower);
}

/* Factor one block of BLOCK x BLOCK: a thread for each of its rows. */
GANTRY_KERNEL_BOUNDS(cholesky_factor, 64, (float *a, uint32_t pitch))
{
    __shared__ float block[BLOCK * PITCH]; /* column by column */
    const uint32_t row = threadIdx.x;
    for (uint32_t c = 0; c < BLOCK; c++) {
        block[c * PITCH + row] = a[(size_t)c * pitch + row];
    }
    __syncthreads();
    for (uint32_t j = 0; j < BLOCK; j++) {
        float value = block[j * PITCH + row];
        for (uint32_t k = 0; k < j; k++) {
            value -= block[k * PITCH + row] * block[k * PITCH + j];
        }
        if (row == j) {
            block[j * PITCH + j] = sqrtf(value);
        }
        __syncthreads();
        if (row > j) {
            block[j * PITCH + row] = value / block[j * PITCH + j];
        }
        __syncthreads();
    }
    for (uint32_t c = 0; c <= row; c++) {
        a[(size_t)c * pitch + row] = block[c * PITCH + row];
    }
}

/* One row of x, so that x l' is what it was; both are column by column in shared memory. */
static __device__ inline void solve_row(const float *l, float *x, uint32_t row)
{
    for (uint32_t j = 0; j < BLOCK; j++) {
        float value = x[j * PITCH + row];
        for (uint32_t k = 0; k < j; k++) {
            value -= x[k * PITCH + row] * l[k * PITCH + j];
        }
        x[j * PITCH + row] = value / l[j * PITCH + j];
    }
}

/* x = x / l' for BLOCK columns, and BLOCK rows for each thread block of 64 threads. */
GANTRY_KERNEL_BOUNDS(cholesky_solve_64, 64, (const float *l, float *x, uint32_t pitch))
{
    __shared__ float factor[BLOCK * PITCH];
    __shared__ float rows[BLOCK * PITCH];
    const uint32_t row = threadIdx.x;
    float *own = x + blockIdx.x * BLOCK;
    for (uint32_t c = 0; c < BLOCK; c++) {
        factor[c * PITCH + row] = l[(size_t)c * pitch + row];
        rows[c * PITCH + row] = own[(size_t)c * pitch + row];
    }
    __syncthreads();
    solve_row(factor, rows, row);
    for (uint32_t c = 0; c < BLOCK; c++) {
        own[(size_t)c * pitch + row] = rows[c * PITCH + row];
    }
}

/* x = x / l' for a tile of side `side`: BLOCK rows for each thread block, which takes BLOCK columns at a time. */
GANTRY_KERNEL_BOUNDS(cholesky_solve, 256, (const float *l, float *x, uint32_t side))
{
    __shared__ __align__(16) float memory[2 * BLOCK * PITCH]; /* not less than STAGE */
    float *factor = memory, *rows = memory + BLOCK * PITCH;
    float *own = x + blockIdx.x * BLOCK;
    const uint32_t row = threadIdx.x % 16 * 4, column = threadIdx.x / 16 * 4;
    for (uint32_t first = 0; first < side; first += BLOCK) {
        float sum[4][4];
        UNROLLED
        for (uint32_t i = 0; i < 4; i++) {
            UNROLLED
            for (uint32_t j = 0; j < 4; j++) {
                sum[i][j] = 0.0f;
            }
        }
        multiply<BLOCK>(sum, own, side, l + first, side, first, memory);
        UNROLLED
        for (uint32_t j = 0; j < 4; j++) {
            UNROLLED
            for (uint32_t i = 0; i < 4; i++) {
                uint32_t at = (column + j) * PITCH + row + i;
                rows[at] = own[(size_t)(first + column + j) * side + row + i] - sum[i][j];
                factor[at] = l[(size_t)(first + column + j) * side + first + row + i];
            }
        }
        __syncthreads();
        if (threadIdx.x < BLOCK) {
            solve_row(factor, rows, threadIdx.x);
        }
        __syncthreads();
        for (uint32_t j = 0; j < 4; j++) {
            for (uint32_t i = 0; i < 4; i++) {
                own[(size_t)(first + column + j) * side + row + i] = rows[(column + j) * PITCH + row + i];
            }
        }
        __syncthreads();
    }
}

/* The matrix's elements from (row, column) on; blockIdx.y is a column of the memory. */
GANTRY_KERNEL(cholesky_fill, (float *to, uint32_t pitch, uint32_t rows, uint32_t row, uint32_t column, float diagonal))
{
    uint32_t r = blockIdx.x * blockDim.x + threadIdx.x, c = blockIdx.y;
    if (r < rows) {
        to[(size_t)c * pitch + r] = matrix_element(row + r, column + c, diagonal);
    }
}
