/* What kinds of work cost, as measured: of each kernel with its grid, fill, copy or executable graph, by a
 * key.  A group of several launches is charged at least the sum of its costs, and no more than its interval
 * (meter.h).  Guarded by the meter's lock. */
#ifndef LIMIT_COSTS_H
#define LIMIT_COSTS_H

#include <stdbool.h>
#include <stdint.h>

struct gy_cost {
    uint64_t key;  /* 0: none */
    double ns;     /* the mean of what was measured lately */
    uint32_t uses; /* since it was measured last */
};

/* The cost, counted as used once more; NULL: it is not known. */
struct gy_cost *gy_costs_use(uint64_t key);
/* One piece of that kind, alone, took so long. */
void gy_costs_learn(uint64_t key, double ns);
void gy_costs_forget_all(void);

/* A key made of several numbers; never 0. */
uint64_t gy_costs_key(uint64_t kind, const void *which, uint64_t a, uint64_t b);

#endif
