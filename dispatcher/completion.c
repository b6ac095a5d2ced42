#include "dispatcher/completion.h"

#include "base/clock.h"
#include "base/point.h"
#include "base/span.h"
#include "profile/cta.h"
#include "taskman/cpu/patience.h"
#include "taskman/gpu_ops.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

enum {
    IDLE_NS = 100000,      /* a patient wait looks for completions to wait for so long before it sleeps */
    LEAST_POLL_NS = 50000, /* and polls the GPU for so long at least: some times what a nap's end costs */
    TIMER_SLACK_NS = 1000  /* how much longer the system may let a nap last */
};

/* Naps between two looks at the GPU: a part of the time since something was published or has passed, so that
 * what took long may be told a little later, within bounds. */
static const struct naps {
    uint32_t part;
    uint32_t least_ns, most_ns;
} blocking_naps = {4, 20000, 500000}, patient_naps = {128, 5000, 100000};

_Thread_local bool gy_gdb_is_current;

static struct gy_completion_slot *slot_at(struct gy_completion *c, uint64_t position)
{
    return &c->slots[c->ring[position % GY_COMPLETION_SLOTS]];
}

static bool is_patient(const struct gy_completion *c)
{
    return c->wait == GANTRY_WAIT_HYBRID || c->wait == GANTRY_WAIT_ADAPTIVE;
}

static void tell(struct gy_completion *c)
{
    gy_point(GY_POINT_COMPLETION_TELL, c);
    atomic_fetch_add(&c->news, 1);
}

/* Have GDB look, or at least wake up. */
static void look(struct gy_completion *c)
{
    tell(c);
    if (atomic_load(&c->gdb_sleeps)) {
        gy_mutex_lock(&c->lock);
        gy_cond_signal(&c->news_changed);
        gy_mutex_unlock(&c->lock);
    }
}

/* ---- GD's side ----------------------------------------------------------------------------- */

/* Record an idle event, or a new one, on `on`.  It is only polled: one that may be blocked on raises an
 * interrupt, and who polls it sees it later. */
static gantry_status record_event(struct gy_completion *c, CUstream on, CUevent *out)
{
    struct gy_idle_events *idle = &c->idle;
    gantry_status status = GANTRY_OK;
    if (atomic_load_explicit(&idle->put, memory_order_acquire) != idle->taken) {
        *out = idle->events[idle->taken++ % GY_COMPLETION_SLOTS];
    } else {
        status = GY_CALL(c->context, cuEventCreate(out, CU_EVENT_DISABLE_TIMING));
    }
    if (status == GANTRY_OK) {
        atomic_fetch_add_explicit(&c->streams->recorded, 1, memory_order_relaxed);
        status = GY_CALL(c->context, cuEventRecord(*out, on));
    }
    return status;
}

bool gy_completion_slot_is_valid(const struct gy_completion_slot *slot, enum gy_slot_state state)
{
    bool is_watch = slot->kind != GY_SLOT_POSITION;
    return slot->state == state && slot->stream < GY_STREAMS_MAX && (!is_watch || slot->task == NULL) &&
           (!is_watch || (slot->seq == 0 && slot->flow == 0)) &&
           (slot->kind != GY_SLOT_WATCH_ORIGIN || slot->stream == 0) &&
           (state != GY_SLOT_WRITTEN || slot->event == NULL);
}

bool gy_completion_is_valid(struct gy_completion *c)
{
    uint64_t head = atomic_load(&c->head),
             published = atomic_load_explicit(&c->published, memory_order_relaxed);
    return head <= published && published <= c->written && c->written <= head + GY_COMPLETION_SLOTS &&
           (c->written == published ||
            (gy_completion_slot_is_valid(slot_at(c, published), GY_SLOT_WRITTEN) &&
             gy_completion_slot_is_valid(slot_at(c, c->written - 1), GY_SLOT_WRITTEN)));
}

/* The only writer of its state. */
static void slot_enter(struct gy_completion_slot *slot, enum gy_slot_state next)
{
    assert(next == (enum gy_slot_state)((slot->state + 1) % (GY_SLOT_LISTED + 1)));
    slot->state = next;
    assert(gy_completion_slot_is_valid(slot, next));
}

/* Path of a task, step 7 of 8: an event for every stream somebody waits for.
 *
 * Give the first slot of each stream in [published, written) an event behind everything on it. */
static gantry_status record_events(struct gy_completion *c)
{
    uint64_t recorded = 0, now = gy_span_begin();
    for (uint64_t p = atomic_load_explicit(&c->published, memory_order_relaxed); p != c->written; p++) {
        struct gy_completion_slot *slot = slot_at(c, p);
        struct gy_stream *stream = &c->streams->streams[slot->stream];
        uint64_t bit = UINT64_C(1) << slot->stream;
        bool is_position = slot->kind == GY_SLOT_POSITION;
        /* A full ring is flushed in the middle of a launch call: then the position is not closed yet. */
        bool is_open = stream->running != 0;
        slot->seq = is_position ? stream->tail : 0;
        slot->recorded_ns = is_position ? now : 0;
        if (is_position && !is_open && (recorded & bit) != 0) {
            continue;
        }
        CUstream on =
            slot->kind == GY_SLOT_WATCH_ORIGIN || stream->in_graph ? c->streams->origin : stream->native;
        gantry_status status = record_event(c, on, &slot->event);
        if (status != GANTRY_OK) {
            return status;
        }
        recorded |= is_position ? bit : 0;
    }
    return GANTRY_OK;
}

gantry_status gy_completion_flush(struct gy_completion *c)
{
    if (!gy_completion_is_pending(c)) {
        return GANTRY_OK;
    }
    gantry_status status = gy_context_is_lost(c->context) ? GANTRY_ERR_DEVICE_LOST : record_events(c);
    if (status != GANTRY_OK) {
        /* Without its event a completion could never be told: the context is of no use any more. */
        gy_context_lose(c->context, gy_error_last());
    }
    c->flushes++;
    for (uint64_t p = atomic_load_explicit(&c->published, memory_order_relaxed); p != c->written; p++) {
        slot_enter(slot_at(c, p), GY_SLOT_PUBLISHED);
    }
    atomic_store_explicit(&c->published, c->written, memory_order_release);
    look(c);
    return status;
}

uint64_t gy_completion_expect(struct gy_completion *c)
{
    if (atomic_load_explicit(&c->soon_ns, memory_order_relaxed) == 0) {
        return 0;
    }
    uint64_t soon = atomic_exchange_explicit(&c->soon_ns, 0, memory_order_relaxed);
    if (soon != 0 && is_patient(c)) {
        look(c);
    }
    return soon;
}

bool gy_completion_is_full(struct gy_completion *c)
{
    return c->written - atomic_load(&c->head) == GY_COMPLETION_SLOTS;
}

static gantry_status add(struct gy_completion *c, const struct gy_completion_slot *slot)
{
    if (gy_completion_is_full(c)) {
        gantry_status status = gy_completion_flush(c);
        if (status != GANTRY_OK) {
            return gy_context_adopt_loss(c->context);
        }
        gy_mutex_lock(&c->lock);
        atomic_store(&c->gd_sleeps, true);
        while (gy_completion_is_full(c)) {
            gy_cond_wait(&c->head_changed, &c->lock);
        }
        atomic_store(&c->gd_sleeps, false);
        gy_mutex_unlock(&c->lock);
    }
    assert(slot_at(c, c->written)->state == GY_SLOT_FREE);
    *slot_at(c, c->written) = *slot;
    slot_enter(slot_at(c, c->written), GY_SLOT_WRITTEN);
    c->written++;
    assert(gy_completion_is_valid(c));
    return GANTRY_OK;
}

gantry_status gy_completion_add(struct gy_completion *c, uint32_t stream, gantry_task *task, uint64_t flow)
{
    return add(c, &(struct gy_completion_slot){.task = task, .flow = flow, .stream = stream});
}

gantry_status gy_completion_watch(struct gy_completion *c, uint32_t stream)
{
    bool origin = stream == GY_SHARE_ORIGIN;
    return add(c, &(struct gy_completion_slot){.stream = origin ? 0 : stream,
                                               .kind = origin ? GY_SLOT_WATCH_ORIGIN : GY_SLOT_WATCH});
}

/* ---- GDB's side ---------------------------------------------------------------------------- */

/* What GDB knows of one round. */
struct round {
    uint64_t head;   /* slots given back up to here */
    uint64_t seen;   /* news when it looked for them last */
    uint64_t since;  /* nothing was published and nothing has passed since then */
    uint32_t looks;  /* in vain */
    uint32_t stream; /* what has passed last was there */
    bool lost;
    uint64_t span; /* when it began to nap; 0: it does not, or nothing is recorded */
    const struct gy_span_ranges *ranges;
};

/* Something has passed after `took_ns`. */
static void learn(struct gy_completion *c, uint64_t took_ns)
{
    uint64_t most = c->wait == GANTRY_WAIT_ADAPTIVE ? GY_PATIENCE_MOST_NS : GY_PATIENCE_HYBRID_NS;
    c->patience_ns = gy_patience_after(c->patience_ns, took_ns, most);
    uint64_t likely = c->patience_ns > IDLE_NS ? c->patience_ns : IDLE_NS; /* others have to wake up first */
    c->near_ns = c->wait != GANTRY_WAIT_BLOCK && took_ns <= most ? likely : 0;
    atomic_store_explicit(&c->soon_ns, c->near_ns, memory_order_relaxed);
}

/* What was published from `from` on will probably pass soon: who runs the first task of it shall be awake. */
static void announce(struct gy_completion *c, uint64_t from, uint64_t to)
{
    for (uint64_t p = from; p != to && c->near_ns != 0; p++) {
        const gantry_task *task = slot_at(c, p)->task;
        if (task != NULL) {
            gy_task_expect_ready(task, c->near_ns);
            return;
        }
    }
}

/* A slice on the way of the arrows from the GPU task to the one that waited for it; before the completion is
 * told, as its task may end the recording. */
static void record_completion(const struct gy_completion_slot *slot)
{
    char name[64];
    uint64_t begin = gy_span_begin();
    if (begin != 0) {
        snprintf(name, sizeof(name), "complete %s", gantry_task_label(slot->task));
        gy_span_add_flow(slot->flow);
        gy_span_add_flow(gy_task_expect_flow(slot->task));
        gy_span_end(GY_SPAN_WAIT, name, begin, slot->stream);
    }
}

static void put_back(struct gy_completion *c, CUevent event)
{
    struct gy_idle_events *idle = &c->idle;
    uint64_t put = atomic_load_explicit(&idle->put, memory_order_relaxed);
    idle->events[put % GY_COMPLETION_SLOTS] = event; /* never more events than slots */
    atomic_store_explicit(&idle->put, put + 1, memory_order_release);
}

static void finish_slot(struct gy_completion *c, const struct round *round, struct gy_completion_slot *slot)
{
    if (!round->lost) {
        gy_streams_passed(c->streams, slot->stream, slot->seq);
    }
    if (slot->event != NULL) {
        put_back(c, slot->event);
    }
    /* Before the completion is told: its task may count on the memory. */
    (void)gy_deferred_collect(c->deferred, slot->stream, round->lost);
    gy_admission_passed(c->admission);
    if (slot->task == NULL) {
        return;
    }
    if (__builtin_expect(slot->flow != 0, 0)) {
        record_completion(slot);
    }
    if (round->lost) {
        gy_task_remove_reference_failed(slot->task, gy_context_adopt_loss(c->context));
    } else {
        (void)gantry_task_remove_reference(slot->task); /* the reference is ours: cannot fail */
    }
}

static void collect_times(struct gy_completion *c)
{
    gy_mutex_lock(c->collecting);
    gy_gpu_time_collect(c->time);
    if (gy_shares_any(c->shares)) {
        gy_shares_collect(c->shares);
    }
    gy_mutex_unlock(c->collecting);
}

/* What was published goes to the lists. */
static void take_in(struct gy_completion *c, uint64_t published)
{
    for (; c->taken != published; c->taken++) {
        uint16_t number = c->ring[c->taken % GY_COMPLETION_SLOTS];
        struct gy_completion_slot *slot = &c->slots[number];
        uint32_t which = slot->kind == GY_SLOT_WATCH_ORIGIN ? GY_SHARE_ORIGIN : slot->stream;
        slot_enter(slot, GY_SLOT_LISTED);
        struct gy_completion_list *list = &c->lists[which];
        slot->next = GY_COMPLETION_NONE;
        *(list->first == GY_COMPLETION_NONE ? &list->first : &c->slots[list->last].next) = number;
        list->last = number;
        c->listed |= which < GY_STREAMS_MAX ? UINT64_C(1) << which : 0;
    }
}

/* The first of a list.  One without an event was flushed with the one before it. */
static bool has_passed(struct gy_completion *c, struct round *round, const struct gy_completion_slot *slot)
{
    if (round->lost || slot->event == NULL) {
        return true;
    }
    CUresult result = c->context->driver->cuEventQuery(slot->event);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) {
        (void)gy_context_check(c->context, result, "cuEventQuery(completion)", __FILE__, __LINE__);
        gy_context_lose(c->context, gy_error_last());
        round->lost = true;
    }
    return result != CUDA_ERROR_NOT_READY;
}

/* Finish what has passed; true when anything has. */
static bool sweep_list(struct gy_completion *c, struct round *round, struct gy_completion_list *list)
{
    bool any = false;
    while (list->first != GY_COMPLETION_NONE && has_passed(c, round, &c->slots[list->first])) {
        uint16_t number = list->first;
        struct gy_completion_slot *slot = &c->slots[number];
        list->first = slot->next;
        /* Before the completion is told: its task may end the recording. */
        if (__builtin_expect(slot->recorded_ns != 0 && !round->lost, 0)) {
            gy_cta_passed(gy_gpu_time_ctas(c->time), slot->stream, slot->recorded_ns);
        }
        collect_times(c);
        finish_slot(c, round, slot);
        round->stream = slot->stream;
        slot_enter(slot, GY_SLOT_FREE);
        c->ring[round->head++ % GY_COMPLETION_SLOTS] = number;
        any = true;
    }
    return any;
}

static bool sweep(struct gy_completion *c, struct round *round)
{
    bool any = sweep_list(c, round, &c->lists[GY_SHARE_ORIGIN]);
    for (uint64_t left = c->listed; left != 0; left &= left - 1) {
        struct gy_completion_list *list = &c->lists[__builtin_ctzll(left)];
        any = sweep_list(c, round, list) || any;
        c->listed &= list->first == GY_COMPLETION_NONE ? ~(left & -left) : UINT64_MAX;
    }
    return any;
}

/* Let GD have the slots that are done. */
static void advance_head(struct gy_completion *c, const struct round *round)
{
    atomic_store(&c->head, round->head);
    if (atomic_load(&c->gd_sleeps)) {
        gy_mutex_lock(&c->lock);
        gy_cond_signal(&c->head_changed);
        gy_mutex_unlock(&c->lock);
    }
}

static void begin_naps(struct round *round)
{
    if (round->span == 0) {
        round->span = gy_span_begin();
        round->ranges = gy_span_push(round->span, "GDB wait");
    }
}

static void end_naps(struct round *round)
{
    if (__builtin_expect(round->span != 0, 0)) {
        gy_span_pop(round->ranges);
        gy_span_end(GY_SPAN_WAIT, "GDB wait", round->span, round->stream);
        round->span = 0;
    }
}

/* Only a patient GDB is woken by GD: one that blocks looks soon enough, and costs GD nothing. */
static void nap(struct gy_completion *c, const struct round *round, uint64_t now, const struct naps *naps)
{
    uint64_t ns = (now - round->since) / naps->part;
    ns = ns < naps->least_ns ? naps->least_ns : ns > naps->most_ns ? naps->most_ns : ns;
    gy_mutex_lock(&c->lock);
    atomic_store(&c->gdb_sleeps, is_patient(c));
    while (atomic_load(&c->news) == round->seen && gy_clock_ns() < now + ns) {
        gy_cond_wait_until(&c->news_changed, &c->lock, now + ns);
    }
    atomic_store(&c->gdb_sleeps, false);
    gy_mutex_unlock(&c->lock);
}

/* Nothing has passed: look again, or nap, as the wait mode says. */
static void wait_for_gpu(struct gy_completion *c, struct round *round)
{
    if (c->wait == GANTRY_WAIT_SPIN) {
        gy_cpu_relax();
        return;
    }
    if (c->wait == GANTRY_WAIT_YIELD) {
        sched_yield();
        return;
    }
    uint64_t poll_ns = c->patience_ns > LEAST_POLL_NS ? c->patience_ns : LEAST_POLL_NS;
    uint64_t now = gy_clock_ns();
    if (is_patient(c) && now - round->since < poll_ns) {
        gy_spin(round->looks++);
        return;
    }
    begin_naps(round);
    nap(c, round, now, is_patient(c) ? &patient_naps : &blocking_naps);
}

/* Nothing is published: look for it as long as the wait mode says, before sleeping. */
static void await_news(struct gy_completion *c, uint64_t seen)
{
    if (c->wait == GANTRY_WAIT_BLOCK) {
        return;
    }
    uint64_t until = gy_clock_ns() + IDLE_NS;
    for (uint32_t round = 0; atomic_load_explicit(&c->news, memory_order_acquire) == seen &&
                             (!is_patient(c) || gy_clock_ns() < until);
         round++) {
        if (c->wait == GANTRY_WAIT_YIELD) {
            sched_yield();
        } else if (c->wait == GANTRY_WAIT_SPIN) {
            gy_cpu_relax();
        } else {
            gy_spin(round);
        }
    }
}

static void sleep_for_news(struct gy_completion *c, uint64_t seen)
{
    gy_point(GY_POINT_COMPLETION_SLEEP, c);
    gy_mutex_lock(&c->lock);
    atomic_store(&c->gdb_sleeps, true);
    while (atomic_load(&c->news) == seen) {
        gy_cond_wait(&c->news_changed, &c->lock);
    }
    atomic_store(&c->gdb_sleeps, false);
    gy_mutex_unlock(&c->lock);
}

/* Take in what is published, or wait for it while there is nothing to look at; false when closing and nothing
 * is left. */
static bool next_round(struct gy_completion *c, struct round *round)
{
    for (;;) {
        /* Read first: whatever is told later makes the waits return at once. */
        round->seen = atomic_load(&c->news);
        bool closing = atomic_load(&c->closing);
        uint64_t published = atomic_load(&c->published);
        if (published != c->taken) {
            announce(c, c->taken, published);
            take_in(c, published);
            round->since = gy_clock_ns();
            break;
        }
        if (c->taken != round->head || closing) {
            break;
        }
        end_naps(round);
        await_news(c, round->seen);
        if (atomic_load(&c->news) == round->seen) {
            sleep_for_news(c, round->seen);
        }
    }
    round->lost = gy_context_is_lost(c->context);
    return c->taken != round->head;
}

static void gdb_main(void *arg)
{
    struct gy_completion *c = arg;
    gy_gdb_is_current = true;
    gy_thread_serve();
    gy_cta_serve(gy_gpu_time_ctas(c->time));
    (void)prctl(PR_SET_TIMERSLACK, (unsigned long)TIMER_SLACK_NS); /* else naps last 50 us longer */
    bool pushed = gy_context_push(c->context) == GANTRY_OK;
    if (!pushed) {
        gy_context_lose(c->context, gy_error_last());
    }
    struct round round = {0};
    while (next_round(c, &round)) {
        if (sweep(c, &round)) {
            end_naps(&round);
            advance_head(c, &round);
            uint64_t now = gy_clock_ns();
            learn(c, now - round.since);
            round.since = now;
        } else {
            wait_for_gpu(c, &round);
        }
    }
    if (pushed) {
        (void)gy_context_pop(c->context);
    }
}

/* ---- life ---------------------------------------------------------------------------------- */

gantry_status gy_completion_init(struct gy_completion *c, const struct gy_completion_config *config)
{
    memset(c, 0, sizeof(*c));
    (void)snprintf(c->name, sizeof(c->name), "GDB%s%s", config->partition != NULL ? " " : "",
                   config->partition != NULL ? config->partition : "");
    c->collecting = config->collecting;
    c->context = config->context;
    c->streams = config->streams;
    c->deferred = config->deferred;
    c->admission = config->admission;
    c->shares = config->shares;
    c->time = config->time;
    c->wait = config->wait;
    for (uint32_t i = 0; i < GY_COMPLETION_SLOTS; i++) {
        c->ring[i] = (uint16_t)i;
    }
    for (uint32_t i = 0; i < GY_SHARE_STREAMS; i++) {
        c->lists[i].first = GY_COMPLETION_NONE;
    }
    gantry_status status = gy_guard_init(&c->lock, GY_RANK_COMPLETION, &c->news_changed);
    if (status != GANTRY_OK) {
        return status;
    }
    status = gy_cond_init(&c->head_changed);
    if (status != GANTRY_OK) {
        goto fini_lock;
    }
    status = gy_thread_start(&c->thread, c->name, gdb_main, c);
    if (status != GANTRY_OK) {
        goto fini_head;
    }
    return GANTRY_OK;
fini_head:
    gy_cond_fini(&c->head_changed);
fini_lock:
    gy_guard_fini(&c->lock, &c->news_changed);
    return status;
}

static void destroy_events(struct gy_completion *c)
{
    const struct gy_idle_events *idle = &c->idle;
    for (uint64_t p = idle->taken; p != atomic_load_explicit(&idle->put, memory_order_relaxed); p++) {
        (void)c->context->driver->cuEventDestroy(idle->events[p % GY_COMPLETION_SLOTS]);
    }
}

void gy_completion_fini(struct gy_completion *c)
{
    atomic_store(&c->closing, true);
    look(c);
    gy_thread_join(&c->thread);
    destroy_events(c);
    gy_cond_fini(&c->head_changed);
    gy_guard_fini(&c->lock, &c->news_changed);
}
