/* SPDX-License-Identifier: MIT */
/* Names of files that variables of the environment give, and why a file cannot be written. */
#ifndef BASE_FILE_NAME_H
#define BASE_FILE_NAME_H

#include <gantry/base.h>

#include <stddef.h>
#include <stdio.h>

/* Write the file's name that the variable's `text` stands for into `out`: %p is the number of the process, %h
 * the name of the host, %q{NAME} the variable of that name, and %% a percent sign.
 * @retval GANTRY_OK
 * @retval GANTRY_ERR_INVALID_ARGUMENT  another character behind a %, a NAME that is not set, or a name that
 * is too long; `variable` is named */
GANTRY_MUST_CHECK gantry_status gy_file_name(const char *variable, const char *text, char *out, size_t room);

/* Why writing to the file has failed.  Of a write in the midst of many stdio keeps only that it failed, so
 * this tries again, with the end of a line; the text is the C library's and does not depend on the locale. */
const char *gy_file_failure(FILE *file);

#endif
