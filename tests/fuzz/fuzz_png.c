/* SPDX-License-Identifier: MIT */
/* The bytes are a PNG file, read as the image pipeline reads photos.  The checksums of its chunks are
 * corrected first, because hardly any file would pass otherwise; unless the first byte, which is not part of
 * the file, is odd. */
#include "tests/fuzz/fuzz.h"

#include "samples/image_pipeline/png_io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

enum { MOST_PIXELS = 1 << 20 }; /* larger ones only take longer */

static void check_error(const char *error)
{
    if (error[0] == '\0' || memchr(error, '\0', IMAGE_ERROR_BYTES) == NULL) {
        abort(); /* a refusal must give the reason */
    }
}

static uint32_t read_big(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* A chunk has a length, a type, data, and a checksum of type and data. */
static void correct_checksums(uint8_t *data, size_t size)
{
    for (size_t at = 8; at + 12 <= size;) {
        size_t length = read_big(data + at);
        if (length > size - at - 12) {
            return;
        }
        uint32_t sum = (uint32_t)crc32(0, data + at + 4, (uInt)(length + 4));
        for (int i = 0; i < 4; i++) {
            data[at + 8 + length + (size_t)i] = (uint8_t)(sum >> (24 - 8 * i));
        }
        at += 12 + length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    bool corrects = data[0] % 2 == 0;
    data++;
    size--;
    int file = memfd_create("fuzz", 0);
    char path[64], error[IMAGE_ERROR_BYTES] = "";
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    uint8_t *copy = malloc(size + 1);
    if (copy == NULL || file < 0) {
        abort();
    }
    memcpy(copy, data, size);
    if (corrects) {
        correct_checksums(copy, size);
    }
    if (write(file, copy, size) != (ssize_t)size) {
        abort();
    }
    free(copy);
    struct image_reader *reader = NULL;
    if (!image_reader_open(path, &reader, error)) {
        check_error(error);
        if (reader != NULL) {
            abort(); /* outputs are written only on success */
        }
    } else {
        size_t pixels = (size_t)image_reader_width(reader) * image_reader_height(reader);
        uint8_t *rgb = pixels > 0 && pixels <= MOST_PIXELS ? malloc(3 * pixels) : NULL;
        error[0] = '\0';
        if (pixels == 0 || pixels > IMAGE_MAX_PIXELS) {
            abort();
        }
        if (rgb != NULL && !image_reader_read(reader, rgb, error)) {
            check_error(error);
        }
        free(rgb);
        image_reader_close(reader);
    }
    (void)close(file);
    return 0;
}
