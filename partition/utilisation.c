#include "partition/utilisation.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FACTOR 32
#define DIVISOR 2560
#define MOST_SAMPLES 128

static gy_mutex list_lock = {.native = PTHREAD_MUTEX_INITIALIZER, .rank = GY_RANK_LEAF};
static struct gy_utilisation *list; /* guarded by list_lock */

int64_t gy_utilisation_delta(const struct gy_utilisation *u, int use, int64_t share)
{
    int64_t step = u->sms * u->sms * u->threads * abs(u->limit - use) / DIVISOR;
    if (use <= u->limit) {
        return share + step < u->whole ? share + step : u->whole;
    }
    return share > step ? share - step : 0;
}

/* The percentage that this process used, by the samples since the last call; -1: no sample is of this
 * process. Samples of one moment are added up; those of several moments are not. */
static int process_use(struct gy_utilisation *u) GY_REQUIRES(u->lock)
{
    struct gy_nvml_sample samples[MOST_SAMPLES];
    unsigned count = MOST_SAMPLES, own = (unsigned)getpid(), moments = 0, sum = 0;
    unsigned long long moment = 0;
    if (u->nvml.samples(u->device, samples, &count, u->since) != GY_NVML_SUCCESS) {
        return -1;
    }
    for (unsigned i = 0; i < count && i < MOST_SAMPLES; i++) {
        u->since = samples[i].time_us > u->since ? samples[i].time_us : u->since;
        if (samples[i].pid == own) {
            moments += moments == 0 || samples[i].time_us != moment;
            moment = samples[i].time_us;
            sum += samples[i].sm <= 100 ? samples[i].sm : 0;
        }
    }
    return moments != 0 ? (int)(sum / moments) : -1;
}

static int read_use(struct gy_utilisation *u) GY_REQUIRES(u->lock)
{
    struct gy_nvml_rates rates;
    int use = process_use(u);
    if (use < 0 && u->nvml.rates(u->device, &rates) == GY_NVML_SUCCESS) {
        use = (int)rates.gpu;
    }
    return use;
}

static void tick(struct gy_utilisation *u) GY_REQUIRES(u->lock)
{
    int use = read_use(u);
    atomic_store(&u->use, use);
    atomic_fetch_add(&u->ticks, 1);
    if (use < 0) {
        use = 0; /* nobody was seen running */
    }
    u->share = gy_utilisation_delta(u, use, u->share);
    int64_t before = atomic_load(&u->tokens), after;
    do {
        after = before + u->share < u->whole ? before + u->share : u->whole;
    } while (!atomic_compare_exchange_weak(&u->tokens, &before, after));
}

void gy_utilisation_tick(struct gy_utilisation *u)
{
    gy_mutex_lock(&u->lock);
    tick(u);
    gy_mutex_unlock(&u->lock);
}

void gy_utilisation_tick_if_due(struct gy_utilisation *u, uint64_t now_ns)
{
    gy_mutex_lock(&u->lock);
    if (now_ns >= u->next_ns) {
        u->next_ns = now_ns + GY_UTILISATION_TICK_NS -
                     GY_UTILISATION_TICK_NS / 8; /* the clocks of the watchers drift */
        tick(u);
    }
    gy_mutex_unlock(&u->lock);
}

gantry_status gy_utilisation_open(struct gy_utilisation *out, const struct gy_context *context, int limit)
{
    char uuid[GY_UUID_TEXT];
    gantry_status status = gy_nvml_open(&out->nvml);
    if (status != GANTRY_OK) {
        return status;
    }
    gy_uuid_text(context->info.uuid, uuid);
    int result = out->nvml.by_uuid(uuid, &out->device);
    if (result != GY_NVML_SUCCESS) {
        gy_nvml_close(&out->nvml);
        return GY_FAIL(GANTRY_ERR_UNSUPPORTED,
                       "quota_controller \"nvml\": nvmlDeviceGetHandleByUUID(%s) says %d", uuid, result);
    }
    out->limit = limit;
    out->sms = context->info.multiprocessors;
    out->threads = context->info.threads_per_multiprocessor;
    out->whole = out->sms * out->threads * FACTOR;
    out->share = 0;
    out->since = 0;
    out->next_ns = 0;
    gy_mutex_init(&out->lock, GY_RANK_LEAF);
    atomic_store(&out->tokens, out->whole);
    atomic_store(&out->use, -1);
    atomic_store(&out->ticks, 0);
    return GANTRY_OK;
}

void gy_utilisation_close(struct gy_utilisation *u)
{
    gy_mutex_fini(&u->lock);
    gy_nvml_close(&u->nvml);
}

/* ---- one controller for all contexts of a device ---------------------------------------------- */

static gantry_status make_locked(const struct gy_context *context, int limit, struct gy_utilisation **out)
{
    struct gy_utilisation *u = gy_zalloc(sizeof(*u));
    if (u == NULL) {
        return GY_FAIL(GANTRY_ERR_OUT_OF_HOST_MEMORY, "no memory for the process's share of GPU time");
    }
    gantry_status status = gy_utilisation_open(u, context, limit);
    if (status != GANTRY_OK) {
        gy_free(u);
        return status;
    }
    u->driver = context->driver;
    u->ordinal = context->info.ordinal;
    u->next = list;
    list = u;
    *out = u;
    return GANTRY_OK;
}

/* The lock is held while NVML starts, so that it starts once. */
gantry_status gy_utilisation_join(const struct gy_context *context, int limit, struct gy_utilisation **out)
{
    gantry_status status = GANTRY_OK;
    gy_mutex_lock(&list_lock);
    struct gy_utilisation *u = list;
    while (u != NULL && (u->driver != context->driver || u->ordinal != context->info.ordinal)) {
        u = u->next;
    }
    if (u == NULL) {
        status = make_locked(context, limit, &u);
    } else if (u->limit != limit) {
        gy_log(GANTRY_LOG_WARNING,
               "CUDA_DEVICE_SM_LIMIT is %d now; the process keeps the %d of its first context on device %d",
               limit, u->limit, context->info.ordinal);
    }
    if (status == GANTRY_OK) {
        u->users++;
        *out = u;
    }
    gy_mutex_unlock(&list_lock);
    return status;
}

void gy_utilisation_leave(struct gy_utilisation *u)
{
    if (u == NULL) {
        return;
    }
    gy_mutex_lock(&list_lock);
    bool last = --u->users == 0;
    struct gy_utilisation **link = &list;
    while (last && *link != u) {
        link = &(*link)->next;
    }
    if (last) {
        *link = u->next;
        gy_utilisation_close(u);
        gy_free(u);
    }
    gy_mutex_unlock(&list_lock);
}
