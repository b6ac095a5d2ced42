/* SPDX-License-Identifier: MIT */
/* The interface between a sample and `gantry run`.  Samples are registered with gantry_sample() in CMake. */
#ifndef CLI_SAMPLES_H
#define CLI_SAMPLES_H

#include <gantry/base.h>

#include <stdbool.h>

/* Why a call failed, to stand behind what a sample says about it: the library's message or, where the
 * command's log has shown that already, what the status means. */
const char *cli_cause(gantry_status status);
/* The exit status where a device, or a plan for one, was refused with `status`, which has been told.  2 if
 * that is the fault of what `given` names, the argument of an option; NULL: the option was not given. */
int cli_refused(gantry_status status, const char *given);
/* The same where nothing but the library's log has told yet why the devices cannot be opened: what is to be
 * told is told, on one line. */
int cli_not_opened(const char *sample, gantry_status status, const char *given);
/* Set by the command: its log shows errors. */
extern bool cli_log_shows_errors;

struct gantry_sample {
    const char *name;    /* as registered */
    const char *summary; /* one line */
    /* argv[0] is the sample's name; returns the command's exit status: 0, 1 for a failure, 2 for wrong
     * arguments (both told on stderr).  cli/options.h reads options. */
    int (*main)(int argc, char **argv);
    bool handles_interrupts; /* the sample handles Ctrl-C itself */
    bool tells_errors;       /* prints gantry_last_error() itself, so that the log need not have it as well */
};

/* All of them; NULL ends them. */
extern const struct gantry_sample *const cli_samples[];

#endif
