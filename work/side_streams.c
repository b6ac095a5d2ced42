/* SPDX-License-Identifier: MIT */
#include "work/side_streams.h"

#include "driver/places.h"

void gy_side_streams_init(struct gy_side_streams *streams, struct gy_context *context)
{
    *streams = (struct gy_side_streams){.context = context};
}

void gy_side_streams_fini(struct gy_side_streams *streams)
{
    const struct gy_driver *driver = streams->context->driver;
    if (streams->begin != NULL) {
        (void)driver->cuEventDestroy(streams->begin);
    }
    for (uint32_t i = 0; i < GY_SIDE_STREAMS; i++) {
        if (streams->of[i].done != NULL) {
            (void)driver->cuEventDestroy(streams->of[i].done);
        }
        if (streams->of[i].native != NULL) {
            (void)driver->cuStreamDestroy(streams->of[i].native);
            gy_places_give(streams->context->places, 1);
        }
    }
}

/* It is made if it is not there. */
static bool is_there(struct gy_side_streams *streams, struct gy_side_stream *side)
{
    struct gy_context *context = streams->context;
    gantry_status status = GANTRY_OK;
    if (side->native == NULL) {
        status = gy_context_create_stream(context, NULL, 0, &side->native);
        gy_places_take(context->places, status == GANTRY_OK);
    }
    if (status == GANTRY_OK && side->done == NULL) {
        status = GY_CALL(context, cuEventCreate(&side->done, CU_EVENT_DISABLE_TIMING));
    }
    return status == GANTRY_OK;
}

struct gy_side_stream *gy_side_streams_next(struct gy_side_streams *streams, uint32_t *next)
{
    while (*next < GY_SIDE_STREAMS && is_there(streams, &streams->of[*next])) {
        struct gy_side_stream *side = &streams->of[(*next)++];
        if (!side->is_used || streams->context->driver->cuEventQuery(side->done) == CUDA_SUCCESS) {
            return side;
        }
    }
    return NULL;
}

gantry_status gy_side_streams_fork(struct gy_side_streams *streams, CUstream home,
                                   struct gy_side_stream *const *sides, uint32_t count)
{
    struct gy_context *context = streams->context;
    gantry_status status = streams->begin != NULL
                               ? GANTRY_OK
                               : GY_CALL(context, cuEventCreate(&streams->begin, CU_EVENT_DISABLE_TIMING));
    status = status == GANTRY_OK ? GY_CALL(context, cuEventRecord(streams->begin, home)) : status;
    for (uint32_t i = 0; i < count && status == GANTRY_OK; i++) {
        status = GY_CALL(context, cuStreamWaitEvent(sides[i]->native, streams->begin, 0));
    }
    return status;
}

gantry_status gy_side_stream_join(struct gy_side_streams *streams, struct gy_side_stream *side, CUstream home)
{
    const gantry_status status = GY_CALL(streams->context, cuEventRecord(side->done, side->native));
    side->is_used = true;
    return status == GANTRY_OK ? GY_CALL(streams->context, cuStreamWaitEvent(home, side->done, 0)) : status;
}
