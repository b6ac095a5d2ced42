/* SPDX-License-Identifier: MIT */
/* The records of blocks on their way from a buffer that has come home to the writer. */
#include "profile/cta_inside.h"

#include "base/clock.h"

#define HOST_PATIENCE_NS 2000000u

void gy_cta_set_state(struct gy_cta_buffer *buffer, enum gy_cta_buffer_state state)
{
    gy_mutex_lock(&buffer->owner->lock);
    buffer->owner->returning -= buffer->state == GY_CTA_BUFFER_RETURNING;
    buffer->owner->returning += state == GY_CTA_BUFFER_RETURNING;
    buffer->state = state;
    gy_cond_broadcast(&buffer->owner->moved);
    gy_mutex_unlock(&buffer->owner->lock);
}

/* Find the returning buffer that was sent home first; NULL: there is none. */
static struct gy_cta_buffer *oldest_returning(struct gy_cta *cta)
{
    struct gy_cta_buffer *oldest = NULL;
    gy_mutex_lock(&cta->lock);
    for (uint32_t i = 0; i < cta->buffer_count && cta->returning != 0; i++) {
        struct gy_cta_buffer *b = &cta->buffers[i];
        if (b->state == GY_CTA_BUFFER_RETURNING && (oldest == NULL || b->order < oldest->order)) {
            oldest = b;
        }
    }
    gy_mutex_unlock(&cta->lock);
    return oldest;
}

void gy_cta_passed(struct gy_cta *cta, uint32_t stream, uint64_t recorded_ns)
{
    if (stream >= GY_CTA_STREAMS) {
        return;
    }
    gy_mutex_lock(&cta->lock);
    gy_passes_note(&cta->passes, stream, recorded_ns, gy_clock_ns());
    gy_mutex_unlock(&cta->lock);
}

static void hand_over(struct gy_cta *cta, struct gy_cta_buffer *b)
{
    b->batch.seen_ns = gy_clock_ns();
    gy_mutex_lock(&cta->lock);
    for (uint32_t l = 0; l < b->batch.launch_count; l++) {
        const struct gy_cta_launch *launch = &b->launches[l]; /* its records return later than it ends */
        b->launches[l].ended_ns = gy_passes_end(&cta->passes, launch->stream % GY_CTA_STREAMS,
                                                launch->launched_ns, b->batch.seen_ns);
    }
    gy_mutex_unlock(&cta->lock);
    b->batch.records = b->host;
    b->batch.launches = b->launches;
    b->batch.offset_count = gy_device_clock_offsets(&cta->clock, b->generation, &b->batch.offsets);
    for (uint32_t set = 0; set < 2 && b->batch.anchor_count != 0; set++) {
        b->batch.anchors[set] =
            (const void *)((const char *)b->host + gy_cta_anchors_at(cta, b->places, set));
    }
    if (b->generation != 0 && b->generation == gy_profile_session()) {
        gy_device_clock_compare(&cta->clock, b->generation, HOST_PATIENCE_NS);
    }
    b->batch.clock = gy_device_clock_latest(&cta->clock, b->generation);
    gy_cta_set_state(b, GY_CTA_BUFFER_WRITING);
    if (!gy_profile_add_ctas(b->generation, &b->batch)) {
        gy_cta_set_state(b, GY_CTA_BUFFER_IDLE);
    }
}

/* Hand over the records that have come back, and wait until then for those that have not. */
static void collect(struct gy_cta *cta, uint64_t until_ns)
{
    uint64_t pause_ns = 0;
    struct gy_context *context = cta->context;
    struct gy_cta_buffer *b;
    while ((b = oldest_returning(cta)) != NULL) {
        CUresult result =
            gy_context_is_lost(context) ? CUDA_ERROR_UNKNOWN : context->driver->cuEventQuery(b->returned);
        if (result == CUDA_ERROR_NOT_READY) {
            if (!gy_profile_nap(&cta->moved, &cta->lock, &pause_ns, until_ns)) {
                return;
            }
            continue;
        }
        if (gy_context_is_lost(context) ||
            gy_context_check(context, result, "cuEventQuery(returned)", __FILE__, __LINE__) != GANTRY_OK) {
            gy_profile_count_lost_ctas(b->generation, b->batch.blocks);
            gy_cta_set_state(b, GY_CTA_BUFFER_IDLE);
            continue;
        }
        hand_over(cta, b);
    }
}

/* One thread at a time collects; another one waits, or leaves the work to that one. */
static bool enter_collect(struct gy_cta *cta, bool wait)
{
    gy_mutex_lock(&cta->lock);
    while (cta->collecting && wait) {
        gy_cond_wait(&cta->moved, &cta->lock);
    }
    bool mine = !cta->collecting;
    cta->collecting = true;
    gy_mutex_unlock(&cta->lock);
    return mine;
}

static void leave_collect(struct gy_cta *cta)
{
    gy_mutex_lock(&cta->lock);
    cta->collecting = false;
    gy_cond_broadcast(&cta->moved);
    gy_mutex_unlock(&cta->lock);
}

void gy_cta_collect(struct gy_cta *cta)
{
    if (oldest_returning(cta) != NULL && enter_collect(cta, false)) {
        collect(cta, 0);
        leave_collect(cta);
    }
}

/* Wait until then for as long as a buffer of the recording, of any when it is 0, is in this state. */
void gy_cta_wait_while(struct gy_cta *cta, enum gy_cta_buffer_state state, uint64_t generation,
                       uint64_t until_ns)
{
    gy_mutex_lock(&cta->lock);
    for (uint32_t i = 0; i < cta->buffer_count && gy_clock_ns() < until_ns;) {
        const struct gy_cta_buffer *b = &cta->buffers[i];
        if (b->state == state && (generation == 0 || b->generation == generation)) {
            gy_cond_wait_until(&cta->moved, &cta->lock, until_ns);
        } else {
            i++;
        }
    }
    gy_mutex_unlock(&cta->lock);
}

/* Count the blocks as lost whose records did not come back in time, or belong to a batch that goes on. */
static void give_up(struct gy_cta *cta, uint64_t generation)
{
    uint64_t blocks = 0;
    gy_mutex_lock(&cta->lock);
    for (uint32_t i = 0; i < cta->buffer_count; i++) {
        struct gy_cta_buffer *b = &cta->buffers[i];
        if ((b->state == GY_CTA_BUFFER_OPEN || b->state == GY_CTA_BUFFER_RETURNING) &&
            b->generation == generation) {
            blocks += b->batch.blocks;
            b->generation = 0;
        }
    }
    gy_mutex_unlock(&cta->lock);
    if (blocks != 0) {
        gy_profile_count_lost_ctas(generation, blocks);
    }
}

uint64_t gy_cta_drain(struct gy_profile_recorder *self, uint64_t generation, uint64_t until_ns)
{
    struct gy_cta *cta = (struct gy_cta *)self; /* its first member */
    (void)enter_collect(cta, true);
    if (!gy_thread_is_serving()) { /* a batch that goes on may need this thread */
        gy_cta_wait_while(cta, GY_CTA_BUFFER_OPEN, generation, until_ns);
    }
    if (oldest_returning(cta) != NULL && gy_context_push(cta->context) == GANTRY_OK) {
        const struct gy_relaxed relaxed = gy_relaxed_begin(cta->context);
        collect(cta, until_ns);
        (void)gy_relaxed_end(cta->context, &relaxed);
        (void)gy_context_pop(cta->context);
    }
    give_up(cta, generation);
    leave_collect(cta);
    return 0;
}

void gy_cta_collect_all(struct gy_cta *cta)
{
    (void)enter_collect(cta, true); /* another thread may be in drain() */
    collect(cta, UINT64_MAX);
    leave_collect(cta);
}

/* What a drain() in another thread may use goes under its feet but for this: it comes before, or finds
 * nothing to do until the next batch. */
void gy_cta_move(struct gy_cta *cta)
{
    (void)enter_collect(cta, true);
    collect(cta, UINT64_MAX);
    gy_context_drop_stream(cta->context, &cta->stream);
    gy_context_drop_stream(cta->context, &cta->clock.stream);
    cta->recording.prepared = 0;
    leave_collect(cta);
}
