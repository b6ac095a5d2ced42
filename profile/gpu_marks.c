/* SPDX-License-Identifier: MIT */
#include "profile/gpu_marks.h"

#include "base/alloc.h"
#include "profile/gpu_anchor.h"
#include "profile/session.h"

#include <assert.h>

#define MARKS_FIRST 1024u
#define MARKS_LIMIT 16384u

#ifdef GANTRY_TESTING
static atomic_uint marks_first = MARKS_FIRST;

void gy_gpu_marks_set_first(uint32_t first)
{
    atomic_store(&marks_first, first);
}
#else
static const uint32_t marks_first = MARKS_FIRST;
#endif

struct gy_gpu_mark_chunk {
    struct gy_gpu_mark_chunk *next;
    uint32_t count; /* the number of marks whose events exist */
    struct gy_gpu_mark marks[];
};

void gy_gpu_marks_init(struct gy_gpu_marks *marks, struct gy_context *context)
{
    marks->context = context;
    gy_mutex_init(&marks->lock, GY_RANK_LEAF);
}

void gy_gpu_marks_destroy_events(struct gy_gpu_marks *marks)
{
    for (struct gy_gpu_mark_chunk *chunk = marks->made_chunks; chunk != NULL; chunk = chunk->next) {
        for (uint32_t i = 0; i < chunk->count; i++) {
            gy_gpu_destroy_event(marks->context, chunk->marks[i].events[0].event);
            gy_gpu_destroy_event(marks->context, chunk->marks[i].events[1].event);
        }
    }
}

void gy_gpu_marks_fini(struct gy_gpu_marks *marks)
{
    while (marks->made_chunks != NULL) {
        struct gy_gpu_mark_chunk *next = marks->made_chunks->next;
        gy_free(marks->made_chunks);
        marks->made_chunks = next;
    }
    gy_mutex_fini(&marks->lock);
}

/* ---- making marks ------------------------------------------------------------------------------ */

/* Make up to `count` more marks; there are fewer when memory or events run out. */
static void make_marks(struct gy_gpu_marks *marks, uint32_t count)
{
    struct gy_gpu_mark_chunk *chunk = gy_zalloc(sizeof(*chunk) + count * sizeof(chunk->marks[0]));
    if (chunk == NULL) {
        return;
    }
    struct gy_gpu_mark *list = NULL;
    while (chunk->count < count) {
        struct gy_gpu_mark *mark = &chunk->marks[chunk->count];
        struct gy_lent_event *begin = &mark->events[0], *end = &mark->events[1];
        if (!gy_gpu_create_event(marks->context, &begin->event)) {
            break;
        }
        if (!gy_gpu_create_event(marks->context, &end->event)) {
            gy_gpu_destroy_event(marks->context, begin->event);
            break;
        }
        mark->begin = begin;
        mark->end = end;
        begin->lock = end->lock = &marks->lock;
        begin->holder = &mark->begin;
        end->holder = &mark->end;
        mark->next = list;
        list = mark;
        chunk->count++;
    }
    gy_mutex_lock(&marks->lock);
    if (list != NULL) {
        chunk->marks[0].next = marks->free;
        marks->free = list;
    }
    marks->free_count += chunk->count;
    marks->made += chunk->count;
    chunk->next = marks->made_chunks;
    marks->made_chunks = chunk;
    gy_mutex_unlock(&marks->lock);
}

void gy_gpu_marks_make_first(struct gy_gpu_marks *marks)
{
    gy_mutex_lock(&marks->lock);
    bool make = marks->made == 0;
    gy_mutex_unlock(&marks->lock);
    if (make) {
        make_marks(marks, marks_first);
    }
}

void gy_gpu_marks_provide(struct gy_gpu_marks *marks, uint64_t wanted)
{
    wanted += marks_first / 2; /* when no more than these are free, there are soon twice as many */
    gy_mutex_lock(&marks->lock);
    uint32_t free_count = marks->free_count, made = marks->made;
    gy_mutex_unlock(&marks->lock);
    uint32_t left = made < MARKS_LIMIT ? MARKS_LIMIT - made : 0;
    uint64_t more = wanted - free_count > made ? wanted - free_count : made;
    if (free_count < wanted && left != 0) {
        make_marks(marks, more < left ? (uint32_t)more : left);
    }
}

/* ---- free and in use --------------------------------------------------------------------------- */

struct gy_gpu_mark *gy_gpu_marks_take(struct gy_gpu_marks *marks, uint64_t generation)
{
    gy_mutex_lock(&marks->lock);
    struct gy_gpu_mark *mark = marks->free;
    if (mark != NULL) {
        marks->free = mark->next;
        marks->free_count--;
        marks->used = marks->generation == generation ? marks->used : 0;
        marks->resting = marks->generation == generation ? marks->resting : 0;
        marks->generation = generation;
        marks->used++;
        gy_lent_event_enter(mark->begin, GY_LENT_GIVEN);
        gy_lent_event_enter(mark->end, GY_LENT_GIVEN);
        mark->generation = generation;
        mark->counted = true;
    }
    gy_mutex_unlock(&marks->lock);
    return mark;
}

void gy_gpu_marks_rest(struct gy_gpu_marks *marks, struct gy_gpu_mark *mark, bool rests)
{
    gy_mutex_lock(&marks->lock);
    assert(mark->rests != rests);
    mark->rests = rests;
    if (mark->counted && mark->generation == marks->generation) {
        marks->resting += rests ? 1 : UINT32_MAX;
    }
    gy_gpu_batch_rest(mark->batch, rests);
    gy_mutex_unlock(&marks->lock);
}

/* The mark is no longer one of marks->used.  False: it was none of those whose slices may still be lost. */
static bool uncount(struct gy_gpu_marks *marks, struct gy_gpu_mark *mark) GY_REQUIRES(marks->lock)
{
    bool was = mark->counted && mark->generation == marks->generation;
    assert(!mark->rests); /* it was open then */
    mark->counted = false;
    marks->used -= was;
    return was && marks->closed != mark->generation;
}

void gy_gpu_marks_make_void(struct gy_gpu_marks *marks, struct gy_gpu_mark *mark)
{
    gy_mutex_lock(&marks->lock);
    (void)uncount(marks, mark);
    gy_mutex_unlock(&marks->lock);
}

void gy_gpu_marks_put(struct gy_gpu_marks *marks, struct gy_gpu_mark *mark, bool lost)
{
    gy_mutex_lock(&marks->lock);
    if (uncount(marks, mark) && lost) {
        gy_profile_count_lost(mark->generation, 1); /* before the recording can see that none is in use */
    }
    gy_lent_event_enter(mark->begin, GY_LENT_FREE);
    gy_lent_event_enter(mark->end, GY_LENT_FREE);
    mark->next = marks->free;
    marks->free = mark;
    marks->free_count++;
    gy_mutex_unlock(&marks->lock);
}

uint32_t gy_gpu_marks_awaited(struct gy_gpu_marks *marks, uint64_t generation)
{
    gy_mutex_lock(&marks->lock);
    uint32_t awaited = marks->generation == generation ? marks->used - marks->resting : 0;
    gy_mutex_unlock(&marks->lock);
    return awaited;
}

uint32_t gy_gpu_marks_close(struct gy_gpu_marks *marks, uint64_t generation)
{
    gy_mutex_lock(&marks->lock);
    uint32_t used = marks->generation == generation && marks->closed != generation ? marks->used : 0;
    marks->closed = generation;
    gy_mutex_unlock(&marks->lock);
    return used;
}

bool gy_gpu_marks_are_closed(struct gy_gpu_marks *marks, uint64_t generation)
{
    gy_mutex_lock(&marks->lock);
    bool closed = marks->closed == generation;
    gy_mutex_unlock(&marks->lock);
    return closed;
}

/* ---- queues ------------------------------------------------------------------------------------ */

void gy_gpu_marks_enqueue(struct gy_gpu_marks *marks, struct gy_gpu_mark *mark)
{
    struct gy_gpu_mark_queue *queue = &marks->queues[mark->stream];
    mark->next = NULL;
    gy_mutex_lock(&marks->lock);
    if (queue->first == NULL) {
        queue->first = mark;
        marks->busy |= (uint64_t)1 << mark->stream;
    } else {
        queue->last->next = mark;
    }
    queue->last = mark;
    atomic_fetch_add_explicit(&marks->queued, 1, memory_order_relaxed);
    gy_mutex_unlock(&marks->lock);
}

struct gy_gpu_mark *gy_gpu_marks_front(struct gy_gpu_marks *marks, uint32_t stream)
{
    gy_mutex_lock(&marks->lock);
    struct gy_gpu_mark *mark = marks->queues[stream].first;
    gy_mutex_unlock(&marks->lock);
    return mark;
}

void gy_gpu_marks_dequeue(struct gy_gpu_marks *marks, uint32_t stream)
{
    struct gy_gpu_mark_queue *queue = &marks->queues[stream];
    gy_mutex_lock(&marks->lock);
    queue->first = queue->first->next;
    if (queue->first == NULL) {
        marks->busy &= ~((uint64_t)1 << stream);
    }
    atomic_fetch_sub_explicit(&marks->queued, 1, memory_order_relaxed);
    gy_mutex_unlock(&marks->lock);
}

uint64_t gy_gpu_marks_busy(struct gy_gpu_marks *marks)
{
    gy_mutex_lock(&marks->lock);
    uint64_t busy = marks->busy;
    gy_mutex_unlock(&marks->lock);
    return busy;
}
