/* SPDX-License-Identifier: MIT */
#include "heap/reclaimer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/handle.h"
#include "base/options.h"
#include "base/outside.h"
#include "base/status.h"
#include "heap/internal.h"

#include <assert.h>
#include <string.h>

struct gy_release {
    struct gy_release *next;
    void (*release)(void *arg);
    void *arg;
    uint64_t bytes;
    struct gy_reclaimer *reclaimer; /* set when UNBOUNDED */
    gy_thread thread;               /* set when UNBOUNDED */
    bool done; /* guarded by the reclaimer's lock; when UNBOUNDED: the thread can be joined */
};

/* This thread is calling a release: another release from it must not wait for room, which only this thread
 * can make. */
static _Thread_local bool releasing;

bool gy_reclaim_lane_is_valid(const struct gy_reclaim_lane *lane)
{
    const bool is_idle = lane->first == NULL && !lane->busy;
    return lane->state <= GY_LANE_RUNNING && (lane->first == NULL) == (lane->last == NULL) &&
           (lane->last == NULL || lane->last->next == NULL) && (!is_idle || lane->queued_bytes == 0);
}

bool gy_reclaimer_is_valid(const struct gy_reclaimer *r)
{
    uint64_t bytes = 0;
    for (int i = 0; i < GANTRY_MEMORY_KIND_COUNT; i++) {
        if (!gy_reclaim_lane_is_valid(&r->lanes[i])) {
            return false;
        }
        bytes += r->lanes[i].queued_bytes;
    }
    return bytes <= r->stats.queued_bytes && r->stats.queued_bytes <= r->stats.peak_bytes &&
           r->running <= r->stats.peak_running;
}

/* The only writer of a lane's state. */
static void enter(struct gy_reclaim_lane *lane, enum gy_reclaim_lane_state state)
{
    assert(lane->state != state && lane->state != GY_LANE_RUNNING);
    assert((state == GY_LANE_STARTING) == (lane->state == GY_LANE_IDLE));
    lane->state = state;
}

static void count_queued(struct gy_reclaimer *r, uint64_t bytes) GY_REQUIRES(r->lock)
{
    r->stats.queued_bytes += bytes;
    if (r->stats.queued_bytes > r->stats.peak_bytes) {
        r->stats.peak_bytes = r->stats.queued_bytes;
    }
    assert(gy_reclaimer_is_valid(r));
}

static void begin_release(struct gy_reclaimer *r) GY_REQUIRES(r->lock)
{
    r->running++;
    if (r->running > r->stats.peak_running) {
        r->stats.peak_running = r->running;
    }
    assert(r->running != 0 && gy_reclaimer_is_valid(r));
}

static void end_release(struct gy_reclaimer *r, uint64_t bytes) GY_REQUIRES(r->lock)
{
    assert(r->running != 0 && r->stats.queued_bytes >= bytes);
    r->running--;
    r->stats.queued_bytes -= bytes;
    r->stats.releases++;
    r->stats.released_bytes += bytes;
    assert(gy_reclaimer_is_valid(r));
    gy_cond_broadcast(&r->room);
}

static void call(void (*release)(void *arg), void *arg)
{
    bool before = releasing;
    releasing = true;
    const struct gy_inside *inside = gy_outside_begin();
    release(arg);
    gy_outside_end_of(inside, "a release of gantry_heap_reclaim()");
    releasing = before;
}

/* ---- the lanes ---- */

/* Has the time of the lane's trim come? */
static bool must_trim(const struct gy_reclaim_lane *lane)
{
    return lane->trim && (lane->trim_at_ns == 0 || gy_clock_ns() >= lane->trim_at_ns);
}

static bool has_work(const struct gy_reclaim_lane *lane)
{
    return lane->first != NULL || lane->grow || must_trim(lane);
}

/* Call the oldest release; the lock is given up meanwhile. */
static void do_release(struct gy_reclaimer *r, struct gy_reclaim_lane *lane)
    GY_REQUIRES(r->lock) GY_NO_ANALYSIS
{
    struct gy_release *job = lane->first;
    lane->first = job->next;
    if (lane->first == NULL) {
        lane->last = NULL;
    }
    assert(lane->busy && lane->queued_bytes >= job->bytes);
    begin_release(r);
    gy_mutex_unlock(&r->lock);
    call(job->release, job->arg);
    uint64_t bytes = job->bytes;
    gy_free(job);
    gy_mutex_lock(&r->lock);
    lane->queued_bytes -= bytes;
    end_release(r, bytes);
}

static void do_trim(struct gy_reclaimer *r, struct gy_reclaim_lane *lane) GY_REQUIRES(r->lock) GY_NO_ANALYSIS
{
    lane->trim = false;
    gy_mutex_unlock(&r->lock);
    uint64_t given = 0;
    r->trim(r->user, lane->kind, &given);
    gy_mutex_lock(&r->lock);
    r->stats.slab_bytes += given;
}

static void do_grow(struct gy_reclaimer *r, struct gy_reclaim_lane *lane) GY_REQUIRES(r->lock) GY_NO_ANALYSIS
{
    lane->grow = false;
    gy_mutex_unlock(&r->lock);
    r->grow(r->user, lane->kind);
    gy_mutex_lock(&r->lock);
}

/* Do the work of the lane, unless another thread does it already. */
static void serve(struct gy_reclaimer *r, struct gy_reclaim_lane *lane) GY_REQUIRES(r->lock)
{
    if (lane->busy) {
        return;
    }
    lane->busy = true;
    while (has_work(lane)) {
        if (lane->grow) {
            do_grow(r, lane);
        } else if (lane->first != NULL) {
            do_release(r, lane);
        } else {
            do_trim(r, lane);
        }
    }
    lane->busy = false;
    assert(gy_reclaim_lane_is_valid(lane) && lane->queued_bytes == 0);
    gy_cond_broadcast(&r->room);
}

static void lane_main(void *arg)
{
    struct gy_reclaim_lane *lane = arg;
    struct gy_reclaimer *r = lane->reclaimer;
    gy_thread_be_background();
    gy_mutex_lock(&r->lock);
    while (!r->closing) {
        if (has_work(lane) && !lane->busy) {
            serve(r, lane);
        } else if (lane->trim && !lane->busy) {
            gy_cond_wait_until(&lane->work, &r->lock, lane->trim_at_ns);
        } else {
            gy_cond_wait(&lane->work, &r->lock);
        }
    }
    gy_mutex_unlock(&r->lock);
}

void gy_reclaimer_open(struct gy_reclaimer *r, gantry_memory_kind kind)
{
    static const char *const names[GANTRY_MEMORY_KIND_COUNT] = {"reclaim device", "reclaim pinned",
                                                                "reclaim wc", "reclaim host"};
    struct gy_reclaim_lane *lane = &r->lanes[kind];
    gy_mutex_lock(&r->lock);
    bool ours = r->policy != GANTRY_RECLAIM_INLINE && lane->state == GY_LANE_IDLE && !r->closing;
    if (ours) {
        enter(lane, GY_LANE_STARTING);
    }
    gy_mutex_unlock(&r->lock);
    if (!ours) {
        return;
    }
    gantry_status status = gy_thread_start(&lane->thread, names[kind], lane_main, lane);
    gy_mutex_lock(&r->lock);
    enter(lane, status == GANTRY_OK ? GY_LANE_RUNNING : GY_LANE_IDLE);
    if (status == GANTRY_OK) {
        r->stats.threads++;
    } else {
        serve(r, lane); /* do the work that has come meanwhile */
    }
    gy_mutex_unlock(&r->lock);
}

/* ---- a thread per release ---- */

static void release_main(void *arg)
{
    struct gy_release *job = arg;
    struct gy_reclaimer *r = job->reclaimer;
    call(job->release, job->arg);
    gy_mutex_lock(&r->lock);
    job->done = true;
    end_release(r, job->bytes);
    gy_mutex_unlock(&r->lock);
}

/* Join the threads that have finished, or all; true when there were any. */
static bool reap(struct gy_reclaimer *r, bool all)
{
    struct gy_release *finished = NULL;
    gy_mutex_lock(&r->lock);
    for (struct gy_release **link = &r->threads; *link != NULL;) {
        struct gy_release *job = *link;
        if (job->done || all) {
            *link = job->next;
            job->next = finished;
            finished = job;
        } else {
            link = &job->next;
        }
    }
    gy_mutex_unlock(&r->lock);
    bool any = finished != NULL;
    while (finished != NULL) {
        struct gy_release *next = finished->next;
        gy_thread_join(&finished->thread);
        gy_free(finished);
        finished = next;
    }
    return any;
}

/* ---- life ---- */

static void fini_conditions(struct gy_reclaimer *r, int lanes)
{
    while (lanes > 0) {
        gy_cond_fini(&r->lanes[--lanes].work);
    }
    gy_guard_fini(&r->lock, &r->room);
}

gantry_status gy_reclaimer_init(struct gy_reclaimer *r, gantry_reclaim_policy policy, uint64_t most_bytes,
                                void (*trim)(void *user, gantry_memory_kind kind, uint64_t *out_bytes),
                                void (*grow)(void *user, gantry_memory_kind kind), void *user)
{
    memset(r, 0, sizeof(*r));
    r->policy = policy;
    r->most_bytes = most_bytes;
    r->trim = trim;
    r->grow = grow;
    r->user = user;
    gantry_status status = gy_guard_init(&r->lock, GY_RANK_HEAP, &r->room);
    if (status != GANTRY_OK) {
        return status;
    }
    for (int i = 0; i < GANTRY_MEMORY_KIND_COUNT; i++) {
        r->lanes[i].reclaimer = r;
        r->lanes[i].kind = (gantry_memory_kind)i;
        status = gy_cond_init(&r->lanes[i].work);
        if (status != GANTRY_OK) {
            fini_conditions(r, i);
            return status;
        }
    }
    return GANTRY_OK;
}

static bool is_done(const struct gy_reclaimer *r) GY_REQUIRES(r->lock)
{
    bool done = r->running == 0;
    for (int i = 0; i < GANTRY_MEMORY_KIND_COUNT; i++) {
        done = done && !r->lanes[i].busy && !has_work(&r->lanes[i]);
    }
    return done;
}

static void wait_until_done(struct gy_reclaimer *r)
{
    gy_mutex_lock(&r->lock);
    while (!is_done(r)) {
        gy_cond_wait(&r->room, &r->lock);
    }
    gy_mutex_unlock(&r->lock);
}

void gy_reclaimer_fini(struct gy_reclaimer *r)
{
    do { /* a release may have asked for another */
        wait_until_done(r);
    } while (reap(r, true));
    gy_mutex_lock(&r->lock);
    r->closing = true;
    for (int i = 0; i < GANTRY_MEMORY_KIND_COUNT; i++) {
        gy_cond_signal(&r->lanes[i].work);
    }
    gy_mutex_unlock(&r->lock);
    for (int i = 0; i < GANTRY_MEMORY_KIND_COUNT; i++) {
        if (r->lanes[i].state == GY_LANE_RUNNING) {
            gy_thread_join(&r->lanes[i].thread);
        }
    }
    assert(r->running == 0 && r->stats.queued_bytes == 0 && gy_reclaimer_is_valid(r));
    fini_conditions(r, GANTRY_MEMORY_KIND_COUNT);
}

/* ---- work ---- */

/* Call the release on the calling thread. */
static void release_here(struct gy_reclaimer *r, void (*release)(void *arg), void *arg, uint64_t bytes)
{
    gy_mutex_lock(&r->lock);
    count_queued(r, bytes);
    begin_release(r);
    gy_mutex_unlock(&r->lock);
    call(release, arg);
    gy_mutex_lock(&r->lock);
    end_release(r, bytes);
    gy_mutex_unlock(&r->lock);
}

static void enqueue(struct gy_reclaimer *r, struct gy_reclaim_lane *lane, struct gy_release *job)
{
    gy_reclaimer_open(r, lane->kind);
    gy_mutex_lock(&r->lock);
    bool waited = false;
    while (!releasing && lane->queued_bytes != 0 && lane->queued_bytes + job->bytes > r->most_bytes) {
        r->stats.waits += waited ? 0 : 1;
        waited = true;
        gy_cond_wait(&r->room, &r->lock);
    }
    count_queued(r, job->bytes);
    lane->queued_bytes += job->bytes;
    *(lane->last != NULL ? &lane->last->next : &lane->first) = job;
    lane->last = job;
    assert(gy_reclaim_lane_is_valid(lane));
    if (lane->state == GY_LANE_IDLE) {
        serve(r, lane); /* doing it here is better than never */
    }
    gy_cond_signal(&lane->work);
    gy_mutex_unlock(&r->lock);
}

/* Start a thread for the release.  False: no thread could be had. */
static bool spawn(struct gy_reclaimer *r, struct gy_release *job)
{
    (void)reap(r, false);
    gy_mutex_lock(&r->lock);
    count_queued(r, job->bytes);
    begin_release(r);
    gy_mutex_unlock(&r->lock);
    gantry_status status = gy_thread_start(&job->thread, "gantry release", release_main, job);
    gy_mutex_lock(&r->lock);
    if (status == GANTRY_OK) {
        job->next = r->threads;
        r->threads = job;
        r->stats.threads++;
    } else {
        r->running--;
        r->stats.queued_bytes -= job->bytes;
    }
    gy_mutex_unlock(&r->lock);
    return status == GANTRY_OK;
}

/* As gantry_heap_reclaim_kind(). */
static void add_release(struct gy_reclaimer *r, gantry_memory_kind kind, void (*release)(void *arg),
                        void *arg, uint64_t bytes)
{
    struct gy_release *job = r->policy != GANTRY_RECLAIM_INLINE ? gy_zalloc(sizeof(*job)) : NULL;
    if (job == NULL) { /* the policy asks for this, or there is no memory for a job */
        release_here(r, release, arg, bytes);
        return;
    }
    *job = (struct gy_release){.release = release, .arg = arg, .bytes = bytes, .reclaimer = r};
    if (r->policy == GANTRY_RECLAIM_BOUNDED) {
        enqueue(r, &r->lanes[kind], job);
    } else if (!spawn(r, job)) {
        gy_free(job);
        release_here(r, release, arg, bytes);
    }
}

void gy_reclaimer_grow(struct gy_reclaimer *r, gantry_memory_kind kind)
{
    struct gy_reclaim_lane *lane = &r->lanes[kind];
    gy_mutex_lock(&r->lock);
    lane->grow = lane->state == GY_LANE_RUNNING;
    gy_mutex_unlock(&r->lock);
    gy_cond_signal(&lane->work);
}

void gy_reclaimer_trim(struct gy_reclaimer *r, gantry_memory_kind kind, uint64_t delay_ns)
{
    struct gy_reclaim_lane *lane = &r->lanes[kind];
    gy_mutex_lock(&r->lock);
    lane->trim = true;
    /* If the lane has no thread of its own, nobody would look later. */
    lane->trim_at_ns = delay_ns != 0 && lane->state != GY_LANE_IDLE ? gy_clock_ns() + delay_ns : 0;
    if (lane->state == GY_LANE_IDLE) {
        serve(r, lane);
    }
    gy_mutex_unlock(&r->lock);
    gy_cond_signal(&lane->work); /* unlocked, so that the thread need not wait: this is a free() */
}

static gantry_reclaim_stats read_stats(struct gy_reclaimer *r)
{
    gy_mutex_lock(&r->lock);
    gantry_reclaim_stats stats = r->stats;
    gy_mutex_unlock(&r->lock);
    return stats;
}

/* ---- the heap's functions ---- */

gantry_status gantry_heap_reclaim_kind(gantry_heap *heap, gantry_memory_kind kind, void (*release)(void *arg),
                                       void *arg, uint64_t bytes)
{
    GY_ACCEPT(HEAP, heap);
    if (heap == NULL || release == NULL) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_heap_reclaim: %s is NULL",
                       heap == NULL ? "heap" : "release");
    }
    if ((unsigned)kind >= GANTRY_MEMORY_KIND_COUNT) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "gantry_heap_reclaim_kind: unknown memory kind %d",
                       (int)kind);
    }
    add_release(&heap->reclaimer, kind, release, arg, bytes);
    return GANTRY_OK;
}

gantry_status gantry_heap_reclaim(gantry_heap *heap, void (*release)(void *arg), void *arg, uint64_t bytes)
{
    return gantry_heap_reclaim_kind(heap, GANTRY_MEMORY_HOST, release, arg, bytes);
}

gantry_status gantry_heap_reclaim_wait(gantry_heap *heap)
{
    GY_NEED(HEAP, heap);
    wait_until_done(&heap->reclaimer);
    return GANTRY_OK;
}

gantry_status gantry_heap_get_reclaim_stats(gantry_heap *heap, gantry_reclaim_stats *stats)
{
    GY_NEED(HEAP, heap);
    gantry_reclaim_stats ours = read_stats(&heap->reclaimer);
    return gy_stats_export(stats, &ours, sizeof(ours), "gantry_heap_get_reclaim_stats");
}
