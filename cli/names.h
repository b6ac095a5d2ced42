/* SPDX-License-Identifier: MIT */
/* Strings by number, each once. */
#ifndef CLI_NAMES_H
#define CLI_NAMES_H

#include "cli/trace_file.h"

#define MOST_NAMES (1u << 20)

struct names {
    char **owned;    /* as `at` */
    const char **at; /* by number; the first that was added is number 0 */
    size_t count, room;
    uint32_t *hash; /* number + 1; 0: empty */
    size_t hash_room;
};

/* The number of a text.  False: out of memory, or MOST_NAMES reached. */
bool cli_names_add(struct names *names, struct span text, uint32_t *number);
void cli_names_free(struct names *names);

#endif
