#include "dispatcher/ways/metered.h"

gantry_status gy_metered_enter(struct gantry_dispatcher *d, uint32_t stream)
{
    if (d->lane == NULL || (d->recording.region != NULL && d->graphs.capturing)) {
        return GANTRY_OK; /* what is recorded is measured from outside */
    }
    return gy_lane_enter(&d->shares, d->lane, stream, d->streams.streams[stream].native, d->graphs.capturing,
                         1);
}

gantry_status gy_metered_leave(struct gantry_dispatcher *d)
{
    return d->recording.region != NULL ? GANTRY_OK : gy_lane_leave(&d->shares, d->lane);
}
