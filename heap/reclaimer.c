#include "heap/reclaimer.h"

#include "base/alloc.h"
#include "base/status.h"

#include <string.h>

struct gy_release {
    struct gy_release *next;
    void (*release)(void *arg);
    void *arg;
    uint64_t bytes;
    struct gy_reclaimer *reclaimer; /* UNBOUNDED */
    gy_thread thread;               /* UNBOUNDED */
    bool done;                      /* guarded by the reclaimer's lock; UNBOUNDED: the thread can be joined */
};

/* This thread is calling a release: one more must not wait for room that only it can make. */
static _Thread_local bool releasing;

static void count_queued(struct gy_reclaimer *r, uint64_t bytes) GY_REQUIRES(r->lock)
{
    r->stats.queued_bytes += bytes;
    if (r->stats.queued_bytes > r->stats.peak_bytes) {
        r->stats.peak_bytes = r->stats.queued_bytes;
    }
}

static void begin_release(struct gy_reclaimer *r) GY_REQUIRES(r->lock)
{
    r->running++;
    if (r->running > r->stats.peak_running) {
        r->stats.peak_running = r->running;
    }
}

static void end_release(struct gy_reclaimer *r, uint64_t bytes) GY_REQUIRES(r->lock)
{
    r->running--;
    r->stats.queued_bytes -= bytes;
    r->stats.releases++;
    r->stats.released_bytes += bytes;
    gy_cond_broadcast(&r->room);
}

static void call(void (*release)(void *arg), void *arg)
{
    bool before = releasing;
    releasing = true;
    release(arg);
    releasing = before;
}

/* ---- the thread ---- */

/* Call the oldest release; the lock is given up meanwhile. */
static void do_release(struct gy_reclaimer *r) GY_REQUIRES(r->lock) GY_NO_ANALYSIS
{
    struct gy_release *job = r->first;
    r->first = job->next;
    if (r->first == NULL) {
        r->last = NULL;
    }
    begin_release(r);
    gy_mutex_unlock(&r->lock);
    call(job->release, job->arg);
    gy_mutex_lock(&r->lock);
    end_release(r, job->bytes);
    gy_mutex_unlock(&r->lock);
    gy_free(job);
    gy_mutex_lock(&r->lock);
}

static void do_trims(struct gy_reclaimer *r) GY_REQUIRES(r->lock) GY_NO_ANALYSIS
{
    unsigned trims = r->trims;
    r->trims = 0;
    r->trimming = true;
    gy_mutex_unlock(&r->lock);
    uint64_t given = 0;
    for (int kind = 0; kind < GANTRY_MEMORY_KIND_COUNT; kind++) {
        uint64_t bytes = 0;
        if ((trims >> kind & 1u) != 0) {
            r->trim(r->user, (gantry_memory_kind)kind, &bytes);
        }
        given += bytes;
    }
    gy_mutex_lock(&r->lock);
    r->trimming = false;
    r->stats.slab_bytes += given;
    gy_cond_broadcast(&r->room);
}

static void reclaimer_main(void *arg)
{
    struct gy_reclaimer *r = arg;
    gy_mutex_lock(&r->lock);
    for (;;) {
        if (r->first != NULL) {
            do_release(r);
        } else if (r->trims != 0) {
            do_trims(r);
        } else if (r->closing) {
            break;
        } else {
            gy_cond_wait(&r->work, &r->lock);
        }
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

gantry_status gy_reclaimer_init(struct gy_reclaimer *r, gantry_reclaim_policy policy, uint64_t most_bytes,
                                void (*trim)(void *user, gantry_memory_kind kind, uint64_t *out_bytes),
                                void *user)
{
    memset(r, 0, sizeof(*r));
    r->policy = policy;
    r->most_bytes = most_bytes;
    r->trim = trim;
    r->user = user;
    gy_mutex_init(&r->lock, GY_RANK_HEAP);
    gantry_status status = gy_cond_init(&r->work);
    if (status != GANTRY_OK) {
        goto fini_lock;
    }
    status = gy_cond_init(&r->room);
    if (status != GANTRY_OK) {
        goto fini_work;
    }
    if (policy != GANTRY_RECLAIM_INLINE) {
        status = gy_thread_start(&r->thread, "gantry reclaim", reclaimer_main, r);
        if (status != GANTRY_OK) {
            goto fini_room;
        }
    }
    return GANTRY_OK;
fini_room:
    gy_cond_fini(&r->room);
fini_work:
    gy_cond_fini(&r->work);
fini_lock:
    gy_mutex_fini(&r->lock);
    return status;
}

void gy_reclaimer_fini(struct gy_reclaimer *r)
{
    while (reap(r, true)) { /* a release may have asked for another */
    }
    if (r->policy != GANTRY_RECLAIM_INLINE) {
        gy_mutex_lock(&r->lock);
        r->closing = true;
        gy_cond_signal(&r->work);
        gy_mutex_unlock(&r->lock);
        gy_thread_join(&r->thread);
    }
    gy_cond_fini(&r->room);
    gy_cond_fini(&r->work);
    gy_mutex_fini(&r->lock);
}

/* ---- work ---- */

/* On the calling thread. */
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

static void enqueue(struct gy_reclaimer *r, struct gy_release *job)
{
    gy_mutex_lock(&r->lock);
    bool waited = false;
    while (!releasing && r->stats.queued_bytes != 0 && r->stats.queued_bytes + job->bytes > r->most_bytes) {
        r->stats.waits += waited ? 0 : 1;
        waited = true;
        gy_cond_wait(&r->room, &r->lock);
    }
    count_queued(r, job->bytes);
    *(r->last != NULL ? &r->last->next : &r->first) = job;
    r->last = job;
    gy_cond_signal(&r->work);
    gy_mutex_unlock(&r->lock);
}

/* False: no thread could be had. */
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
    } else {
        r->running--;
        r->stats.queued_bytes -= job->bytes;
    }
    gy_mutex_unlock(&r->lock);
    return status == GANTRY_OK;
}

void gy_reclaimer_add(struct gy_reclaimer *r, void (*release)(void *arg), void *arg, uint64_t bytes)
{
    struct gy_release *job = r->policy != GANTRY_RECLAIM_INLINE ? gy_zalloc(sizeof(*job)) : NULL;
    if (job == NULL) { /* as asked, or better than never */
        release_here(r, release, arg, bytes);
        return;
    }
    *job = (struct gy_release){.release = release, .arg = arg, .bytes = bytes, .reclaimer = r};
    if (r->policy == GANTRY_RECLAIM_BOUNDED) {
        enqueue(r, job);
    } else if (!spawn(r, job)) {
        gy_free(job);
        release_here(r, release, arg, bytes);
    }
}

void gy_reclaimer_trim(struct gy_reclaimer *r, gantry_memory_kind kind)
{
    if (r->policy == GANTRY_RECLAIM_INLINE) {
        uint64_t given = 0;
        r->trim(r->user, kind, &given);
        gy_mutex_lock(&r->lock);
        r->stats.slab_bytes += given;
        gy_mutex_unlock(&r->lock);
        return;
    }
    gy_mutex_lock(&r->lock);
    r->trims |= 1u << kind;
    gy_cond_signal(&r->work);
    gy_mutex_unlock(&r->lock);
}

void gy_reclaimer_wait(struct gy_reclaimer *r)
{
    gy_mutex_lock(&r->lock);
    while (r->first != NULL || r->running != 0 || r->trims != 0 || r->trimming) {
        gy_cond_wait(&r->room, &r->lock);
    }
    gy_mutex_unlock(&r->lock);
}

gantry_reclaim_stats gy_reclaimer_stats(struct gy_reclaimer *r)
{
    gy_mutex_lock(&r->lock);
    gantry_reclaim_stats stats = r->stats;
    gy_mutex_unlock(&r->lock);
    return stats;
}
