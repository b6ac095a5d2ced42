/* The subcommands of `gantry` and what they share. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <gantry/context.h>

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

/* Exit status of a wrong call, as against 1: what was asked for failed. */
#define CLI_USAGE 2

struct cli_command {
    const char *name;
    const char *arguments;              /* the synopsis after the name */
    const char *summary;                /* one line */
    const char *help;                   /* what `gantry help NAME` adds; ends with a newline */
    int (*main)(int argc, char **argv); /* argv[0] is the command's name; returns the exit status */
};

extern const struct cli_command cli_info;
extern const struct cli_command cli_run;
extern const struct cli_command cli_report;
extern const struct cli_command cli_bench;

/* The log receiver and the highest level it is installed for. */
extern gantry_log_level cli_log_level;
void cli_log_to_stderr(void *user, gantry_log_level level, const char *line);

/* What cli_usage_error() names from now on, instead of `gantry help`. */
void cli_help_is(const char *format, ...) GANTRY_PRINTF(1, 2);
/* "gantry: <text>" and where to find help, on stderr; returns CLI_USAGE. */
int cli_usage_error(const char *format, ...) GANTRY_PRINTF(1, 2);

/* Text that comes from a file, to be read on a terminal: control characters and bytes that are no UTF-8 are
 * printed as \x1b.  It is cut after `most` columns (a character is one) and filled up to `width` with spaces.
 */
#define CLI_ANY_LENGTH UINT_MAX
void cli_print_text(FILE *file, const char *text, unsigned width, unsigned most);

/* Text as a JSON string, with its quotes; bytes that are no UTF-8 become U+FFFD. */
void cli_json_string(FILE *file, const char *text);

#endif
