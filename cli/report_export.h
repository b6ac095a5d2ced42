/* A recording in the formats of others. */
#ifndef CLI_REPORT_EXPORT_H
#define CLI_REPORT_EXPORT_H

#include "cli/report_stats.h"
#include "cli/trace.h"

#include <stdio.h>

/* Chrome's trace event format.  Every track is a thread of one process; times in us with three decimals.
 * First begin, then each block while the trace is read (a trace_block_fn; `file` is a FILE), then all the
 * rest; false after a line on stderr. */
void cli_export_chrome_begin(FILE *file);
void cli_export_chrome_block(void *file, const struct trace *trace, const struct trace_slice *block,
                             uint64_t number);
bool cli_export_chrome_end(const struct trace *trace, FILE *file);

/* The blocks that a page holds; of more it says how many there are. */
#define PAGE_BLOCKS 400000u
struct page_block {
    struct trace_slice slice;
    uint64_t number;
};
struct page_blocks {
    struct page_block *at; /* the caller's to free */
    size_t count, room;
    uint64_t left;
};
/* A trace_block_fn; `user` is a struct page_blocks. */
void cli_page_block(void *user, const struct trace *trace, const struct trace_slice *block, uint64_t number);

/* One page with everything in it: no other file, no network. */
void cli_export_html(const struct trace *trace, const struct page_blocks *blocks, const struct report *report,
                     FILE *file);

#endif
