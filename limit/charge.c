/* SPDX-License-Identifier: MIT */
/* What a group is charged, as arithmetic. */
#include "limit/meter_inside.h"

double gy_meter_charge_of(const struct gy_meter_group *group, double length, double fresh, bool is_shared)
{
    double work = length;
    if (is_shared && group->known_ns > 0) { /* the interval has turns of other processes in it */
        work = length < group->known_ns ? length : group->known_ns;
    } else if (!group->is_single) {
        work -= group->gaps_ns;
        work = work > group->known_ns ? work : group->known_ns;
    }
    work = work < fresh ? work : fresh;
    return work > 0 ? work : 0;
}

double gy_meter_gap(double *free_at, double now, double cost)
{
    const bool is_late = *free_at > 0 && now > *free_at + GY_METER_GAP_NS;
    const double gap = is_late ? now - *free_at : 0;
    *free_at = (now > *free_at ? now : *free_at) + cost;
    return gap;
}
