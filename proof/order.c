/* Pasts are computed while the program runs, edge by edge.
 *
 *   past of a host part      what comes before the task on the host: host parts of what it comes after and of
 * what those come after; device parts only where their end is waited for (start_after_done(), completions,
 * synchronisation); what the thread has seen that started the step past of a device part    that, its own
 * host part, and the device parts of all that the task comes after, however far up and through whatever lies
 * between; those of the manager's steps before
 *
 * A task's record lives from the first edge that reaches it, or its begin, to its end.  What it has then goes
 * to its successors and to its step.  So the memory is that of tasks which are not done yet.
 *
 * Parts are numbered as they begin, each after all of its past. */
#include "proof/order.h"

#include "base/alloc.h"
#include "base/fast_lock.h"
#include "proof/names.h"

#include <string.h>
#include <sys/mman.h>

struct record {
    const void *task;
    struct record *next;             /* in its slot */
    struct gy_past *host, *device;   /* what comes after the task comes after these, too; a reference each */
    uint32_t host_part, device_part; /* 0: not begun */
};

struct step {
    const void *manager;
    struct step *next;
    struct gy_past *base;          /* before all of the step's tasks */
    struct gy_past *before;        /* device parts of earlier steps, and what comes before those */
    struct gy_past *long_before;   /* the same, without the step just before */
    struct gy_past *host, *device; /* of the tasks of this step that have ended */
};

enum { DEEPEST = 256 }; /* works within works of which the tasks are known */

/* A mutex of the program that a task has held, or a condition that one has told of; never freed. */
struct mutex {
    const void *at;
    struct mutex *next;      /* in its slot */
    struct gy_past *parts;   /* that have held it alone; of a condition: that have told, and their pasts */
    struct gy_past *readers; /* that have held it beside others */
};

/* What a thread is doing. */
struct thread {
    struct gy_access frames[GY_PROOF_FRAMES];
    const void *tasks[DEEPEST]; /* whose host part the frame is; NULL: it carries out enqueued work */
    int depth;                  /* frames in use; may be above their number: those do nothing */
    struct gy_past *past;       /* what the thread has seen outside of tasks */
};

enum { SLOTS = 1 << 16 /* of records */, MUTEX_SLOTS = 1024 };
static gy_fast_lock lock = {0, GY_RANK_LEAF}; /* guards all below */
static struct record *records[SLOTS];
static struct step *steps;
static struct mutex *mutexes[MUTEX_SLOTS];
static struct gy_past *launched; /* all device parts, and their pasts */
static struct gy_part *parts;    /* [GY_PROOF_MOST]; immutable below part_count */
static struct gy_work *works;    /* [GY_PROOF_MOST]; immutable below work_count, but for names */
static struct gy_past **pasts;   /* [GY_PROOF_MOST]; of device parts whose tasks have not ended */
static uint32_t part_count, work_count;
static bool is_spent; /* no memory or no numbers are left: nothing more is noted */

_Thread_local struct gy_access *gy_access_now __attribute__((tls_model("initial-exec")));
_Thread_local bool gy_proof_is_inside __attribute__((tls_model("initial-exec")));
static _Thread_local struct thread *own_thread __attribute__((tls_model("initial-exec"))); /* never freed */

const struct gy_work *gy_work_of(uint32_t work)
{
    return &works[work];
}

const struct gy_part *gy_part_of(uint32_t part)
{
    return &parts[part];
}

static void spend(const char *what) GY_REQUIRES(lock)
{
    is_spent = true;
    gy_order_lack(what);
}

static void *reserve(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void take(void) GY_ACQUIRE(lock)
{
    gy_proof_is_inside = true;
    gy_fast_lock_take(&lock);
    if (parts == NULL && !is_spent) {
        parts = reserve(GY_PROOF_MOST * sizeof(*parts));
        works = reserve(GY_PROOF_MOST * sizeof(*works));
        pasts = reserve(GY_PROOF_MOST * sizeof(*pasts));
        part_count = work_count = 1;
        if (parts == NULL || works == NULL || pasts == NULL) {
            spend("addresses");
        }
    }
}

static void give(void) GY_RELEASE(lock)
{
    gy_fast_lock_give(&lock);
    gy_proof_is_inside = false;
}

/* ---- pasts, parts, works -------------------------------------------------------------------------- */

static void add(struct gy_past **past, uint32_t part) GY_REQUIRES(lock)
{
    if (part != 0 && !gy_past_add(past, part)) {
        spend("memory");
    }
}

static void join(struct gy_past **past, struct gy_past *other) GY_REQUIRES(lock)
{
    if (!gy_past_join(past, other)) {
        spend("memory");
    }
}

static void drop(struct gy_past **past) GY_REQUIRES(lock)
{
    gy_past_unref(*past);
    *past = NULL;
}

/* 0: there are no more. */
static uint32_t new_part(const char *label, bool is_device) GY_REQUIRES(lock)
{
    if (is_spent || part_count == GY_PROOF_MOST) {
        spend("numbers of tasks");
        return 0;
    }
    parts[part_count] = (struct gy_part){label, is_device, false};
    return part_count++;
}

static uint32_t new_work(uint32_t part) GY_REQUIRES(lock)
{
    if (is_spent || part == 0 || work_count == GY_PROOF_MOST) {
        if (part != 0) {
            spend("numbers of kernels and copies");
        }
        return 0;
    }
    works[work_count].part = part;
    return work_count++;
}

/* ---- records and steps ---------------------------------------------------------------------------- */

static uint32_t slot_number(const void *of)
{
    return (uint32_t)(((uint64_t)(uintptr_t)of >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 48);
}

static struct record **slot_of(const void *task)
{
    return &records[slot_number(task)];
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
            spend("memory");
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
            spend("memory");
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
        join(&to->host, from->host);
        join(&to->device, from->device);
        if (when_done) {
            join(&to->host, from->device);
        }
    }
    give();
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
        join(&step->host, record->host);
        join(&step->device, record->device);
    }
    if (record != NULL) {
        if (record->device_part != 0) {
            drop(&pasts[record->device_part]);
        }
        *place = record->next;
        drop(&record->host);
        drop(&record->device);
        gy_free(record);
    }
    give();
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
static struct gy_access *push(struct thread *thread, uint32_t work, uint32_t part, struct gy_past *past,
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
    gy_past_ref(past);
    gy_past_unref(frame->past);
    gy_past_unref(frame->held);
    memset(frame, 0, sizeof(*frame));
    frame->work = work;
    frame->part = part;
    frame->past = past;
    return frame;
}

/* What comes before the frame's part has changed. */
static void forget_answers(struct gy_access *frame)
{
    memset(frame->known, 0, sizeof(frame->known));
}

/* What the calling thread has seen, to add to. */
static struct gy_past **seen_by(struct thread *thread)
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
static void begin_host(struct record *record, struct step *step, const char *label) GY_REQUIRES(lock)
{
    if (record->host_part != 0) {
        return;
    }
    join(&record->host, step->base);
    record->host_part = new_part(label, false);
}

/* The frame of a host part ends: what comes after the task comes after it, and after what it has seen. */
static void end_host(struct thread *thread) GY_REQUIRES(lock)
{
    const int at = --thread->depth;
    struct record *record = at < GY_PROOF_FRAMES ? find(thread->tasks[at]) : NULL;
    if (record != NULL) {
        join(&record->host, thread->frames[at].past);
        add(&record->host, record->host_part);
        join(&record->device, record->host);
    }
    if (at < GY_PROOF_FRAMES) {
        drop(&pasts[thread->frames[at].part]); /* of what the body has enqueued */
        drop(&thread->frames[at].past);
        drop(&thread->frames[at].held);
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
        give();
        show(thread);
    }
}

/* The device part begins with the first call of the callback. */
static void begin_device(struct record *record, struct step *step, const struct gy_proof_task *task)
    GY_REQUIRES(lock)
{
    if (record->device_part != 0 || record->host_part == 0) {
        return;
    }
    struct gy_past *past = gy_past_ref(record->device);
    parts[record->host_part].is_callback = true;
    join(&past, record->host);
    add(&past, record->host_part);
    if (task->steps != GY_PROOF_NO_STEPS) {
        join(&past, task->steps == GY_PROOF_ALL_STEPS ? step->before : step->long_before);
    }
    record->device_part = new_part(gy_part_of(record->host_part)->label, true);
    pasts[record->device_part] = past;
    join(&record->device, past);
    add(&record->device, record->device_part);
    join(&launched, record->device);
}

/* A body, or with `launches` a launch callback. */
static void begin(const struct gy_proof_task *task, bool launches)
{
    struct thread *thread = self();
    if (thread == NULL) {
        return;
    }
    const char *label = gy_name_keep(task->label);
    take();
    struct record *record = find_or_make(task->task);
    struct step *step = step_of(task->manager);
    uint32_t work = 0;
    if (record != NULL && step != NULL) {
        begin_host(record, step, label);
        if (launches) {
            begin_device(record, step, task);
        }
        work = new_work(record->host_part);
    }
    (void)push(thread, work, record != NULL ? record->host_part : 0, record != NULL ? record->host : NULL,
               task->task);
    give();
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
        join(&to->host, of_all ? launched : from->device);
    }
    give();
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
    drop(&pasts[frame->part]);
    pasts[frame->part] = gy_past_ref(frame->past);
    add(&pasts[frame->part], frame->part); /* so that it is not the empty set */
    return new_work(frame->part);
}

uint32_t gy_order_enqueue(void)
{
    if (own_thread == NULL || own_thread->depth == 0) {
        return 0;
    }
    take();
    const struct record *record = launching(own_thread);
    const uint32_t work = record != NULL ? new_work(record->device_part) : enqueue_in_body(own_thread);
    give();
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
    } else {
        take();
        const uint32_t part = work != 0 ? works[work].part : 0;
        struct gy_past *past = part != 0 ? pasts[part] : NULL;
        if (work != 0) {
            atomic_store_explicit(&works[work].name, name, memory_order_relaxed);
            atomic_store_explicit(&works[work].is_kernel, is_kernel, memory_order_relaxed);
        }
        (void)push(thread, past != NULL ? work : 0, part, past, NULL);
        give();
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
        (void)push(thread, of->work, of->part, of->past, NULL);
        give();
        show(thread);
    }
}

bool gy_order_enter_launched(void)
{
    const uint32_t work = gy_order_enqueue();
    if (work == 0) {
        return false;
    }
    gy_order_enter(work, NULL, 0, false);
    return true;
}

/* ---- steps and threads that wait ---------------------------------------------------------------------- */

/* `past` comes after what the calling thread has seen, and after the part that it carries out. */
static void join_seen(struct gy_past **past, struct thread *thread) GY_REQUIRES(lock)
{
    const int at = thread->depth - 1;
    join(past, *seen_by(thread));
    if (at >= 0 && at < GY_PROOF_FRAMES) {
        add(past, thread->frames[at].part);
    }
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
    give();
}

/* What has ended on the host comes before: `task` may have given its past to its step by now. */
void gy_order_has_ended(const void *manager, const void *task, const void *successor)
{
    take();
    const struct record *from = find(task);
    const struct step *step = step_of(manager);
    struct record *to = step != NULL ? find_or_make(successor) : NULL;
    if (to != NULL) {
        join(&to->host, from != NULL ? from->host : step->host);
    }
    give();
}

void gy_order_step_begin(const void *manager)
{
    struct thread *thread = self();
    take();
    struct step *step = step_of(manager);
    if (step != NULL && thread != NULL) {
        join(&step->long_before, step->before);
        join(&step->before, step->device);
        join(&step->base, step->host); /* a step begins when all tasks of the one before have ended */
        drop(&step->device);
        drop(&step->host);
        join_seen(&step->base, thread);
    }
    give();
}

void gy_order_step_waited(const void *manager)
{
    struct thread *thread = self();
    take();
    const struct step *step = step_of(manager);
    if (step != NULL && thread != NULL) {
        join(seen_by(thread), step->host);
    }
    give();
}

/* All devices at once: a program that waits for one of several is trusted for the others. */
void gy_order_synchronized(void)
{
    struct thread *thread = self();
    take();
    if (thread != NULL) {
        join(seen_by(thread), launched);
    }
    give();
}

/* ---- mutexes ------------------------------------------------------------------------------------------ */

/* NULL: no memory. */
static struct mutex *mutex_at(const void *at) GY_REQUIRES(lock)
{
    struct mutex *one = mutexes[slot_number(at) % MUTEX_SLOTS];
    while (one != NULL && one->at != at) {
        one = one->next;
    }
    if (one == NULL && (one = gy_zalloc(sizeof(*one))) != NULL) {
        one->at = at;
        one->next = mutexes[slot_number(at) % MUTEX_SLOTS];
        mutexes[slot_number(at) % MUTEX_SLOTS] = one;
    }
    return one;
}

void gy_order_locked(const void *mutex, bool is_shared)
{
    struct gy_access *frame = gy_access_now;
    take();
    struct mutex *one = mutex_at(mutex);
    if (one != NULL) {
        join(&frame->held, one->parts);
        if (!is_shared) {
            join(&frame->held, one->readers);
        }
        add(is_shared ? &one->readers : &one->parts, frame->part);
    }
    frame->mutexes++;
    forget_answers(frame);
    give();
}

void gy_order_wakes(const void *condition)
{
    take();
    struct mutex *one = mutex_at(condition);
    if (one != NULL) {
        join_seen(&one->parts, own_thread);
    }
    give();
}

void gy_order_woken(const void *condition)
{
    take();
    struct mutex *one = mutex_at(condition);
    if (one != NULL) {
        join(seen_by(own_thread), one->parts);
    }
    give();
}

void gy_order_unlocking(void)
{
    struct gy_access *frame = gy_access_now;
    if (frame->mutexes != 0 && --frame->mutexes == 0) {
        take();
        drop(&frame->held);
        give();
        forget_answers(frame);
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
        drop(&step->base);
        drop(&step->before);
        drop(&step->long_before);
        drop(&step->host);
        drop(&step->device);
        gy_free(step);
    }
    give();
}

struct gy_order_counts gy_order_counts(void)
{
    take();
    const struct gy_order_counts counts = {part_count - 1, work_count - 1};
    give();
    return counts;
}
