/* SPDX-License-Identifier: MIT */
#include "limit/meter.h"

#include "limit/costs.h"
#include "limit/guard.h"
#include "limit/job.h"
#include "limit/meter_inside.h"
#include "limit/pace.h"
#include "limit/real.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    LONGEST_SLEEP_NS = 500000, /* of who is held */
    LINGER_POLLS = 200,        /* before the thread sleeps until it is woken */
    RECLAIM_NS = 100000000,
    EXIT_NS = 100000000, /* the most that exit() waits for the thread to leave the driver */
};

static atomic_bool is_in_driver;   /* the meter's thread is */
static _Atomic uint32_t is_asleep; /* a futex: 1 while the meter's thread sleeps */
static uint64_t launches_begun;    /* guarded by the lock, as the next */
static uint32_t launches_now;
static _Thread_local int inside
    __attribute__((tls_model("initial-exec"))); /* a launch is under way in this thread */

static void lock(void)
{
    pthread_mutex_lock(&gy_meter_lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&gy_meter_lock);
}

static void rest(uint64_t ns)
{
    const struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    (void)syscall(SYS_nanosleep, &t, NULL);
}

bool gy_meter_charges_copies(void)
{
    return gy_meter.place != NULL && gy_meter.place->settings.copies != 0;
}

/* ---- opening and closing ----------------------------------------------------------------------- */

/* The legacy stream waits for streams that wait for it.  An event on it, at a place where the program has put
 * none, could make two of its streams wait for each other that did not. */
static bool is_touchy(const struct gy_meter_stream *stream)
{
    return stream->key.handle == NULL && stream->context->has_blocking;
}

/* Whether the caller may record on that stream: a per-thread stream is the calling thread's. */
static bool may_close(const struct gy_meter_stream *stream)
{
    return (uintptr_t)stream->key.handle != 2 || pthread_equal(stream->key.thread, pthread_self());
}

void gy_meter_detach(struct gy_meter_group *group)
{
    struct gy_meter_group **link = &gy_meter.open;
    while (*link != group) {
        link = &(*link)->next;
    }
    *link = group->next;
    group->next = NULL;
    if (group->home != NULL) {
        group->home->open = NULL;
    }
    atomic_fetch_sub(&gy_meter.open_groups, 1);
}

/* Close the stream's group.  The lock is given up meanwhile; whether there was one to close now. */
static bool close_group(struct gy_meter_stream *stream)
{
    struct gy_meter_group *group = stream->open;
    if (group == NULL || group->state != GY_METER_OPEN) {
        return false;
    }
    if (group->launching > 0 || !may_close(stream)) {
        group->wants_close = true;
        return false;
    }
    gy_meter_detach(group);
    group->state = GY_METER_CLOSED;
    group->closed_ns = gy_meter_now();
    if (!group->is_single) {
        double free_at = stream->free_at;
        group->gaps_ns += gy_meter_gap(&free_at, (double)group->closed_ns, 0);
    }
    gy_meter_reserve(group, group->known_ns);
    const bool is_mixed = group->lacks_begin && (launches_begun != group->sequence || launches_now > 0);
    if (group->launches == 0) {
        gy_meter_settle(group, 0);
        return true;
    }
    stream->recording++;
    group->context->recording++;
    unlock();
    uint64_t asked;
    CUevent end = group->is_failed || is_mixed ? NULL : gy_meter_record(group, &asked);
    lock();
    stream->recording--;
    group->context->recording--;
    group->end = end;
    if (end == NULL || group->context->is_dead) {
        gy_meter_settle_unmeasured(group);
        return true;
    }
    gy_meter_fly(group);
    return true;
}

static void wake_thread(void)
{
    if (atomic_load(&is_asleep) != 0 && atomic_exchange(&is_asleep, 0) != 0) {
        (void)syscall(SYS_futex, &is_asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

/* The lock is given up meanwhile. */
static void record_begin(struct gy_meter_group *group)
{
    unlock();
    uint64_t asked;
    CUevent begin = gy_meter_record(group, &asked);
    lock();
    group->begin = begin;
    group->asked_ns = asked;
    group->is_failed = begin == NULL;
}

/* Begin a group with a launch of this cost (NULL: it is unknown), of which that is all if it `is_alone`.  The
 * lock is given up meanwhile. */
static struct gy_meter_group *open_group(struct gy_meter_stream *stream, const struct gy_cost *cost,
                                         uint64_t key, bool is_alone)
{
    struct gy_meter_group *group = calloc(1, sizeof(*group));
    if (group == NULL) {
        return NULL;
    }
    group->context = stream->context;
    group->context->groups++;
    group->stream = stream->key;
    group->stream_number = stream->number;
    group->key = key;
    group->is_single = cost == NULL || gy_costs_is_due(cost) || is_touchy(stream) || is_alone;
    group->lacks_begin = is_touchy(stream);
    group->is_trusted = !group->is_single && stream->is_empty && cost->ns <= GY_METER_TRUSTED_NS;
    group->opened_ns = gy_meter_now();
    group->launching = 1; /* nobody closes it meanwhile */
    gy_meter_reserve(group, cost != NULL ? cost->ns : GY_METER_UNKNOWN_NS);
    gy_meter_note_others(group);
    stream->open = group;
    group->home = stream;
    group->next = gy_meter.open;
    gy_meter.open = group;
    atomic_fetch_add(&gy_meter.open_groups, 1);
    if (!group->lacks_begin && !group->is_trusted) {
        record_begin(group);
    }
    group->launching--;
    return group;
}

/* More joins what was to be charged by its cost alone: from here on the group is measured.  The lock is given
 * up meanwhile. */
static void extend(struct gy_meter_group *group)
{
    group->is_trusted = false;
    group->trusted_ns = group->known_ns;
    group->launching++;
    record_begin(group);
    group->launching--;
}

/* May the caller, who came at `now`, close the group?  Those that were opened later are not his.  The meter's
 * thread closes those without a launch for a while. */
static bool is_due(const struct gy_meter_group *group, bool is_thread, uint64_t now)
{
    if (group->home == NULL || group->launching > 0 || !may_close(group->home) || group->opened_ns > now) {
        return false;
    }
    const bool is_quiet =
        now > group->latest_ns + GY_METER_QUIET_NS || (double)(now - group->opened_ns) > GY_METER_GROUP_NS;
    return !is_thread || (is_quiet && !is_touchy(group->home));
}

static uint32_t place_in(const struct gy_meter_wait *wait, const struct gy_meter_stream *stream)
{
    uint32_t i = 0;
    while (i < wait->count && wait->streams[i].handle != stream->key.handle) {
        i++;
    }
    return i;
}

/* Look at the stream again when the wait is over. */
static void note_wait(struct gy_meter_wait *wait, const struct gy_meter_stream *stream)
{
    if (wait->count < GY_METER_WAITS && place_in(wait, stream) == wait->count) {
        wait->streams[wait->count].handle = stream->key.handle;
        wait->streams[wait->count].touched = stream->touched;
        wait->count++;
    }
}

/* Its end needs no event: the wait tells. */
static bool ends_with_wait(const struct gy_meter_wait *wait, const struct gy_meter_group *group)
{
    return group != NULL && group->is_trusted && group->launching == 0 && !group->wants_close &&
           place_in(wait, group->home) < wait->count;
}

/* Close all groups that are due, but those that end with the wait, if there is one. */
static void close_many(bool is_thread, struct gy_meter_wait *wait)
{
    lock();
    const uint64_t now = gy_meter_now();
    struct gy_meter_group *group = gy_meter.open;
    while (group != NULL) {
        const bool is_closed = is_due(group, is_thread, now);
        if (is_closed && wait != NULL && group->context->handle == wait->context) {
            note_wait(wait, group->home);
        }
        if (is_closed && (wait == NULL || !ends_with_wait(wait, group))) {
            (void)close_group(group->home);
            group = gy_meter.open; /* the lock was given up */
        } else {
            group = group->next;
        }
    }
    unlock();
}

void gy_meter_close_all(void)
{
    if (inside == 0 && atomic_load_explicit(&gy_meter.open_groups, memory_order_relaxed) > 0 &&
        atomic_load(&gy_meter.state) == GY_METER_RUNNING) {
        close_many(false, NULL);
    }
}

static void end_group_of(CUstream handle, bool is_touched)
{
    const struct gy_meter_stream_key key = gy_meter_key_of(handle);
    lock();
    struct gy_meter_stream *stream = gy_meter_find_stream(&key);
    if (stream != NULL && is_touched) {
        stream->is_empty = false;
        stream->touched++;
    }
    if (stream != NULL) {
        (void)close_group(stream);
    }
    unlock();
}

static bool is_measuring(void)
{
    return inside == 0 && atomic_load(&gy_meter.state) == GY_METER_RUNNING;
}

void gy_meter_close_stream(CUstream handle)
{
    if (atomic_load_explicit(&gy_meter.open_groups, memory_order_relaxed) > 0 && is_measuring()) {
        end_group_of(handle, false);
    }
}

void gy_meter_puts(CUstream handle)
{
    if (is_measuring()) {
        end_group_of(handle, true);
    }
}

/* ---- waits --------------------------------------------------------------------------------------- */

struct gy_meter_wait gy_meter_wait_for_stream(CUstream handle)
{
    struct gy_meter_wait wait = {.count = 0};
    if (is_measuring()) {
        const struct gy_meter_stream_key key = gy_meter_key_of(handle);
        lock();
        struct gy_meter_stream *stream = gy_meter_find_stream(&key);
        if (stream != NULL && may_close(stream)) {
            note_wait(&wait, stream);
        }
        if (stream != NULL && !ends_with_wait(&wait, stream->open)) {
            (void)close_group(stream);
        }
        unlock();
    }
    return wait;
}

struct gy_meter_wait gy_meter_wait_for_context(void)
{
    struct gy_meter_wait wait = {.count = 0};
    if (is_measuring() && atomic_load_explicit(&gy_meter.open_groups, memory_order_relaxed) > 0 &&
        gy_cu.cuCtxGetCurrent(&wait.context) == CUDA_SUCCESS) {
        close_many(false, &wait);
    }
    return wait;
}

void gy_meter_waited(const struct gy_meter_wait *wait, CUresult result)
{
    if (wait->count == 0 || result != CUDA_SUCCESS || !is_measuring()) {
        return;
    }
    lock();
    for (uint32_t i = 0; i < wait->count; i++) {
        const struct gy_meter_stream_key key = gy_meter_key_of(wait->streams[i].handle);
        struct gy_meter_stream *stream = gy_meter_find_stream(&key);
        if (stream != NULL && stream->touched == wait->streams[i].touched) {
            stream->is_empty = true;
            struct gy_meter_group *group = stream->open;
            if (group != NULL && group->is_trusted && group->launching == 0) {
                gy_meter_detach(group);
                gy_meter_settle_trusted(group);
            }
        }
    }
    unlock();
}

void gy_meter_capture_begins(CUstream handle)
{
    atomic_fetch_add(&gy_meter.captures, 1);
    gy_meter_close_all();
    if (atomic_load(&gy_meter.state) == GY_METER_RUNNING) { /* no end of a group gets into the capture */
        const struct gy_meter_stream_key key = gy_meter_key_of(handle);
        lock();
        (void)gy_meter_find_unused(&key);
        unlock();
    }
}

/* ---- the meter's thread ------------------------------------------------------------------------ */

static void sleep_until_woken(void)
{
    atomic_store(&is_asleep, 1);
    if (atomic_load(&gy_meter.open_groups) == 0 && atomic_load(&gy_meter.flying_groups) == 0) {
        (void)syscall(SYS_futex, &is_asleep, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
    }
    atomic_store(&is_asleep, 0);
}

/* What killed processes had in flight is in nobody's way. */
static void reclaim(void)
{
    (void)gy_region_reclaim(gy_meter.place);
    if (gy_meter.common != NULL) {
        (void)gy_region_reclaim(gy_meter.common);
    }
}

static void *run(void *unused)
{
    (void)unused;
    int idle = 0;
    uint64_t reclaimed = gy_meter_now();
    bool is_told = false;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    (void)gy_cu.cuThreadExchangeStreamCaptureMode(&mode);
    while (atomic_load(&gy_meter.state) == GY_METER_RUNNING) {
        const bool is_idle =
            atomic_load(&gy_meter.open_groups) == 0 && atomic_load(&gy_meter.flying_groups) == 0;
        idle = is_idle ? idle + 1 : 0;
        if (idle > LINGER_POLLS) {
            sleep_until_woken();
            idle = 0;
        } else {
            rest(GY_METER_POLL_NS);
        }
        atomic_store(&is_in_driver, true);
        if (gy_guard_has_replaced() && !is_told) {
            is_told = true;
            gy_job_tell("process %d: the job's file was cut short: it goes on with a budget of its own",
                        (int)getpid());
        }
        if (atomic_load(&gy_meter.state) == GY_METER_RUNNING) {
            close_many(true, NULL);
            gy_meter_poll();
            const uint64_t now = gy_meter_now();
            if (now - reclaimed > RECLAIM_NS) {
                reclaim();
                reclaimed = now;
            }
        }
        atomic_store(&is_in_driver, false);
    }
    return NULL;
}

/* The driver is about to be taken down. */
static void end_at_exit(void)
{
    enum gy_meter_phase running = GY_METER_RUNNING;
    if (!atomic_compare_exchange_strong(&gy_meter.state, &running, GY_METER_ENDED)) {
        return;
    }
    wake_thread();
    const uint64_t begin = gy_meter_now();
    while (atomic_load(&is_in_driver) && gy_meter_now() - begin < EXIT_NS) {
        sched_yield();
    }
    gy_job_leave();
}

/* Threads other than the caller are gone, perhaps with the lock. */
static void begin_anew_in_child(void)
{
    static const pthread_mutex_t fresh = GY_METER_LOCK_INITIALIZER;
    memcpy(&gy_meter_lock, &fresh, sizeof(fresh));
    atomic_store(&gy_meter.state, GY_METER_NEW);
    gy_meter.place = NULL;
    gy_meter.flying = NULL;
    gy_meter.flying_end = &gy_meter.flying;
    gy_meter.open = NULL;
    launches_now = 0;
    gy_meter_forget_busy();
    atomic_store(&gy_meter.open_groups, 0);
    atomic_store(&gy_meter.flying_groups, 0);
    atomic_store(&gy_meter.captures, 0);
    atomic_store(&gy_meter.is_polling, false);
    atomic_store(&is_in_driver, false);
    gy_meter_forget_everything();
    gy_job_forget();
}

static bool begin_thread(void)
{
    static bool is_registered; /* guarded by the lock */
    sigset_t all, before;
    pthread_t thread;
    if (!is_registered) {
        is_registered = atexit(end_at_exit) == 0 && pthread_atfork(NULL, NULL, begin_anew_in_child) == 0;
    }
    sigfillset(&all);
    (void)sigdelset(&all, SIGBUS); /* the guard's (guard.h) */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool is_good = is_registered && pthread_create(&thread, NULL, run, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (is_good) {
        (void)pthread_detach(thread);
    }
    return is_good;
}

/* At the first launch.  The lock is held.  False: nothing is limited, for the reason `why` where it is new.
 */
static bool start(char why[GY_REGION_TEXT_BYTES])
{
    why[0] = '\0';
    if (atomic_load(&gy_meter.state) != GY_METER_NEW) {
        return atomic_load(&gy_meter.state) == GY_METER_RUNNING;
    }
    gy_meter.place = gy_real_has_needed() ? gy_job_enter(why) : NULL;
    gy_meter.common = gy_job_common();
    atomic_store(&gy_meter.state, GY_METER_RUNNING);
    if (gy_meter.place == NULL || !begin_thread()) {
        if (gy_job_is_limited()) {
            snprintf(why, GY_REGION_TEXT_BYTES, "%s",
                     gy_meter.place == NULL ? "its driver lacks what is needed" : "no thread can be made");
        }
        atomic_store(&gy_meter.state, GY_METER_ENDED);
        return false;
    }
    return true;
}

/* ---- launches ----------------------------------------------------------------------------------- */

/* Wait until the job may compute on this device.  The lock is given up meanwhile: whether it was not. */
static bool admit(int device, enum gy_pace_verdict *verdict)
{
    const uint64_t begin = gy_meter_now();
    uint64_t now = begin, ready = 0, reclaimed = begin;
    struct gy_region *region = gy_meter.place->region;
    while ((*verdict = gy_pace_ask(region, device, &gy_meter.place->settings, now, &ready)) == GY_PACE_HOLD) {
        unlock();
        if (now == begin) {
            close_many(false, NULL); /* what is open is not added to */
        }
        const uint64_t wait = ready > now ? ready - now : 1;
        rest(wait < LONGEST_SLEEP_NS ? wait : LONGEST_SLEEP_NS);
        if (atomic_load(&gy_meter.state) == GY_METER_RUNNING) {
            gy_meter_poll();
        }
        lock();
        now = gy_meter_now();
        if (atomic_load(&gy_meter.state) != GY_METER_RUNNING) {
            break;
        }
        if (now - reclaimed > RECLAIM_NS) { /* what a killed process had in flight is in nobody's way */
            reclaim();
            reclaimed = now;
        }
    }
    if (now == begin) {
        return true;
    }
    atomic_fetch_add(&region->devices[device].held, now - begin);
    return false;
}

/* May a launch of this cost join the group? */
static bool fits(const struct gy_meter_group *group, const struct gy_cost *cost)
{
    return cost != NULL && !group->wants_close && (!group->is_single || group->launches == 0);
}

/* Is this the context's first launch on a stream that the legacy one waits for?  Then the legacy stream's
 * group ends before it (is_touchy()), for which the lock is given up. */
static bool meets_blocking(const struct gy_meter_stream *stream)
{
    if (!stream->is_blocking || stream->context->has_blocking) {
        return false;
    }
    const struct gy_meter_stream_key legacy = {.context = stream->context->handle};
    stream->context->has_blocking = true;
    struct gy_meter_stream *found = gy_meter_find_stream(&legacy);
    return found != NULL && close_group(found);
}

/* Find the stream's group that the launch belongs to, or begin one.  NULL: it is not measured.  The lock is
 * held. */
static struct gy_meter_group *group_for(const struct gy_meter_stream_key *key, const struct gy_cost *cost,
                                        uint64_t work)
{
    bool is_admitted = false;
    enum gy_pace_verdict verdict = GY_PACE_HOLD;
    while (atomic_load(&gy_meter.state) == GY_METER_RUNNING) {
        struct gy_meter_stream *stream = gy_meter_find_stream(key);
        stream = stream != NULL ? stream : gy_meter_add_stream(key, gy_meter.place->region);
        if (stream == NULL || stream->context->device < 0) {
            return NULL;
        }
        if (stream->open != NULL && fits(stream->open, cost)) {
            struct gy_meter_group *group = stream->open;
            if (group->is_trusted && group->launches > 0) {
                extend(group);
            }
            return group;
        }
        if (stream->open != NULL) {
            if (!close_group(stream)) {
                return stream->open; /* another thread launches in it */
            }
        } else if (!is_admitted && !admit(stream->context->device, &verdict)) {
            is_admitted = true;
        } else if (!meets_blocking(stream)) {
            return open_group(stream, cost, work, verdict == GY_PACE_AWAITED);
        } /* the lock was given up: the stream may be gone, or another one by now */
    }
    return NULL;
}

/* The process is limited, which at its first launch begins; else it is told why not, once. */
static bool is_started(void)
{
    char why[GY_REGION_TEXT_BYTES];
    if (atomic_load_explicit(&gy_meter.state, memory_order_acquire) == GY_METER_RUNNING) {
        return true;
    }
    lock();
    const bool is_running = start(why);
    unlock();
    if (!is_running && why[0] != '\0') {
        gy_job_tell("process %d has no limit: %s", (int)getpid(), why);
    }
    return is_running;
}

/* The launch is the group's latest; without a key its cost is unknown.  The lock is held. */
static void count_launch(struct gy_meter_group *group, const struct gy_cost *cost)
{
    const double cost_ns = cost->ns;
    struct gy_meter_stream *stream = group->home;
    group->latest_ns = group->launches == 0 && group->is_trusted ? group->opened_ns : gy_meter_now();
    if (stream != NULL) {
        const double gap = gy_meter_gap(&stream->free_at, (double)group->latest_ns, cost_ns);
        /* the gap behind what was charged by its cost lies before the begin */
        group->gaps_ns += group->launches > (group->trusted_ns > 0 ? 1 : 0) ? gap : 0;
        stream->is_empty = false;
        stream->touched++;
    }
    gy_pace_expect(gy_meter.place, group->context->device,
                   (uint64_t)(cost->key != 0 ? cost->least : GY_METER_PATIENT_NS), group->latest_ns);
    group->sequence = ++launches_begun;
    launches_now++;
    group->launching++;
    group->launches++;
    group->known_ns += cost_ns;
}

bool gy_meter_enter(struct gy_meter_ticket *ticket, CUstream handle, uint64_t work)
{
    if (inside != 0 || !gy_job_is_limited() || gy_meter_is_capturing(handle) || !is_started()) {
        return false;
    }
    const struct gy_meter_stream_key key = gy_meter_key_of(handle);
    inside++;
    lock();
    const struct gy_cost *found = gy_costs_use(work);
    struct gy_cost cost = found != NULL ? *found : (struct gy_cost){.key = 0};
    struct gy_meter_group *group = group_for(&key, found != NULL ? &cost : NULL, work);
    if (group != NULL) {
        count_launch(group, &cost);
        *ticket = (struct gy_meter_ticket){.group = group, .cost_ns = cost.ns};
    }
    unlock();
    if (group == NULL) {
        inside--;
    }
    return group != NULL;
}

void gy_meter_leave(const struct gy_meter_ticket *ticket, CUresult result)
{
    struct gy_meter_group *group = ticket->group;
    lock();
    group->launching--;
    launches_now--;
    if (result != CUDA_SUCCESS) {
        group->launches--;
        group->known_ns -= ticket->cost_ns;
    }
    const bool is_full = group->is_single || group->wants_close || group->known_ns >= GY_METER_GROUP_NS ||
                         (double)(group->latest_ns - group->opened_ns) >= GY_METER_GROUP_NS;
    if (group->home == NULL && group->launching == 0) { /* its context has gone */
        gy_meter_detach(group);
        gy_meter_settle_unmeasured(group);
    } else if (is_full && group->home != NULL && atomic_load(&gy_meter.state) == GY_METER_RUNNING) {
        (void)close_group(group->home);
    }
    unlock();
    wake_thread();
    inside--;
}
