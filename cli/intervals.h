/* SPDX-License-Identifier: MIT */
/* Lists of intervals of time. */
#ifndef CLI_INTERVALS_H
#define CLI_INTERVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct interval {
    uint64_t begin, end;
    uint32_t name; /* the meaning is the list's owner's */
};

struct intervals {
    struct interval *at;
    size_t count, room;
};

/* False: out of memory. */
bool cli_intervals_add(struct intervals *list, uint64_t begin, uint64_t end, uint32_t name);
/* Sort by begin. */
void cli_intervals_sort(struct intervals *list);
/* Sort, and join what overlaps or touches; the length of it all. */
uint64_t cli_intervals_unite(struct intervals *list);
/* The length that [begin, end] has in common with `a`. */
uint64_t cli_interval_overlap(const struct interval *a, uint64_t begin, uint64_t end);

/* A union that grows by intervals that come nearly in order of their begins: only the latest parts are kept,
 * and what begins before them counts from their begin. */
#define GROWING_PARTS 1024u
struct growing_union {
    uint64_t ns;    /* the length of the parts that were given up */
    uint64_t floor; /* the end of the last of these */
    uint32_t count;
    struct {
        uint64_t begin, end;
    } parts[GROWING_PARTS];
};
void cli_growing_add(struct growing_union *all, uint64_t begin, uint64_t end);
uint64_t cli_growing_ns(const struct growing_union *all);

#endif
