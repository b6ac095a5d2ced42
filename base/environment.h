/* SPDX-License-Identifier: MIT */
/* Variables of the environment: the library reads them by these functions only. */
#ifndef BASE_ENVIRONMENT_H
#define BASE_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Returns the value; NULL when the variable is not set or is empty.  It is NULL, too, in a program that runs
 * with more rights than the user who started it (setuid, setgid, capabilities), since several variables name
 * files that are written or libraries that are loaded.  The string belongs to the process. */
static inline const char *gy_environment(const char *name)
{
    const char *text = secure_getenv(name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

/* gy_environment(), except that a variable which is set to "" is returned as "". */
static inline const char *gy_environment_even_empty(const char *name)
{
    return secure_getenv(name);
}

/* Is the variable set, and not to 0? */
static inline bool gy_environment_is_on(const char *name)
{
    const char *text = gy_environment(name);
    return text != NULL && strcmp(text, "0") != 0;
}

#endif
