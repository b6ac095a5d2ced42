/* SPDX-License-Identifier: MIT */
/* The way of a group from its events to its charge, and where events may be recorded. */
#include "limit/meter_inside.h"

#include "limit/costs.h"
#include "limit/job.h"
#include "limit/pace.h"
#include "limit/real.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

pthread_mutex_t gy_meter_lock = GY_METER_LOCK_INITIALIZER;
struct gy_meter_shared gy_meter = {.flying_end = &gy_meter.flying};

static struct gy_busy busy[GY_REGION_DEVICES]; /* guarded by the lock */

static void lock(void)
{
    pthread_mutex_lock(&gy_meter_lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&gy_meter_lock);
}

void gy_meter_forget_busy(void)
{
    memset(busy, 0, sizeof(busy));
}

/* ---- captures ---------------------------------------------------------------------------------- */

bool gy_meter_is_capturing(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (atomic_load_explicit(&gy_meter.captures, memory_order_acquire) == 0) {
        return false;
    }
    return gy_cu.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void gy_meter_capture_ended(void)
{
    unsigned count = atomic_load(&gy_meter.captures);
    while (count > 0 && !atomic_compare_exchange_weak(&gy_meter.captures, &count, count - 1)) {
    }
}

CUstreamCaptureMode gy_meter_relax(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    (void)gy_cu.cuThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

void gy_meter_restore(CUstreamCaptureMode mode)
{
    if (mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
        (void)gy_cu.cuThreadExchangeStreamCaptureMode(&mode);
    }
}

/* ---- reservations ----------------------------------------------------------------------------- */

void gy_meter_reserve(struct gy_meter_group *group, double ns)
{
    if (ns > group->reserved_ns) {
        gy_pace_reserve(gy_meter.place, group->context->device, (uint64_t)(ns - group->reserved_ns));
        group->reserved_ns = group->reserved_ns + (double)(uint64_t)(ns - group->reserved_ns);
    }
}

static uint64_t own_begun[GY_REGION_DEVICES]; /* groups of this process; guarded by the lock */

/* What other processes have in flight on the device, in groups. */
static bool do_others_compute(int common)
{
    const struct gy_region *region = gy_meter.common->region;
    const uint64_t all = atomic_load(&region->devices[common].in_flight);
    return all > atomic_load(&region->slots[gy_meter.common->slot].in_flight[common]);
}

static uint64_t others_begun(int common)
{
    return atomic_load(&gy_meter.common->region->devices[common].begun) - own_begun[common];
}

void gy_meter_note_others(struct gy_meter_group *group)
{
    const int common = group->context->common;
    if (common >= 0) {
        own_begun[common]++;
        atomic_fetch_add(&gy_meter.common->region->devices[common].begun, 1);
        gy_pace_reserve(gy_meter.common, common, 1);
        group->begun = others_begun(common);
        group->is_contended = do_others_compute(common);
    }
}

/* Have other processes computed since it began? */
static bool is_contended(const struct gy_meter_group *group)
{
    const int common = group->context->common;
    return common >= 0 &&
           (group->is_contended || others_begun(common) != group->begun || do_others_compute(common));
}

/* The group is over: it is charged, and is no more. */
void gy_meter_settle(struct gy_meter_group *group, double used)
{
    struct gy_meter_context *context = group->context;
    if (used > 0) { /* first: nobody may see the time neither in flight nor charged */
        gy_pace_charge(gy_meter.place, context->device, (uint64_t)used, gy_meter_now());
    }
    gy_pace_give_back(gy_meter.place, context->device, (uint64_t)group->reserved_ns);
    if (context->common >= 0) {
        gy_pace_give_back(gy_meter.common, context->common, 1);
    }
    gy_meter_keep_event(context, group->begin);
    gy_meter_keep_event(context, group->end);
    free(group);
    gy_meter_unref(context);
}

/* Its events cannot tell: it is charged what is known, or the host's time. */
void gy_meter_settle_unmeasured(struct gy_meter_group *group)
{
    const uint64_t now = gy_meter_now(), end = group->closed_ns != 0 ? group->closed_ns : now;
    const double host = end > group->opened_ns ? (double)(end - group->opened_ns) : 0;
    atomic_fetch_add(&gy_meter.place->region->devices[group->context->device].unmeasured, 1);
    gy_meter_settle(group, group->known_ns > 0 ? group->known_ns : host);
}

/* ---- the end of a group ------------------------------------------------------------------------ */

static bool elapsed(CUevent from, CUevent to, double *out_ns)
{
    float ms = 0;
    if (gy_cu.cuEventElapsedTime(&ms, from, to) != CUDA_SUCCESS) {
        return false;
    }
    *out_ns = (double)ms * 1e6;
    return ms > -1e9F && ms < 1e9F; /* and a number */
}

/* What the events of a group say; read without the lock. */
struct reading {
    bool is_good;
    double length_ns, since_ns; /* its interval, and its end since the reference */
};

static struct reading read_events(const struct gy_meter_group *group, CUevent reference)
{
    struct reading r = {.is_good = false};
    if (group->is_trusted) {
        r.is_good = true;
        r.length_ns = group->known_ns;
    } else if (group->begin != NULL) {
        r.is_good = elapsed(group->begin, group->end, &r.length_ns);
    } else {
        r.is_good = reference != NULL;
    }
    if (r.is_good && reference != NULL) {
        r.is_good = elapsed(reference, group->end, &r.since_ns);
    }
    return r;
}

/* It did not begin before. */
static uint64_t begun_at(const struct gy_meter_group *group)
{
    return group->begin != NULL ? group->asked_ns : group->opened_ns;
}

/* On the host's clock.  Times are read from an event that is not long ago, since they are floats. */
static double end_of(struct gy_meter_group *group, const struct reading *r, CUevent reference)
{
    struct gy_meter_context *context = group->context;
    if (reference == NULL || context->reference != reference) { /* it is the first */
        return (double)begun_at(group) + r->length_ns;
    }
    return context->reference_ns + r->since_ns;
}

/* The two clocks drift apart: no group begins before it was opened, and none ends after it was seen to have
 * ended. */
static double drift_at(const struct gy_meter_group *group, const struct reading *r, double end_ns)
{
    enum { MOST_NS = 20000 }; /* of 100 ms: no clock is worse */
    const double least = (double)begun_at(group) + r->length_ns, most = (double)gy_meter_now();
    const double drift = end_ns > most                            ? most - end_ns
                         : group->begin != NULL && end_ns < least ? least - end_ns
                                                                  : 0;
    return drift < -MOST_NS ? -MOST_NS : drift > MOST_NS ? MOST_NS : drift;
}

static void renew_reference(struct gy_meter_group *group, const struct reading *r, double end_ns)
{
    enum { OLD_NS = 100000000 };
    struct gy_meter_context *context = group->context;
    if (!context->is_dead && (context->reference == NULL || end_ns > context->reference_ns + OLD_NS)) {
        gy_meter_keep_event(context, context->reference);
        context->reference = group->end;
        context->reference_ns = end_ns + drift_at(group, r, end_ns);
        group->end = NULL;
    }
}

/* Of a group without an event at its begin: as near as the two clocks are, and never nothing. */
static double since_opened(const struct gy_meter_group *group, double end)
{
    enum { LEAST_NS = 1000 };
    const double length = end - (double)group->opened_ns;
    return length > LEAST_NS ? length : LEAST_NS;
}

static double without_bias(double length)
{
    return length > 2 * GY_METER_BIAS_NS ? length - GY_METER_BIAS_NS : length > 0 ? length / 2 : 0;
}

/* What a piece took that was charged by its cost, and had ended at `now`: the cost, unless the host saw it
 * run for much longer, which is what it is charged then. */
static double trusted_length(const struct gy_meter_group *group, double now)
{
    enum { CALLS_NS = 5000, LATE_NS = 30000 };
    const double seen = now - (double)group->opened_ns;
    if (seen <= group->known_ns * 1.25 + LATE_NS || is_contended(group)) {
        return seen > group->known_ns || seen <= 0 ? group->known_ns : seen;
    }
    gy_costs_doubt(group->key);
    return seen - CALLS_NS;
}

void gy_meter_settle_trusted(struct gy_meter_group *group)
{
    const double now = (double)gy_meter_now(), length = trusted_length(group, now);
    gy_meter_settle(group, gy_busy_add(&busy[group->context->device], now - length, now));
}

/* Its end has passed.  The lock is held. */
static void finish(struct gy_meter_group *group, const struct reading *r, CUevent reference)
{
    struct gy_meter_context *context = group->context;
    if (!r->is_good || context->is_dead) {
        gy_meter_settle_unmeasured(group);
        return;
    }
    const double end = end_of(group, r, reference);
    double length = group->trusted_ns;
    if (group->is_trusted) { /* it is asked about now and then: no time that is much longer than its cost is
                                its own */
        length = trusted_length(group, (double)gy_meter_now() - 2 * GY_METER_POLL_NS);
    } else {
        length += without_bias(group->begin != NULL ? r->length_ns : since_opened(group, end));
    }
    const double fresh = gy_busy_add(&busy[context->device], end - length, end);
    const bool is_shared = is_contended(group);
    if (group->is_single && group->launches == 1) {
        gy_costs_learn(group->key, length, is_shared);
    }
    renew_reference(group, r, end);
    gy_meter_settle(group, gy_meter_charge_of(group, length, fresh, is_shared));
}

/* A group that runs reserves the time that it has run, so that nothing else begins while it goes on for ever.
 * Whether it has run for too long now, which is told once. */
static bool note_running(struct gy_meter_group *group, bool has_begun)
{
    const struct gy_region_settings *settings = &gy_meter.place->settings;
    const uint64_t now = gy_meter_now();
    if (!has_begun) {
        return false;
    }
    group->began_ns = group->began_ns != 0 ? group->began_ns : now;
    const uint64_t ran = now - group->began_ns;
    gy_meter_reserve(group, (double)ran);
    if (settings->overrun_ms != 0 && ran > settings->overrun_ms * UINT64_C(1000000) && !group->is_overrun &&
        (group->begin != NULL || group->is_trusted)) { /* else others may run before it */
        group->is_overrun = true;
        atomic_fetch_add(&gy_meter.place->region->devices[group->context->device].overruns, 1);
        return true;
    }
    return false;
}

static void tell_overrun(const struct gy_meter_group *group)
{
    const struct gy_region_settings *settings = &gy_meter.place->settings;
    const bool kills = settings->overrun == GY_REGION_OVERRUN_KILL;
    gy_job_tell("process %d: work on device %d has run for more than %u ms%s", (int)getpid(),
                group->context->ordinal, settings->overrun_ms, kills ? ": the process is killed" : "");
    if (kills) {
        kill(getpid(), SIGKILL);
    }
}

/* Look at a group that flies; the caller alone has it.  Whether it is over. */
static bool look_at(struct gy_meter_group *group)
{
    lock();
    const bool is_dead = group->context->is_dead;
    const CUevent reference = group->context->reference;
    unlock();
    const CUresult result = is_dead ? CUDA_ERROR_CONTEXT_IS_DESTROYED : gy_cu.cuEventQuery(group->end);
    struct reading r = {.is_good = false};
    bool has_begun = false;
    if (result == CUDA_SUCCESS) {
        r = read_events(group, reference);
    } else if (result == CUDA_ERROR_NOT_READY) {
        has_begun =
            group->began_ns != 0 || group->begin == NULL || gy_cu.cuEventQuery(group->begin) == CUDA_SUCCESS;
    }
    lock();
    const bool is_over = result != CUDA_ERROR_NOT_READY || group->context->is_dead;
    bool is_overrun = false;
    if (is_over) {
        finish(group, &r, reference);
    } else {
        is_overrun = note_running(group, has_begun);
    }
    unlock();
    if (is_overrun) {
        tell_overrun(group);
    }
    return is_over;
}

/* ---- those that fly ------------------------------------------------------------------------------ */

void gy_meter_fly(struct gy_meter_group *group)
{
    group->state = GY_METER_FLYING;
    group->next = NULL;
    *gy_meter.flying_end = group;
    gy_meter.flying_end = &group->next;
    atomic_fetch_add(&gy_meter.flying_groups, 1);
}

/* A list in order. */
struct queue {
    struct gy_meter_group *first, **end;
};

static void append(struct queue *queue, struct gy_meter_group *group)
{
    *queue->end = group;
    while (*queue->end != NULL) {
        queue->end = &(*queue->end)->next;
    }
}

/* Streams of which a group has not ended, with the latest launch of that group: what lies behind it need not be
 * asked about.  A place is of several streams, and the latest to come has it. */
enum { STREAMS_IN_USE = 256 };
struct in_use {
    uint64_t stream, sequence; /* 0: none */
};

static struct in_use *in_use_of(struct in_use *all, const struct gy_meter_group *group)
{
    return &all[group->stream_number % STREAMS_IN_USE];
}

static bool lies_behind(struct in_use *all, const struct gy_meter_group *group)
{
    const struct in_use *one = in_use_of(all, group);
    return one->stream == group->stream_number && one->sequence < group->sequence;
}

/* Charge what has ended of the list, and keep the rest in `left`.  What is not looked at is returned. */
static struct gy_meter_group *look_at_all(struct gy_meter_group *list, struct queue *left)
{
    enum { MOST_LOOKS = 64 };
    struct in_use all[STREAMS_IN_USE] = {{0, 0}};
    int looks = 0;
    while (list != NULL && looks < MOST_LOOKS && atomic_load(&gy_meter.state) == GY_METER_RUNNING) {
        struct gy_meter_group *group = list;
        list = group->next;
        group->next = NULL;
        if (lies_behind(all, group)) {
            append(left, group);
            continue;
        }
        looks++;
        if (look_at(group)) {
            atomic_fetch_sub(&gy_meter.flying_groups, 1);
        } else {
            *in_use_of(all, group) = (struct in_use){group->stream_number, group->sequence};
            append(left, group);
        }
    }
    return list;
}

/* Charge what has ended.  One thread at a time does; others go on. */
void gy_meter_poll(void)
{
    if (atomic_load(&gy_meter.flying_groups) == 0 || atomic_exchange(&gy_meter.is_polling, true)) {
        return;
    }
    lock();
    struct gy_meter_group *list = gy_meter.flying;
    gy_meter.flying = NULL;
    gy_meter.flying_end = &gy_meter.flying;
    unlock();
    struct queue left = {.first = NULL}, all = {.first = NULL};
    left.end = &left.first;
    all.end = &all.first;
    const CUstreamCaptureMode mode = gy_meter_relax();
    list = look_at_all(list, &left);
    gy_meter_restore(mode);
    append(&all, list); /* what was not looked at comes first next time */
    append(&all, left.first);
    lock();
    append(&all, gy_meter.flying);
    gy_meter.flying = all.first;
    gy_meter.flying_end = all.first != NULL ? all.end : &gy_meter.flying;
    unlock();
    atomic_store(&gy_meter.is_polling, false);
}

/* ---- events on the program's streams ------------------------------------------------------------- */

/* An event on the stream of the group; NULL where there can be none.  Without the lock. */
CUevent gy_meter_record(struct gy_meter_group *group, uint64_t *asked_ns)
{
    const CUstreamCaptureMode mode = gy_meter_relax();
    const bool pushed = gy_meter_push(group->context->handle);
    CUevent event = gy_meter_is_capturing(group->stream.handle) ? NULL : gy_meter_take_event(group->context);
    *asked_ns = gy_meter_now();
    if (event != NULL && gy_cu.cuEventRecord(event, group->stream.handle) != CUDA_SUCCESS) {
        lock();
        gy_meter_keep_event(group->context, event);
        unlock();
        event = NULL;
    }
    gy_meter_pop(pushed);
    gy_meter_restore(mode);
    return event;
}
