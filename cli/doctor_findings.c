/* SPDX-License-Identifier: MIT */
/* The list of what `gantry doctor` found. */
#include "cli/doctor.h"

#include <stdarg.h>
#include <stdio.h>

void cli_doctor_add(struct findings *findings, const char *name, enum finding_state state, const char *advice,
                    const char *format, ...)
{
    if (findings->count == MOST_FINDINGS) {
        return;
    }
    struct finding *one = &findings->at[findings->count++];
    one->name = name;
    one->state = state;
    snprintf(one->advice, sizeof(one->advice), "%s", advice);
    va_list args;
    va_start(args, format);
    vsnprintf(one->found, sizeof(one->found), format, args);
    va_end(args);
}
