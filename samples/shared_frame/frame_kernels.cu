/* SPDX-License-Identifier: MIT */
/* Blur a frame and count how bright its pixels are. */
#include "samples/shared_frame/frame.h"

#include <gantry/kernel.h>
#include <gantry/kernel/surface.h>

static __device__ inline uint32_t blur(const uint32_t *pixels, int x, int y, uint32_t shift)
{
    uint32_t sum = 0;
    for (int dy = -1; dy <= 1; dy++) {
        for (int dx = -1; dx <= 1; dx++) {
            int at_x = x + dx, at_y = y + dy;
            at_x = at_x < 0 ? 0 : at_x >= FRAME_WIDTH ? FRAME_WIDTH - 1 : at_x;
            at_y = at_y < 0 ? 0 : at_y >= FRAME_HEIGHT ? FRAME_HEIGHT - 1 : at_y;
            sum += pixels[at_y * FRAME_WIDTH + at_x] >> shift & 255;
        }
    }
    return sum / 9;
}

/* The pixels of an image, one block per row. */
GANTRY_KERNEL(fetch_frame, (gantry_surface image, uint32_t *pixels))
{
    for (uint32_t x = threadIdx.x; x < FRAME_WIDTH; x += blockDim.x) {
        pixels[blockIdx.x * FRAME_WIDTH + x] = gantry_surface_read<uint32_t>(image, x, blockIdx.x);
    }
}

/* One thread per pixel. */
GANTRY_KERNEL(filter_frame, (const uint32_t *drawn, uint32_t *filtered, uint32_t *histogram))
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= FRAME_PIXELS) {
        return;
    }
    int x = (int)(i % FRAME_WIDTH), y = (int)(i / FRAME_WIDTH);
    uint32_t red = blur(drawn, x, y, 0), green = blur(drawn, x, y, 8), blue = blur(drawn, x, y, 16);
    filtered[i] = red | green << 8 | blue << 16 | 0xff000000u;
    (void)atomicAdd(&histogram[(red + 2 * green + blue) / 4], 1u);
}
