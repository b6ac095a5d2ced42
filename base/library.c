/* SPDX-License-Identifier: MIT */
#include "base/library.h"

#include <dlfcn.h>
#include <locale.h>
#include <stdio.h>

/* The C library puts the text together, and translates it, when it is asked for. */
const char *gy_library_error(char *out, size_t room)
{
    locale_t english = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t before = english != (locale_t)0 ? uselocale(english) : (locale_t)0;
    const char *text = dlerror();
    (void)snprintf(out, room, "%s", text != NULL ? text : "");
    if (english != (locale_t)0) {
        (void)uselocale(before);
        freelocale(english);
    }
    return out;
}
