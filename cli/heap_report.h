/* SPDX-License-Identifier: MIT */
/* `gantry report heap`: what a heap held, from the JSON that gantry_heap_write_json() wrote. */
#ifndef CLI_HEAP_REPORT_H
#define CLI_HEAP_REPORT_H

#include <stdbool.h>

/* Print the report on stdout, as text or as a page that needs nothing but a browser.  False after a line on
 * stderr. */
bool cli_heap_report(const char *path, bool is_page);

#endif
