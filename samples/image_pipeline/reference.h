/* SPDX-License-Identifier: MIT */
/* What the kernels of the image pipeline compute, in plain single-threaded C.  Arguments as the kernels';
 * images are rows of bytes without gaps. */
#ifndef SAMPLES_IMAGE_PIPELINE_REFERENCE_H
#define SAMPLES_IMAGE_PIPELINE_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

/* The blur of the pipeline: 2 * radius + 1 weights of a bell curve. */
#define REFERENCE_BLUR_RADIUS 4u
#define REFERENCE_BLUR_SIGMA 2.0f

/* `weights` has 2 * radius + 1 places; they add up to 1. */
void reference_gaussian(float sigma, uint32_t radius, float *weights);

void reference_luminance(const uint8_t *rgb, uint8_t *luma, uint32_t pixels);
/* Outside the image, its edge pixels go on. */
void reference_blur_rows(const uint8_t *src, uint8_t *dst, uint32_t width, uint32_t height,
                         const float *weights, uint32_t radius);
void reference_blur_columns(const uint8_t *src, uint8_t *dst, uint32_t width, uint32_t height,
                            const float *weights, uint32_t radius);
/* The gradient's length, rounded down, at most 255. */
void reference_sobel(const uint8_t *src, uint8_t *dst, uint32_t width, uint32_t height);
/* Adds to the 256 `bins`. */
void reference_histogram(const uint8_t *src, uint32_t pixels, uint32_t *bins);
/* The table of 256 levels that spreads them evenly; a picture of one level stays as it is. */
void reference_equalise_lut(const uint32_t *bins, uint32_t pixels, uint8_t *lut);
void reference_apply_lut(const uint8_t *src, uint8_t *dst, uint32_t pixels, const uint8_t *lut);
void reference_combine(const uint8_t *equalised, const uint8_t *edges, uint8_t *out, uint32_t pixels);

/* The whole pipeline: luminance, of which the edges, and of which blurred and equalised; both combined.
 * False when out of memory: nothing was written. */
bool reference_pipeline(const uint8_t *rgb, uint32_t width, uint32_t height, uint8_t *edges_out,
                        uint8_t *result_out);

#endif
