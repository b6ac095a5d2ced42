/* SPDX-License-Identifier: MIT */
/* What comes before a part, with the trail of where it comes from.  The lock of order.c is held.  Where no
 * memory is left, nothing more is noted (numbers.h). */
#ifndef PROOF_BEFORE_H
#define PROOF_BEFORE_H

#include "proof/past.h"

void gy_before_add(struct gy_before *past, uint32_t part); /* 0: nothing */
/* By an edge, if its number is not 0. */
void gy_before_join_by(struct gy_before *past, struct gy_before other, uint32_t edge);
void gy_before_join(struct gy_before *past, struct gy_before other);
/* Those device parts of `others` whose host parts the past has, or are `own`.  False: it has them. */
bool gy_before_join_launched(struct gy_before *past, const struct gy_past *others, uint32_t own);
/* Returns `past`, with one more reference; and gives one back. */
struct gy_before gy_before_copy(struct gy_before past);
void gy_before_drop(struct gy_before *past);

#endif
