/* Variables of the environment: the one way in which the library reads them. */
#ifndef BASE_ENVIRONMENT_H
#define BASE_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The value; NULL when the variable is not set, or is empty, and always in a program that runs with more
 * rights than who started it (setuid, setgid, capabilities): several variables name files that are written or
 * libraries that are loaded.  The string is the process's. */
static inline const char *gy_environment(const char *name)
{
    const char *text = secure_getenv(name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

/* As the above, but a variable that is set to "" is "". */
static inline const char *gy_environment_even_empty(const char *name)
{
    return secure_getenv(name);
}

/* Set, and not to 0. */
static inline bool gy_environment_is_on(const char *name)
{
    const char *text = gy_environment(name);
    return text != NULL && strcmp(text, "0") != 0;
}

#endif
