/* SPDX-License-Identifier: MIT */
/* Reading PNG files as 8-bit RGB, writing 8-bit gray ones.
 *
 * Every function that can fail fills `error` with one sentence (libpng's own reason where there is one)
 * and leaves its outputs untouched.  Nothing here aborts, prints or jumps out. */
#ifndef SAMPLES_IMAGE_PIPELINE_PNG_IO_H
#define SAMPLES_IMAGE_PIPELINE_PNG_IO_H

#include <stdbool.h>
#include <stdint.h>

#define IMAGE_ERROR_BYTES 256

/* Larger images are refused before anything is allocated for them. */
#define IMAGE_MAX_SIDE 32768u
#define IMAGE_MAX_PIXELS (64u << 20)

struct image_reader;

/* Open `path` and read its header.  Gray, palette, 16-bit and interlaced files are converted while
 * reading; what is transparent is blended with white. */
bool image_reader_open(const char *path, struct image_reader **out, char error[IMAGE_ERROR_BYTES]);

uint32_t image_reader_width(const struct image_reader *reader);
uint32_t image_reader_height(const struct image_reader *reader);

/* Read all pixels, 3 bytes each, rows without padding; `rgb` holds 3 * width * height bytes and is in an
 * undefined state on failure.  Once per reader. */
bool image_reader_read(struct image_reader *reader, uint8_t *rgb, char error[IMAGE_ERROR_BYTES]);

/* NULL is ignored. */
void image_reader_close(struct image_reader *reader);

/* Write `gray`, one byte per pixel.  The file appears under its name only when it is complete; on failure
 * an earlier file of that name is still there. */
bool image_write_gray(const char *path, const uint8_t *gray, uint32_t width, uint32_t height,
                      char error[IMAGE_ERROR_BYTES]);

#endif
