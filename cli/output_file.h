/* SPDX-License-Identifier: MIT */
/* Standard output goes into a file, which gets its name when it is complete. */
#ifndef CLI_OUTPUT_FILE_H
#define CLI_OUTPUT_FILE_H

#include <stdbool.h>

/* Write what is left of standard output; returns why this or an earlier write failed, else NULL. */
const char *cli_output_flush(void);

/* Send standard output to `path`, once per process.  A regular file is written beside it under another name
 * until cli_output_end(), so that the file that is there stays as it was when something fails; anything else
 * (a device, a pipe) is written directly.  False after a line on stderr. */
bool cli_output_begin(const char *path);

/* Write the rest.  With `keep` the new file takes the place of the old one, else it is removed; false after
 * a line on stderr, and the old file is as it was. */
bool cli_output_end(bool keep);

/* What has become of the file that the results go to. */
enum cli_output_fate {
    CLI_OUTPUT_NONE,      /* there is none: they go to standard output, or to a device or a pipe */
    CLI_OUTPUT_ABANDONED, /* it was half written and is removed; one that was there before is as it was */
    CLI_OUTPUT_COMPLETE,
};

/* Ctrl-C: remove the file that is half written, and name it in `name`.  Any thread may call it. */
enum cli_output_fate cli_output_abandon(const char **name);

#endif
