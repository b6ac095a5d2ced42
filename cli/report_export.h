/* SPDX-License-Identifier: MIT */
/* A recording in the format of others. */
#ifndef CLI_REPORT_EXPORT_H
#define CLI_REPORT_EXPORT_H

#include "cli/trace.h"

#include <stdio.h>

/* Chrome's trace event format.  Every track is a thread of one process; times in us with three decimals.
 * First begin, then each block while the trace is read (a trace_block_fn; `file` is a FILE), then all the
 * rest; false after a line on stderr. */
void cli_export_chrome_begin(FILE *file);
void cli_export_chrome_block(void *file, const struct trace *trace, const struct trace_slice *block,
                             uint64_t number);
bool cli_export_chrome_end(const struct trace *trace, FILE *file);

#endif
