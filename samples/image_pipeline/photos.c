/* SPDX-License-Identifier: MIT */
#include "samples/image_pipeline/photos.h"

#include "cli/messages.h"
#include "samples/image_pipeline/png_io.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static size_t stem_length(const char *name)
{
    return strlen(name) - strlen(".png");
}

static bool same_stem(const char *a, const char *b)
{
    size_t length = stem_length(a);
    return length == stem_length(b) && memcmp(a, b, length) == 0;
}

static int is_png(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 4 && strcasecmp(entry->d_name + length - 4, ".png") == 0;
}

/* By stem, so that those that differ in nothing else are neighbours. */
static int by_stem(const struct dirent **a, const struct dirent **b)
{
    const char *name_a = (*a)->d_name, *name_b = (*b)->d_name;
    size_t length_a = stem_length(name_a), length_b = stem_length(name_b);
    int order = memcmp(name_a, name_b, length_a < length_b ? length_a : length_b);
    if (order == 0) {
        order = (length_a > length_b) - (length_a < length_b);
    }
    return order != 0 ? order : strcmp(name_a, name_b);
}

static void free_photo(struct photo *photo)
{
    free(photo->name);
    free(photo->path);
    free(photo->edges_path);
    free(photo->result_path);
    free(photo->first);
}

/* NULL when out of memory. */
static char *join(const char *folder, const char *name, size_t name_length, const char *suffix)
{
    char *path = NULL;
    return asprintf(&path, "%s/%.*s%s", folder, (int)name_length, name, suffix) < 0 ? NULL : path;
}

static bool init_photo(struct photo *photo, const char *input, const char *output, const char *name)
{
    *photo = (struct photo){
        .name = strdup(name),
        .path = join(input, name, strlen(name), ""),
        .edges_path = join(output, name, stem_length(name), "_edges.png"),
        .result_path = join(output, name, stem_length(name), "_result.png"),
    };
    if (photo->name == NULL || photo->path == NULL || photo->edges_path == NULL ||
        photo->result_path == NULL) {
        free_photo(photo);
        cli_error("image_pipeline: out of memory");
        return false;
    }
    return true;
}

static bool add_photo(struct photo_list *list, const char *input, const char *output, const char *name)
{
    const struct photo *last = list->count > 0 ? &list->photos[list->count - 1] : NULL;
    if (last != NULL && same_stem(last->name, name)) {
        cli_error("image_pipeline: %s/%s: left out, its results would overwrite those of %s", input, name,
                  last->name);
        list->refused++;
        return true;
    }
    struct photo *photo = &list->photos[list->count];
    if (!init_photo(photo, input, output, name)) {
        return false;
    }
    /* A folder or a pipe of such a name is not meant; what cannot be examined is the decoder's to report. */
    struct stat info;
    if (stat(photo->path, &info) == 0 && !S_ISREG(info.st_mode)) {
        free_photo(photo);
        return true;
    }
    list->count++;
    return true;
}

static bool add_all(struct photo_list *list, struct dirent **entries, size_t count, const char *input,
                    const char *output)
{
    list->photos = calloc(count + 1, sizeof(*list->photos));
    if (list->photos == NULL) {
        cli_error("image_pipeline: out of memory");
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!add_photo(list, input, output, entries[i]->d_name)) {
            return false;
        }
    }
    if (list->count == 0) {
        cli_error("image_pipeline: %s: there is no PNG file in this folder", input);
        return false;
    }
    return true;
}

bool photos_find(const char *input, const char *output, struct photo_list *out)
{
    struct dirent **entries = NULL;
    int count = scandir(input, &entries, is_png, by_stem);
    if (count < 0) {
        cli_error("image_pipeline: %s: cannot be listed: %s", input, strerror(errno));
        return false;
    }
    struct photo_list list = {NULL, 0, 0};
    bool found = add_all(&list, entries, (size_t)count, input, output);
    for (int i = 0; i < count; i++) {
        free(entries[i]);
    }
    free(entries);
    if (!found) {
        photos_free(&list);
        return false;
    }
    *out = list;
    return true;
}

uint64_t photos_most_pixels(const struct photo_list *list)
{
    uint64_t most = 0;
    for (size_t i = 0; i < list->count; i++) {
        char error[IMAGE_ERROR_BYTES];
        struct image_reader *reader;
        if (image_reader_open(list->photos[i].path, &reader, error)) {
            uint64_t pixels = (uint64_t)image_reader_width(reader) * image_reader_height(reader);
            most = pixels > most ? pixels : most;
            image_reader_close(reader);
        }
    }
    return most;
}

void photos_free(struct photo_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free_photo(&list->photos[i]);
    }
    free(list->photos);
    *list = (struct photo_list){NULL, 0, 0};
}

/* ---- the output folder --------------------------------------------------------------------- */

/* mkdir -p.  False with errno. */
static bool make_folders(const char *path)
{
    char *copy = strdup(path);
    if (copy == NULL) {
        return false;
    }
    bool made = true;
    for (char *slash = copy + 1; made && copy[0] != '\0' && (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        made = mkdir(copy, 0777) == 0 || errno == EEXIST;
        *slash = '/';
    }
    made = made && (mkdir(path, 0777) == 0 || errno == EEXIST);
    int cause = errno;
    free(copy);
    errno = cause;
    return made;
}

/* Permissions alone do not tell: the file system may be read-only.  False with errno. */
static bool can_write_to(const char *folder)
{
    char *probe = NULL;
    if (asprintf(&probe, "%s/.gantry-XXXXXX", folder) < 0) {
        errno = ENOMEM;
        return false;
    }
    int file = mkstemp(probe);
    int cause = errno;
    if (file >= 0) {
        close(file);
        unlink(probe);
    }
    free(probe);
    errno = cause;
    return file >= 0;
}

bool photos_prepare_output(const char *input, const char *output)
{
    if (!make_folders(output) || !can_write_to(output)) {
        cli_error("image_pipeline: %s: results cannot be written there: %s", output, strerror(errno));
        return false;
    }
    struct stat in, out;
    if (stat(input, &in) == 0 && stat(output, &out) == 0 && in.st_dev == out.st_dev &&
        in.st_ino == out.st_ino) {
        cli_error("image_pipeline: %s: the results need a folder of their own", output);
        return false;
    }
    return true;
}
