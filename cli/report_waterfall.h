/* SPDX-License-Identifier: MIT */
/* When each stage of the work ran, on the host and on each partition of each GPU: a bar per stage. */
#ifndef CLI_REPORT_WATERFALL_H
#define CLI_REPORT_WATERFALL_H

#include "cli/report_stats.h"

/* False after a line on stderr: out of memory. */
bool cli_report_waterfall(const struct trace *trace, const struct report *report, bool json);

#endif
