/* SPDX-License-Identifier: MIT */
/* How records become tracks.
 *
 * A batch's clock maps %globaltimer to host time with a stated error.  Besides, no block starts before its
 * launch was called, and none stops after the host knew of its end.  The whole batch is moved by the least
 * time that makes this true, so an effect never comes before its cause in the trace. */
#include "profile/cta_tracks.h"

#include "base/alloc.h"
#include "profile/blocks.h"
#include "profile/kernel_names.h"
#include "profile/ranges.h"
#include "profile/sm_times.h"
#include "profile/track_row.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAMS 64u
#define RANK_RECORDS 1000u /* after the streams; SM clocks: 1500, SMs: GY_BLOCK_RANK_SMS */
#define RANK_PLACES 1600u

/* The tracks of one name: as many as overlapping slices need. */
struct stack {
    struct stack *next;
    gy_pftrace_track number;
    struct gy_track_row slices;
};

struct gpu {
    struct gy_block_gpu blocks; /* first */
    struct gpu *next;
    gy_pftrace_track lost_counter;
    uint64_t lost;
    struct stack *records;
    struct stack *streams[STREAMS];
    uint64_t
        *blocks_of[STREAMS]; /* by SM: the blocks of the stream that ran on it; NULL: none has come yet */
    const char (
        *partitions)[GY_CTA_PARTITION_BYTES]; /* of the streams, the recording's; NULL: not known yet */
    uint64_t end_ns;                          /* host time of the latest block */
    struct gy_sm_times *times;
    struct gy_ranges *ranges;
};

struct gy_cta_tracks {
    struct gy_pftrace *trace;
    struct gy_blocks *blocks; /* NULL: only launches are shown */
    struct gpu *gpus;
    struct gy_block_extent *extents; /* scratch memory for a batch's launches */
    uint32_t extent_room;
    uint64_t kernels, written, lost, taken, bound_ns, sm_ns;
};

static void stack_destroy(struct stack *stack)
{
    while (stack != NULL) {
        struct stack *next = stack->next;
        gy_track_row_fini(&stack->slices);
        gy_free(stack);
        stack = next;
    }
}

/* ---- tracks ------------------------------------------------------------------------------------ */

static struct gpu *gpu_of(struct gy_cta_tracks *tracks, gy_pftrace_track track)
{
    struct gpu *gpu = tracks->gpus;
    while (gpu != NULL && gpu->blocks.track != track) {
        gpu = gpu->next;
    }
    if (gpu != NULL || (gpu = gy_zalloc(sizeof(*gpu))) == NULL) {
        return gpu;
    }
    gpu->times = gy_sm_times_create();
    gpu->ranges = gy_ranges_create(tracks->trace, track);
    if (gpu->times == NULL || gpu->ranges == NULL) {
        gy_sm_times_destroy(gpu->times);
        gy_ranges_destroy(gpu->ranges);
        gy_free(gpu);
        return NULL;
    }
    gpu->blocks.track = track;
    gpu->next = tracks->gpus;
    tracks->gpus = gpu;
    return gpu;
}

/* The track of the stack that takes the slice; 0: out of memory. */
static gy_pftrace_track stack_take(struct gy_cta_tracks *tracks, struct stack **stack,
                                   gy_pftrace_track parent, const char *name, uint32_t rank,
                                   uint64_t begin_ns, uint64_t end_ns)
{
    for (; *stack != NULL; stack = &(*stack)->next) {
        if (gy_track_row_take(&(*stack)->slices, begin_ns, end_ns)) {
            return (*stack)->number;
        }
    }
    struct stack *more = gy_zalloc(sizeof(*more));
    if (more == NULL || !gy_track_row_take(&more->slices, begin_ns, end_ns)) {
        gy_free(more);
        return 0;
    }
    more->number = gy_pftrace_add_track(tracks->trace, parent, name, rank);
    *stack = more;
    return more->number;
}

/* ---- launches ---------------------------------------------------------------------------------- */

/* The records that were read from a batch. */
struct reading {
    const struct gy_cta_batch *batch;
    const struct gy_block_extent *extents; /* the extents of its launches */
    bool has_blocks;                       /* the blocks are on their way */
    struct gy_gpu_clock clock;
    uint64_t begin_ns, end_ns; /* host time, after the move */
    int64_t shift_ns;
    uint64_t bound_ns;
    uint64_t valid, lost, taken;
};

static uint64_t host_time(const struct reading *reading, uint64_t gpu_ns)
{
    return gy_gpu_clock_host(&reading->clock, gpu_ns) + (uint64_t)reading->shift_ns;
}

static struct gy_block_extent extent_of(const struct gy_cta_batch *batch, const struct gy_cta_launch *launch,
                                        uint64_t of_sm[GY_SMS])
{
    struct gy_block_extent extent = {UINT64_MAX, 0, 0, 0};
    for (uint32_t i = 0; i < launch->count; i++) {
        const gantry_cta_record *record = &batch->records[launch->first + i];
        if (gy_block_is_valid(record, launch->kernel)) {
            gy_block_extend(&extent, record, of_sm);
        } else {
            extent.taken += gy_block_is_taken(record);
        }
    }
    return extent;
}

/* Read all records once.  False: out of memory. */
static bool read_records(struct gy_cta_tracks *tracks, struct gpu *gpu, struct reading *reading)
{
    const struct gy_cta_batch *batch = reading->batch;
    if (tracks->extent_room < batch->launch_count) {
        gy_free(tracks->extents);
        tracks->extents = gy_zalloc_array(batch->launch_count, sizeof(*tracks->extents));
        tracks->extent_room = tracks->extents != NULL ? batch->launch_count : 0;
        if (tracks->extents == NULL) {
            return false;
        }
    }
    for (uint32_t l = 0; l < batch->launch_count; l++) {
        uint64_t **of_sm = &gpu->blocks_of[batch->launches[l].stream % STREAMS];
        *of_sm = *of_sm != NULL ? *of_sm : gy_zalloc_array(GY_SMS, sizeof(**of_sm));
        if (*of_sm == NULL) {
            return false;
        }
    }
    reading->extents = tracks->extents;
    reading->has_blocks = tracks->blocks != NULL && gy_blocks_open(tracks->blocks, batch);
    for (uint32_t l = 0; l < batch->launch_count; l++) {
        const struct gy_cta_launch *launch = &batch->launches[l];
        uint64_t *of_sm = gpu->blocks_of[launch->stream % STREAMS];
        tracks->extents[l] = reading->has_blocks ? gy_blocks_put(tracks->blocks, batch, launch, of_sm)
                                                 : extent_of(batch, launch, of_sm);
    }
    return true;
}

/* The clocks were never compared: it is only known that each launch's blocks ran between its call and the
 * first sight of their end. */
static void infer_clock(struct reading *reading)
{
    const struct gy_cta_batch *batch = reading->batch;
    struct gy_gpu_exchange widest = {0};
    int64_t low = INT64_MIN, high = INT64_MAX; /* bounds on GPU time - host time */
    for (uint32_t l = 0; l < batch->launch_count; l++) {
        struct gy_block_extent extent = reading->extents[l];
        if (extent.valid != 0) {
            const struct gy_cta_launch *launch = &batch->launches[l];
            int64_t least = (int64_t)(extent.last_ns - launch->ended_ns);
            int64_t most = (int64_t)(extent.first_ns - launch->launched_ns);
            low = least > low ? least : low;
            high = most < high ? most : high;
            widest.gpu_ns = extent.last_ns;
        }
    }
    widest.before_ns = widest.gpu_ns - (uint64_t)high;
    widest.after_ns = widest.gpu_ns - (uint64_t)low;
    if (widest.gpu_ns != 0) {
        (void)gy_gpu_clock_meet(&widest, 1, 0, &reading->clock);
    }
}

/* Find out when the batch was, and how far it has to be moved. */
static void read_batch(struct reading *reading)
{
    const struct gy_cta_batch *batch = reading->batch;
    const struct gy_gpu_clock *clock = &reading->clock;
    int64_t early = 0, late = INT64_MIN; /* most that starts are too early; how far the end lies late */
    reading->begin_ns = UINT64_MAX;
    for (uint32_t l = 0; l < batch->launch_count; l++) {
        const struct gy_cta_launch *launch = &batch->launches[l];
        struct gy_block_extent extent = reading->extents[l];
        reading->valid += extent.valid;
        reading->lost += launch->count - extent.valid - extent.taken;
        reading->taken += extent.taken;
        if (extent.valid == 0) {
            continue;
        }
        uint64_t begin = gy_gpu_clock_host(clock, extent.first_ns);
        uint64_t end = gy_gpu_clock_host(clock, extent.last_ns);
        int64_t lacking = (int64_t)(launch->launched_ns - begin);
        int64_t behind = (int64_t)(end - launch->ended_ns);
        uint64_t bound = gy_gpu_clock_bound(clock, extent.first_ns);
        uint64_t end_bound = gy_gpu_clock_bound(clock, extent.last_ns);
        early = lacking > early ? lacking : early;
        late = behind > late ? behind : late;
        bound = bound > end_bound ? bound : end_bound;
        reading->bound_ns = bound > reading->bound_ns ? bound : reading->bound_ns;
        reading->begin_ns = begin < reading->begin_ns ? begin : reading->begin_ns;
        reading->end_ns = end > reading->end_ns ? end : reading->end_ns;
    }
    reading->shift_ns = early > 0 ? early : late > 0 ? -late : 0;
    uint64_t shift = (uint64_t)(reading->shift_ns < 0 ? -reading->shift_ns : reading->shift_ns);
    reading->bound_ns = shift > reading->bound_ns ? shift : reading->bound_ns;
    reading->begin_ns += (uint64_t)reading->shift_ns;
    reading->end_ns += (uint64_t)reading->shift_ns;
}

/* Say of batched copies how many they were, and of which way there were how many bytes. */
static void add_copies(struct gy_pftrace_slice *slice, const struct gy_cta_copies *copies)
{
    if (copies->count != 0) {
        slice->arguments[slice->argument_count].name = GY_ARGUMENT_COPIES;
        slice->arguments[slice->argument_count++].value = copies->count;
    }
    for (unsigned way = 0; way < 3; way++) {
        if (copies->bytes[way] != 0) {
            slice->arguments[slice->argument_count].name =
                (enum gy_pftrace_argument)(GY_ARGUMENT_BYTES_TO_DEVICE + way);
            slice->arguments[slice->argument_count++].value = copies->bytes[way];
        }
    }
}

static void write_launch(struct gy_cta_tracks *tracks, struct gpu *gpu, const struct reading *reading,
                         uint32_t index)
{
    const struct gy_cta_launch *launch = &reading->batch->launches[index];
    struct gy_block_extent extent = reading->extents[index];
    if (extent.valid == 0) {
        return;
    }
    struct gy_pftrace_slice slice = {
        .category = GY_PFTRACE_KERNEL,
        .name = gy_kernel_name(launch->kernel),
        .begin_ns = host_time(reading, extent.first_ns),
        .end_ns = host_time(reading, extent.last_ns),
        .flow_count = launch->flow != 0,
        .flows = &launch->flow,
        .argument_count = 5,
        .arguments = {{GY_ARGUMENT_ID, launch->id},
                      {GY_ARGUMENT_STREAM, launch->stream},
                      {GY_ARGUMENT_CTAS, extent.valid},
                      {GY_ARGUMENT_LOST, launch->count - extent.valid - extent.taken},
                      {GY_ARGUMENT_BATCH, reading->batch->number}}};
    if (extent.taken != 0) {
        slice.arguments[slice.argument_count].name = GY_ARGUMENT_CTAS_TAKEN;
        slice.arguments[slice.argument_count++].value = extent.taken;
    }
    add_copies(&slice, &launch->copies);
    char name[32];
    uint32_t stream = launch->stream % STREAMS;
    snprintf(name, sizeof(name), "stream %u: kernels", stream);
    slice.track = stack_take(tracks, &gpu->streams[stream], gpu->blocks.track, name, stream, slice.begin_ns,
                             slice.end_ns);
    if (slice.track != 0) {
        gy_pftrace_add_slice(tracks->trace, &slice);
        tracks->kernels++;
    }
}

/* The whole batch is written or lost. */
static void write_summary(void *user, struct gy_block_gpu *of, const struct gy_block_info *info)
{
    struct gy_cta_tracks *tracks = user;
    struct gpu *gpu = (struct gpu *)of; /* its first member */
    tracks->written += info->valid;
    tracks->lost += info->lost;
    tracks->taken += info->taken;
    if (info->lost != 0) {
        if (gpu->lost_counter == 0) {
            gpu->lost_counter = gy_pftrace_add_counter_track(tracks->trace, of->track, "lost CTAs");
        }
        gpu->lost += info->lost;
        gy_pftrace_add_count(tracks->trace, gpu->lost_counter, info->seen_ns, gpu->lost);
    }
    if (info->valid == 0) {
        return;
    }
    int64_t shift = info->shift_ns;
    struct gy_pftrace_slice slice = {
        .category = GY_PFTRACE_CTAS,
        .name = "batch",
        .begin_ns = info->begin_ns,
        .end_ns = info->end_ns,
        .argument_count = 7,
        .arguments = {{GY_ARGUMENT_BATCH, info->number},
                      {GY_ARGUMENT_CTAS, info->valid},
                      {GY_ARGUMENT_LOST, info->lost},
                      {GY_ARGUMENT_ALIGNMENT_NS, info->bound_ns},
                      {GY_ARGUMENT_SM_ALIGNMENT_NS, info->sm_ns},
                      {GY_ARGUMENT_TICK_NS, info->clock.tick_ns},
                      {GY_ARGUMENT_SHIFT_NS, (uint64_t)(shift < 0 ? -shift : shift)}}};
    slice.track = stack_take(tracks, &gpu->records, of->track, "CTA records", RANK_RECORDS, slice.begin_ns,
                             slice.end_ns);
    if (slice.track != 0) {
        gy_pftrace_add_slice(tracks->trace, &slice);
    }
}

static void write_blocks(struct gy_cta_tracks *tracks, struct gpu *gpu, const struct reading *reading)
{
    const struct gy_cta_batch *batch = reading->batch;
    struct gy_block_info info = {.number = batch->number,
                                 .seen_ns = batch->seen_ns,
                                 .begin_ns = reading->begin_ns,
                                 .end_ns = reading->end_ns,
                                 .shift_ns = reading->shift_ns,
                                 .clock = reading->clock,
                                 .bound_ns = reading->bound_ns,
                                 .sm_ns = gy_sm_times_error(gpu->times),
                                 .valid = reading->valid,
                                 .lost = reading->lost,
                                 .taken = reading->taken};
    if (reading->has_blocks && info.valid != 0) {
        gy_blocks_add(tracks->blocks, &gpu->blocks, &info);
        return;
    }
    if (tracks->blocks != NULL && info.valid != 0) { /* there is no memory */
        gy_blocks_finish(tracks->blocks);
        info.lost += info.valid;
        info.valid = 0;
    }
    write_summary(tracks, &gpu->blocks, &info);
}

void gy_cta_tracks_add(struct gy_cta_tracks *tracks, gy_pftrace_track track, const struct gy_cta_batch *batch)
{
    struct gpu *gpu = gpu_of(tracks, track);
    if (gpu == NULL) {
        tracks->lost += batch->blocks;
        return;
    }
    gy_sm_times_convert(gpu->times, batch);
    struct reading reading = {.batch = batch, .clock = batch->clock};
    if (!read_records(tracks, gpu, &reading)) {
        tracks->lost += batch->blocks;
        return;
    }
    if (reading.clock.bound_ns == 0) {
        infer_clock(&reading);
    }
    read_batch(&reading);
    for (uint32_t l = 0; l < batch->launch_count; l++) {
        write_launch(tracks, gpu, &reading, l);
        gy_ranges_add(gpu->ranges, batch, &batch->launches[l], &reading.clock, reading.shift_ns);
    }
    gpu->end_ns = reading.end_ns > gpu->end_ns ? reading.end_ns : gpu->end_ns;
    if (reading.valid != 0) {
        gy_sm_times_state(gpu->times, tracks->trace, track, reading.begin_ns);
    }
    write_blocks(tracks, gpu, &reading);
    uint64_t sm_ns = gy_sm_times_p99(gpu->times);
    tracks->sm_ns = sm_ns > tracks->sm_ns ? sm_ns : tracks->sm_ns;
    tracks->bound_ns = reading.bound_ns > tracks->bound_ns ? reading.bound_ns : tracks->bound_ns;
}

struct gy_cta_tracks *gy_cta_tracks_create(struct gy_pftrace *trace, gantry_profile_ctas ctas,
                                           uint32_t encoders)
{
    struct gy_cta_tracks *tracks = gy_zalloc(sizeof(*tracks));
    if (tracks == NULL) {
        return NULL;
    }
    tracks->trace = trace;
    if (ctas == GANTRY_PROFILE_CTAS_EACH || ctas == GANTRY_PROFILE_CTAS_BLOCKS) {
        tracks->blocks =
            gy_blocks_create(trace, ctas == GANTRY_PROFILE_CTAS_BLOCKS, encoders - 1, write_summary, tracks);
        if (tracks->blocks == NULL) {
            gy_free(tracks);
            return NULL;
        }
    }
    return tracks;
}

void gy_cta_tracks_finish(struct gy_cta_tracks *tracks)
{
    if (tracks->blocks != NULL) {
        gy_blocks_finish(tracks->blocks);
    }
}

void gy_cta_tracks_stats(const struct gy_cta_tracks *tracks, gantry_profile_stats *stats)
{
    stats->kernels += tracks->kernels;
    stats->ctas += tracks->written;
    stats->ctas_lost += tracks->lost;
    stats->ctas_taken += tracks->taken;
    stats->cta_alignment_ns = tracks->bound_ns;
    stats->sm_alignment_ns = tracks->sm_ns;
    for (const struct gpu *gpu = tracks->gpus; gpu != NULL; gpu = gpu->next) {
        stats->ranges += gy_ranges_written(gpu->ranges);
        stats->ranges_lost += gy_ranges_lost(gpu->ranges);
    }
}

void gy_cta_tracks_name(struct gy_cta_tracks *tracks, gy_pftrace_track track,
                        const char (*partitions)[GY_CTA_PARTITION_BYTES])
{
    struct gpu *gpu = gpu_of(tracks, track);
    if (gpu != NULL) {
        gpu->partitions = partitions;
    }
}

/* Marks behind the last block: how many blocks of each partition ran on each SM, one for each of its streams.
 */
static void write_places(struct gy_cta_tracks *tracks, struct gpu *gpu)
{
    gy_pftrace_track track = 0;
    uint64_t time_ns = gpu->end_ns;
    for (uint32_t s = 0; s < STREAMS * GY_SMS && gpu->partitions != NULL; s++) {
        const uint32_t stream = s / GY_SMS, sm = s % GY_SMS;
        if (gpu->blocks_of[stream] == NULL || gpu->blocks_of[stream][sm] == 0 ||
            gpu->partitions[stream][0] == '\0') {
            continue;
        }
        if (track == 0) {
            track = gy_pftrace_add_track(tracks->trace, gpu->blocks.track, "SMs of partitions", RANK_PLACES);
        }
        const struct gy_pftrace_slice mark = {
            .track = track,
            .category = GY_PFTRACE_CTAS,
            .instant = true,
            .name = gpu->partitions[stream],
            .begin_ns = time_ns, /* marks of the same time would nest */
            .end_ns = time_ns,
            .argument_count = 2,
            .arguments = {{GY_ARGUMENT_SM, sm}, {GY_ARGUMENT_CTAS, gpu->blocks_of[stream][sm]}}};
        gy_pftrace_add_slice(tracks->trace, &mark);
        time_ns++;
    }
}

void gy_cta_tracks_destroy(struct gy_cta_tracks *tracks)
{
    if (tracks == NULL) {
        return;
    }
    while (tracks->gpus != NULL) {
        struct gpu *gpu = tracks->gpus;
        gy_block_gpu_fini(&gpu->blocks, tracks->trace);
        write_places(tracks, gpu);
        stack_destroy(gpu->records);
        for (uint32_t i = 0; i < STREAMS; i++) {
            stack_destroy(gpu->streams[i]);
            gy_free(gpu->blocks_of[i]);
        }
        gy_sm_times_destroy(gpu->times);
        gy_ranges_destroy(gpu->ranges);
        tracks->gpus = gpu->next;
        gy_free(gpu);
    }
    gy_blocks_destroy(tracks->blocks);
    gy_free(tracks->extents);
    gy_free(tracks);
}
