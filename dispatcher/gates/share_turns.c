/* Who may launch, and where its segments begin and end: GD's part of shares.h. */
#include "dispatcher/gates/shares.h"

#include "profile/session.h"

#include <assert.h>
#include <string.h>

#define LEAST_NS 1000.0 /* what a call is predicted to take at least: a segment has an end */

/* ---- paying --------------------------------------------------------------------------------- */

static uint64_t opened_of(const struct gy_lane *lane)
{
    return atomic_load_explicit(&lane->opened, memory_order_relaxed); /* ours alone to write */
}

static bool is_open(const struct gy_lane *lane)
{
    return opened_of(lane) != lane->closed;
}

static void pay(struct gy_account *account, const struct gy_share_segment *segment, uint64_t now)
{
    gy_bucket_refill(&account->bucket, now, false);
    gy_bucket_end(&account->bucket, segment->predicted, segment->used);
    if (account->budget != NULL) {
        gy_budget_end(account->budget, segment->predicted, segment->used, now);
        account->promised -= segment->predicted;
    }
    account->working--;
    gy_account_set_idle(account, account->working == 0 && account->holding == 0);
}

/* Charge what GDB has measured since. */
static void settle(struct gy_lane *lane)
{
    uint64_t settled = atomic_load_explicit(&lane->settled, memory_order_relaxed);
    uint64_t collected = atomic_load_explicit(&lane->collected, memory_order_acquire);
    if (__builtin_expect(settled == collected, 1)) {
        return;
    }
    uint64_t now = gy_share_now();
    for (; settled != collected; settled++) {
        const struct gy_share_segment *segment = &lane->segments[settled % GY_SHARE_SEGMENTS];
        for (int a = 0; a < 2 && lane->accounts[a] != NULL; a++) {
            pay(lane->accounts[a], segment, now);
        }
        if (segment->calls != 0) {
            double per_call = segment->used / segment->calls;
            per_call = per_call > LEAST_NS ? per_call : LEAST_NS;
            lane->estimate = lane->estimate == 0 ? per_call : 0.75 * lane->estimate + 0.25 * per_call;
        }
    }
    atomic_store_explicit(&lane->settled, settled, memory_order_release);
}

/* Tokens are there, now, of its own and of the process's limit. */
static bool has_tokens(struct gy_account *account)
{
    bool was_idle = account->is_idle;
    bool admits = !was_idle && gy_bucket_admits(&account->bucket);
    /* Once tokens are gone, wait for those of a group: else each kernel would be one, and pay for its events.
     */
    double most = account->bucket.burst / 2, group = account->quantum < most ? account->quantum : most;
    gy_account_set_idle(account, false);
    if (__builtin_expect(!admits, 0)) {
        gy_bucket_refill(&account->bucket, gy_share_now(), was_idle);
        admits = gy_bucket_admits(&account->bucket);
        account->bucket.resume = admits ? 0 : group;
    }
    if (__builtin_expect(account->budget != NULL, 0) && admits) {
        admits = gy_budget_admits(account->budget, group, gy_share_now());
    }
    return admits;
}

/* Its bounds allow one more call, whoever's turn it is. */
static bool is_within(struct gy_lane *lane, bool *tokens)
{
    bool room = true;
    *tokens = true;
    settle(lane);
    for (int a = 0; a < 2 && lane->accounts[a] != NULL; a++) {
        struct gy_account *account = lane->accounts[a];
        room = room && (is_open(lane) || account->working < account->in_flight);
        *tokens = *tokens && has_tokens(account);
    }
    return room && *tokens;
}

/* ---- turns ---------------------------------------------------------------------------------- */

/* How long ago the account should have had what it has not used: the greatest goes first. */
static double lag(const struct gy_lane *lane)
{
    const struct gy_account *account = lane->accounts[0];
    return (account->bucket.tokens - account->bucket.in_flight) / account->rate;
}

/* Another lane of the partition has the turn, or waits for it with a better right. */
static bool is_others_turn(struct gy_shares *shares, const struct gy_lane *lane)
{
    const struct gy_share_turn *turn = &shares->turns[lane->partition];
    if (turn->lane == NULL || is_open(lane)) {
        return false;
    }
    if (turn->lane != lane && is_open(turn->lane)) {
        return true;
    }
    uint32_t count = atomic_load_explicit(&shares->count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        struct gy_lane *other = shares->accounts[i]->lanes[lane->partition];
        bool tokens;
        if (other != NULL && other != lane && atomic_load_explicit(&other->has_held, memory_order_relaxed) &&
            lag(other) > lag(lane) && is_within(other, &tokens)) {
            return true;
        }
    }
    return false;
}

/* Since when tasks are held because tokens are gone. */
static void note_tokens(struct gy_lane *lane, bool tokens)
{
    if (tokens == (lane->throttled_since == 0)) {
        return;
    }
    uint64_t now = gy_share_now();
    if (tokens) {
        for (int a = 0; a < 2 && lane->accounts[a] != NULL; a++) {
            _Atomic(uint64_t) *sum = &lane->accounts[a]->throttled_ns;
            atomic_store_explicit(
                sum, atomic_load_explicit(sum, memory_order_relaxed) + now - lane->throttled_since,
                memory_order_relaxed);
        }
        now = 0;
    }
    lane->throttled_since = now;
}

bool gy_lane_admits(struct gy_shares *shares, struct gy_lane *lane)
{
    assert(gy_lane_is_valid(lane));
    bool tokens;
    bool within = is_within(lane, &tokens);
    note_tokens(lane, tokens);
    return within && !is_others_turn(shares, lane);
}

bool gy_lane_has_room(struct gy_shares *shares, struct gy_lane *lane)
{
    assert(gy_lane_is_valid(lane));
    bool room = true;
    settle(lane);
    for (int a = 0; a < 2 && lane->accounts[a] != NULL; a++) {
        room = room && (is_open(lane) || lane->accounts[a]->working < lane->accounts[a]->in_flight);
    }
    return room && !is_others_turn(shares, lane);
}

/* ---- segments ------------------------------------------------------------------------------- */

static bool take_stream(struct gy_share_streams *streams, uint32_t i)
{
    bool had = i == GY_SHARE_ORIGIN ? streams->origin : (streams->pool >> i & 1) != 0;
    if (i == GY_SHARE_ORIGIN) {
        streams->origin = true;
    } else {
        streams->pool |= UINT64_C(1) << i;
    }
    return !had;
}

static uint32_t next_stream(const struct gy_share_streams *streams, uint32_t i)
{
    uint64_t left = i < GY_STREAMS_MAX ? streams->pool >> i << i : 0;
    return left != 0 ? (uint32_t)__builtin_ctzll(left)
                     : (i <= GY_SHARE_ORIGIN && streams->origin ? GY_SHARE_ORIGIN : GY_SHARE_STREAMS);
}

#define EACH_STREAM(i, streams) \
    for (uint32_t i = next_stream((streams), 0); i < GY_SHARE_STREAMS; i = next_stream((streams), i + 1))

static gantry_status make(struct gy_shares *shares, CUevent *event)
{
    return *event != NULL ? GANTRY_OK : GY_CALL(shares->context, cuEventCreate(event, CU_EVENT_DEFAULT));
}

static gantry_status record(struct gy_shares *shares, CUevent *event, CUstream stream, bool capturing)
{
    gantry_status status = make(shares, event);
    if (status != GANTRY_OK) {
        return status;
    }
    return capturing
               ? GY_CALL(shares->context, cuEventRecordWithFlags(*event, stream, CU_EVENT_RECORD_EXTERNAL))
               : GY_CALL(shares->context, cuEventRecord(*event, stream));
}

static struct gy_share_segment *latest(struct gy_lane *lane)
{
    return &lane->segments[(opened_of(lane) - 1) % GY_SHARE_SEGMENTS];
}

static gantry_status close_segment(struct gy_shares *shares, struct gy_lane *lane)
{
    struct gy_share_segment *segment = latest(lane);
    struct gy_share_turn *turn = &shares->turns[lane->partition];
    gantry_status status = GANTRY_OK;
    EACH_STREAM(i, &segment->streams)
    {
        if (status == GANTRY_OK) {
            status = record(shares, &segment->end[i], segment->native[i], segment->captured);
        }
        if (segment->captured) {                      /* a graph comes before whatever follows it anyhow */
            shares->streams->streams[i].dirty = true; /* joined already, by a sync point: once more */
        } else if (status == GANTRY_OK) {             /* else there may be no event to wait for */
            (void)take_stream(&turn->ended, i);
            turn->ends[i] = segment->end[i];
        }
    }
    lane->closed++;
    shares->unpublished++;
    return status;
}

/* The turn goes to `lane`. */
static gantry_status take_turn(struct gy_shares *shares, struct gy_lane *lane)
{
    struct gy_share_turn *turn = &shares->turns[lane->partition];
    struct gy_lane *former = turn->lane;
    if (former == lane) {
        return GANTRY_OK;
    }
    gantry_status status = former != NULL && is_open(former) ? close_segment(shares, former) : GANTRY_OK;
    bool over =
        former == NULL || atomic_load_explicit(&former->collected, memory_order_acquire) == opened_of(former);
    turn->before = over ? (struct gy_share_streams){0, false} : turn->ended;
    memcpy(turn->formers, turn->ends, sizeof(turn->formers));
    turn->ended = turn->joined = (struct gy_share_streams){0, false};
    turn->lane = lane;
    return status;
}

/* On the device, after the last turn.  A graph comes after everything anyhow. */
static gantry_status wait_turn(struct gy_shares *shares, const struct gy_lane *lane, uint32_t stream,
                               CUstream native)
{
    struct gy_share_turn *turn = &shares->turns[lane->partition];
    gantry_status status = GANTRY_OK;
    if (!take_stream(&turn->joined, stream)) {
        return GANTRY_OK;
    }
    EACH_STREAM(i, &turn->before)
    {
        if (status == GANTRY_OK) {
            status = GY_CALL(shares->context, cuStreamWaitEvent(native, turn->formers[i], 0));
        }
    }
    return status;
}

static void open_segment(struct gy_lane *lane, bool capturing)
{
    uint64_t opened = opened_of(lane);
    struct gy_share_segment *segment = &lane->segments[opened % GY_SHARE_SEGMENTS];
    segment->streams = (struct gy_share_streams){0, false};
    segment->captured = capturing;
    segment->predicted = 0;
    segment->calls = 0;
    atomic_store_explicit(&lane->opened, opened + 1, memory_order_relaxed);
    for (int a = 0; a < 2 && lane->accounts[a] != NULL; a++) {
        lane->accounts[a]->working++;
    }
    assert(gy_lane_is_valid(lane));
}

static gantry_status begin_stream(struct gy_shares *shares, struct gy_lane *lane, uint32_t stream,
                                  CUstream native)
{
    struct gy_share_segment *segment = latest(lane);
    gantry_status status = segment->captured ? GANTRY_OK : wait_turn(shares, lane, stream, native);
    if (status == GANTRY_OK && !lane->has_base) { /* a lane's axis of time begins here */
        status = record(shares, &lane->base, native, segment->captured);
        lane->has_base = status == GANTRY_OK;
    }
    if (status == GANTRY_OK) {
        status = record(shares, &segment->begin[stream], native, segment->captured);
    }
    if (status == GANTRY_OK) {
        (void)take_stream(&segment->streams, stream);
        segment->native[stream] = native;
    }
    return status;
}

gantry_status gy_lane_enter(struct gy_shares *shares, struct gy_lane *lane, uint32_t stream, CUstream native,
                            bool capturing, uint32_t calls)
{
    assert(gy_lane_is_valid(lane));
    gantry_status status = take_turn(shares, lane);
    if (status != GANTRY_OK) {
        return status;
    }
    assert(!is_open(lane) || latest(lane)->captured == capturing); /* captures begin and end with none open */
    if (!is_open(lane)) {
        open_segment(lane, capturing);
    }
    struct gy_share_segment *segment = latest(lane);
    bool had = stream == GY_SHARE_ORIGIN ? segment->streams.origin : segment->streams.pool >> stream & 1;
    status = had ? GANTRY_OK : begin_stream(shares, lane, stream, native);
    if (status != GANTRY_OK) {
        return status;
    }
    double predicted = lane->estimate * calls;
    for (int a = 0; a < 2 && lane->accounts[a] != NULL; a++) {
        struct gy_account *account = lane->accounts[a];
        gy_bucket_begin(&account->bucket, predicted);
        if (account->budget != NULL) {
            gy_budget_begin(account->budget, predicted);
            account->promised += predicted;
        }
    }
    segment->predicted += predicted;
    segment->calls += calls;
    assert(gy_lane_is_valid(lane));
    return GANTRY_OK;
}

gantry_status gy_lane_leave(struct gy_shares *shares, struct gy_lane *lane)
{
    assert(gy_lane_is_valid(lane));
    if (!is_open(lane)) { /* the capture that it was in was launched meanwhile */
        return GANTRY_OK;
    }
    const struct gy_share_segment *segment = latest(lane);
    double quantum = lane->accounts[0]->quantum;
    if (lane->accounts[1] != NULL && lane->accounts[1]->quantum < quantum) {
        quantum = lane->accounts[1]->quantum;
    }
    bool is_long = segment->predicted == 0 || segment->predicted >= quantum;
    return is_long ? close_segment(shares, lane) : GANTRY_OK;
}

/* ---- captures ------------------------------------------------------------------------------- */

static gantry_status close_open(struct gy_shares *shares, bool captured)
{
    gantry_status status = GANTRY_OK;
    for (uint32_t p = 0; p < shares->partitions->count && status == GANTRY_OK; p++) {
        struct gy_lane *lane = shares->turns[p].lane;
        if (lane != NULL && is_open(lane) && latest(lane)->captured == captured) {
            status = close_segment(shares, lane);
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

gantry_status gy_shares_drop_capture(struct gy_shares *shares)
{
    gantry_status status = GANTRY_OK;
    for (uint32_t p = 0; p < shares->partitions->count; p++) {
        struct gy_lane *lane = shares->turns[p].lane;
        if (lane == NULL || !is_open(lane) || !latest(lane)->captured) {
            continue;
        }
        struct gy_share_segment *segment = latest(lane);
        struct gy_share_streams streams = segment->streams;
        lane->has_base = lane->has_base && opened_of(lane) > 1; /* else it was captured, too */
        segment->captured = false;
        segment->streams = (struct gy_share_streams){0, false};
        EACH_STREAM(i, &streams)
        {
            if (status == GANTRY_OK) {
                bool pooled = i != GY_SHARE_ORIGIN; /* it was the stream's shadow, and is itself again */
                status = begin_stream(shares, lane, i,
                                      pooled ? shares->streams->streams[i].native : segment->native[i]);
            }
        }
    }
    return status;
}

bool gy_shares_want_cut(const struct gy_shares *shares, const struct gy_lane *lane)
{
    uint32_t most = lane->accounts[0]->in_flight;
    if (lane->accounts[1] != NULL && lane->accounts[1]->in_flight < most) {
        most = lane->accounts[1]->in_flight;
    }
    return shares->unpublished > 0 && shares->unpublished >= most / 2;
}

/* ---- to GDB --------------------------------------------------------------------------------- */

static gantry_status publish_lane(struct gy_shares *shares, struct gy_lane *lane, CUstream origin, bool all,
                                  struct gy_share_streams *out)
{
    gantry_status status = all && is_open(lane) ? close_segment(shares, lane) : GANTRY_OK;
    uint64_t published = atomic_load_explicit(&lane->published, memory_order_relaxed);
    for (; published != lane->closed; published++) {
        struct gy_share_segment *segment = &lane->segments[published % GY_SHARE_SEGMENTS];
        out->pool |= segment->captured ? 0 : segment->streams.pool;
        out->origin |= segment->captured || segment->streams.origin;
        if (segment->captured && status == GANTRY_OK) {
            status = record(shares, &segment->gate, origin, false);
        }
        atomic_store_explicit(&lane->published, published + 1, memory_order_release);
    }
    assert(gy_lane_is_valid(lane));
    return status;
}

gantry_status gy_shares_publish(struct gy_shares *shares, CUstream origin, bool all,
                                struct gy_share_streams *out)
{
    gantry_status status = GANTRY_OK;
    uint32_t count = atomic_load_explicit(&shares->count, memory_order_acquire);
    *out = (struct gy_share_streams){0, false};
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t p = 0; p < shares->partitions->count; p++) {
            struct gy_lane *lane = shares->accounts[i]->lanes[p];
            gantry_status one = lane != NULL ? publish_lane(shares, lane, origin, all, out) : GANTRY_OK;
            status = status == GANTRY_OK ? one : status;
        }
    }
    shares->unpublished = 0;
    return status;
}

/* ---- holding back --------------------------------------------------------------------------- */

static void begin_hold(struct gy_lane *lane)
{
    if (!atomic_load_explicit(&lane->has_held, memory_order_relaxed)) {
        atomic_store(&lane->has_held, true);
        for (int a = 0; a < 2 && lane->accounts[a] != NULL; a++) {
            lane->accounts[a]->holding++;
            gy_account_set_idle(lane->accounts[a], false);
        }
    }
}

void gy_lane_hold(struct gy_lane *lane, uint32_t phase, gantry_task *task)
{
    begin_hold(lane);
    lane->holds_ending = lane->holds_ending || !gy_task_may_begin(task);
    gy_gpu_list_append(&lane->held[phase], task, task);
    assert(gy_lane_is_valid(lane));
}

void gy_lane_hold_region(struct gy_lane *lane)
{
    assert(gy_lane_is_valid(lane));
    begin_hold(lane);
    lane->held_regions++;
    assert(gy_lane_is_valid(lane));
}

/* In front of what has come since. */
static void give_back(struct gy_lane *lane, struct gy_bins *bins)
{
    for (uint32_t phase = 0; phase < GY_SHARE_PHASES; phase++) {
        gy_bins_prepend(bins, phase, lane->held[phase]);
        lane->held[phase] = (struct gy_gpu_list){NULL, NULL};
    }
    atomic_store(&lane->has_held, false);
    lane->holds_ending = false;
    lane->held_regions = 0;
    note_tokens(lane, true);
    for (int a = 0; a < 2 && lane->accounts[a] != NULL; a++) {
        lane->accounts[a]->holding--;
    }
    assert(gy_lane_is_valid(lane));
}

typedef bool lane_fn(struct gy_shares *shares, struct gy_lane *lane, void *arg);

/* True as soon as one says so; only lanes that hold something. */
static bool each_holding(struct gy_shares *shares, lane_fn *visit, void *arg)
{
    uint32_t count = atomic_load_explicit(&shares->count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t p = 0; p < shares->partitions->count; p++) {
            struct gy_lane *lane = shares->accounts[i]->lanes[p];
            if (lane != NULL && atomic_load_explicit(&lane->has_held, memory_order_relaxed) &&
                visit(shares, lane, arg)) {
                return true;
            }
        }
    }
    return false;
}

struct unhold {
    struct gy_bins *bins;
    bool all, regions; /* out: of the lanes given back, some held regions */
};

static bool unhold_one(struct gy_shares *shares, struct gy_lane *lane, void *arg)
{
    struct unhold *un = arg;
    if (un->all || gy_lane_admits(shares, lane) || (lane->holds_ending && gy_lane_has_room(shares, lane))) {
        un->regions = un->regions || lane->held_regions != 0;
        give_back(lane, un->bins);
    }
    return false;
}

bool gy_shares_unhold(struct gy_shares *shares, struct gy_bins *bins, bool all)
{
    struct unhold un = {bins, all, false};
    uint32_t count = atomic_load_explicit(&shares->count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) { /* what waits for nobody is paid here, too */
        for (uint32_t p = 0; p < shares->partitions->count; p++) {
            if (shares->accounts[i]->lanes[p] != NULL) {
                settle(shares->accounts[i]->lanes[p]);
            }
        }
    }
    (void)each_holding(shares, unhold_one, &un);
    return un.regions;
}

/* Those that will be released without a call go to `bin`; true when others of a cancelled run stay. */
static bool take_cancelled(struct gy_gpu_list *from, struct gy_gpu_list *bin)
{
    struct gy_gpu_list all = *from;
    bool stay = false;
    *from = (struct gy_gpu_list){NULL, NULL};
    for (gantry_task *task = all.first, *next; task != NULL; task = next) {
        next = gy_task_gpu(task)->next;
        bool ends = !gy_task_may_begin(task), begun = gy_task_gpu(task)->launch_index != 0;
        gy_gpu_list_append(ends && !begun ? bin : from, task, task);
        stay = stay || (ends && begun);
    }
    return stay;
}

static bool cancel_in(struct gy_shares *shares, struct gy_lane *lane, void *arg)
{
    struct gy_bins *bins = arg;
    bool is_empty = true;
    (void)shares;
    for (uint32_t phase = 0; phase < GY_SHARE_PHASES; phase++) {
        lane->holds_ending |= take_cancelled(&lane->held[phase], &bins->of[phase]);
        is_empty = is_empty && lane->held[phase].first == NULL;
    }
    if (is_empty) {
        give_back(lane, bins); /* regions are tried again in any case */
    }
    return false;
}

void gy_shares_cancel(struct gy_shares *shares, struct gy_bins *bins)
{
    (void)each_holding(shares, cancel_in, bins);
}

static bool yes(struct gy_shares *shares, struct gy_lane *lane, void *arg)
{
    (void)shares;
    (void)lane;
    (void)arg;
    return true;
}

bool gy_shares_hold_any(struct gy_shares *shares)
{
    return gy_shares_any(shares) && each_holding(shares, yes, NULL);
}

static bool find_deadline(struct gy_shares *shares, struct gy_lane *lane, void *arg)
{
    uint64_t *earliest = arg, ready = 0;
    (void)shares;
    for (int a = 0; a < 2 && lane->accounts[a] != NULL; a++) {
        const struct gy_account *account = lane->accounts[a];
        uint64_t one = gy_bucket_ready_ns(&account->bucket);
        if (account->working >= account->in_flight) {
            return false; /* something will end first */
        }
        ready = one > ready ? one : ready;
        one = account->budget != NULL ? gy_budget_ready_ns(account->budget) : 0;
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

void gy_shares_count(struct gy_shares *shares, uint64_t generation)
{
    uint32_t count = atomic_load_explicit(&shares->count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        struct gy_account *account = shares->accounts[i];
        if (atomic_load(&account->is_open)) {
            gy_mutex_lock(&account->lock);
            uint64_t used = (uint64_t)account->usage.used_ns;
            gy_mutex_unlock(&account->lock);
            gy_profile_count(generation, account->counter, used / 1000);
        }
    }
}

/* ---- checks --------------------------------------------------------------------------------- */

bool gy_lane_is_valid(const struct gy_lane *lane)
{
    bool holds = lane->held_regions != 0;
    for (int phase = 0; phase < GY_SHARE_PHASES; phase++) {
        if (!gy_gpu_list_is_valid(&lane->held[phase])) {
            return false;
        }
        holds = holds || lane->held[phase].first != NULL;
    }
    return atomic_load_explicit(&lane->has_held, memory_order_relaxed) == holds &&
           lane->accounts[0] != NULL && lane->closed <= opened_of(lane) &&
           opened_of(lane) - lane->closed <= 1 && (holds || !lane->holds_ending);
}

bool gy_shares_are_valid(const struct gy_shares *shares)
{
    uint32_t count = atomic_load_explicit(&shares->count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t p = 0; p < shares->partitions->count; p++) {
            const struct gy_lane *lane = shares->accounts[i]->lanes[p];
            if (lane != NULL && !gy_lane_is_valid(lane)) {
                return false;
            }
        }
    }
    return true;
}
