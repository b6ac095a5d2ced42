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

enum gy_pace_verdict gy_pace_ask(struct gy_region_device *device, const struct gy_region_settings *settings,
                                 uint64_t now, uint64_t *ready)
{
    const double rate = rate_of(settings);
    if (settings->share >= GY_REGION_WHOLE) { /* no limit: what is charged is only told */
        return GY_PACE_GO;
    }
    uint64_t in_flight = atomic_load(&device->in_flight);
    in_flight = in_flight < GY_PACE_MOST_DEBT_NS ? in_flight : GY_PACE_MOST_DEBT_NS;
    const uint64_t paid = settle(device, rate, now, in_flight == 0);
    const double tokens = now >= paid ? (double)(now - paid) * rate : -(double)(paid - now) * rate;
    uint64_t progress = atomic_load(&device->progress);
    const double some =
        GY_PACE_PAUSE_NS * rate < GY_PACE_RESUME_NS ? GY_PACE_PAUSE_NS * rate : GY_PACE_RESUME_NS;
    const bool has_run_out = atomic_load(&device->ran_out) != 0;
    if (tokens >= (double)in_flight + (has_run_out ? some : 0)) {
        if (has_run_out) {
            atomic_store(&device->ran_out, 0);
        }
        if (in_flight == 0) {
            atomic_store(&device->progress, now);
        }
        return GY_PACE_GO;
    }
    const bool stands = in_flight != 0 && now > progress && now - progress >= settings->credit_ms * NS_PER_MS;
    if (stands && atomic_compare_exchange_strong(&device->progress, &progress, now)) {
        atomic_fetch_add(&device->credits, 1);
        return GY_PACE_CREDIT;
    }
    if (!has_run_out) {
        atomic_store(&device->ran_out, 1);
    }
    *ready = now + (uint64_t)(((double)in_flight + some - tokens) / rate) + 1;
    return GY_PACE_HOLD;
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
    take_off(&place->region->slots[place->slot].in_flight[d], ns);
    take_off(&place->region->devices[d].in_flight, ns);
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
