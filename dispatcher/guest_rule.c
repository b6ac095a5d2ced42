#include "dispatcher/guest_rule.h"

bool gy_guest_must_leave(const struct gantry_dispatcher *d, const struct gy_round *round)
{
    return round->recording == NULL && (!gy_guest_is_alone(d) || gy_gpu_guest_is_through(d->guest));
}
