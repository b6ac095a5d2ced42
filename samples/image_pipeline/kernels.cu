/* SPDX-License-Identifier: MIT */
/* The kernels of the image pipeline.  reference.c says what each computes, pixel by pixel; here the same
 * arithmetic is spread over threads.  Integers where possible; the blur's products and sums are rounded one
 * by one (no fused multiply-add), so that device, emulator and reference agree.
 *
 * luminance, histogram, apply_lut and combine take any grid and block: a thread handles the pixels that are
 * a whole grid apart.  blur_rows, blur_columns and sobel take blocks of x × y threads, one pixel each, in a
 * grid that covers the image.  equalise_lut is one block of 256 threads.
 *
 * The last two parameters are for recordings: see <gantry/profile_kernel.h>. */
#include <gantry/profile_kernel.h>

#define BINS 256
#define TILE_BYTES 8192

static __device__ inline uint32_t first_pixel(void)
{
    return blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ inline uint32_t pixel_step(void)
{
    return gridDim.x * blockDim.x;
}

/* The edge pixels go on for ever to the outside. */
static __device__ inline uint32_t clamp_to(int64_t position, uint32_t size)
{
    return position < 0 ? 0 : position >= (int64_t)size ? size - 1 : (uint32_t)position;
}

static __device__ inline uint8_t to_level(float value)
{
    return (uint8_t)min(__float2int_rz(__fadd_rn(value, 0.5f)), 255);
}

/* Rec. 601 weights in 256ths. */
GANTRY_KERNEL(luminance, (const uint8_t *rgb, uint8_t *luma, uint32_t pixels, void *profile, uint32_t id))
{
    GANTRY_KERNEL_START(profile, id);
    for (uint32_t i = first_pixel(); i < pixels; i += pixel_step()) {
        const uint8_t *p = rgb + 3 * (size_t)i;
        luma[i] = (uint8_t)((77u * p[0] + 150u * p[1] + 29u * p[2] + 128u) >> 8);
    }
    GANTRY_KERNEL_STOP(profile, id);
}

/* The block's pixels of a row, with `radius` more to either side, are read once into shared memory; a tile
 * that does not fit is read from the image directly. */
GANTRY_KERNEL(blur_rows, (const uint8_t *src, uint8_t *dst, uint32_t width, uint32_t height,
                          const float *weights, uint32_t radius, void *profile, uint32_t id))
{
    GANTRY_KERNEL_START(profile, id);
    __shared__ uint8_t tile[TILE_BYTES];
    uint32_t left = blockIdx.x * blockDim.x;
    uint32_t x = left + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    uint32_t pitch = blockDim.x + 2 * radius;
    bool tiled = (uint64_t)pitch * blockDim.y <= TILE_BYTES;
    const uint8_t *row = src + (size_t)clamp_to(y, height) * width;
    if (tiled) {
        for (uint32_t i = threadIdx.x; i < pitch; i += blockDim.x) {
            tile[threadIdx.y * pitch + i] = row[clamp_to((int64_t)left + i - radius, width)];
        }
    }
    __syncthreads();
    if (x >= width || y >= height) {
        return;
    }
    float sum = 0;
    for (uint32_t k = 0; k <= 2 * radius; k++) {
        uint8_t level = tiled ? tile[threadIdx.y * pitch + threadIdx.x + k]
                              : row[clamp_to((int64_t)x + k - radius, width)];
        sum = __fadd_rn(sum, __fmul_rn(weights[k], (float)level));
    }
    dst[(size_t)y * width + x] = to_level(sum);
    GANTRY_KERNEL_STOP(profile, id);
}

GANTRY_KERNEL(blur_columns, (const uint8_t *src, uint8_t *dst, uint32_t width, uint32_t height,
                             const float *weights, uint32_t radius, void *profile, uint32_t id))
{
    GANTRY_KERNEL_START(profile, id);
    __shared__ uint8_t tile[TILE_BYTES];
    uint32_t top = blockIdx.y * blockDim.y;
    uint32_t x = blockIdx.x * blockDim.x + threadIdx.x, y = top + threadIdx.y;
    uint32_t rows = blockDim.y + 2 * radius;
    bool tiled = (uint64_t)rows * blockDim.x <= TILE_BYTES;
    const uint8_t *column = src + clamp_to(x, width);
    if (tiled) {
        for (uint32_t i = threadIdx.y; i < rows; i += blockDim.y) {
            tile[i * blockDim.x + threadIdx.x] =
                column[(size_t)clamp_to((int64_t)top + i - radius, height) * width];
        }
    }
    __syncthreads();
    if (x >= width || y >= height) {
        return;
    }
    float sum = 0;
    for (uint32_t k = 0; k <= 2 * radius; k++) {
        uint8_t level = tiled ? tile[(threadIdx.y + k) * blockDim.x + threadIdx.x]
                              : column[(size_t)clamp_to((int64_t)y + k - radius, height) * width];
        sum = __fadd_rn(sum, __fmul_rn(weights[k], (float)level));
    }
    dst[(size_t)y * width + x] = to_level(sum);
    GANTRY_KERNEL_STOP(profile, id);
}

/* The gradient's squares stay below 2^21, where float is exact and its root is never rounded up to the
 * next integer. */
GANTRY_KERNEL(sobel,
              (const uint8_t *src, uint8_t *dst, uint32_t width, uint32_t height, void *profile, uint32_t id))
{
    GANTRY_KERNEL_START(profile, id);
    uint32_t x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) {
        return;
    }
    uint32_t west = x == 0 ? 0 : x - 1, east = min(x + 1, width - 1);
    const uint8_t *above = src + (size_t)(y == 0 ? 0 : y - 1) * width;
    const uint8_t *here = src + (size_t)y * width;
    const uint8_t *below = src + (size_t)min(y + 1, height - 1) * width;
    int gx = above[east] + 2 * here[east] + below[east] - above[west] - 2 * here[west] - below[west];
    int gy = below[west] + 2 * below[x] + below[east] - above[west] - 2 * above[x] - above[east];
    dst[(size_t)y * width + x] = (uint8_t)min(__float2int_rz(sqrtf((float)(gx * gx + gy * gy))), 255);
    GANTRY_KERNEL_STOP(profile, id);
}

/* Each block counts in shared memory and adds its counts to `bins`, which the caller has cleared. */
GANTRY_KERNEL(histogram, (const uint8_t *src, uint32_t pixels, uint32_t *bins, void *profile, uint32_t id))
{
    GANTRY_KERNEL_START(profile, id);
    __shared__ uint32_t counts[BINS];
    for (uint32_t i = threadIdx.x; i < BINS; i += blockDim.x) {
        counts[i] = 0;
    }
    __syncthreads();
    for (uint32_t i = first_pixel(); i < pixels; i += pixel_step()) {
        atomicAdd(&counts[src[i]], 1u);
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < BINS; i += blockDim.x) {
        if (counts[i] != 0) {
            atomicAdd(&bins[i], counts[i]);
        }
    }
    GANTRY_KERNEL_STOP(profile, id);
}

/* One block of 256 threads: the running sum of the bins, by shuffles within the warps, then over them. */
GANTRY_KERNEL_BOUNDS(equalise_lut, BINS,
                     (const uint32_t *bins, uint32_t pixels, uint8_t *lut, void *profile, uint32_t id))
{
    GANTRY_KERNEL_START(profile, id);
    __shared__ uint32_t warp_sums[BINS / 32];
    __shared__ uint32_t darkest; /* pixels in the first bin that is not empty */
    uint32_t i = threadIdx.x;
    uint32_t sum = bins[i];
    for (unsigned distance = 1; distance < 32; distance *= 2) {
        uint32_t before = __shfl_up_sync(0xffffffffu, sum, distance);
        sum += gantry_lane() >= distance ? before : 0;
    }
    if (gantry_lane() == 31) {
        warp_sums[i / 32] = sum;
    }
    if (i == 0) {
        darkest = pixels; /* stays in an empty image only */
    }
    __syncthreads();
    for (uint32_t w = 0; w < i / 32; w++) {
        sum += warp_sums[w];
    }
    if (bins[i] != 0 && sum == bins[i]) {
        darkest = sum;
    }
    __syncthreads();
    uint64_t range = pixels - darkest;
    uint64_t above = sum < darkest ? 0 : sum - darkest;
    lut[i] = range == 0 ? (uint8_t)i : (uint8_t)((above * 255 + range / 2) / range);
    GANTRY_KERNEL_STOP(profile, id);
}

GANTRY_KERNEL(apply_lut, (const uint8_t *src, uint8_t *dst, uint32_t pixels, const uint8_t *lut,
                          void *profile, uint32_t id))
{
    GANTRY_KERNEL_START(profile, id);
    for (uint32_t i = first_pixel(); i < pixels; i += pixel_step()) {
        dst[i] = lut[src[i]];
    }
    GANTRY_KERNEL_STOP(profile, id);
}

/* A gray picture, darkened where there are edges, as if drawn over. */
GANTRY_KERNEL(combine, (const uint8_t *equalised, const uint8_t *edges, uint8_t *out, uint32_t pixels,
                        void *profile, uint32_t id))
{
    GANTRY_KERNEL_START(profile, id);
    for (uint32_t i = first_pixel(); i < pixels; i += pixel_step()) {
        out[i] = (uint8_t)((equalised[i] * (255u - edges[i]) + 127u) / 255u);
    }
    GANTRY_KERNEL_STOP(profile, id);
}
