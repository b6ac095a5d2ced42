/* SPDX-License-Identifier: MIT */
/* Offsets.  Each SM counts up one counter in the L2 cache, again and again, and reads its clock before and
 * after. The counter orders the steps of all SMs, and no SM waits for another.  A step happened about in the
 * middle between the two readings.  So in the order of the counter the middles of all SMs grow steadily, and
 * an SM whose clock is ahead lies above its neighbours by as much.  Its offset is the mean of this over all
 * its steps.  The remaining error is half the difference between the way to the cache and the way back.
 *
 * Lines.  The SMs' own clocks should all run at one rate, though nobody promises it, and they start anywhere.
 * Two anchors give an SM a line; the error of the line is how much its rate differs from the median of all.
 */
#include "profile/sm_clock.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- offsets ----------------------------------------------------------------------------------- */

static double middle_of(const struct gy_sm_sample *samples, uint32_t i)
{
    uint64_t origin = samples[0].before_ns; /* near the origin a double is exact */
    return ((double)(int64_t)(samples[i].before_ns - origin) +
            (double)(int64_t)(samples[i].after_ns - origin)) /
           2;
}

struct offset_sums {
    double ns[GY_SMS];
    uint32_t samples[GY_SMS];
};

/* Compare each step with the mean of the `reach` steps before and after it. */
static void sum_up(const struct gy_sm_sample *samples, uint32_t count, uint32_t reach,
                   struct offset_sums *sums)
{
    double window = 0;
    for (uint32_t i = 0; i < 2 * reach + 1; i++) {
        window += middle_of(samples, i);
    }
    for (uint32_t i = reach; i + reach < count; i++) {
        uint32_t sm = samples[i].sm % GY_SMS;
        sums->ns[sm] += middle_of(samples, i) - window / (2 * reach + 1);
        sums->samples[sm]++;
        if (i + reach + 1 < count) {
            window += middle_of(samples, i + reach + 1) - middle_of(samples, i - reach);
        }
    }
}

/* The number of SMs; 0: neighbours in the order are mostly of one SM, or a step is missing. */
static uint32_t count_sms(const struct gy_sm_sample *samples, uint32_t count)
{
    bool seen[GY_SMS] = {false};
    uint32_t sms = 0, turns = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (samples[i].before_ns == 0 || samples[i].after_ns < samples[i].before_ns) {
            return 0;
        }
        uint32_t sm = samples[i].sm % GY_SMS;
        sms += !seen[sm];
        seen[sm] = true;
        turns += i > 0 && samples[i - 1].sm % GY_SMS != sm;
    }
    return turns >= count / 2 ? sms : 0;
}

uint32_t gy_sm_offsets(const struct gy_sm_sample *samples, uint32_t count, struct gy_sm_offset *out)
{
    uint32_t sms = count_sms(samples, count);
    uint32_t reach = 2 * sms;
    struct offset_sums *sums = sms > 1 && 4 * reach < count ? gy_zalloc(sizeof(*sums)) : NULL;
    if (sums == NULL) {
        return 0;
    }
    sum_up(samples, count, reach, sums);
    uint32_t found = 0;
    for (uint32_t sm = 0; sm < GY_SMS; sm++) {
        if (sums->samples[sm] != 0) {
            out[found++] = (struct gy_sm_offset){
                .sm = sm, .samples = sums->samples[sm], .ns = sums->ns[sm] / sums->samples[sm]};
        }
    }
    gy_free(sums);
    return found;
}

static double magnitude(double value)
{
    return value < 0 ? -value : value;
}

uint64_t gy_sm_offset_error(const struct gy_sm_offset *offset)
{
    return (uint64_t)(magnitude(offset->ns) + 0.999);
}

static int by_error(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

uint64_t gy_sm_p99(uint64_t *errors, uint32_t count)
{
    if (count == 0) {
        return 0;
    }
    qsort(errors, count, sizeof(*errors), by_error);
    return errors[count - 1 - count / 100];
}

/* ---- lines ------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Compute the rate between the two anchors of a line; false: they do not give a rate. */
static bool rate_of(const struct gy_sm_anchor *from, const struct gy_sm_anchor *to, double *rate)
{
    if (from == NULL || to == NULL || to->clock <= from->clock || to->timer_ns <= from->timer_ns) {
        return false;
    }
    *rate = (double)(to->timer_ns - from->timer_ns) / (double)(to->clock - from->clock);
    return true;
}

/* The anchor; NULL: no block ran there, or it never saw the timer change. */
static const struct gy_sm_anchor *claimed(const struct gy_sm_anchor *anchor)
{
    return anchor->claimed != 0 && anchor->timer_ns != 0 ? anchor : NULL;
}

static const struct gy_sm_anchor *earliest(const struct gy_sm_anchor *begin,
                                           const struct gy_sm_anchor *before)
{
    return claimed(begin) != NULL ? begin : claimed(before);
}

static uint64_t widest(const struct gy_sm_anchor *a, const struct gy_sm_anchor *b)
{
    uint64_t first = a != NULL ? a->width_ns : 0, second = b != NULL ? b->width_ns : 0;
    return first > second ? first : second;
}

static double median_rate(const struct gy_sm_anchor *begin, const struct gy_sm_anchor *end,
                          const struct gy_sm_anchor *before, uint32_t count)
{
    double rates[GY_SMS];
    uint32_t known = 0;
    for (uint32_t sm = 0; sm < count; sm++) {
        const struct gy_sm_anchor *from = earliest(&begin[sm], &before[sm]);
        known += rate_of(from, claimed(&end[sm]), &rates[known]);
    }
    qsort(rates, known, sizeof(*rates), by_value);
    return known != 0 ? rates[known / 2] : 0;
}

void gy_sm_lines(const struct gy_sm_anchor *begin, const struct gy_sm_anchor *end, uint32_t count,
                 struct gy_sm_anchor *before, struct gy_sm_line *out)
{
    double median = median_rate(begin, end, before, count);
    for (uint32_t sm = 0; sm < count; sm++) {
        const struct gy_sm_anchor *from = earliest(&begin[sm], &before[sm]);
        const struct gy_sm_anchor *to = claimed(&end[sm]), *point = from != NULL ? from : to;
        double rate = median;
        out[sm] = (struct gy_sm_line){0};
        if (point == NULL || median == 0) {
            continue;
        }
        bool both = rate_of(from, to, &rate);
        double span = both ? (double)(to->clock - from->clock) : 0;
        out[sm] =
            (struct gy_sm_line){.clock = point->clock,
                                .timer_ns = point->timer_ns,
                                .ns_per_clock = rate,
                                .error_ns = widest(from, to) + (uint64_t)(span * magnitude(rate - median))};
        before[sm] = to != NULL ? *to : *point;
    }
}

uint64_t gy_sm_line_at(const struct gy_sm_line *line, uint64_t clock)
{
    double ns = (double)(int64_t)(clock - line->clock) * line->ns_per_clock;
    return line->timer_ns + (uint64_t)(int64_t)(ns < 0 ? ns - 0.5 : ns + 0.5);
}
