#include "dispatcher/completion.h"

#include "base/clock.h"
#include "base/point.h"
#include "base/span.h"
#include "profile/cta.h"
#include "taskman/gpu_ops.h"
#include "taskman/patience.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

enum {
    IDLE_NS = 100000,     /* a patient wait looks for completions to wait for so long before it sleeps */
    LEAST_POLL_NS = 50000 /* and polls the GPU for so long at least: about what a blocking wake-up costs */
};

_Thread_local bool gy_gdb_is_current;

static struct gy_completion_slot *slot_at(struct gy_completion *c, uint64_t position)
{
    return &c->slots[position % GY_COMPLETION_SLOTS];
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

/* Record an idle event, or a new one, on `on`. */
static gantry_status record_event(struct gy_completion *c, struct gy_idle_events *idle, CUstream on,
                                  CUevent *out)
{
    gantry_status status = GANTRY_OK;
    if (atomic_load_explicit(&idle->put, memory_order_acquire) != idle->taken) {
        *out = idle->events[idle->taken++ % GY_COMPLETION_SLOTS];
    } else {
        unsigned flags = CU_EVENT_DISABLE_TIMING | (idle == &c->blocking ? CU_EVENT_BLOCKING_SYNC : 0u);
        status = GY_CALL(c->context, cuEventCreate(out, flags));
    }
    if (status == GANTRY_OK) {
        atomic_fetch_add_explicit(&c->streams->recorded, 1, memory_order_relaxed);
        status = GY_CALL(c->context, cuEventRecord(*out, on));
    }
    return status;
}

/* An event that may be blocked on raises an interrupt, and who polls it sees it later.  So who does both has
 * one of each, the one to poll in front. */
static gantry_status record_slot(struct gy_completion *c, struct gy_completion_slot *slot, CUstream on)
{
    bool blocks = c->wait == GANTRY_WAIT_BLOCK;
    gantry_status status = record_event(c, blocks ? &c->blocking : &c->polled, on, &slot->event);
    return status == GANTRY_OK && is_patient(c) ? record_event(c, &c->blocking, on, &slot->block) : status;
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
        slot->seq = slot->watch ? 0 : stream->tail;
        slot->recorded_ns = slot->watch ? 0 : now;
        slot->open = stream->running != 0; /* a full ring is flushed in the middle of a launch call */
        if (!slot->watch && !slot->open && (recorded & bit) != 0) {
            continue;
        }
        CUstream on = slot->origin || stream->in_graph ? c->streams->origin : stream->native;
        gantry_status status = record_slot(c, slot, on);
        if (status != GANTRY_OK) {
            return status;
        }
        recorded |= slot->watch ? 0 : bit;
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
    *slot_at(c, c->written) = *slot;
    c->written++;
    return GANTRY_OK;
}

gantry_status gy_completion_add(struct gy_completion *c, uint32_t stream, gantry_task *task, uint64_t flow)
{
    return add(c, &(struct gy_completion_slot){.task = task, .flow = flow, .stream = stream});
}

gantry_status gy_completion_watch(struct gy_completion *c, uint32_t stream)
{
    bool origin = stream == GY_SHARE_ORIGIN;
    return add(c,
               &(struct gy_completion_slot){.stream = origin ? 0 : stream, .watch = true, .origin = origin});
}

/* ---- GDB's side ---------------------------------------------------------------------------- */

/* What GDB knows of one round: the slots it looks at and how far each stream has got. */
struct round {
    uint64_t head, published;
    uint64_t since; /* nothing has passed since then */
    uint32_t looks; /* in vain */
    bool lost;
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

static void put_back(struct gy_idle_events *idle, CUevent event)
{
    uint64_t put = atomic_load_explicit(&idle->put, memory_order_relaxed);
    idle->events[put % GY_COMPLETION_SLOTS] = event; /* never more events than slots */
    atomic_store_explicit(&idle->put, put + 1, memory_order_release);
}

static void finish_slot(struct gy_completion *c, const struct round *round, struct gy_completion_slot *slot)
{
    slot->done = true;
    if (!round->lost) {
        gy_streams_passed(c->streams, slot->stream, slot->seq);
    }
    if (slot->event != NULL) {
        put_back(c->wait == GANTRY_WAIT_BLOCK ? &c->blocking : &c->polled, slot->event);
        if (slot->block != NULL) {
            put_back(&c->blocking, slot->block);
        }
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

/* Finish every slot whose stream has passed it; true when any was. */
static bool sweep(struct gy_completion *c, struct round *round)
{
    bool any = false;
    for (uint64_t p = round->head; p != round->published; p++) {
        struct gy_completion_slot *slot = slot_at(c, p);
        if (slot->done) {
            continue;
        }
        struct gy_stream *stream = &c->streams->streams[slot->stream];
        bool passed =
            round->lost || (!slot->watch && !slot->open &&
                            atomic_load_explicit(&stream->completed, memory_order_relaxed) >= slot->seq);
        if (!passed && slot->event != NULL) {
            CUresult result = c->context->driver->cuEventQuery(slot->event);
            passed = result == CUDA_SUCCESS;
            if (!passed && result != CUDA_ERROR_NOT_READY) {
                (void)gy_context_check(c->context, result, "cuEventQuery(completion)", __FILE__, __LINE__);
                gy_context_lose(c->context, gy_error_last());
                round->lost = true;
                passed = true;
            }
        }
        if (passed) {
            /* Before the completion is told: its task may end the recording. */
            if (__builtin_expect(slot->recorded_ns != 0 && !round->lost, 0)) {
                gy_cta_passed(gy_gpu_time_ctas(c->time), slot->stream, slot->recorded_ns);
            }
            collect_times(c);
            finish_slot(c, round, slot);
            any = true;
        }
    }
    return any;
}

/* Let GD have the slots up to the first that is not done. */
static void advance_head(struct gy_completion *c, struct round *round)
{
    uint64_t head = round->head;
    while (head != round->published && slot_at(c, head)->done) {
        head++;
    }
    atomic_store(&c->head, head);
    if (atomic_load(&c->gd_sleeps)) {
        gy_mutex_lock(&c->lock);
        gy_cond_signal(&c->head_changed);
        gy_mutex_unlock(&c->lock);
    }
}

/* Block until the oldest event that is not done has passed. */
static void wait_oldest(struct gy_completion *c, const struct round *round)
{
    for (uint64_t p = round->head; p != round->published; p++) {
        struct gy_completion_slot *slot = slot_at(c, p);
        if (!slot->done && slot->event != NULL) {
            uint64_t begin = gy_span_begin();
            const struct gy_span_ranges *ranges = gy_span_push(begin, "GDB wait");
            CUevent event = slot->block != NULL ? slot->block : slot->event;
            CUresult result = c->context->driver->cuEventSynchronize(event);
            gy_span_pop(ranges);
            gy_span_end(GY_SPAN_WAIT, "GDB wait", begin, slot->stream);
            if (result != CUDA_SUCCESS) {
                (void)gy_context_check(c->context, result, "cuEventSynchronize(completion)", __FILE__,
                                       __LINE__);
                gy_context_lose(c->context, gy_error_last());
            }
            return;
        }
    }
}

/* Nothing is ready: poll or block, as the wait mode says. */
static void wait_for_gpu(struct gy_completion *c, struct round *round)
{
    uint64_t poll_ns = c->patience_ns > LEAST_POLL_NS ? c->patience_ns : LEAST_POLL_NS;
    switch (c->wait) {
    case GANTRY_WAIT_SPIN:
        gy_cpu_relax();
        return;
    case GANTRY_WAIT_YIELD:
        sched_yield();
        return;
    case GANTRY_WAIT_HYBRID:
    case GANTRY_WAIT_ADAPTIVE:
        if (gy_clock_ns() - round->since < poll_ns) {
            gy_spin(round->looks++);
            return;
        }
        break;
    case GANTRY_WAIT_BLOCK:
    case GANTRY_WAIT_DEFAULT:
        break;
    }
    wait_oldest(c, round);
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

/* Wait for published slots; false when closing and none are left. */
static bool next_round(struct gy_completion *c, struct round *round)
{
    uint64_t before = round->published;
    round->head = atomic_load_explicit(&c->head, memory_order_relaxed);
    for (;;) {
        /* Read first: whatever is told later makes the waits return at once. */
        uint64_t seen = atomic_load(&c->news);
        bool closing = atomic_load(&c->closing);
        round->published = atomic_load(&c->published);
        if (round->head != round->published || closing) {
            break;
        }
        await_news(c, seen);
        if (atomic_load(&c->news) == seen) {
            sleep_for_news(c, seen);
        }
        round->since = 0;
    }
    if (round->since == 0) {
        round->since = gy_clock_ns();
    }
    announce(c, before, round->published);
    round->lost = gy_context_is_lost(c->context);
    return round->head != round->published;
}

static void gdb_main(void *arg)
{
    struct gy_completion *c = arg;
    gy_gdb_is_current = true;
    gy_thread_serve();
    gy_cta_serve(gy_gpu_time_ctas(c->time));
    bool pushed = gy_context_push(c->context) == GANTRY_OK;
    if (!pushed) {
        gy_context_lose(c->context, gy_error_last());
    }
    struct round round = {0};
    while (next_round(c, &round)) {
        if (sweep(c, &round)) {
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

static void destroy_events(struct gy_completion *c, struct gy_idle_events *idle)
{
    for (uint64_t p = idle->taken; p != atomic_load_explicit(&idle->put, memory_order_relaxed); p++) {
        (void)c->context->driver->cuEventDestroy(idle->events[p % GY_COMPLETION_SLOTS]);
    }
}

void gy_completion_fini(struct gy_completion *c)
{
    atomic_store(&c->closing, true);
    look(c);
    gy_thread_join(&c->thread);
    destroy_events(c, &c->polled);
    destroy_events(c, &c->blocking);
    gy_cond_fini(&c->head_changed);
    gy_guard_fini(&c->lock, &c->news_changed);
}
