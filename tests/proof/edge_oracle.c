/* SPDX-License-Identifier: MIT */
/* Preloaded in the place of libgantry-proof.so: writes what a program declares and what its tasks touch into
 * the file $PROOF_TRACE, for edge_oracle.py, which judges the program's edges without a line of the proof.
 *
 * What is declared is heard of where the program calls the library (edge_wrap.c); which thread carries out
 * which task, and what copies and fills touch, from the library's and the emulated driver's hooks
 * (base/proof.h); what kernels and bodies touch, from the compiler's (edge_oracle_hooks.c).
 *
 * A line is an event, in the order in which they came.  Tasks, managers and threads are numbers of no
 * meaning. */
#include "tests/proof/edge_oracle.h"

#include "base/proof.h"
#include "tests/proof/edge_wrap.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static FILE *trace;
static uint32_t work_count;

static _Thread_local struct oracle_frame frames[ORACLE_FRAMES];
static _Thread_local int depth;
_Thread_local struct oracle_frame *oracle_now __attribute__((tls_model("initial-exec")));
uintptr_t oracle_begin;
size_t oracle_bytes;

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&lock);
    if (trace == NULL && (trace = fopen(getenv("PROOF_TRACE"), "we")) == NULL) {
        perror("edge_oracle: $PROOF_TRACE");
        _Exit(3);
    }
    setvbuf(trace, NULL, _IOLBF, 0); /* the program may not come to its end */
    vfprintf(trace, format, args);
    pthread_mutex_unlock(&lock);
    va_end(args);
}

__attribute__((destructor)) static void end(void)
{
    if (trace != NULL) {
        fputs("end\n", trace);
        (void)fclose(trace);
        trace = NULL;
    }
}

static uintptr_t thread(void)
{
    static _Thread_local char one;
    return (uintptr_t)&one;
}

/* ---- what is touched: ranges of the innermost frame, told when it ends
 * -------------------------------------- */

static int compare(const void *a, const void *b)
{
    const struct oracle_range *x = a, *y = b;
    if (x->how != y->how) {
        return x->how < y->how ? -1 : 1;
    }
    return x->from < y->from ? -1 : x->from > y->from;
}

static void merge(struct oracle_frame *frame)
{
    size_t kept = 0;
    qsort(frame->ranges, frame->count, sizeof(frame->ranges[0]), compare);
    for (size_t i = 0; i < frame->count; i++) {
        const struct oracle_range *next = &frame->ranges[i];
        struct oracle_range *last = kept > 0 ? &frame->ranges[kept - 1] : NULL;
        if (last != NULL && last->how == next->how && next->from <= last->to) {
            last->to = next->to > last->to ? next->to : last->to;
        } else {
            frame->ranges[kept++] = *next;
        }
    }
    frame->count = kept;
}

void oracle_touch(const void *address, size_t bytes, enum oracle_how how)
{
    struct oracle_frame *frame = oracle_now;
    const uintptr_t from = (uintptr_t)address;
    if (frame == NULL || from - oracle_begin >= oracle_bytes || bytes == 0) {
        return;
    }
    if (frame->count == frame->room) {
        merge(frame);
    }
    if (frame->count >= frame->room / 2) {
        frame->room = frame->room * 2 + 1024;
        frame->ranges = realloc(frame->ranges, frame->room * sizeof(frame->ranges[0]));
        if (frame->ranges == NULL) {
            abort();
        }
    }
    frame->ranges[frame->count++] = (struct oracle_range){from, from + bytes, how};
}

static void push(uint32_t work)
{
    if (depth == ORACLE_FRAMES) {
        abort();
    }
    frames[depth].work = frames[depth].share = work;
    frames[depth].task = NULL;
    oracle_now = &frames[depth++];
}

/* Work 0 is the body of the thread's innermost task. */
static void pop(void)
{
    static const char *const names[] = {"read", "write", "atomic_read", "atomic_write"};
    struct oracle_frame *frame = &frames[depth - 1];
    merge(frame);
    for (size_t i = 0; i < frame->count; i++) {
        const struct oracle_range *range = &frame->ranges[i];
        tell("touch %" PRIxPTR " %u %s %" PRIxPTR " %" PRIxPTR "\n", thread(), frame->work, names[range->how],
             range->from, range->to);
    }
    frame->count = 0;
    depth--;
    struct oracle_frame *outer = depth > 0 ? &frames[depth - 1] : NULL;
    oracle_now = outer != NULL && (outer->task != NULL || outer->work != 0) ? outer : NULL;
}

/* ---- hooks of the emulated driver and of the library
 * ---------------------------------------------------------- */

static uint32_t enqueue(const void *queue)
{
    (void)queue;
    if (oracle_now == NULL || oracle_now->task == NULL) {
        return 0;
    }
    const uint32_t work = __atomic_add_fetch(&work_count, 1, __ATOMIC_SEQ_CST);
    tell("enqueue %" PRIxPTR " %u\n", thread(), work);
    return work;
}

static void enter(uint32_t work, const char *name, uint64_t block, bool is_kernel)
{
    (void)name;
    (void)block;
    (void)is_kernel;
    push(work);
    oracle_now->task = NULL;
    if (work == 0) {
        oracle_now = NULL;
    }
}

static void touch(const void *address, size_t bytes, enum gy_proof_touch how)
{
    oracle_touch(address, bytes, how == GY_PROOF_WRITE ? ORACLE_WRITE : ORACLE_READ);
}

static void watch(const void *from, size_t bytes)
{
    oracle_begin = (uintptr_t)from;
    oracle_bytes = bytes;
}

static void forget(const void *address, size_t bytes)
{
    tell("new %" PRIxPTR " %" PRIxPTR "\n", (uintptr_t)address, (uintptr_t)address + bytes);
}

static void allocated(const void *address, size_t bytes, gantry_alloc_site site, bool is_device)
{
    (void)site;
    (void)is_device;
    forget(address, bytes);
}

static void edge(const void *task, const void *successor, bool when_done)
{
    (void)task;
    (void)successor;
    (void)when_done;
}

static void task_end(const void *manager, const void *task)
{
    (void)manager;
    (void)task;
}

static void body_begin(const struct gy_proof_task *task)
{
    push(0);
    oracle_now->task = task->task;
    oracle_now->share = __atomic_add_fetch(&work_count, 1, __ATOMIC_SEQ_CST);
    tell("begin %" PRIxPTR " %" PRIxPTR " %u %s\n", thread(), (uintptr_t)task->task, oracle_now->share,
         task->label);
}

static void body_end(const void *task)
{
    if (depth > 0 && frames[depth - 1].task == task) {
        pop();
        tell("end %" PRIxPTR "\n", thread());
    }
}

static void launch_touch(const void *address, size_t bytes, enum gy_proof_touch how)
{
    push(enqueue(NULL));
    touch(address, bytes, how);
    pop();
}

static const void *share(void)
{
    return oracle_now;
}

/* Told as work of its own, which is the task's. */
static void share_begin(const void *shared)
{
    const struct oracle_frame *of = shared;
    push(of->share);
}

static void completes(const void *task, bool of_all)
{
    (void)task;
    (void)of_all;
}

static void nothing_of(const void *handle)
{
    (void)handle;
}

static void has_ended(const void *manager, const void *task, const void *successor, bool with_device)
{
    (void)manager;
    (void)task;
    (void)successor;
    (void)with_device;
}

static void follow(const void *queue, const void *other)
{
    (void)queue;
    (void)other;
}

static void calls_driver(bool is_calling)
{
    (void)is_calling;
}

static void declares(const void *manager, const void *task, const gantry_access *accesses, size_t count)
{
    (void)manager;
    (void)task;
    (void)accesses;
    (void)count;
}

static void nothing(void)
{
}

static void open_for(void (*hear)(gantry_log_level level, const char *line), unsigned extras)
{
    (void)hear;
    (void)extras;
}

__attribute__((visibility("default"))) extern const struct gy_proof_ops gantry_proof_ops;
const struct gy_proof_ops gantry_proof_ops = {
    .device = {enqueue, enter, pop, touch, watch, forget, follow, nothing_of, nothing_of},
    .edge = edge,
    .end = task_end,
    .declares = declares,
    .forgets = nothing_of,
    .body_begin = body_begin,
    .body_end = body_end,
    .launch_begin = body_begin,
    .launch_end = body_end,
    .share = share,
    .share_begin = share_begin,
    .share_end = pop,
    .launch_touch = launch_touch,
    .completes = completes,
    .let_go = nothing_of,
    .has_ended = has_ended,
    .step_begin = nothing_of,
    .step_waited = nothing_of,
    .synchronized = nothing,
    .calls_driver = calls_driver,
    .manager_gone = nothing_of,
    .allocated = allocated,
    .open = open_for,
};

/* ---- what the program declares
 * ------------------------------------------------------------------------------- */

void edge_was_declared(enum edge_kind kind, uint64_t number, gantry_task *task, gantry_task *predecessor,
                       bool is_left_out)
{
    static const char *const names[] = {"plain", "done", "library", "completion", "completion_of_all"};
    if (is_left_out) {
        return;
    }
    tell("edge %s %" PRIu64 " %" PRIxPTR " %" PRIxPTR "\n", names[kind], number, (uintptr_t)task,
         (uintptr_t)predecessor);
}

void edge_has_ended(gantry_task *task, gantry_task *predecessor)
{
    tell("has_ended %" PRIxPTR " %" PRIxPTR "\n", (uintptr_t)task, (uintptr_t)predecessor);
}

void edge_accesses_declared(gantry_task *task, uint64_t first, const gantry_access *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const gantry_access *access = &list[i];
        for (size_t row = 0; row < (access->rows > 1 ? access->rows : 1); row++) {
            const uintptr_t from = (uintptr_t)access->at + row * access->pitch;
            tell("access %" PRIu64 " %" PRIxPTR " %d %" PRIxPTR " %" PRIxPTR "\n", first + i, (uintptr_t)task,
                 (int)access->mode, from, from + access->bytes);
        }
    }
}

void edge_was_submitted(gantry_task *task, const gantry_task_desc *desc)
{
    tell("task %" PRIxPTR " %" PRIxPTR " %d %d %s\n", (uintptr_t)gantry_task_manager(task), (uintptr_t)task,
         (int)desc->kind, desc->is_independent, gantry_task_label(task));
}

gantry_status gantry_taskman_create(const gantry_taskman_options *options, gantry_taskman **out)
{
    gantry_status (*real)(const gantry_taskman_options *, gantry_taskman **);
    edge_find_real(&real, "gantry_taskman_create");
    const gantry_status status = real(options, out);
    if (status == GANTRY_OK) {
        tell("manager %" PRIxPTR " %d\n", (uintptr_t)*out, options != NULL && options->independent_steps);
    }
    return status;
}

static void tell_start(const gantry_taskman *manager)
{
    tell("start %" PRIxPTR " %" PRIxPTR "\n", thread(), (uintptr_t)manager);
}

/* A call that begins (`starts`) or ends a step of the manager. */
static gantry_status step_call(const char *name, gantry_taskman *manager, bool starts)
{
    gantry_status (*real)(gantry_taskman *);
    edge_find_real(&real, name);
    if (starts) {
        tell_start(manager);
    }
    const gantry_status status = real(manager);
    if (!starts) {
        tell("wait %" PRIxPTR " %" PRIxPTR "\n", thread(), (uintptr_t)manager);
    }
    return status;
}

gantry_status gantry_taskman_start(gantry_taskman *manager)
{
    return step_call("gantry_taskman_start", manager, true);
}

gantry_status gantry_taskman_wait(gantry_taskman *manager)
{
    return step_call("gantry_taskman_wait", manager, false);
}

gantry_status gantry_taskman_stop(gantry_taskman *manager)
{
    return step_call("gantry_taskman_stop", manager, false);
}

gantry_status gantry_taskman_reset(gantry_taskman *manager)
{
    gantry_status (*real)(gantry_taskman *);
    edge_find_real(&real, "gantry_taskman_reset");
    const gantry_status status = real(manager);
    if (status == GANTRY_OK) {
        tell("reset %" PRIxPTR "\n", (uintptr_t)manager);
    }
    return status;
}

gantry_status gantry_taskman_start_all(gantry_taskman *const *managers, size_t count)
{
    gantry_status (*real)(gantry_taskman *const *, size_t);
    edge_find_real(&real, "gantry_taskman_start_all");
    for (size_t i = 0; i < count; i++) {
        tell_start(managers[i]);
    }
    return real(managers, count);
}

gantry_status gantry_taskman_start_from(gantry_taskman *manager, gantry_task *const *tasks, size_t count)
{
    gantry_status (*real)(gantry_taskman *, gantry_task *const *, size_t);
    edge_find_real(&real, "gantry_taskman_start_from");
    tell_start(manager);
    return real(manager, tasks, count);
}

gantry_status gantry_taskman_run(gantry_taskman *manager, uint64_t times)
{
    gantry_status (*real)(gantry_taskman *, uint64_t);
    gantry_status status = GANTRY_OK;
    edge_find_real(&real, "gantry_taskman_run");
    for (uint64_t i = 0; i < times && status == GANTRY_OK; i++) {
        tell_start(manager);
        status = real(manager, 1);
        tell("wait %" PRIxPTR " %" PRIxPTR "\n", thread(), (uintptr_t)manager);
    }
    return status;
}

/* What continues comes after the light task, and so after the thread that makes it. */
static void tell_continuation(const gantry_task *continuation)
{
    if (continuation != NULL) {
        tell("let_go %" PRIxPTR " %" PRIxPTR "\n", thread(), (uintptr_t)continuation);
    }
}

gantry_status gantry_taskman_create_light(gantry_taskman *manager, gantry_task_fn run, void *arg,
                                          const char *label, gantry_task *continuation, gantry_task **out)
{
    gantry_status (*real)(gantry_taskman *, gantry_task_fn, void *, const char *, gantry_task *,
                          gantry_task **);
    edge_find_real(&real, "gantry_taskman_create_light");
    tell_continuation(continuation);
    return real(manager, run, arg, label, continuation, out);
}

gantry_status gantry_taskman_spawn(gantry_taskman *manager, gantry_task_fn run, void *arg, const char *label,
                                   gantry_task *continuation)
{
    gantry_status (*real)(gantry_taskman *, gantry_task_fn, void *, const char *, gantry_task *);
    edge_find_real(&real, "gantry_taskman_spawn");
    tell_continuation(continuation);
    return real(manager, run, arg, label, continuation);
}

static gantry_status reference_call(const char *name, gantry_task *task, gantry_status cause)
{
    gantry_status (*give)(gantry_task *), (*fail)(gantry_task *, gantry_status);
    tell("let_go %" PRIxPTR " %" PRIxPTR "\n", thread(), (uintptr_t)task);
    if (cause == GANTRY_OK) {
        edge_find_real(&give, name);
        return give(task);
    }
    edge_find_real(&fail, name);
    return fail(task, cause);
}

gantry_status gantry_task_remove_reference(gantry_task *task)
{
    return reference_call("gantry_task_remove_reference", task, GANTRY_OK);
}

gantry_status gantry_task_fail_reference(gantry_task *task, gantry_status cause)
{
    return reference_call("gantry_task_fail_reference", task, cause);
}

gantry_status gantry_context_synchronize(gantry_context *context)
{
    gantry_status (*real)(gantry_context *);
    edge_find_real(&real, "gantry_context_synchronize");
    const gantry_status status = real(context);
    tell("synchronized %" PRIxPTR "\n", thread());
    return status;
}

gantry_status gantry_partition_synchronize(gantry_partition *partition)
{
    gantry_status (*real)(gantry_partition *);
    edge_find_real(&real, "gantry_partition_synchronize");
    const gantry_status status = real(partition);
    tell("synchronized %" PRIxPTR "\n", thread());
    return status;
}
