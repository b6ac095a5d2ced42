/* SPDX-License-Identifier: MIT */
/* Areas of memory that tasks have named, each once, and which of them have a byte in common.  A area that
 * comes again is found by its hash; the others that it meets were found when it came first, by a tree of
 * intervals: a treap (Seidel and Aragon, Randomized Search Trees, 1996) by the first byte, in which each node
 * knows the last end below it (Cormen et al., Introduction to Algorithms, interval trees). */
#ifndef TASKMAN_AREAS_H
#define TASKMAN_AREAS_H

#include "taskman/graph/task.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows of `bytes`, none of which is empty. */
struct gy_area_key {
    uintptr_t at;
    size_t bytes, rows; /* 1 at least */
    size_t pitch;       /* 0 with one row */
};

/* A task that accesses a area; of a list, newest first. */
struct gy_accessor {
    gantry_task *task;
    struct gy_accessor *next;
};

/* The latest step in which something was done with a area by the GPU, and the latest before the current one;
 * 0: none. */
struct gy_access_steps {
    uint64_t latest, before;
};

/* Who accesses a area: access.c. */
struct gy_accessors {
    uint64_t step;               /* of which the lists are; in another one they are empty */
    struct gy_accessor *readers; /* since the last that wrote */
    struct gy_accessor *writers; /* the last; where it adds, all that do */
    struct gy_accessor *base;    /* what those that add come after */
    bool adds;
    struct gy_access_steps read, written;
};

struct gy_area {
    struct gy_area_key key;
    uintptr_t end; /* behind the last byte */
    struct gy_area *next_of_hash;
    struct gy_area *child[2];
    uintptr_t last_end; /* of those below and its own */
    uint32_t priority;
    struct gy_area **met; /* others that have a byte in common with it */
    size_t met_count, met_room;
    struct gy_accessors accessors;
};

struct gy_areas {
    struct gy_area **by_hash;
    size_t places, count; /* places: a power of two, or 0 */
    struct gy_area *root;
    uint32_t random;
};

/* The area, which is added where it is new; NULL: no memory. */
struct gy_area *gy_areas_find(struct gy_areas *areas, const struct gy_area_key *key);
void gy_areas_clear(struct gy_areas *areas);

#endif
