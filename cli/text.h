/* SPDX-License-Identifier: MIT */
/* Text that comes from elsewhere is printed without harm: on a terminal, and as JSON. */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <limits.h>
#include <stdio.h>

/* Text that comes from a file, to be read on a terminal: control characters and bytes that are no UTF-8 are
 * printed as \x1b.  It is cut after `most` columns (a character is one) and filled up to `width` with spaces.
 */
#define CLI_ANY_LENGTH UINT_MAX
void cli_print_text(FILE *file, const char *text, unsigned width, unsigned most);

/* Text as a JSON string, with its quotes; bytes that are no UTF-8 become U+FFFD. */
void cli_json_string(FILE *file, const char *text);

#endif
