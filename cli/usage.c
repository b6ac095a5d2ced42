/* SPDX-License-Identifier: MIT */
/* Complaints about how the command was called, and causes of failed calls. */
#include "cli/command.h"
#include "cli/messages.h"
#include "cli/samples.h"

#include <stdarg.h>
#include <stdio.h>

bool cli_log_shows_errors;

const char *cli_cause(gantry_status status)
{
    return cli_log_shows_errors ? gantry_status_text(status) : gantry_last_error();
}

static char help[80] = "gantry help";

void cli_help_is(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(help, sizeof(help), format, args);
    va_end(args);
}

int cli_refused(gantry_status status, const char *given)
{
    if (given == NULL || (status != GANTRY_ERR_INVALID_ARGUMENT && status != GANTRY_ERR_NO_DEVICE)) {
        return 1;
    }
    cli_note("try '%s'", help);
    return CLI_USAGE;
}

int cli_not_opened(const char *sample, gantry_status status, const char *given)
{
    if (!cli_log_shows_errors) {
        cli_error("%s: the devices cannot be opened: %s", sample, gantry_last_error());
    }
    return cli_refused(status, given);
}

int cli_usage_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    cli_message_list(CLI_ERROR, format, args);
    va_end(args);
    cli_note("try '%s'", help);
    return CLI_USAGE;
}
