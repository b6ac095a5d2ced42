/* SPDX-License-Identifier: MIT */
/* The same as Vulkan and the kernel do, on the CPU. */
#include "samples/shared_frame/frame.h"

#include <string.h>

static uint32_t mix(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

void frame_rectangles(uint32_t number, struct frame_rectangle out[FRAME_RECTANGLES])
{
    for (uint32_t i = 0; i < FRAME_RECTANGLES; i++) {
        uint32_t kind = mix(i + 1);
        struct frame_rectangle *r = &out[i];
        r->width = 16 + kind % 48;
        r->height = 12 + (kind >> 8) % 40;
        r->x = (mix(kind) + number * (1 + i % 5)) % (FRAME_WIDTH - r->width);
        r->y = (mix(kind + 1) + number * (1 + i % 3)) % (FRAME_HEIGHT - r->height);
        r->color[0] = (uint8_t)(kind >> 16);
        r->color[1] = (uint8_t)(kind >> 24);
        r->color[2] = (uint8_t)(number * 3 + i);
        r->color[3] = 255;
    }
}

static void draw(uint32_t number, uint32_t *pixels)
{
    struct frame_rectangle rectangles[FRAME_RECTANGLES];
    frame_rectangles(number, rectangles);
    memset(pixels, 0, FRAME_BYTES);
    for (uint32_t i = 0; i < FRAME_RECTANGLES; i++) {
        const struct frame_rectangle *r = &rectangles[i];
        uint32_t color = r->color[0] | (uint32_t)r->color[1] << 8 | (uint32_t)r->color[2] << 16 |
                         (uint32_t)r->color[3] << 24;
        for (uint32_t y = r->y; y < r->y + r->height; y++) {
            for (uint32_t x = r->x; x < r->x + r->width; x++) {
                pixels[y * FRAME_WIDTH + x] = color;
            }
        }
    }
}

/* The mean of the pixels around, those of the edge repeated; one of the four channels. */
static uint32_t blur(const uint32_t *pixels, uint32_t x, uint32_t y, uint32_t shift)
{
    uint32_t sum = 0;
    for (int dy = -1; dy <= 1; dy++) {
        for (int dx = -1; dx <= 1; dx++) {
            int at_x = (int)x + dx, at_y = (int)y + dy;
            at_x = at_x < 0 ? 0 : at_x >= FRAME_WIDTH ? FRAME_WIDTH - 1 : at_x;
            at_y = at_y < 0 ? 0 : at_y >= FRAME_HEIGHT ? FRAME_HEIGHT - 1 : at_y;
            sum += pixels[at_y * FRAME_WIDTH + at_x] >> shift & 255;
        }
    }
    return sum / 9;
}

void frame_expect(uint32_t number, uint32_t *drawn, uint32_t *filtered, uint32_t histogram[FRAME_BINS])
{
    draw(number, drawn);
    memset(histogram, 0, FRAME_BIN_BYTES);
    for (uint32_t y = 0; y < FRAME_HEIGHT; y++) {
        for (uint32_t x = 0; x < FRAME_WIDTH; x++) {
            uint32_t red = blur(drawn, x, y, 0), green = blur(drawn, x, y, 8), blue = blur(drawn, x, y, 16);
            filtered[y * FRAME_WIDTH + x] = red | green << 8 | blue << 16 | 0xff000000u;
            histogram[(red + 2 * green + blue) / 4]++;
        }
    }
}
