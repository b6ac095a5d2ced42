/* SPDX-License-Identifier: MIT */
/* What the terminal behind a file can show: colours, and how many columns. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* Is it a terminal that understands escape sequences (TERM is not "dumb")? */
bool cli_is_terminal(FILE *file);

/* Such a terminal, and the environment does not say NO_COLOR (set to anything but nothing). */
bool cli_has_colour(FILE *file);

/* Columns of the terminal; where it does not tell, $COLUMNS.  0: no terminal, or nobody knows. */
unsigned cli_columns(FILE *file);

/* Print help that was written for 100 columns: paragraphs and the lists of options in it are broken anew
 * where the terminal is narrower; unchanged elsewhere. */
void cli_print_help(FILE *file, const char *text);
/* The same for a known number of columns; 0: unchanged. */
void cli_wrap_help(FILE *file, const char *text, unsigned columns);

/* A line of a list: "  NAME   summary", the names filled up to `width`. */
void cli_print_entry(FILE *file, unsigned width, const char *name, const char *summary);

#endif
