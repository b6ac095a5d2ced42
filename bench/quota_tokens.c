/* SPDX-License-Identifier: MIT */
#include "bench/quota_tokens.h"

#include "cli/messages.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LIBRARY "libnvidia-ml.so.1"
#define FACTOR 32
#define DIVISOR 2560
#define MOST_SAMPLES 128

/* ---- the use of the device ------------------------------------------------------------------- */

/* The percentage that this process used, by the samples since the last call; -1: no sample is of this
 * process.  Samples of one moment are added up; those of several moments are not. */
static int process_use(struct quota_tokens *t)
{
    struct quota_sample samples[MOST_SAMPLES];
    unsigned count = MOST_SAMPLES, own = (unsigned)getpid(), moments = 0, sum = 0;
    unsigned long long moment = 0;
    if (t->samples(t->device, samples, &count, t->since) != 0) {
        return -1;
    }
    for (unsigned i = 0; i < count && i < MOST_SAMPLES; i++) {
        t->since = samples[i].time_us > t->since ? samples[i].time_us : t->since;
        if (samples[i].pid == own) {
            moments += moments == 0 || samples[i].time_us != moment;
            moment = samples[i].time_us;
            sum += samples[i].sm <= 100 ? samples[i].sm : 0;
        }
    }
    return moments != 0 ? (int)(sum / moments) : -1;
}

static int read_use(struct quota_tokens *t)
{
    struct quota_rates rates;
    int use = process_use(t);
    return use < 0 && t->rates(t->device, &rates) == 0 ? (int)rates.gpu : use;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

int64_t bench_quota_tokens_share(const struct quota_tokens *t, int use)
{
    int64_t step = t->sms * t->sms * t->threads * abs(t->limit - use) / DIVISOR;
    if (use <= t->limit) {
        return t->share + step < t->whole ? t->share + step : t->whole;
    }
    return t->share > step ? t->share - step : 0;
}

void bench_quota_tokens_tick(struct quota_tokens *t)
{
    t->use = read_use(t);
    t->share = bench_quota_tokens_share(t, t->use < 0 ? 0 : t->use); /* below 0: nobody was seen running */
    t->tokens = t->tokens + t->share < t->whole ? t->tokens + t->share : t->whole;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void tick_if_due(struct quota_tokens *t)
{
    uint64_t now = now_ns();
    if (now >= t->next_ns) {
        t->next_ns = now + QUOTA_TICK_NS;
        bench_quota_tokens_tick(t);
    }
}

void bench_quota_tokens_take(struct quota_tokens *t, uint64_t blocks)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    tick_if_due(t);
    while (t->tokens < 0) {
        nanosleep(&pause, NULL);
        tick_if_due(t);
    }
    t->tokens -= (int64_t)blocks;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* POSIX lets dlsym()'s void * be a function's address; ISO C wants it copied. */
static bool bind(void *library, const char *symbol, void *out, size_t bytes)
{
    void *address = dlsym(library, symbol);
    memcpy(out, &address, bytes);
    return address != NULL;
}

/* Bind to the functions; NULL, or the name of one that lacks. */
static const char *bind_all(struct quota_tokens *t)
{
    const char *missing = NULL;
#define X(member, symbol, parameters)                                \
    if (!bind(t->library, #symbol, &t->member, sizeof(t->member))) { \
        missing = #symbol;                                           \
    }
    QUOTA_NVML_FUNCS(X)
#undef X
    return missing;
}

static void uuid_text(const uint8_t b[16], char out[48])
{
    size_t used = (size_t)snprintf(out, 48, "GPU");
    for (size_t i = 0; i < 16; i++) {
        const bool begins = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
        used += (size_t)snprintf(out + used, 48 - used, begins ? "-%02x" : "%02x", b[i]);
    }
}

/* Start NVML and find the device; false, with a line on stderr, when that fails. */
static bool start(struct quota_tokens *t, const gantry_device_info *info)
{
    char uuid[48];
    uuid_text(info->uuid, uuid);
    int result = t->init();
    if (result != 0) {
        cli_error("bench: quota: no yardstick: nvmlInit_v2() says %d", result);
        return false;
    }
    result = t->by_uuid(uuid, &t->device);
    if (result != 0) {
        cli_error("bench: quota: no yardstick: nvmlDeviceGetHandleByUUID(%s) says %d", uuid, result);
        (void)t->shutdown();
    }
    return result == 0;
}

bool bench_quota_tokens_open(struct quota_tokens *out, const gantry_device_info *info, int limit)
{
    memset(out, 0, sizeof(*out));
    out->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    const char *missing = out->library != NULL ? bind_all(out) : NULL;
    if (out->library == NULL || missing != NULL) {
        cli_error("bench: quota: no yardstick: " LIBRARY " %s%s", missing != NULL ? "lacks " : "is not found",
                  missing != NULL ? missing : "");
    }
    if (out->library == NULL || missing != NULL || !start(out, info)) {
        if (out->library != NULL) {
            dlclose(out->library);
        }
        out->library = NULL;
        return false;
    }
    out->limit = limit;
    out->sms = info->total_sms;
    out->threads = info->threads_per_sm;
    out->whole = out->sms * out->threads * FACTOR;
    out->tokens = out->whole;
    out->use = -1;
    out->next_ns = now_ns() + QUOTA_TICK_NS;
    return true;
}

void bench_quota_tokens_close(struct quota_tokens *t)
{
    if (t->library != NULL) {
        (void)t->shutdown();
        dlclose(t->library);
        t->library = NULL;
    }
}
