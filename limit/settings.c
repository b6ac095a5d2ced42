/* SPDX-License-Identifier: MIT */
/* The settings of a job as text, for the environment. */
#include "limit/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t offset;
} fields[] = {
#define FIELD(name)                                      \
    {                                                    \
#name, offsetof(struct gy_region_settings, name) \
    }
    FIELD(share),     FIELD(devices), FIELD(overrun), FIELD(overrun_ms),
    FIELD(credit_ms), FIELD(copies),  FIELD(strict),  FIELD(verbose),
#undef FIELD
};
enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };

bool gy_job_parse(const char *text, struct gy_region_settings *out)
{
    struct gy_region_settings read = {.share = 0};
    for (int i = 0; i < FIELDS; i++) {
        const size_t bytes = strlen(fields[i].name);
        if (strncmp(text, fields[i].name, bytes) != 0 || text[bytes] != '=' || text[bytes + 1] < '0' ||
            text[bytes + 1] > '9') {
            return false;
        }
        char *end;
        const unsigned long value = strtoul(text + bytes + 1, &end, 10);
        if (value > UINT32_MAX || *end != (i == FIELDS - 1 ? '\0' : ' ')) {
            return false;
        }
        const uint32_t number = (uint32_t)value;
        memcpy((char *)&read + fields[i].offset, &number, sizeof(number));
        text = end + 1;
    }
    if (!gy_region_settings_are_valid(&read)) {
        return false;
    }
    *out = read;
    return true;
}

int gy_job_print(char *text, size_t room, const struct gy_region_settings *settings)
{
    int used = 0;
    for (int i = 0; i < FIELDS && used >= 0 && (size_t)used < room; i++) {
        uint32_t number;
        memcpy(&number, (const char *)settings + fields[i].offset, sizeof(number));
        used +=
            snprintf(text + used, room - (size_t)used, "%s%s=%u", i > 0 ? " " : "", fields[i].name, number);
    }
    return used;
}
