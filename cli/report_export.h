/* A recording in the formats of others. */
#ifndef CLI_REPORT_EXPORT_H
#define CLI_REPORT_EXPORT_H

#include "cli/trace.h"

#include <stdio.h>

/* Text as a JSON string, with its quotes. */
void cli_json_string(FILE *file, const char *text);

/* Chrome's trace event format.  Every track is a thread of one process; times in us with three decimals. */
void cli_export_chrome(const struct trace *trace, FILE *file);

/* One page with everything in it: no other file, no network. */
void cli_export_html(const struct trace *trace, FILE *file);

#endif
