/* SPDX-License-Identifier: MIT */
/* Images that another API has exported, as the emulated driver's copies see them. */
#ifndef EMULATOR_IMAGE_H
#define EMULATOR_IMAGE_H

#include "emulator/context.h"

struct image;

/* A level of an image. */
struct gy_emu_array {
    struct gy_emu_object object;
    char *bytes;      /* of its first row */
    size_t pitch;     /* from one row to the next */
    size_t row_bytes; /* of a row that are the image's */
    size_t rows;
    struct image *image;
};

/* NULL: the handle is not an array's, or no longer. */
struct gy_emu_array *gy_emu_array_find(CUarray handle);

/* Close everything that a context which ends has mapped, and its surfaces. */
void gy_emu_images_close_all(struct gy_emu_context *root);

#endif
