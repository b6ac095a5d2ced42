/* SPDX-License-Identifier: MIT */
/* Ctrl-C while a command works: what is done so far stays, nothing half-written does, exit status 130. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <stdbool.h>

/* From now on Ctrl-C is waited for by a thread of its own, which ends the process.  Called before other
 * threads are made; does nothing where Ctrl-C is ignored. */
void cli_interrupts_end_us(void);

/* Exit status of what Ctrl-C ended. */
#define CLI_INTERRUPTED 130

/* With true the first Ctrl-C ends no more than the reading of a recording, and the report is of what was
 * read; the next one ends the process.  Once, before the reading begins. */
void cli_interrupts_end_reading(bool is_so);
/* What Ctrl-C says behind "interrupted; " where no output file is being written; a literal.  Without it: that
 * the results so far are complete. */
void cli_interrupts_say(const char *what);
/* The command has done its work.  From now on Ctrl-C changes nothing; if it came before, this does not
 * return, since the process ends with CLI_INTERRUPTED. */
void cli_interrupts_are_over(void);
/* True when Ctrl-C has come.  Any thread may ask. */
bool cli_interrupts_reading_ends(void);

#endif
