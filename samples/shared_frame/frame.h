/* SPDX-License-Identifier: MIT */
/* What a frame is: coloured rectangles that move.  Drawn by Vulkan, computed here for comparison. */
#ifndef SAMPLES_SHARED_FRAME_FRAME_H
#define SAMPLES_SHARED_FRAME_FRAME_H

#include <stdint.h>

enum {
    FRAME_WIDTH = 320,
    FRAME_HEIGHT = 240,
    FRAME_PIXELS = FRAME_WIDTH * FRAME_HEIGHT,
    FRAME_BYTES = FRAME_PIXELS * 4,
    FRAME_RECTANGLES = 24,
    FRAME_BINS = 256,
    FRAME_BIN_BYTES = FRAME_BINS * 4,
    /* in the shared memory: what Vulkan has drawn, the filtered frame, its histogram */
    FRAME_OUT = FRAME_BYTES,
    FRAME_HISTOGRAM = 2 * FRAME_BYTES,
    FRAME_MEMORY = 2 * FRAME_BYTES + FRAME_BIN_BYTES,
};

struct frame_rectangle {
    uint32_t x, y, width, height;
    uint8_t color[4]; /* red, green, blue, alpha */
};

void frame_rectangles(uint32_t number, struct frame_rectangle out[FRAME_RECTANGLES]);
/* The filtered frame and its histogram as they should be; `drawn` is room for FRAME_PIXELS. */
void frame_expect(uint32_t number, uint32_t *drawn, uint32_t *filtered, uint32_t histogram[FRAME_BINS]);

#endif
