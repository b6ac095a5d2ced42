/* The planner: pure functions from copy descriptors to the batch that the copy kernel does. */
#ifndef COPYKERNEL_PLAN_H
#define COPYKERNEL_PLAN_H

#include "copykernel/format.h"

#include <gantry/copy.h>

#include <stdbool.h>

/* One copy or fill of at least a byte, with addresses as the device sees them. */
struct gy_copy_item {
    uint64_t dest;
    uint64_t source; /* fill: the first half of what 16 aligned bytes become */
    uint64_t high;   /* fill: the second half */
    uint64_t bytes;
    uint32_t index; /* of the caller's descriptor */
    uint32_t group; /* GY_COPY_FROM_HOST, ... */
    bool is_fill;
    bool joins; /* lies in the same memory as the item before it, on both sides */
};

/* An address range, for the search for overlaps. */
struct gy_copy_range {
    uint64_t begin, end;
    uint32_t index;
};

/* Warps that a batch is divided among. */
struct gy_copy_budget {
    uint32_t warps[GY_COPY_GROUPS]; /* that do each group at once */
    bool limited;                   /* no more than that many may run within device memory */
};

/* How the work of a group is cut into units. */
struct gy_copy_dealing {
    uint64_t cost;  /* of the group */
    uint64_t most;  /* of one unit */
    uint32_t taper; /* the last units become smaller: so many warps finish together; 0: all units are alike */
};

/* How big a batch becomes. */
struct gy_copy_plan {
    struct gy_copy_dealing dealing[GY_COPY_GROUPS];
    uint32_t pieces;
    uint32_t patterns;             /* long ones */
    uint32_t ends[GY_COPY_GROUPS]; /* of each group's units; the last end is the number of all */
    bool wide;                     /* units are for blocks of the usual size, not for warps */
    size_t words;
};

/* Everything about the descriptors that can be told without asking what their addresses are.
 * @retval GANTRY_ERR_INVALID_ARGUMENT  the message names index and field */
GANTRY_MUST_CHECK gantry_status gy_copy_check(const gantry_copy_desc *descs, size_t count);

/* What 16 aligned bytes of the destination become by a fill that begins at device address `dest`. */
void gy_copy_pattern(const gantry_copy_desc *desc, uint64_t dest, uint64_t *low, uint64_t *high);

/* An item's dest may not touch another one's dest or any source, its own included.  `scratch` has 2 * count
 * places.
 * @retval GANTRY_ERR_INVALID_ARGUMENT  the message names both indices and fields */
GANTRY_MUST_CHECK gantry_status gy_copy_check_overlap(const struct gy_copy_item *items, size_t count,
                                                      struct gy_copy_range *scratch);

/* How many of the items, from the first on, can be done at the same time: all up to the first that would
 * touch what an earlier one writes, or write what an earlier one reads.  At least 1 if the first does not
 * overlap itself. */
size_t gy_copy_free_prefix(const struct gy_copy_item *items, size_t count, struct gy_copy_range *scratch);

/* Make one item of neighbours in the list that continue each other on both sides.  Returns the new count.
 * Only after the search for overlaps: an item keeps the first one's index. */
size_t gy_copy_merge(struct gy_copy_item *items, size_t count);

/* Divide at least one item into units of about equal cost: so many that every warp of the budget gets
 * some, and small enough that the last ones do not keep the others waiting.
 * @retval GANTRY_ERR_INVALID_ARGUMENT  more pieces or units than the format can number */
GANTRY_MUST_CHECK gantry_status gy_copy_measure(const struct gy_copy_item *items, size_t count,
                                                const struct gy_copy_budget *budget,
                                                struct gy_copy_plan *out);

/* What one look at a usual batch has found (scan.c). */
struct gy_copy_scan {
    gantry_copy_type type; /* of all, no fill */
    uint32_t group;
    uint64_t pieces;   /* descriptors that are not of 0 bytes; each is one piece */
    uint64_t bytes;    /* of all */
    uint64_t smallest; /* bytes of the smallest */
};

/* The same for such a batch, before its units are counted: plan->words is more than it needs, and the ends of
 * the groups are not known yet.  Statuses as gy_copy_measure(). */
GANTRY_MUST_CHECK gantry_status gy_copy_measure_scan(const struct gy_copy_scan *scan,
                                                     const struct gy_copy_budget *budget,
                                                     struct gy_copy_plan *out);
/* Write it straight from the descriptors, and say in the plan where the groups end. */
void gy_copy_pack_scan(const gantry_copy_desc *descs, size_t count, const struct gy_copy_scan *scan,
                       struct gy_copy_plan *plan, uint64_t *words);

/* Write the batch of that plan: plan->words words. */
void gy_copy_pack(const struct gy_copy_item *items, size_t count, const struct gy_copy_plan *plan,
                  uint64_t *words);

#endif
