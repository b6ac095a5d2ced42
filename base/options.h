/* SPDX-License-Identifier: MIT */
/* Option and statistics structs of callers, whatever version they were compiled with. */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include "base/status.h"

#include <string.h>

/* Copy `theirs` (first member: size_t struct_size) into the zeroed `ours`.  An older caller leaves our
 * newer tail at zero, which means default; a newer caller is refused only if it uses a field that this
 * library does not know.  NULL `theirs`: all defaults. */
static inline gantry_status gy_options_import(void *ours, size_t ours_size, const void *theirs,
                                              size_t min_size, const char *what)
{
    if (theirs == NULL) {
        return GANTRY_OK;
    }
    size_t their_size;
    memcpy(&their_size, theirs, sizeof(their_size));
    if (their_size < min_size) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: struct_size %zu is too small", what, their_size);
    }
    for (size_t i = ours_size; i < their_size; i++) {
        if (((const unsigned char *)theirs)[i] != 0) {
            return GY_FAIL(GANTRY_ERR_UNSUPPORTED, "%s: byte %zu is set, which this version does not know",
                           what, i);
        }
    }
    memcpy(ours, theirs, their_size < ours_size ? their_size : ours_size);
    return GANTRY_OK;
}

/* Fill a caller's statistics struct of any age from `ours`, keeping its struct_size. */
static inline gantry_status gy_stats_export(void *theirs, const void *ours, size_t ours_size,
                                            const char *what)
{
    if (theirs == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: statistics struct is NULL", what);
    }
    size_t their_size;
    memcpy(&their_size, theirs, sizeof(their_size));
    if (their_size < sizeof(size_t) * 2) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: struct_size %zu is too small", what, their_size);
    }
    size_t bytes = their_size < ours_size ? their_size : ours_size;
    memcpy((char *)theirs + sizeof(size_t), (const char *)ours + sizeof(size_t), bytes - sizeof(size_t));
    return GANTRY_OK;
}

#endif
