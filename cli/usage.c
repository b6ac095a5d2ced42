#include "cli/command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cli_usage_error(const char *format, ...)
{
    fputs("gantry: ", stderr);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputs("\nTry 'gantry help'.\n", stderr);
    return CLI_USAGE;
}

int cli_option_error(int result, char *const *argv)
{
    const char *shown = argv[optind - 1];
    char where[32] = "";
    if (strcmp(argv[0], "gantry") != 0) {
        snprintf(where, sizeof(where), "%s: ", argv[0]);
    }
    if (result == ':') {
        return cli_usage_error("%soption %s needs an argument", where, shown);
    }
    /* getopt_long() leaves optopt at 0 for an unknown long option, at the letter for an unknown short one,
     * and at the option's own value for an argument it does not take. */
    if (optopt == 0) {
        return cli_usage_error("%sunknown option %s", where, shown);
    }
    if (shown[0] == '-' && shown[1] == '-') {
        return cli_usage_error("%soption %s takes no argument", where, shown);
    }
    return cli_usage_error("%sunknown option -%c", where, optopt);
}

int cli_value_error(const char *sample, const struct option *option)
{
    return cli_usage_error("%s: --%s does not take '%s', see `gantry run %s --help`", sample, option->name,
                           optarg, sample);
}

bool cli_parse_number(const char *text, unsigned long low, unsigned long high, unsigned long *out)
{
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno != 0 || *end != '\0' || value < low || value > high) {
        return false;
    }
    *out = value;
    return true;
}

bool cli_parse_driver(const char *text, gantry_driver_choice *out)
{
    static const char *const names[] = {
        [GANTRY_DRIVER_AUTO] = "auto", [GANTRY_DRIVER_CUDA] = "cuda", [GANTRY_DRIVER_EMULATED] = "emulated"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = (gantry_driver_choice)i;
            return true;
        }
    }
    return false;
}

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
