/* SPDX-License-Identifier: MIT */
/* What the dispatcher tells the store of a batch (kept.h). */
#ifndef WORK_KEPT_RULE_H
#define WORK_KEPT_RULE_H

#include <stdbool.h>

/* What is played, of what there is no executable graph for. */
enum gy_kept_plays {
    GY_PLAYS_NOTHING,
    GY_PLAYS_FEW,    /* a few nodes whose like are all in flight */
    GY_PLAYS_STRANGE /* these, and nodes that nothing is like, unless they were seen before */
};

/* What else is known of a batch, or of a part of one. */
struct gy_kept_rule {
    enum gy_kept_plays plays;
    bool is_later_part; /* a part of it was launched before */
    bool is_rest;       /* it is what is left of a batch whose beginning was cut off */
};

#endif
