/* SPDX-License-Identifier: MIT */
#include "dispatcher/loop/guest_rule.h"

bool gy_guest_must_leave(const struct gantry_dispatcher *d, const struct gy_round *round)
{
    return round->recording == NULL && (!gy_guest_is_alone(d) || gy_gpu_guest_is_through(d->loop.guest));
}

void gy_guest_leave_pending_rings(struct gantry_dispatcher *d)
{
    struct gy_gpu_guest *guest = d->loop.guest;
    for (uint64_t left = guest->rings; left != 0; left &= left - 1) {
        struct gy_completion *ring = &d->completion.rings[__builtin_ctzll(left)];
        if (gy_completion_take_in(ring, guest)) {
            guest->rings &= ~(left & -left);
            gy_completion_stop_leading(ring, guest);
        }
    }
}
