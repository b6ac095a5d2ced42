/* What segments have used: GDB's part of shares.h. */
#include "dispatcher/gates/shares.h"

struct gpu_interval {
    double begin, end;
};

static bool has_stream(const struct gy_share_streams *streams, uint32_t i)
{
    return i == GY_SHARE_ORIGIN ? streams->origin : (streams->pool >> i & 1) != 0;
}

/* Nanoseconds from one event to another; false when the context is lost. */
static bool elapsed(struct gy_shares *shares, CUevent from, CUevent to, double *ns)
{
    float ms = 0;
    bool good = GY_CALL(shares->context, cuEventElapsedTime(&ms, from, to)) == GANTRY_OK;
    *ns = (double)ms * 1e6;
    return good;
}

/* The times of a segment on the axis of the lane, in order of their begins.  They are taken from its own
 * first begin, since the distance of two events comes as a float.  The last end becomes the new base. */
static uint32_t read_times(struct gy_shares *shares, struct gy_lane *lane, struct gy_share_segment *segment,
                           struct gpu_interval *out)
{
    uint32_t first =
        segment->streams.pool != 0 ? (uint32_t)__builtin_ctzll(segment->streams.pool) : GY_SHARE_ORIGIN;
    uint32_t count = 0, last = first;
    double origin, latest = -1e300;
    if (!elapsed(shares, lane->base, segment->begin[first], &origin)) {
        return 0;
    }
    origin += lane->base_ns;
    for (uint32_t i = first; i < GY_SHARE_STREAMS; i++) {
        uint32_t k = count;
        struct gpu_interval one = {0, 0};
        if (!has_stream(&segment->streams, i)) {
            continue;
        }
        if (!elapsed(shares, segment->begin[first], segment->begin[i], &one.begin) ||
            !elapsed(shares, segment->begin[first], segment->end[i], &one.end)) {
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
    CUevent base = lane->base;
    lane->base = segment->end[last];
    segment->end[last] = base;
    lane->base_ns = latest;
    return count;
}

/* How long the streams were busy in it, each moment once, and none that an earlier segment has paid for. */
static double busy_time(struct gy_shares *shares, struct gy_lane *lane, struct gy_share_segment *segment)
{
    struct gpu_interval times[GY_SHARE_STREAMS];
    uint32_t count = read_times(shares, lane, segment, times);
    double busy = 0;
    for (uint32_t i = 0; i < count; i++) {
        double begin = times[i].begin > lane->watermark ? times[i].begin : lane->watermark;
        busy += times[i].end > begin ? times[i].end - begin : 0;
        lane->watermark = times[i].end > lane->watermark ? times[i].end : lane->watermark;
    }
    return busy;
}

static bool has_passed(struct gy_shares *shares, const struct gy_share_segment *segment)
{
    const struct gy_driver *driver = shares->context->driver;
    if (segment->captured) { /* until the graph has run, its events are as an earlier one has left them */
        return driver->cuEventQuery(segment->gate) != CUDA_ERROR_NOT_READY;
    }
    for (uint32_t i = 0; i < GY_SHARE_STREAMS; i++) {
        if (has_stream(&segment->streams, i) &&
            driver->cuEventQuery(segment->end[i]) == CUDA_ERROR_NOT_READY) {
            return false;
        }
    }
    return true;
}

static void note_usage(struct gy_account *account, double used)
{
    uint64_t now = gy_share_now();
    gy_mutex_lock(&account->lock);
    gy_gpu_usage_add(&account->usage, now, used);
    account->longest = used > account->longest ? used : account->longest;
    account->groups++;
    gy_mutex_unlock(&account->lock);
}

static bool collect_lane(struct gy_shares *shares, struct gy_lane *lane)
{
    bool news = false;
    uint64_t position = atomic_load_explicit(&lane->collected, memory_order_relaxed);
    while (position != atomic_load_explicit(&lane->published, memory_order_acquire)) {
        struct gy_share_segment *segment = &lane->segments[position % GY_SHARE_SEGMENTS];
        bool lost = gy_context_is_lost(shares->context);
        if (!lost && !has_passed(shares, segment)) {
            break;
        }
        bool empty = segment->streams.pool == 0 && !segment->streams.origin;
        segment->used = lost || empty ? 0 : busy_time(shares, lane, segment) * lane->weight;
        for (int a = 0; a < 2 && lane->accounts[a] != NULL; a++) {
            note_usage(lane->accounts[a], segment->used);
        }
        atomic_store_explicit(&lane->collected, ++position, memory_order_release);
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
            struct gy_lane *lane = shares->accounts[i]->lanes[p];
            news = (lane != NULL && collect_lane(shares, lane)) || news;
        }
    }
    if (news) {
        gy_inbox_signal(shares->inbox);
    }
}
