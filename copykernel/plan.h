/* SPDX-License-Identifier: MIT */
/* The planner: pure functions that turn copy descriptors into the batch that the copy kernel performs. */
#ifndef COPYKERNEL_PLAN_H
#define COPYKERNEL_PLAN_H

#include "copykernel/format.h"

#include <gantry/copy.h>

#include <stdbool.h>

/* One copy or fill of at least a byte, with addresses as the device sees them. */
struct gy_copy_item {
    uint64_t dest;
    uint64_t source; /* fill: the first half of the 16 aligned bytes */
    uint64_t high;   /* fill: the second half */
    uint64_t bytes;
    uint32_t index; /* the index of the caller's descriptor */
    uint32_t group; /* GY_COPY_FROM_HOST, ... */
    bool is_fill;
    bool is_peer; /* an end of it is on another device */
    bool is_pull; /* of these, the source alone is there */
    uint8_t peer; /* of these, that device's ordinal */
    bool joins;   /* it lies in the same memory as the item before it, on both sides */
};

/* An address range, for the search for overlaps. */
struct gy_copy_range {
    uint64_t begin, end;
    uint32_t index;
};

/* The warps among which a batch is divided. */
struct gy_copy_budget {
    uint32_t warps[GY_COPY_GROUPS]; /* the warps that do each group at the same time */
    bool limited;                   /* no more warps than these may run within device memory */
};

/* How the work of a group is cut into units. */
struct gy_copy_dealing {
    uint64_t cost;  /* the cost of the group */
    uint64_t most;  /* the most cost of one unit */
    uint32_t taper; /* the last units become smaller, since this many warps should finish together; 0: all
                       units are alike */
};

/* What both descriptors are told when they overlap.  Returns GANTRY_ERR_INVALID_ARGUMENT. */
gantry_status gy_copy_refuse_overlap(uint32_t index, bool is_source, uint32_t dest_of);

/* The size that a batch will have. */
struct gy_copy_plan {
    struct gy_copy_dealing dealing[GY_COPY_GROUPS];
    uint32_t pieces;
    uint32_t patterns;             /* long patterns */
    uint32_t ends[GY_COPY_GROUPS]; /* the end of each group's units; the last end is the number of all */
    bool wide;                     /* units are for blocks of the usual size, not for warps */
    size_t words;
};

/* Check everything about the descriptors that does not depend on the memory of their addresses.
 * @retval GANTRY_ERR_INVALID_ARGUMENT  the message names index and field */
GANTRY_MUST_CHECK gantry_status gy_copy_check(const gantry_copy_desc *descs, size_t count);
/* The same for one, which messages call `index`. */
GANTRY_MUST_CHECK gantry_status gy_copy_check_one(size_t index, const gantry_copy_desc *desc);

/* The 16 aligned bytes of the destination after a fill that begins at device address `dest`. */
void gy_copy_pattern(const gantry_copy_desc *desc, uint64_t dest, uint64_t *low, uint64_t *high);

/* An item's dest may not touch another one's dest or any source, its own included.  `scratch` has 2 * count
 * places.
 * @retval GANTRY_ERR_INVALID_ARGUMENT  the message names both indices and fields */
GANTRY_MUST_CHECK gantry_status gy_copy_check_overlap(const struct gy_copy_item *items, size_t count,
                                                      struct gy_copy_range *scratch);

/* The number of items, from the first on, that can be done at the same time: all up to the first that would
 * touch what an earlier one writes, or write what an earlier one reads.  It is at least 1 if the first does
 * not overlap itself. */
size_t gy_copy_free_prefix(const struct gy_copy_item *items, size_t count, struct gy_copy_range *scratch);

/* Make one item of neighbours in the list that continue each other on both sides.  Returns the new count.  To
 * be called only after the search for overlaps: an item keeps the first one's index. */
size_t gy_copy_merge(struct gy_copy_item *items, size_t count);

/* Divide at least one item into units of about equal cost: there are so many that every warp of the budget
 * gets some, and they are so small that the last ones do not keep the others waiting.
 * @retval GANTRY_ERR_INVALID_ARGUMENT  more pieces or units than the format can number */
GANTRY_MUST_CHECK gantry_status gy_copy_measure(const struct gy_copy_item *items, size_t count,
                                                const struct gy_copy_budget *budget,
                                                struct gy_copy_plan *out);

/* The result of one look at a usual batch (scan.c). */
struct gy_copy_scan {
    gantry_copy_type type; /* the type of all copies; there is no fill */
    uint32_t group;
    uint64_t pieces;   /* descriptors that are not of 0 bytes; each is one piece */
    uint64_t bytes;    /* bytes of all copies */
    uint64_t smallest; /* bytes of the smallest copy */
};

/* Measure such a batch before its units are counted: plan->words is more than it needs, and the ends of the
 * groups are not known yet.  Statuses as gy_copy_measure(). */
GANTRY_MUST_CHECK gantry_status gy_copy_measure_scan(const struct gy_copy_scan *scan,
                                                     const struct gy_copy_budget *budget,
                                                     struct gy_copy_plan *out);
/* Write such a batch straight from the descriptors, and set the ends of the groups in the plan. */
void gy_copy_pack_scan(const gantry_copy_desc *descs, size_t count, const struct gy_copy_scan *scan,
                       struct gy_copy_plan *plan, uint64_t *words);

/* Write the batch of that plan: plan->words words. */
void gy_copy_pack(const struct gy_copy_item *items, size_t count, const struct gy_copy_plan *plan,
                  uint64_t *words);

#endif
