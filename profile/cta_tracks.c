/* From records to tracks.
 *
 * Times: a batch's clock maps %globaltimer to host time with a stated error.  What is known besides — no
 * block starts before its launch was called, none stops after the host knew of its end — is used to move the
 * whole batch by as little as makes it true: an effect never comes before its cause in the trace.
 *
 * Blocks of one SM overlap; each goes to the first lane of the SM that is free when it starts.  Batches may
 * overlap too, and then later ones go to lanes that are free after all that was written there before.
 *
 * Resident CTAs: each block adds its time to buckets of BUCKET_NS, which are written when they are older than
 * the newest batch by most of the ring's length: only a batch that comes later than that is missing there. */
#include "profile/cta_tracks.h"

#include "base/alloc.h"
#include "profile/kernel_names.h"
#include "profile/lane.h"
#include "profile/sm_times.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMS GY_SMS
#define SM_LANES 256u
#define STREAMS 64u
#define RANK_RECORDS 1000u /* behind the streams */
#define RANK_SMS 2000u     /* SM clocks: 1500 */
#define BUCKET_NS 20000u
#define BUCKETS 65536u /* 1.3 s */
#define BUCKETS_HELD (BUCKETS / 2)

/* Tracks of one name, as many as overlapping slices need. */
struct stack {
    struct stack *next;
    gy_pftrace_track number;
    struct gy_lane slices;
};

struct sm_lane {
    uint64_t end_ns;
    struct gy_pftrace_dense dense;
};

struct sm {
    uint32_t lane_count, room;
    struct sm_lane *lanes;
};

struct residents {
    gy_pftrace_track counter; /* 0: nothing was added yet */
    uint64_t first;           /* bucket that is written next */
    uint64_t last;            /* highest bucket used */
    uint64_t written;         /* the latest value in the trace */
    int64_t full;             /* blocks that cover the bucket `first` as far as is known */
    int64_t partial_ns[BUCKETS];
    int64_t change[BUCKETS]; /* of `full` from the bucket before */
};

struct gpu {
    struct gpu *next;
    gy_pftrace_track track, sms_track, lost_counter;
    uint64_t lost;
    struct stack *records;
    struct stack *streams[STREAMS];
    struct sm *sms[SMS];
    struct gy_sm_times *times;
    struct residents residents;
};

struct key {
    uint64_t start_ns, end_ns;
    uint32_t kernel, sm;
    uint32_t block;
};

struct gy_cta_tracks {
    struct gy_pftrace *trace;
    gantry_profile_ctas ctas;
    struct gpu *gpus;
    struct key *keys; /* scratch */
    uint32_t key_room;
    uint32_t *places; /* scratch, SMS + 1 */
    uint64_t kernels, written, lost, bound_ns, sm_ns;
};

struct gy_cta_tracks *gy_cta_tracks_create(struct gy_pftrace *trace, gantry_profile_ctas ctas)
{
    struct gy_cta_tracks *tracks = gy_zalloc(sizeof(*tracks));
    uint32_t *places = gy_zalloc_array(SMS + 1, sizeof(*places));
    if (tracks == NULL || places == NULL) {
        gy_free(tracks);
        gy_free(places);
        return NULL;
    }
    tracks->trace = trace;
    tracks->ctas = ctas;
    tracks->places = places;
    return tracks;
}

static void stack_destroy(struct stack *stack)
{
    while (stack != NULL) {
        struct stack *next = stack->next;
        gy_lane_fini(&stack->slices);
        gy_free(stack);
        stack = next;
    }
}

/* ---- resident CTAs ----------------------------------------------------------------------------- */

/* Write the buckets below `end`. */
static void write_residents(struct gy_pftrace *trace, struct residents *r, uint64_t end)
{
    for (; r->first < end; r->first++) {
        uint32_t slot = (uint32_t)(r->first % BUCKETS);
        r->full += r->change[slot];
        int64_t ns = r->full * (int64_t)BUCKET_NS + r->partial_ns[slot];
        uint64_t value = ns > 0 ? ((uint64_t)ns + BUCKET_NS / 2) / BUCKET_NS : 0;
        r->change[slot] = 0;
        r->partial_ns[slot] = 0;
        if (value != r->written) {
            gy_pftrace_add_count(trace, r->counter, r->first * BUCKET_NS, value);
            r->written = value;
        }
        if (r->full == 0 && r->first > r->last) {
            r->first = end;
            break;
        }
    }
}

/* Make room for buckets up to that of `end_ns`. */
static void begin_residents(struct gy_pftrace *trace, struct gpu *gpu, uint64_t begin_ns, uint64_t end_ns)
{
    struct residents *r = &gpu->residents;
    uint64_t last = end_ns / BUCKET_NS + 1;
    if (r->counter == 0) {
        r->counter = gy_pftrace_add_counter_track(trace, gpu->track, "resident CTAs");
        r->first = begin_ns / BUCKET_NS;
        r->first -= r->first < BUCKETS_HELD ? r->first : BUCKETS_HELD;
    }
    if (last >= r->first + BUCKETS_HELD) {
        write_residents(trace, r, last - BUCKETS_HELD);
    }
    r->last = last > r->last ? last : r->last;
}

static void add_resident(struct residents *r, uint64_t begin_ns, uint64_t end_ns)
{
    uint64_t begin = begin_ns / BUCKET_NS, end = end_ns / BUCKET_NS;
    if (begin < r->first || end >= r->first + BUCKETS) {
        return;
    }
    if (begin == end) {
        r->partial_ns[begin % BUCKETS] += (int64_t)(end_ns - begin_ns);
        return;
    }
    r->partial_ns[begin % BUCKETS] += (int64_t)((begin + 1) * BUCKET_NS - begin_ns);
    r->partial_ns[end % BUCKETS] += (int64_t)(end_ns - end * BUCKET_NS);
    r->change[(begin + 1) % BUCKETS]++;
    r->change[end % BUCKETS]--;
}

/* ---- tracks ------------------------------------------------------------------------------------ */

static struct gpu *gpu_of(struct gy_cta_tracks *tracks, gy_pftrace_track track)
{
    struct gpu *gpu = tracks->gpus;
    while (gpu != NULL && gpu->track != track) {
        gpu = gpu->next;
    }
    if (gpu != NULL || (gpu = gy_zalloc(sizeof(*gpu))) == NULL) {
        return gpu;
    }
    gpu->times = gy_sm_times_create();
    if (gpu->times == NULL) {
        gy_free(gpu);
        return NULL;
    }
    gpu->track = track;
    gpu->next = tracks->gpus;
    tracks->gpus = gpu;
    return gpu;
}

/* The track of the stack that takes the slice; 0 when out of memory. */
static gy_pftrace_track stack_take(struct gy_cta_tracks *tracks, struct stack **stack,
                                   gy_pftrace_track parent, const char *name, uint32_t rank,
                                   uint64_t begin_ns, uint64_t end_ns)
{
    for (; *stack != NULL; stack = &(*stack)->next) {
        if (gy_lane_take(&(*stack)->slices, begin_ns, end_ns)) {
            return (*stack)->number;
        }
    }
    struct stack *more = gy_zalloc(sizeof(*more));
    if (more == NULL || !gy_lane_take(&more->slices, begin_ns, end_ns)) {
        gy_free(more);
        return 0;
    }
    more->number = gy_pftrace_add_track(tracks->trace, parent, name, rank);
    *stack = more;
    return more->number;
}

/* ---- blocks ------------------------------------------------------------------------------------ */

static int compare_keys(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

/* Blocks start nearly in the order of their numbers: insertion, unless it turns out to be too far. */
static void sort_keys(struct key *keys, uint32_t count)
{
    uint64_t moves = 0;
    for (uint32_t i = 1; i < count; i++) {
        struct key key = keys[i];
        uint32_t at = i;
        for (; at > 0 && keys[at - 1].start_ns > key.start_ns; at--, moves++) {
            keys[at] = keys[at - 1];
        }
        keys[at] = key;
        if (moves > 8 * (uint64_t)count) {
            qsort(keys, count, sizeof(*keys), compare_keys);
            return;
        }
    }
}

/* The lane of the SM that is free at `start_ns`; NULL: too many, or out of memory. */
static struct sm_lane *lane_of(struct gy_cta_tracks *tracks, struct gpu *gpu, uint32_t number,
                               uint64_t start_ns)
{
    struct sm *sm = gpu->sms[number];
    if (sm == NULL && (sm = gpu->sms[number] = gy_zalloc(sizeof(*sm))) == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < sm->lane_count; i++) {
        if (sm->lanes[i].end_ns <= start_ns) {
            return &sm->lanes[i];
        }
    }
    if (sm->lane_count == sm->room) {
        uint32_t room = sm->room == 0 ? 8 : sm->room * 2;
        struct sm_lane *more = room > SM_LANES ? NULL : gy_zalloc_array(room, sizeof(*more));
        if (more == NULL) {
            return NULL;
        }
        if (sm->lane_count != 0) {
            memcpy(more, sm->lanes, sm->lane_count * sizeof(*more));
        }
        gy_free(sm->lanes);
        sm->lanes = more;
        sm->room = room;
    }
    if (gpu->sms_track == 0) {
        gpu->sms_track = gy_pftrace_add_track(tracks->trace, gpu->track, "SMs", RANK_SMS);
    }
    char name[16];
    snprintf(name, sizeof(name), "SM %03u", number);
    struct sm_lane *lane = &sm->lanes[sm->lane_count++];
    gy_pftrace_open_dense(tracks->trace, gpu->sms_track, name, number, start_ns, &lane->dense);
    return lane;
}

/* Write the blocks of one SM, in order of start; how many could not be comes back. */
static uint64_t write_sm(struct gy_cta_tracks *tracks, struct gpu *gpu, const struct key *keys,
                         uint32_t count)
{
    uint64_t lost = 0;
    uint32_t kernel = UINT32_MAX;
    const char *name = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const struct key *key = &keys[i];
        struct sm_lane *lane = lane_of(tracks, gpu, key->sm, key->start_ns);
        if (lane == NULL) {
            lost++;
            continue;
        }
        if (key->kernel != kernel) {
            kernel = key->kernel;
            name = gy_kernel_name(kernel);
        }
        uint64_t block = tracks->ctas == GANTRY_PROFILE_CTAS_BLOCKS ? key->block : GY_PFTRACE_NO_BLOCK;
        gy_pftrace_add_dense(tracks->trace, &lane->dense, kernel, name, key->start_ns, key->end_ns, block);
        lane->end_ns = key->end_ns;
        add_resident(&gpu->residents, key->start_ns, key->end_ns);
    }
    return lost;
}

/* What of a batch has been understood. */
struct reading {
    const struct gy_cta_batch *batch;
    struct gy_gpu_clock clock;
    uint64_t begin_ns, end_ns; /* host time, moved */
    int64_t shift_ns;
    uint64_t bound_ns;
    uint64_t valid, lost;
};

static bool is_valid(const gantry_cta_record *record, const struct gy_cta_launch *launch)
{
    return record->start_ns != 0 && record->origin >> GANTRY_CTA_SM_BITS == launch->kernel;
}

static uint64_t host_time(const struct reading *reading, uint64_t gpu_ns)
{
    return gy_gpu_clock_host(&reading->clock, gpu_ns) + (uint64_t)reading->shift_ns;
}

/* Blocks of all launches, sorted by SM and start.  False when out of memory. */
static bool write_blocks(struct gy_cta_tracks *tracks, struct gpu *gpu, struct reading *reading)
{
    const struct gy_cta_batch *batch = reading->batch;
    if (tracks->key_room < batch->used) {
        gy_free(tracks->keys);
        tracks->keys = gy_zalloc_array(batch->used, sizeof(*tracks->keys));
        tracks->key_room = tracks->keys != NULL ? batch->used : 0;
        if (tracks->keys == NULL) {
            return false;
        }
    }
    uint32_t *places = tracks->places; /* first the counts, then where each SM's next key goes */
    memset(places, 0, (SMS + 1) * sizeof(*places));
    for (uint32_t l = 0; l < batch->launch_count; l++) {
        const struct gy_cta_launch *launch = &batch->launches[l];
        for (uint32_t i = 0; i < launch->count; i++) {
            const gantry_cta_record *record = &batch->records[launch->first + i];
            places[(record->origin & (SMS - 1)) + 1] += is_valid(record, launch);
        }
    }
    for (uint32_t sm = 0; sm < SMS; sm++) {
        places[sm + 1] += places[sm];
    }
    for (uint32_t l = 0; l < batch->launch_count; l++) {
        const struct gy_cta_launch *launch = &batch->launches[l];
        for (uint32_t i = 0; i < launch->count; i++) {
            const gantry_cta_record *record = &batch->records[launch->first + i];
            if (is_valid(record, launch)) {
                uint32_t sm = record->origin & (SMS - 1);
                uint64_t start_ns = host_time(reading, record->start_ns);
                uint64_t end_ns = host_time(reading, record->start_ns + record->duration_ns);
                tracks->keys[places[sm]++] = (struct key){start_ns, end_ns, launch->kernel, sm, i};
            }
        }
    }
    uint32_t first = 0; /* places[sm] is now where the SM's keys end */
    for (uint32_t sm = 0; sm < SMS; first = places[sm++]) {
        if (places[sm] != first) {
            sort_keys(tracks->keys + first, places[sm] - first);
            uint64_t lost = write_sm(tracks, gpu, tracks->keys + first, places[sm] - first);
            reading->lost += lost;
            reading->valid -= lost;
        }
    }
    return true;
}

/* ---- launches ---------------------------------------------------------------------------------- */

struct extent {
    uint64_t first_ns, last_ns; /* GPU time */
    uint32_t valid;
};

static struct extent extent_of(const struct gy_cta_batch *batch, const struct gy_cta_launch *launch)
{
    struct extent extent = {UINT64_MAX, 0, 0};
    for (uint32_t i = 0; i < launch->count; i++) {
        const gantry_cta_record *record = &batch->records[launch->first + i];
        if (is_valid(record, launch)) {
            uint64_t stop_ns = record->start_ns + record->duration_ns;
            extent.first_ns = record->start_ns < extent.first_ns ? record->start_ns : extent.first_ns;
            extent.last_ns = stop_ns > extent.last_ns ? stop_ns : extent.last_ns;
            extent.valid++;
        }
    }
    return extent;
}

/* The clocks were never compared: all that is known is that each launch's blocks ran between its call and the
 * first sight of their end. */
static void infer_clock(struct reading *reading)
{
    const struct gy_cta_batch *batch = reading->batch;
    struct gy_gpu_exchange widest = {0};
    int64_t low = INT64_MIN, high = INT64_MAX; /* of GPU time - host time */
    for (uint32_t l = 0; l < batch->launch_count; l++) {
        struct extent extent = extent_of(batch, &batch->launches[l]);
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

/* First pass: extents, and how far the batch has to be moved. */
static void read_batch(struct reading *reading)
{
    const struct gy_cta_batch *batch = reading->batch;
    const struct gy_gpu_clock *clock = &reading->clock;
    int64_t early = 0, late = INT64_MIN; /* what starts lack; how far the end lies behind its sight */
    reading->begin_ns = UINT64_MAX;
    for (uint32_t l = 0; l < batch->launch_count; l++) {
        const struct gy_cta_launch *launch = &batch->launches[l];
        struct extent extent = extent_of(batch, launch);
        reading->valid += extent.valid;
        reading->lost += launch->count - extent.valid;
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

static void write_launch(struct gy_cta_tracks *tracks, struct gpu *gpu, const struct reading *reading,
                         const struct gy_cta_launch *launch)
{
    struct extent extent = extent_of(reading->batch, launch);
    if (extent.valid == 0) {
        return;
    }
    struct gy_pftrace_slice slice = {.category = GY_PFTRACE_KERNEL,
                                     .name = gy_kernel_name(launch->kernel),
                                     .begin_ns = host_time(reading, extent.first_ns),
                                     .end_ns = host_time(reading, extent.last_ns),
                                     .flow_count = launch->flow != 0,
                                     .flows = &launch->flow,
                                     .argument_count = 5,
                                     .arguments = {{GY_ARGUMENT_ID, launch->id},
                                                   {GY_ARGUMENT_STREAM, launch->stream},
                                                   {GY_ARGUMENT_CTAS, extent.valid},
                                                   {GY_ARGUMENT_LOST, launch->count - extent.valid},
                                                   {GY_ARGUMENT_BATCH, reading->batch->number}}};
    char name[32];
    uint32_t stream = launch->stream % STREAMS;
    snprintf(name, sizeof(name), "stream %u: kernels", stream);
    slice.track =
        stack_take(tracks, &gpu->streams[stream], gpu->track, name, stream, slice.begin_ns, slice.end_ns);
    if (slice.track != 0) {
        gy_pftrace_add_slice(tracks->trace, &slice);
        tracks->kernels++;
    }
}

static void write_summary(struct gy_cta_tracks *tracks, struct gpu *gpu, const struct reading *reading)
{
    if (reading->lost != 0) {
        if (gpu->lost_counter == 0) {
            gpu->lost_counter = gy_pftrace_add_counter_track(tracks->trace, gpu->track, "lost CTAs");
        }
        gpu->lost += reading->lost;
        gy_pftrace_add_count(tracks->trace, gpu->lost_counter, reading->batch->seen_ns, gpu->lost);
    }
    if (reading->valid == 0) {
        return;
    }
    gy_sm_times_state(gpu->times, tracks->trace, gpu->track, reading->begin_ns);
    int64_t shift = reading->shift_ns;
    struct gy_pftrace_slice slice = {
        .category = GY_PFTRACE_CTAS,
        .name = "batch",
        .begin_ns = reading->begin_ns,
        .end_ns = reading->end_ns,
        .argument_count = 7,
        .arguments = {{GY_ARGUMENT_BATCH, reading->batch->number},
                      {GY_ARGUMENT_CTAS, reading->valid},
                      {GY_ARGUMENT_LOST, reading->lost},
                      {GY_ARGUMENT_ALIGNMENT_NS, reading->bound_ns},
                      {GY_ARGUMENT_SM_ALIGNMENT_NS, gy_sm_times_error(gpu->times)},
                      {GY_ARGUMENT_TICK_NS, reading->clock.tick_ns},
                      {GY_ARGUMENT_SHIFT_NS, (uint64_t)(shift < 0 ? -shift : shift)}}};
    slice.track = stack_take(tracks, &gpu->records, gpu->track, "CTA records", RANK_RECORDS, slice.begin_ns,
                             slice.end_ns);
    if (slice.track != 0) {
        gy_pftrace_add_slice(tracks->trace, &slice);
    }
}

void gy_cta_tracks_add(struct gy_cta_tracks *tracks, gy_pftrace_track track, const struct gy_cta_batch *batch)
{
    struct gpu *gpu = gpu_of(tracks, track);
    if (gpu == NULL) {
        tracks->lost += batch->used;
        return;
    }
    struct reading reading = {.batch = batch, .clock = batch->clock};
    gy_sm_times_convert(gpu->times, batch);
    if (reading.clock.bound_ns == 0) {
        infer_clock(&reading);
    }
    read_batch(&reading);
    for (uint32_t l = 0; l < batch->launch_count; l++) {
        write_launch(tracks, gpu, &reading, &batch->launches[l]);
    }
    if (reading.valid != 0 && tracks->ctas != GANTRY_PROFILE_CTAS_KERNELS) {
        begin_residents(tracks->trace, gpu, reading.begin_ns, reading.end_ns);
        if (!write_blocks(tracks, gpu, &reading)) {
            reading.lost += reading.valid;
            reading.valid = 0;
        }
    }
    write_summary(tracks, gpu, &reading);
    uint64_t sm_ns = gy_sm_times_p99(gpu->times);
    tracks->sm_ns = sm_ns > tracks->sm_ns ? sm_ns : tracks->sm_ns;
    tracks->written += reading.valid;
    tracks->lost += reading.lost;
    tracks->bound_ns = reading.bound_ns > tracks->bound_ns ? reading.bound_ns : tracks->bound_ns;
}

void gy_cta_tracks_stats(const struct gy_cta_tracks *tracks, gantry_profile_stats *stats)
{
    stats->kernels += tracks->kernels;
    stats->ctas += tracks->written;
    stats->ctas_lost += tracks->lost;
    stats->cta_alignment_ns = tracks->bound_ns;
    stats->sm_alignment_ns = tracks->sm_ns;
}

void gy_cta_tracks_destroy(struct gy_cta_tracks *tracks)
{
    if (tracks == NULL) {
        return;
    }
    while (tracks->gpus != NULL) {
        struct gpu *gpu = tracks->gpus;
        if (gpu->residents.counter != 0) {
            write_residents(tracks->trace, &gpu->residents, gpu->residents.last + 2);
        }
        stack_destroy(gpu->records);
        for (uint32_t i = 0; i < STREAMS; i++) {
            stack_destroy(gpu->streams[i]);
        }
        for (uint32_t i = 0; i < SMS; i++) {
            if (gpu->sms[i] != NULL) {
                gy_free(gpu->sms[i]->lanes);
                gy_free(gpu->sms[i]);
            }
        }
        gy_sm_times_destroy(gpu->times);
        tracks->gpus = gpu->next;
        gy_free(gpu);
    }
    gy_free(tracks->keys);
    gy_free(tracks->places);
    gy_free(tracks);
}
