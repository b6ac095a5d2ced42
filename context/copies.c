/* SPDX-License-Identifier: MIT */
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

static gantry_status check_peer(const gantry_context *context, int peer, const char *call)
{
    if (peer < 0 || peer >= GY_COPY_PEERS) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: peer is %d, not 0 to %d", call, peer,
                       GY_COPY_PEERS - 1);
    }
    if (peer == context->cuda->info.ordinal) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: %d is the context's own device", call, peer);
    }
    return GANTRY_OK;
}

gantry_status gantry_copy_get_peer_tuning(gantry_context *context, int peer, gantry_copy_peer_tuning *out)
{
    static const char call[] = "gantry_copy_get_peer_tuning";
    GY_NEED(CONTEXT, context);
    gantry_status status = check_peer(context, peer, call);
    if (status != GANTRY_OK) {
        return status;
    }
    const gantry_copy_peer_tuning tuning = gy_copier_peer_tuning(context->copier, (uint32_t)peer);
    return gy_stats_export(out, &tuning, sizeof(tuning), call);
}

gantry_status gantry_copy_set_peer_tuning(gantry_context *context, int peer,
                                          const gantry_copy_peer_tuning *tuning)
{
    static const char call[] = "gantry_copy_set_peer_tuning";
    GY_NEED(CONTEXT, context);
    gantry_copy_peer_tuning ours = {0};
    gantry_status status = check_peer(context, peer, call);
    if (status == GANTRY_OK && tuning == NULL) {
        status = GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "%s: tuning is NULL", call);
    }
    if (status == GANTRY_OK) {
        status = gy_options_import(&ours, sizeof(ours), tuning, sizeof(ours), call);
    }
    if (status == GANTRY_OK) {
        gy_copier_set_peer_tuning(context->copier, (uint32_t)peer, &ours);
    }
    return status;
}
