/* SPDX-License-Identifier: MIT */
#include "base/file_name.h"

#include "base/environment.h"
#include "base/status.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HOST_BYTES 65 /* HOST_NAME_MAX of Linux, and the final 0 */
#define NAME_BYTES 128

/* What the characters behind a % stand for: `*in` passes them, and `word`, of `room` bytes, may keep the
 * value.  NULL: nothing; the error says why. */
static const char *read_one(const char *variable, const char **in, char *word, size_t room)
{
    const char *at = *in;
    const char *end = at[0] == 'q' && at[1] == '{' ? strchr(at, '}') : NULL;
    *in = at + 1;
    if (*at == 'p') {
        (void)snprintf(word, room, "%ld", (long)getpid());
        return word;
    }
    if (*at == 'h') {
        word[room - 1] = '\0';
        return gethostname(word, room - 1) == 0 ? word : "localhost";
    }
    if (*at == '%') {
        return "%";
    }
    if (end == NULL || (size_t)(end - at - 2) >= room) {
        (void)GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                      "$%s: '%%%.40s' is none of %%p (process), %%h (host), %%q{VARIABLE} and %%%%", variable,
                      at);
        return NULL;
    }
    memcpy(word, at + 2, (size_t)(end - at - 2));
    word[end - at - 2] = '\0';
    *in = end + 1;
    const char *value = gy_environment(word);
    if (value == NULL) {
        (void)GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "$%s: %%q{%s}: there is no such variable", variable, word);
    }
    return value;
}

gantry_status gy_file_name(const char *variable, const char *text, char *out, size_t room)
{
    size_t used = 0;
    for (const char *in = text; *in != '\0';) {
        char word[NAME_BYTES > HOST_BYTES ? NAME_BYTES : HOST_BYTES];
        const char *part = in, *percent = strchr(in, '%');
        size_t bytes = percent != NULL ? (size_t)(percent - in) : strlen(in);
        if (bytes == 0) {
            in = percent + 1;
            part = read_one(variable, &in, word, sizeof(word));
            if (part == NULL) {
                return GANTRY_ERR_INVALID_ARGUMENT;
            }
            bytes = strlen(part);
        } else {
            in += bytes;
        }
        if (bytes >= room - used) {
            return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "$%s: a name of %zu bytes and more is too long",
                           variable, room);
        }
        memcpy(out + used, part, bytes);
        used += bytes;
    }
    out[used] = '\0';
    return GANTRY_OK;
}

const char *gy_file_failure(FILE *file)
{
    clearerr(file);
    errno = 0;
    bool works = fputc('\n', file) != EOF && fflush(file) == 0;
    return works || errno == 0 ? "a write failed" : strerrordesc_np(errno);
}
