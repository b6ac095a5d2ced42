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

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "profile/device_clock.h"
#include "profile/kernel_names.h"
#include "profile/passes.h"

#include <stdio.h>

#define STREAMS GY_PASSES_STREAMS
#define LAUNCHES 4096u /* the most launches of one buffer */
#define SMALL_LAUNCHES 64u
#define SMALL_PART 32u   /* a small buffer has this part of a large one's places */
#define SMALL_LEAST 512u /* with fewer places there are no small buffers */
#define SMALL_EACH 15u   /* small buffers for each large one */
#define SMALL_MOST 120u
#define HOST_PATIENCE_NS 2000000u
#define HOST_PATIENCE_FIRST_NS 20000000u /* in a recording, before there is any work */

enum buffer_state { BUFFER_IDLE, BUFFER_OPEN, BUFFER_RETURNING, BUFFER_WRITING };

struct buffer {
    struct gy_cta_batch batch;       /* first: done() gets it */
    struct gy_cta *owner;            /* immutable */
    enum buffer_state state;         /* guarded by owner->lock; set_state() is the only writer */
    atomic_uint_fast64_t generation; /* atomic: the recording it belongs to; 0: nobody wants it any more */
    uint64_t order;     /* the number of its end_batch(); the thread that moves the buffer writes it */
    uint32_t next_open; /* index + 1 of the one that the batch opened next; the dispatcher thread's */
    uint32_t places;    /* immutable while not idle, like all fields below: room for records */
    uint32_t launch_room;
    CUdeviceptr device;
    void *host;
    CUevent returned;
    struct gy_cta_launch *launches;
};

struct gy_cta {
    struct gy_profile_recorder recorder; /* first; session.c's */
    struct gy_context *context;          /* immutable */
    gy_mutex lock;                       /* rank LEAF */
    gy_cond moved;          /* with lock: a buffer has changed its state, or no thread is in collect() */
    bool collecting;        /* guarded by lock: a thread is in collect() */
    struct buffer *buffers; /* guarded by lock; the dispatcher thread changes it while all are idle */
    uint32_t buffer_count;  /* guarded by lock; likewise */
    uint32_t returning;     /* guarded by lock: buffers in that state; set_state() writes it */
    struct gy_device_clock clock; /* its own guards */
    struct gy_passes passes;      /* guarded by lock */

    /* The dispatcher thread alone: */
    uint64_t prepared; /* the recording that prepare() was done for */
    bool has_copies; /* batched copies were launched in a recording: later recordings want buffers from their
                        begin */
    bool refused;
    bool told_too_large;      /* a launch that no buffer of this recording has room for has been logged */
    uint32_t gpu;             /* its number in the recording */
    uint32_t large;           /* the first so many buffers are large, the others small */
    uint32_t ctas_per_buffer; /* places of a large buffer */
    uint32_t small_places;    /* of a small one; 0: there is none */
    CUdeviceptr device;       /* all buffers' memory */
    void *host;               /* likewise */
    struct gy_cta_launch *launches; /* likewise */
    bool sm_clock;                  /* blocks read their SM's clock, and the buffers have anchors */
    uint32_t open;                  /* index + 1 of the buffer to reserve from; 0: none */
    uint32_t first_open;            /* index + 1 of the one that the batch opened first */
    uint64_t streams;               /* bit s: natives[s] has launched into the batch's buffers */
    uint64_t orders, batches;
    CUstream natives[STREAMS];
    CUevent forks[STREAMS]; /* made when first used */
    CUstream stream;        /* immutable once it is made, which is before anything returns */
};

/* The only writer of buffer->state. */
static void set_state(struct buffer *buffer, enum buffer_state state)
{
    gy_mutex_lock(&buffer->owner->lock);
    buffer->owner->returning -= buffer->state == BUFFER_RETURNING;
    buffer->owner->returning += state == BUFFER_RETURNING;
    buffer->state = state;
    gy_cond_broadcast(&buffer->owner->moved);
    gy_mutex_unlock(&buffer->owner->lock);
}

static void batch_done(struct gy_cta_batch *batch)
{
    set_state((struct buffer *)batch, BUFFER_IDLE); /* its first member */
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
    if (cta->host != NULL) {
        (void)GY_CALL(context, cuMemFreeHost(cta->host));
    }
    if (cta->device != 0) {
        (void)GY_CALL(context, cuMemFree(cta->device));
    }
    gy_free(cta->launches);
    cta->host = NULL;
    cta->device = 0;
    cta->launches = NULL;
    cta->large = cta->small_places = 0;
    gy_mutex_lock(&cta->lock);
    struct buffer *buffers = cta->buffers;
    cta->buffers = NULL;
    cta->buffer_count = 0;
    gy_mutex_unlock(&cta->lock);
    gy_free(buffers);
}

/* The offset in a buffer of its anchors' set 0 or 1. */
static size_t anchors_at(const struct gy_cta *cta, uint32_t places, uint32_t set)
{
    return (size_t)places * sizeof(gantry_cta_record) + set * gy_device_clock_anchor_bytes(&cta->clock);
}

/* The bytes from a buffer to the next. */
static size_t stride_of(const struct gy_cta *cta, uint32_t places)
{
    return (anchors_at(cta, places, cta->sm_clock ? 2 : 0) + 255) & ~(size_t)255;
}

/* The memory of all buffers at once, which takes fewer calls of the driver than one by one. */
static gantry_status make_memory(struct gy_cta *cta, size_t bytes, size_t launches)
{
    struct gy_context *context = cta->context;
    cta->launches = gy_zalloc_array(launches, sizeof(*cta->launches));
    gantry_status status = cta->launches != NULL ? GANTRY_OK : GANTRY_ERR_OUT_OF_HOST_MEMORY;
    if (status == GANTRY_OK) {
        status = GY_CALL(context, cuMemAlloc(&cta->device, bytes));
    }
    if (status == GANTRY_OK) {
        status = GY_CALL(context, cuMemHostAlloc(&cta->host, bytes, 0));
    }
    if (status == GANTRY_OK) {
        status = GY_CALL(context, cuMemsetD8Async(cta->device, 0, bytes, cta->stream));
    }
    return status;
}

/* Divide the memory among the buffers. */
static gantry_status make_each(struct gy_cta *cta)
{
    gantry_status status = GANTRY_OK;
    size_t at = 0, launches = 0;
    for (uint32_t i = 0; i < cta->buffer_count && status == GANTRY_OK; i++) {
        struct buffer *b = &cta->buffers[i];
        b->owner = cta;
        b->batch.done = batch_done;
        b->places = i < cta->large ? cta->ctas_per_buffer : cta->small_places;
        b->launch_room = i < cta->large ? LAUNCHES : SMALL_LAUNCHES;
        b->device = cta->device + at;
        b->host = (char *)cta->host + at;
        b->launches = cta->launches + launches;
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
    if (cta->buffer_count != 0 && cta->large == limits->buffers &&
        cta->ctas_per_buffer == limits->ctas_per_buffer && cta->sm_clock == sm_clock) {
        return GANTRY_OK;
    }
    free_buffers(cta);
    uint32_t places = limits->ctas_per_buffer / SMALL_PART;
    uint32_t small = places < SMALL_LEAST ? 0 : limits->buffers * SMALL_EACH;
    small = small < SMALL_MOST ? small : SMALL_MOST;
    struct buffer *buffers = gy_zalloc_array(limits->buffers + small, sizeof(*buffers));
    if (buffers == NULL) {
        return GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    gy_mutex_lock(&cta->lock);
    cta->buffers = buffers;
    cta->buffer_count = limits->buffers + small;
    gy_mutex_unlock(&cta->lock);
    cta->large = limits->buffers;
    cta->ctas_per_buffer = limits->ctas_per_buffer;
    cta->small_places = small != 0 ? places : 0;
    cta->sm_clock = sm_clock;
    gantry_status status =
        make_memory(cta, cta->large * stride_of(cta, cta->ctas_per_buffer) + small * stride_of(cta, places),
                    (size_t)cta->large * LAUNCHES + (size_t)small * SMALL_LAUNCHES);
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
        idle = idle && cta->buffers[i].state == BUFFER_IDLE;
    }
    gy_mutex_unlock(&cta->lock);
    return idle;
}

/* Dispatcher thread: prepare for the first batch of a recording with kernels to see. */
static void prepare(struct gy_cta *cta, uint64_t generation)
{
    struct gy_context *context = cta->context;
    struct gy_cta_limits limits = gy_profile_cta_limits(generation);
    cta->prepared = generation;
    cta->refused = true;
    cta->told_too_large = false;
    if (limits.ctas == GANTRY_PROFILE_CTAS_OFF || gy_context_is_lost(context)) {
        return;
    }
    gy_cta_collect(cta); /* this takes buffers of a recording that has ended */
    if (make_objects(cta) != GANTRY_OK || (all_idle(cta) && make_buffers(cta, &limits) != GANTRY_OK)) {
        gy_log(GANTRY_LOG_WARNING, "profile: no buffers for blocks of kernels");
        return;
    }
    char name[64];
    snprintf(name, sizeof(name), "GPU %d: %.40s", context->info.ordinal, context->info.name);
    cta->gpu = gy_profile_gpu_of(generation, context, name);
    cta->refused = cta->gpu == 0;
    gy_device_clock_compare(&cta->clock, generation, HOST_PATIENCE_FIRST_NS);
    gy_device_clock_compare_sms(&cta->clock, HOST_PATIENCE_FIRST_NS);
}

/* ---- dispatcher thread ------------------------------------------------------------------------- */

void gy_cta_begin_batch(struct gy_cta *cta)
{
    uint64_t generation = gy_profile_generation();
    if (__builtin_expect(generation == 0, 1)) {
        return;
    }
    if (cta->prepared != generation && (gy_kernel_names_exist() || cta->has_copies)) {
        prepare(cta, generation);
    }
}

/* The first idle buffer of [first, end); NULL: there is none. */
static struct buffer *find_idle(struct gy_cta *cta, uint32_t first, uint32_t end)
{
    struct buffer *found = NULL;
    gy_mutex_lock(&cta->lock);
    for (uint32_t i = first; i < end && found == NULL; i++) {
        found = cta->buffers[i].state == BUFFER_IDLE ? &cta->buffers[i] : NULL;
    }
    gy_mutex_unlock(&cta->lock);
    return found;
}

/* A batch's first buffer is a small one, the others are large; where there is none, the other kind if the
 * launch fits. */
static struct buffer *choose_buffer(struct gy_cta *cta, uint64_t records)
{
    bool fits_small = records <= cta->small_places;
    struct buffer *b = fits_small && cta->open == 0 ? find_idle(cta, cta->large, cta->buffer_count) : NULL;
    b = b != NULL ? b : find_idle(cta, 0, cta->large);
    return b != NULL || !fits_small ? b : find_idle(cta, cta->large, cta->buffer_count);
}

/* Open an idle buffer with room for so many records; false when there is none. */
static bool open_buffer(struct gy_cta *cta, uint64_t generation, uint64_t records)
{
    struct buffer *b = choose_buffer(cta, records);
    if (b == NULL) {
        return false;
    }
    b->generation = generation;
    b->batch.used = 0;
    b->batch.blocks = 0;
    b->batch.launch_count = 0;
    b->batch.gpu = cta->gpu;
    b->batch.number = cta->batches;
    b->batch.anchor_count = 0;
    if (cta->sm_clock) {
        if (gy_device_clock_saturate(&cta->clock, cta->stream, b->device + anchors_at(cta, b->places, 0)) !=
            GANTRY_OK) {
            cta->refused = true;
            return false;
        }
        b->batch.anchor_count = cta->clock.room;
    }
    set_state(b, BUFFER_OPEN);
    uint32_t *before = cta->open != 0 ? &cta->buffers[cta->open - 1].next_open : &cta->first_open;
    *before = cta->open = (uint32_t)(b - cta->buffers) + 1;
    b->next_open = 0;
    return true;
}

void *gy_cta_reserve(struct gy_cta *cta, const struct gy_cta_request *request)
{
    uint64_t generation = gy_profile_generation();
    if (__builtin_expect(generation == 0, 1)) {
        return NULL;
    }
    cta->has_copies = cta->has_copies || request->kernel == GY_KERNEL_COPIES;
    if (cta->prepared != generation && !request->in_graph) {
        prepare(cta, generation); /* the recording began within this batch */
    }
    if (cta->prepared != generation && request->kernel == GY_KERNEL_COPIES) {
        return NULL; /* nobody asked for these records, so none is lost */
    }
    uint32_t units = (request->ranges + GANTRY_RANGES_UNIT - 1) / GANTRY_RANGES_UNIT;
    uint32_t ranges = units * GANTRY_RANGES_UNIT;
    uint64_t records = request->ctas * (1 + (uint64_t)ranges);
    bool possible = cta->prepared == generation && !cta->refused && request->stream < STREAMS &&
                    request->ranges <= GANTRY_RANGES_MOST && request->ctas <= cta->ctas_per_buffer &&
                    records <= cta->ctas_per_buffer;
    if (possible) {
        struct buffer *b = cta->open != 0 ? &cta->buffers[cta->open - 1] : NULL;
        bool fits = b != NULL && b->generation == generation && b->batch.launch_count < b->launch_room &&
                    records <= b->places - b->batch.used;
        possible = fits || open_buffer(cta, generation, records);
    }
    if (!possible) {
        if (cta->prepared == generation && !cta->refused && !cta->told_too_large && cta->large != 0 &&
            (records > cta->ctas_per_buffer || request->ranges > GANTRY_RANGES_MOST)) {
            cta->told_too_large = true; /* once, as no other number of buffers helps */
            gy_kernel_tell_too_large(request->kernel, request->ctas, request->ranges, records,
                                     cta->ctas_per_buffer);
        }
        if (cta->prepared != generation ||
            gy_profile_cta_limits(generation).ctas != GANTRY_PROFILE_CTAS_OFF) {
            gy_profile_count_lost_ctas(generation, request->ctas);
        }
        return NULL;
    }
    struct buffer *b = &cta->buffers[cta->open - 1];
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
    return (void *)(uintptr_t)(address | 2u | cta->sm_clock | (uint64_t)units << GANTRY_RANGES_SHIFT);
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
static gantry_status fetch(struct gy_cta *cta, struct buffer *b, size_t at, size_t bytes)
{
    gantry_status status =
        GY_CALL(cta->context, cuMemcpyDtoHAsync((char *)b->host + at, b->device + at, bytes, cta->stream));
    return status != GANTRY_OK
               ? status
               : GY_CALL(cta->context, cuMemsetD8Async(b->device + at, 0, bytes, cta->stream));
}

static gantry_status return_buffer(struct gy_cta *cta, struct buffer *b)
{
    gantry_status status = GANTRY_OK;
    if (cta->sm_clock) {
        status =
            gy_device_clock_saturate(&cta->clock, cta->stream, b->device + anchors_at(cta, b->places, 1));
    }
    if (status == GANTRY_OK) {
        status = fetch(cta, b, 0, b->batch.used * sizeof(gantry_cta_record));
    }
    if (status == GANTRY_OK && cta->sm_clock) {
        size_t anchors = anchors_at(cta, b->places, 0);
        status = fetch(cta, b, anchors, anchors_at(cta, b->places, 2) - anchors);
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
        struct buffer *b = &cta->buffers[next - 1];
        next = b->next_open; /* once it is on its way, it may be opened again */
        status = status == GANTRY_OK ? return_buffer(cta, b) : status;
        if (status != GANTRY_OK) {
            /* Blocks may still write into the buffer, so it is not given out again in this recording. */
            cta->refused = true;
            gy_profile_count_lost_ctas(b->generation, b->batch.blocks);
            set_state(b, BUFFER_IDLE);
        } else {
            b->order = ++cta->orders;
            set_state(b, BUFFER_RETURNING);
        }
    }
    cta->open = 0;
    cta->first_open = 0;
    cta->streams = 0;
    cta->batches++;
}

/* ---- collecting -------------------------------------------------------------------------------- */

/* Find the returning buffer that was sent home first; NULL: there is none. */
static struct buffer *oldest_returning(struct gy_cta *cta)
{
    struct buffer *oldest = NULL;
    gy_mutex_lock(&cta->lock);
    for (uint32_t i = 0; i < cta->buffer_count && cta->returning != 0; i++) {
        struct buffer *b = &cta->buffers[i];
        if (b->state == BUFFER_RETURNING && (oldest == NULL || b->order < oldest->order)) {
            oldest = b;
        }
    }
    gy_mutex_unlock(&cta->lock);
    return oldest;
}

void gy_cta_passed(struct gy_cta *cta, uint32_t stream, uint64_t recorded_ns)
{
    if (stream >= STREAMS) {
        return;
    }
    gy_mutex_lock(&cta->lock);
    gy_passes_note(&cta->passes, stream, recorded_ns, gy_clock_ns());
    gy_mutex_unlock(&cta->lock);
}

static void hand_over(struct gy_cta *cta, struct buffer *b)
{
    b->batch.seen_ns = gy_clock_ns();
    gy_mutex_lock(&cta->lock);
    for (uint32_t l = 0; l < b->batch.launch_count; l++) {
        const struct gy_cta_launch *launch = &b->launches[l]; /* its records return later than it ends */
        b->launches[l].ended_ns =
            gy_passes_end(&cta->passes, launch->stream % STREAMS, launch->launched_ns, b->batch.seen_ns);
    }
    gy_mutex_unlock(&cta->lock);
    b->batch.records = b->host;
    b->batch.launches = b->launches;
    b->batch.offsets = cta->clock.offsets;
    b->batch.offset_count = cta->clock.offset_count;
    for (uint32_t set = 0; set < 2 && b->batch.anchor_count != 0; set++) {
        b->batch.anchors[set] = (const void *)((const char *)b->host + anchors_at(cta, b->places, set));
    }
    if (b->generation != 0 && b->generation == gy_profile_session()) {
        gy_device_clock_compare(&cta->clock, b->generation, HOST_PATIENCE_NS);
    }
    b->batch.clock = gy_device_clock_latest(&cta->clock, b->generation);
    set_state(b, BUFFER_WRITING);
    if (!gy_profile_add_ctas(b->generation, &b->batch)) {
        set_state(b, BUFFER_IDLE);
    }
}

/* Hand over the records that have come back, and wait until then for those that have not. */
static void collect(struct gy_cta *cta, uint64_t until_ns)
{
    uint64_t pause_ns = 0;
    struct gy_context *context = cta->context;
    struct buffer *b;
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
            set_state(b, BUFFER_IDLE);
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
static void wait_while(struct gy_cta *cta, enum buffer_state state, uint64_t generation, uint64_t until_ns)
{
    gy_mutex_lock(&cta->lock);
    for (uint32_t i = 0; i < cta->buffer_count && gy_clock_ns() < until_ns;) {
        const struct buffer *b = &cta->buffers[i];
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
        struct buffer *b = &cta->buffers[i];
        if ((b->state == BUFFER_OPEN || b->state == BUFFER_RETURNING) && b->generation == generation) {
            blocks += b->batch.blocks;
            b->generation = 0;
        }
    }
    gy_mutex_unlock(&cta->lock);
    if (blocks != 0) {
        gy_profile_count_lost_ctas(generation, blocks);
    }
}

static uint64_t drain(struct gy_profile_recorder *self, uint64_t generation, uint64_t until_ns)
{
    struct gy_cta *cta = (struct gy_cta *)self; /* its first member */
    (void)enter_collect(cta, true);
    if (!gy_thread_is_serving()) { /* a batch that goes on may need this thread */
        wait_while(cta, BUFFER_OPEN, generation, until_ns);
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
    cta->recorder.drain = drain;
    gy_mutex_init(&cta->lock, GY_RANK_LEAF);
    gy_profile_add_recorder(&cta->recorder);
    *out = cta;
    return GANTRY_OK;
}

static void destroy_objects(struct gy_cta *cta)
{
    struct gy_context *context = cta->context;
    for (uint32_t s = 0; s < STREAMS; s++) {
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
    (void)enter_collect(cta, true); /* another thread may be in drain() */
    collect(cta, UINT64_MAX);
    leave_collect(cta);
    gy_profile_remove_recorder(&cta->recorder);
    wait_while(cta, BUFFER_WRITING, 0, UINT64_MAX); /* the writer may still use some of them */
    free_buffers(cta);
    destroy_objects(cta);
    gy_cond_fini(&cta->moved);
    gy_mutex_fini(&cta->lock);
    gy_free(cta);
}
