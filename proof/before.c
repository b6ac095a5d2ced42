/* SPDX-License-Identifier: MIT */
#include "proof/before.h"

#include "proof/numbers.h"
#include "proof/trail.h"

#include <stddef.h>

/* The set gets a number that it does not have. */
static void add_number(struct gy_before *past, uint32_t part)
{
    if (!gy_past_add(&past->set, part)) {
        gy_number_spend("memory");
    }
}

void gy_before_add(struct gy_before *past, uint32_t part)
{
    if (part != 0) {
        past->trail = gy_trail_add(past->trail, part);
        add_number(past, part);
    }
}

void gy_before_join_by(struct gy_before *past, struct gy_before other, uint32_t edge)
{
    past->trail = gy_trail_join(past->trail, other.trail, edge);
    if (!gy_past_join(&past->set, other.set)) {
        gy_number_spend("memory");
    }
}

void gy_before_join(struct gy_before *past, struct gy_before other)
{
    gy_before_join_by(past, other, 0);
}

bool gy_before_join_launched(struct gy_before *past, const struct gy_past *others, uint32_t own)
{
    bool is_more = false;
    for (uint32_t at = gy_past_next(others, past->set, 1); at != 0;
         at = gy_past_next(others, past->set, at + 1)) {
        const struct gy_part *part = gy_part_of(at);
        if (part->is_device && (part->host == own || gy_past_has(past->set, part->host))) {
            past->trail = gy_trail_wait(past->trail, at, part->host);
            add_number(past, at);
            is_more = true;
        }
    }
    return is_more;
}

struct gy_before gy_before_copy(struct gy_before past)
{
    gy_past_ref(past.set);
    return past;
}

void gy_before_drop(struct gy_before *past)
{
    gy_past_unref(past->set);
    *past = (struct gy_before){NULL, 0};
}
