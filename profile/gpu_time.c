/* SPDX-License-Identifier: MIT */
/* GPU time of tasks.
 *
 * A mark is a pair of timed events around a task's work on its stream.  Marks are made in chunks, when a
 * recording is first met, before a batch that needs more, and by the collecting thread when they run short,
 * so that begin and end cost one cuEventRecord each and never allocate.  A mark is free, open (held by the
 * dispatcher between begin and end) or queued: each stream has a queue in the order of the end records, which
 * the collecting thread empties from the front as far as the GPU has got.
 *
 * In a capture the records become nodes that record when the graph runs; such marks stay with the dispatcher
 * until the graph was launched, since until then their events have no time, or an old one.
 *
 * Host time: an anchor is an event recorded on a private stream, whose completion was seen between two
 * readings of the host clock; of several tries the tightest is kept.  A slice begins at
 *     anchor's host time + time from the anchor's event to the mark's
 * with an error of at most
 *     half the bracket + resolution of events + distance * difference of the clocks' rates.
 * The rates are compared at each new anchor; before there are two, ASSUMED_DRIFT stands in.  An anchor is
 * used for ANCHOR_AGE_NS and replaced when the next slice comes: this keeps the distance small, and with it
 * the third term and the rounding of cuEventElapsedTime(), which returns a float.  Where the GPU never had
 * time for an anchor, the end of the mark that is to be placed serves as one: it lies between its record and
 * the moment at which it was seen.
 *
 * Threads: begin and end run on the dispatcher thread, collect on the completion thread, and each owns the
 * fields whose comments say so.  Before a recording ends, the thread that ends it is the collecting thread
 * (`collecting` says who is) until the GPU has passed all marks, or for as long as it may wait.  The first
 * anchor of a recording is taken by the dispatcher thread, before any work it will place, and handed over by
 * `posted`.
 *
 * Errors: nothing here may fail a task.  A failing call is logged by the driver layer and ends the marks of
 * this recording (`refused`, `broken`), whose tasks are counted as lost. */
#include "profile/gpu_time.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "profile/cta.h"
#include "profile/gpu_anchor.h"
#include "profile/gpu_marks.h"
#include "profile/session.h"

#include <inttypes.h>
#include <stdio.h>

#define MARKS_OF_WAITING 8u /* a guess: tasks that one ready task makes ready within a batch */
#define STREAMS GY_GPU_MARK_STREAMS
#define ANCHOR_TRIES_FIRST 16
#define ANCHOR_TRIES 4
#define ANCHOR_AGE_NS 100000000u
#define ANCHOR_RETRY_NS 20000000u
#define ASSUMED_DRIFT 100e-6
#define EVENT_RESOLUTION_NS 500u

struct gy_gpu_time {
    struct gy_profile_recorder recorder; /* first; session.c's */
    struct gy_context *context;          /* immutable */
    struct gy_cta *ctas;                 /* immutable */
    uint64_t anchor_age_ns;              /* immutable */
    struct gy_gpu_marks marks;           /* see there */
    gy_mutex lock;                       /* rank LEAF */
    gy_cond left;                        /* with lock: no thread collects any more */
    bool collecting;                     /* guarded by lock: a thread is the collecting thread */
    struct gy_gpu_anchor posted;         /* guarded by lock: generation 0: nothing new */
    uint32_t posted_gpu;                 /* guarded by lock */

    struct gy_gpu_batches batches; /* see there */
    CUstream stream;               /* for anchors; immutable while a mark is queued */

    /* The dispatcher thread alone: */
    uint64_t prepared; /* the recording that prepare() was done for */
    bool refused;      /* no marks are given out any more in this recording */
    uint64_t records;
    struct gy_gpu_mark *captured, *last_captured; /* marks that ended in a capture that is not launched yet */
    struct gy_gpu_anchor draft;

    /* The collecting thread alone: */
    struct gy_gpu_anchor anchor, spare;
    uint64_t retry_ns; /* no try for a new anchor before this time */
    double drift;      /* the greatest difference of the clocks' rates */
    uint32_t gpu;      /* the context's number in the recording anchor.generation */
    uint64_t noted;    /* the bound that the recording was given */
    uint64_t broken;   /* the recording whose marks can no longer be read */
};

static uint64_t drain(struct gy_profile_recorder *self, uint64_t generation, uint64_t until_ns);

gantry_status gy_gpu_time_create(struct gy_context *context, struct gy_gpu_time **out)
{
    struct gy_gpu_time *time = gy_zalloc(sizeof(*time));
    if (time == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "profile: no memory for GPU times");
    }
    gantry_status status = gy_cond_init(&time->left);
    if (status != GANTRY_OK) {
        goto free_time;
    }
    status = gy_cta_create(context, &time->ctas);
    if (status != GANTRY_OK) {
        goto fini_cond;
    }
    time->context = context;
    time->anchor_age_ns = ANCHOR_AGE_NS;
    gy_mutex_init(&time->lock, GY_RANK_LEAF);
    gy_gpu_marks_init(&time->marks, context);
    gy_gpu_batches_init(&time->batches);
    time->recorder.drain = drain;
    gy_profile_add_recorder(&time->recorder);
    *out = time;
    return GANTRY_OK;
fini_cond:
    gy_cond_fini(&time->left);
free_time:
    gy_free(time);
    return status;
}

struct gy_cta *gy_gpu_time_ctas(struct gy_gpu_time *time)
{
    return time->ctas;
}

#ifdef GANTRY_TESTING
void gy_gpu_time_set_anchor_age(struct gy_gpu_time *time, uint64_t ns)
{
    time->anchor_age_ns = ns;
}
#endif

static void free_mark(struct gy_gpu_time *time, struct gy_gpu_mark *mark)
{
    gy_gpu_batch_leave(&time->batches, mark->batch);
    gy_gpu_marks_put(&time->marks, mark, false);
}

static void lose_mark(struct gy_gpu_time *time, struct gy_gpu_mark *mark)
{
    gy_gpu_batch_leave(&time->batches, mark->batch);
    gy_gpu_marks_put(&time->marks, mark, true);
}

/* ---- anchors --------------------------------------------------------------------------------- */

static uint64_t magnitude(int64_t value)
{
    return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

/* Collecting thread.  Replace the anchor, and learn how the clocks' rates differ.  When the GPU does not
 * answer, an anchor of the same recording stays, and its age goes into the bound. */
static bool renew_anchor(struct gy_gpu_time *time, uint64_t generation)
{
    bool have = time->anchor.generation == generation && time->anchor.host_ns != 0;
    if (gy_clock_ns() < time->retry_ns) {
        return have;
    }
    if (!gy_gpu_anchor_take(&time->spare, time->context, time->stream, generation,
                            have ? ANCHOR_TRIES : ANCHOR_TRIES_FIRST)) {
        time->retry_ns = gy_clock_ns() + ANCHOR_RETRY_NS;
        return have;
    }
    struct gy_gpu_anchor old = time->anchor;
    int64_t gpu_ns;
    if (have) {
        if (!gy_gpu_elapsed(time->context, old.event, time->spare.event, &gpu_ns)) {
            return false;
        }
        int64_t host_ns = (int64_t)(time->spare.host_ns - old.host_ns);
        if (host_ns > 0 && !old.rough) {
            uint64_t apart = magnitude(host_ns - gpu_ns) + old.bound_ns + time->spare.bound_ns;
            time->drift = (double)apart / (double)host_ns;
        }
    }
    time->anchor = time->spare;
    time->spare = old;
    return true;
}

/* Dispatcher thread.  This is done once; nothing is queued before it has succeeded. */
static bool create_anchor_objects(struct gy_gpu_time *time)
{
    struct gy_context *context = time->context;
    struct gy_gpu_anchor *const anchors[] = {&time->draft, &time->posted, &time->anchor, &time->spare};
    if (time->stream != NULL) {
        return true;
    }
    for (size_t i = 0; i < 4; i++) {
        if (!gy_gpu_create_event(time->context, &anchors[i]->event) ||
            !gy_gpu_create_event(time->context, &anchors[i]->trial)) {
            return false;
        }
    }
    /* The stream has the highest priority, and no other stream has it: streams of one priority may share a
     * queue of the device, and the anchor must not wait there behind somebody's kernel. */
    int least, greatest;
    return GY_CALL(context, cuCtxGetStreamPriorityRange(&least, &greatest)) == GANTRY_OK &&
           gy_context_create_stream(context, NULL, greatest, &time->stream) == GANTRY_OK;
}

/* Dispatcher thread: the first call of a recording. */
static void prepare(struct gy_gpu_time *time, uint64_t generation)
{
    time->prepared = generation;
    time->refused = true;
    if (!create_anchor_objects(time)) {
        return;
    }
    uint32_t gpu = gy_profile_gpu_of_context(generation, time->context);
    if (gpu == 0) {
        return;
    }
    gy_gpu_marks_make_first(&time->marks);
    time->draft.host_ns = 0;
    (void)gy_gpu_anchor_take(&time->draft, time->context, time->stream, generation,
                             ANCHOR_TRIES_FIRST); /* if this fails, collect() tries */
    time->draft.generation = generation;
    gy_mutex_lock(&time->lock);
    struct gy_gpu_anchor old = time->posted;
    time->posted = time->draft;
    time->posted_gpu = gpu;
    gy_mutex_unlock(&time->lock);
    old.generation = 0;
    time->draft = old;
    time->refused = gy_context_is_lost(time->context);
}

/* ---- dispatcher thread ----------------------------------------------------------------------- */

void gy_gpu_time_begin_batch(struct gy_gpu_time *time, uint32_t waiting, uint64_t number)
{
    uint64_t generation = gy_profile_generation();
    if (__builtin_expect(generation == 0, 1) || gy_context_is_lost(time->context)) {
        return;
    }
    if (time->prepared != generation) {
        prepare(time, generation);
    }
    if (!time->refused) {
        gy_gpu_marks_provide(&time->marks, (uint64_t)waiting * MARKS_OF_WAITING);
        gy_gpu_batches_begin(&time->batches, generation, number);
    }
}

void gy_gpu_time_end_batch(struct gy_gpu_time *time)
{
    gy_gpu_batches_end(&time->batches);
}

static gantry_status record(struct gy_gpu_time *time, struct gy_lent_event **event, CUstream stream,
                            struct gy_lane *lane)
{
    return lane != NULL ? gy_lane_lent_event(lane, event)
                        : GY_CALL(time->context, cuEventRecord((*event)->event, stream));
}

struct gy_gpu_mark *gy_gpu_time_begin(struct gy_gpu_time *time, CUstream stream, struct gy_lane *lane,
                                      uint32_t stream_index, const char *partition, const char *name,
                                      uint64_t id)
{
    uint64_t generation = gy_profile_generation();
    if (__builtin_expect(generation == 0, 1) || gy_context_is_lost(time->context) ||
        time->prepared != generation) {
        return NULL;
    }
    struct gy_gpu_mark *mark =
        time->refused || stream_index >= STREAMS ? NULL : gy_gpu_marks_take(&time->marks, generation);
    if (mark == NULL) {
        gy_profile_count_lost(generation, 1);
        return NULL;
    }
    mark->batch = gy_gpu_batches_hold(&time->batches, generation);
    mark->stream = stream_index;
    mark->is_void = false;
    mark->partition = partition;
    mark->id = id;
    mark->after = 0;
    mark->manager = 0;
    gy_ring_copy_name(mark->name, name);
    if (record(time, &mark->begin, stream, lane) != GANTRY_OK) {
        time->refused = true;
        lose_mark(time, mark);
        return NULL;
    }
    mark->begun = ++time->records;
    return mark;
}

void gy_gpu_time_describe(struct gy_gpu_mark *mark, uint64_t after, uint32_t manager)
{
    if (mark != NULL) {
        mark->after = after;
        mark->manager = manager <= GY_RING_MANAGER_MAX ? manager : 0;
    }
}

void gy_gpu_time_rest(struct gy_gpu_time *time, struct gy_gpu_mark *mark, bool rests)
{
    if (mark->rests != rests) {
        gy_gpu_marks_rest(&time->marks, mark, rests);
    }
}

void gy_gpu_time_end(struct gy_gpu_time *time, struct gy_gpu_mark *mark, CUstream stream,
                     struct gy_lane *lane)
{
    if (mark == NULL) {
        return;
    }
    gy_gpu_time_rest(time, mark, false);
    if (mark->generation != gy_profile_session()) {
        free_mark(time, mark);
        return;
    }
    uint64_t call_ns = gy_clock_ns();
    if (gy_context_is_lost(time->context) || record(time, &mark->end, stream, lane) != GANTRY_OK) {
        time->refused = true;
        lose_mark(time, mark);
        return;
    }
    mark->end_call_ns = call_ns;
    mark->ended = ++time->records;
    mark->next = NULL;
    if (lane == NULL) {
        gy_gpu_marks_enqueue(&time->marks, mark);
    } else if (time->captured == NULL) {
        time->captured = time->last_captured = mark;
    } else {
        time->last_captured->next = mark;
        time->last_captured = mark;
    }
}

void gy_gpu_time_drop(struct gy_gpu_time *time, struct gy_gpu_mark *mark, CUstream stream,
                      struct gy_lane *lane)
{
    if (mark != NULL) {
        gy_gpu_time_rest(time, mark, false);
        mark->is_void = true; /* the GPU passes its begin before another task may record that */
        gy_gpu_marks_make_void(&time->marks, mark);
        gy_gpu_time_end(time, mark, stream, lane);
    }
}

void gy_gpu_time_launched(struct gy_gpu_time *time)
{
    while (time->captured != NULL) {
        struct gy_gpu_mark *mark = time->captured;
        time->captured = mark->next;
        if (gy_context_is_lost(time->context)) {
            lose_mark(time, mark);
        } else {
            gy_gpu_marks_enqueue(&time->marks, mark);
        }
    }
}

/* ---- collecting thread ----------------------------------------------------------------------- */

static void adopt_posted(struct gy_gpu_time *time)
{
    gy_mutex_lock(&time->lock);
    if (time->posted.generation != 0) {
        struct gy_gpu_anchor old = time->anchor;
        time->anchor = time->posted;
        time->posted = old;
        time->posted.generation = 0;
        time->gpu = time->posted_gpu;
        time->drift = ASSUMED_DRIFT;
        time->noted = 0;
    }
    gy_mutex_unlock(&time->lock);
}

/* Compute the host times of a mark that the GPU has passed. */
static bool place(struct gy_gpu_time *time, const struct gy_gpu_mark *mark, uint64_t *begin_ns,
                  uint64_t *end_ns)
{
    int64_t offset, duration;
    if (!gy_gpu_elapsed(time->context, time->anchor.event, mark->begin->event, &offset) ||
        !gy_gpu_elapsed(time->context, mark->begin->event, mark->end->event, &duration)) {
        return false;
    }
    int64_t begin = (int64_t)time->anchor.host_ns + offset;
    *begin_ns = begin > 0 ? (uint64_t)begin : 0;
    *end_ns = *begin_ns + (duration > 0 ? (uint64_t)duration : 0);
    /* Work of one stream that did not overlap must not seem to overlap only because an anchor was replaced or
     * a float was rounded. */
    struct gy_gpu_mark_queue *queue = &time->marks.queues[mark->stream];
    if (queue->generation == mark->generation && mark->begun > queue->ended && *begin_ns < queue->end_ns) {
        *begin_ns = queue->end_ns;
        *end_ns = *end_ns > *begin_ns ? *end_ns : *begin_ns;
    }
    queue->generation = mark->generation;
    queue->ended = mark->ended;
    queue->end_ns = *end_ns;
    uint64_t distance = magnitude(offset);
    if (distance < magnitude(offset + duration)) {
        distance = magnitude(offset + duration);
    }
    uint64_t bound = time->anchor.bound_ns + EVENT_RESOLUTION_NS + (uint64_t)((double)distance * time->drift);
    if (bound > time->noted) {
        time->noted = bound;
        gy_profile_note_alignment(mark->generation, time->gpu, bound);
    }
    return true;
}

/* The GPU does not answer: the end of the mark becomes the anchor, and the mark gets the anchor's event once
 * it is placed. */
static CUevent anchor_at(struct gy_gpu_time *time, const struct gy_gpu_mark *mark)
{
    struct gy_gpu_anchor *anchor = &time->anchor;
    CUevent event = anchor->event;
    uint64_t width = gy_clock_ns() - mark->end_call_ns;
    anchor->event = mark->end->event;
    anchor->generation = mark->generation;
    anchor->host_ns = mark->end_call_ns + width / 2;
    anchor->bound_ns = width / 2 + 1;
    anchor->rough = true;
    return event;
}

static void emit(struct gy_gpu_time *time, struct gy_gpu_mark *mark, bool is_anchored)
{
    CUevent end = is_anchored ? mark->end->event : anchor_at(time, mark);
    struct gy_gpu_slice slice = {.gpu = time->gpu,
                                 .stream = mark->stream,
                                 .partition = mark->partition,
                                 .name = mark->name,
                                 .id = mark->id,
                                 .after = mark->after,
                                 .manager = mark->manager};
    bool placed = time->broken != mark->generation && place(time, mark, &slice.begin_ns, &slice.end_ns);
    mark->end->event = end;
    if (!placed) {
        time->broken = mark->generation;
        lose_mark(time, mark);
        return;
    }
    gy_profile_gpu_slice(mark->generation, &slice);
    gy_gpu_batch_add(mark->batch, slice.gpu, slice.begin_ns, slice.end_ns);
    free_mark(time, mark);
}

/* Make sure that there is a recent anchor of this recording.  False: the GPU does not answer now. */
static bool anchored(struct gy_gpu_time *time, uint64_t generation)
{
    const struct gy_gpu_anchor *anchor = &time->anchor;
    bool have = anchor->generation == generation && anchor->host_ns != 0 && !anchor->rough;
    if (time->broken == generation || (have && gy_clock_ns() - anchor->host_ns < time->anchor_age_ns)) {
        return true;
    }
    return renew_anchor(time, generation);
}

/* Empty a stream's queue as far as the GPU has passed it. */
static void collect_stream(struct gy_gpu_time *time, uint32_t stream, uint64_t generation)
{
    struct gy_context *context = time->context;
    for (struct gy_gpu_mark *mark; (mark = gy_gpu_marks_front(&time->marks, stream)) != NULL;) {
        if (gy_context_is_lost(context)) {
            gy_gpu_marks_dequeue(&time->marks, stream);
            lose_mark(time, mark);
            continue;
        }
        if (mark->generation != generation) { /* nobody wants the mark any more */
            gy_gpu_marks_dequeue(&time->marks, stream);
            free_mark(time, mark);
            continue;
        }
        CUresult result = context->driver->cuEventQuery(mark->end->event);
        if (result == CUDA_ERROR_NOT_READY) {
            return;
        }
        if (gy_context_check(context, result, "cuEventQuery(mark->end)", __FILE__, __LINE__) != GANTRY_OK) {
            time->broken = generation;
        }
        if (mark->is_void) {
            gy_gpu_marks_dequeue(&time->marks, stream);
            free_mark(time, mark);
            continue;
        }
        bool is_anchored = anchored(time, generation);
        gy_gpu_marks_dequeue(&time->marks, stream);
        emit(time, mark, is_anchored || time->broken == generation);
    }
}

/* Collecting thread.  Emit what the GPU has passed. */
static void collect(struct gy_gpu_time *time)
{
    adopt_posted(time);
    uint64_t generation = gy_profile_session();
    if (gy_gpu_marks_are_closed(&time->marks, generation)) {
        generation = 0; /* all of them are counted already */
    }
    uint64_t busy = gy_gpu_marks_busy(&time->marks);
    if (gy_profile_generation() != 0 && !gy_context_is_lost(time->context)) {
        gy_gpu_marks_provide(&time->marks, 0);
    }
    for (; busy != 0; busy &= busy - 1) {
        collect_stream(time, (uint32_t)__builtin_ctzll(busy), generation);
    }
}

/* Become the collecting thread.  False, never with `wait`: another thread is, and sees to it. */
static bool enter_collect(struct gy_gpu_time *time, bool wait)
{
    gy_mutex_lock(&time->lock);
    while (time->collecting && wait) {
        gy_cond_wait(&time->left, &time->lock);
    }
    bool mine = !time->collecting;
    time->collecting = true;
    gy_mutex_unlock(&time->lock);
    return mine;
}

static void leave_collect(struct gy_gpu_time *time)
{
    gy_mutex_lock(&time->lock);
    time->collecting = false;
    gy_cond_broadcast(&time->left);
    gy_mutex_unlock(&time->lock);
}

void gy_gpu_time_collect(struct gy_gpu_time *time)
{
    gy_cta_collect(time->ctas);
    if (atomic_load_explicit(&time->marks.queued, memory_order_relaxed) != 0 && enter_collect(time, false)) {
        collect(time);
        leave_collect(time);
    }
}

/* ---- the end of a recording ---------------------------------------------------------------------- */

/* Is there something that comes to its end by itself? */
static bool is_unfinished(struct gy_gpu_time *time, uint64_t generation)
{
    return gy_gpu_marks_awaited(&time->marks, generation) != 0 ||
           gy_gpu_batches_are_awaited(&time->batches, generation);
}

/* Collect until nothing of the recording is left, or the time is over. */
static void collect_until(struct gy_gpu_time *time, uint64_t generation, uint64_t until_ns)
{
    uint64_t pause_ns = 0;
    do {
        collect(time);
    } while (is_unfinished(time, generation) && !gy_context_is_lost(time->context) &&
             gy_profile_nap(&time->left, &time->lock, &pause_ns, until_ns));
}

/* Collecting thread.  Count what is left of the recording as lost, and say why.  Returns how many tasks had
 * not ended. */
static uint64_t give_up(struct gy_gpu_time *time, uint64_t generation, bool may_wait)
{
    const bool goes_on = is_unfinished(time, generation);
    uint32_t tasks = gy_gpu_marks_close(&time->marks, generation);
    uint32_t bars = gy_gpu_batches_begun(&time->batches, generation);
    if (tasks + bars == 0) {
        return 0;
    }
    gy_profile_count_lost(generation, (uint64_t)tasks + bars);
    const char *why = gy_context_is_lost(time->context) ? "the device is lost"
                      : !may_wait ? "a callback on a thread of the library stopped the recording"
                      : goes_on   ? "their work went on for too long after the stop"
                                  : "a bound on GPU time holds back the rest of their calls";
    gy_log(GANTRY_LOG_WARNING,
           "profile: GPU %d: %" PRIu32 " GPU tasks and the bars of %" PRIu32 " batches are lost: %s",
           time->context->info.ordinal, tasks, bars, why);
    return tasks;
}

/* A thread that the dispatcher or the completions wait for does not wait, and it makes no call of the driver,
 * since it may be in a callback whose stream is captured. */
static uint64_t drain(struct gy_profile_recorder *self, uint64_t generation, uint64_t until_ns)
{
    struct gy_gpu_time *time = (struct gy_gpu_time *)self; /* its first member */
    bool may_wait = !gy_thread_is_serving();
    (void)enter_collect(time, true);
    if (may_wait && is_unfinished(time, generation) && gy_context_push(time->context) == GANTRY_OK) {
        const struct gy_relaxed relaxed = gy_relaxed_begin(time->context);
        collect_until(time, generation, until_ns);
        (void)gy_relaxed_end(time->context, &relaxed);
        (void)gy_context_pop(time->context);
    }
    uint64_t unfinished = give_up(time, generation, may_wait);
    leave_collect(time);
    return unfinished;
}

/* ---- end ------------------------------------------------------------------------------------- */

static void drop_rest(struct gy_gpu_time *time)
{
    while (time->captured != NULL) {
        struct gy_gpu_mark *mark = time->captured;
        time->captured = mark->next;
        lose_mark(time, mark);
    }
    for (uint32_t stream = 0; stream < STREAMS; stream++) {
        for (struct gy_gpu_mark *mark; (mark = gy_gpu_marks_front(&time->marks, stream)) != NULL;) {
            gy_gpu_marks_dequeue(&time->marks, stream);
            lose_mark(time, mark);
        }
    }
}

static void destroy_objects(struct gy_gpu_time *time)
{
    struct gy_gpu_anchor *const anchors[] = {&time->draft, &time->posted, &time->anchor, &time->spare};
    for (size_t i = 0; i < 4; i++) {
        gy_gpu_destroy_event(time->context, anchors[i]->event);
        gy_gpu_destroy_event(time->context, anchors[i]->trial);
    }
    gy_gpu_marks_destroy_events(&time->marks);
    if (time->stream != NULL) {
        (void)GY_CALL(time->context, cuStreamDestroy(time->stream));
    }
}

/* A drain() in another thread comes before, or finds nothing of before to collect. */
void gy_gpu_time_move(struct gy_gpu_time *time)
{
    uint64_t pause_ns = 0;
    gy_gpu_batches_end(&time->batches); /* else a drain() may wait for its slice */
    (void)enter_collect(time, true);
    do {
        collect(time);
    } while (atomic_load_explicit(&time->marks.queued, memory_order_relaxed) != 0 &&
             gy_profile_nap(&time->left, &time->lock, &pause_ns, UINT64_MAX));
    gy_context_drop_stream(time->context, &time->stream);
    time->prepared = 0;
    leave_collect(time);
    gy_cta_move(time->ctas);
}

void gy_gpu_time_destroy(struct gy_gpu_time *time)
{
    if (time == NULL) {
        return;
    }
    bool pushed = gy_context_push(time->context) == GANTRY_OK;
    (void)enter_collect(time, true);
    if (pushed) {
        collect(time); /* the GPU is idle */
    }
    leave_collect(time);
    gy_profile_remove_recorder(&time->recorder);
    if (pushed) {
        gy_cta_destroy(time->ctas);
        time->ctas = NULL;
        destroy_objects(time);
        (void)gy_context_pop(time->context);
    }
    gy_cta_destroy(time->ctas); /* without a context, this ends what the host has */
    drop_rest(time);
    gy_gpu_batches_fini(&time->batches);
    gy_gpu_marks_fini(&time->marks);
    gy_cond_fini(&time->left);
    gy_mutex_fini(&time->lock);
    gy_free(time);
}
