/* SPDX-License-Identifier: MIT */
/* The photos of a folder and where their results go. */
#ifndef SAMPLES_IMAGE_PIPELINE_PHOTOS_H
#define SAMPLES_IMAGE_PIPELINE_PHOTOS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct photo {
    char *name;         /* file name in the input folder */
    char *path;         /* immutable, as is `name` */
    char *edges_path;   /* immutable; no other photo writes to it */
    char *result_path;  /* immutable; no other photo writes to it */
    atomic_bool failed; /* atomic; never goes back to false */
    /* What the first round wrote, for later rounds to compare with.  The graph orders the rounds' encode
     * tasks: written by the first, read by the others. */
    uint8_t *first;
    size_t first_bytes;
};

struct photo_list {
    struct photo *photos; /* in the order of their names */
    size_t count;
    size_t refused; /* files left out because they would write another one's results */
};

/* Find the PNG files (by extension, any case) in folder `input`; symbolic links are followed.  Says on
 * stderr what is wrong, also for files it refuses; false when nothing can be processed. */
bool photos_find(const char *input, const char *output, struct photo_list *out);

/* Pixels of the largest, by what their headers say; a photo that cannot be read has none. */
uint64_t photos_most_pixels(const struct photo_list *list);

void photos_free(struct photo_list *list);

/* Create `output` with its parents and make sure that files can be written there, and that it is not
 * `input` under another name: results would be the next run's photos.  False after telling on stderr. */
bool photos_prepare_output(const char *input, const char *output);

#endif
