/* What a GPU task of a recording says besides its times. */
#ifndef CLI_TRACE_STAGE_H
#define CLI_TRACE_STAGE_H

#include "cli/trace.h"
#include "cli/trace_file.h"

/* Read one name with its text. */
void cli_read_stage_data(struct span span, struct trace_details *details);

#endif
