/* SPDX-License-Identifier: MIT */
/* The names of one manager's tasks: a hash map from text to task.  Texts are copied into chunks that live
 * until the reset.  The manager's lock guards everything here. */
#ifndef TASKMAN_GRAPH_NAMES_H
#define TASKMAN_GRAPH_NAMES_H

#include "taskman/graph/task.h"

struct gy_name {
    const char *text;
    size_t length;
    uint32_t hash;
};

struct gy_name_slot {
    gantry_task *task; /* NULL: free */
    uint32_t hash;
};

struct gy_name_chunk;

struct gy_names {
    struct gy_name_slot *slots; /* open addressing, linear probing; NULL: no name yet */
    size_t capacity;            /* a power of two, at least 4/3 of `used` */
    size_t used;
    struct gy_name_chunk *chunks;  /* first; all but the last full */
    struct gy_name_chunk *current; /* where the next text goes */
    size_t bytes;                  /* of slots and chunks */
};

/* Do the slots and the chunks fit the counts? */
bool gy_names_are_valid(const struct gy_names *names);

struct gy_name gy_name_of(const char *text);
gantry_task *gy_names_find(const struct gy_names *names, const struct gy_name *name);

/* Make room for one more name; false when out of memory. */
bool gy_names_reserve(struct gy_names *names, const struct gy_name *name);

/* Enter a name that is not there yet, into reserved room; returns the copy. */
const char *gy_names_add(struct gy_names *names, const struct gy_name *name, gantry_task *task);

void gy_names_reset(struct gy_names *names);
void gy_names_fini(struct gy_names *names);

#endif
