/* SPDX-License-Identifier: MIT */
#include "dispatcher/gates/admission.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/point.h"
#include "base/span.h"
#include "base/status.h"
#include "heap/region.h"
#include "profile/session.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

void gy_admission_init(struct gy_admission *a, struct gy_context *context, gantry_heap *heap,
                       struct gy_streams *streams, struct gy_inbox *inbox)
{
    memset(a, 0, sizeof(*a));
    a->context = context;
    a->heap = heap;
    a->streams = streams;
    a->stall.inbox = inbox;
    gy_mutex_init(&a->lock, GY_RANK_LEAF);
}

/* ---- any thread ---- */

/* The heap takes memory in whole granules. */
static uint64_t whole_granules(uint64_t bytes)
{
    uint64_t rounded = (bytes + GY_GRANULE_BYTES - 1) & ~(uint64_t)(GY_GRANULE_BYTES - 1);
    return rounded >= bytes ? rounded : bytes; /* near 2^64 */
}

struct gy_gpu_memory *gy_admission_open(struct gy_admission *a, gantry_taskman *manager,
                                        const uint64_t *bytes)
{
    struct gy_gpu_memory *memory = gy_zalloc(sizeof(*memory));
    if (memory != NULL) {
        atomic_store_explicit(&a->was_declared, true, memory_order_relaxed);
        memory->manager = manager;
        for (int kind = 0; kind < GANTRY_MEMORY_KIND_COUNT; kind++) {
            memory->declared[kind] = bytes[kind];
            memory->bytes[kind] = whole_granules(bytes[kind]);
        }
    }
    return memory;
}

static void tell(struct gy_admission *a, struct gy_gpu_memory *memory, bool ended, bool closed)
{
    gy_mutex_lock(&a->lock);
    memory->ended = memory->ended || ended;
    memory->closed = memory->closed || closed;
    if (!memory->has_event) {
        memory->has_event = true;
        memory->next_event = a->events;
        a->events = memory;
    }
    atomic_store(&a->has_events, true);
    gy_mutex_unlock(&a->lock);
    gy_inbox_signal(a->stall.inbox);
}

void gy_admission_close(struct gy_admission *a, struct gy_gpu_memory *memory)
{
    tell(a, memory, false, true);
}

void gy_admission_begin(struct gy_gpu_memory *memory)
{
    atomic_fetch_add_explicit(&memory->tasks, 1, memory_order_relaxed);
}

void gy_admission_end(struct gy_admission *a, struct gy_gpu_memory *memory)
{
    if (atomic_fetch_sub_explicit(&memory->tasks, 1, memory_order_acq_rel) == 1) {
        tell(a, memory, true, false);
    }
}

void gy_admission_quiet(struct gy_admission *a)
{
    gy_stall_ask(&a->stall);
}

void gy_admission_passed(struct gy_admission *a)
{
    if (atomic_load(&a->ending) != 0) {
        gy_inbox_signal(a->stall.inbox);
    }
}

/* ---- the dispatcher's thread: states ---- */

static void count(_Atomic(uint64_t) *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

static void count_waiting(struct gy_admission *a, uint64_t more)
{
    atomic_fetch_add(&a->stall.waiting, more); /* before its manager may become quiet */
    if (gy_span_on()) {
        gy_profile_count(gy_profile_generation(), "Tasks waiting for memory",
                         atomic_load_explicit(&a->stall.waiting, memory_order_relaxed));
    }
}

static void count_held(struct gy_admission *a, const struct gy_gpu_memory *memory, bool more)
{
    for (int kind = 0; kind < GANTRY_MEMORY_KIND_COUNT; kind++) {
        a->held[kind] += more ? memory->bytes[kind] : UINT64_C(0) - memory->bytes[kind];
        atomic_store_explicit(&a->held_bytes[kind], a->held[kind], memory_order_relaxed);
    }
    if (gy_span_on()) {
        gy_profile_count(gy_profile_generation(), "Declared device bytes", a->held[GANTRY_MEMORY_DEVICE]);
    }
}

#ifndef NDEBUG
static bool may_become(enum gy_memory_state from, enum gy_memory_state to)
{
    switch (from) {
    case GY_MEMORY_IDLE:
        return to == GY_MEMORY_WAITING;
    case GY_MEMORY_WAITING:
        return to == GY_MEMORY_HELD || to == GY_MEMORY_IDLE;
    case GY_MEMORY_HELD:
        return to == GY_MEMORY_ENDING;
    case GY_MEMORY_ENDING:
        return to == GY_MEMORY_WAITING || to == GY_MEMORY_IDLE;
    }
    return false;
}
#endif

/* The only writer of its state. */
static void memory_enter(struct gy_gpu_memory *memory, enum gy_memory_state next)
{
    assert(may_become(memory->state, next));
    memory->state = next;
}

static void append_waiting(struct gy_admission *a, struct gy_gpu_memory *memory)
{
    memory_enter(memory, GY_MEMORY_WAITING);
    memory->since_ns = gy_clock_ns();
    memory->next = NULL;
    a->changed = a->changed || a->first == NULL;
    *(a->first != NULL ? &a->last->next : &a->first) = memory;
    a->last = memory;
    assert(gy_gpu_memory_is_valid(memory));
}

/* The tasks that `memory` holds back go to `list`. */
static void let_go(struct gy_admission *a, struct gy_gpu_memory *memory, struct gy_gpu_list *list)
{
    gy_stall_begin_move(&a->stall);
    for (gantry_task *task = memory->held_back.first, *next; task != NULL; task = next) {
        next = task->next;
        gy_task_let_go(task);
        gy_gpu_list_append(list, task, task);
    }
    count_waiting(a, UINT64_C(0) - memory->held_back_count);
    memory->held_back = (struct gy_gpu_list){NULL, NULL};
    memory->held_back_count = 0;
    gy_stall_end_move(&a->stall);
    assert(gy_gpu_list_is_valid(list));
}

/* The memory is at rest: nothing is held and nothing waits for it. */
static void rest(struct gy_gpu_memory *memory)
{
    memory_enter(memory, GY_MEMORY_IDLE);
    if (memory->forget) {
        gy_free(memory);
    }
}

static void end_wait(struct gy_admission *a, const struct gy_gpu_memory *memory)
{
    count(&a->wait_ns, gy_clock_ns() - memory->since_ns);
    if (gy_span_on()) {
        gy_span_end(GY_SPAN_MEMORY, "waiting for memory", memory->since_ns, memory->held_back_count);
    }
}

static void pop_waiting(struct gy_admission *a)
{
    struct gy_gpu_memory *memory = a->first;
    a->first = memory->next;
    end_wait(a, memory);
}

static void admit_first(struct gy_admission *a)
{
    struct gy_gpu_memory *memory = a->first;
    pop_waiting(a);
    memory_enter(memory, GY_MEMORY_HELD);
    memory->watched = false;
    memory->next = a->active;
    a->active = memory;
    count_held(a, memory, true);
    count(&a->admitted, 1);
    let_go(a, memory, &a->ready);
    assert(gy_gpu_memory_is_valid(memory));
}

static void refuse_first(struct gy_admission *a)
{
    assert(gy_gpu_memory_is_valid(a->first));
    struct gy_gpu_memory *memory = a->first;
    pop_waiting(a);
    let_go(a, memory, &a->refused);
    rest(memory);
}

/* ---- the dispatcher's thread: what fits ---- */

/* While no declared memory is held, all occupied memory belongs to tasks that declare none.  A block that
 * still waits for its stream at that moment is noticed later. */
static void look_at_others(struct gy_admission *a)
{
    for (int kind = 0; kind < GANTRY_MEMORY_KIND_COUNT; kind++) {
        if (gy_heap_budget(a->heap, (gantry_memory_kind)kind) == UINT64_MAX) {
            continue;
        }
        uint64_t occupied = gy_heap_occupied(a->heap, (gantry_memory_kind)kind);
        if (a->active == NULL || occupied < a->others[kind]) {
            a->others[kind] = occupied;
        }
    }
}

/* The most bytes of which a declaration of the kind can be: the library's own blocks stay. */
static uint64_t most_declared(const struct gy_admission *a, int kind)
{
    uint64_t budget = gy_heap_budget(a->heap, (gantry_memory_kind)kind);
    uint64_t own = gy_heap_own(a->heap, (gantry_memory_kind)kind);
    return budget == UINT64_MAX ? budget : budget > own ? budget - own : 0;
}

/* The most of them that large blocks can have: not those of granules in which the library has a block. */
static uint64_t most_in_large_blocks(const struct gy_admission *a, int kind)
{
    uint64_t budget = gy_heap_budget(a->heap, (gantry_memory_kind)kind) & ~(uint64_t)(GY_GRANULE_BYTES - 1);
    uint64_t own = whole_granules(gy_heap_own(a->heap, (gantry_memory_kind)kind));
    return budget > own ? budget - own : 0;
}

enum fit { FITS, MAY_TRY, MUST_WAIT, NEVER_FITS };

/* Alone, everything that the limit and the library leave may try. */
static enum fit fit(struct gy_admission *a, const struct gy_gpu_memory *memory)
{
    enum fit result = FITS, alone = FITS;
    for (int kind = 0; kind < GANTRY_MEMORY_KIND_COUNT; kind++) {
        uint64_t budget = gy_heap_budget(a->heap, (gantry_memory_kind)kind);
        uint64_t bytes = memory->bytes[kind];
        if (bytes != 0 && memory->declared[kind] > most_declared(a, kind)) {
            return NEVER_FITS;
        }
        if (bytes != 0 && bytes > most_in_large_blocks(a, kind)) {
            alone = MAY_TRY;
        }
        uint64_t taken = a->held[kind] + a->others[kind];
        budget &= ~(uint64_t)(GY_GRANULE_BYTES - 1);
        if (bytes != 0 && (taken > budget || bytes > budget - taken)) {
            result = MUST_WAIT;
        }
    }
    return a->active == NULL ? alone : result;
}

/* The first fits beside the library's own blocks only if its blocks are small. */
static void warn_tight(const struct gy_admission *a)
{
    const struct gy_gpu_memory *memory = a->first;
    int kind = 0;
    while (kind < GANTRY_MEMORY_KIND_COUNT - 1 && memory->bytes[kind] <= most_in_large_blocks(a, kind)) {
        kind++;
    }
    gy_log(GANTRY_LOG_WARNING,
           "task memory: task '%s' is let in although it declares %" PRIu64 " bytes of %s memory: of %" PRIu64
           " the library itself needs %" PRIu64 ", which leaves %" PRIu64 " to large blocks",
           gantry_task_label(memory->held_back.first), memory->declared[kind],
           gy_kind_name((gantry_memory_kind)kind), gy_heap_budget(a->heap, (gantry_memory_kind)kind),
           gy_heap_own(a->heap, (gantry_memory_kind)kind), most_in_large_blocks(a, kind));
}

static void admit_what_fits(struct gy_admission *a)
{
    while (a->first != NULL) {
        look_at_others(a);
        switch (fit(a, a->first)) {
        case FITS:
            admit_first(a);
            break;
        case MAY_TRY:
            warn_tight(a);
            count(&a->forced, 1);
            admit_first(a);
            break;
        case NEVER_FITS:
            refuse_first(a);
            break;
        case MUST_WAIT:
            return;
        }
    }
}

/* ---- the dispatcher's thread: events ---- */

/* Take one out of the list, NULL when it is empty; the outputs say what has happened to it. */
static struct gy_gpu_memory *take_event(struct gy_admission *a, bool *out_ended, bool *out_closed)
{
    gy_mutex_lock(&a->lock);
    struct gy_gpu_memory *memory = a->events;
    if (memory != NULL) {
        a->events = memory->next_event;
        *out_ended = memory->ended;
        *out_closed = memory->closed;
        memory->ended = false;
        memory->has_event = false;
    }
    atomic_store(&a->has_events, a->events != NULL);
    gy_mutex_unlock(&a->lock);
    return memory;
}

static void take_events(struct gy_admission *a)
{
    struct gy_gpu_memory *memory;
    bool ended, closed;
    while (atomic_load(&a->has_events) && (memory = take_event(a, &ended, &closed)) != NULL) {
        memory->forget = closed;
        if (ended && memory->state == GY_MEMORY_HELD) {
            memory_enter(memory, GY_MEMORY_ENDING);
            atomic_fetch_add(&a->ending, 1);
        }
        if (closed && memory->state == GY_MEMORY_IDLE) {
            gy_free(memory);
        }
    }
}

static bool has_passed(const struct gy_admission *a, const struct gy_gpu_memory *memory)
{
    for (uint64_t left = memory->streams; left != 0; left &= left - 1) {
        int i = __builtin_ctzll(left);
        if (atomic_load_explicit(&a->streams->streams[i].completed, memory_order_acquire) < memory->seq[i]) {
            return false;
        }
    }
    return true;
}

static void end_passed(struct gy_admission *a, bool is_lost)
{
    for (struct gy_gpu_memory **link = &a->active; *link != NULL;) {
        struct gy_gpu_memory *memory = *link;
        if (memory->state != GY_MEMORY_ENDING || (!is_lost && !has_passed(a, memory))) {
            link = &memory->next;
            continue;
        }
        *link = memory->next;
        memory->streams = 0;
        a->changed = true;
        count_held(a, memory, false);
        atomic_fetch_sub(&a->ending, 1);
        if (memory->held_back.first != NULL) {
            append_waiting(a, memory);
        } else {
            rest(memory);
        }
    }
}

void gy_admission_poll(struct gy_admission *a)
{
    bool is_lost = gy_context_is_lost(a->context);
    take_events(a);
    if (atomic_load(&a->ending) != 0) {
        end_passed(a, is_lost);
    }
    while (is_lost && a->first != NULL) {
        admit_first(a); /* binning them fails them */
    }
    if (a->changed) {
        a->changed = false;
        admit_what_fits(a);
        if (a->first != NULL) {
            atomic_store(&a->stall.asked, true); /* the tasks that it waits for may wait for it */
        }
    }
    assert(gy_admission_is_valid(a));
}

bool gy_admission_enter(struct gy_admission *a, gantry_task *task, struct gy_gpu_memory *memory)
{
    take_events(a); /* it may have ended since */
    if (memory->state == GY_MEMORY_HELD) {
        return true;
    }
    gy_gpu_list_append(&memory->held_back, task, task);
    memory->held_back_count++;
    count_waiting(a, 1);
    gy_task_hold_back(task);
    if (memory->state == GY_MEMORY_IDLE) {
        append_waiting(a, memory);
    }
    gy_admission_poll(a);
    if (memory->held_back.first == task) { /* the first that waits for it */
        count(&a->waited, 1);
    }
    return false;
}

/* Was the run cancelled, so that no task that is held back may begin any more? */
static bool is_cancelled(const struct gy_gpu_memory *memory)
{
    return memory->held_back.first != NULL && gy_taskman_is_cancelled(memory->manager);
}

void gy_admission_cancel(struct gy_admission *a)
{
    struct gy_gpu_memory *waiting = a->first;
    a->first = a->last = NULL;
    while (waiting != NULL) {
        struct gy_gpu_memory *memory = waiting;
        waiting = memory->next;
        if (is_cancelled(memory)) {
            end_wait(a, memory);
            let_go(a, memory, &a->ready);
            rest(memory);
            continue;
        }
        memory->next = NULL;
        *(a->first != NULL ? &a->last->next : &a->first) = memory;
        a->last = memory;
    }
    for (struct gy_gpu_memory *memory = a->active; memory != NULL; memory = memory->next) {
        if (is_cancelled(memory)) {
            let_go(a, memory, &a->ready); /* they would have waited for it anew */
        }
    }
    a->changed = true;
    assert(gy_admission_is_valid(a));
}

void gy_admission_launched(struct gy_gpu_memory *memory, uint32_t stream, uint64_t seq)
{
    assert(memory->state == GY_MEMORY_HELD || memory->state == GY_MEMORY_ENDING);
    memory->streams |= UINT64_C(1) << stream;
    memory->seq[stream] = seq;
}

uint64_t gy_admission_streams(struct gy_admission *a)
{
    uint64_t streams = 0;
    for (struct gy_gpu_memory *memory = a->active; memory != NULL; memory = memory->next) {
        if (memory->state == GY_MEMORY_ENDING && !memory->watched) {
            memory->watched = true;
            streams |= memory->streams;
        }
    }
    return streams;
}

gantry_status gy_admission_fail(struct gy_admission *a, const struct gy_gpu_memory *memory)
{
    int kind = 0;
    while (kind < GANTRY_MEMORY_KIND_COUNT - 1 && memory->declared[kind] <= most_declared(a, kind)) {
        kind++;
    }
    uint64_t budget = gy_heap_budget(a->heap, (gantry_memory_kind)kind);
    uint64_t own = gy_heap_own(a->heap, (gantry_memory_kind)kind);
    if (memory->declared[kind] > budget || own == 0) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_DEVICE_MEMORY,
                       "task memory: %" PRIu64 " bytes of %s memory were declared, more than the %" PRIu64
                       " there can be",
                       memory->declared[kind], gy_kind_name((gantry_memory_kind)kind), budget);
    }
    return GY_FAIL(GANTRY_ERR_OUT_OF_DEVICE_MEMORY,
                   "task memory: %" PRIu64 " bytes of %s memory were declared, but of the %" PRIu64
                   " there can be the library itself needs %" PRIu64 ", which leaves %" PRIu64
                   " to large blocks",
                   memory->declared[kind], gy_kind_name((gantry_memory_kind)kind), budget, own,
                   most_in_large_blocks(a, kind));
}

/* ---- the dispatcher's thread: stalls ---- */

/* Does every manager that holds memory wait for some?  A task tells that its memory has ended before its
 * manager may become quiet, so the events come last: what ended since they were taken comes back by itself,
 * and its signal lets the dispatcher's thread look again. */
static bool all_holders_wait(const struct gy_admission *a)
{
    gy_point(GY_POINT_ADMISSION_QUIET, a);
    for (const struct gy_gpu_memory *memory = a->active; memory != NULL; memory = memory->next) {
        if (!gy_taskman_waits_for_memory(memory->manager)) {
            return false;
        }
    }
    return !atomic_load(&a->has_events);
}

void gy_admission_idle(struct gy_admission *a)
{
    assert(gy_admission_is_valid(a));
    a->changed = true; /* others may have given memory back */
    gy_admission_poll(a);
    const uint64_t moves = gy_stall_moves(&a->stall);
    if (a->first == NULL || atomic_load(&a->ending) != 0) {
        return;
    }
    atomic_store(&a->stall.asked, false); /* a manager that becomes quiet from here on says so anew */
    if (!all_holders_wait(a) || !gy_stall_is_ours(&a->stall, moves)) {
        return;
    }
    gy_log(GANTRY_LOG_WARNING,
           "task memory: whoever holds some waits for task '%s', which waits for it: let in although %" PRIu64
           " bytes of device memory are declared beyond what there is",
           gantry_task_label(a->first->held_back.first),
           a->held[GANTRY_MEMORY_DEVICE] + a->others[GANTRY_MEMORY_DEVICE] +
               a->first->bytes[GANTRY_MEMORY_DEVICE] - gy_heap_budget(a->heap, GANTRY_MEMORY_DEVICE));
    count(&a->forced, 1);
    admit_first(a);
}

/* ---- checks ---- */

enum { MOST_LOOKED_AT = 32 };

bool gy_gpu_memory_is_valid(const struct gy_gpu_memory *memory)
{
    bool waits = memory->held_back.first != NULL;
    if (!gy_gpu_list_is_valid(&memory->held_back) || waits != (memory->held_back_count != 0)) {
        return false;
    }
    switch (memory->state) {
    case GY_MEMORY_IDLE:
    case GY_MEMORY_HELD:
        return !waits;
    case GY_MEMORY_WAITING:
        return waits;
    case GY_MEMORY_ENDING:
        return true;
    }
    return false;
}

/* The sums over two lists, for the checks. */
struct census {
    uint64_t held[GANTRY_MEMORY_KIND_COUNT], waiting, ending;
    uint32_t left; /* so many more are looked at: a check costs the same however many wait */
};

static bool those_waiting_are_valid(const struct gy_admission *a, struct census *seen)
{
    for (const struct gy_gpu_memory *memory = a->first; memory != NULL && seen->left != 0;
         memory = memory->next, seen->left--) {
        if (memory->state != GY_MEMORY_WAITING || !gy_gpu_memory_is_valid(memory) ||
            (memory->next == NULL && memory != a->last)) {
            return false;
        }
        seen->waiting += memory->held_back_count;
    }
    return true;
}

static bool those_active_are_valid(const struct gy_admission *a, struct census *seen)
{
    for (const struct gy_gpu_memory *memory = a->active; memory != NULL && seen->left != 0;
         memory = memory->next, seen->left--) {
        bool ends = memory->state == GY_MEMORY_ENDING;
        if ((!ends && memory->state != GY_MEMORY_HELD) || !gy_gpu_memory_is_valid(memory)) {
            return false;
        }
        seen->ending += ends;
        seen->waiting += memory->held_back_count;
        for (int kind = 0; kind < GANTRY_MEMORY_KIND_COUNT; kind++) {
            seen->held[kind] += memory->bytes[kind];
        }
    }
    return true;
}

/* Those that wait hold nothing, and those that hold something do not wait; if there are few, the sums are
 * checked, too.
 */
bool gy_admission_is_valid(const struct gy_admission *a)
{
    struct census seen = {.left = MOST_LOOKED_AT};
    if (!atomic_load_explicit(&a->was_declared, memory_order_relaxed) &&
        (a->first != NULL || a->active != NULL || a->ready.first != NULL || a->refused.first != NULL)) {
        return false;
    }
    if (!those_active_are_valid(a, &seen) || !those_waiting_are_valid(a, &seen) ||
        !gy_gpu_list_is_valid(&a->ready) || !gy_gpu_list_is_valid(&a->refused)) {
        return false;
    }
    return seen.left == 0 ||
           (memcmp(seen.held, a->held, sizeof(seen.held)) == 0 && seen.ending == atomic_load(&a->ending) &&
            seen.waiting == atomic_load_explicit(&a->stall.waiting, memory_order_relaxed));
}

/* ---- the end ---- */

void gy_admission_fini(struct gy_admission *a)
{
    take_events(a);
    end_passed(a, true);
    assert(a->first == NULL && a->active == NULL);
    gy_stall_leave(&a->stall);
    gy_mutex_fini(&a->lock);
}
