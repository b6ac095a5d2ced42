/* The copy tuning of a context. */
#include "context/context.h"

#include "base/handle.h"
#include "base/options.h"

gantry_status gantry_copy_get_tuning(gantry_context *context, gantry_copy_tuning *out)
{
    if (GY_HANDLE_IS_BAD(CONTEXT, context)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    if (context == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_copy_get_tuning: context is NULL");
    }
    gantry_copy_tuning tuning = gy_copier_tuning(context->copier);
    return gy_stats_export(out, &tuning, sizeof(tuning), "gantry_copy_get_tuning");
}

gantry_status gantry_copy_set_tuning(gantry_context *context, const gantry_copy_tuning *tuning)
{
    if (GY_HANDLE_IS_BAD(CONTEXT, context)) {
        return GANTRY_ERR_INVALID_ARGUMENT;
    }
    if (context == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_copy_set_tuning: context is NULL");
    }
    return gy_copier_set_tuning(context->copier, tuning);
}
