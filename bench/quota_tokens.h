/* SPDX-License-Identifier: MIT */
/* The yardstick of `gantry bench quota`: a limit on launches by what NVML says about the device's use.
 * CUDA_DEVICE_SM_LIMIT is known from this algorithm (HAMi-core, before it vcuda).
 *
 * The device has a pool of tokens, SMs * threads per SM * 32.  Each kernel launch takes as many as it has
 * blocks, however long they run, and waits while the pool is below 0.  Every 120 ms NVML is asked in how much
 * of the time it saw the process on the device.  That changes the share, which is the number of tokens that
 * are given back each time, by
 *
 *     SMs * SMs * threads per SM * |limit - use| / 2560
 *
 * It goes upwards when the use is not above the limit, else downwards.  Then the share is added to the pool.
 * Neither the share nor the pool goes below 0 by this, or above the whole.
 *
 * There are two differences to the original.  The device is found by its UUID, not by its number.  And where
 * NVML does not know this process (within a container it sees other process numbers), the use of the whole
 * device is taken.
 *
 * One thread, which launches, takes the tokens and asks NVML. */
#ifndef BENCH_QUOTA_TOKENS_H
#define BENCH_QUOTA_TOKENS_H

#include <gantry/context.h>

#define QUOTA_TICK_NS 120000000u

typedef struct quota_device_st *quota_device;

/* One sample of one process: the percentage of the sample's time in which it used the unit. */
struct quota_sample {
    unsigned pid;
    unsigned long long time_us;
    unsigned sm, memory, encoder, decoder;
};

/* Such samples of the whole device. */
struct quota_rates {
    unsigned gpu, memory;
};

/* X(member, symbol, parameters): the functions of NVML that are used; each returns 0 or an error number. */
#define QUOTA_NVML_FUNCS(X)                                                                           \
    X(init, nvmlInit_v2, (void))                                                                      \
    X(shutdown, nvmlShutdown, (void))                                                                 \
    X(by_uuid, nvmlDeviceGetHandleByUUID, (const char *uuid, quota_device *out))                      \
    X(samples, nvmlDeviceGetProcessUtilization,                                                       \
      (quota_device device, struct quota_sample * out, unsigned *count, unsigned long long since_us)) \
    X(rates, nvmlDeviceGetUtilizationRates, (quota_device device, struct quota_rates * out))

struct quota_tokens {
    void *library; /* NULL: it is not open */
#define X(member, symbol, parameters) int(*member) parameters;
    QUOTA_NVML_FUNCS(X)
#undef X
    quota_device device;
    int limit;                /* percent */
    int64_t sms, threads;     /* SMs of the device, threads per SM */
    int64_t whole;            /* all tokens of the device */
    int64_t tokens, share;    /* see above */
    unsigned long long since; /* NVML's time of the latest sample, us */
    uint64_t next_ns;         /* when NVML is asked next */
    int use;                  /* percent, when it was asked last; -1: it did not say */
};

/* Open NVML, with a pool that is full; `limit`: 1 to 99.  False, with a line on stderr: it cannot be used. */
bool bench_quota_tokens_open(struct quota_tokens *out, const gantry_device_info *info, int limit);
/* One that is not open is ignored. */
void bench_quota_tokens_close(struct quota_tokens *tokens);

/* Compute the new share. */
int64_t bench_quota_tokens_share(const struct quota_tokens *tokens, int use);

/* Ask NVML, and give tokens back. */
void bench_quota_tokens_tick(struct quota_tokens *tokens);

/* Wait until the pool is not below 0, and take a token for each of the blocks. */
void bench_quota_tokens_take(struct quota_tokens *tokens, uint64_t blocks);

#endif
