/* SPDX-License-Identifier: MIT */
/* A recording: rings filled by the threads that emit, one writer thread that empties them into the file.
 *
 *   emitting threads --> ring each --> writer thread --> tracks --> file
 *
 * A thread's first span in a recording makes its ring and links it into the session's list; afterwards
 * emitting is a copy into the ring, without lock, allocation or system call.  The writer sleeps until a ring
 * is half full, the recording ends, or a second has passed: so the file of a program that hangs or is killed
 * shows all but its last second.  A ring that fills up faster than the writer empties it loses spans, each
 * counted.
 *
 * The session lives from gantry_profile_start() to the end of gantry_profile_stop().  Threads use it in two
 * ways, and stop waits for both: as the span sink (gy_span_set_sink() returns when no thread is inside), and
 * through enter()/leave() below, for GPU slices.  A thread's pointer to its ring is worthless once the
 * generation has changed, and is compared before each use.
 *
 *             start            thread runs            stop             all freed
 *   IDLE -----------> STARTING -----------> RUNNING ---------> STOPPING -----------> IDLE */
#include "profile/session.h"

#include "base/alloc.h"
#include "base/handle.h"
#include "base/options.h"
#include "base/span.h"
#include "base/thread.h"
#include "profile/cta_tracks.h"
#include "profile/encoders.h"
#include "profile/nvtx.h"
#include "profile/pftrace.h"
#include "profile/recording.h"
#include "profile/ring.h"
#include "profile/session_options.h"
#include "profile/tracks.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#define MAX_RINGS 1024 /* threads of one recording; those that end keep their ring */

enum session_state { SESSION_IDLE, SESSION_STARTING, SESSION_RUNNING, SESSION_STOPPING };

static atomic_int state;                    /* atomic: enum session_state; changed by start and stop alone */
static _Atomic(gantry_profile *) current;   /* atomic: the recording; NULL unless RUNNING */
static atomic_uint_fast64_t generation_now; /* atomic: its generation; 0 unless RUNNING */
static atomic_uint_fast64_t generations;    /* atomic: the number of generations given out so far */
static atomic_uint inside;                  /* atomic: threads between enter() and leave() */
static atomic_bool windowed; /* atomic: the recording waits for steps; changed under window_lock */
static gy_mutex window_lock = {PTHREAD_MUTEX_INITIALIZER, GY_RANK_PROFILE};
static char running_path[512];    /* guarded by window_lock: the latest recording's file */
static bool begun_by_environment; /* guarded by window_lock: by $GANTRY_PROFILE */

/* The calling thread's ring in the recording `generation`; NULL: none could be made. */
static _Thread_local struct {
    uint64_t generation;
    struct gy_ring *ring;
} mine;

uint64_t gy_profile_generation(void)
{
    return atomic_load_explicit(&generation_now, memory_order_relaxed);
}

uint64_t gy_profile_session(void)
{
    gantry_profile *profile = NULL;
    uint64_t generation = 0;
    atomic_fetch_add(&inside, 1);
    profile = atomic_load(&current);
    if (profile != NULL) {
        generation = profile->generation;
    }
    atomic_fetch_sub(&inside, 1);
    return generation;
}

/* Get the recording `generation`, which is kept alive until leave(); NULL: it has ended, and no leave()
 * follows. */
static gantry_profile *enter(uint64_t generation)
{
    if (generation == 0) {
        return NULL;
    }
    atomic_fetch_add(&inside, 1);
    gantry_profile *profile = atomic_load(&current);
    if (profile == NULL || profile->generation != generation) {
        atomic_fetch_sub(&inside, 1);
        return NULL;
    }
    return profile;
}

static void leave(void)
{
    atomic_fetch_sub(&inside, 1);
}

static void count_lost(gantry_profile *profile, uint64_t spans)
{
    atomic_fetch_add_explicit(&profile->noted.lost, spans, memory_order_relaxed);
}

static struct gy_ring *register_thread(gantry_profile *profile)
{
    struct gy_ring *ring = gy_ring_create(profile->spans);
    gy_mutex_lock(&profile->lock);
    bool refused = ring == NULL || profile->ring_count == MAX_RINGS;
    if (!refused) {
        ring->next = profile->rings;
        profile->rings = ring;
        profile->ring_count++;
    }
    gy_mutex_unlock(&profile->lock);
    if (refused) {
        gy_ring_destroy(ring);
        ring = NULL;
        gy_log(GANTRY_LOG_WARNING, "profile: no ring for a thread, its spans are lost");
    }
    mine.generation = profile->generation;
    mine.ring = ring;
    return ring;
}

static void wake_writer(gantry_profile *profile)
{
    if (atomic_load_explicit(&profile->wanted, memory_order_relaxed)) {
        return;
    }
    gy_mutex_lock(&profile->lock);
    atomic_store_explicit(&profile->wanted, true, memory_order_relaxed);
    gy_cond_signal(&profile->work);
    gy_mutex_unlock(&profile->lock);
}

static struct gy_ring *ring_of(gantry_profile *profile)
{
    return __builtin_expect(mine.generation != profile->generation, 0) ? register_thread(profile) : mine.ring;
}

static void put(gantry_profile *profile, const struct gy_ring_span *head, const char *name)
{
    struct gy_ring *ring = ring_of(profile);
    if (ring == NULL) {
        count_lost(profile, 1);
        return;
    }
    struct gy_ring_span *slot = gy_ring_slot(ring);
    if (slot == NULL) {
        wake_writer(profile);
        return;
    }
    memcpy(slot, head, offsetof(struct gy_ring_span, name));
    gy_ring_copy_name(slot->name, name);
    if (gy_ring_push(ring)) {
        wake_writer(profile);
    }
}

/* Put all flows of a span except the first, which is in the span; none at all when they do not fit together
 * with it. */
static void put_more_flows(gantry_profile *profile, const uint64_t *flows, uint32_t count)
{
    struct gy_ring *ring = ring_of(profile);
    uint32_t slots = (count + GY_RING_FLOWS_OF_ONE - 1) / GY_RING_FLOWS_OF_ONE;
    if (ring == NULL || !gy_ring_has_room(ring, slots + 1)) {
        return;
    }
    for (uint32_t at = 0; at < count; at += GY_RING_FLOWS_OF_ONE) {
        uint32_t part = count - at < GY_RING_FLOWS_OF_ONE ? count - at : GY_RING_FLOWS_OF_ONE;
        struct gy_ring_span *slot = gy_ring_slot(ring);
        slot->category = GY_RING_FLOWS;
        slot->gpu = 0;
        slot->stream = 0;
        slot->id = part;
        memcpy(slot->name, flows + at, part * sizeof(*flows));
        (void)gy_ring_push(ring);
    }
}

static void sink_emit(struct gy_span_sink *self, enum gy_span_category category, const char *name,
                      uint64_t begin_ns, uint64_t end_ns, uint64_t id)
{
    gantry_profile *profile = (gantry_profile *)self; /* its first member */
    uint32_t flow_count;
    const uint64_t *flows = gy_span_flows(&flow_count);
    if (flow_count > 1) {
        put_more_flows(profile, flows + 1, flow_count - 1);
    }
    struct gy_ring_span head = {.begin_ns = begin_ns,
                                .end_ns = end_ns,
                                .id = id,
                                .flow = flow_count != 0 ? flows[0] : 0,
                                .category = (uint8_t)category};
    put(profile, &head, name);
}

static void sink_count(struct gy_span_sink *self, const char *name, uint64_t value)
{
    gantry_profile *profile = (gantry_profile *)self;
    struct gy_ring_span head = {.begin_ns = gy_clock_ns(), .id = value, .category = GY_RING_COUNT};
    put(profile, &head, name);
}

static void name_stream(gantry_profile *profile, const struct gy_gpu_slice *slice)
{
    atomic_uint_fast64_t *named = &profile->gpus.named[slice->gpu - 1];
    uint64_t bit = UINT64_C(1) << slice->stream;
    if (slice->partition == NULL || slice->stream >= GY_PFTRACE_STREAMS || (atomic_load(named) & bit) != 0) {
        return;
    }
    gy_mutex_lock(&profile->lock);
    char *name = profile->gpus.partitions[slice->gpu - 1][slice->stream];
    if (name[0] == '\0') {
        snprintf(name, sizeof(profile->gpus.partitions[0][0]), "%s", slice->partition);
        atomic_fetch_or(named, bit);
    }
    gy_mutex_unlock(&profile->lock);
}

void gy_profile_gpu_slice(uint64_t generation, const struct gy_gpu_slice *slice)
{
    gantry_profile *profile = enter(generation);
    if (profile == NULL) {
        return;
    }
    struct gy_ring_span head = {.begin_ns = slice->begin_ns,
                                .end_ns = slice->end_ns,
                                .id = slice->id,
                                .flow = slice->tasks != 0 ? slice->tasks : slice->after,
                                .category = slice->tasks != 0 ? GY_PFTRACE_BATCH : GY_PFTRACE_GPU,
                                .gpu = (uint8_t)slice->gpu,
                                .stream = slice->stream & (GY_PFTRACE_STREAMS - 1),
                                .manager = slice->manager & GY_RING_MANAGER_MAX};
    name_stream(profile, slice);
    put(profile, &head, slice->name);
    leave();
}

void gy_profile_count(uint64_t generation, const char *name, uint64_t value)
{
    gantry_profile *profile = enter(generation);
    if (profile != NULL) {
        sink_count(&profile->sink, name, value);
        leave();
    }
}

struct gy_cta_limits gy_profile_cta_limits(uint64_t generation)
{
    gantry_profile *profile = enter(generation);
    if (profile == NULL) {
        return (struct gy_cta_limits){.ctas = GANTRY_PROFILE_CTAS_OFF};
    }
    struct gy_cta_limits limits = profile->limits;
    leave();
    return limits;
}

bool gy_profile_add_ctas(uint64_t generation, struct gy_cta_batch *batch)
{
    gantry_profile *profile = enter(generation);
    if (profile == NULL) {
        return false;
    }
    batch->next = NULL;
    gy_mutex_lock(&profile->lock);
    if (profile->batches == NULL) {
        profile->batches = batch;
    } else {
        profile->last_batch->next = batch;
    }
    profile->last_batch = batch;
    atomic_store_explicit(&profile->wanted, true, memory_order_relaxed);
    gy_cond_signal(&profile->work);
    gy_mutex_unlock(&profile->lock);
    leave();
    return true;
}

void gy_profile_count_lost_ctas(uint64_t generation, uint64_t ctas)
{
    gantry_profile *profile = enter(generation);
    if (profile != NULL) {
        if (atomic_fetch_add_explicit(&profile->noted.ctas_lost, ctas, memory_order_relaxed) == 0) {
            gy_log(GANTRY_LOG_WARNING, "profile: blocks of a kernel are not recorded: no buffer has room for "
                                       "them (ctas_per_buffer, buffers)");
        }
        leave();
    }
}

/* ---- the window of steps ----------------------------------------------------------------------- */

static void window_step(void)
{
    gy_mutex_lock(&window_lock);
    gantry_profile *profile = atomic_load(&windowed) ? atomic_load(&current) : NULL;
    if (profile != NULL) {
        uint64_t step = profile->window.begun++;
        if (step == profile->window.first) {
            atomic_store(&generation_now, profile->generation);
            gy_span_set_sink(&profile->sink);
        } else if (step == profile->window.first + profile->window.count) {
            gy_span_set_sink(NULL);
            atomic_store(&generation_now, 0);
            atomic_store(&windowed, false);
        }
    }
    gy_mutex_unlock(&window_lock);
}

void gy_profile_step_begin(void)
{
    if (__builtin_expect(atomic_load_explicit(&windowed, memory_order_relaxed), 0)) {
        window_step();
    }
}

/* ---- GPUs -------------------------------------------------------------------------------------- */

uint32_t gy_profile_gpu_of(uint64_t generation, const void *owner, const char *name)
{
    gantry_profile *profile = enter(generation);
    if (profile == NULL) {
        return 0;
    }
    uint32_t number = 0;
    gy_mutex_lock(&profile->lock);
    for (uint32_t i = 0; i < profile->gpus.count && owner != NULL && number == 0; i++) {
        number = profile->gpus.owners[i] == owner ? i + 1 : 0;
    }
    if (number == 0 && profile->gpus.count < GY_TRACKS_GPUS) {
        snprintf(profile->gpus.names[profile->gpus.count], GY_RING_TRACK_BYTES, "%s", name);
        profile->gpus.owners[profile->gpus.count] = owner;
        number = ++profile->gpus.count;
    }
    gy_mutex_unlock(&profile->lock);
    leave();
    return number;
}

uint32_t gy_profile_add_gpu(uint64_t generation, const char *name)
{
    return gy_profile_gpu_of(generation, NULL, name);
}

void gy_profile_count_lost(uint64_t generation, uint64_t slices)
{
    gantry_profile *profile = enter(generation);
    if (profile != NULL) {
        count_lost(profile, slices);
        leave();
    }
}

static void raise_to(atomic_uint_fast64_t *most, uint64_t value)
{
    uint_fast64_t seen = atomic_load(most);
    while (seen < value && !atomic_compare_exchange_weak(most, &seen, value)) {
    }
}

void gy_profile_note_alignment(uint64_t generation, uint32_t gpu, uint64_t bound_ns)
{
    gantry_profile *profile = enter(generation);
    if (profile != NULL) {
        raise_to(&profile->noted.alignment, bound_ns);
        raise_to(&profile->noted.alignments[gpu - 1], bound_ns);
        leave();
    }
}

static gantry_status session_create(const gantry_profile_options *options, gantry_profile **out)
{
    gantry_profile *profile = gy_zalloc(sizeof(*profile));
    if (profile == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "profile: no memory for a recording");
    }
    profile->sink.emit = sink_emit;
    profile->sink.count = sink_count;
    profile->generation = atomic_fetch_add(&generations, 1) + 1;
    profile->spans = options->spans_per_thread;
    profile->limits =
        (struct gy_cta_limits){options->ctas, options->ctas_per_buffer, options->buffers, options->clock};
    profile->window.first = options->first_step;
    profile->window.count = options->step_count;
    gy_mutex_init(&profile->lock, GY_RANK_PROFILE);
    gantry_status status = gy_cond_init(&profile->work);
    if (status != GANTRY_OK) {
        goto free_profile;
    }
    status = gy_pftrace_open(options->path, options->compress, 2u + 4u * options->encoders,
                             &profile->output.trace);
    if (status != GANTRY_OK) {
        goto fini_cond;
    }
    profile->output.tracks = gy_tracks_create(profile->output.trace);
    if (profile->output.tracks == NULL) {
        status = GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "profile: no memory for tracks");
        goto close_trace;
    }
    profile->output.cta_tracks =
        gy_cta_tracks_create(profile->output.trace, options->ctas, options->encoders);
    if (profile->output.cta_tracks == NULL) {
        status = GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "profile: no memory for tracks");
        goto destroy_tracks;
    }
    profile->forks = gy_thread_forks();
    status = gy_thread_start(&profile->writer, "gantry profile", gy_profile_write, profile);
    if (status != GANTRY_OK) {
        goto destroy_cta_tracks;
    }
    gy_handle_born(GY_HANDLE_PROFILE, profile, sizeof(*profile), sizeof(*profile));
    *out = profile;
    return GANTRY_OK;
destroy_cta_tracks:
    gy_cta_tracks_destroy(profile->output.cta_tracks);
destroy_tracks:
    gy_tracks_destroy(profile->output.tracks);
close_trace:
    (void)gy_pftrace_close(profile->output.trace, NULL); /* the error above is the cause */
fini_cond:
    gy_cond_fini(&profile->work);
free_profile:
    gy_mutex_fini(&profile->lock);
    gy_free(profile);
    return status;
}

static void note_running(const char *path, bool by_environment)
{
    gy_mutex_lock(&window_lock);
    snprintf(running_path, sizeof(running_path), "%s", path);
    begun_by_environment = by_environment;
    gy_mutex_unlock(&window_lock);
}

static gantry_status refuse_second(void)
{
    char path[sizeof(running_path)];
    gy_mutex_lock(&window_lock);
    memcpy(path, running_path, sizeof(path));
    bool by_environment = begun_by_environment;
    gy_mutex_unlock(&window_lock);
    return GY_FAIL(GANTRY_ERR_STATE, "profile: a recording is running already, into %s%s", path,
                   by_environment ? ": $GANTRY_PROFILE began it, and it ends with the last context" : "");
}

gantry_status gantry_profile_start(const gantry_profile_options *options, gantry_profile **out)
{
    return gy_profile_start(options, false, out);
}

gantry_status gy_profile_start(const gantry_profile_options *options, bool by_environment,
                               gantry_profile **out)
{
    gantry_profile_options ours = {0};
    gantry_status status = gy_session_import_options(&ours, options, out);
    if (status != GANTRY_OK) {
        return status;
    }
    int idle = SESSION_IDLE;
    if (!atomic_compare_exchange_strong(&state, &idle, SESSION_STARTING)) {
        return refuse_second();
    }
    note_running(ours.path, by_environment);
    gantry_profile *profile = NULL;
    status = session_create(&ours, &profile);
    if (status != GANTRY_OK) {
        atomic_store(&state, SESSION_IDLE);
        return status;
    }
    gy_nvtx_begin();
    gy_mutex_lock(&window_lock);
    atomic_store(&current, profile);
    if (profile->window.count != 0) {
        atomic_store(&windowed, true);
    } else {
        atomic_store(&generation_now, profile->generation);
        gy_span_set_sink(&profile->sink);
    }
    gy_mutex_unlock(&window_lock);
    *out = profile;
    atomic_store(&state, SESSION_RUNNING);
    return GANTRY_OK;
}

/* When this returns, no thread emits any more, and the writer has ended. */
static void quiesce(gantry_profile *profile)
{
    gy_mutex_lock(&window_lock);
    gy_span_set_sink(NULL);
    atomic_store(&generation_now, 0);
    atomic_store(&windowed, false);
    gy_mutex_unlock(&window_lock);
    profile->unfinished = gy_profile_drain_recorders(profile->generation);
    atomic_store(&current, NULL);
    while (atomic_load(&inside) != 0) { /* these threads never block: see enter() */
        sched_yield();
    }
    gy_mutex_lock(&profile->lock);
    profile->stopping = true;
    gy_cond_signal(&profile->work);
    gy_mutex_unlock(&profile->lock);
    gy_thread_join(&profile->writer);
}

static void session_free(gantry_profile *profile)
{
    while (profile->rings != NULL) {
        struct gy_ring *next = profile->rings->next;
        gy_ring_destroy(profile->rings);
        profile->rings = next;
    }
    gy_cond_fini(&profile->work);
    gy_mutex_fini(&profile->lock);
    gy_handle_free(profile, profile);
}

/* Write the summary: what is not in the trace, and how far the GPU's times may be off. */
static void write_end(gantry_profile *profile, const gantry_profile_stats *stats)
{
    struct gy_pftrace_slice mark = {.category = GY_PFTRACE_CTAS,
                                    .instant = true,
                                    .name = "end",
                                    .begin_ns = gy_clock_ns(),
                                    .argument_count = 7,
                                    .arguments = {{GY_ARGUMENT_LOST, stats->lost},
                                                  {GY_ARGUMENT_CTAS_LOST, stats->ctas_lost},
                                                  {GY_ARGUMENT_ALIGNMENT_NS, stats->gpu_alignment_ns},
                                                  {GY_ARGUMENT_SM_ALIGNMENT_NS, stats->sm_alignment_ns},
                                                  {GY_ARGUMENT_RANGES_LOST, stats->ranges_lost},
                                                  {GY_ARGUMENT_UNFINISHED, stats->gpu_unfinished},
                                                  {GY_ARGUMENT_CTAS_TAKEN, stats->ctas_taken}}};
    mark.end_ns = mark.begin_ns;
    mark.track = gy_pftrace_add_track(profile->output.trace, gy_pftrace_process_track(profile->output.trace),
                                      "recording", 0);
    gy_pftrace_add_slice(profile->output.trace, &mark);
    for (uint32_t gpu = 0; gpu < profile->gpus.count; gpu++) {
        gy_tracks_note_clock(profile->output.tracks, mark.track, profile->gpus.names[gpu],
                             atomic_load(&profile->noted.alignments[gpu]));
    }
}

gantry_status gantry_profile_stop(gantry_profile *profile, gantry_profile_stats *stats)
{
    GY_ACCEPT(PROFILE, profile);
    if (profile == NULL) {
        return GANTRY_OK;
    }
    int running = SESSION_RUNNING;
    if (profile == atomic_load(&current) && profile->forks != gy_thread_forks()) {
        return GY_FAIL(GANTRY_ERR_STATE, "profile: this process was forked: its parent ends the recording");
    }
    if (profile != atomic_load(&current) ||
        !atomic_compare_exchange_strong(&state, &running, SESSION_STOPPING)) {
        return GY_FAIL(GANTRY_ERR_INVALID_ARGUMENT, "profile: not the running recording");
    }
    quiesce(profile);
    gy_nvtx_end();
    gantry_profile_stats ours = {.spans = profile->output.written,
                                 .lost = profile->output.dropped + atomic_load(&profile->noted.lost),
                                 .gpu_alignment_ns = atomic_load(&profile->noted.alignment),
                                 .ctas_lost = atomic_load(&profile->noted.ctas_lost),
                                 .gpu_unfinished = profile->unfinished};
    gy_cta_tracks_stats(profile->output.cta_tracks, &ours);
    for (struct gy_ring *ring = profile->rings; ring != NULL; ring = ring->next) {
        ours.lost += gy_ring_lost(ring);
    }
    write_end(profile, &ours);
    gy_cta_tracks_destroy(profile->output.cta_tracks);
    gy_tracks_destroy(profile->output.tracks);
    gantry_status status = gy_pftrace_close(profile->output.trace, &ours.bytes);
    session_free(profile);
    atomic_store(&state, SESSION_IDLE);
    if (status == GANTRY_OK && ours.lost != 0) {
        gy_log(GANTRY_LOG_WARNING, "profile: %llu slices were lost", (unsigned long long)ours.lost);
    }
    if (status == GANTRY_OK && ours.ctas_lost != 0) {
        gy_log(GANTRY_LOG_WARNING,
               "profile: %llu of %llu blocks are missing (ctas_lost): give the recording "
               "more buffers (GANTRY_PROFILE_OPTIONS=buffers=..., options.buffers)",
               (unsigned long long)ours.ctas_lost, (unsigned long long)(ours.ctas_lost + ours.ctas));
    }
    if (status == GANTRY_OK && ours.ranges_lost != 0) {
        gy_log(GANTRY_LOG_WARNING, "profile: %llu ranges inside blocks are missing (ranges_lost)",
               (unsigned long long)ours.ranges_lost);
    }
    return status == GANTRY_OK && stats != NULL
               ? gy_stats_export(stats, &ours, sizeof(ours), "profile statistics")
               : status;
}
