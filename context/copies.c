/* The copy tuning of a context. */
#include "context/context.h"

#include "base/handle.h"
#include "base/options.h"

gantry_status gantry_copy_get_tuning(gantry_context *context, gantry_copy_tuning *out)
{
    GY_NEED(CONTEXT, context);
    gantry_copy_tuning tuning = gy_copier_tuning(context->copier);
    return gy_stats_export(out, &tuning, sizeof(tuning), "gantry_copy_get_tuning");
}

gantry_status gantry_copy_set_tuning(gantry_context *context, const gantry_copy_tuning *tuning)
{
    GY_NEED(CONTEXT, context);
    return gy_copier_set_tuning(context->copier, tuning);
}
