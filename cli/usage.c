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
