/* SPDX-License-Identifier: MIT */
/* Pasts: sets of numbers that only grow.  What comes before a part of a task is such a set.
 *
 * A set is a list of pages of bits.  Sets share pages: most of a past is the past of what it comes after, and
 * a page of which every number is in is one page for all.  So 10^5 parts whose pasts are alive at once take
 * tens of megabytes.
 *
 * Threading: the caller has one lock for all functions but gy_past_has(), which needs none while somebody has
 * a reference: a set that has two is never changed. */
#ifndef PROOF_PAST_H
#define PROOF_PAST_H

#include <stdbool.h>
#include <stdint.h>

struct gy_past; /* NULL is the empty set */

/* A set, and where it comes from (trail.h). */
struct gy_before {
    struct gy_past *set;
    uint32_t trail;
};

bool gy_past_has(const struct gy_past *past, uint32_t number);

/* The least number from `from` on that is in `past` and not in `known`; 0: there is none. */
uint32_t gy_past_next(const struct gy_past *past, const struct gy_past *known, uint32_t from);

/* Returns `past`, with one more reference. */
struct gy_past *gy_past_ref(struct gy_past *past);
void gy_past_unref(struct gy_past *past);

/* *past, a reference of the caller's, gets a number, or all of `other`.  False: no memory, and *past is what
 * it was. */
bool gy_past_add(struct gy_past **past, uint32_t number);
bool gy_past_join(struct gy_past **past, struct gy_past *other);

#endif
