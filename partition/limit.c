#include "partition/limit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY "CUDA_DEVICE_SM_LIMIT"

static gantry_status parse(const char *text, const char *where, double *out)
{
    char *end;
    size_t blank = strspn(text, " \t");
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    bool digits = text[blank] >= '0' && text[blank] <= '9';
    if (!digits || errno != 0 || end[strspn(end, " \t\r\n")] != '\0') {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       KEY "=%.40s in %s: percent of GPU time, 1 to 99; 0, or 100 and more, is no limit",
                       text, where);
    }
    *out = value >= 1 && value <= 99 ? (double)value : 0;
    return GANTRY_OK;
}

/* Lines of KEY=VALUE; others are somebody else's. */
static gantry_status read_file(const char *path, double *out)
{
    char line[256];
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return GY_FAIL(GANTRY_ERR_IO, "GANTRY_CONFIG: %s: %s", path, strerror(errno));
    }
    gantry_status status = GANTRY_OK;
    while (status == GANTRY_OK && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, KEY "=", sizeof(KEY)) == 0) {
            line[strcspn(line, "\r\n")] = '\0';
            status = parse(line + sizeof(KEY), path, out);
        }
    }
    fclose(file);
    return status;
}

gantry_status gy_limit_read(double *out)
{
    const char *text = getenv(KEY), *path = getenv("GANTRY_CONFIG");
    double limit = 0;
    gantry_status status = GANTRY_OK;
    if (text != NULL && text[0] != '\0') {
        status = parse(text, "the environment", &limit);
    } else if (path != NULL && path[0] != '\0') {
        status = read_file(path, &limit);
    }
    if (status == GANTRY_OK) {
        *out = limit;
    }
    return status;
}
