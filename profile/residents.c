/* SPDX-License-Identifier: MIT */
/* A block adds its time to the buckets that it covers in part, and a step up and a step down around those
 * that it covers.  Buckets are written when they are older than the newest batch by half of the ring's
 * length: only a batch that comes later than that is missing there. */
#include "profile/residents.h"

#define HELD (GY_BUCKETS / 2)

bool gy_residents_have_room(const struct gy_residents *residents, uint64_t end_ns)
{
    return residents->counter == 0 || end_ns / GY_BUCKET_NS + 1 < residents->first + GY_BUCKETS;
}

uint64_t gy_residents_begin(struct gy_residents *r, struct gy_pftrace *trace, gy_pftrace_track gpu,
                            uint64_t begin_ns, uint64_t end_ns)
{
    uint64_t last = end_ns / GY_BUCKET_NS + 1;
    if (r->counter == 0) {
        r->counter = gy_pftrace_add_counter_track(trace, gpu, "resident CTAs");
        r->first = begin_ns / GY_BUCKET_NS;
        r->first -= r->first < HELD ? r->first : HELD;
        r->floor = r->first;
    }
    if (last >= r->floor + HELD) {
        r->floor = last - HELD;
    }
    r->last = last > r->last ? last : r->last;
    return r->floor;
}

void gy_residents_write(struct gy_residents *r, struct gy_pftrace *trace, uint64_t end)
{
    for (; r->first < end; r->first++) {
        uint32_t slot = (uint32_t)(r->first % GY_BUCKETS);
        r->full += atomic_load_explicit(&r->change[slot], memory_order_relaxed);
        int64_t ns = r->full * (int64_t)GY_BUCKET_NS +
                     atomic_load_explicit(&r->partial_ns[slot], memory_order_relaxed);
        uint64_t value = ns > 0 ? ((uint64_t)ns + GY_BUCKET_NS / 2) / GY_BUCKET_NS : 0;
        atomic_store_explicit(&r->change[slot], 0, memory_order_relaxed);
        atomic_store_explicit(&r->partial_ns[slot], 0, memory_order_relaxed);
        if (value != r->written) {
            gy_pftrace_add_count(trace, r->counter, r->first * GY_BUCKET_NS, value);
            r->written = value;
        }
        if (r->full == 0 && r->first > r->last) {
            r->first = end;
            break;
        }
    }
}

void gy_residents_finish(struct gy_residents *r, struct gy_pftrace *trace)
{
    if (r->counter != 0) {
        gy_residents_write(r, trace, r->last + 2);
    }
}

/* ---- sums -------------------------------------------------------------------------------------- */

void gy_resident_sums_init(struct gy_resident_sums *sums, struct gy_residents *residents, uint64_t floor,
                           uint64_t begin_ns)
{
    sums->residents = residents;
    sums->floor = floor;
    sums->base = begin_ns / GY_BUCKET_NS;
    sums->begin_ns = sums->end_ns = 0; /* no bucket yet */
    sums->used = 0;
}

/* Find the sum of a bucket's change or partial time here; NULL: the bucket is too far from the first. */
static int64_t *near(struct gy_resident_sums *sums, int64_t *array, uint64_t bucket)
{
    uint64_t index = bucket - sums->base;
    if (index >= GY_RESIDENT_SUMS) {
        return NULL;
    }
    for (; sums->used <= index; sums->used++) {
        sums->partial_ns[sums->used] = sums->change[sums->used] = 0;
    }
    return &array[index];
}

static void add_partial(struct gy_resident_sums *sums, uint64_t bucket, uint64_t ns)
{
    int64_t *sum = near(sums, sums->partial_ns, bucket);
    if (sum != NULL) {
        *sum += (int64_t)ns;
    } else {
        atomic_fetch_add_explicit(&sums->residents->partial_ns[bucket % GY_BUCKETS], (int64_t)ns,
                                  memory_order_relaxed);
    }
}

static void add_change(struct gy_resident_sums *sums, uint64_t bucket, int64_t change)
{
    int64_t *sum = near(sums, sums->change, bucket);
    if (sum != NULL) {
        *sum += change;
    } else {
        atomic_fetch_add_explicit(&sums->residents->change[bucket % GY_BUCKETS], change,
                                  memory_order_relaxed);
    }
}

void gy_resident_sums_add_far(struct gy_resident_sums *sums, uint64_t begin_ns, uint64_t end_ns)
{
    uint64_t begin = begin_ns / GY_BUCKET_NS, end = end_ns / GY_BUCKET_NS;
    if (begin < sums->floor) {
        return;
    }
    if (begin == end) {
        add_partial(sums, begin, end_ns - begin_ns);
    } else {
        add_partial(sums, begin, (begin + 1) * GY_BUCKET_NS - begin_ns);
        add_partial(sums, end, end_ns - end * GY_BUCKET_NS);
        add_change(sums, begin + 1, 1);
        add_change(sums, end, -1);
    }
    int64_t *sum = near(sums, sums->partial_ns, begin);
    if (sum != NULL) { /* the next buckets are likely to be there, too */
        sums->sum = sum;
        sums->begin_ns = begin * GY_BUCKET_NS;
        sums->end_ns = sums->begin_ns + GY_BUCKET_NS;
    }
}

void gy_resident_sums_flush(struct gy_resident_sums *sums)
{
    for (uint32_t i = 0; i < sums->used; i++) {
        uint32_t slot = (uint32_t)((sums->base + i) % GY_BUCKETS);
        if (sums->partial_ns[i] != 0) {
            atomic_fetch_add_explicit(&sums->residents->partial_ns[slot], sums->partial_ns[i],
                                      memory_order_relaxed);
        }
        if (sums->change[i] != 0) {
            atomic_fetch_add_explicit(&sums->residents->change[slot], sums->change[i], memory_order_relaxed);
        }
    }
    sums->used = 0;
}
