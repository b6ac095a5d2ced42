#include "partition/limit.h"

#include "base/alloc.h"
#include "base/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIMIT "CUDA_DEVICE_SM_LIMIT"
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

/* The text after `key` and an equals sign; NULL: this is another line. */
static const char *value_of(const char *line, const char *key)
{
    line += strspn(line, " \t");
    size_t length = strlen(key);
    if (strncmp(line, key, length) != 0) {
        return NULL;
    }
    line += length + strspn(line + length, " \t");
    return *line == '=' ? line + 1 : NULL;
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
    return GANTRY_OK;
}

/* Read lines of KEY=VALUE; other keys belong to others. */
static gantry_status read_file(const char *path, double *out)
{
    char *text = gy_zalloc(MOST_BYTES + 1), *rest = NULL;
    if (text == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for reading %s", path);
    }
    gantry_status status = read_text(path, text);
    char *line = status == GANTRY_OK ? strtok_r(text, "\r\n", &rest) : NULL;
    for (; line != NULL && status == GANTRY_OK; line = strtok_r(NULL, "\r\n", &rest)) {
        const char *limit = value_of(line, LIMIT);
        if (limit != NULL) {
            status = parse_limit(limit, path, out);
        }
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
