/* SPDX-License-Identifier: MIT */
#include "limit/pace.h"

#define BIN_NS UINT64_C(100000000)
#define NS_PER_MS UINT64_C(1000000)

static double rate_of(const struct gy_region_settings *settings)
{
    const uint32_t share = settings->share;
    return (double)(share < 1 ? 1 : share > GY_REGION_WHOLE ? GY_REGION_WHOLE : share) / GY_REGION_WHOLE;
}

/* "Paid until", brought within its bounds, with what an idle job has saved cut to the burst. */
static uint64_t settle(struct gy_region_device *device, double rate, uint64_t now, bool idle)
{
    const double burst = (double)GY_PACE_BURST_NS / rate;
    uint64_t most = idle && burst < (double)GY_PACE_CEILING_NS ? (uint64_t)burst : GY_PACE_CEILING_NS;
    const uint64_t least = now > most ? now - most : 0;
    uint64_t paid = atomic_load(&device->paid_until);
    for (;;) {
        const uint64_t good = paid < least                        ? least
                              : paid > now + GY_PACE_MOST_DEBT_NS ? now + GY_PACE_MOST_DEBT_NS
                                                                  : paid;
        if (good == paid || atomic_compare_exchange_weak(&device->paid_until, &paid, good)) {
            return good;
        }
    }
}

static uint64_t in_flight_of(const struct gy_region_device *device)
{
    const uint64_t in_flight = atomic_load(&device->in_flight);
    return in_flight < GY_PACE_MOST_DEBT_NS ? in_flight : GY_PACE_MOST_DEBT_NS;
}

/* What the device lacks until its launches may go, ns of GPU time; 0 or less: nothing. */
static double lack_of(struct gy_region_device *device, double rate, uint64_t now)
{
    const uint64_t in_flight = in_flight_of(device);
    const uint64_t paid = settle(device, rate, now, in_flight == 0);
    const double tokens = now >= paid ? (double)(now - paid) * rate : -(double)(paid - now) * rate;
    const double some =
        GY_PACE_PAUSE_NS * rate < GY_PACE_RESUME_NS ? GY_PACE_PAUSE_NS * rate : GY_PACE_RESUME_NS;
    return (double)in_flight + (atomic_load(&device->ran_out) != 0 ? some : 0) - tokens;
}

/* ---- devices that wait for each other ----------------------------------------------------------- */

static bool is_coupled(const struct gy_region_device *device, uint64_t now)
{
    const uint64_t until = atomic_load(&device->coupled_until);
    return until > now && until - now <= GY_PACE_COUPLED_NS;
}

/* Coupled devices begin and stop together: what they lack is what the poorest of them does. */
static double lack_of_coupled(struct gy_region *region, int d, double rate, uint64_t now)
{
    double most = lack_of(&region->devices[d], rate, now);
    for (int e = 0; e < GY_REGION_DEVICES && is_coupled(&region->devices[d], now); e++) {
        struct gy_region_device *other = &region->devices[e];
        if (e != d && is_coupled(other, now) && atomic_load(&other->ran_out) != 0) {
            const double lack = lack_of(other, rate, now);
            most = lack > most ? lack : most;
        }
    }
    return most;
}

/* Has another of the coupled devices begun what is held on `d`?  So all stop at one point. */
static bool is_behind(const struct gy_region *region, int d, uint64_t now)
{
    const struct gy_region_device *device = &region->devices[d];
    return is_coupled(device, now) && atomic_load(&device->level) < atomic_load(&region->line);
}

/* Has something in flight on the device not ended when it should have?  It may wait for what is held.  What
 * is late for very long does not: it is a kernel that stays. */
static bool is_overdue(const struct gy_region_device *device, uint64_t slack, uint64_t now)
{
    const uint64_t due = atomic_load(&device->due);
    return atomic_load(&device->in_flight) != 0 && now > due && now - due > slack &&
           now - due <= GY_PACE_HOPE_NS;
}

/* A launch is held on `d`: does another device of the job wait for it?  They are coupled from then on.  One
 * goes at a time: what came after that for which the other device waits would wait for that device. */
static bool is_awaited(struct gy_region *region, int d, uint64_t now)
{
    struct gy_region_device *device = &region->devices[d];
    bool is = false;
    if (atomic_load(&device->due) > now) {
        return false;
    }
    for (int e = 0; e < GY_REGION_DEVICES; e++) {
        struct gy_region_device *other = &region->devices[e];
        const bool are_coupled = is_coupled(device, now) && is_coupled(other, now);
        if (e != d && is_overdue(other, are_coupled ? GY_PACE_LATE_NS : GY_PACE_LATE_FIRST_NS, now)) {
            atomic_store(&other->coupled_until, now + GY_PACE_COUPLED_NS);
            is = true;
        }
    }
    if (is) {
        atomic_store(&device->coupled_until, now + GY_PACE_COUPLED_NS);
        atomic_fetch_add(&device->awaited, 1);
    }
    return is;
}

/* ---- verdicts ----------------------------------------------------------------------------------- */

/* The first of the coupled devices begins again: all are level. */
static void level_out(struct gy_region *region, uint64_t now)
{
    bool have_all_stopped = true;
    for (int e = 0; e < GY_REGION_DEVICES; e++) {
        const struct gy_region_device *device = &region->devices[e];
        have_all_stopped =
            have_all_stopped && (!is_coupled(device, now) || atomic_load(&device->ran_out) != 0);
    }
    for (int e = 0; e < GY_REGION_DEVICES && have_all_stopped; e++) {
        atomic_store(&region->devices[e].level, 0);
    }
    if (have_all_stopped) {
        atomic_store(&region->line, 0);
    }
}

/* The others may come as far. */
static void draw_line(struct gy_region *region, const struct gy_region_device *device)
{
    const uint64_t begun = atomic_load(&device->level) + 1;
    uint64_t line = atomic_load(&region->line);
    while (line < begun && !atomic_compare_exchange_weak(&region->line, &line, begun)) {
    }
}

static enum gy_pace_verdict go(struct gy_region *region, struct gy_region_device *device, uint64_t now)
{
    const bool are_coupled = is_coupled(device, now);
    if (atomic_load(&device->ran_out) != 0) {
        if (are_coupled) {
            level_out(region, now);
        }
        atomic_store(&device->ran_out, 0);
    }
    if (are_coupled) {
        draw_line(region, device);
    }
    if (atomic_load(&device->in_flight) == 0) {
        atomic_store(&device->progress, now);
    }
    return GY_PACE_GO;
}

enum gy_pace_verdict gy_pace_ask(struct gy_region *region, int d, const struct gy_region_settings *settings,
                                 uint64_t now, uint64_t *ready)
{
    struct gy_region_device *device = &region->devices[d];
    const double rate = rate_of(settings);
    if (settings->share >= GY_REGION_WHOLE) { /* no limit: what is charged is only told */
        return GY_PACE_GO;
    }
    if (lack_of_coupled(region, d, rate, now) <= 0) {
        return go(region, device, now);
    }
    if (is_behind(region, d, now)) {
        return GY_PACE_GO;
    }
    if (is_awaited(region, d, now)) {
        return GY_PACE_AWAITED;
    }
    uint64_t progress = atomic_load(&device->progress);
    const bool stands =
        in_flight_of(device) != 0 && now > progress && now - progress >= settings->credit_ms * NS_PER_MS;
    if (stands && atomic_compare_exchange_strong(&device->progress, &progress, now)) {
        atomic_fetch_add(&device->credits, 1);
        return GY_PACE_CREDIT;
    }
    if (atomic_load(&device->ran_out) == 0) {
        atomic_store(&device->ran_out, 1);
    }
    const uint64_t wait = (uint64_t)(lack_of_coupled(region, d, rate, now) / rate) + 1;
    *ready = now + (is_coupled(device, now) && wait > GY_PACE_LOOK_NS ? GY_PACE_LOOK_NS : wait);
    return GY_PACE_HOLD;
}

void gy_pace_expect(const struct gy_region_place *place, int d, uint64_t ns, uint64_t now)
{
    if (atomic_load(&place->region->devices[1].id) == 0) {
        return; /* there is one device */
    }
    atomic_fetch_add(&place->region->devices[d].level, ns);
    _Atomic uint64_t *due = &place->region->devices[d].due;
    uint64_t old = atomic_load(due), next;
    do {
        next = (old > now && old - now < GY_PACE_CEILING_NS ? old : now) + ns;
    } while (!atomic_compare_exchange_weak(due, &old, next));
}

void gy_pace_reserve(const struct gy_region_place *place, int d, uint64_t more)
{
    atomic_fetch_add(&place->region->slots[place->slot].in_flight[d], more);
    atomic_fetch_add(&place->region->devices[d].in_flight, more);
}

static void take_off(_Atomic uint64_t *from, uint64_t amount)
{
    uint64_t old = atomic_load(from);
    while (!atomic_compare_exchange_weak(from, &old, old > amount ? old - amount : 0)) {
    }
}

void gy_pace_give_back(const struct gy_region_place *place, int d, uint64_t ns)
{
    struct gy_region_device *device = &place->region->devices[d];
    take_off(&place->region->slots[place->slot].in_flight[d], ns);
    take_off(&device->in_flight, ns);
    if (atomic_load(&device->in_flight) == 0) {
        atomic_store(&device->due, 0);
    }
}

/* The time is noted in the bin in which it ended. */
static void note_use(struct gy_region_device *device, uint64_t used, uint64_t now)
{
    const uint64_t number = now / BIN_NS & UINT32_MAX;
    _Atomic uint64_t *bin = &device->bins[number % GY_REGION_BINS];
    uint64_t old = atomic_load(bin);
    for (;;) {
        const uint64_t before = old >> 32 == number ? old & UINT32_MAX : 0;
        const uint64_t sum = before + used / 1000;
        const uint64_t new = number << 32 | (sum < UINT32_MAX ? sum : UINT32_MAX);
        if (atomic_compare_exchange_weak(bin, &old, new)) {
            return;
        }
    }
}

void gy_pace_charge(const struct gy_region_place *place, int d, uint64_t used, uint64_t now)
{
    struct gy_region_device *device = &place->region->devices[d];
    const double rate = rate_of(&place->settings);
    (void)settle(device, rate, now, false);
    atomic_fetch_add(&device->paid_until, (uint64_t)((double)used / rate));
    atomic_fetch_add(&device->charged, used);
    atomic_fetch_add(&place->region->slots[place->slot].charged, used);
    atomic_store(&device->progress, now);
    note_use(device, used, now);
}

double gy_pace_worst(const struct gy_region_device *device, uint32_t bins, uint64_t now)
{
    const uint64_t last = now / BIN_NS, first_use = atomic_load(&device->since) / BIN_NS;
    const uint64_t first = last >= GY_REGION_BINS ? last - GY_REGION_BINS + 1 : 0;
    double worst = 0, sum = 0;
    uint32_t taken = 0;
    for (uint64_t bin = first > first_use ? first : first_use; bin < last; bin++) {
        double used[2] = {0, 0}; /* of the bin that enters the window, and of the one that leaves it */
        for (int i = 0; i < 2; i++) {
            const uint64_t number = bin - (i == 0 ? 0 : bins);
            const uint64_t word = atomic_load(&device->bins[number % GY_REGION_BINS]);
            used[i] = word >> 32 == (number & UINT32_MAX) ? (double)(word & UINT32_MAX) * 1000 : 0;
        }
        sum += used[0] - (taken >= bins ? used[1] : 0);
        taken++;
        const double part = sum / ((double)bins * BIN_NS);
        worst = taken >= bins && part > worst ? part : worst;
    }
    return worst;
}
