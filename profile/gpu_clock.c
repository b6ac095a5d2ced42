/* SPDX-License-Identifier: MIT */
/* The arithmetic of clocks; profile/device_clock.c takes the readings. */
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
        int64_t asked = e->asked_ns != 0 ? (int64_t)(e->asked_ns - e->until_ns) : least;
        low = least > low ? least : low;
        low = asked > low ? asked : low;
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
    if (gpu > 0 && error / gpu + LEAST_DRIFT < clock->drift) {
        clock->rate = host / gpu;
        clock->drift = error / gpu + LEAST_DRIFT;
    }
}

/* The interval of host times for one GPU time. */
struct host_interval {
    int64_t low, high;
};

static bool intersect(struct host_interval *a, struct host_interval b)
{
    a->low = b.low > a->low ? b.low : a->low;
    a->high = b.high < a->high ? b.high : a->high;
    return a->low <= a->high;
}

/* The interval according to a point that is `distance` away in GPU time. */
static struct host_interval seen_from(uint64_t host_ns, uint64_t bound_ns, int64_t distance,
                                      const struct gy_gpu_clock *rates)
{
    int64_t middle = (int64_t)host_ns + distance + (int64_t)((double)distance * (rates->rate - 1));
    double far = (double)(distance < 0 ? -distance : distance) * rates->drift;
    int64_t bound = (int64_t)bound_ns + (int64_t)far + 1;
    return (struct host_interval){middle - bound, middle + bound};
}

static uint64_t middle_of(struct host_interval i)
{
    return (uint64_t)(i.low + (i.high - i.low) / 2);
}

static uint64_t half_of(struct host_interval i)
{
    return (uint64_t)(i.high - i.low) / 2 + 1;
}

bool gy_gpu_clock_follow(struct gy_gpu_clock *clock, const struct gy_gpu_clock *earlier)
{
    int64_t distance = (int64_t)(clock->gpu_ns - earlier->gpu_ns);
    struct host_interval late = seen_from(clock->host_ns, clock->bound_ns, 0, clock);
    struct host_interval early = seen_from(earlier->host_ns, earlier->bound_ns, 0, clock);
    struct host_interval from_early = seen_from(earlier->host_ns, earlier->bound_ns, distance, clock);
    struct host_interval from_late = seen_from(clock->host_ns, clock->bound_ns, -distance, clock);
    if (distance <= 0 || !intersect(&late, from_early) || !intersect(&early, from_late)) {
        return false;
    }
    clock->host_ns = middle_of(late);
    clock->bound_ns = half_of(late);
    clock->before_gpu_ns = earlier->gpu_ns;
    clock->before_host_ns = middle_of(early);
    clock->before_bound_ns = half_of(early);
    return true;
}

/* Is there a line through two points, and is the time between them? */
static bool is_between(const struct gy_gpu_clock *clock, uint64_t gpu_ns)
{
    return clock->before_bound_ns != 0 && gpu_ns < clock->gpu_ns && gpu_ns > clock->before_gpu_ns;
}

struct gy_gpu_line gy_gpu_clock_line(const struct gy_gpu_clock *clock, uint64_t gpu_ns)
{
    struct gy_gpu_line line = {0, UINT64_MAX, clock->gpu_ns, clock->host_ns, clock->rate - 1};
    if (is_between(clock, gpu_ns)) {
        double host = (double)(clock->host_ns - clock->before_host_ns);
        double gpu = (double)(clock->gpu_ns - clock->before_gpu_ns);
        line.excess = host / gpu - 1;
        line.from = clock->before_gpu_ns + 1;
        line.to = clock->gpu_ns;
    } else if (clock->before_bound_ns != 0 && gpu_ns < clock->gpu_ns) {
        line.gpu_ns = clock->before_gpu_ns;
        line.host_ns = clock->before_host_ns;
        line.to = clock->before_gpu_ns + 1;
    } else if (clock->before_bound_ns != 0) {
        line.from = clock->gpu_ns;
    }
    return line;
}

uint64_t gy_gpu_clock_host(const struct gy_gpu_clock *clock, uint64_t gpu_ns)
{
    struct gy_gpu_line line = gy_gpu_clock_line(clock, gpu_ns);
    return gy_gpu_line_host(&line, gpu_ns);
}

uint64_t gy_gpu_clock_bound(const struct gy_gpu_clock *clock, uint64_t gpu_ns)
{
    int64_t distance = (int64_t)(gpu_ns - clock->gpu_ns);
    uint64_t bound = clock->bound_ns;
    double far = (double)(distance < 0 ? -distance : distance) * clock->drift;
    if (is_between(clock, gpu_ns)) { /* errors of the ends, and of a rate that changes along the line */
        bound = bound > clock->before_bound_ns ? bound : clock->before_bound_ns;
        far = (double)(clock->gpu_ns - clock->before_gpu_ns) * LEAST_DRIFT;
    } else if (clock->before_bound_ns != 0 && distance < 0) {
        bound = clock->before_bound_ns;
        far = (double)(clock->before_gpu_ns - gpu_ns) * clock->drift;
    }
    return bound + (uint64_t)far;
}

uint64_t gy_gpu_clock_age(const struct gy_gpu_clock *clock)
{
    return clock->drift > 0 ? (uint64_t)((double)clock->bound_ns / (4 * clock->drift)) : 0;
}
