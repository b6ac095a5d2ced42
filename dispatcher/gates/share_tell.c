/* SPDX-License-Identifier: MIT */
/* What a recording is told of shares: what they were charged, and when they held tasks back, and for whom.
 * All of it runs on the dispatcher's thread (GD). */
#include "base/span.h"
#include "dispatcher/gates/quota.h"
#include "profile/session.h"

#include <stdio.h>

/* A span of the time until now in which the meter has held tasks back for one reason: it has the name of the
 * share that holds them, and of the one whose turn it was; its id is the ordinal of the device. */
void gy_meter_tell_held(const struct gy_meter *meter)
{
    char name[2 * GY_SHARE_NAME_BYTES + 16];
    snprintf(name, sizeof(name), "%s%s%s", meter->quotas[0]->name, meter->behind != NULL ? GY_SHARE_TURN : "",
             meter->behind != NULL ? meter->behind->quotas[0]->name : "");
    gy_span_end(GY_SPAN_SHARE, name, meter->held_since, (uint64_t)meter->quotas[0]->ordinal);
}

/* The meter does not admit its tasks because of `behind`, see there. */
void gy_meter_note_behind(struct gy_meter *meter, const struct gy_meter *behind)
{
    if (__builtin_expect(meter->held_since != 0, 0) && meter->behind != behind) {
        gy_meter_tell_held(meter);
        meter->held_since = gy_span_begin();
    }
    meter->behind = behind;
}

void gy_shares_count(struct gy_shares *shares, uint64_t generation)
{
    uint32_t count = atomic_load_explicit(&shares->count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        struct gy_quota *quota = shares->quotas[i];
        if (atomic_load(&quota->is_open)) {
            gy_mutex_lock(&quota->lock);
            uint64_t used = (uint64_t)quota->usage.used_ns;
            gy_mutex_unlock(&quota->lock);
            gy_profile_count(generation, quota->counter, used / 1000);
            if (quota->told != generation) {
                char name[sizeof(quota->counter)];
                snprintf(name, sizeof(name), "GPU %d: share of %s", quota->ordinal, quota->name);
                gy_profile_count(generation, name, (uint64_t)(quota->rate * 1e6 + 0.5));
                quota->told = generation;
            }
        }
    }
}
