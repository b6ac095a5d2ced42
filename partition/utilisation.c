#include "partition/utilisation.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FACTOR 32
#define DIVISOR 2560
#define MOST_SAMPLES 128

int64_t gy_utilisation_delta(const struct gy_utilisation *u, int use, int64_t share)
{
    int64_t step = u->sms * u->sms * u->threads * abs(u->limit - use) / DIVISOR;
    if (use <= u->limit) {
        return share + step < u->whole ? share + step : u->whole;
    }
    return share > step ? share - step : 0;
}

/* Percent that this process had, by the samples since the last call; -1: none is of it. */
static int process_use(struct gy_utilisation *u)
{
    struct gy_nvml_sample samples[MOST_SAMPLES];
    unsigned count = MOST_SAMPLES, own = (unsigned)getpid();
    int use = -1;
    if (u->nvml.samples(u->device, samples, &count, u->since) != GY_NVML_SUCCESS) {
        return -1;
    }
    for (unsigned i = 0; i < count && i < MOST_SAMPLES; i++) {
        u->since = samples[i].time_us > u->since ? samples[i].time_us : u->since;
        if (samples[i].pid == own) {
            use = (use > 0 ? use : 0) + (int)(samples[i].sm <= 100 ? samples[i].sm : 0);
        }
    }
    return use;
}

static int read_use(struct gy_utilisation *u)
{
    struct gy_nvml_rates rates;
    int use = process_use(u);
    if (use < 0 && u->nvml.rates(u->device, &rates) == GY_NVML_SUCCESS) {
        use = (int)rates.gpu;
    }
    return use;
}

void gy_utilisation_tick(struct gy_utilisation *u)
{
    int use = read_use(u);
    atomic_store(&u->use, use);
    atomic_fetch_add(&u->ticks, 1);
    if (use < 0) {
        use = 0; /* nothing was seen running */
    }
    u->share = gy_utilisation_delta(u, use, u->share);
    int64_t before = atomic_load(&u->tokens), after;
    do {
        after = before + u->share < u->whole ? before + u->share : u->whole;
    } while (!atomic_compare_exchange_weak(&u->tokens, &before, after));
}

gantry_status gy_utilisation_open(struct gy_utilisation *out, const struct gy_context *context, int limit)
{
    char uuid[64];
    const uint8_t *b = context->info.uuid;
    gantry_status status = gy_nvml_open(&out->nvml);
    if (status != GANTRY_OK) {
        return status;
    }
    snprintf(uuid, sizeof(uuid), "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
             b[15]);
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
    atomic_store(&out->tokens, out->whole);
    atomic_store(&out->use, -1);
    atomic_store(&out->ticks, 0);
    return GANTRY_OK;
}

void gy_utilisation_close(struct gy_utilisation *u)
{
    gy_nvml_close(&u->nvml);
}
