#include "dispatcher/shares.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "partition/limit.h"

#include <assert.h>

#define BURST_NS 2000000u
#define IN_FLIGHT 4u
#define QUANTUM_NS 500000.0

#ifdef GANTRY_TESTING
const struct gy_share_clock *gy_share_test_clock;
#endif

uint64_t gy_share_now(void)
{
#ifdef GANTRY_TESTING
    if (gy_share_test_clock != NULL) {
        return gy_share_test_clock->now();
    }
#endif
    return gy_clock_ns();
}

static uint64_t load(const _Atomic(uint64_t) *position)
{
    return atomic_load_explicit(position, memory_order_acquire);
}

/* ---- life ----------------------------------------------------------------------------------- */

static gantry_status open_share(struct gy_shares *shares, const struct gantry_partition *p, double rate)
{
    struct gy_share *s = gy_zalloc(sizeof(*s));
    if (s == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for the share of partition '%s'",
                       p->info.name);
    }
    gantry_status status = GY_CALL(shares->context, cuEventCreate(&s->base, CU_EVENT_DEFAULT));
    if (status != GANTRY_OK) {
        gy_free(s);
        return status;
    }
    uint64_t burst = p->share.burst_ns != 0 ? p->share.burst_ns : BURST_NS;
    s->weight = (double)p->info.granted_sms / (double)p->info.total_sms;
    s->rate = rate;
    s->in_flight = p->share.in_flight != 0 ? p->share.in_flight : IN_FLIGHT;
    s->quantum = (double)burst / 4 < QUANTUM_NS ? (double)burst / 4 : QUANTUM_NS;
    s->is_idle = true;
    gy_mutex_init(&s->lock, GY_RANK_LEAF);
    gy_bucket_init(&s->bucket, rate, burst, gy_share_now());
    gy_usage_init(&s->usage, s->bucket.at_ns);
    shares->of[p->info.index] = s;
    shares->any = true;
    return GANTRY_OK;
}

gantry_status gy_shares_init(struct gy_shares *shares, struct gy_context *context,
                             const struct gy_partitions *partitions, struct gy_inbox *inbox)
{
    double limit;
    *shares = (struct gy_shares){.context = context, .inbox = inbox, .count = partitions->count};
    gantry_status status = gy_limit_read(&limit);
    for (uint32_t i = 0; i < partitions->count && status == GANTRY_OK; i++) {
        const struct gantry_partition *p = &partitions->partitions[i];
        /* The process's limit is a part of what each partition is, so that all together keep it. */
        double part = (double)p->info.granted_sms / (double)p->info.total_sms;
        double percent = p->share.percent > 0 ? p->share.percent : limit * part;
        if (percent > 0 && percent < 100) {
            status = open_share(shares, p, percent / 100);
        }
    }
    if (status != GANTRY_OK) {
        gy_shares_fini(shares);
    }
    return status;
}

static void destroy_event(const struct gy_driver *driver, CUevent event)
{
    if (event != NULL) {
        (void)driver->cuEventDestroy(event); /* on a lost context destruction fails as everything does */
    }
}

void gy_shares_fini(struct gy_shares *shares)
{
    const struct gy_driver *driver = shares->context->driver;
    for (uint32_t i = 0; i < shares->count; i++) {
        struct gy_share *s = shares->of[i];
        for (uint32_t k = 0; s != NULL && k < GY_SHARE_SEGMENTS; k++) {
            for (uint32_t e = 0; e < GY_STREAMS_MAX; e++) {
                destroy_event(driver, s->segments[k].begin[e]);
                destroy_event(driver, s->segments[k].end[e]);
            }
        }
        if (s != NULL) {
            destroy_event(driver, s->base);
            gy_mutex_fini(&s->lock);
            gy_free(s);
        }
        shares->of[i] = NULL;
    }
}

/* ---- GD: launching -------------------------------------------------------------------------- */

bool gy_share_admits(struct gy_share *s)
{
    uint64_t opened = atomic_load_explicit(&s->opened, memory_order_relaxed);
    bool is_open = opened != atomic_load_explicit(&s->closed, memory_order_relaxed);
    if (!is_open && opened - load(&s->collected) >= s->in_flight) {
        return false;
    }
    gy_mutex_lock(&s->lock);
    bool was_idle = s->is_idle;
    s->is_idle = false;
    if (was_idle) {
        gy_bucket_refill(&s->bucket, gy_share_now(), true);
    }
    bool admits = gy_bucket_admits(&s->bucket);
    if (!admits && !was_idle) {
        gy_bucket_refill(&s->bucket, gy_share_now(), false);
        admits = gy_bucket_admits(&s->bucket);
    }
    gy_mutex_unlock(&s->lock);
    return admits;
}

static gantry_status record(struct gy_shares *shares, CUevent *event, CUstream stream)
{
    gantry_status status =
        *event != NULL ? GANTRY_OK : GY_CALL(shares->context, cuEventCreate(event, CU_EVENT_DEFAULT));
    return status == GANTRY_OK ? GY_CALL(shares->context, cuEventRecord(*event, stream)) : status;
}

gantry_status gy_share_enter(struct gy_shares *shares, struct gy_share *s, struct gy_streams *streams,
                             uint32_t stream)
{
    uint64_t opened = atomic_load_explicit(&s->opened, memory_order_relaxed);
    struct gy_share_segment *segment;
    CUstream native = streams->streams[stream].native;
    if (opened == atomic_load_explicit(&s->closed, memory_order_relaxed)) {
        gantry_status status = opened == 0 ? record(shares, &s->base, native) : GANTRY_OK;
        if (status != GANTRY_OK) {
            return status;
        }
        segment = &s->segments[opened % GY_SHARE_SEGMENTS];
        segment->streams = 0;
        segment->predicted = 0;
        segment->calls = 0;
        atomic_store_explicit(&s->opened, opened + 1, memory_order_release);
    } else {
        segment = &s->segments[(opened - 1) % GY_SHARE_SEGMENTS];
    }
    if ((segment->streams >> stream & 1) == 0) {
        gantry_status status = record(shares, &segment->begin[stream], native);
        if (status != GANTRY_OK) {
            return status;
        }
        segment->streams |= UINT64_C(1) << stream;
    }
    gy_mutex_lock(&s->lock);
    double predicted = s->estimate;
    gy_bucket_begin(&s->bucket, predicted);
    gy_mutex_unlock(&s->lock);
    segment->predicted += predicted;
    segment->calls++;
    return GANTRY_OK;
}

static gantry_status close_segment(struct gy_shares *shares, struct gy_share *s, struct gy_streams *streams)
{
    uint64_t closed = atomic_load_explicit(&s->closed, memory_order_relaxed);
    struct gy_share_segment *segment = &s->segments[closed % GY_SHARE_SEGMENTS];
    gantry_status status = GANTRY_OK;
    for (uint64_t left = segment->streams; left != 0 && status == GANTRY_OK; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        status = record(shares, &segment->end[i], streams->streams[i].native);
    }
    atomic_store_explicit(&s->closed, closed + 1, memory_order_release);
    return status;
}

gantry_status gy_share_leave(struct gy_shares *shares, struct gy_share *s, struct gy_streams *streams)
{
    uint64_t closed = atomic_load_explicit(&s->closed, memory_order_relaxed);
    const struct gy_share_segment *segment = &s->segments[closed % GY_SHARE_SEGMENTS];
    bool is_long = segment->predicted == 0 || segment->predicted >= s->quantum;
    return is_long ? close_segment(shares, s, streams) : GANTRY_OK;
}

gantry_status gy_shares_close(struct gy_shares *shares, struct gy_streams *streams, uint64_t *out_streams)
{
    uint64_t found = 0;
    gantry_status status = GANTRY_OK;
    for (uint32_t i = 0; i < shares->count && status == GANTRY_OK; i++) {
        struct gy_share *s = shares->of[i];
        if (s == NULL) {
            continue;
        }
        if (atomic_load_explicit(&s->opened, memory_order_relaxed) !=
            atomic_load_explicit(&s->closed, memory_order_relaxed)) {
            status = close_segment(shares, s, streams);
        }
        for (; s->watched != atomic_load_explicit(&s->closed, memory_order_relaxed); s->watched++) {
            found |= s->segments[s->watched % GY_SHARE_SEGMENTS].streams;
        }
    }
    *out_streams = found;
    return status;
}

/* ---- GD: holding back ----------------------------------------------------------------------- */

void gy_share_hold(struct gy_share *s, uint32_t phase, gantry_task *task)
{
    if (!atomic_load_explicit(&s->has_held, memory_order_relaxed)) {
        s->held_ns = gy_share_now();
        atomic_store(&s->has_held, true);
    }
    gy_gpu_list_append(&s->held[phase], task, task);
}

/* In front of what has come since. */
static void give_back(struct gy_share *s, struct gy_gpu_list *bins)
{
    for (uint32_t phase = 0; phase < GY_SHARE_PHASES; phase++) {
        struct gy_gpu_list held = s->held[phase];
        if (held.first != NULL && bins[phase].first != NULL) {
            gy_gpu_list_append(&held, bins[phase].first, bins[phase].last);
        }
        bins[phase] = held.first != NULL ? held : bins[phase];
        s->held[phase] = (struct gy_gpu_list){NULL, NULL};
    }
    atomic_store(&s->has_held, false);
    gy_mutex_lock(&s->lock);
    s->throttled_ns += gy_share_now() - s->held_ns;
    gy_mutex_unlock(&s->lock);
}

void gy_shares_unhold(struct gy_shares *shares, struct gy_gpu_list *bins, bool all)
{
    for (uint32_t i = 0; i < shares->count; i++) {
        struct gy_share *s = shares->of[i];
        if (s != NULL && atomic_load_explicit(&s->has_held, memory_order_relaxed) &&
            (all || gy_share_admits(s))) {
            give_back(s, bins);
        }
    }
}

bool gy_shares_hold_any(const struct gy_shares *shares)
{
    bool any = false;
    for (uint32_t i = 0; i < shares->count && !any; i++) {
        any = shares->of[i] != NULL && atomic_load_explicit(&shares->of[i]->has_held, memory_order_relaxed);
    }
    return any;
}

uint64_t gy_shares_deadline(struct gy_shares *shares)
{
    uint64_t earliest = 0;
    for (uint32_t i = 0; i < shares->count; i++) {
        struct gy_share *s = shares->of[i];
        if (s == NULL || !atomic_load_explicit(&s->has_held, memory_order_relaxed) ||
            atomic_load_explicit(&s->opened, memory_order_relaxed) - load(&s->collected) >= s->in_flight) {
            continue;
        }
        gy_mutex_lock(&s->lock);
        uint64_t ready = gy_bucket_ready_ns(&s->bucket);
        gy_mutex_unlock(&s->lock);
        earliest = earliest == 0 || ready < earliest ? ready : earliest;
    }
    return earliest;
}

/* ---- GDB ------------------------------------------------------------------------------------ */

struct interval {
    double begin, end;
};

/* Nanoseconds from one event to another; false when the context is lost. */
static bool elapsed(struct gy_shares *shares, CUevent from, CUevent to, double *ns)
{
    float ms = 0;
    bool good = GY_CALL(shares->context, cuEventElapsedTime(&ms, from, to)) == GANTRY_OK;
    *ns = (double)ms * 1e6;
    return good;
}

/* The times of a segment on the axis of the share, in order of their begins.  They are taken from its own
 * first begin, since the distance of two events comes as a float.  The last end becomes the new base. */
static uint32_t read_times(struct gy_shares *shares, struct gy_share *s, struct gy_share_segment *segment,
                           struct interval *out)
{
    uint32_t first = (uint32_t)__builtin_ctzll(segment->streams), count = 0, last = first;
    double origin, latest = -1e300;
    if (!elapsed(shares, s->base, segment->begin[first], &origin)) {
        return 0;
    }
    origin += s->base_ns;
    for (uint64_t left = segment->streams; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left), k = count;
        struct interval one = {0, 0};
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
    CUevent base = s->base;
    s->base = segment->end[last];
    segment->end[last] = base;
    s->base_ns = latest;
    return count;
}

/* How long the streams were busy in it, each moment once, and none that an earlier segment has paid for. */
static double busy_time(struct gy_shares *shares, struct gy_share *s, struct gy_share_segment *segment)
{
    struct interval times[GY_STREAMS_MAX];
    uint32_t count = read_times(shares, s, segment, times);
    double busy = 0;
    for (uint32_t i = 0; i < count; i++) {
        double begin = times[i].begin > s->watermark ? times[i].begin : s->watermark;
        busy += times[i].end > begin ? times[i].end - begin : 0;
        s->watermark = times[i].end > s->watermark ? times[i].end : s->watermark;
    }
    return busy;
}

static bool has_passed(struct gy_shares *shares, const struct gy_share_segment *segment)
{
    for (uint64_t left = segment->streams; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        if (shares->context->driver->cuEventQuery(segment->end[i]) == CUDA_ERROR_NOT_READY) {
            return false;
        }
    }
    return true;
}

static void charge(struct gy_share *s, const struct gy_share_segment *segment, double used)
{
    uint64_t now = gy_share_now();
    gy_mutex_lock(&s->lock);
    gy_bucket_refill(&s->bucket, now, false);
    gy_bucket_end(&s->bucket, segment->predicted, used);
    gy_usage_add(&s->usage, now, used);
    if (segment->calls != 0) {
        double per_call = used / segment->calls;
        s->estimate = s->estimate == 0 ? per_call : 0.75 * s->estimate + 0.25 * per_call;
    }
    s->longest = used > s->longest ? used : s->longest;
    uint64_t collected = atomic_load_explicit(&s->collected, memory_order_relaxed) + 1;
    s->is_idle = collected == load(&s->opened) && !atomic_load(&s->has_held);
    gy_mutex_unlock(&s->lock);
    atomic_store_explicit(&s->collected, collected, memory_order_release);
}

void gy_shares_collect(struct gy_shares *shares)
{
    bool news = false;
    for (uint32_t i = 0; i < shares->count; i++) {
        struct gy_share *s = shares->of[i];
        while (s != NULL && atomic_load_explicit(&s->collected, memory_order_relaxed) != load(&s->closed)) {
            uint64_t position = atomic_load_explicit(&s->collected, memory_order_relaxed);
            struct gy_share_segment *segment = &s->segments[position % GY_SHARE_SEGMENTS];
            bool lost = gy_context_is_lost(shares->context);
            if (!lost && !has_passed(shares, segment)) {
                break;
            }
            charge(s, segment, lost || segment->streams == 0 ? 0 : busy_time(shares, s, segment) * s->weight);
            news = true;
        }
    }
    if (news) {
        gy_inbox_signal(shares->inbox);
    }
}
