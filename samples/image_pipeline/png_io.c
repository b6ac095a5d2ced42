/* SPDX-License-Identifier: MIT */
/* PNG files through libpng.
 *
 * libpng reports an error by calling on_error(), which must not return: it keeps the reason in the
 * structure that png_get_error_ptr() gives and jumps back to the setjmp() of the function that called
 * libpng.  Each such function therefore calls setjmp() first, keeps all its state behind a pointer that
 * it does not change afterwards, and owns nothing that a jump could leak. */
#include "samples/image_pipeline/png_io.h"

#include <errno.h>
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* zlib level: the encoder is the pipeline's slowest part, and the last percent of size is not worth it. */
#define COMPRESSION_LEVEL 3
#define SIGNATURE_BYTES 8

struct image_reader {
    FILE *file;
    png_structp png;
    png_infop info;
    uint32_t width;
    uint32_t height;
    int passes; /* 7 for interlaced files, else 1 */
    char reason[IMAGE_ERROR_BYTES];
};

struct image_writer {
    FILE *file;
    png_structp png;
    png_infop info;
    char reason[IMAGE_ERROR_BYTES];
};

/* The error pointer is the `reason` of a reader or writer. */
static void on_error(png_structp png, png_const_charp message)
{
    char *reason = png_get_error_ptr(png);
    if (errno != 0) {
        snprintf(reason, IMAGE_ERROR_BYTES, "%s (%s)", message, strerror(errno));
    } else {
        snprintf(reason, IMAGE_ERROR_BYTES, "%s", message);
    }
    png_longjmp(png, 1);
}

/* Warnings are about what libpng can live with, and so can we. */
static void on_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

/* ---- reading ------------------------------------------------------------------------------- */

/* Have libpng deliver 8-bit RGB whatever the file holds. */
static void convert_to_rgb8(png_structp png, png_infop info)
{
    bool wide = png_get_bit_depth(png, info) == 16;
    bool transparent = (png_get_color_type(png, info) & PNG_COLOR_MASK_ALPHA) != 0 ||
                       png_get_valid(png, info, PNG_INFO_tRNS) != 0;
    png_set_expand(png);
    if (transparent) {
        /* Blend the values as they are: with a gamma of its own in the file, libpng would blend light. */
        png_set_gamma(png, 1.0, 1.0);
        png_uint_16 white = wide ? 65535 : 255;
        png_color_16 background = {0, white, white, white, white};
        png_set_background(png, &background, PNG_BACKGROUND_GAMMA_SCREEN, 0, 1.0);
    }
    png_set_scale_16(png);
    png_set_gray_to_rgb(png);
}

static bool check_size(struct image_reader *reader)
{
    uint64_t pixels = (uint64_t)reader->width * reader->height;
    if (reader->width <= IMAGE_MAX_SIDE && reader->height <= IMAGE_MAX_SIDE && pixels <= IMAGE_MAX_PIXELS) {
        return true;
    }
    snprintf(reader->reason, IMAGE_ERROR_BYTES,
             "%u x %u pixels are too many: at most %u on a side and %u in all are supported", reader->width,
             reader->height, IMAGE_MAX_SIDE, IMAGE_MAX_PIXELS);
    return false;
}

static bool read_header(struct image_reader *reader)
{
    errno = 0;
    if (setjmp(png_jmpbuf(reader->png)) != 0) {
        return false;
    }
    png_init_io(reader->png, reader->file);
    png_set_sig_bytes(reader->png, SIGNATURE_BYTES);
    /* libpng's own limit would be reported as "invalid"; check_size() says it better. */
    png_set_user_limits(reader->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_read_info(reader->png, reader->info);
    reader->width = png_get_image_width(reader->png, reader->info);
    reader->height = png_get_image_height(reader->png, reader->info);
    if (!check_size(reader)) {
        return false;
    }
    convert_to_rgb8(reader->png, reader->info);
    reader->passes = png_set_interlace_handling(reader->png);
    png_read_update_info(reader->png, reader->info);
    if (png_get_rowbytes(reader->png, reader->info) != (size_t)reader->width * 3) {
        snprintf(reader->reason, IMAGE_ERROR_BYTES, "libpng cannot convert this image to 8-bit RGB");
        return false;
    }
    return true;
}

static bool open_file(struct image_reader *reader, const char *path)
{
    errno = 0;
    reader->file = fopen(path, "rb");
    if (reader->file == NULL) {
        snprintf(reader->reason, IMAGE_ERROR_BYTES, "cannot be opened: %s", strerror(errno));
        return false;
    }
    png_byte signature[SIGNATURE_BYTES];
    size_t got = fread(signature, 1, sizeof(signature), reader->file);
    if (got < sizeof(signature) && ferror(reader->file) != 0) {
        snprintf(reader->reason, IMAGE_ERROR_BYTES, "cannot be read: %s", strerror(errno));
        return false;
    }
    if (got < sizeof(signature) || png_sig_cmp(signature, 0, sizeof(signature)) != 0) {
        snprintf(reader->reason, IMAGE_ERROR_BYTES, "not a PNG file: the signature is missing");
        return false;
    }
    return true;
}

static bool open_png(struct image_reader *reader)
{
    reader->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, reader->reason, on_error, on_warning);
    reader->info = reader->png != NULL ? png_create_info_struct(reader->png) : NULL;
    if (reader->info == NULL) {
        snprintf(reader->reason, IMAGE_ERROR_BYTES, "out of memory");
        return false;
    }
    return read_header(reader);
}

bool image_reader_open(const char *path, struct image_reader **out, char error[IMAGE_ERROR_BYTES])
{
    struct image_reader *reader = calloc(1, sizeof(*reader));
    if (reader == NULL) {
        snprintf(error, IMAGE_ERROR_BYTES, "out of memory");
        return false;
    }
    if (!open_file(reader, path) || !open_png(reader)) {
        memcpy(error, reader->reason, IMAGE_ERROR_BYTES);
        image_reader_close(reader);
        return false;
    }
    *out = reader;
    return true;
}

uint32_t image_reader_width(const struct image_reader *reader)
{
    return reader->width;
}

uint32_t image_reader_height(const struct image_reader *reader)
{
    return reader->height;
}

/* png_read_end() too: a file without its last chunks has lost something. */
static bool read_rows(struct image_reader *reader, uint8_t *rgb)
{
    errno = 0;
    if (setjmp(png_jmpbuf(reader->png)) != 0) {
        return false;
    }
    size_t stride = (size_t)reader->width * 3;
    for (int pass = 0; pass < reader->passes; pass++) {
        for (uint32_t y = 0; y < reader->height; y++) {
            png_read_row(reader->png, rgb + y * stride, NULL);
        }
    }
    png_read_end(reader->png, NULL);
    return true;
}

bool image_reader_read(struct image_reader *reader, uint8_t *rgb, char error[IMAGE_ERROR_BYTES])
{
    if (!read_rows(reader, rgb)) {
        memcpy(error, reader->reason, IMAGE_ERROR_BYTES);
        return false;
    }
    return true;
}

void image_reader_close(struct image_reader *reader)
{
    if (reader == NULL) {
        return;
    }
    png_destroy_read_struct(&reader->png, &reader->info, NULL);
    if (reader->file != NULL) {
        fclose(reader->file);
    }
    free(reader);
}

/* ---- writing ------------------------------------------------------------------------------- */

static bool write_rows(struct image_writer *writer, const uint8_t *gray, uint32_t width, uint32_t height)
{
    errno = 0;
    if (setjmp(png_jmpbuf(writer->png)) != 0) {
        return false;
    }
    png_init_io(writer->png, writer->file);
    png_set_compression_level(writer->png, COMPRESSION_LEVEL);
    png_set_IHDR(writer->png, writer->info, width, height, 8, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(writer->png, writer->info);
    for (uint32_t y = 0; y < height; y++) {
        png_write_row(writer->png, gray + (size_t)y * width);
    }
    png_write_end(writer->png, NULL);
    return true;
}

static bool write_file(struct image_writer *writer, const char *path, const uint8_t *gray, uint32_t width,
                       uint32_t height)
{
    writer->png = png_create_write_struct(PNG_LIBPNG_VER_STRING, writer->reason, on_error, on_warning);
    writer->info = writer->png != NULL ? png_create_info_struct(writer->png) : NULL;
    if (writer->info == NULL) {
        snprintf(writer->reason, IMAGE_ERROR_BYTES, "out of memory");
        png_destroy_write_struct(&writer->png, NULL);
        return false;
    }
    bool written = false;
    writer->file = fopen(path, "wb");
    if (writer->file == NULL) {
        snprintf(writer->reason, IMAGE_ERROR_BYTES, "cannot be created: %s", strerror(errno));
    } else {
        written = write_rows(writer, gray, width, height);
        /* The last bytes reach the file here, and so may the last error. */
        if (fclose(writer->file) != 0 && written) {
            snprintf(writer->reason, IMAGE_ERROR_BYTES, "cannot be written: %s", strerror(errno));
            written = false;
        }
    }
    png_destroy_write_struct(&writer->png, &writer->info);
    return written;
}

bool image_write_gray(const char *path, const uint8_t *gray, uint32_t width, uint32_t height,
                      char error[IMAGE_ERROR_BYTES])
{
    struct image_writer writer = {.file = NULL};
    char *temporary = NULL;
    if (asprintf(&temporary, "%s.part", path) < 0) {
        snprintf(error, IMAGE_ERROR_BYTES, "out of memory");
        return false;
    }
    bool written = write_file(&writer, temporary, gray, width, height);
    if (written && rename(temporary, path) != 0) {
        snprintf(writer.reason, IMAGE_ERROR_BYTES, "cannot be renamed: %s", strerror(errno));
        written = false;
    }
    if (!written) {
        remove(temporary);
        memcpy(error, writer.reason, IMAGE_ERROR_BYTES);
    }
    free(temporary);
    return written;
}
