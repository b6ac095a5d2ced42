/* SPDX-License-Identifier: MIT */
/* What intervals have used of the GPU's time: the completion thread's part of shares.h. */
#include "dispatcher/gates/quota.h"

struct gpu_interval {
    double begin, end;
};

static bool has_stream(uint64_t streams, uint32_t i)
{
    return (streams >> i & 1) != 0;
}

/* Nanoseconds from one event to another; false when the context is lost. */
static bool elapsed(struct gy_shares *shares, CUevent from, CUevent to, double *ns)
{
    float ms = 0;
    bool good = GY_CALL(shares->context, cuEventElapsedTime(&ms, from, to)) == GANTRY_OK;
    *ns = (double)ms * 1e6;
    return good;
}

/* The times of an interval on the axis of the meter, in order of their begins.  They are taken from its own
 * first begin, since the distance of two events comes as a float.  The last end becomes the new base. */
static uint32_t read_times(struct gy_shares *shares, struct gy_meter *meter,
                           struct gy_share_interval *interval, struct gpu_interval *out)
{
    uint32_t first = (uint32_t)__builtin_ctzll(interval->streams);
    uint32_t count = 0, last = first;
    double origin, latest = -1e300;
    if (!elapsed(shares, meter->base, interval->begin[first], &origin)) {
        return 0;
    }
    origin += meter->base_ns;
    for (uint32_t i = first; i < GY_STREAMS_MAX; i++) {
        uint32_t k = count;
        struct gpu_interval one = {0, 0};
        if (!has_stream(interval->streams, i)) {
            continue;
        }
        if (!elapsed(shares, interval->begin[first], interval->begin[i], &one.begin) ||
            !elapsed(shares, interval->begin[first], interval->end[i], &one.end)) {
            return 0;
        }
        one.begin += origin;
        one.end += origin;
        last = one.end > latest ? i : last;
        latest = one.end > latest ? one.end : latest;
        for (; k > 0 && out[k - 1].begin > one.begin; k--) {
            out[k] = out[k - 1];
        }
        out[k] = one;
        count++;
    }
    CUevent base = meter->base;
    meter->base = interval->end[last];
    interval->end[last] = base;
    meter->base_ns = latest;
    return count;
}

/* How long the streams were busy in it, each moment once, and none that another interval has paid for: graphs
 * that do not depend on each other need not end in the order in which they were launched. */
static double busy_time(struct gy_shares *shares, struct gy_meter *meter, struct gy_share_interval *interval)
{
    struct gpu_interval times[GY_STREAMS_MAX];
    uint32_t count = read_times(shares, meter, interval, times);
    double busy = 0;
    for (uint32_t i = 0; i < count; i++) {
        busy += gy_busy_add(&meter->busy, times[i].begin, times[i].end);
    }
    return busy;
}

static bool has_passed(struct gy_shares *shares, const struct gy_share_interval *interval)
{
    const struct gy_driver *driver = shares->context->driver;
    if (interval->in_graph) { /* until the graph has run, its events are as an earlier one has left them */
        return driver->cuEventQuery(interval->gate) != CUDA_ERROR_NOT_READY;
    }
    for (uint32_t i = 0; i < GY_STREAMS_MAX; i++) {
        if (has_stream(interval->streams, i) &&
            driver->cuEventQuery(interval->end[i]) == CUDA_ERROR_NOT_READY) {
            return false;
        }
    }
    return true;
}

static void note_usage(struct gy_quota *quota, double used)
{
    uint64_t now = gy_share_now();
    gy_mutex_lock(&quota->lock);
    gy_gpu_usage_add(&quota->usage, now, used);
    quota->longest = used > quota->longest ? used : quota->longest;
    quota->groups++;
    gy_mutex_unlock(&quota->lock);
}

static bool collect_meter(struct gy_shares *shares, struct gy_meter *meter)
{
    bool news = false;
    uint64_t position = atomic_load_explicit(&meter->collected, memory_order_relaxed);
    while (position != atomic_load_explicit(&meter->published, memory_order_acquire)) {
        struct gy_share_interval *interval = &meter->intervals[position % GY_SHARE_INTERVALS];
        bool lost = gy_context_is_lost(shares->context);
        if (!lost && !has_passed(shares, interval)) {
            break;
        }
        bool empty = interval->streams == 0;
        interval->used = lost || empty ? 0 : busy_time(shares, meter, interval) * meter->weight;
        for (int a = 0; a < 2 && meter->quotas[a] != NULL; a++) {
            note_usage(meter->quotas[a], interval->used);
        }
        atomic_store_explicit(&meter->collected, ++position, memory_order_release);
        news = true;
    }
    return news;
}

void gy_shares_collect(struct gy_shares *shares)
{
    bool news = false;
    uint32_t count = atomic_load_explicit(&shares->count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t p = 0; p < GANTRY_PARTITIONS_MAX; p++) {
            struct gy_meter *meter = shares->quotas[i]->meters[p];
            news = (meter != NULL && collect_meter(shares, meter)) || news;
        }
    }
    if (news) {
        gy_inbox_signal(shares->inbox);
    }
}
