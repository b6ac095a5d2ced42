/* SPDX-License-Identifier: MIT */
/* Pasts are computed while the program runs, edge by edge.
 *
 * Before a host part come host parts of what its task comes after, and of what those come after; device parts
 * only where their end is waited for (start_after_done(), completions, synchronisation); and what the thread
 * has seen that started the step.  Before a device part come those, its own host part, and the device parts
 * of all that the task comes after, through whatever lies between, and of the manager's steps before.
 *
 * A task's record lives from the first edge that reaches it, or its begin, to its end.  What it has then goes
 * to its successors and to its step.  So the memory is that of tasks which are not done yet.
 *
 * Parts are numbered as they begin, each after all of its past. */
#include "proof/order.h"

#include "base/alloc.h"
#include "base/fast_lock.h"
#include "proof/before.h"
#include "proof/declared.h"
#include "proof/meetings.h"
#include "proof/names.h"
#include "proof/numbers.h"
#include "proof/trail.h"

#include <string.h>

struct record {
    const void *task;
    struct record *next;             /* in its slot */
    struct gy_before host, device;   /* what comes after the task comes after these, too; a reference each */
    uint32_t host_part, device_part; /* 0: not begun; the latest of the device */
    uint32_t edges;                  /* to the task, until it begins: the last one (trail.h); 0: none */
};

struct step {
    const void *manager;
    struct step *next;
    struct gy_before base;         /* before all of the step's tasks */
    struct gy_before before;       /* device parts of earlier steps, and what comes before those */
    struct gy_before long_before;  /* the same, without the step just before */
    struct gy_before host, device; /* of the tasks of this step that have ended */
};

enum { DEEPEST = 256 }; /* works within works of which the tasks are known */

/* What a thread is doing. */
struct thread {
    struct gy_access frames[GY_PROOF_FRAMES];
    const void *tasks[DEEPEST]; /* whose host part the frame is; NULL: it carries out enqueued work */
    int depth;                  /* frames in use; may be above their number: those do nothing */
    struct gy_before past;      /* what the thread has seen outside of tasks */
    bool calls_driver;          /* by a call of the program's */
};

enum { SLOTS = 1 << 16 /* of records */ };
static gy_fast_lock lock = {0, GY_RANK_LEAF}; /* guards all below */
static struct record *records[SLOTS];
static struct step *steps;
static struct gy_before launched; /* all device parts, and their pasts */
static struct gy_before *pasts;   /* [GY_PROOF_MOST]; of device parts whose tasks have not ended */

_Thread_local struct gy_access *gy_access_now __attribute__((tls_model("initial-exec")));
_Thread_local bool gy_proof_is_inside __attribute__((tls_model("initial-exec")));
static _Thread_local struct thread *own_thread __attribute__((tls_model("initial-exec"))); /* never freed */

static void take(void) GY_ACQUIRE(lock)
{
    gy_proof_take(&lock);
    gy_numbers_begin();
    if (pasts == NULL) {
        pasts = gy_number_table(sizeof(*pasts));
    }
}

/* ---- records and steps ---------------------------------------------------------------------------- */

static struct record **slot_of(const void *task)
{
    return &records[((uint64_t)(uintptr_t)task >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 48];
}

static struct record *find(const void *task) GY_REQUIRES(lock)
{
    struct record *record = *slot_of(task);
    while (record != NULL && record->task != task) {
        record = record->next;
    }
    return record;
}

/* NULL: no memory. */
static struct record *find_or_make(const void *task) GY_REQUIRES(lock)
{
    struct record *record = find(task);
    if (record == NULL) {
        record = gy_zalloc(sizeof(*record));
        if (record == NULL) {
            gy_number_spend("memory");
            return NULL;
        }
        record->task = task;
        record->next = *slot_of(task);
        *slot_of(task) = record;
    }
    return record;
}

static struct step *step_of(const void *manager) GY_REQUIRES(lock)
{
    struct step *step = steps;
    while (step != NULL && step->manager != manager) {
        step = step->next;
    }
    if (step == NULL) {
        step = gy_zalloc(sizeof(*step));
        if (step == NULL) {
            gy_number_spend("memory");
            return NULL;
        }
        step->manager = manager;
        step->next = steps;
        steps = step;
    }
    return step;
}

/* The order on the device goes on through tasks that are not of the GPU, as the dispatcher carries it. */
void gy_order_edge(const void *task, const void *successor, bool when_done)
{
    take();
    struct record *from = find(task);
    struct record *to = from != NULL ? find_or_make(successor) : NULL;
    if (to != NULL) { /* else nothing comes before */
        const uint32_t edge = gy_trail_edge(from->host_part, when_done, to->edges);
        to->edges = edge != 0 ? edge : to->edges;
        gy_before_join_by(&to->host, from->host, edge);
        gy_before_join_by(&to->device, from->device, edge);
        if (when_done) {
            gy_before_join_by(&to->host, from->device, edge);
        }
    }
    gy_proof_give(&lock);
}

/* The record goes: what comes after the task knows it, and so does its step. */
void gy_order_end(const void *manager, const void *task)
{
    take();
    struct record **place = slot_of(task);
    while (*place != NULL && (*place)->task != task) {
        place = &(*place)->next;
    }
    struct record *record = *place;
    struct step *step = record != NULL ? step_of(manager) : NULL;
    if (step != NULL) {
        gy_before_join(&step->host, record->host);
        gy_before_join(&step->device, record->device);
    }
    if (record != NULL) {
        for (uint32_t part = record->device_part; part != 0; part = gy_part_of(part)->earlier) {
            gy_before_drop(&pasts[part]);
        }
        *place = record->next;
        gy_before_drop(&record->host);
        gy_before_drop(&record->device);
        gy_free(record);
    }
    gy_proof_give(&lock);
}

/* ---- threads -------------------------------------------------------------------------------------- */

/* NULL: no memory; then nothing is noted of the thread. */
static struct thread *self(void)
{
    if (own_thread == NULL) {
        own_thread = gy_zalloc(sizeof(*own_thread));
    }
    return own_thread;
}

/* Hooks see the innermost frame. */
static void show(struct thread *thread)
{
    const int depth = thread->depth;
    gy_access_now = depth > 0 && depth <= GY_PROOF_FRAMES && thread->frames[depth - 1].work != 0
                        ? &thread->frames[depth - 1]
                        : NULL;
}

/* One more frame, if there is room: NULL then.  It keeps what it knows if it was this work's before. */
static struct gy_access *push(struct thread *thread, uint32_t work, uint32_t part, struct gy_before past,
                              const void *task) GY_REQUIRES(lock)
{
    const int at = thread->depth++;
    if (at < DEEPEST) {
        thread->tasks[at] = task;
    }
    if (at >= GY_PROOF_FRAMES) {
        return NULL;
    }
    struct gy_access *frame = &thread->frames[at];
    past = gy_before_copy(past);
    gy_before_drop(&frame->past);
    gy_before_drop(&frame->held);
    gy_declared_drop(frame->declared);
    memset(frame, 0, sizeof(*frame));
    frame->declared = work != 0 ? gy_declared_ref(gy_part_of(part)->declared) : NULL;
    frame->work = frame->first_work = work;
    frame->part = part;
    frame->past = past;
    frame->began = gy_trail_now();
    return frame;
}

/* What comes before the frame's part has changed, or the frame is another work. */
static void forget_answers(struct gy_access *frame)
{
    memset(frame->known, 0, sizeof(frame->known));
    memset(frame->joined, 0, sizeof(frame->joined));
}

/* What the calling thread has seen, to add to. */
static struct gy_before *seen_by(struct thread *thread)
{
    const int depth = thread->depth;
    if (depth == 0 || depth > GY_PROOF_FRAMES) {
        return &thread->past;
    }
    forget_answers(&thread->frames[depth - 1]);
    return &thread->frames[depth - 1].past;
}

/* ---- bodies and callbacks ---------------------------------------------------------------------------- */

/* The task's host part begins, unless it has begun already; `label`: of gy_name_keep(). */
static void begin_host(struct record *record, struct step *step, const char *label,
                       struct gy_declared *declared) GY_REQUIRES(lock)
{
    if (record->host_part != 0) {
        return;
    }
    gy_before_join(&record->host, step->base);
    record->host_part = gy_number_part((struct gy_part){.label = label, .declared = declared});
    gy_trail_begin(record->host_part, 0, record->host.trail, record->edges);
    record->edges = 0;
}

/* The frame of a host part ends: what comes after the task comes after it, and after what it has seen. */
static void end_host(struct thread *thread) GY_REQUIRES(lock)
{
    const int at = --thread->depth;
    struct record *record = at < GY_PROOF_FRAMES ? find(thread->tasks[at]) : NULL;
    if (record != NULL) {
        gy_before_join(&record->host, thread->frames[at].past);
        gy_before_add(&record->host, record->host_part);
        gy_before_join(&record->device, record->host);
    }
    if (at < GY_PROOF_FRAMES) {
        gy_trail_took(&thread->frames[at]);
        gy_before_drop(&pasts[thread->frames[at].part]); /* of what the body has enqueued */
        gy_before_drop(&thread->frames[at].past);
        gy_before_drop(&thread->frames[at].held);
        thread->frames[at].work = 0;
    }
}

void gy_order_body_end(const void *task)
{
    struct thread *thread = own_thread;
    const int at = thread != NULL ? thread->depth - 1 : -1;
    if (at >= 0 && at < DEEPEST && thread->tasks[at] == task) {
        take();
        end_host(thread);
        gy_proof_give(&lock);
        show(thread);
        gy_declared_end(task);
    }
}

/* A device part of the task begins behind `past`, a reference, and the one before it. */
static void add_device(struct record *record, struct gy_before past) GY_REQUIRES(lock)
{
    const uint32_t host = record->host_part;
    const struct gy_part part = {.label = gy_part_of(host)->label,
                                 .is_device = true,
                                 .host = host,
                                 .earlier = record->device_part,
                                 .declared = gy_part_of(host)->declared};
    gy_before_add(&past, record->device_part);
    record->device_part = gy_number_part(part);
    gy_trail_begin(record->device_part, host, past.trail, 0);
    pasts[record->device_part] = past;
    gy_before_join(&record->device, past);
    gy_before_add(&record->device, record->device_part);
    gy_before_join(&launched, record->device);
}

/* The device part begins with the first call of the callback. */
static void begin_device(struct record *record, struct step *step, const struct gy_proof_task *task)
    GY_REQUIRES(lock)
{
    if (record->device_part != 0 || record->host_part == 0) {
        return;
    }
    struct gy_before past = gy_before_copy(record->device);
    gy_number_callback(record->host_part);
    gy_before_join(&past, record->host);
    gy_before_add(&past, record->host_part);
    if (task->steps != GY_PROOF_NO_STEPS) {
        gy_before_join(&past, task->steps == GY_PROOF_ALL_STEPS ? step->before : step->long_before);
    }
    add_device(record, past);
}

/* A body, or with `launches` a launch callback. */
static void begin(const struct gy_proof_task *task, bool launches)
{
    struct thread *thread = self();
    if (thread == NULL) {
        return;
    }
    const char *label = gy_name_keep(task->label);
    struct gy_declared *declared = gy_declared_begin(task->task, label);
    take();
    struct record *record = find_or_make(task->task);
    struct step *step = step_of(task->manager);
    uint32_t work = 0;
    if (record != NULL && step != NULL) {
        begin_host(record, step, label, declared);
        if (launches) {
            begin_device(record, step, task);
        }
        work = gy_number_work(record->host_part);
    }
    (void)push(thread, work, record != NULL ? record->host_part : 0,
               record != NULL ? record->host : (struct gy_before){NULL, 0}, task->task);
    gy_proof_give(&lock);
    show(thread);
}

void gy_order_body_begin(const struct gy_proof_task *task)
{
    begin(task, false);
}

void gy_order_launch_begin(const struct gy_proof_task *task)
{
    begin(task, true);
}

/* The record of the task in whose launch callback the thread is; NULL: in none. */
static struct record *launching(const struct thread *thread) GY_REQUIRES(lock)
{
    const int at = thread != NULL ? thread->depth - 1 : -1;
    const void *task = at >= 0 && at < GY_PROOF_FRAMES ? thread->tasks[at] : NULL;
    struct record *record = task != NULL ? find(task) : NULL;
    return record != NULL && record->device_part != 0 ? record : NULL;
}

/* The completion covers what the task has enqueued, and all that comes before it on the device. */
void gy_order_completes(const void *task, bool of_all)
{
    take();
    struct record *from = launching(own_thread);
    struct record *to = from != NULL ? find_or_make(task) : NULL;
    if (to != NULL) {
        gy_before_join(&to->host, of_all ? launched : from->device);
    }
    gy_proof_give(&lock);
}

/* ---- enqueued work --------------------------------------------------------------------------------- */

/* A body calls the driver by itself, and waits for that: it is the body's. */
static uint32_t enqueue_in_body(const struct thread *thread) GY_REQUIRES(lock)
{
    const int at = thread->depth - 1;
    const bool is_body = at < GY_PROOF_FRAMES && thread->tasks[at] != NULL && thread->frames[at].part != 0;
    if (!is_body) {
        return 0;
    }
    const struct gy_access *frame = &thread->frames[at];
    gy_before_drop(&pasts[frame->part]);
    pasts[frame->part] = gy_before_copy(frame->past);
    gy_before_add(&pasts[frame->part], frame->part); /* so that it is not the empty set */
    return gy_number_work(frame->part);
}

/* What the launch callback enqueues from now on comes after what of `queued` was launched before: it is
 * another device part then.  NULL: there is no callback. */
static void follow_on_device(struct record *record, const struct gy_past *queued) GY_REQUIRES(lock)
{
    if (record == NULL) {
        return;
    }
    struct gy_before past = gy_before_copy(pasts[record->device_part]);
    if (past.set != NULL && gy_before_join_launched(&past, queued, 0)) {
        add_device(record, past);
    } else {
        gy_before_drop(&past);
    }
}

/* The queue has what the callback enqueues, and all that comes before it. */
static void note_queued(const void *at, struct record *record) GY_REQUIRES(lock)
{
    struct gy_meeting *queue = at != NULL && record != NULL ? gy_meeting_at(GY_MEETING_QUEUE, at) : NULL;
    if (queue != NULL) {
        follow_on_device(record, queue->beside.set);
    }
    if (queue != NULL && !gy_past_has(queue->parts.set, record->device_part)) {
        gy_before_join(&queue->parts, pasts[record->device_part]);
        gy_before_add(&queue->parts, record->device_part);
    }
}

uint32_t gy_order_enqueue(const void *queue)
{
    if (own_thread == NULL || own_thread->depth == 0) {
        return 0;
    }
    take();
    struct record *record = launching(own_thread);
    note_queued(queue, record);
    const uint32_t work = record != NULL ? gy_number_work(record->device_part) : enqueue_in_body(own_thread);
    gy_proof_give(&lock);
    return work;
}

void gy_order_enter(uint32_t work, const char *name, uint64_t block, bool is_kernel)
{
    struct thread *thread = self();
    if (thread == NULL) {
        return;
    }
    const int at = thread->depth;
    if (at < GY_PROOF_FRAMES && thread->frames[at].work == work && work != 0) {
        thread->depth++; /* another block of the same kernel */
        thread->frames[at].began = gy_trail_now();
    } else {
        take();
        const uint32_t part = work != 0 ? gy_work_of(work)->part : 0;
        const struct gy_before past = part != 0 ? pasts[part] : (struct gy_before){NULL, 0};
        if (work != 0) {
            gy_number_name(work, name, is_kernel);
        }
        (void)push(thread, past.set != NULL ? work : 0, part, past, NULL);
        gy_proof_give(&lock);
    }
    if (at < GY_PROOF_FRAMES) {
        thread->frames[at].block = (uint32_t)block;
        thread->frames[at].is_kernel = is_kernel;
    }
    show(thread);
}

void gy_order_leave(void)
{
    struct thread *thread = own_thread;
    if (thread == NULL || thread->depth == 0) {
        return;
    }
    if (thread->depth <= GY_PROOF_FRAMES) {
        gy_trail_took(&thread->frames[thread->depth - 1]);
    }
    thread->depth--; /* the frame keeps what it knows, for the kernel's next block */
    show(thread);
}

const void *gy_order_share(void)
{
    return gy_access_now;
}

void gy_order_share_begin(const void *shared)
{
    const struct gy_access *of = shared;
    struct thread *thread = self();
    if (thread != NULL) {
        take();
        (void)push(thread, of->first_work, of->part, of->past, NULL);
        gy_proof_give(&lock);
        show(thread);
    }
}

/* ---- steps and threads that wait ---------------------------------------------------------------------- */

/* Which the thread carries out; 0: none. */
static uint32_t part_of(const struct thread *thread)
{
    const int at = thread->depth - 1;
    return at >= 0 && at < GY_PROOF_FRAMES ? thread->frames[at].part : 0;
}

/* `past` comes after what the calling thread has seen, and after the part that it carries out. */
static void join_seen(struct gy_before *past, struct thread *thread) GY_REQUIRES(lock)
{
    gy_before_join(past, *seen_by(thread));
    gy_before_add(past, part_of(thread));
}

/* Who holds a reference on a task orders it: completions of the program's own, and graphs that are divided
 * between managers. */
void gy_order_let_go(const void *task)
{
    struct thread *thread = self();
    take();
    struct record *record = find_or_make(task);
    if (record != NULL && thread != NULL) {
        join_seen(&record->host, thread);
    }
    gy_proof_give(&lock);
}

/* `task` may have given its past to its step by now. */
void gy_order_has_ended(const void *manager, const void *task, const void *successor, bool with_device)
{
    take();
    const struct record *from = find(task);
    const struct step *step = step_of(manager);
    struct record *to = step != NULL ? find_or_make(successor) : NULL;
    if (to != NULL) {
        gy_before_join(&to->host, from != NULL ? from->host : step->host);
        const struct gy_before device = from != NULL ? from->device : step->device;
        gy_before_join(&to->device, with_device ? device : (struct gy_before){.set = NULL});
    }
    gy_proof_give(&lock);
}

void gy_order_step_begin(const void *manager)
{
    struct thread *thread = self();
    take();
    struct step *step = step_of(manager);
    if (step != NULL && thread != NULL) {
        gy_before_join(&step->long_before, step->before);
        gy_before_join(&step->before, step->device);
        gy_before_join(&step->base, step->host); /* it begins when all tasks of the one before have ended */
        gy_before_drop(&step->device);
        gy_before_drop(&step->host);
        join_seen(&step->base, thread);
    }
    gy_proof_give(&lock);
}

void gy_order_step_waited(const void *manager)
{
    struct thread *thread = self();
    take();
    const struct step *step = thread != NULL ? step_of(manager) : NULL;
    if (step != NULL) {
        gy_before_join(seen_by(thread), step->host);
    }
    gy_proof_give(&lock);
}

/* All devices at once: a program that waits for one of several is trusted for the others. */
void gy_order_synchronized(void)
{
    struct thread *thread = self();
    take();
    if (thread != NULL) {
        gy_before_join(seen_by(thread), launched);
    }
    gy_proof_give(&lock);
}

/* ---- waits by the driver's own functions -------------------------------------------------------------- */

void gy_order_calls_driver(bool is_calling)
{
    struct thread *thread = self();
    if (thread != NULL) {
        thread->calls_driver = is_calling;
    }
}

void gy_order_queue_follows(const void *queue, const void *other)
{
    take();
    const struct gy_meeting *from = gy_meeting_find(GY_MEETING_QUEUE, other);
    struct gy_meeting *to = from != NULL ? gy_meeting_at(GY_MEETING_QUEUE, queue) : NULL;
    if (to != NULL) {
        gy_before_join(&to->parts, from->parts);
        gy_before_join(&to->beside, from->beside);
    }
    struct record *record = launching(own_thread);
    const bool is_asked = to != NULL && own_thread != NULL && own_thread->calls_driver;
    if (is_asked && record != NULL) {
        follow_on_device(record, from->parts.set);
    } else if (is_asked) {
        gy_before_join(&to->beside, from->parts);
    }
    gy_proof_give(&lock);
}

void gy_order_queue_done(const void *queue)
{
    take();
    const struct gy_meeting *one = gy_meeting_find(GY_MEETING_QUEUE, queue);
    if (one != NULL && own_thread != NULL && own_thread->calls_driver) {
        (void)gy_before_join_launched(seen_by(own_thread), one->parts.set, part_of(own_thread));
        follow_on_device(launching(own_thread), one->parts.set);
    }
    gy_proof_give(&lock);
}

void gy_order_queue_gone(const void *queue)
{
    take();
    gy_meeting_drop(GY_MEETING_QUEUE, queue);
    gy_proof_give(&lock);
}

/* ---- mutexes ------------------------------------------------------------------------------------------ */

void gy_order_locked(const void *mutex, bool is_shared)
{
    struct gy_access *frame = gy_access_now;
    take();
    struct gy_meeting *one = gy_meeting_at(GY_MEETING_MUTEX, mutex);
    if (one != NULL) {
        gy_before_join(&frame->held, one->parts);
        gy_before_join(&frame->held, is_shared ? (struct gy_before){NULL, 0} : one->beside);
        gy_before_add(is_shared ? &one->beside : &one->parts, frame->part);
    }
    frame->work = frame->mutexes++ != 0 ? frame->work : gy_number_again(frame->work, true);
    forget_answers(frame);
    gy_proof_give(&lock);
}

void gy_order_wakes(const void *condition)
{
    take();
    struct gy_meeting *one = gy_meeting_at(GY_MEETING_MUTEX, condition);
    if (one != NULL) {
        join_seen(&one->parts, own_thread);
    }
    gy_proof_give(&lock);
}

void gy_order_woken(const void *condition)
{
    take();
    struct gy_meeting *one = gy_meeting_at(GY_MEETING_MUTEX, condition);
    if (one != NULL) {
        gy_before_join(seen_by(own_thread), one->parts);
    }
    gy_proof_give(&lock);
}

void gy_order_unlocking(void)
{
    struct gy_access *frame = gy_access_now;
    if (frame->mutexes != 0 && --frame->mutexes == 0) {
        take();
        gy_before_drop(&frame->held);
        frame->work = gy_number_again(frame->work, false);
        forget_answers(frame);
        gy_proof_give(&lock);
    }
}

void gy_order_manager_gone(const void *manager)
{
    take();
    struct step **place = &steps;
    while (*place != NULL && (*place)->manager != manager) {
        place = &(*place)->next;
    }
    struct step *step = *place;
    if (step != NULL) {
        *place = step->next;
        gy_before_drop(&step->base);
        gy_before_drop(&step->before);
        gy_before_drop(&step->long_before);
        gy_before_drop(&step->host);
        gy_before_drop(&step->device);
        gy_free(step);
    }
    const bool is_last = steps == NULL;
    gy_proof_give(&lock);
    if (is_last) {
        gy_trail_judge();
    }
}

struct gy_order_counts gy_order_counts(void)
{
    take();
    const struct gy_order_counts counts = gy_number_counts();
    gy_proof_give(&lock);
    return counts;
}
