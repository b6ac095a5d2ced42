/* SPDX-License-Identifier: MIT */
/* The conversion of %globaltimer to host time. */
#ifndef PROFILE_GPU_CLOCK_H
#define PROFILE_GPU_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* One exchange between host and GPU: the GPU read gpu_ns between the two host times.  Before that, at
 * asked_ns or later (0: not known), it read what the host was showing until `until_ns`. */
struct gy_gpu_exchange {
    uint64_t before_ns, gpu_ns, after_ns;
    uint64_t asked_ns, until_ns;
};

/* Two points that the clocks have in common, and the rate of one against the other.  Between the two points
 * the line through both holds; outside of them, a line with the rate `rate` does. */
struct gy_gpu_clock {
    uint64_t gpu_ns, host_ns; /* the later point */
    uint64_t bound_ns;        /* bound on the error at the later point; 0: nothing is known at all */
    uint64_t before_gpu_ns, before_host_ns; /* the earlier point */
    uint64_t before_bound_ns;               /* bound on the error there; 0: there is no earlier point */
    uint64_t tick_ns;                       /* step of the GPU's clock */
    double rate;                            /* host ns per GPU ns */
    double drift;                           /* bound on the rate's error */
};

/* Intersect what the exchanges, made within milliseconds, say about the clocks' difference.  The result is
 * one point; the rate is 1, and its error the one that may be assumed.  False: the exchanges contradict each
 * other, or there are none. */
bool gy_gpu_clock_meet(const struct gy_gpu_exchange *exchanges, uint32_t count, uint64_t tick_ns,
                       struct gy_gpu_clock *out);
/* Learn the rate of `clock` from an earlier clock, if that makes the rate better known than it is. */
void gy_gpu_clock_compare(struct gy_gpu_clock *clock, const struct gy_gpu_clock *earlier);
/* `clock` is a point that was met after the later point of `earlier`, which becomes its earlier one; each is
 * intersected with what the other says of it.  False: they contradict each other, since the rate has changed,
 * and nothing is done. */
bool gy_gpu_clock_follow(struct gy_gpu_clock *clock, const struct gy_gpu_clock *earlier);

uint64_t gy_gpu_clock_host(const struct gy_gpu_clock *clock, uint64_t gpu_ns);

/* The conversion of many times: the line that holds for GPU times in [from, to). */
struct gy_gpu_line {
    uint64_t from, to;
    uint64_t gpu_ns, host_ns; /* a point of the line */
    double excess;            /* how far the rate is above 1 */
};
struct gy_gpu_line gy_gpu_clock_line(const struct gy_gpu_clock *clock, uint64_t gpu_ns);
static inline uint64_t gy_gpu_line_host(const struct gy_gpu_line *line, uint64_t gpu_ns)
{
    int64_t distance = (int64_t)(gpu_ns - line->gpu_ns);
    distance += (int64_t)((double)distance * line->excess); /* the product is small: no precision is lost */
    return line->host_ns + (uint64_t)distance;
}
/* The bound on the error of gy_gpu_clock_host(). */
uint64_t gy_gpu_clock_bound(const struct gy_gpu_clock *clock, uint64_t gpu_ns);
/* The GPU ns after the later point until which the rate's error adds no more than a quarter to the bound; 0
 * for a clock that was never read. */
uint64_t gy_gpu_clock_age(const struct gy_gpu_clock *clock);

#endif
