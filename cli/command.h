/* SPDX-License-Identifier: MIT */
/* The subcommands of `gantry` and the functions they share. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "cli/messages.h"
#include "cli/text.h"

#include <gantry/context.h>

#include <stdbool.h>
#include <stdio.h>

/* Exit status of a wrong call, as against 1: what was asked for failed. */
#define CLI_USAGE 2

struct cli_command {
    const char *name;
    const char *arguments;              /* the synopsis after the name */
    const char *summary;                /* one line */
    const char *help;                   /* `gantry help NAME` prints this, too; it ends with a newline */
    int (*main)(int argc, char **argv); /* argv[0] is the command's name; returns the exit status */
};

extern const struct cli_command cli_check;
extern const struct cli_command cli_completion;
extern const struct cli_command cli_doctor;
extern const struct cli_command cli_info;
extern const struct cli_command cli_run;
extern const struct cli_command cli_report;
extern const struct cli_command cli_bench;
extern const struct cli_command cli_limit;

/* What `gantry completion` completes: the command as a whole, and all subcommands, which NULL ends.  Both
 * must stay. */
void cli_completion_of(int (*whole)(int argc, char **argv), const struct cli_command *const *commands);

/* Name each sample, or bench, to `each`. */
void cli_samples_each(void (*each)(void *user, const char *name), void *user);
void cli_benches_each(void (*each)(void *user, const char *name), void *user);
/* Print the text about the sample, or the bench, of that name; false: there is none. */
bool cli_sample_help(const char *name);
bool cli_bench_help(const char *name);

/* The receiver of the library's log, and the highest level that it gets. */
extern gantry_log_level cli_log_level;
void cli_log_to_stderr(void *user, gantry_log_level level, const char *line);

/* What cli_usage_error() names from now on, instead of `gantry help`. */
void cli_help_is(const char *format, ...) GANTRY_PRINTF(1, 2);
/* An error and where to find help, on stderr; returns CLI_USAGE. */
int cli_usage_error(const char *format, ...) GANTRY_PRINTF(1, 2);

#endif
