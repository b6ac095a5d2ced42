/* SPDX-License-Identifier: MIT */
#include "base/foresight.h"

#include "base/times.h"

#include <assert.h>

enum {
    LOOK_PART = 4, /* for such a part of the usual time a thread may look without a break */
    NAP_PART = 64,
    FIRST_PART = 8,      /* after one time the spread is taken to be such a part of it */
    SECOND_PART = 64,    /* and after two at least such a part */
    ALIKE_PART = 32,     /* two times that differ by less than such a part are alike, */
    FAR_PART = 8,        /* by more than such a part they are not */
    LEARN_PART = 4,      /* the latest time counts for such a part of what is usual */
    OVERSLEEP_PART = 32, /* what is known of a sleep's end moves by such a part of itself, or by
                          * GY_OVERSLEEP_STEP_NS if that is more */
    OVERSLEEP_ODDS = 9   /* so many sleeps end in time for one that does not */
};

static const uint64_t class_ends_ns[GY_OVERSLEEP_CLASSES - 1] = {128000, 512000, 2000000};

static uint64_t absolute_difference(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

static uint64_t clamp(uint64_t ns, uint64_t least_ns, uint64_t most_ns)
{
    return ns < least_ns ? least_ns : ns > most_ns ? most_ns : ns;
}

/* ---- foresight ----------------------------------------------------------------------------------- */

bool gy_foresight_is_valid(const struct gy_foresight *f)
{
    return f->state == GY_FORESIGHT_NOTHING
               ? f->usual_ns == 0 && f->error_ns == 0
               : f->state <= GY_FORESIGHT_CLOSE && f->error_ns <= f->usual_ns / 2;
}

static uint64_t before_ns(const struct gy_foresight *f)
{
    uint64_t ns = 2 * f->error_ns + GY_EARLY_NS;
    return ns < f->usual_ns ? ns : f->usual_ns;
}

static uint64_t behind_ns(const struct gy_foresight *f)
{
    return 2 * f->error_ns + GY_LATE_NS;
}

static enum gy_foresight_state state_of(const struct gy_foresight *f, uint64_t may_waste_ns)
{
    uint64_t part_ns = f->usual_ns / LOOK_PART;
    bool is_close = before_ns(f) + behind_ns(f) <= (part_ns > may_waste_ns ? part_ns : may_waste_ns);
    return is_close ? GY_FORESIGHT_CLOSE : GY_FORESIGHT_ROUGH;
}

/* What is known of the spread rises at once, so that the next lookout would have had this end in it, and
 * falls slowly, or fast where it is far too large.  After a guess it is what was seen. */
static uint64_t next_error(const struct gy_foresight *f, uint64_t differs_ns)
{
    if (f->state == GY_FORESIGHT_ONCE) {
        uint64_t least_ns = f->usual_ns / SECOND_PART;
        return differs_ns > least_ns ? differs_ns : least_ns;
    }
    uint64_t part_ns = differs_ns < f->error_ns / 4 ? f->error_ns / 2 : f->error_ns / LEARN_PART;
    uint64_t mean_ns = f->error_ns - part_ns + differs_ns / LEARN_PART;
    return mean_ns > differs_ns / 2 ? mean_ns : differs_ns / 2;
}

/* Had the end passed before the first look of its lookout, or did it pass behind the last one?  Then how far
 * off it was is not known. */
static bool is_missed(const struct gy_foresight *f, uint64_t least_ns, uint64_t most_ns)
{
    return (most_ns < f->usual_ns && least_ns < f->usual_ns - before_ns(f)) ||
           (least_ns > f->usual_ns && most_ns > f->usual_ns + behind_ns(f));
}

/* Is it as it was the last time, and both are far from what is usual? */
static bool has_changed(const struct gy_foresight *f, uint64_t took_ns)
{
    return absolute_difference(took_ns, f->last_ns) < took_ns / ALIKE_PART &&
           absolute_difference(took_ns, f->usual_ns) > took_ns / FAR_PART;
}

uint64_t gy_foresight_learn(struct gy_foresight *f, uint64_t least_ns, uint64_t most_ns,
                            uint64_t may_waste_ns)
{
    assert(gy_foresight_is_valid(f));
    if (f->state == GY_FORESIGHT_NOTHING) {
        *f = (struct gy_foresight){GY_FORESIGHT_ONCE, most_ns, most_ns / FIRST_PART, most_ns};
        return most_ns;
    }
    uint64_t late_ns = most_ns < GY_OVERSLEEP_MOST_NS ? most_ns : GY_OVERSLEEP_MOST_NS;
    least_ns = clamp(least_ns, most_ns - late_ns, most_ns);
    uint64_t took_ns = clamp(f->usual_ns, least_ns, most_ns);
    if (has_changed(f, took_ns)) {
        f->usual_ns = took_ns;
        f->error_ns = took_ns / SECOND_PART;
    } else {
        uint64_t wide_ns = is_missed(f, least_ns, most_ns) ? 2 * f->error_ns + GY_EARLY_NS : 0;
        uint64_t next_ns = next_error(f, absolute_difference(took_ns, f->usual_ns));
        f->error_ns = next_ns > wide_ns ? next_ns : wide_ns;
        f->usual_ns = f->usual_ns - f->usual_ns / LEARN_PART + took_ns / LEARN_PART;
    }
    f->last_ns = took_ns;
    f->error_ns = f->error_ns < f->usual_ns / 2 ? f->error_ns : f->usual_ns / 2;
    f->state = state_of(f, may_waste_ns);
    assert(gy_foresight_is_valid(f));
    return took_ns;
}

/* ---- oversleep ----------------------------------------------------------------------------------- */

static _Atomic(uint64_t) *late_of(const struct gy_oversleep *o, uint64_t slept_ns)
{
    uint32_t i = 0;
    while (i < GY_OVERSLEEP_CLASSES - 1 && slept_ns >= class_ends_ns[i]) {
        i++;
    }
    return (_Atomic(uint64_t) *)&o->late_ns[i];
}

void gy_oversleep_init(struct gy_oversleep *o)
{
    static const uint64_t at_first_ns[GY_OVERSLEEP_CLASSES] = {10000, 25000, 50000, 100000};
    for (uint32_t i = 0; i < GY_OVERSLEEP_CLASSES; i++) {
        atomic_init(&o->late_ns[i], at_first_ns[i]);
    }
}

/* Two threads that learn at once may lose one of the two. */
void gy_oversleep_learn(struct gy_oversleep *o, uint64_t slept_ns, uint64_t late_ns)
{
    _Atomic(uint64_t) *known = late_of(o, slept_ns);
    uint64_t now_ns = atomic_load_explicit(known, memory_order_relaxed);
    uint64_t step_ns = now_ns / (OVERSLEEP_PART * OVERSLEEP_ODDS);
    step_ns = step_ns > GY_OVERSLEEP_STEP_NS ? step_ns : GY_OVERSLEEP_STEP_NS;
    if (late_ns > now_ns) {
        now_ns = clamp(now_ns + OVERSLEEP_ODDS * step_ns, 0, clamp(late_ns, 0, GY_OVERSLEEP_MOST_NS));
    } else {
        now_ns = now_ns > step_ns ? now_ns - step_ns : 0;
    }
    atomic_store_explicit(known, now_ns, memory_order_relaxed);
}

/* When a thread sets its alarm to, to be awake at `at_ns`; 0: that is too near to sleep. */
static uint64_t alarm_for(const struct gy_oversleep *o, uint64_t now_ns, uint64_t at_ns)
{
    uint64_t left_ns = at_ns > now_ns ? at_ns - now_ns : 0;
    uint64_t late_ns = atomic_load_explicit(late_of(o, left_ns), memory_order_relaxed);
    return left_ns > late_ns + GY_SLEEP_LEAST_NS ? at_ns - late_ns : 0;
}

/* ---- lookouts ------------------------------------------------------------------------------------ */

struct gy_lookout gy_foresight_lookout(const struct gy_foresight *f, uint64_t since_ns)
{
    uint64_t nap_ns = f->usual_ns / NAP_PART > GY_LOOKOUT_NAP_NS ? f->usual_ns / NAP_PART : GY_LOOKOUT_NAP_NS;
    bool is_rough = f->state != GY_FORESIGHT_CLOSE;
    if (f->state == GY_FORESIGHT_NOTHING || (is_rough && nap_ns > GY_LOOKOUT_NAP_MOST_NS)) {
        return (struct gy_lookout){0};
    }
    return (struct gy_lookout){
        .from_ns = since_ns + f->usual_ns - before_ns(f),
        .until_ns = since_ns + f->usual_ns + behind_ns(f),
        .nap_ns = is_rough ? nap_ns : 0,
    };
}

uint64_t gy_lookout_next(const struct gy_lookout *lookout, const struct gy_oversleep *oversleep,
                         uint64_t now_ns)
{
    if (gy_lookout_is_over(lookout, now_ns)) {
        return UINT64_MAX;
    }
    uint64_t alarm_ns = now_ns < lookout->from_ns ? alarm_for(oversleep, now_ns, lookout->from_ns) : 0;
    return alarm_ns != 0 ? alarm_ns : lookout->nap_ns != 0 ? now_ns + lookout->nap_ns : 0;
}
