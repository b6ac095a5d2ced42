/* SPDX-License-Identifier: MIT */
/* Slices of a recording that the application gives. */
#include "base/span.h"
#include "base/status.h"

#include <gantry/profile.h>

#include <inttypes.h>

uint64_t gantry_profile_now(void)
{
    return gy_span_begin();
}

gantry_status gantry_profile_span(const char *name, uint64_t begin_ns, uint64_t end_ns, uint64_t id)
{
    if (name == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_profile_span: name is NULL");
    }
    if (begin_ns == 0 || end_ns == 0) { /* nothing was recorded then */
        return GANTRY_OK;
    }
    if (end_ns < begin_ns) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT,
                       "gantry_profile_span: '%s' ends at %" PRIu64 " ns, before it begins at %" PRIu64, name,
                       end_ns, begin_ns);
    }
    if (gy_span_on()) {
        gy_span_emit(GY_SPAN_APPLICATION, name, begin_ns, end_ns, id);
    }
    return GANTRY_OK;
}
