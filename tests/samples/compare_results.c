/* SPDX-License-Identifier: MIT */
/* Hold the image pipeline's results against the plain C reference.
 *
 * Usage: compare_results INPUT OUTPUT
 *
 * Every photo of INPUT that can be read must have both results in OUTPUT, each pixel within one level.
 * Exit status 0 when all do and there was at least one. */
#include "samples/image_pipeline/png_io.h"
#include "samples/image_pipeline/reference.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct image {
    uint8_t *rgb;
    uint32_t width, height;
};

static bool read_image(const char *path, struct image *out, char error[IMAGE_ERROR_BYTES])
{
    struct image_reader *reader;
    if (!image_reader_open(path, &reader, error)) {
        return false;
    }
    struct image image = {.width = image_reader_width(reader), .height = image_reader_height(reader)};
    image.rgb = malloc((size_t)image.width * image.height * 3);
    bool read = image.rgb != NULL && image_reader_read(reader, image.rgb, error);
    image_reader_close(reader);
    if (!read) {
        free(image.rgb);
        return false;
    }
    *out = image;
    return true;
}

/* Compare the result in `path` with the gray image `expected`. */
static bool compare(const char *path, const uint8_t *expected, uint32_t width, uint32_t height)
{
    struct image result;
    char error[IMAGE_ERROR_BYTES] = "out of memory";
    if (!read_image(path, &result, error)) {
        printf("%s: %s\n", path, error);
        return false;
    }
    bool good = result.width == width && result.height == height;
    if (!good) {
        printf("%s: %u x %u pixels, not %u x %u\n", path, result.width, result.height, width, height);
    }
    size_t off_by_one = 0;
    for (size_t i = 0; good && i < (size_t)width * height; i++) {
        int difference = abs(result.rgb[3 * i] - expected[i]);
        off_by_one += difference == 1;
        if (difference > 1) {
            printf("%s: pixel %zu, %zu is %u, not %u\n", path, i % width, i / width, result.rgb[3 * i],
                   expected[i]);
            good = false;
        }
    }
    if (good && off_by_one > 0) {
        printf("%s: %zu pixels are one level off\n", path, off_by_one);
    }
    free(result.rgb);
    return good;
}

static bool compare_both(const struct image *photo, const char *output, const char *name)
{
    size_t pixels = (size_t)photo->width * photo->height;
    uint8_t *edges = malloc(2 * pixels);
    if (edges == NULL ||
        !reference_pipeline(photo->rgb, photo->width, photo->height, edges, edges + pixels)) {
        printf("out of memory\n");
        free(edges);
        return false;
    }
    char path[4096];
    int stem = (int)(strlen(name) - 4);
    snprintf(path, sizeof(path), "%s/%.*s_edges.png", output, stem, name);
    bool good = compare(path, edges, photo->width, photo->height);
    snprintf(path, sizeof(path), "%s/%.*s_result.png", output, stem, name);
    good = compare(path, edges + pixels, photo->width, photo->height) && good;
    free(edges);
    return good;
}

static int is_png(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 4 && strcasecmp(entry->d_name + length - 4, ".png") == 0;
}

int main(int argc, char **argv)
{
    struct dirent **entries;
    int count = argc == 3 ? scandir(argv[1], &entries, is_png, alphasort) : -1;
    if (count < 0) {
        fprintf(stderr, "usage: compare_results INPUT OUTPUT\n");
        return 2;
    }
    int compared = 0;
    bool good = true;
    for (int i = 0; i < count; i++) {
        char path[4096];
        char error[IMAGE_ERROR_BYTES];
        struct image photo;
        snprintf(path, sizeof(path), "%s/%s", argv[1], entries[i]->d_name);
        if (read_image(path, &photo, error)) {
            good = compare_both(&photo, argv[2], entries[i]->d_name) && good;
            free(photo.rgb);
            compared++;
        }
        free(entries[i]);
    }
    free(entries);
    printf("%d photos compared\n", compared);
    return good && compared > 0 ? 0 : 1;
}
