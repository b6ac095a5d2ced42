/* SPDX-License-Identifier: MIT */
/* What the command says on stderr beside its results: errors, warnings, notes, and how far it is.
 *
 * Each message is a line with one prefix: "gantry: error: ", "gantry: warning: ", "gantry: note: ".
 * Threading: any thread; a message is never torn by another one. */
#ifndef CLI_MESSAGES_H
#define CLI_MESSAGES_H

#include <gantry/base.h>

#include <stdarg.h>
#include <stdbool.h>

enum cli_message_kind {
    CLI_ERROR,   /* what was asked for failed, in whole or in part */
    CLI_WARNING, /* the result may be misunderstood */
    CLI_NOTE,    /* what happens, or what to do next */
    CLI_DEBUG
};

/* Control characters in the text, which may be of a file, are printed as \x1b. */
void cli_message(enum cli_message_kind kind, const char *format, ...) GANTRY_PRINTF(2, 3);
void cli_message_list(enum cli_message_kind kind, const char *format, va_list args) GANTRY_PRINTF(2, 0);
void cli_error(const char *format, ...) GANTRY_PRINTF(1, 2);
void cli_warning(const char *format, ...) GANTRY_PRINTF(1, 2);
void cli_note(const char *format, ...) GANTRY_PRINTF(1, 2);
/* From now on notes, of the library too, are printed or not. */
void cli_mute_notes(bool mute);

/* Shows on a terminal's last line how far the work is; prints nothing elsewhere.  The line is overwritten by
 * the next one, twenty times a second at most, and goes away before a message. */
void cli_progress(const char *format, ...) GANTRY_PRINTF(1, 2);
/* Take the line away, before something is printed on stdout. */
void cli_progress_end(void);

#endif
