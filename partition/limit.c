#include "partition/limit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT "CUDA_DEVICE_SM_LIMIT"
#define CONTROLLER "quota_controller"

static gantry_status parse_limit(const char *text, const char *where, struct gy_limit *out)
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
    out->percent = value >= 1 && value <= 99 ? (double)value : 0;
    return GANTRY_OK;
}

/* `name` is what it is called there. */
static gantry_status parse_controller(const char *text, const char *name, const char *where,
                                      struct gy_limit *out)
{
    text += strspn(text, " \t\"");
    size_t length = strcspn(text, " \t\r\n\"");
    bool nvml = length == 4 && strncmp(text, "nvml", 4) == 0;
    if ((!nvml && (length != 6 || strncmp(text, "bucket", 6) != 0)) ||
        text[length + strspn(text + length, " \t\r\n\"")] != '\0') {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s=%.40s in %s: neither \"bucket\" nor \"nvml\"", name,
                       text, where);
    }
    out->by_nvml = nvml;
    return GANTRY_OK;
}

/* What follows `key` and an equals sign; NULL: another line. */
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

/* Lines of KEY=VALUE; others are somebody else's. */
static gantry_status read_file(const char *path, struct gy_limit *out)
{
    char line[256];
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return GY_FAIL(GANTRY_ERR_IO, "GANTRY_CONFIG: %s: %s", path, strerror(errno));
    }
    gantry_status status = GANTRY_OK;
    while (status == GANTRY_OK && fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\r\n")] = '\0';
        const char *limit = value_of(line, LIMIT), *controller = value_of(line, CONTROLLER);
        if (limit != NULL) {
            status = parse_limit(limit, path, out);
        } else if (controller != NULL) {
            status = parse_controller(controller, CONTROLLER, path, out);
        }
    }
    fclose(file);
    return status;
}

static const char *from_environment(const char *name)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

gantry_status gy_limit_read(const char *controller, struct gy_limit *out)
{
    const char *limit = from_environment(LIMIT), *path = from_environment("GANTRY_CONFIG");
    const char *other = from_environment("GANTRY_QUOTA_CONTROLLER");
    struct gy_limit found = {0, false};
    gantry_status status = path != NULL ? read_file(path, &found) : GANTRY_OK;
    if (status == GANTRY_OK && limit != NULL) {
        status = parse_limit(limit, "the environment", &found);
    }
    if (status == GANTRY_OK && controller != NULL) {
        status = parse_controller(controller, CONTROLLER, "gantry_context_options", &found);
    } else if (status == GANTRY_OK && other != NULL) {
        status = parse_controller(other, "GANTRY_QUOTA_CONTROLLER", "the environment", &found);
    }
    if (status == GANTRY_OK) {
        *out = found;
    }
    return status;
}
