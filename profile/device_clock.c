/* SPDX-License-Identifier: MIT */
/* Host and device: the host writes its time into page-locked memory again and again.  A kernel of one thread
 * answers with what it read there and with its own time.  Each answer bounds the clocks' difference from both
 * sides, and all are intersected (gpu_clock.h).  The remaining error is half of the way of a read's answer,
 * and of its question or of a write, whichever is shorter, over the bus.  A recording begins with several
 * such comparisons, which are intersected, too.  The rate comes from a comparison at most some seconds ago.
 * It decides how soon the next comparison is needed: at first after a millisecond or so, then less and less
 * often.
 *
 * SMs: there are two kernels, whose blocks have one thread.  `compare_sms` measures how far the SMs' readings
 * of %globaltimer lie apart (sm_clock.h), once per recording.  `saturate` reads each SM's own clock together
 * with %globaltimer, before and after each batch, for recordings whose blocks read the former. */
#include "profile/device_clock.h"

#include "base/alloc.h"
#include "base/clock.h"

#include "profile_kernels.kernels.h"

#include <sched.h>
#include <string.h>

#define ROUNDS 64u
#define LINES 32u                  /* places for the host's time in the mailbox */
#define LINE_WORDS 512u            /* words from one place to the next */
#define TRIES_FIRST 8u             /* comparisons at the begin of a recording, if there is time */
#define ROUNDS_PATIENCE (1u << 22) /* how often the kernel looks at the host's time */
#define ENOUGH 4u                  /* answers that are enough when the GPU was cut short */
#define SHOWN 8192u                /* the latest times that the host has shown; a power of two */
#define SM_ROUNDS 64u
#define HOST_YIELD_NS 20000u
#define AGE_LEAST_NS 500000u
#define AGE_MOST_NS 100000000u
#define REFERENCE_NS 5000000000u /* rates change slowly: compared over this time, and twice it at most */
#define CLOCK_RETRY_NS 20000000u

/* The memory through which host and device exchange times; it is page-locked. */
struct gy_clock_mailbox {
    struct {
        _Atomic(uint64_t) ns; /* the host's time; UINT64_MAX: end */
        uint64_t unused[LINE_WORDS - 1];
    } host[LINES];         /* only one of them is used */
    uint32_t steps[LINES]; /* the time of a read of each line */
    _Atomic(uint64_t) asked[ROUNDS], heard[ROUNDS];
    _Atomic(uint64_t) answers[ROUNDS + 1];
    struct gy_sm_sample samples[]; /* SM_ROUNDS samples for each SM */
};

void gy_device_clock_init(struct gy_device_clock *clock, struct gy_context *context)
{
    clock->context = context;
    gy_mutex_init(&clock->lock, GY_RANK_LEAF);
}

static uint32_t sample_room(const struct gy_device_clock *clock)
{
    return (uint32_t)clock->context->info.total_sms * SM_ROUNDS;
}

static gantry_status load_kernels(struct gy_device_clock *clock)
{
    gantry_status status = GANTRY_OK;
    if (clock->module == NULL) {
        status = gy_module_load(clock->context, &gantry_image_profile_kernels, &clock->module);
    }
    if (status == GANTRY_OK) {
        status = gy_module_kernel(clock->module, "exchange_times", &clock->exchange);
    }
    if (status == GANTRY_OK) {
        status = gy_module_kernel(clock->module, "time_reads", &clock->reads);
    }
    if (status == GANTRY_OK) {
        status = gy_module_kernel(clock->module, "compare_sms", &clock->compare);
    }
    return status != GANTRY_OK ? status : gy_module_kernel(clock->module, "saturate", &clock->saturate);
}

gantry_status gy_device_clock_open(struct gy_device_clock *clock)
{
    struct gy_context *context = clock->context;
    int least, greatest;
    void *mailbox = NULL;
    size_t bytes = sizeof(*clock->mailbox) + sample_room(clock) * sizeof(struct gy_sm_sample);
    clock->room = 2 * (uint32_t)context->info.total_sms;
    clock->room = clock->room < GY_SMS ? clock->room : GY_SMS;
    gantry_status status = GY_CALL(context, cuCtxGetStreamPriorityRange(&least, &greatest));
    if (status == GANTRY_OK && clock->stream == NULL) {
        status = gy_context_create_stream(context, NULL, greatest, &clock->stream);
    }
    if (status == GANTRY_OK && clock->done == NULL) {
        status = GY_CALL(context, cuEventCreate(&clock->done, CU_EVENT_DISABLE_TIMING));
    }
    if (status == GANTRY_OK && clock->mailbox == NULL) {
        status = GY_CALL(context, cuMemHostAlloc(&mailbox, bytes, 0));
        clock->mailbox = mailbox;
        if (status == GANTRY_OK) {
            memset(mailbox, 0, sizeof(*clock->mailbox));
        }
    }
    if (status == GANTRY_OK && clock->shown == NULL) {
        clock->shown = gy_zalloc_array(SHOWN, sizeof(*clock->shown));
        status = clock->shown != NULL ? GANTRY_OK : GANTRY_ERR_OUT_OF_HOST_MEMORY;
    }
    if (status == GANTRY_OK && clock->counter == 0) {
        status = GY_CALL(context, cuMemAlloc(&clock->counter, sizeof(uint32_t)));
    }
    if (status == GANTRY_OK) {
        status = GY_CALL(context, cuMemHostGetDevicePointer(&clock->mailbox_device, clock->mailbox, 0));
    }
    return status != GANTRY_OK ? status : load_kernels(clock);
}

/* ---- host and device --------------------------------------------------------------------------- */

/* No work is under way on the clock's stream. */
static bool is_idle(struct gy_device_clock *clock)
{
    CUresult last = clock->context->driver->cuEventQuery(clock->done);
    if (last != CUDA_SUCCESS && last != CUDA_ERROR_NOT_READY) {
        (void)gy_context_check(clock->context, last, "cuEventQuery(clock)", __FILE__, __LINE__);
    }
    return last == CUDA_SUCCESS;
}

static void wait_a_little(uint64_t since_ns, uint64_t now_ns)
{
    if (now_ns - since_ns > HOST_YIELD_NS) {
        sched_yield();
    } else {
        gy_cpu_relax();
    }
}

/* Launch the kernel with an empty mailbox. */
static bool launch_exchange(struct gy_device_clock *clock)
{
    struct gy_context *context = clock->context;
    struct gy_clock_mailbox *mailbox = clock->mailbox;
    atomic_store(&mailbox->host[clock->line].ns, 0);
    for (uint32_t i = 0; i <= ROUNDS; i++) {
        atomic_store(&mailbox->asked[i % ROUNDS], 0);
        atomic_store(&mailbox->heard[i % ROUNDS], 0);
        atomic_store(&mailbox->answers[i], 0);
    }
    CUdeviceptr host = clock->mailbox_device + offsetof(struct gy_clock_mailbox, host) +
                       clock->line * sizeof(mailbox->host[0]),
                asked = clock->mailbox_device + offsetof(struct gy_clock_mailbox, asked),
                heard = clock->mailbox_device + offsetof(struct gy_clock_mailbox, heard),
                answers = clock->mailbox_device + offsetof(struct gy_clock_mailbox, answers);
    uint32_t rounds = ROUNDS, patience = ROUNDS_PATIENCE;
    void *args[] = {&host, &asked, &heard, &answers, &rounds, &patience};
    return GY_CALL(context, cuLaunchKernel(clock->exchange->function, 1, 1, 1, 1, 1, 1, 0, clock->stream,
                                           args, NULL)) == GANTRY_OK &&
           GY_CALL(context, cuEventRecord(clock->done, clock->stream)) == GANTRY_OK;
}

/* The time at which `shown` was surely no longer there to be read: the next time that was shown has been seen
 * by all when its exchange has ended, and the one after that was read then.  0: it is not known.  `count`
 * times have been shown so far. */
static uint64_t end_of(const uint64_t *times, uint64_t count, uint64_t shown)
{
    uint64_t low = count > SHOWN ? count - SHOWN : 0, high = count;
    while (low < high) { /* the first time that is not earlier */
        uint64_t middle = low + (high - low) / 2;
        if (times[middle % SHOWN] < shown) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool found = low + 2 < count && times[low % SHOWN] == shown && times[(low + 1) % SHOWN] != shown;
    return found ? times[(low + 2) % SHOWN] : 0;
}

/* Exchange times with the kernel; returns how many answers came, and the clock's step (0: not all came). */
static uint32_t exchange_all(struct gy_device_clock *clock, uint64_t begin, uint64_t deadline,
                             struct gy_gpu_exchange *exchanges, uint64_t *tick_ns)
{
    struct gy_clock_mailbox *mailbox = clock->mailbox;
    _Atomic(uint64_t) *host = &mailbox->host[clock->line].ns;
    uint32_t done = 0;
    uint64_t now, latest = begin, shown = 0;
    *tick_ns = 0;
    while (done <= ROUNDS && (now = gy_clock_ns()) < deadline) {
        atomic_exchange(host, now);
        clock->shown[shown++ % SHOWN] = now;
        uint64_t answer = atomic_load_explicit(&mailbox->answers[done], memory_order_acquire);
        if (answer == 0) {
            if (now - latest > HOST_YIELD_NS) {
                sched_yield();
            }
            continue;
        }
        latest = gy_clock_ns();
        if (done < ROUNDS) {
            exchanges[done] =
                (struct gy_gpu_exchange){.before_ns = begin, .gpu_ns = answer, .after_ns = latest};
        } else {
            *tick_ns = answer;
        }
        done++;
    }
    atomic_store(host, UINT64_MAX);
    done = done < ROUNDS ? done : ROUNDS;
    for (uint32_t i = 0; i < done;
         i++) { /* where it has not arrived yet, the time of the launch is good enough */
        uint64_t heard = atomic_load(&mailbox->heard[i]);
        exchanges[i].before_ns = heard != 0 ? heard : begin;
        exchanges[i].until_ns = end_of(clock->shown, shown, heard);
        exchanges[i].asked_ns = exchanges[i].until_ns != 0 ? atomic_load(&mailbox->asked[i]) : 0;
    }
    return done;
}

/* Wait for the work on the clock's stream; false: it has not ended by `deadline_ns`. */
static bool wait_until_idle(struct gy_device_clock *clock, uint64_t deadline_ns)
{
    uint64_t begin = gy_clock_ns(), now = begin;
    bool idle = is_idle(clock);
    while (!idle && now < deadline_ns && !gy_context_is_lost(clock->context)) {
        wait_a_little(begin, now);
        idle = is_idle(clock);
        now = gy_clock_ns();
    }
    return idle;
}

/* The time of a read of page-locked memory differs by a quarter from line to line, since it depends on where
 * in the GPU the address is handled.  Find the line that is read soonest. */
static void choose_line(struct gy_device_clock *clock, uint64_t deadline_ns)
{
    struct gy_context *context = clock->context;
    struct gy_clock_mailbox *mailbox = clock->mailbox;
    CUdeviceptr host = clock->mailbox_device + offsetof(struct gy_clock_mailbox, host),
                steps = clock->mailbox_device + offsetof(struct gy_clock_mailbox, steps);
    uint32_t lines = LINES, words = LINE_WORDS;
    void *args[] = {&host, &lines, &words, &steps};
    memset(mailbox->steps, 0xff, sizeof(mailbox->steps));
    if (!is_idle(clock) ||
        GY_CALL(context, cuLaunchKernel(clock->reads->function, 1, 1, 1, 1, 1, 1, 0, clock->stream, args,
                                        NULL)) != GANTRY_OK ||
        GY_CALL(context, cuEventRecord(clock->done, clock->stream)) != GANTRY_OK ||
        !wait_until_idle(clock, deadline_ns)) {
        return;
    }
    for (uint32_t i = 0; i < LINES; i++) {
        clock->line = mailbox->steps[i] < mailbox->steps[clock->line] ? i : clock->line;
    }
    clock->chosen = true;
}

/* Compare now; false: the GPU does not answer in time, or an earlier kernel has not even begun. */
static bool meet(struct gy_device_clock *clock, uint64_t deadline_ns, struct gy_gpu_clock *out)
{
    struct gy_gpu_exchange exchanges[ROUNDS];
    uint64_t begin = gy_clock_ns(), tick_ns;
    if (gy_context_is_lost(clock->context) || !is_idle(clock) || !launch_exchange(clock)) {
        return false;
    }
    uint32_t done = exchange_all(clock, begin, deadline_ns, exchanges, &tick_ns);
    tick_ns = tick_ns != 0 ? tick_ns : 1024;
    return done >= ENOUGH && gy_gpu_clock_meet(exchanges, done, tick_ns, out);
}

/* Make `now` the latest comparison, of recording `generation`. */
static void adopt(struct gy_device_clock *clock, uint64_t generation, struct gy_gpu_clock now)
    GY_REQUIRES(clock->lock)
{
    struct gy_gpu_clock *reference = clock->reference, met = now;
    bool known = reference[0].bound_ns != 0 && now.gpu_ns - reference[1].gpu_ns < 4 * REFERENCE_NS;
    if (known) {
        gy_gpu_clock_compare(&now, &reference[0]);
    }
    if (clock->generation == generation && !gy_gpu_clock_follow(&now, &clock->latest)) {
        known = false; /* the rate has changed */
        now = met;
    }
    if (!known) {
        reference[0] = reference[1] = now;
    } else if (now.gpu_ns - reference[1].gpu_ns > REFERENCE_NS) {
        reference[0] = reference[1];
        reference[1] = now;
    }
    clock->generation = generation;
    clock->latest = now;
}

/* Compare up to `tries` times; each comparison makes the latest one better known. */
static void compare_often(struct gy_device_clock *clock, uint64_t generation, uint64_t patience_ns,
                          uint32_t tries)
{
    uint64_t begin = gy_clock_ns(), now_ns = begin;
    if (begin < clock->retry_ns) {
        return;
    }
    if (!clock->chosen) {
        choose_line(clock, begin + patience_ns / 4);
    }
    uint32_t met = 0;
    bool goes_on = true;
    for (uint32_t i = 0; i < tries && goes_on && now_ns - begin <= patience_ns / 2; i++) {
        struct gy_gpu_clock now;
        goes_on =
            (i == 0 || wait_until_idle(clock, begin + patience_ns)) && meet(clock, begin + patience_ns, &now);
        if (goes_on) {
            gy_mutex_lock(&clock->lock);
            adopt(clock, generation, now);
            gy_mutex_unlock(&clock->lock);
            met++;
        }
        now_ns = gy_clock_ns();
    }
    clock->retry_ns = met != 0 ? 0 : now_ns + CLOCK_RETRY_NS;
}

void gy_device_clock_compare(struct gy_device_clock *clock, uint64_t generation, uint64_t patience_ns)
{
    gy_mutex_lock(&clock->lock);
    uint64_t age = gy_gpu_clock_age(&clock->latest) / 2, now_ns = gy_clock_ns(); /* an eighth of the bound */
    age = age < AGE_LEAST_NS ? AGE_LEAST_NS : age > AGE_MOST_NS ? AGE_MOST_NS : age;
    bool first = clock->generation != generation;
    bool recent = !first && now_ns - clock->latest.host_ns < age;
    bool mine = !clock->measuring && !recent;
    clock->measuring = clock->measuring || mine;
    gy_mutex_unlock(&clock->lock);
    if (!mine) {
        return;
    }
    compare_often(clock, generation, patience_ns, first ? TRIES_FIRST : 1);
    gy_mutex_lock(&clock->lock);
    clock->measuring = false;
    gy_mutex_unlock(&clock->lock);
}

struct gy_gpu_clock gy_device_clock_latest(struct gy_device_clock *clock, uint64_t generation)
{
    gy_mutex_lock(&clock->lock);
    struct gy_gpu_clock latest = clock->latest;
    if (clock->generation != generation) {
        latest.bound_ns = 0;
    }
    gy_mutex_unlock(&clock->lock);
    return latest;
}

/* ---- the SMs ----------------------------------------------------------------------------------- */

static void set_offsets(struct gy_device_clock *clock, uint32_t count, uint64_t generation)
{
    gy_mutex_lock(&clock->lock);
    clock->offset_count = count;
    clock->offsets_generation = generation;
    gy_mutex_unlock(&clock->lock);
}

uint32_t gy_device_clock_offsets(struct gy_device_clock *clock, uint64_t generation,
                                 const struct gy_sm_offset **out)
{
    gy_mutex_lock(&clock->lock);
    const bool are_known = clock->offsets_generation == generation;
    const uint32_t count = are_known ? clock->offset_count : 0;
    *out = are_known ? clock->offsets : NULL;
    gy_mutex_unlock(&clock->lock);
    return count;
}

void gy_device_clock_compare_sms(struct gy_device_clock *clock, uint64_t generation, uint64_t patience_ns)
{
    struct gy_context *context = clock->context;
    uint32_t sms = (uint32_t)context->info.total_sms, rounds = SM_ROUNDS, room = sample_room(clock);
    set_offsets(clock, 0, 0); /* a batch of an earlier recording may come back late */
    if (clock->offsets == NULL) {
        clock->offsets = gy_zalloc_array(GY_SMS, sizeof(*clock->offsets));
    }
    uint64_t deadline_ns = gy_clock_ns() + patience_ns;
    if (clock->offsets == NULL || !wait_until_idle(clock, deadline_ns)) { /* the exchange is about to end */
        return;
    }
    CUdeviceptr samples = clock->mailbox_device + offsetof(struct gy_clock_mailbox, samples);
    memset(clock->mailbox->samples, 0, room * sizeof(clock->mailbox->samples[0]));
    void *args[] = {&clock->counter, &samples, &rounds, &room};
    if (GY_CALL(context, cuMemsetD8Async(clock->counter, 0, sizeof(uint32_t), clock->stream)) != GANTRY_OK ||
        GY_CALL(context, cuLaunchKernel(clock->compare->function, sms, 1, 1, 1, 1, 1, 0, clock->stream, args,
                                        NULL)) != GANTRY_OK ||
        GY_CALL(context, cuEventRecord(clock->done, clock->stream)) != GANTRY_OK) {
        return;
    }
    if (wait_until_idle(clock, deadline_ns)) {
        set_offsets(clock, gy_sm_offsets(clock->mailbox->samples, room, clock->offsets), generation);
    }
}

size_t gy_device_clock_anchor_bytes(const struct gy_device_clock *clock)
{
    return (clock->room + (size_t)1) * sizeof(struct gy_sm_anchor);
}

gantry_status gy_device_clock_saturate(struct gy_device_clock *clock, CUstream stream, CUdeviceptr anchors)
{
    uint32_t sms = (uint32_t)clock->context->info.total_sms, room = clock->room;
    void *args[] = {&anchors, &sms, &room};
    return GY_CALL(clock->context,
                   cuLaunchKernel(clock->saturate->function, 2 * sms, 1, 1, 1, 1, 1, 0, stream, args, NULL));
}

/* ---- end --------------------------------------------------------------------------------------- */

void gy_device_clock_fini(struct gy_device_clock *clock)
{
    struct gy_context *context = clock->context;
    if (clock->done != NULL) {
        (void)GY_CALL(context, cuEventSynchronize(clock->done));
        (void)GY_CALL(context, cuEventDestroy(clock->done));
    }
    gy_module_unload(clock->module);
    if (clock->mailbox != NULL) {
        (void)GY_CALL(context, cuMemFreeHost(clock->mailbox));
    }
    if (clock->counter != 0) {
        (void)GY_CALL(context, cuMemFree(clock->counter));
    }
    if (clock->stream != NULL) {
        (void)GY_CALL(context, cuStreamDestroy(clock->stream));
    }
    gy_free(clock->offsets);
    gy_free(clock->shown);
    gy_mutex_fini(&clock->lock);
}
