/* SPDX-License-Identifier: MIT */
/* Ports: a thread each, which begins operations and looks after them.
 *
 *             nothing has moved for some time
 *   LOOKS --------------------------------------> SLEEPS
 *    | ^                                            | |
 *    | +------ a task comes, or it is time ---------+ |
 *    +----------------> CLOSES <----------------------+   by gantry_port_destroy()
 *
 * An operation is an awaited task (awaits.c) whose clock is the port's thread: that tells the table of
 * functions to give it up, so that no other thread ever calls one.  This file has what is left: the queue,
 * and when the thread rests. */
#include "taskman/port.h"

#include "base/alloc.h"
#include "base/checking.h"
#include "base/clock.h"
#include "base/handle.h"
#include "base/options.h"
#include "base/proof.h"
#include "base/waiter.h"
#include "taskman/checks.h"
#include "taskman/cpu/cpu_dispatcher.h"
#include "taskman/cpu/pool.h"
#include "taskman/failure.h"

#include <assert.h>
#include <stdio.h>
#include <sys/stat.h>

enum {
    AT_ONCE = 32,                /* tasks that are begun between two looks, at most */
    COUNT_LOOKS = 4096,          /* so often the threads of the process are counted */
    BETWEEN_ALARMS_NS = 1000000, /* so often time-outs are looked at, at most */
    CONTROL_NS = 10000000,       /* with nothing under way there is a look so often */
};

enum port_state { PORT_LOOKS, PORT_SLEEPS, PORT_CLOSES };

struct gantry_port {
    uint64_t number; /* immutable, as those that follow */
    unsigned forks;  /* gy_thread_forks() of its thread */
    uint32_t cpus;   /* that the process may use at once */
    gantry_wait_mode mode;
    gantry_port_ops ops;
    gantry_detach_options how; /* its operations are awaited */
    gantry_port *next;         /* guarded by the lock of `ports` */
    gy_cond moved;             /* `queue` or `state` has changed */
    struct gy_task_list queue; /* guarded by the lock of `ports` */
    enum port_state state;     /* guarded by the lock of `ports`; port_enter() is the only writer */
    _Atomic(bool)
        is_called; /* atomic; written under the lock of `ports`; the queue has tasks, or it closes */
    struct gy_await_clock clock;
    uint64_t alarm_ns; /* the thread's own: when it looked at time-outs last */
    uint64_t rests_ns; /* the thread's own: since when nothing has moved; 0: something just has */
    uint32_t looks;    /* the thread's own */
    bool is_crowded;   /* the thread's own; the process has more threads than CPUs */
    gy_thread thread;
    char name[32];
};

static struct {
    gy_mutex lock;
    _Atomic(unsigned) forks;  /* atomic; gy_thread_forks() of these; JOINING: they are being forgotten */
    gantry_port *first;       /* guarded by lock */
    uint64_t made;            /* guarded by lock; the latest number */
    gy_dispatch_fn *dispatch; /* written once, under lock, before a task is queued */
} ports = {.lock = {PTHREAD_MUTEX_INITIALIZER, GY_RANK_LEAF}};

enum { JOINING = -1 };

/* The first port that is made behind a fork: those of before, whose threads are not here, are forgotten, and
 * the lock, which one of them may have held. */
static void join_process(void)
{
    const unsigned now = gy_thread_forks();
    unsigned seen = atomic_load(&ports.forks);
    if (seen != now && seen != (unsigned)JOINING &&
        atomic_compare_exchange_strong(&ports.forks, &seen, (unsigned)JOINING)) {
        gy_mutex_init(&ports.lock, GY_RANK_LEAF);
        ports.first = NULL;
        atomic_store(&ports.forks, now);
    }
    while (atomic_load(&ports.forks) != now) {
        sched_yield();
    }
}

/* The only writer of the state; under the lock. */
static void port_enter(gantry_port *port, enum port_state next)
{
    static const uint8_t from[] = {
        [PORT_LOOKS] = 1u << PORT_SLEEPS,
        [PORT_SLEEPS] = 1u << PORT_LOOKS,
        [PORT_CLOSES] = 1u << PORT_LOOKS | 1u << PORT_SLEEPS,
    };
    assert((from[next] >> port->state & 1u) != 0);
    port->state = next;
}

/* ---- tasks that become ready ------------------------------------------------------------------ */

uint64_t gy_port_number(const gantry_port *port)
{
    return port->number;
}

gantry_status gy_port_check(const gantry_port *port, const char *shown)
{
    return port->forks == gy_thread_forks()
               ? GANTRY_OK
               : GY_FAIL(GANTRY_ERR_STATE, "task '%s': its port is of the process before the fork", shown);
}

/* False: the port is gone. */
static bool queue_task(gantry_task *task, gy_dispatch_fn *dispatch)
{
    if (atomic_load(&ports.forks) != gy_thread_forks()) {
        return false;
    }
    gy_mutex_lock(&ports.lock);
    if (ports.dispatch == NULL) {
        ports.dispatch = dispatch;
    }
    gantry_port *port = ports.first;
    while (port != NULL && port->number != task->body.port) {
        port = port->next;
    }
    if (port != NULL) {
        atomic_fetch_add(&port->clock.tasks, 1);
        gy_task_list_add(&port->queue, task);
        atomic_store(&port->is_called, true);
        gy_cond_signal(&port->moved);
    }
    gy_mutex_unlock(&ports.lock);
    return port != NULL;
}

void gy_ports_take(struct gy_task_list *queued, gy_dispatch_fn *dispatch)
{
    struct gy_task_list others = {0};
    for (gantry_task *task = queued->first, *next; task != NULL; task = next) {
        next = task->next;
        if (!gy_task_is_for_port(task)) {
            gy_task_list_add(&others, task);
        } else if (!queue_task(task, dispatch)) {
            gy_await_fail(task, GANTRY_ERR_STATE,
                          "its port was destroyed, or is of the process before a fork");
            gy_await_release(task, dispatch);
        }
    }
    *queued = others;
}

/* ---- the thread ------------------------------------------------------------------------------- */

/* NULL: the queue is empty.  `*closes`: it will stay so. */
static gantry_task *take_task(gantry_port *port, bool *closes)
{
    if (!atomic_load(&port->is_called)) {
        return NULL;
    }
    gy_mutex_lock(&ports.lock);
    gantry_task *task = gy_task_list_pop(&port->queue);
    *closes = port->state == PORT_CLOSES;
    atomic_store(&port->is_called, port->queue.first != NULL);
    gy_mutex_unlock(&ports.lock);
    return task;
}

/* The task ends without an operation. */
static void drop(gantry_port *port, gantry_task *task)
{
    atomic_fetch_sub(&port->clock.tasks, 1);
    gy_await_release(task, ports.dispatch);
}

static void begin(gantry_port *port, gantry_task *task)
{
    gantry_detached handle;
    gy_error_clear(); /* so that what is there afterwards comes from `start` */
    if (!gy_task_enter_running(task)) {
        drop(port, task); /* cancelled since it became ready */
        return;
    }
    gantry_status status = gy_await_begin(task, &port->how, &port->clock, &handle);
    if (status != GANTRY_OK) {
        gy_await_fail(task, status, gy_error_last()->text);
        drop(port, task);
        return;
    }
    if (gy_check_is_on(GY_CHECK_COMPLETIONS | GY_CHECK_EDGES)) {
        gy_task_check_body(task);
    }
    status = port->ops.start(port->ops.user, task, handle);
    if (gy_proof() != NULL) {
        gy_proof()->body_end(task);
    }
    gy_await_body_ended(task, handle, status, ports.dispatch);
}

/* With more threads than CPUs, one that looks keeps those that it waits for from running. */
static void give_way(gantry_port *port)
{
    struct stat threads;
    if (port->looks++ % COUNT_LOOKS == 0 && stat("/proc/self/task", &threads) == 0) {
        port->is_crowded = threads.st_nlink > (nlink_t)port->cpus + 2; /* and the links of each directory */
    }
    if (port->is_crowded) {
        (void)sched_yield();
    }
}

/* How long the thread sleeps, where it does. */
static uint64_t nap_of(gantry_port *port)
{
    if (atomic_load(&port->clock.tasks) == 0) {
        return CONTROL_NS;
    }
    const bool blocks = port->mode == GANTRY_WAIT_BLOCK;
    const uint64_t least = blocks ? GY_BLOCKING_NAP_NS : GY_SPINNING_NAP_NS;
    const uint64_t most = blocks ? GY_BLOCKING_NAP_MOST_NS : GY_SPINNING_NAP_MOST_NS;
    const uint64_t part = (gy_clock_ns() - port->rests_ns) / (blocks ? 4 : 128);
    return part < least ? least : part > most ? most : part;
}

/* Nothing has moved since the last look. */
static void rest(gantry_port *port, struct gy_waiter *waiter)
{
    if (port->rests_ns == 0) {
        port->rests_ns = gy_clock_ns();
        *waiter = gy_waiter_begin(
            port->mode, port->mode == GANTRY_WAIT_ADAPTIVE ? GY_WAITER_MOST_NS : GY_WAITER_HYBRID_NS, 0);
    }
    if (gy_waiter_pause(waiter) != GY_WAITER_SLEEP) {
        give_way(port);
        return;
    }
    const uint64_t until_ns = gy_clock_ns() + nap_of(port);
    gy_mutex_lock(&ports.lock);
    if (port->queue.first == NULL && port->state != PORT_CLOSES) {
        port_enter(port, PORT_SLEEPS);
        gy_cond_wait_until(&port->moved, &ports.lock, until_ns);
        if (port->state != PORT_CLOSES) {
            port_enter(port, PORT_LOOKS);
        }
    }
    gy_mutex_unlock(&ports.lock);
}

static void tell_late(gantry_port *port)
{
    const uint64_t due_ns = atomic_load(&port->clock.next_due_ns);
    const uint64_t now_ns = due_ns != GY_NEVER_DUE ? gy_clock_ns() : 0;
    if (due_ns <= now_ns && now_ns - port->alarm_ns >= BETWEEN_ALARMS_NS) {
        port->alarm_ns = now_ns;
        gy_awaits_look(&port->clock, now_ns);
    }
}

static void serve(void *arg)
{
    gantry_port *port = arg;
    struct gy_waiter waiter = {0};
    bool closes = false;
    gy_thread_serve(true);
    (void)gy_thread_set_slack(GY_SLACK_NS); /* else naps last 50 us longer */
    while (!closes) {
        gantry_task *task;
        bool has_moved = false;
        for (int i = 0; i < AT_ONCE && (task = take_task(port, &closes)) != NULL; i++) {
            begin(port, task);
            has_moved = true;
        }
        if (closes) {
            break;
        }
        has_moved |= port->ops.look(port->ops.user);
        tell_late(port);
        if (has_moved) {
            port->rests_ns = 0;
        } else {
            rest(port, &waiter);
        }
    }
}

/* ---- for the application ---------------------------------------------------------------------- */

static gantry_status import(gantry_port *port, const gantry_port_ops *ops, const gantry_port_options *theirs,
                            gantry_port_options *options)
{
    gantry_status status = gy_options_import(&port->ops, sizeof(port->ops), ops,
                                             offsetof(gantry_port_ops, give_up), "gantry_port_create: ops");
    if (status == GANTRY_OK) {
        status = gy_options_import(options, sizeof(*options), theirs,
                                   offsetof(gantry_port_options, cpu_count), "gantry_port_create");
    }
    if (status == GANTRY_OK && (port->ops.start == NULL || port->ops.look == NULL)) {
        status = GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_port_create: `start` or `look` is NULL");
    }
    if (status == GANTRY_OK && (unsigned)options->wait_mode > GANTRY_WAIT_ADAPTIVE) {
        status = GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_port_create: unknown wait mode %d",
                         (int)options->wait_mode);
    }
    port->mode = options->wait_mode == GANTRY_WAIT_DEFAULT ? GANTRY_WAIT_HYBRID : options->wait_mode;
    port->how = (gantry_detach_options){.struct_size = sizeof(port->how),
                                        .timeout_ns = options->timeout_ns,
                                        .grace_ns = options->grace_ns,
                                        .tell = port->ops.give_up,
                                        .user = port->ops.user};
    return status;
}

static void add_port(gantry_port *port)
{
    gy_mutex_lock(&ports.lock);
    port->number = ++ports.made;
    port->next = ports.first;
    ports.first = port;
    gy_mutex_unlock(&ports.lock);
    (void)snprintf(port->name, sizeof(port->name), "gantry port %u", (unsigned)port->number);
}

static void remove_locked(gantry_port *port) GY_REQUIRES(ports.lock)
{
    gantry_port **place = &ports.first;
    while (*place != port) {
        place = &(*place)->next;
    }
    *place = port->next;
}

gantry_status gantry_port_create(const gantry_port_ops *ops, const gantry_port_options *options,
                                 gantry_port **out)
{
    gantry_port_options ours = {0};
    gy_cpus cpus;
    if (ops == NULL || out == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_port_create: %s is NULL",
                       ops == NULL ? "`ops`" : "`out`");
    }
    gantry_port *port = gy_zalloc(sizeof(*port));
    if (port == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "gantry_port_create: no memory");
    }
    join_process();
    port->forks = gy_thread_forks();
    port->cpus = gy_cpus_usable_at_once();
    atomic_init(&port->clock.next_due_ns, GY_NEVER_DUE);
    gantry_status status = import(port, ops, options, &ours);
    if (status == GANTRY_OK) {
        status = gy_cpus_choose("gantry_port_create", ours.cpus, ours.cpu_count, &cpus);
    }
    if (status == GANTRY_OK) {
        add_port(port);
        status = gy_thread_start(&port->thread, port->name, serve, port);
        if (status != GANTRY_OK) {
            gy_mutex_lock(&ports.lock);
            remove_locked(port);
            gy_mutex_unlock(&ports.lock);
        }
    }
    if (status != GANTRY_OK) {
        gy_free(port);
        return status;
    }
    if (ours.cpus != NULL && pthread_setaffinity_np(port->thread.native, sizeof(cpus), &cpus.system) != 0) {
        gy_log(GANTRY_LOG_WARNING, "gantry_port_create: %s cannot be bound to its CPUs", port->name);
    }
    gy_handle_born(GY_HANDLE_PORT, port, sizeof(*port), sizeof(*port));
    *out = port;
    return GANTRY_OK;
}

gantry_status gantry_fail(gantry_status status, const char *text)
{
    if (!gy_status_is_failure(status)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_fail: %d is no status of a failure", (int)status);
    }
    return GY_FAIL(status, "%s", text != NULL ? text : gantry_status_text(status));
}

/* No task is queued any more; false if some are there. */
static bool close_port(gantry_port *port)
{
    gy_mutex_lock(&ports.lock);
    const bool is_done = atomic_load(&port->clock.tasks) == 0;
    if (is_done) {
        remove_locked(port);
        port_enter(port, PORT_CLOSES);
        atomic_store(&port->is_called, true);
        gy_cond_signal(&port->moved);
    }
    gy_mutex_unlock(&ports.lock);
    return is_done;
}

gantry_status gantry_port_destroy(gantry_port *port)
{
    GY_ACCEPT(PORT, port);
    if (port == NULL) {
        return GANTRY_OK;
    }
    gantry_status status = gy_pool_check_outside("gantry_port_destroy");
    if (status != GANTRY_OK) {
        return status;
    }
    if (port->forks != gy_thread_forks()) {
        return GY_FAIL(GANTRY_ERR_STATE, "gantry_port_destroy: the port is of the process before the fork");
    }
    if (!close_port(port)) {
        char labels[GY_ERROR_TEXT_BYTES / 2];
        (void)gy_awaits_of(NULL, &port->clock, labels, sizeof(labels));
        return GY_FAIL(GANTRY_ERR_STATE, "gantry_port_destroy: refused, operations are under way:%s", labels);
    }
    gy_thread_join(&port->thread);
    gy_cond_fini(&port->moved);
    gy_handle_free(port, port);
    return GANTRY_OK;
}
