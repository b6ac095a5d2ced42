/* SPDX-License-Identifier: MIT */
/* A report for people and for programs. */
#ifndef CLI_REPORT_PRINT_H
#define CLI_REPORT_PRINT_H

#include "cli/report_stats.h"

void cli_report_text(const char *path, const struct trace *trace, const struct report *report);
/* One JSON object on one line, whose end is the caller's to print. */
void cli_report_json(const char *path, const struct trace *trace, const struct report *report);
/* True when the device was emulated: its times say nothing about a GPU. */
bool cli_report_is_emulated(const struct trace *trace, const struct report *report);
/* How the second run differs from the first. */
void cli_report_diff(const struct trace *before, const struct report *b, const struct trace *after,
                     const struct report *a);

#endif
