/* SPDX-License-Identifier: MIT */
/* Looks for a text in a file. */
#ifndef TESTS_SUPPORT_FILE_HAS_H
#define TESTS_SUPPORT_FILE_HAS_H

#include "tests/support/cmocka_c11.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Is the text in the first MiB of the file?  The file must be there. */
static inline bool file_has(const char *path, const char *text)
{
    static char data[1 << 20];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t count = fread(data, 1, sizeof(data), file);
    (void)fclose(file);
    return memmem(data, count, text, strlen(text)) != NULL;
}

#endif
