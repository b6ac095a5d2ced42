/* SPDX-License-Identifier: MIT */
/* What the slices of a recording say besides their times. */
#ifndef CLI_TRACE_STAGE_H
#define CLI_TRACE_STAGE_H

#include "cli/trace.h"
#include "cli/trace_file.h"

/* The argument of that name; TRACE_ARGUMENTS: none of ours. */
enum trace_argument cli_argument_called(const char *name);
/* Read one name of a GPU task with its text. */
void cli_read_stage_data(struct span span, struct trace_details *details);

#endif
