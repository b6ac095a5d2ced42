/* SPDX-License-Identifier: MIT */
#include "dispatcher/call/metered.h"

#include "dispatcher/submit/round.h"

#include <assert.h>

gantry_status gy_metered_enter(const struct gantry_launch *launch)
{
    assert(gy_launch_is_valid(launch));
    struct gantry_dispatcher *d = launch->dispatcher;
    if (launch->meter == NULL || launch->mode == GY_MODE_RECORDING) {
        return GANTRY_OK; /* recorded work is measured from outside */
    }
    return gy_meter_enter(&d->shares, launch->meter, launch->stream_index,
                          d->streams.streams[launch->stream_index].native, gy_mode_is_noted(launch), 1);
}

gantry_status gy_metered_leave(const struct gantry_launch *launch)
{
    assert(gy_launch_is_valid(launch));
    return launch->round->recording != NULL ? GANTRY_OK
                                            : gy_meter_leave(&launch->dispatcher->shares, launch->meter);
}
