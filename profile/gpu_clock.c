/* The arithmetic of clocks; who takes the readings is in profile/cta.c. */
#include "profile/gpu_clock.h"

#define ASSUMED_DRIFT 100e-6
#define LEAST_DRIFT 1e-7 /* rates change with temperature while a recording runs */

/* With d = GPU time - host time: the GPU's clock showed gpu_ns, and hence was in [gpu_ns, gpu_ns + tick), at
 * a host time in [before, after].  So d lies in [gpu_ns - after, gpu_ns + tick - before], for every exchange;
 * the rate's error over the milliseconds that they are apart is far below the bracket's width. */
bool gy_gpu_clock_meet(const struct gy_gpu_exchange *exchanges, uint32_t count, uint64_t tick_ns,
                       struct gy_gpu_clock *out)
{
    int64_t low = INT64_MIN, high = INT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const struct gy_gpu_exchange *e = &exchanges[i];
        int64_t least = (int64_t)(e->gpu_ns - e->after_ns);
        int64_t most = (int64_t)(e->gpu_ns + tick_ns - e->before_ns);
        low = least > low ? least : low;
        high = most < high ? most : high;
    }
    if (count == 0 || low > high) {
        return false;
    }
    int64_t difference = low + (high - low) / 2;
    const struct gy_gpu_exchange *last = &exchanges[count - 1];
    *out = (struct gy_gpu_clock){.gpu_ns = last->gpu_ns,
                                 .host_ns = last->gpu_ns - (uint64_t)difference,
                                 .bound_ns = (uint64_t)(high - low) / 2 + 1,
                                 .tick_ns = tick_ns,
                                 .rate = 1,
                                 .drift = ASSUMED_DRIFT};
    return true;
}

void gy_gpu_clock_compare(struct gy_gpu_clock *clock, const struct gy_gpu_clock *earlier)
{
    double gpu = (double)(int64_t)(clock->gpu_ns - earlier->gpu_ns);
    double host = (double)(int64_t)(clock->host_ns - earlier->host_ns);
    double error = (double)(clock->bound_ns + earlier->bound_ns);
    if (gpu > 0 && error / gpu + LEAST_DRIFT < ASSUMED_DRIFT) {
        clock->rate = host / gpu;
        clock->drift = error / gpu + LEAST_DRIFT;
    }
}

uint64_t gy_gpu_clock_host(const struct gy_gpu_clock *clock, uint64_t gpu_ns)
{
    int64_t distance = (int64_t)(gpu_ns - clock->gpu_ns);
    int64_t excess = (int64_t)((double)distance * (clock->rate - 1)); /* small: no precision is lost */
    return clock->host_ns + (uint64_t)(distance + excess);
}

uint64_t gy_gpu_clock_bound(const struct gy_gpu_clock *clock, uint64_t gpu_ns)
{
    int64_t distance = (int64_t)(gpu_ns - clock->gpu_ns);
    return clock->bound_ns + (uint64_t)((double)(distance < 0 ? -distance : distance) * clock->drift);
}
