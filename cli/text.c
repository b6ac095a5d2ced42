/* SPDX-License-Identifier: MIT */
#include "cli/text.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character that begins here; 0: it is no UTF-8.  The text ends with a zero, which continues
 * nothing. */
static size_t character_bytes(const unsigned char *c)
{
    if (c[0] < 0x80) {
        return 1;
    }
    size_t bytes = c[0] >= 0xc2 && c[0] <= 0xdf   ? 2
                   : (c[0] & 0xf0) == 0xe0        ? 3
                   : c[0] >= 0xf0 && c[0] <= 0xf4 ? 4
                                                  : 0;
    for (size_t i = 1; i < bytes; i++) {
        if ((c[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool is_other_form = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) ||
                         (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f);
    return is_other_form ? 0 : bytes;
}

/* C0, DEL, and C1, which UTF-8 has as 0xc2 0x80 to 0xc2 0x9f. */
static bool is_control(const unsigned char *c)
{
    return c[0] < 0x20 || c[0] == 0x7f || (c[0] == 0xc2 && c[1] < 0xa0);
}

void cli_print_text(FILE *file, const char *text, unsigned width, unsigned most)
{
    unsigned columns = 0;
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0';) {
        size_t bytes = character_bytes(c);
        bool is_shown = bytes != 0 && !is_control(c);
        unsigned needed = is_shown ? 1 : 4 * (bytes != 0 ? (unsigned)bytes : 1);
        if (most - columns < needed) {
            break;
        }
        columns += needed;
        if (is_shown) {
            fwrite(c, 1, bytes, file);
        }
        for (size_t i = 0; !is_shown && i < (bytes != 0 ? bytes : 1); i++) {
            fprintf(file, "\\x%02x", c[i]);
        }
        c += bytes != 0 ? bytes : 1;
    }
    fprintf(file, "%*s", columns < width ? (int)(width - columns) : 0, "");
}

void cli_json_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0';) {
        size_t bytes = character_bytes(c);
        if (bytes == 0) {
            fputs("\\ufffd", file);
        } else if (*c == '"' || *c == '\\') {
            fprintf(file, "\\%c", *c);
        } else if (*c < 0x20 || *c == '<') { /* '<': the text may stand in a page's script */
            fprintf(file, "\\u%04x", *c);
        } else {
            fwrite(c, 1, bytes, file);
        }
        c += bytes != 0 ? bytes : 1;
    }
    fputc('"', file);
}
