/* SPDX-License-Identifier: MIT */
#include "cli/program.h"

#include "cli/command.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void cli_program_print(FILE *file, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (file != stderr) {
        (void)vfprintf(file, format, args);
        va_end(args);
        return;
    }
    int bytes = vasprintf(&text, format, args);
    va_end(args);
    if (bytes > 0 && text[bytes - 1] == '\n') {
        text[bytes - 1] = '\0';
    }
    cli_log_to_stderr(NULL, GANTRY_LOG_ERROR, bytes >= 0 ? text : format);
    free(bytes >= 0 ? text : NULL);
}
