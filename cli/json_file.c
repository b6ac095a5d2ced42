/* SPDX-License-Identifier: MIT */
#include "cli/json_file.h"

#ifdef GANTRY_HAVE_CJSON

#include "cli/command.h"
#include "cli/text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads to the end of the file, or one byte more than `most`.  False: the file cannot be read, see errno. */
static bool read_all(FILE *file, size_t most, char **text, size_t *bytes)
{
    size_t room = 0;
    *bytes = 0;
    while (!feof(file) && *bytes <= most) {
        if (*bytes + 1 >= room) {
            room = room != 0 ? 2 * room : 1 << 16;
            char *larger = realloc(*text, room);
            if (larger == NULL) {
                return false;
            }
            *text = larger;
        }
        *bytes += fread(*text + *bytes, 1, room - 1 - *bytes, file);
        if (ferror(file)) {
            return false;
        }
    }
    (*text)[*bytes] = '\0';
    return true;
}

static char *read_file(const char *path, size_t most, size_t *bytes)
{
    char *text = NULL;
    errno = 0;
    FILE *file = fopen(path, "rb");
    bool good = file != NULL && read_all(file, most, &text, bytes);
    if (!good) {
        cli_error("%s: %s", path, strerror(errno));
    } else if (*bytes == 0 || *bytes > most) {
        cli_error("%s: empty, or longer than %zu KiB", path, most >> 10);
        good = false;
    }
    if (file != NULL) {
        fclose(file);
    }
    if (!good) {
        free(text);
        return NULL;
    }
    return text;
}

/* `at`: the place in the text. */
static bool refuse_text(const char *path, const char *text, const char *at, const char *why)
{
    int line = 1;
    for (const char *c = text; c < at; c++) {
        line += *c == '\n';
    }
    char shown[20 * 4 + 1] = ""; /* of 20 columns; a character has four bytes at most */
    FILE *buffer = fmemopen(shown, sizeof(shown), "w");
    if (buffer != NULL) {
        size_t rest = strcspn(at, "\r\n");
        cli_print_text(buffer, at, 0, rest < 20 ? (unsigned)rest : 20);
        fclose(buffer);
    }
    cli_error("%s:%d: %s \"%s\"", path, line, why, shown);
    return false;
}

/* A recording begins with the tag of a packet, and soon has bytes that no text has. */
static bool is_recording(const char *text, size_t bytes)
{
    bool strange = false;
    for (size_t i = 1; i < bytes && i < 64; i++) {
        strange = strange || (unsigned char)text[i] < '\t';
    }
    return bytes != 0 && text[0] == '\n' && strange;
}

/* The text must be one object, with nothing behind it. */
static bool check_text(const char *path, const char *text, size_t bytes, const char *end,
                       const cJSON *document)
{
    if (document == NULL && is_recording(text, bytes)) {
        cli_error("%s: no JSON object; this looks like a recording: gantry report trace %s", path, path);
        return false;
    }
    if (document == NULL) {
        return refuse_text(path, text, end, "no JSON object: a mistake before");
    }
    if (!cJSON_IsObject(document)) {
        cli_error("%s: no JSON object, but another value", path);
        return false;
    }
    end += strspn(end, " \t\r\n");
    if (*end != '\0') {
        return refuse_text(path, text, end, "text after the object:");
    }
    if (end != text + bytes) {
        cli_error("%s: a byte of value 0 after the object", path);
        return false;
    }
    return true;
}

cJSON *cli_json_read(const char *path, size_t most_bytes, char **text)
{
    size_t bytes;
    char *read = read_file(path, most_bytes, &bytes);
    if (read == NULL) {
        return NULL;
    }
    const char *end = read;
    cJSON *document = cJSON_ParseWithOpts(read, &end, false);
    const bool good = check_text(path, read, bytes, end, document);
    if (!good) {
        cJSON_Delete(document);
        document = NULL;
    }
    if (good && text != NULL) {
        *text = read;
    } else {
        free(read);
    }
    return document;
}

#endif
