/* SPDX-License-Identifier: MIT */
/* How records of blocks come from the GPU to the writer.
 *
 *            reserve()          end_batch()               collect()            done()
 *     IDLE ------------> OPEN ---------------> RETURNING ------------> WRITING --------> IDLE
 *      ^                                           |   (recording over)
 *      +-------------------------------------------+
 *
 * A buffer is device memory and page-locked memory of the same size.  There are large ones, whose number and
 * size the recording says, and small ones beside them, since every batch in flight holds a buffer, however
 * few its blocks are.  A batch takes as many as it needs, one after the other, first a small one; a launch
 * lies within one buffer.  At the end of the batch a stream of our own waits for the streams that launched
 * into it, copies the used part home, clears it on the device, and records an event.  The collecting thread
 * sees the event and passes the page-locked memory to the writer as it is.  So nothing is copied; and when
 * the writer cannot keep up, no buffer is idle, and blocks are known to be lost before their launch.  Slots
 * are given out by the host, so the device needs no counters.  A buffer is cleared after use, so a block that
 * wrote nothing is noticed.
 *
 * Clocks (device_clock.h) are compared when a recording is met, and by the collector when the latest
 * comparison is old.  With GANTRY_PROFILE_CLOCK_SM two sets of anchors lie behind a buffer's records: one is
 * written by a kernel on our stream when the buffer is opened, the other before it goes home.
 *
 * Errors: nothing here may fail a task.  A failing call is logged by the driver layer and ends the records of
 * this recording (`refused`), whose blocks are counted as lost. */
#include "profile/cta.h"

#include "profile/cta_inside.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "profile/kernel_names.h"

#define LAUNCHES 4096u /* the most launches of one buffer */
#define SMALL_LAUNCHES 64u
#define SMALL_PART 32u   /* a small buffer has this part of a large one's places */
#define SMALL_LEAST 512u /* with fewer places there are no small buffers */
#define SMALL_EACH 15u   /* small buffers for each large one */
#define SMALL_MOST 120u
#define HOST_PATIENCE_FIRST_NS 20000000u /* in a recording, before there is any work */

static void batch_done(struct gy_cta_batch *batch)
{
    gy_cta_set_state((struct gy_cta_buffer *)batch, GY_CTA_BUFFER_IDLE); /* its first member */
}

/* ---- making things ----------------------------------------------------------------------------- */

static gantry_status make_objects(struct gy_cta *cta)
{
    int least, greatest;
    gantry_status status = GY_CALL(cta->context, cuCtxGetStreamPriorityRange(&least, &greatest));
    if (status == GANTRY_OK && cta->stream == NULL) {
        status = gy_context_create_stream(cta->context, NULL, least, &cta->stream);
    }
    return status != GANTRY_OK ? status : gy_device_clock_open(&cta->clock);
}

static void free_buffers(struct gy_cta *cta)
{
    struct gy_context *context = cta->context;
    for (uint32_t i = 0; i < cta->buffer_count; i++) {
        if (cta->buffers[i].returned != NULL) {
            (void)GY_CALL(context, cuEventDestroy(cta->buffers[i].returned));
        }
    }
    if (cta->room.host != NULL) {
        (void)GY_CALL(context, cuMemFreeHost(cta->room.host));
    }
    if (cta->room.device != 0) {
        (void)GY_CALL(context, cuMemFree(cta->room.device));
    }
    gy_free(cta->room.launches);
    cta->room.host = NULL;
    cta->room.device = 0;
    cta->room.launches = NULL;
    cta->room.large = cta->room.small_places = 0;
    gy_mutex_lock(&cta->lock);
    struct gy_cta_buffer *buffers = cta->buffers;
    cta->buffers = NULL;
    cta->buffer_count = 0;
    gy_mutex_unlock(&cta->lock);
    gy_free(buffers);
}

/* The bytes from a buffer to the next. */
static size_t stride_of(const struct gy_cta *cta, uint32_t places)
{
    return (gy_cta_anchors_at(cta, places, cta->room.sm_clock ? 2 : 0) + 255) & ~(size_t)255;
}

/* The memory of all buffers at once, which takes fewer calls of the driver than one by one. */
static gantry_status make_memory(struct gy_cta *cta, size_t bytes, size_t launches)
{
    struct gy_context *context = cta->context;
    cta->room.launches = gy_zalloc_array(launches, sizeof(*cta->room.launches));
    gantry_status status = cta->room.launches != NULL ? GANTRY_OK : GANTRY_ERR_OUT_OF_HOST_MEMORY;
    if (status == GANTRY_OK) {
        status = GY_CALL(context, cuMemAlloc(&cta->room.device, bytes));
    }
    if (status == GANTRY_OK) {
        status = GY_CALL(context, cuMemHostAlloc(&cta->room.host, bytes, 0));
    }
    if (status == GANTRY_OK) {
        status = GY_CALL(context, cuMemsetD8Async(cta->room.device, 0, bytes, cta->stream));
    }
    return status;
}

/* Divide the memory among the buffers. */
static gantry_status make_each(struct gy_cta *cta)
{
    gantry_status status = GANTRY_OK;
    size_t at = 0, launches = 0;
    for (uint32_t i = 0; i < cta->buffer_count && status == GANTRY_OK; i++) {
        struct gy_cta_buffer *b = &cta->buffers[i];
        b->owner = cta;
        b->batch.done = batch_done;
        b->places = i < cta->room.large ? cta->room.large_places : cta->room.small_places;
        b->launch_room = i < cta->room.large ? LAUNCHES : SMALL_LAUNCHES;
        b->device = cta->room.device + at;
        b->host = (char *)cta->room.host + at;
        b->launches = cta->room.launches + launches;
        at += stride_of(cta, b->places);
        launches += b->launch_room;
        status = GY_CALL(cta->context, cuEventCreate(&b->returned, CU_EVENT_DISABLE_TIMING));
    }
    return status;
}

/* Make the buffers that the recording wants.  All buffers are idle. */
static gantry_status make_buffers(struct gy_cta *cta, const struct gy_cta_limits *limits)
{
    bool sm_clock = limits->clock == GANTRY_PROFILE_CLOCK_SM;
    if (cta->buffer_count != 0 && cta->room.large == limits->buffers &&
        cta->room.large_places == limits->ctas_per_buffer && cta->room.sm_clock == sm_clock) {
        return GANTRY_OK;
    }
    free_buffers(cta);
    uint32_t places = limits->ctas_per_buffer / SMALL_PART;
    uint32_t small = places < SMALL_LEAST ? 0 : limits->buffers * SMALL_EACH;
    small = small < SMALL_MOST ? small : SMALL_MOST;
    struct gy_cta_buffer *buffers = gy_zalloc_array(limits->buffers + small, sizeof(*buffers));
    if (buffers == NULL) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    gy_mutex_lock(&cta->lock);
    cta->buffers = buffers;
    cta->buffer_count = limits->buffers + small;
    gy_mutex_unlock(&cta->lock);
    cta->room.large = limits->buffers;
    cta->room.large_places = limits->ctas_per_buffer;
    cta->room.small_places = small != 0 ? places : 0;
    cta->room.sm_clock = sm_clock;
    gantry_status status = make_memory(
        cta, cta->room.large * stride_of(cta, cta->room.large_places) + small * stride_of(cta, places),
        (size_t)cta->room.large * LAUNCHES + (size_t)small * SMALL_LAUNCHES);
    if (status == GANTRY_OK) {
        status = make_each(cta);
    }
    if (status == GANTRY_OK) { /* they are cleared before any thread writes into them */
        status = GY_CALL(cta->context, cuStreamSynchronize(cta->stream));
    }
    if (status != GANTRY_OK) {
        free_buffers(cta);
    }
    return status;
}

static bool all_idle(struct gy_cta *cta)
{
    bool idle = true;
    gy_mutex_lock(&cta->lock);
    for (uint32_t i = 0; i < cta->buffer_count; i++) {
        idle = idle && cta->buffers[i].state == GY_CTA_BUFFER_IDLE;
    }
    gy_mutex_unlock(&cta->lock);
    return idle;
}

/* Dispatcher thread: prepare for the first batch of a recording with kernels to see. */
static void prepare(struct gy_cta *cta, uint64_t generation)
{
    struct gy_context *context = cta->context;
    struct gy_cta_limits limits = gy_profile_cta_limits(generation);
    cta->recording.prepared = generation;
    cta->recording.refused = true;
    cta->recording.is_wanted = limits.ctas != GANTRY_PROFILE_CTAS_OFF;
    cta->recording.told_too_large = false;
    if (limits.ctas == GANTRY_PROFILE_CTAS_OFF || gy_context_is_lost(context)) {
        return;
    }
    gy_cta_collect(cta); /* this takes buffers of a recording that has ended */
    if (make_objects(cta) != GANTRY_OK || (all_idle(cta) && make_buffers(cta, &limits) != GANTRY_OK)) {
        gy_log(GANTRY_LOG_WARNING, "profile: no buffers for blocks of kernels");
        return;
    }
    cta->recording.gpu = gy_profile_gpu_of_context(generation, context);
    cta->recording.refused = cta->recording.gpu == 0;
    cta->recording.is_compared = false;
}

/* ---- dispatcher thread ------------------------------------------------------------------------- */

void gy_cta_begin_batch(struct gy_cta *cta)
{
    uint64_t generation = gy_profile_generation();
    if (__builtin_expect(generation == 0, 1)) {
        return;
    }
    if (cta->recording.prepared != generation && (gy_kernel_names_exist() || cta->recording.has_copies)) {
        prepare(cta, generation);
    }
}

void gy_cta_compare_clocks(struct gy_cta *cta)
{
    if (gy_cta_is_ready(cta) && !cta->recording.is_compared) {
        cta->recording.is_compared = true;
        gy_device_clock_compare(&cta->clock, cta->recording.prepared, HOST_PATIENCE_FIRST_NS);
        gy_device_clock_compare_sms(&cta->clock, cta->recording.prepared, HOST_PATIENCE_FIRST_NS);
    }
}

bool gy_cta_is_ready(const struct gy_cta *cta)
{
    const uint64_t generation = gy_profile_generation();
    return __builtin_expect(generation != 0, 0) && cta->recording.prepared == generation &&
           !cta->recording.refused;
}

/* The first idle buffer of [first, end); NULL: there is none. */
static struct gy_cta_buffer *find_idle(struct gy_cta *cta, uint32_t first, uint32_t end)
{
    struct gy_cta_buffer *found = NULL;
    gy_mutex_lock(&cta->lock);
    for (uint32_t i = first; i < end && found == NULL; i++) {
        found = cta->buffers[i].state == GY_CTA_BUFFER_IDLE ? &cta->buffers[i] : NULL;
    }
    gy_mutex_unlock(&cta->lock);
    return found;
}

/* A batch's first buffer is a small one, the others are large; where there is none, the other kind if the
 * launch fits. */
static struct gy_cta_buffer *choose_buffer(struct gy_cta *cta, uint64_t records)
{
    bool fits_small = records <= cta->room.small_places;
    struct gy_cta_buffer *b =
        fits_small && cta->open == 0 ? find_idle(cta, cta->room.large, cta->buffer_count) : NULL;
    b = b != NULL ? b : find_idle(cta, 0, cta->room.large);
    return b != NULL || !fits_small ? b : find_idle(cta, cta->room.large, cta->buffer_count);
}

/* Open an idle buffer with room for so many records; false when there is none. */
static bool open_buffer(struct gy_cta *cta, uint64_t generation, uint64_t records)
{
    struct gy_cta_buffer *b = choose_buffer(cta, records);
    if (b == NULL) {
        return false;
    }
    b->generation = generation;
    b->batch.used = 0;
    b->batch.blocks = 0;
    b->batch.launch_count = 0;
    b->batch.gpu = cta->recording.gpu;
    b->batch.number = cta->batches;
    b->batch.anchor_count = 0;
    if (cta->room.sm_clock) {
        if (gy_device_clock_saturate(&cta->clock, cta->stream,
                                     b->device + gy_cta_anchors_at(cta, b->places, 0)) != GANTRY_OK) {
            cta->recording.refused = true;
            return false;
        }
        b->batch.anchor_count = cta->clock.room;
    }
    gy_cta_set_state(b, GY_CTA_BUFFER_OPEN);
    uint32_t *before = cta->open != 0 ? &cta->buffers[cta->open - 1].next_open : &cta->first_open;
    *before = cta->open = (uint32_t)(b - cta->buffers) + 1;
    b->next_open = 0;
    return true;
}

/* The device address of the launch's records, and what profile_kernel.h says of it; NULL: as reserve() says.
 */
static void *reserve(struct gy_cta *cta, uint64_t generation, const struct gy_cta_request *request)
{
    cta->recording.has_copies = cta->recording.has_copies || request->kernel == GY_KERNEL_COPIES;
    if (cta->recording.prepared != generation && !request->in_graph) {
        prepare(cta, generation); /* the recording began within this batch */
    }
    if (cta->recording.prepared != generation && request->kernel == GY_KERNEL_COPIES) {
        return NULL; /* nobody asked for these records, so none is lost */
    }
    uint32_t units = (request->ranges + GANTRY_RANGES_UNIT - 1) / GANTRY_RANGES_UNIT;
    uint32_t ranges = units * GANTRY_RANGES_UNIT;
    uint64_t records = request->ctas * (1 + (uint64_t)ranges);
    bool possible = cta->recording.prepared == generation && !cta->recording.refused &&
                    request->stream < GY_CTA_STREAMS && request->ranges <= GANTRY_RANGES_MOST &&
                    request->ctas <= cta->room.large_places && records <= cta->room.large_places;
    if (possible) {
        struct gy_cta_buffer *b = cta->open != 0 ? &cta->buffers[cta->open - 1] : NULL;
        bool fits = b != NULL && b->generation == generation && b->batch.launch_count < b->launch_room &&
                    records <= b->places - b->batch.used;
        possible = fits || open_buffer(cta, generation, records);
    }
    if (!possible) {
        if (cta->recording.prepared == generation && !cta->recording.refused &&
            !cta->recording.told_too_large && cta->room.large != 0 &&
            (records > cta->room.large_places || request->ranges > GANTRY_RANGES_MOST)) {
            cta->recording.told_too_large = true; /* once, as no other number of buffers helps */
            gy_kernel_tell_too_large(request->kernel, request->ctas, request->ranges, records,
                                     cta->room.large_places);
        }
        if (cta->recording.prepared != generation ||
            gy_profile_cta_limits(generation).ctas != GANTRY_PROFILE_CTAS_OFF) {
            gy_profile_count_lost_ctas(generation, request->ctas);
        }
        return NULL;
    }
    struct gy_cta_buffer *b = &cta->buffers[cta->open - 1];
    b->launches[b->batch.launch_count++] = (struct gy_cta_launch){.first = b->batch.used,
                                                                  .count = (uint32_t)request->ctas,
                                                                  .ranges = ranges,
                                                                  .kernel = request->kernel,
                                                                  .stream = request->stream,
                                                                  .id = request->id,
                                                                  .flow = request->flow,
                                                                  .launched_ns = gy_clock_ns(),
                                                                  .copies = request->copies};
    CUdeviceptr address = b->device + b->batch.used * sizeof(gantry_cta_record);
    b->batch.used += (uint32_t)records;
    gy_mutex_lock(&cta->lock);
    b->batch.blocks += (uint32_t)request->ctas; /* give_up() may read them */
    gy_mutex_unlock(&cta->lock);
    cta->streams |= UINT64_C(1) << request->stream;
    cta->natives[request->stream] = request->native;
    /* see profile_kernel.h and kernel/ranges.h */
    return (void *)(uintptr_t)(address | 2u | cta->room.sm_clock | (uint64_t)units << GANTRY_RANGES_SHIFT);
}

/* A launch without room has a slot all the same: the graph that it is in stays as it is. */
void *gy_cta_reserve(struct gy_cta *cta, const struct gy_cta_request *request)
{
    uint64_t generation = gy_profile_generation();
    if (__builtin_expect(generation == 0, 1)) {
        return NULL;
    }
    void *records = reserve(cta, generation, request);
    if (request->lane == NULL || cta->recording.prepared != generation || !cta->recording.is_wanted) {
        return records;
    }
    return (void *)(uintptr_t)gy_slot_args_give(request->lane->nodes, (uintptr_t)records);
}

static gantry_status join_stream(struct gy_cta *cta, CUevent *fork, CUstream native)
{
    gantry_status status = GANTRY_OK;
    if (*fork == NULL) {
        status = GY_CALL(cta->context, cuEventCreate(fork, CU_EVENT_DISABLE_TIMING));
    }
    if (status == GANTRY_OK) {
        status = GY_CALL(cta->context, cuEventRecord(*fork, native));
    }
    return status != GANTRY_OK ? status : GY_CALL(cta->context, cuStreamWaitEvent(cta->stream, *fork, 0));
}

/* Make our stream wait for everything launched into the batch's buffers. */
static gantry_status join_streams(struct gy_cta *cta)
{
    gantry_status status = GANTRY_OK;
    for (; cta->streams != 0 && status == GANTRY_OK; cta->streams &= cta->streams - 1) {
        uint32_t s = (uint32_t)__builtin_ctzll(cta->streams);
        status = join_stream(cta, &cta->forks[s], cta->natives[s]);
    }
    cta->streams = 0;
    return status;
}

/* Copy a part of the buffer home and clear it. */
static gantry_status fetch(struct gy_cta *cta, struct gy_cta_buffer *b, size_t at, size_t bytes)
{
    gantry_status status =
        GY_CALL(cta->context, cuMemcpyDtoHAsync((char *)b->host + at, b->device + at, bytes, cta->stream));
    return status != GANTRY_OK
               ? status
               : GY_CALL(cta->context, cuMemsetD8Async(b->device + at, 0, bytes, cta->stream));
}

static gantry_status return_buffer(struct gy_cta *cta, struct gy_cta_buffer *b)
{
    gantry_status status = GANTRY_OK;
    if (cta->room.sm_clock) {
        status = gy_device_clock_saturate(&cta->clock, cta->stream,
                                          b->device + gy_cta_anchors_at(cta, b->places, 1));
    }
    if (status == GANTRY_OK) {
        status = fetch(cta, b, 0, b->batch.used * sizeof(gantry_cta_record));
    }
    if (status == GANTRY_OK && cta->room.sm_clock) {
        size_t anchors = gy_cta_anchors_at(cta, b->places, 0);
        status = fetch(cta, b, anchors, gy_cta_anchors_at(cta, b->places, 2) - anchors);
    }
    if (status == GANTRY_OK) {
        status = GY_CALL(cta->context, cuEventRecord(b->returned, cta->stream));
    }
    return status;
}

uint64_t gy_cta_streams(const struct gy_cta *cta)
{
    return cta->streams;
}

void gy_cta_set_end(struct gy_cta *cta, uint32_t stream, CUstream native)
{
    cta->natives[stream] = native;
}

void gy_cta_end_batch(struct gy_cta *cta)
{
    if (__builtin_expect(cta->open == 0, 1)) {
        return;
    }
    gantry_status status = gy_context_is_lost(cta->context) ? GANTRY_ERR_DEVICE_LOST : join_streams(cta);
    for (uint32_t next = cta->first_open; next != 0;) {
        struct gy_cta_buffer *b = &cta->buffers[next - 1];
        next = b->next_open; /* once it is on its way, it may be opened again */
        status = status == GANTRY_OK ? return_buffer(cta, b) : status;
        if (status != GANTRY_OK) {
            /* Blocks may still write into the buffer, so it is not given out again in this recording. */
            cta->recording.refused = true;
            gy_profile_count_lost_ctas(b->generation, b->batch.blocks);
            gy_cta_set_state(b, GY_CTA_BUFFER_IDLE);
        } else {
            b->order = ++cta->orders;
            gy_cta_set_state(b, GY_CTA_BUFFER_RETURNING);
        }
    }
    cta->open = 0;
    cta->first_open = 0;
    cta->streams = 0;
    cta->batches++;
}

/* ---- life -------------------------------------------------------------------------------------- */

gantry_status gy_cta_create(struct gy_context *context, struct gy_cta **out)
{
    struct gy_cta *cta = gy_zalloc(sizeof(*cta));
    if (cta == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "profile: no memory for records of blocks");
    }
    gantry_status status = gy_cond_init(&cta->moved);
    if (status != GANTRY_OK) {
        gy_free(cta);
        return status;
    }
    cta->context = context;
    gy_device_clock_init(&cta->clock, context);
    cta->recorder.drain = gy_cta_drain;
    gy_mutex_init(&cta->lock, GY_RANK_LEAF);
    gy_profile_add_recorder(&cta->recorder);
    *out = cta;
    return GANTRY_OK;
}

static void destroy_objects(struct gy_cta *cta)
{
    struct gy_context *context = cta->context;
    for (uint32_t s = 0; s < GY_CTA_STREAMS; s++) {
        if (cta->forks[s] != NULL) {
            (void)GY_CALL(context, cuEventDestroy(cta->forks[s]));
        }
    }
    gy_device_clock_fini(&cta->clock);
    if (cta->stream != NULL) {
        (void)GY_CALL(context, cuStreamDestroy(cta->stream));
    }
}

void gy_cta_destroy(struct gy_cta *cta)
{
    if (cta == NULL) {
        return;
    }
    gy_cta_collect_all(cta);
    gy_profile_remove_recorder(&cta->recorder);
    gy_cta_wait_while(cta, GY_CTA_BUFFER_WRITING, 0, UINT64_MAX); /* the writer may still use some of them */
    free_buffers(cta);
    destroy_objects(cta);
    gy_cond_fini(&cta->moved);
    gy_mutex_fini(&cta->lock);
    gy_free(cta);
}
