/* SPDX-License-Identifier: MIT */
#include "partition/limit.h"

#include "base/alloc.h"
#include "base/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIMIT "CUDA_DEVICE_SM_LIMIT"
#define RETIRED "quota_controller"
#define MOST_BYTES 65536 /* the most bytes of a file */

static gantry_status parse_limit(const char *text, const char *where, double *out)
{
    char *end;
    size_t blank = strspn(text, " \t");
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    bool digits = text[blank] >= '0' && text[blank] <= '9';
    if (!digits || errno != 0 || end[strspn(end, " \t\r\n")] != '\0') {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       LIMIT "=%.40s in %s: percent of GPU time, 1 to 99; 0, or 100 and more, is no limit",
                       text, where);
    }
    *out = value >= 1 && value <= 99 ? (double)value : 0;
    return GANTRY_OK;
}

/* Blank, or a comment. */
static bool says_nothing(const char *line)
{
    line += strspn(line, " \t\r");
    return *line == '\0' || *line == '#';
}

/* A limit that is spelled in another way is none, so what is not understood is refused. */
static gantry_status read_line(const char *line, const char *path, unsigned number, double *out)
{
    char where[300];
    if (says_nothing(line)) {
        return GANTRY_OK;
    }
    (void)snprintf(where, sizeof(where), "%.240s, line %u", path, number);
    const char *key = line + strspn(line, " \t");
    const bool is_limit = strncmp(key, LIMIT, sizeof(LIMIT) - 1) == 0;
    const char *after = is_limit ? key + sizeof(LIMIT) - 1 : key;
    after += strspn(after, " \t");
    if (is_limit && *after == '=') {
        return parse_limit(after + 1, where, out);
    }
    return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                   "GANTRY_CONFIG: %s is \"%.40s\", not " LIMIT "=PERCENT or a comment (#)%s", where, line,
                   strstr(line, RETIRED) != NULL ? "; shares of GPU time keep the limit, without " RETIRED
                                                 : "");
}

static gantry_status cannot_read(const char *path, const char *why)
{
    return GY_FAIL(GANTRY_ERR_IO, "GANTRY_CONFIG: %s: %s", path, why);
}

/* Read the whole file, NUL-terminated, into MOST_BYTES + 1 bytes of `text`.  Some files never end, and some
 * block the thread that opens or reads them. */
static gantry_status read_text(const char *path, char *text)
{
    size_t used = 0;
    ssize_t bytes = 1;
    struct stat info;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        return cannot_read(path, strerrordesc_np(errno));
    }
    bool is_known = fstat(file, &info) == 0;
    while (is_known && S_ISREG(info.st_mode) && bytes != 0 && used <= MOST_BYTES) {
        bytes = read(file, text + used, MOST_BYTES + 1 - used);
        if (bytes < 0 && errno != EINTR) {
            break;
        }
        used += bytes > 0 ? (size_t)bytes : 0;
    }
    int error = errno;
    close(file);
    if (!is_known || bytes < 0) {
        return cannot_read(path, strerrordesc_np(error));
    }
    if (!S_ISREG(info.st_mode)) {
        return cannot_read(path, "it is no regular file");
    }
    if (used > MOST_BYTES) {
        return GY_FAIL(GANTRY_ERR_IO, "GANTRY_CONFIG: %s has more than %d bytes", path, MOST_BYTES);
    }
    text[used] = '\0';
    return strlen(text) == used ? GANTRY_OK : cannot_read(path, "it is no text: there is a zero byte in it");
}

static gantry_status read_file(const char *path, double *out)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf"; /* editors put it before UTF-8 */
    char *text = gy_zalloc(MOST_BYTES + 1);
    if (text == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for reading %s", path);
    }
    gantry_status status = read_text(path, text);
    const bool has_mark = status == GANTRY_OK && strncmp(text, byte_order_mark, 3) == 0;
    char *rest = has_mark ? text + 3 : text;
    for (unsigned number = 1; rest != NULL && status == GANTRY_OK; number++) {
        status = read_line(strsep(&rest, "\n"), path, number, out);
    }
    gy_free(text);
    return status;
}

gantry_status gy_limit_read(double *out)
{
    const char *limit = gy_environment(LIMIT), *path = gy_environment("GANTRY_CONFIG");
    double found = 0;
    gantry_status status = path != NULL ? read_file(path, &found) : GANTRY_OK;
    if (status == GANTRY_OK && limit != NULL) {
        status = parse_limit(limit, "the environment", &found);
    }
    if (status == GANTRY_OK) {
        *out = found;
    }
    return status;
}
