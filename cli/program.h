/* SPDX-License-Identifier: MIT */
/* What samples that are programs of their own say on stderr when the command runs them.
 *
 * Their in_command.c includes this before the program's source, so that errors get the command's prefix. */
#ifndef CLI_PROGRAM_H
#define CLI_PROGRAM_H

#include <gantry/base.h>

#include <stdio.h>

/* As fprintf(), but what is for stderr is one line of an error; the \n at its end may be left out. */
void cli_program_print(FILE *file, const char *format, ...) GANTRY_PRINTF(2, 3);

#undef fprintf
#define fprintf cli_program_print

#endif
