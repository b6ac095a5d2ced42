/* SPDX-License-Identifier: MIT */
/* Shared libraries that are opened at run time. */
#ifndef BASE_LIBRARY_H
#define BASE_LIBRARY_H

#include <stddef.h>

/* dlerror(), in English whatever language the calling thread has chosen: it is part of errors, which are
 * English, and is searched for words.  Returns `out`, with "" when there is no error. */
const char *gy_library_error(char *out, size_t room);

#endif
