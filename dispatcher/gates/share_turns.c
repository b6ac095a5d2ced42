/* SPDX-License-Identifier: MIT */
/* Which meter may launch, and where its intervals begin and end: the dispatcher thread's part of shares.h. */
#include "base/span.h"
#include "base/times.h"
#include "dispatcher/gates/quota.h"

#include <assert.h>
#include <string.h>

/* ---- paying --------------------------------------------------------------------------------- */

static uint64_t opened_of(const struct gy_meter *meter)
{
    return atomic_load_explicit(&meter->opened, memory_order_relaxed); /* ours alone to write */
}

static bool is_open(const struct gy_meter *meter)
{
    return opened_of(meter) != meter->closed;
}

static void pay(struct gy_quota *quota, const struct gy_share_interval *interval, uint64_t now)
{
    gy_bucket_refill(&quota->bucket, now, false);
    gy_bucket_end(&quota->bucket, interval->predicted, interval->used);
    if (quota->budget != NULL) {
        gy_budget_end(quota->budget, interval->predicted, interval->used, now);
        quota->promised -= interval->predicted;
    }
    quota->working--;
    gy_quota_set_idle(quota, quota->working == 0 && quota->holding == 0);
}

/* Charge the time that the completion thread has measured since. */
void gy_meter_settle(struct gy_meter *meter)
{
    uint64_t settled = atomic_load_explicit(&meter->settled, memory_order_relaxed);
    uint64_t collected = atomic_load_explicit(&meter->collected, memory_order_acquire);
    if (__builtin_expect(settled == collected, 1)) {
        return;
    }
    uint64_t now = gy_share_now();
    for (; settled != collected; settled++) {
        const struct gy_share_interval *interval = &meter->intervals[settled % GY_SHARE_INTERVALS];
        for (int a = 0; a < 2 && meter->quotas[a] != NULL; a++) {
            pay(meter->quotas[a], interval, now);
        }
        if (interval->calls != 0) {
            double per_call = interval->used / interval->calls;
            per_call = per_call > GY_SHARE_CALL_NS ? per_call : GY_SHARE_CALL_NS;
            meter->estimate = meter->estimate == 0 ? per_call : 0.75 * meter->estimate + 0.25 * per_call;
        }
    }
    atomic_store_explicit(&meter->settled, settled, memory_order_release);
}

/* Are there tokens now, the quota's own and those of the process's limit?  `waits`: some task has wanted
 * them all the time. */
static bool has_tokens(struct gy_quota *quota, bool waits)
{
    bool was_idle = quota->is_idle && !waits;
    bool admits = !was_idle && gy_bucket_admits(&quota->bucket);
    /* Once tokens are gone, wait for those of a group: else each kernel would be one, and pay for its events.
     */
    double most = quota->bucket.burst / 2, group = quota->quantum < most ? quota->quantum : most;
    gy_quota_set_idle(quota, false);
    if (__builtin_expect(!admits, 0)) {
        gy_bucket_refill(&quota->bucket, gy_share_now(), was_idle);
        admits = gy_bucket_admits(&quota->bucket);
        quota->bucket.resume = admits ? 0 : group;
    }
    if (__builtin_expect(quota->budget != NULL, 0) && admits) {
        admits = gy_budget_admits(quota->budget, group, gy_share_now());
    }
    return admits;
}

/* Is there room for the intervals of one more call?  One that is open is no such room: the call may close it.
 */
static bool has_intervals(const struct gy_meter *meter)
{
    return opened_of(meter) - atomic_load_explicit(&meter->settled, memory_order_relaxed) <=
           GY_SHARE_INTERVALS - GY_SHARE_OF_A_CALL;
}

/* May one more call have intervals, now that what was measured is paid? */
static bool has_room(struct gy_meter *meter)
{
    gy_meter_settle(meter);
    bool room = has_intervals(meter);
    for (int a = 0; a < 2 && meter->quotas[a] != NULL; a++) {
        room = room && (is_open(meter) || meter->quotas[a]->working < meter->quotas[a]->in_flight);
    }
    return room;
}

/* Do the bounds of the meter allow one more call, whichever meter has the turn? */
static bool is_within(struct gy_meter *meter, bool waits, bool *tokens)
{
    const bool room = has_room(meter);
    *tokens = true;
    for (int a = 0; a < 2 && meter->quotas[a] != NULL; a++) {
        *tokens = *tokens && has_tokens(meter->quotas[a], waits);
    }
    return room && *tokens;
}

/* ---- turns ---------------------------------------------------------------------------------- */

/* How long ago the quota should have had the time that it has not used: the greatest goes first. */
static double lag(const struct gy_meter *meter)
{
    const struct gy_quota *quota = meter->quotas[0];
    return (quota->bucket.tokens - quota->bucket.in_flight) / quota->rate;
}

/* The other meter of the partition that has the turn, or waits for it with a better right; NULL: none. */
static const struct gy_meter *others_turn(struct gy_shares *shares, const struct gy_meter *meter)
{
    const struct gy_share_turn *turn = &shares->turns[meter->partition];
    if (turn->meter == NULL || is_open(meter)) {
        return NULL;
    }
    if (turn->meter != meter && is_open(turn->meter)) {
        return turn->meter;
    }
    if (turn->next != NULL) {
        return turn->next != meter ? turn->next
                                   : NULL; /* and it has the better right whatever others should have had */
    }
    uint32_t count = atomic_load_explicit(&shares->count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        struct gy_meter *other = shares->quotas[i]->meters[meter->partition];
        bool tokens;
        if (other != NULL && other != meter && atomic_load_explicit(&other->has_held, memory_order_relaxed) &&
            lag(other) > lag(meter) && is_within(other, false, &tokens)) {
            return other;
        }
    }
    return NULL;
}

/* Since when tasks are held because tokens are gone. */
static void note_tokens(struct gy_meter *meter, bool tokens)
{
    if (tokens == (meter->throttled_since == 0)) {
        return;
    }
    uint64_t now = gy_share_now();
    if (tokens) {
        for (int a = 0; a < 2 && meter->quotas[a] != NULL; a++) {
            _Atomic(uint64_t) *sum = &meter->quotas[a]->throttled_ns;
            atomic_store_explicit(
                sum, atomic_load_explicit(sum, memory_order_relaxed) + now - meter->throttled_since,
                memory_order_relaxed);
        }
        now = 0;
    }
    meter->throttled_since = now;
}

bool gy_meter_admits(struct gy_shares *shares, struct gy_meter *meter, bool waits)
{
    assert(gy_meter_is_valid(meter));
    bool tokens;
    bool within = is_within(meter, waits, &tokens);
    note_tokens(meter, tokens);
    const struct gy_meter *behind = within ? others_turn(shares, meter) : NULL;
    const bool admits = within && behind == NULL;
    if (!admits) {
        gy_meter_note_behind(meter, behind);
    }
    return admits;
}

bool gy_meter_has_room(struct gy_shares *shares, struct gy_meter *meter)
{
    assert(gy_meter_is_valid(meter));
    return has_room(meter) && others_turn(shares, meter) == NULL;
}

/* ---- intervals ------------------------------------------------------------------------------- */

static bool take_stream(uint64_t *streams, uint32_t i)
{
    bool had = (*streams >> i & 1) != 0;
    *streams |= UINT64_C(1) << i;
    return !had;
}

static uint32_t next_stream(uint64_t streams, uint32_t i)
{
    uint64_t left = i < GY_STREAMS_MAX ? streams >> i << i : 0;
    return left != 0 ? (uint32_t)__builtin_ctzll(left) : GY_STREAMS_MAX;
}

#define EACH_STREAM(i, streams) \
    for (uint32_t i = next_stream((streams), 0); i < GY_STREAMS_MAX; i = next_stream((streams), i + 1))

static gantry_status make(struct gy_shares *shares, CUevent *event)
{
    return *event != NULL ? GANTRY_OK : GY_CALL(shares->context, cuEventCreate(event, CU_EVENT_DEFAULT));
}

static gantry_status record(struct gy_shares *shares, CUevent *event, CUstream stream)
{
    gantry_status status = make(shares, event);
    return status == GANTRY_OK ? GY_CALL(shares->context, cuEventRecord(*event, stream)) : status;
}

/* Record an event of the interval on stream `i`. */
static gantry_status record_in(struct gy_shares *shares, const struct gy_share_interval *interval, uint32_t i,
                               CUevent *event)
{
    if (!interval->in_graph) {
        return record(shares, event, interval->native[i]);
    }
    gantry_status status = make(shares, event);
    return status == GANTRY_OK ? gy_lane_event(&shares->streams->streams[i].lane.to, *event) : status;
}

static struct gy_share_interval *latest(struct gy_meter *meter)
{
    return &meter->intervals[(opened_of(meter) - 1) % GY_SHARE_INTERVALS];
}

static gantry_status close_interval(struct gy_shares *shares, struct gy_meter *meter)
{
    struct gy_share_interval *interval = latest(meter);
    struct gy_share_turn *turn = &shares->turns[meter->partition];
    gantry_status status = GANTRY_OK;
    EACH_STREAM(i, interval->streams)
    {
        if (status == GANTRY_OK) {
            status = record_in(shares, interval, i, &interval->end[i]);
        }
        if (status == GANTRY_OK && !interval->in_graph) { /* else its graph's end is to be waited for */
            (void)take_stream(&turn->ended, i);
            turn->ends[i] = interval->end[i];
        }
    }
    meter->closed++;
    shares->unpublished++;
    return status;
}

/* The turn goes to `meter`. */
static gantry_status take_turn(struct gy_shares *shares, struct gy_meter *meter)
{
    struct gy_share_turn *turn = &shares->turns[meter->partition];
    struct gy_meter *former = turn->meter;
    turn->next = turn->next == meter ? NULL : turn->next;
    if (former == meter) {
        return GANTRY_OK;
    }
    gantry_status status = former != NULL && is_open(former) ? close_interval(shares, former) : GANTRY_OK;
    bool over =
        former == NULL || atomic_load_explicit(&former->collected, memory_order_acquire) == opened_of(former);
    turn->before = over ? 0 : turn->ended;
    memcpy(turn->formers, turn->ends, sizeof(turn->formers));
    turn->ended = turn->joined = 0;
    turn->meter = meter;
    return status;
}

/* Make the device wait for the end of the last turn. */
static gantry_status wait_turn(struct gy_shares *shares, const struct gy_meter *meter, uint32_t stream,
                               CUstream native)
{
    struct gy_share_turn *turn = &shares->turns[meter->partition];
    gantry_status status = GANTRY_OK;
    if (!take_stream(&turn->joined, stream)) {
        return GANTRY_OK;
    }
    EACH_STREAM(i, turn->before)
    {
        if (status == GANTRY_OK) {
            status = GY_CALL(shares->context, cuStreamWaitEvent(native, turn->formers[i], 0));
        }
    }
    return status;
}

static void open_interval(struct gy_meter *meter, bool in_graph)
{
    uint64_t opened = opened_of(meter);
    struct gy_share_interval *interval = &meter->intervals[opened % GY_SHARE_INTERVALS];
    interval->streams = 0;
    interval->in_graph = in_graph;
    interval->is_launched = false;
    interval->predicted = 0;
    interval->calls = 0;
    assert(opened - atomic_load_explicit(&meter->settled, memory_order_relaxed) < GY_SHARE_INTERVALS);
    atomic_store_explicit(&meter->opened, opened + 1, memory_order_relaxed);
    for (int a = 0; a < 2 && meter->quotas[a] != NULL; a++) {
        meter->quotas[a]->working++;
    }
    assert(gy_meter_is_valid(meter));
}

static gantry_status begin_stream(struct gy_shares *shares, struct gy_meter *meter, uint32_t stream,
                                  CUstream native)
{
    struct gy_share_interval *interval = latest(meter);
    const uint32_t waits = interval->in_graph ? shares->streams->batch.home : stream; /* a graph as a whole */
    CUstream on = interval->in_graph ? shares->streams->streams[waits].native : native;
    gantry_status status = wait_turn(shares, meter, waits, on);
    interval->native[stream] = native;
    if (status == GANTRY_OK && !meter->has_base) { /* a meter's axis of time begins here */
        status = record_in(shares, interval, stream, &meter->base);
        meter->has_base = status == GANTRY_OK;
    }
    if (status == GANTRY_OK) {
        status = record_in(shares, interval, stream, &interval->begin[stream]);
    }
    if (status == GANTRY_OK) {
        (void)take_stream(&interval->streams, stream);
    }
    return status;
}

gantry_status gy_meter_enter(struct gy_shares *shares, struct gy_meter *meter, uint32_t stream,
                             CUstream native, bool in_graph, uint32_t calls)
{
    assert(gy_meter_is_valid(meter));
    gantry_status status = take_turn(shares, meter);
    if (status != GANTRY_OK) {
        return status;
    }
    assert(!is_open(meter) || latest(meter)->in_graph == in_graph); /* graphs begin and end with none open */
    if (!is_open(meter)) {
        open_interval(meter, in_graph);
    }
    struct gy_share_interval *interval = latest(meter);
    bool had = (interval->streams >> stream & 1) != 0;
    status = had ? GANTRY_OK : begin_stream(shares, meter, stream, native);
    if (status != GANTRY_OK) {
        return status;
    }
    double predicted = meter->estimate * calls;
    for (int a = 0; a < 2 && meter->quotas[a] != NULL; a++) {
        struct gy_quota *quota = meter->quotas[a];
        gy_bucket_begin(&quota->bucket, predicted);
        if (quota->budget != NULL) {
            gy_budget_begin(quota->budget, predicted);
            quota->promised += predicted;
        }
    }
    interval->predicted += predicted;
    interval->calls += calls;
    assert(gy_meter_is_valid(meter));
    return GANTRY_OK;
}

gantry_status gy_meter_leave(struct gy_shares *shares, struct gy_meter *meter)
{
    assert(gy_meter_is_valid(meter));
    if (!is_open(meter)) { /* the capture that it was in was launched meanwhile */
        return GANTRY_OK;
    }
    const struct gy_share_interval *interval = latest(meter);
    double quantum = meter->quotas[0]->quantum;
    if (meter->quotas[1] != NULL && meter->quotas[1]->quantum < quantum) {
        quantum = meter->quotas[1]->quantum;
    }
    bool is_long = interval->predicted == 0 || interval->predicted >= quantum;
    return is_long ? close_interval(shares, meter) : GANTRY_OK;
}

/* ---- captures ------------------------------------------------------------------------------- */

static gantry_status close_open(struct gy_shares *shares, bool in_graph)
{
    gantry_status status = GANTRY_OK;
    for (uint32_t p = 0; p < shares->partitions->count && status == GANTRY_OK; p++) {
        struct gy_meter *meter = shares->turns[p].meter;
        if (meter != NULL && is_open(meter) && latest(meter)->in_graph == in_graph) {
            status = close_interval(shares, meter);
        }
    }
    return status;
}

gantry_status gy_shares_begin_capture(struct gy_shares *shares)
{
    return close_open(shares, false);
}

gantry_status gy_shares_end_capture(struct gy_shares *shares)
{
    return close_open(shares, true);
}

bool gy_shares_want_cut(const struct gy_shares *shares, const struct gy_meter *meter)
{
    uint32_t most = meter->quotas[0]->in_flight;
    if (meter->quotas[1] != NULL && meter->quotas[1]->in_flight < most) {
        most = meter->quotas[1]->in_flight;
    }
    return shares->unpublished > 0 && shares->unpublished >= most / 2;
}

/* ---- to the completion thread ----------------------------------------------------------------- */

static gantry_status launched_meter(struct gy_shares *shares, struct gy_meter *meter, uint32_t home)
{
    struct gy_share_turn *turn = &shares->turns[meter->partition];
    uint64_t p = atomic_load_explicit(&meter->published, memory_order_relaxed);
    gantry_status status = GANTRY_OK;
    for (; p != meter->closed && status == GANTRY_OK; p++) {
        struct gy_share_interval *interval = &meter->intervals[p % GY_SHARE_INTERVALS];
        if (interval->in_graph && !interval->is_launched) {
            status = record(shares, &interval->gate, shares->streams->streams[home].native);
            interval->is_launched = true;
            interval->home = home;
            turn->ended |= UINT64_C(1) << home;
            turn->ends[home] = interval->gate;
        }
    }
    return status;
}

static gantry_status publish_meter(struct gy_shares *shares, struct gy_meter *meter, bool all, uint64_t *out)
{
    gantry_status status = all && is_open(meter) ? close_interval(shares, meter) : GANTRY_OK;
    uint64_t published = atomic_load_explicit(&meter->published, memory_order_relaxed);
    for (; published != meter->closed; published++) {
        const struct gy_share_interval *interval = &meter->intervals[published % GY_SHARE_INTERVALS];
        *out |= interval->in_graph ? UINT64_C(1) << interval->home : interval->streams;
        atomic_store_explicit(&meter->published, published + 1, memory_order_release);
    }
    assert(gy_meter_is_valid(meter));
    return status;
}

#define EACH_METER(meter, shares)                                                                  \
    for (uint32_t q_ = 0; q_ < atomic_load_explicit(&(shares)->count, memory_order_acquire); q_++) \
        for (uint32_t p_ = 0; p_ < (shares)->partitions->count; p_++)                              \
            for (struct gy_meter *meter = (shares)->quotas[q_]->meters[p_]; meter != NULL; meter = NULL)

gantry_status gy_shares_launched(struct gy_shares *shares, uint32_t home)
{
    gantry_status status = GANTRY_OK;
    EACH_METER(meter, shares)
    {
        gantry_status one = launched_meter(shares, meter, home);
        status = status == GANTRY_OK ? one : status;
    }
    return status;
}

gantry_status gy_shares_publish(struct gy_shares *shares, bool all, uint64_t *out)
{
    gantry_status status = GANTRY_OK;
    *out = 0;
    EACH_METER(meter, shares)
    {
        gantry_status one = publish_meter(shares, meter, all, out);
        status = status == GANTRY_OK ? one : status;
    }
    shares->unpublished = 0;
    return status;
}

/* ---- holding back --------------------------------------------------------------------------- */

static void begin_hold(struct gy_meter *meter)
{
    if (!atomic_load_explicit(&meter->has_held, memory_order_relaxed)) {
        atomic_store(&meter->has_held, true);
        meter->held_since = gy_span_begin();
        for (int a = 0; a < 2 && meter->quotas[a] != NULL; a++) {
            meter->quotas[a]->holding++;
            gy_quota_set_idle(meter->quotas[a], false);
        }
    }
}

void gy_meter_hold(struct gy_meter *meter, uint32_t phase, gantry_task *task)
{
    begin_hold(meter);
    meter->holds_ending = meter->holds_ending || !gy_task_may_begin(task);
    gy_gpu_list_append(&meter->held[phase], task, task);
    assert(gy_meter_is_valid(meter));
}

void gy_meter_hold_unit(struct gy_meter *meter)
{
    assert(gy_meter_is_valid(meter));
    begin_hold(meter);
    meter->held_units++;
    assert(gy_meter_is_valid(meter));
}

/* Put the held tasks in front of those that have come since. */
static void give_back(struct gy_meter *meter, struct gy_bins *bins)
{
    for (uint32_t phase = 0; phase < GY_SHARE_PHASES; phase++) {
        gy_bins_prepend(bins, phase, meter->held[phase]);
        meter->held[phase] = (struct gy_gpu_list){NULL, NULL};
    }
    atomic_store(&meter->has_held, false);
    if (__builtin_expect(meter->held_since != 0, 0)) {
        gy_meter_tell_held(meter);
        meter->held_since = 0;
    }
    meter->holds_ending = false;
    meter->held_units = 0;
    note_tokens(meter, true);
    for (int a = 0; a < 2 && meter->quotas[a] != NULL; a++) {
        meter->quotas[a]->holding--;
    }
    assert(gy_meter_is_valid(meter));
}

typedef bool meter_fn(struct gy_shares *shares, struct gy_meter *meter, void *arg);

/* Call `fn` for the meters that hold something, until one returns true. */
static bool each_holding(struct gy_shares *shares, meter_fn *visit, void *arg)
{
    uint32_t count = atomic_load_explicit(&shares->count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t p = 0; p < shares->partitions->count; p++) {
            struct gy_meter *meter = shares->quotas[i]->meters[p];
            if (meter != NULL && atomic_load_explicit(&meter->has_held, memory_order_relaxed) &&
                visit(shares, meter, arg)) {
                return true;
            }
        }
    }
    return false;
}

static bool holds_task(const struct gy_meter *meter)
{
    bool holds = false;
    for (uint32_t phase = 0; phase < GY_SHARE_PHASES; phase++) {
        holds = holds || meter->held[phase].first != NULL;
    }
    return holds;
}

/* It has held tasks, and they may be called now.  Those of other meters come before them in the bins, perhaps
 * again and again, as that of one which polls does: they leave it its turn until the walk is over.  Held
 * units are launched before the bins are walked, one by one, and need no promise: the promise to one would
 * put off the other's, and that one's the first's, for ever. */
static void promise_turn(struct gy_shares *shares, struct gy_meter *meter)
{
    struct gy_share_turn *turn = &shares->turns[meter->partition];
    if (turn->next == NULL && turn->meter != meter && holds_task(meter)) {
        turn->next = meter;
    }
}

struct unhold {
    struct gy_bins *bins;
    bool all, units; /* out: of the meters given back, some held units */
};

static bool unhold_one(struct gy_shares *shares, struct gy_meter *meter, void *arg)
{
    struct unhold *un = arg;
    if (un->all || gy_meter_admits(shares, meter, false) ||
        (meter->holds_ending && gy_meter_has_room(shares, meter))) {
        un->units = un->units || meter->held_units != 0;
        promise_turn(shares, meter);
        give_back(meter, un->bins);
    }
    return false;
}

bool gy_shares_unhold(struct gy_shares *shares, struct gy_bins *bins, bool all)
{
    struct unhold un = {bins, all, false};
    uint32_t count = atomic_load_explicit(&shares->count, memory_order_acquire);
    for (uint32_t p = 0; p < shares->partitions->count; p++) {
        shares->turns[p].next = NULL; /* that it was not called has its reasons */
    }
    for (uint32_t i = 0; i < count; i++) { /* what waits for nobody is paid here, too */
        for (uint32_t p = 0; p < shares->partitions->count; p++) {
            if (shares->quotas[i]->meters[p] != NULL) {
                gy_meter_settle(shares->quotas[i]->meters[p]);
            }
        }
    }
    (void)each_holding(shares, unhold_one, &un);
    return un.units;
}

/* Move tasks that will be released without a call to `bin`; true when others of a cancelled run stay. */
static bool take_cancelled(struct gy_gpu_list *from, struct gy_gpu_list *bin)
{
    struct gy_gpu_list all = *from;
    bool stay = false;
    *from = (struct gy_gpu_list){NULL, NULL};
    for (gantry_task *task = all.first, *next; task != NULL; task = next) {
        next = task->next;
        bool ends = !gy_task_may_begin(task), begun = task->launch_index != 0;
        gy_gpu_list_append(ends && !begun ? bin : from, task, task);
        stay = stay || (ends && begun);
    }
    return stay;
}

static bool cancel_in(struct gy_shares *shares, struct gy_meter *meter, void *arg)
{
    struct gy_bins *bins = arg;
    bool is_empty = true;
    (void)shares;
    for (uint32_t phase = 0; phase < GY_SHARE_PHASES; phase++) {
        meter->holds_ending |= take_cancelled(&meter->held[phase], &bins->of[phase]);
        is_empty = is_empty && meter->held[phase].first == NULL;
    }
    if (is_empty) {
        give_back(meter, bins); /* units are tried again in any case */
    }
    return false;
}

void gy_shares_cancel(struct gy_shares *shares, struct gy_bins *bins)
{
    (void)each_holding(shares, cancel_in, bins);
}

static bool yes(struct gy_shares *shares, struct gy_meter *meter, void *arg)
{
    (void)shares;
    (void)meter;
    (void)arg;
    return true;
}

bool gy_shares_hold_any(struct gy_shares *shares)
{
    return gy_shares_any(shares) && each_holding(shares, yes, NULL);
}

static bool find_deadline(struct gy_shares *shares, struct gy_meter *meter, void *arg)
{
    uint64_t *earliest = arg, ready = 0;
    (void)shares;
    for (int a = 0; a < 2 && meter->quotas[a] != NULL; a++) {
        const struct gy_quota *quota = meter->quotas[a];
        uint64_t one = gy_bucket_ready_ns(&quota->bucket);
        if (quota->working >= quota->in_flight) {
            return false; /* something will end first */
        }
        ready = one > ready ? one : ready;
        one = quota->budget != NULL ? gy_budget_ready_ns(quota->budget) : 0;
        ready = one > ready ? one : ready;
    }
    *earliest = *earliest == 0 || ready < *earliest ? ready : *earliest;
    return false;
}

uint64_t gy_shares_deadline(struct gy_shares *shares)
{
    uint64_t earliest = 0;
    (void)each_holding(shares, find_deadline, &earliest);
    return earliest;
}

/* ---- checks --------------------------------------------------------------------------------- */

bool gy_meter_is_valid(const struct gy_meter *meter)
{
    bool holds = meter->held_units != 0;
    for (int phase = 0; phase < GY_SHARE_PHASES; phase++) {
        if (!gy_gpu_list_is_valid(&meter->held[phase])) {
            return false;
        }
        holds = holds || meter->held[phase].first != NULL;
    }
    return atomic_load_explicit(&meter->has_held, memory_order_relaxed) == holds &&
           meter->quotas[0] != NULL && meter->closed <= opened_of(meter) &&
           opened_of(meter) - meter->closed <= 1 && (holds || !meter->holds_ending);
}

bool gy_shares_are_valid(const struct gy_shares *shares)
{
    uint32_t count = atomic_load_explicit(&shares->count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t p = 0; p < shares->partitions->count; p++) {
            const struct gy_meter *meter = shares->quotas[i]->meters[p];
            if (meter != NULL && !gy_meter_is_valid(meter)) {
                return false;
            }
        }
    }
    return true;
}
