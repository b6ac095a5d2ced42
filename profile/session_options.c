/* SPDX-License-Identifier: MIT */
#include "profile/session_options.h"

#include "base/options.h"
#include "base/status.h"
#include "profile/encoders.h"
#include "profile/ring.h"

#include <stddef.h>

#define DEFAULT_SPANS 65536
#define DEFAULT_CTAS 131072
#define MAX_CTAS (1u << 24)
#define DEFAULT_BUFFERS 8
#define MAX_BUFFERS 64

gantry_status gy_session_import_options(gantry_profile_options *ours, const gantry_profile_options *theirs,
                                        gantry_profile **out)
{
    if (theirs == NULL || out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "profile: %s is NULL",
                       theirs == NULL ? "options" : "out");
    }
    size_t least = offsetof(gantry_profile_options, path) + sizeof(theirs->path);
    gantry_status status =
        gy_options_import(ours, offsetof(gantry_profile_options, reserved), theirs, least, "profile options");
    if (status != GANTRY_OK) {
        return status;
    }
    if (ours->path == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "profile: no path");
    }
    if (ours->spans_per_thread > GY_RING_MAX_SPANS) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "profile: %u spans per thread, at most %u",
                       ours->spans_per_thread, GY_RING_MAX_SPANS);
    }
    if ((unsigned)ours->clock > GANTRY_PROFILE_CLOCK_SM) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "profile: there is no clock %d", (int)ours->clock);
    }
    if (ours->encoders > GY_ENCODERS_MOST) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "profile: %u encoders, at most %u", ours->encoders,
                       GY_ENCODERS_MOST);
    }
    if ((unsigned)ours->ctas > GANTRY_PROFILE_CTAS_OFF || ours->ctas_per_buffer > MAX_CTAS ||
        ours->buffers > MAX_BUFFERS) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "profile: ctas %d, %u CTAs per buffer (at most %u), %u buffers (at most %u)",
                       (int)ours->ctas, ours->ctas_per_buffer, MAX_CTAS, ours->buffers, MAX_BUFFERS);
    }
    ours->spans_per_thread = ours->spans_per_thread != 0 ? ours->spans_per_thread : DEFAULT_SPANS;
    ours->ctas_per_buffer = ours->ctas_per_buffer != 0 ? ours->ctas_per_buffer : DEFAULT_CTAS;
    ours->buffers = ours->buffers != 0 ? ours->buffers : DEFAULT_BUFFERS;
    ours->encoders = ours->encoders != 0 ? ours->encoders : (uint8_t)gy_encoders_default();
    return GANTRY_OK;
}
