/* SPDX-License-Identifier: MIT */
/* What kinds of work cost, as measured: of each kernel with its grid, fill, copy or executable graph, by a
 * key.  A group of several launches is charged at least the sum of its costs, and no more than its interval
 * (meter.h).  Guarded by the meter's lock. */
#ifndef LIMIT_COSTS_H
#define LIMIT_COSTS_H

#include <stdbool.h>
#include <stdint.h>

struct gy_cost {
    uint64_t key;  /* 0: none */
    double ns;     /* the mean of what was measured lately, */
    double least;  /* and about the least: what it takes when it waits for nothing */
    uint32_t uses; /* since it was measured last */
    uint32_t
        period; /* it is measured again after so many uses: the more often it stays the same, the later */
};

/* The cost is measured again now. */
bool gy_costs_is_due(const struct gy_cost *cost);
/* The cost, counted as used once more; NULL: it is not known. */
struct gy_cost *gy_costs_use(uint64_t key);
/* One piece of that kind, alone in its process, took so long.  Where other processes computed meanwhile it
 * took less by itself: that lowers a cost at once, and raises it slowly. */
void gy_costs_learn(uint64_t key, double ns, bool is_shared);
/* What was told of it does not hold: the next one is measured. */
void gy_costs_doubt(uint64_t key);
void gy_costs_forget_all(void);

/* A key made of several numbers; never 0. */
uint64_t gy_costs_key(uint64_t kind, const void *which, uint64_t a, uint64_t b);

#endif
