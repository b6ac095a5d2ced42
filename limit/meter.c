#include "limit/meter.h"

#include "limit/costs.h"
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
    POLL_NS = 150000,          /* the meter's thread looks so often while something is open or flies */
    LONGEST_SLEEP_NS = 500000, /* of who is held */
    LINGER_POLLS = 200,        /* before the thread sleeps until it is woken */
    RECLAIM_NS = 100000000,
    EXIT_NS = 100000000, /* the most that exit() waits for the thread to leave the driver */
};

static atomic_bool is_in_driver;         /* the meter's thread is */
static _Atomic uint32_t is_asleep;       /* a futex: 1 while the meter's thread sleeps */
static struct gy_meter_group *open_list; /* guarded by the lock, as the next */
static uint64_t launches_begun;          /* guarded by the lock, as the next */
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

/* The group is not its stream's any more. */
static void detach(struct gy_meter_group *group)
{
    struct gy_meter_group **link = &open_list;
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
    detach(group);
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
    CUevent end = group->is_failed || is_mixed ? NULL : gy_meter_record(group);
    lock();
    stream->recording--;
    group->context->recording--;
    group->end = end;
    if (end == NULL || group->context->is_dead) {
        gy_meter_settle_unmeasured(group);
        return true;
    }
    group->state = GY_METER_FLYING;
    group->next = gy_meter.flying;
    gy_meter.flying = group;
    atomic_fetch_add(&gy_meter.flying_groups, 1);
    return true;
}

static void wake_thread(void)
{
    if (atomic_load(&is_asleep) != 0 && atomic_exchange(&is_asleep, 0) != 0) {
        (void)syscall(SYS_futex, &is_asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

/* Begin a group with a launch of this cost (NULL: it is unknown).  The lock is given up meanwhile. */
static struct gy_meter_group *open_group(struct gy_meter_stream *stream, const struct gy_cost *cost,
                                         uint64_t key)
{
    struct gy_meter_group *group = calloc(1, sizeof(*group));
    if (group == NULL) {
        return NULL;
    }
    group->context = stream->context;
    group->context->groups++;
    group->stream = stream->key;
    group->key = key;
    group->is_single = cost == NULL || cost->uses >= GY_METER_SAMPLE_USES || is_touchy(stream);
    group->lacks_begin = is_touchy(stream);
    group->opened_ns = gy_meter_now();
    group->launching = 1; /* nobody closes it meanwhile */
    gy_meter_reserve(group, cost != NULL ? cost->ns : GY_METER_UNKNOWN_NS);
    stream->open = group;
    group->home = stream;
    group->next = open_list;
    open_list = group;
    atomic_fetch_add(&gy_meter.open_groups, 1);
    unlock();
    CUevent begin = group->lacks_begin ? NULL : gy_meter_record(group);
    lock();
    group->begin = begin;
    group->is_failed = begin == NULL && !group->lacks_begin;
    group->launching--;
    return group;
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

/* Close all groups that are due. */
static void close_many(bool is_thread)
{
    lock();
    const uint64_t now = gy_meter_now();
    struct gy_meter_group *group = open_list;
    while (group != NULL) {
        if (is_due(group, is_thread, now)) {
            (void)close_group(group->home);
            group = open_list; /* the lock was given up */
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
        close_many(false);
    }
}

void gy_meter_close_stream(CUstream handle)
{
    if (inside != 0 || atomic_load_explicit(&gy_meter.open_groups, memory_order_relaxed) == 0 ||
        atomic_load(&gy_meter.state) != GY_METER_RUNNING) {
        return;
    }
    const struct gy_meter_stream_key key = gy_meter_key_of(handle);
    lock();
    struct gy_meter_stream *stream = gy_meter_find_stream(&key);
    if (stream != NULL) {
        (void)close_group(stream);
    }
    unlock();
}

static void let_others_record(void)
{
    unlock();
    sched_yield();
    lock();
}

/* The stream, when nobody records on it any more: that ends when a call of the driver returns.  NULL: it is
 * not known. The lock is held, and may be given up meanwhile. */
static struct gy_meter_stream *find_unused(const struct gy_meter_stream_key *key)
{
    struct gy_meter_stream *stream = gy_meter_find_stream(key);
    while (stream != NULL && stream->recording > 0) {
        let_others_record();
        stream = gy_meter_find_stream(key);
    }
    return stream;
}

void gy_meter_capture_begins(CUstream handle)
{
    atomic_fetch_add(&gy_meter.captures, 1);
    gy_meter_close_all();
    if (atomic_load(&gy_meter.state) == GY_METER_RUNNING) { /* no end of a group gets into the capture */
        const struct gy_meter_stream_key key = gy_meter_key_of(handle);
        lock();
        (void)find_unused(&key);
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

static void *run(void *unused)
{
    (void)unused;
    int idle = 0;
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
            rest(POLL_NS);
        }
        atomic_store(&is_in_driver, true);
        if (atomic_load(&gy_meter.state) == GY_METER_RUNNING) {
            close_many(true);
            gy_meter_poll();
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
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    memcpy(&gy_meter_lock, &fresh, sizeof(fresh));
    atomic_store(&gy_meter.state, GY_METER_NEW);
    gy_meter.place = NULL;
    gy_meter.flying = NULL;
    open_list = NULL;
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
static bool admit(int device)
{
    const uint64_t begin = gy_meter_now();
    uint64_t now = begin, ready = 0, reclaimed = begin;
    struct gy_region_device *shared = &gy_meter.place->region->devices[device];
    while (gy_pace_ask(shared, &gy_meter.place->settings, now, &ready) == GY_PACE_HOLD) {
        unlock();
        if (now == begin) {
            close_many(false); /* what is open is not added to */
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
            (void)gy_region_reclaim(gy_meter.place);
            reclaimed = now;
        }
    }
    if (now == begin) {
        return true;
    }
    atomic_fetch_add(&shared->held, now - begin);
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
    while (atomic_load(&gy_meter.state) == GY_METER_RUNNING) {
        struct gy_meter_stream *stream = gy_meter_find_stream(key);
        stream = stream != NULL ? stream : gy_meter_add_stream(key, gy_meter.place->region);
        if (stream == NULL || stream->context->device < 0) {
            return NULL;
        }
        if (stream->open != NULL && fits(stream->open, cost)) {
            return stream->open;
        }
        if (stream->open != NULL) {
            if (!close_group(stream)) {
                return stream->open; /* another thread launches in it */
            }
        } else if (!is_admitted && !admit(stream->context->device)) {
            is_admitted = true;
        } else if (!meets_blocking(stream)) {
            return open_group(stream, cost, work);
        } /* the lock was given up: the stream may be gone, or another one by now */
    }
    return NULL;
}

bool gy_meter_enter(struct gy_meter_ticket *ticket, CUstream handle, uint64_t work)
{
    if (inside != 0 || !gy_job_is_limited() || gy_meter_is_capturing(handle)) {
        return false;
    }
    char why[GY_REGION_TEXT_BYTES];
    lock();
    const bool is_running = start(why);
    unlock();
    if (!is_running && why[0] != '\0') {
        gy_job_tell("process %d has no limit: %s", (int)getpid(), why);
    }
    if (!is_running) {
        return false;
    }
    const struct gy_meter_stream_key key = gy_meter_key_of(handle);
    inside++;
    lock();
    const struct gy_cost *found = gy_costs_use(work);
    struct gy_cost cost = found != NULL ? *found : (struct gy_cost){.key = 0};
    struct gy_meter_group *group = group_for(&key, found != NULL ? &cost : NULL, work);
    if (group != NULL) {
        struct gy_meter_stream *stream = gy_meter_find_stream(&key);
        group->latest_ns = gy_meter_now();
        if (stream != NULL) {
            const double gap = gy_meter_gap(&stream->free_at, (double)group->latest_ns, cost.ns);
            group->gaps_ns += group->launches > 0 ? gap : 0;
        }
        group->sequence = ++launches_begun;
        launches_now++;
        group->launching++;
        group->launches++;
        group->known_ns += cost.ns;
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
                         (double)(gy_meter_now() - group->opened_ns) >= GY_METER_GROUP_NS;
    if (group->home == NULL && group->launching == 0) { /* its context has gone */
        detach(group);
        gy_meter_settle_unmeasured(group);
    } else if (is_full && group->home != NULL && atomic_load(&gy_meter.state) == GY_METER_RUNNING) {
        (void)close_group(group->home);
    }
    unlock();
    wake_thread();
    inside--;
}

/* ---- what is destroyed --------------------------------------------------------------------------- */

void gy_meter_forget_stream(CUstream handle)
{
    if (atomic_load(&gy_meter.state) != GY_METER_RUNNING || (uintptr_t)handle <= 2) {
        return;
    }
    gy_meter_close_stream(handle);
    const struct gy_meter_stream_key key = {.handle = handle};
    lock();
    struct gy_meter_stream *stream = find_unused(&key);
    if (stream != NULL && stream->open == NULL) {
        gy_meter_remove_stream(stream);
    }
    unlock();
}

/* Groups in which something is launched just now end with that launch. */
static void drop_open(const struct gy_meter_context *context)
{
    struct gy_meter_group *next;
    for (struct gy_meter_group *group = open_list; group != NULL; group = next) {
        next = group->next;
        if (group->context == context && group->launching == 0) {
            detach(group);
            gy_meter_settle_unmeasured(group);
        } else if (group->context == context) {
            group->home = NULL;
        }
    }
}

static void forget(struct gy_meter_context *context)
{
    drop_open(context);
    struct gy_meter_group **link = &gy_meter.flying;
    while (*link != NULL) {
        struct gy_meter_group *group = *link;
        if (group->context == context) {
            *link = group->next;
            atomic_fetch_sub(&gy_meter.flying_groups, 1);
            gy_meter_settle_unmeasured(group);
        } else {
            link = &group->next;
        }
    }
    gy_meter_bury(context);
}

/* The context, or one of the device where it is NULL, when nobody records in it any more (find_unused()). */
static struct gy_meter_context *find_context(CUcontext handle, CUdevice ordinal)
{
    for (;;) {
        struct gy_meter_context *context = gy_meter_contexts();
        while (context != NULL &&
               (handle != NULL ? context->handle != handle : context->ordinal != ordinal)) {
            context = context->next;
        }
        if (context == NULL || context->recording == 0) {
            return context;
        }
        let_others_record();
    }
}

/* Whoever polls asks about events of all contexts.  False: nothing is measured. */
static bool stop_polling(void)
{
    if (atomic_load(&gy_meter.state) != GY_METER_RUNNING) {
        return false;
    }
    gy_meter_close_all();
    gy_meter_poll();
    while (atomic_exchange(&gy_meter.is_polling, true)) {
        sched_yield();
    }
    return true;
}

/* Forget a context while nobody polls; whether there was one.  If it has gone, its events have, too. */
static bool forget_one(CUcontext handle, CUdevice ordinal, bool has_gone)
{
    CUevent *events = NULL;
    uint32_t count = 0;
    lock();
    struct gy_meter_context *context = find_context(handle, ordinal);
    if (context != NULL) {
        gy_meter_keep_event(context, context->reference);
        events = context->spare;
        count = has_gone ? 0 : context->spare_count;
        context->spare = NULL;
        context->spare_count = context->spare_room = 0;
        forget(context);
    }
    gy_costs_forget_all(); /* functions may have the same addresses afterwards */
    unlock();
    const CUstreamCaptureMode mode = gy_meter_relax();
    for (uint32_t i = 0; i < count && gy_cu.cuEventDestroy_v2 != NULL; i++) {
        (void)gy_cu.cuEventDestroy_v2(events[i]);
    }
    gy_meter_restore(mode);
    free(events);
    return context != NULL;
}

void gy_meter_forget_context(CUcontext context)
{
    if (context != NULL && stop_polling()) {
        (void)forget_one(context, 0, false);
        atomic_store(&gy_meter.is_polling, false);
    }
}

/* ---- primary contexts ----------------------------------------------------------------------------- */

enum { MOST_PRIMARIES = 64 };
static _Atomic(CUcontext) primaries[MOST_PRIMARIES]; /* by ordinal, as they were retained last */

void gy_meter_note_primary(CUdevice device, CUcontext context)
{
    if (device >= 0 && device < MOST_PRIMARIES) {
        atomic_store(&primaries[device], context);
    }
}

static CUcontext primary_of(CUdevice device)
{
    return device >= 0 && device < MOST_PRIMARIES ? atomic_load(&primaries[device]) : NULL;
}

bool gy_meter_primary_leaves(CUdevice device)
{
    const bool is_stopped = stop_polling();
    if (is_stopped) {
        lock();
        (void)find_context(primary_of(device), device);
        unlock();
    }
    return is_stopped;
}

void gy_meter_primary_left(bool is_stopped, CUdevice device, CUresult result)
{
    unsigned flags = 0;
    int is_active = 0;
    if (!is_stopped) {
        return;
    }
    if (result == CUDA_SUCCESS && gy_cu.cuDevicePrimaryCtxGetState != NULL &&
        gy_cu.cuDevicePrimaryCtxGetState(device, &flags, &is_active) != CUDA_SUCCESS) {
        is_active = 0;
    }
    if (result == CUDA_SUCCESS && is_active == 0) {
        const CUcontext handle = primary_of(device); /* NULL: any of the device may be it */
        while (forget_one(handle, device, true) && handle == NULL) {
        }
        gy_meter_note_primary(device, NULL);
    }
    atomic_store(&gy_meter.is_polling, false);
}
