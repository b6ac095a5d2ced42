/* SPDX-License-Identifier: MIT */
/* A recording as a page that needs nothing but a browser. */
#ifndef CLI_REPORT_PAGE_H
#define CLI_REPORT_PAGE_H

#include "cli/report_stats.h"
#include "cli/trace.h"

#include <stdio.h>

/* The blocks that a page holds of a recording; of more it says how many there are. */
#define PAGE_BLOCKS 4000000u
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

/* A page is written in this order: its begin, each recording, its end. */
void cli_page_begin(FILE *file);
/* `title` is what the recording is called; sorts its slices and blocks.  False after a line on stderr: out of
 * memory. */
bool cli_page_recording(const char *title, struct trace *trace, struct page_blocks *blocks,
                        const struct report *report, FILE *file);
void cli_page_end(FILE *file);

#endif
