/* SPDX-License-Identifier: MIT */
/* The bytes of a recording: protocol buffer fields, and the packets of a file one after the other. */
#ifndef CLI_TRACE_FILE_H
#define CLI_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct span {
    const uint8_t *at, *end;
};

struct field {
    uint32_t number;
    uint64_t value;
    struct span bytes; /* at NULL: not that kind of field */
};

/* The next field; false at the end, or when the rest makes no sense (span->at is NULL then). */
bool cli_next_field(struct span *span, struct field *field);

/* How much at the end of a file was not read. */
struct trace_rest {
    uint64_t cut_bytes;    /* of a packet whose rest is missing */
    uint64_t unread_bytes; /* Ctrl-C came first */
};

/* Call `packet` for each packet of the file, also for those that are deflated in others.  It returns false to
 * end this.  What is behind is not kept in memory.  A terminal is shown how far it is; Ctrl-C may end it
 * (cli_interrupts_end_reading()).  NULL, or what is wrong with the file (static text). */
const char *cli_trace_file_read(const char *path, bool (*packet)(void *user, struct span span), void *user,
                                struct trace_rest *rest);

#endif
