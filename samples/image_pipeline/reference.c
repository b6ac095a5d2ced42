/* SPDX-License-Identifier: MIT */
/* The reference to hold the kernels against: no tiles, no threads, no shortcuts. */
#include "samples/image_pipeline/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void reference_gaussian(float sigma, uint32_t radius, float *weights)
{
    double sum = 0;
    for (uint32_t k = 0; k <= 2 * radius; k++) {
        double distance = (double)k - radius;
        sum += exp(-distance * distance / (2.0 * sigma * sigma));
    }
    for (uint32_t k = 0; k <= 2 * radius; k++) {
        double distance = (double)k - radius;
        weights[k] = (float)(exp(-distance * distance / (2.0 * sigma * sigma)) / sum);
    }
}

/* The pixel at (x, y), or the nearest one of the image. */
static uint8_t pixel_at(const uint8_t *src, uint32_t width, uint32_t height, int64_t x, int64_t y)
{
    if (x < 0) {
        x = 0;
    }
    if (x > (int64_t)width - 1) {
        x = (int64_t)width - 1;
    }
    if (y < 0) {
        y = 0;
    }
    if (y > (int64_t)height - 1) {
        y = (int64_t)height - 1;
    }
    return src[y * (int64_t)width + x];
}

/* Round to the nearest level. */
static uint8_t level_of(float value)
{
    int level = (int)(value + 0.5f);
    return (uint8_t)(level > 255 ? 255 : level);
}

void reference_luminance(const uint8_t *rgb, uint8_t *luma, uint32_t pixels)
{
    for (uint32_t i = 0; i < pixels; i++) {
        uint32_t red = rgb[3 * (size_t)i], green = rgb[3 * (size_t)i + 1], blue = rgb[3 * (size_t)i + 2];
        luma[i] = (uint8_t)((77 * red + 150 * green + 29 * blue + 128) / 256);
    }
}

void reference_blur_rows(const uint8_t *src, uint8_t *dst, uint32_t width, uint32_t height,
                         const float *weights, uint32_t radius)
{
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            float sum = 0;
            for (uint32_t k = 0; k <= 2 * radius; k++) {
                sum += weights[k] * (float)pixel_at(src, width, height, (int64_t)x + k - radius, y);
            }
            dst[(size_t)y * width + x] = level_of(sum);
        }
    }
}

void reference_blur_columns(const uint8_t *src, uint8_t *dst, uint32_t width, uint32_t height,
                            const float *weights, uint32_t radius)
{
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            float sum = 0;
            for (uint32_t k = 0; k <= 2 * radius; k++) {
                sum += weights[k] * (float)pixel_at(src, width, height, x, (int64_t)y + k - radius);
            }
            dst[(size_t)y * width + x] = level_of(sum);
        }
    }
}

void reference_sobel(const uint8_t *src, uint8_t *dst, uint32_t width, uint32_t height)
{
    static const int weight[3] = {1, 2, 1};
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            int gx = 0, gy = 0;
            for (int k = -1; k <= 1; k++) {
                gx += weight[k + 1] * pixel_at(src, width, height, (int64_t)x + 1, (int64_t)y + k);
                gx -= weight[k + 1] * pixel_at(src, width, height, (int64_t)x - 1, (int64_t)y + k);
                gy += weight[k + 1] * pixel_at(src, width, height, (int64_t)x + k, (int64_t)y + 1);
                gy -= weight[k + 1] * pixel_at(src, width, height, (int64_t)x + k, (int64_t)y - 1);
            }
            double length = floor(sqrt((double)(gx * gx + gy * gy)));
            dst[(size_t)y * width + x] = (uint8_t)(length > 255 ? 255 : length);
        }
    }
}

void reference_histogram(const uint8_t *src, uint32_t pixels, uint32_t *bins)
{
    for (uint32_t i = 0; i < pixels; i++) {
        bins[src[i]]++;
    }
}

void reference_equalise_lut(const uint32_t *bins, uint32_t pixels, uint8_t *lut)
{
    uint32_t first = 0;
    while (first < 255 && bins[first] == 0) {
        first++;
    }
    uint32_t darkest = bins[first]; /* pixels of the darkest level there is */
    uint64_t sum = 0;               /* pixels of this level and darker */
    for (uint32_t i = 0; i < 256; i++) {
        sum += bins[i];
        if (pixels == darkest || pixels == 0) {
            lut[i] = (uint8_t)i;
        } else if (sum < darkest) {
            lut[i] = 0;
        } else {
            uint64_t range = pixels - darkest;
            lut[i] = (uint8_t)(((sum - darkest) * 255 + range / 2) / range);
        }
    }
}

void reference_apply_lut(const uint8_t *src, uint8_t *dst, uint32_t pixels, const uint8_t *lut)
{
    for (uint32_t i = 0; i < pixels; i++) {
        dst[i] = lut[src[i]];
    }
}

void reference_combine(const uint8_t *equalised, const uint8_t *edges, uint8_t *out, uint32_t pixels)
{
    for (uint32_t i = 0; i < pixels; i++) {
        out[i] = (uint8_t)((equalised[i] * (255u - edges[i]) + 127u) / 255u);
    }
}

bool reference_pipeline(const uint8_t *rgb, uint32_t width, uint32_t height, uint8_t *edges_out,
                        uint8_t *result_out)
{
    float weights[2 * REFERENCE_BLUR_RADIUS + 1];
    uint32_t pixels = width * height;
    uint32_t bins[256] = {0};
    uint8_t lut[256];
    uint8_t *luma = malloc(pixels), *rows = malloc(pixels), *blurred = malloc(pixels);
    bool has_memory = luma != NULL && rows != NULL && blurred != NULL;
    if (has_memory) {
        reference_gaussian(REFERENCE_BLUR_SIGMA, REFERENCE_BLUR_RADIUS, weights);
        reference_luminance(rgb, luma, pixels);
        reference_sobel(luma, edges_out, width, height);
        reference_blur_rows(luma, rows, width, height, weights, REFERENCE_BLUR_RADIUS);
        reference_blur_columns(rows, blurred, width, height, weights, REFERENCE_BLUR_RADIUS);
        reference_histogram(blurred, pixels, bins);
        reference_equalise_lut(bins, pixels, lut);
        reference_apply_lut(blurred, rows, pixels, lut);
        reference_combine(rows, edges_out, result_out, pixels);
    }
    free(luma);
    free(rows);
    free(blurred);
    return has_memory;
}
